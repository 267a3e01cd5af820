//! Text from outside as a person or a model may see it: nothing that hides, reorders or escapes.

use std::fmt::Write as _;

/// Writes out, as `\u{1b}`, control characters but newline and tab, and characters without a
/// shape: zero-width ones, byte-order marks, tags, and those that change the direction of text.
/// Carriage returns before a newline go.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        if c == '\r' && rest.peek() == Some(&'\n') {
            continue;
        }
        if "\n\t".contains(c) || !(c.is_control() || is_shapeless(c)) {
            shown.push(c);
        } else {
            let _ = write!(shown, "\\u{{{:x}}}", u32::from(c));
        }
    }
    shown
}

fn is_shapeless(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180e}' | '\u{3164}' | '\u{feff}')
        || matches!(c, '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{ffa0}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{is_shapeless, visible};

    #[test]
    fn what_has_no_shape_is_written_out() {
        let hostile = "\u{feff}a\u{1b}[31mb\u{202e}c\u{200b}d\u{9b}\te\0\r\n\r\u{e0041}";
        let shown = r"\u{feff}a\u{1b}[31mb\u{202e}c\u{200b}d\u{9b}";
        assert_eq!(visible(hostile), format!("{shown}\te{}\n{}", r"\u{0}", r"\u{d}\u{e0041}"));
        assert_eq!(visible("äß→ 1 ± 2"), "äß→ 1 ± 2");
    }

    proptest! {
        #[test]
        fn nothing_without_a_shape_is_left(text in "\\PC{0,20}[\0-\u{9f}\u{200b}-\u{206f}]{0,20}") {
            let shown = visible(&text);
            prop_assert!(!shown.chars().any(|c| c.is_control() && !"\n\t".contains(c)));
            prop_assert_eq!(visible(&shown), shown.clone());
            let hides = |c: char| !"\n\t".contains(c) && (c.is_control() || is_shapeless(c));
            prop_assert_eq!(shown == text, !text.contains(hides));
        }
    }
}
