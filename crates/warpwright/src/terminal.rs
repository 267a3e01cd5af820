//! The only place that writes to standard output and standard error.

#![allow(clippy::print_stdout, reason = "this is the terminal")]

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pipeline::visible::{hides, visible};
use rustix::termios::tcgetwinsize;

use crate::limits::LINE_CHARS_MAX;
use crate::live::Size;
use crate::{detach, environment};

/// True once output was lost for another reason than a reader that went away.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// True once the reader of standard output went away.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// The lines below everything else that are rewritten in place.
static LIVE: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Prints a line of visible characters, whoever wrote them. A reader that went away (a closed pipe)
/// is no error; a full disk is, and is reported when the program ends.
pub(crate) fn line(text: &str) {
    print(&visible(text));
}

/// Prints a value as one line of JSON, where everything that hides is escaped.
pub(crate) fn json(value: &serde_json::Value) {
    print(&escaped(&value.to_string()));
}

/// Prints a file as it stands.
pub(crate) fn file(text: &str) {
    print(text);
}

/// In JSON, what hides can only be inside a string, and serde leaves most as it is.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        if hides(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                text.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            text.push(c);
        }
    }
    text
}

fn print(text: &str) {
    let live = live();
    write_out(&format!("{}{text}\n{}", erased(&live), drawn(&live)));
}

/// Puts other live lines in the place of those before; none at all takes them away. Each must be
/// narrower than the window.
pub(crate) fn set_live(lines: Vec<String>) {
    let mut live = live();
    if *live != lines {
        write_out(&format!("{}{}", erased(&live), drawn(&lines)));
        *live = lines;
    }
}

fn live() -> MutexGuard<'static, Vec<String>> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The cursor waits where the first live line begins: wherever a resize moves that, everything
/// from there on is live. The rest is erased from the next row on, since some terminals keep what
/// is erased from their very first place on.
fn erased(live: &[String]) -> &'static str {
    if live.is_empty() { "" } else { "\r\x1b[K\x1b7\x1b[B\x1b[J\x1b8" }
}

fn drawn(live: &[String]) -> String {
    match live.len() {
        0 => String::new(),
        1 => format!("{}\r", live[0]),
        rows => format!("{}\r\x1b[{}A", live.join("\r\n"), rows - 1),
    }
}

fn write_out(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        let gone = error.kind() == std::io::ErrorKind::BrokenPipe;
        let flag = if gone { &READER_GONE } else { &OUTPUT_LOST };
        flag.store(true, Ordering::SeqCst);
    }
    detach::rotate_if_full();
}

/// True where a person watches a terminal that can rewrite lines.
pub(crate) fn rewrites_lines() -> bool {
    std::io::stdout().is_terminal() && environment::wants_live_lines()
}

/// The window; a usual one where nobody knows.
pub(crate) fn size() -> Size {
    let found = tcgetwinsize(std::io::stdout()).ok();
    let known = found.filter(|size| size.ws_row > 0 && size.ws_col > 0);
    known.map_or(Size { rows: 24, cols: 80 }, |size| Size {
        rows: size.ws_row.into(),
        cols: size.ws_col.into(),
    })
}

/// True when what is printed reaches nobody.
pub(crate) fn reader_is_gone() -> bool {
    READER_GONE.load(Ordering::SeqCst)
}

/// True when the output is incomplete.
pub(crate) fn output_lost() -> bool {
    OUTPUT_LOST.load(Ordering::SeqCst)
}

/// Prints an error.
pub(crate) fn error(text: &str) {
    note(&format!("error: {text}"));
}

/// Prints a remark that does not belong to the result.
pub(crate) fn note(text: &str) {
    let live = live();
    if !live.is_empty() {
        write_out(erased(&live));
    }
    let _ = writeln!(std::io::stderr(), "{}", visible(text));
    if !live.is_empty() {
        write_out(&drawn(&live));
    }
}

/// One line of visible characters; cut to a readable width where a person watches.
pub(crate) fn one_line(text: &str) -> String {
    let flat = visible(text).replace(['\n', '\t'], " ");
    if !std::io::stdout().is_terminal() || flat.chars().count() <= LINE_CHARS_MAX {
        return flat.trim_end().to_owned();
    }
    flat.chars().take(LINE_CHARS_MAX - 1).chain(['…']).collect()
}

/// `1 attempt`, `2 attempts`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Text for a terminal.
pub(crate) fn plain(text: &str) -> String {
    visible(text)
}

#[cfg(test)]
mod tests {
    use pipeline::visible::hides;
    use serde_json::json;

    use super::{counted, escaped};

    #[test]
    fn one_is_no_plural() {
        let said = [0, 1, 2].map(|count| counted(count, "attempt"));
        assert_eq!(said, ["0 attempts", "1 attempt", "2 attempts"]);
    }

    #[test]
    fn nothing_that_hides_reaches_a_terminal_through_json() {
        let value = json!({ "a": "x\u{9b}31m\u{1b}[0m\u{7f}ä\n\u{202e}b\u{200b}\u{e0041}" });
        let text = escaped(&value.to_string());
        assert!(!text.chars().any(|c| c.is_control() || hides(c)), "{text:?}");
        assert!(text.ends_with(r#"\u202eb\u200b\udb40\udc41"}"#), "{text}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&text).unwrap(), value);
    }
}
