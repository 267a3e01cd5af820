//! The only place that writes to standard output and standard error.

#![allow(clippy::print_stdout, reason = "this is the terminal")]

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use pipeline::visible::visible;

use crate::limits::LINE_CHARS_MAX;

/// True once output was lost for another reason than a reader that went away.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// True once the reader of standard output went away.
static READER_GONE: AtomicBool = AtomicBool::new(false);

/// Prints a line. A reader that went away (a closed pipe) is no error; a full disk is, and is
/// reported when the program ends.
pub(crate) fn line(text: &str) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = writeln!(out, "{text}").and_then(|()| out.flush()) {
        let gone = error.kind() == std::io::ErrorKind::BrokenPipe;
        let flag = if gone { &READER_GONE } else { &OUTPUT_LOST };
        flag.store(true, Ordering::SeqCst);
    }
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
    let _ = writeln!(std::io::stderr(), "error: {text}");
}

/// Prints a remark that does not belong to the result.
pub(crate) fn note(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// One line of visible characters; cut to a readable width where a person watches.
pub(crate) fn one_line(text: &str) -> String {
    let flat = visible(text).replace(['\n', '\t'], " ");
    if !std::io::stdout().is_terminal() || flat.chars().count() <= LINE_CHARS_MAX {
        return flat.trim_end().to_owned();
    }
    flat.chars().take(LINE_CHARS_MAX - 1).chain(['…']).collect()
}

/// Text for a terminal.
pub(crate) fn plain(text: &str) -> String {
    visible(text)
}
