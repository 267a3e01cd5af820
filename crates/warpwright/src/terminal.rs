//! The only place that writes to standard output and standard error.

#![allow(clippy::print_stdout, reason = "this is the terminal")]

use std::io::{IsTerminal, Write};

use crate::limits::LINE_CHARS_MAX;

/// Prints a line. A reader that went away (a closed pipe) is no error.
pub(crate) fn line(text: &str) {
    let _ = writeln!(std::io::stdout(), "{text}");
}

/// Prints an error.
pub(crate) fn error(text: &str) {
    let _ = writeln!(std::io::stderr(), "error: {text}");
}

/// Prints a remark that does not belong to the result.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// One line, control characters removed; cut to a readable width where a person watches.
pub(crate) fn one_line(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if !std::io::stdout().is_terminal() || flat.chars().count() <= LINE_CHARS_MAX {
        return flat.trim_end().to_owned();
    }
    flat.chars().take(LINE_CHARS_MAX - 1).chain(['…']).collect()
}

/// Text for a terminal: control characters but newline and tab removed.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || "\n\t".contains(*c)).collect()
}
