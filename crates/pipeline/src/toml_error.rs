//! TOML errors in one line: where, and what.

/// `line N: message` for an error in `text`.
#[must_use]
pub fn one_line(error: &toml::de::Error, text: &str) -> String {
    let message = in_words(error.message());
    let message = message.lines().collect::<Vec<_>>().join("; ");
    match error.span() {
        Some(span) => {
            let before = text.get(..span.start).unwrap_or(text);
            format!("line {}: {message}", before.lines().count().max(1) + newline_at_end(before))
        }
        None => message,
    }
}

/// Names of Rust, and what they are to people.
const WORDS: [(&str, &str); 12] = [
    ("expected u8", "expected a whole number of 0 or more"),
    ("expected u16", "expected a whole number of 0 or more"),
    ("expected u32", "expected a whole number of 0 or more"),
    ("expected u64", "expected a whole number of 0 or more"),
    ("expected usize", "expected a whole number of 0 or more"),
    ("expected i32", "expected a whole number"),
    ("expected i64", "expected a whole number"),
    ("expected f64", "expected a number"),
    ("expected a sequence", "expected a list in [ ]"),
    ("expected a map", "expected a table"),
    ("floating point", "the number"),
    ("invalid type: map,", "invalid type: a table, a date or a time without quotes,"),
];

/// A message of the reader in the words of people.
#[must_use]
pub fn in_words(message: &str) -> String {
    let mut text = message.to_owned();
    for (rust, people) in WORDS {
        text = text.replace(rust, people);
    }
    // The name of a type, as in `expected struct RunFile`.
    for kind in ["struct ", "internally tagged enum ", "enum "] {
        let expected = format!("expected {kind}");
        while let Some(at) = text.find(&expected) {
            let name = text[at + expected.len()..].chars().take_while(|c| c.is_alphanumeric());
            let end = at + expected.len() + name.map(char::len_utf8).sum::<usize>();
            text.replace_range(at..end, "expected a table");
        }
    }
    text
}

/// A position right after a newline is on the next line.
fn newline_at_end(text: &str) -> usize {
    usize::from(text.ends_with('\n'))
}

#[cfg(test)]
mod tests {
    use super::{in_words, one_line};

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

    #[test]
    fn no_name_of_rust_is_shown() {
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct File {
            count: Option<u32>,
            share: Option<f64>,
            names: Option<Vec<String>>,
            until: Option<String>,
            inner: Option<Inner>,
        }
        #[derive(Debug, PartialEq, serde::Deserialize)]
        struct Inner {}
        for (text, part) in [
            ("count = 1.5", "expected a whole number of 0 or more"),
            ("count = \"x\"", "expected a whole number of 0 or more"),
            ("share = \"x\"", "expected a number"),
            ("names = \"x\"", "expected a list in [ ]"),
            ("until = 07:30:00", "a time without quotes"),
            ("inner = 1", "expected a table"),
        ] {
            let error = toml::from_str::<File>(text).unwrap_err();
            let words = in_words(error.message());
            assert!(words.contains(part), "{text}: {words}");
            for rust in ["struct", "u32", "f64", "sequence", "map", "Inner"] {
                assert!(!words.contains(rust), "{text}: {words}");
            }
        }
    }
}
