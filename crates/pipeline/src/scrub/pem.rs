//! Private keys in PEM: whole ones, and what is left of one that was cut off.
//!
//! A kernel may say in a comment where one begins. Only what can belong to a key is taken, so that
//! nobody hides the rest of a text that way.

use super::Spot;
use super::forms::leading;
use crate::limits::PEM_BYTES_MAX;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
/// A key's line that is cut off, or goes on with other text, has so many characters at least.
const LINE_START_MIN: usize = 16;
/// What lines between may begin with beside the key itself.
const HEADERS: [&str; 5] = ["Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:"];

const PRIVATE_KEY: &str = "what looks like a private key";

/// Every block that holds a private key, with its first and last line.
pub(super) fn private_keys(text: &str, spots: &mut Vec<Spot<'static>>) {
    let mut from = 0;
    while let Some(start) = text[from..].find(BEGIN).map(|at| from + at) {
        let title = start + BEGIN.len();
        let body = title + mark(&text[title..]);
        from = body;
        if text[title..body].contains("PRIVATE KEY") {
            from = body + whole(&text[body..]).unwrap_or_else(|| cut_off(&text[body..]));
            spots.push((start..from, PRIVATE_KEY));
        }
    }
}

/// The title behind `BEGIN` or `END`, with the marks behind it, in bytes.
fn mark(text: &str) -> usize {
    let title = leading(text, |c| !c.is_control() && c != '-').len();
    title + leading(&text[title..], |c| c == '-').len()
}

/// The length up to the end of the block, where nothing stands between that is no part of a key: a
/// comment's or a string's marks may.
fn whole(body: &str) -> Option<usize> {
    let body = &body[..body.floor_char_boundary(PEM_BYTES_MAX)];
    let end = body.find(END)?;
    let good =
        |c: char| c.is_ascii_alphanumeric() || c.is_whitespace() || "+/=-:,\\\"'*#>".contains(c);
    body[..end].chars().all(good).then(|| end + END.len() + mark(&body[end + END.len()..]))
}

/// The length of the lines that can belong to a key; a line may end with a written-out `\n`.
fn cut_off(body: &str) -> usize {
    let body = &body[..body.floor_char_boundary(PEM_BYTES_MAX)];
    let (mut from, mut end) = (0, 0);
    for line in body.split_inclusive('\n').flat_map(|line| line.split_inclusive("\\n")) {
        let text = line.strip_suffix("\\n").unwrap_or(line).trim_end();
        if !is_of_key(text.trim_start()) {
            let start = leading(line, is_base64).len();
            return if start >= LINE_START_MIN { from + start } else { end };
        }
        end = from + text.len();
        from += line.len();
    }
    end
}

fn is_of_key(line: &str) -> bool {
    HEADERS.iter().any(|header| line.starts_with(header)) || line.chars().all(is_base64)
}

fn is_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/=".contains(c)
}
