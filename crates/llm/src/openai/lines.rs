//! Server-sent events as servers send them, made regular: whole lines, one kind of line end, valid
//! UTF-8, nothing but data. What the data mean is not known here.

use crate::limits::BODY_BYTES_MAX;

/// A piece ends with the line in which it becomes so long, in bytes.
const PIECE_BYTES: usize = 2 << 10;

/// Turns pieces of a stream into regular lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// The start of a line whose end has not come.
    open: Vec<u8>,
    /// The last piece ended in a carriage return, whose newline may follow.
    after_return: bool,
    /// The marker of the end has come.
    pub(super) is_done: bool,
}

/// What a piece brought.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Regular {
    pub(super) bytes: Vec<u8>,
    /// There is content in it, not only comments.
    pub(super) has_data: bool,
}

/// A line that is longer than any answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooLong;

impl Lines {
    /// The lines that `piece` completes.
    pub(super) fn feed(&mut self, piece: &[u8]) -> Result<Regular, TooLong> {
        let mut found = Regular::default();
        let mut rest = piece;
        if std::mem::take(&mut self.after_return) {
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            self.open.extend_from_slice(&rest[..end]);
            let line = std::mem::take(&mut self.open);
            self.line(&line, &mut found);
            let is_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.after_return = is_return && rest.is_empty();
            if is_return {
                rest = rest.strip_prefix(b"\n").unwrap_or(rest);
            }
        }
        self.open.extend_from_slice(rest);
        if self.open.len() > BODY_BYTES_MAX { Err(TooLong) } else { Ok(found) }
    }

    /// What is left when the stream ends, closed as an event.
    pub(super) fn end(&mut self) -> Regular {
        let mut found = Regular::default();
        let line = std::mem::take(&mut self.open);
        self.line(&line, &mut found);
        found.bytes.extend_from_slice(b"\n\n");
        found
    }

    fn line(&mut self, line: &[u8], found: &mut Regular) {
        let text = String::from_utf8_lossy(line);
        let text = text.trim_start_matches('\u{feff}');
        if text.is_empty() {
            found.bytes.push(b'\n');
        } else if let Some(data) = text.strip_prefix("data:") {
            let data = data.trim();
            if data.is_empty() {
                return;
            }
            self.is_done |= data == "[DONE]";
            found.has_data = true;
            found.bytes.extend_from_slice(format!("data: {data}\n").as_bytes());
        } else if let Some(error) = text.strip_prefix("error:") {
            // Older llama.cpp has a field of its own for errors.
            found.has_data = true;
            let event = format!("data: {{\"error\": {}}}\n\n", error.trim());
            found.bytes.extend_from_slice(event.as_bytes());
        }
    }
}

/// Regular lines in pieces of a few lines each: the reader of events copies what follows each line
/// of a piece, and takes minutes over a long one.
pub(super) fn pieces(regular: &[u8]) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    let mut rest = regular;
    while !rest.is_empty() {
        let start = rest.len().min(PIECE_BYTES);
        let line_end = rest[start - 1..].iter().position(|byte| *byte == b'\n');
        let (piece, tail) = rest.split_at(line_end.map_or(rest.len(), |at| start + at));
        found.push(piece.to_vec());
        rest = tail;
    }
    found
}

/// True for a body that is made of events, though nothing beside it says so.
pub(super) fn is_events(body: &[u8]) -> bool {
    let body = body.strip_prefix("\u{feff}".as_bytes()).unwrap_or(body).trim_ascii_start();
    ["data:", "event:", "id:", "retry:", "error:", ":"]
        .iter()
        .any(|field| body.starts_with(field.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::{BODY_BYTES_MAX, Lines, PIECE_BYTES, TooLong, is_events, pieces};

    /// What comes out of `text` in pieces of so many bytes.
    fn regular(text: &[u8], piece_bytes: usize) -> String {
        let mut lines = Lines::default();
        let mut found = Vec::new();
        for piece in text.chunks(piece_bytes) {
            found.extend(lines.feed(piece).unwrap().bytes);
        }
        found.extend(lines.end().bytes);
        String::from_utf8(found).unwrap()
    }

    #[test]
    fn every_form_of_a_stream_becomes_regular_however_it_is_cut() {
        for (text, expected) in [
            ("data: {\"a\":1}\n\n", "data: {\"a\":1}\n\n\n\n\n"),
            ("data:1\r\n\r\ndata:2\r\n\r\n", "data: 1\n\ndata: 2\n\n\n\n\n"),
            ("data:1\r\rdata:2\r\r", "data: 1\n\ndata: 2\n\n\n\n\n"),
            ("data: ä→\n", "data: ä→\n\n\n\n"),
            ("data:\n\ndata: {\ndata: }\n\n", "\ndata: {\ndata: }\n\n\n\n\n"),
            (": a comment\nevent: x\nid: 4\nretry: 1\ndata: 1", "data: 1\n\n\n"),
            ("\u{feff}data: 1", "data: 1\n\n\n"),
            ("error: {\"code\":500}\n", "data: {\"error\": {\"code\":500}}\n\n\n\n\n"),
            ("", "\n\n\n"),
        ] {
            for piece_bytes in [1, 2, 3, 1_000] {
                assert_eq!(regular(text.as_bytes(), piece_bytes), expected, "{piece_bytes}");
            }
        }
        assert_eq!(regular(b"data: \xff\n", 3), "data: \u{fffd}\n\n\n\n");
    }

    #[test]
    fn only_data_are_content_and_the_end_is_seen() {
        for (text, has_data, is_done) in [
            (": OPENROUTER PROCESSING\n\n", false, false),
            ("data:\n\n", false, false),
            ("data: 1\n\n", true, false),
            ("data:[DONE]\n\n", true, true),
        ] {
            let mut lines = Lines::default();
            assert_eq!(lines.feed(text.as_bytes()).unwrap().has_data, has_data, "{text}");
            assert_eq!(lines.is_done, is_done, "{text}");
        }
    }

    #[test]
    fn pieces_are_whole_lines() {
        let long = format!("data: {}\n", "x".repeat(3 * PIECE_BYTES));
        for (text, count) in [
            (String::new(), 0),
            ("\n\n\n".to_owned(), 1),
            ("data: 1\n\n".repeat(PIECE_BYTES), 10),
            (long.repeat(2), 2),
            ("no line end".repeat(PIECE_BYTES), 1),
        ] {
            let found = pieces(text.as_bytes());
            assert_eq!(found.concat(), text.as_bytes());
            let whole = found.iter().rev().skip(1).all(|piece| piece.ends_with(b"\n"));
            assert!(whole && found.len().abs_diff(count) <= 1, "{} pieces", found.len());
        }
    }

    #[test]
    fn a_line_without_end_is_not_kept_for_ever() {
        let mut lines = Lines::default();
        assert!(lines.feed(&vec![b'x'; BODY_BYTES_MAX]).is_ok());
        assert_eq!(lines.feed(b"x"), Err(TooLong));
    }

    #[test]
    fn events_are_known_by_their_fields() {
        for (body, expected) in [
            ("data: 1", true),
            ("\n\ndata:1", true),
            (": hello", true),
            ("\u{feff}event: x", true),
            ("{\"data\": 1}", false),
            ("<html>", false),
            ("", false),
        ] {
            assert_eq!(is_events(body.as_bytes()), expected, "{body}");
        }
    }
}
