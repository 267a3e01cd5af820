//! Reads the assembler's errors and traces their PTX lines back to the source by `.loc`.

use super::diagnostic;
use crate::nvrtc::{Diagnostic, Severity};

const PLACED: &str = "ptxas application ptx input, line ";

/// `ptxas application ptx input, line 25; error   : text` or `ptxas error   : text`.
pub(super) fn read(line: &str, ptx: &str) -> Option<Diagnostic> {
    let rest = line.strip_prefix("ptxas ")?;
    let (ptx_line, rest) = match line.strip_prefix(PLACED) {
        Some(placed) => {
            let (number, rest) = placed.split_once(';')?;
            (Some(number.trim().parse::<usize>().ok()?), rest.trim_start())
        }
        None => (None, rest),
    };
    let (word, message) = rest.split_once(':')?;
    let severity = match word.trim() {
        "error" => Severity::Error,
        // The closing line repeats that there were errors.
        "fatal" if !message.contains("aborted due to errors") => Severity::Error,
        "warning" => Severity::Warning,
        _ => return None,
    };
    let message = format!("ptxas: {}", message.trim());
    let mut found = diagnostic(severity, "", None, &message);
    if let Some(number) = ptx_line {
        place(&mut found, number, ptx);
    }
    Some(found)
}

fn place(found: &mut Diagnostic, number: usize, ptx: &str) {
    let lines: Vec<&str> = ptx.lines().collect();
    let Some(text) = number.checked_sub(1).and_then(|index| lines.get(index)) else { return };
    found.excerpt = text.trim().to_owned();
    let before = lines[..number].iter().rev();
    let Some((file, line)) = before.map_while(|line| inside(line)).find_map(location) else {
        return;
    };
    let prefix = format!(".file\t{file} \"");
    let name = lines.iter().find_map(|line| line.trim_start().strip_prefix(prefix.as_str()));
    if let Some(name) = name {
        found.file = name.split('"').next().unwrap_or_default().to_owned();
        found.line = Some(line);
    }
}

/// Stops at the start of the function: a location before it belongs to another one.
fn inside(line: &str) -> Option<&str> {
    (line.trim_end() != "{").then_some(line)
}

/// `.loc 1 2 2` gives file 1, line 2.
fn location(line: &str) -> Option<(u32, u32)> {
    let mut words = line.trim_start().strip_prefix(".loc")?.split_whitespace();
    Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}
