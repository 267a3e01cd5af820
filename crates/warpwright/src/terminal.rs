//! The only place that writes to standard output and standard error.

#![allow(clippy::print_stdout, reason = "this is the terminal")]

use std::io::Write;

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

/// One line of at most the usual width, control characters removed.
pub(crate) fn one_line(text: &str) -> String {
    let flat: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if flat.chars().count() <= LINE_CHARS_MAX {
        return flat;
    }
    flat.chars().take(LINE_CHARS_MAX - 1).chain(['…']).collect()
}

/// Text for a terminal: control characters but newline and tab removed.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || "\n\t".contains(*c)).collect()
}
