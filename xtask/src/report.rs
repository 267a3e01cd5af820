//! Prints: results to standard output, complaints to standard error.

use std::io::Write;

/// One line to standard output. A closed pipe is nobody's fault.
pub(crate) fn say(text: &str) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// One line to standard error.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}
