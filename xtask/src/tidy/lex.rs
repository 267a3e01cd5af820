//! Tells Rust code, comments and strings apart, line by line, without parsing.

/// One file taken apart. `code` and `comments` have the lines and columns of the original, with
/// everything else blanked out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lexed {
    pub(super) code: String,
    pub(super) comments: String,
    /// String literals as written between the quotes, with their line, from 1.
    pub(super) strings: Vec<(usize, String)>,
}

/// What a stretch of text is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Text,
}

/// Takes a Rust source apart.
pub(super) fn lex(text: &str) -> Lexed {
    let mut lexed = Lexed::default();
    let mut rest = text;
    let mut line = 1;
    let mut previous = ' ';
    while let Some(first) = rest.chars().next() {
        let (kind, length, quotes) = next(rest, previous);
        let piece = &rest[..length];
        if kind == Kind::Text {
            let inner = piece.get(quotes.0..length - quotes.1).unwrap_or_default();
            lexed.strings.push((line, inner.to_owned()));
        }
        push(&mut lexed.code, piece, kind == Kind::Code);
        push(&mut lexed.comments, piece, kind == Kind::Comment);
        line += piece.matches('\n').count();
        previous = if kind == Kind::Code { piece.chars().last().unwrap_or(first) } else { ' ' };
        rest = &rest[length..];
    }
    lexed
}

fn push(target: &mut String, piece: &str, keep: bool) {
    if keep {
        target.push_str(piece);
    } else {
        target.extend(piece.chars().map(|each| if each == '\n' { '\n' } else { ' ' }));
    }
}

/// Kind and length of the next piece, and the lengths of its opening and closing quotes.
fn next(rest: &str, previous: char) -> (Kind, usize, (usize, usize)) {
    if rest.starts_with("//") {
        return (Kind::Comment, rest.find('\n').unwrap_or(rest.len()), (0, 0));
    }
    if rest.starts_with("/*") {
        return (Kind::Comment, block_comment(rest), (0, 0));
    }
    let in_word = previous.is_alphanumeric() || previous == '_';
    if !in_word && let Some((open, length, close)) = string(rest) {
        return (Kind::Text, length, (open, close));
    }
    if rest.starts_with('\'')
        && let Some(length) = character(rest)
    {
        return (Kind::Text, length, (1, 1));
    }
    (Kind::Code, rest.chars().next().map_or(1, char::len_utf8), (0, 0))
}

fn block_comment(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < bytes.len() {
        match &bytes[at..at + 2] {
            b"/*" => (depth, at) = (depth + 1, at + 2),
            b"*/" if depth == 1 => return at + 2,
            b"*/" => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

/// Lengths of opening quote, whole literal and closing quote, of any string form.
fn string(rest: &str) -> Option<(usize, usize, usize)> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['"', '#']))
    })?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let raw = prefix.ends_with('r');
    if !after[hashes..].starts_with('"') || (hashes > 0 && !raw) {
        return None;
    }
    let open = prefix.len() + hashes + 1;
    let body = &rest[open..];
    let length = if raw {
        let close = format!("\"{}", "#".repeat(hashes));
        body.find(&close).unwrap_or(body.len())
    } else {
        unescaped_quote(body)
    };
    let total = (open + length + hashes + 1).min(rest.len());
    Some((open, total, (total - open).min(hashes + 1)))
}

fn unescaped_quote(body: &str) -> usize {
    let mut escaped = false;
    for (index, each) in body.char_indices() {
        match each {
            '"' if !escaped => return index,
            _ => escaped = each == '\\' && !escaped,
        }
    }
    body.len()
}

/// Length of a character literal; none for a lifetime.
fn character(rest: &str) -> Option<usize> {
    let mut inner = rest[1..].char_indices();
    let (_, first) = inner.next()?;
    if first == '\\' {
        inner.next()?;
        return rest[1..]
            .char_indices()
            .skip(2)
            .find(|(_, each)| *each == '\'')
            .map(|(at, _)| at + 2);
    }
    let (at, second) = inner.next()?;
    (second == '\'').then_some(at + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_comments_and_strings_are_told_apart() {
        let source =
            "let a = \"x // y\"; // unsafe\n/* a /* b */ fn */ let c = 'x'; let d: &'a str;";
        let lexed = lex(source);
        assert_eq!(lexed.code.lines().count(), 2);
        assert_eq!(lexed.code.lines().next().unwrap().trim_end(), "let a =         ;");
        assert!(lexed.comments.contains("// unsafe") && !lexed.comments.contains("// y"));
        assert!(lexed.code.contains("&'a str") && !lexed.code.contains("fn"));
        assert_eq!(lexed.strings, [(1, "x // y".to_owned()), (2, "x".to_owned())]);
    }

    #[test]
    fn odd_literals_are_read_whole() {
        let cases = [
            ("r#\"a \"b\" c\"# x", "a \"b\" c"),
            ("b\"\\\"\" x", "\\\""),
            ("'\\'' x", "\\'"),
            ("'\\u{1F980}' x", "\\u{1F980}"),
            ("'\"' x", "\""),
            ("\"\" x", ""),
            ("br##\"#\"# \"## x", "#\"# "),
        ];
        for (source, inner) in cases {
            let lexed = lex(source);
            assert_eq!(lexed.strings, [(1, inner.to_owned())], "{source}");
            assert_eq!(lexed.code.trim(), "x", "{source}");
        }
    }

    #[test]
    fn what_looks_like_a_literal_and_is_none_stays_code() {
        for source in ["r#fn", "<'a, 'b>", "for 'outer", "var\u{e9}"] {
            assert_eq!(lex(source).code, source);
        }
        assert_eq!(lex("\"open").strings.len(), 1);
        assert_eq!(lex("/* open").code.trim(), "");
    }
}
