//! Private keys in PEM: whole ones, and what is left of one that was cut off.
//!
//! A kernel may say in a comment where one begins. Only what can belong to a key is taken, so that
//! nobody hides the rest of a text that way.

use super::Spot;
use super::forms::leading;
use crate::limits::PEM_BYTES_MAX;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
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
    let mut end = 0;
    let mut from = 0;
    while from < body.len().min(PEM_BYTES_MAX) {
        let rest = &body[from..];
        let breaks = [rest.find('\n').map(|at| (at, 1)), rest.find("\\n").map(|at| (at, 2))];
        let (length, ending) = breaks.into_iter().flatten().min().unwrap_or((rest.len(), 0));
        if !is_of_key(rest[..length].trim()) {
            break;
        }
        end = from + rest[..length].trim_end().len();
        from += length + ending;
    }
    end
}

fn is_of_key(line: &str) -> bool {
    HEADERS.iter().any(|header| line.starts_with(header))
        || line.chars().all(|c| c.is_ascii_alphanumeric() || "+/=".contains(c))
}
