//! Text from outside as a person or a model may see it: nothing that hides, reorders or escapes.

use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Writes out, as `\u{1b}`, what [`hides`]. Carriage returns before a newline go.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        if hides(c) {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Control characters but newline and tab, and characters without a shape: zero-width ones,
/// byte-order marks, tags, separators of lines, and those that change the direction of text.
#[must_use]
pub fn hides(c: char) -> bool {
    !"\n\t".contains(c) && (c.is_control() || SHAPELESS.iter().any(|range| range.contains(&c)))
}

/// Unicode's `Default_Ignorable_Code_Point`, the controls of direction among them, separators of
/// lines and paragraphs, and marks of annotations.
const SHAPELESS: &[RangeInclusive<char>] = &[
    '\u{ad}'..='\u{ad}',
    '\u{34f}'..='\u{34f}',
    '\u{61c}'..='\u{61c}',
    '\u{115f}'..='\u{1160}',
    '\u{17b4}'..='\u{17b5}',
    '\u{180b}'..='\u{180f}',
    '\u{200b}'..='\u{200f}',
    '\u{2028}'..='\u{202e}',
    '\u{2060}'..='\u{206f}',
    '\u{3164}'..='\u{3164}',
    '\u{fe00}'..='\u{fe0f}',
    '\u{feff}'..='\u{feff}',
    '\u{ffa0}'..='\u{ffa0}',
    '\u{fff0}'..='\u{fffb}',
    '\u{1bca0}'..='\u{1bca3}',
    '\u{1d173}'..='\u{1d17a}',
    '\u{e0000}'..='\u{e0fff}',
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{hides, visible};

    #[test]
    fn what_has_no_shape_is_written_out() {
        let hostile = "\u{feff}a\u{1b}[31mb\u{202e}c\u{200b}d\u{9b}\te\0\r\n\r\u{e0041}";
        let shown = r"\u{feff}a\u{1b}[31mb\u{202e}c\u{200b}d\u{9b}";
        assert_eq!(visible(hostile), format!("{shown}\te{}\n{}", r"\u{0}", r"\u{d}\u{e0041}"));
        assert_eq!(visible("äß→ 1 ± 2"), "äß→ 1 ± 2");
    }

    /// From DerivedCoreProperties.txt of Unicode 16 (`Default_Ignorable_Code_Point`),
    /// PropList.txt (`Bidi_Control`), and the general categories Cc, Zl and Zp.
    const HIDING: &str = "0-8 B-1F 7F-9F AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F \
        202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A \
        E0000-E0FFF 2028-2029 FFF9-FFFB";

    #[test]
    fn what_hides_is_what_unicode_says() {
        let code = |text: &str| u32::from_str_radix(text, 16).unwrap();
        let ranges: Vec<_> = HIDING
            .split_whitespace()
            .map(|range| range.split_once('-').unwrap_or((range, range)))
            .map(|(first, last)| code(first)..=code(last))
            .collect();
        for c in '\0'..=char::MAX {
            let listed = ranges.iter().any(|range| range.contains(&u32::from(c)));
            assert_eq!(hides(c), listed, "{:x}", u32::from(c));
        }
    }

    proptest! {
        #[test]
        fn nothing_without_a_shape_is_left(text in "\\PC{0,20}[\0-\u{9f}\u{200b}-\u{206f}]{0,20}") {
            let shown = visible(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() && !"\n\t".contains(c)));
            prop_assert_eq!(visible(&shown), shown.clone());
            prop_assert_eq!(shown == text, !text.contains(hides));
        }
    }
}
