//! Text from outside as a person or a model may see it: nothing that hides, reorders or escapes.

/// Removes control characters but newline and tab, and characters without a shape: zero-width ones,
/// byte-order marks, and those that change the direction of text.
#[must_use]
pub fn visible(text: &str) -> String {
    text.chars().filter(|c| "\n\t".contains(*c) || !(c.is_control() || is_shapeless(*c))).collect()
}

fn is_shapeless(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::visible;

    #[test]
    fn only_what_has_a_shape_stays() {
        let hostile = "\u{feff}a\u{1b}[31mb\u{202e}c\u{200b}d\u{9b}\te\n\u{e0041}";
        assert_eq!(visible(hostile), "a[31mbcd\te\n");
        assert_eq!(visible("äß→ 1 ± 2"), "äß→ 1 ± 2");
    }
}
