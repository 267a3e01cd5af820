//! TOML errors in one line: where, and what.

/// `line N: message` for an error in `text`.
#[must_use]
pub(crate) fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = error.message().lines().collect::<Vec<_>>().join("; ");
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            format!("line {}: {message}", before.lines().count().max(1) + newline_at_end(before))
        }
        None => message,
    }
}

/// A position right after a newline is on the next line.
fn newline_at_end(text: &str) -> usize {
    usize::from(text.ends_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn the_line_and_the_message_are_kept() {
        for (text, expected) in [
            ("a = 1\nb = [", "line 2: "),
            ("a = 1\n\na = 2", "line 3: duplicate key"),
            ("= 1", "line 1: "),
        ] {
            let error = toml::from_str::<toml::Table>(text).unwrap_err();
            let line = one_line(&error, text);
            assert!(line.starts_with(expected) && !line.contains('\n'), "{line}");
        }
    }
}
