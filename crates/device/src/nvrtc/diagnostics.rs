//! Reads the compiler's log: front-end messages, assembler messages, names that name no kernel.
//!
//! A front-end message is `file(line): error: text`, then the source line and a caret, then an
//! empty line. An assembler message names a line of the PTX, which is traced back to the source.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::PathBuf;

use super::program::SOURCE_FOLDER;
use super::{Diagnostic, KernelResources, Severity};
use crate::limits::{
    DIAGNOSTICS_MAX, DIAGNOSTICS_SCANNED_MAX, EXCERPT_BYTES_MAX, MESSAGE_BYTES_MAX, head,
};

mod assembler;
mod names;

/// How the compiler begins to say that it could not open a file that is included.
const OPENING: [&str; 2] = ["cannot open source file \"", "could not open source file \""];
/// What stands for a message about a file that is not the candidate's.
const OTHER_FILE: &str = "a file outside the source was included";
/// Static shared memory that every device has; beyond it a compile may fail without a word.
const STATIC_SHARED_BYTES_COMMON: u32 = 48 << 10;

/// The log without timings, with short paths, so that it is the same everywhere, and without what
/// it quotes of other files of this machine. What a terminal would obey is still in it.
pub(super) fn tidy(log: &str, include_dirs: &[PathBuf]) -> String {
    let kept: Vec<&str> = log
        .lines()
        .filter(|line| !line.starts_with("ptxas info    : Compile time"))
        .filter(|line| !line.starts_with("Remark: The warnings can be suppressed"))
        .collect();
    let kept: Vec<_> = kept.into_iter().map(without_cause).collect();
    without_others(&shorten_paths(&kept.join("\n"), include_dirs))
}

/// A file that cannot be included, without why: whether it is missing or only closed would tell
/// which files this machine has.
fn without_cause(line: &str) -> Cow<'_, str> {
    let parts = front_end(line).and_then(|_| {
        let (before, rest) = OPENING.iter().find_map(|words| line.split_once(words))?;
        Some((before, rest.rsplit_once('"')?.0))
    });
    match parts {
        Some((before, name)) => format!("{before}cannot open source file \"{name}\"").into(),
        None => line.into(),
    }
}

/// The compiler quotes the text of any file that a source includes. This is done before anything is
/// capped: what comes first must not keep it from what comes later.
fn without_others(log: &str) -> String {
    let mut kept: Vec<String> = Vec::new();
    let mut hidden = false;
    for line in log.lines() {
        let found = front_end(line);
        if let Some(found) = found.as_ref().filter(|found| !is_own_file(&found.file)) {
            hidden = true;
            let word = match found.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Note => "note",
            };
            kept.push(format!("{word}: {OTHER_FILE}"));
            continue;
        }
        hidden &= !(found.is_some() || line.starts_with("ptxas "));
        if !hidden {
            kept.push(line.to_owned());
        }
    }
    kept.join("\n")
}

/// True for the source itself, for headers from memory, and for CUDA's own; a path that climbs out
/// of their folder is none of these.
fn is_own_file(file: &str) -> bool {
    let in_cuda = file.starts_with("<cuda>/") && !file.split('/').any(|part| part == "..");
    in_cuda || !file.contains('/')
}

/// Replaces the folders of the toolchain by `<cuda>`, and the source's made-up folder by nothing.
pub(super) fn shorten_paths(text: &str, include_dirs: &[PathBuf]) -> String {
    let mut folders: Vec<String> =
        include_dirs.iter().map(|folder| folder.display().to_string()).collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.len()));
    let mut text = text.to_owned();
    for folder in folders {
        text = text.replace(&format!("{folder}/"), "<cuda>/");
    }
    // Headers may have made-up names in there.
    text.replace(SOURCE_FOLDER, "")
}

/// All diagnostics of a tidied log: errors first, capped, without repetitions.
pub(super) fn parse(log: &str, source: &str, ptx: &str) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let mut lines = log.lines().peekable();
    while let Some(line) = lines.next() {
        if found.len() == DIAGNOSTICS_SCANNED_MAX {
            break;
        }
        if let Some(diagnostic) = assembler::read(line, ptx) {
            found.push(diagnostic);
        } else if let Some(mut diagnostic) = front_end(line) {
            let mut excerpt = Vec::new();
            while let Some(next) = lines.next_if(|next| !next.is_empty() && !starts_message(next)) {
                excerpt.push(next);
            }
            diagnostic.excerpt = excerpt.join("\n");
            found.push(diagnostic);
        }
    }
    capped(names::merge(found, source))
}

fn starts_message(line: &str) -> bool {
    front_end(line).is_some() || line.starts_with("ptxas ")
}

/// `kernel.cu(3): error: text`, `kernel.cu(3): warning #177-D: text`, `error: text`.
fn front_end(line: &str) -> Option<Diagnostic> {
    const WORDS: [(&str, Severity); 7] = [
        ("catastrophic error", Severity::Error),
        ("internal error", Severity::Error),
        ("command-line error", Severity::Error),
        ("error", Severity::Error),
        ("warning", Severity::Warning),
        ("remark", Severity::Note),
        ("note", Severity::Note),
    ];
    if line.starts_with(' ') || line.starts_with("ptxas ") {
        return None;
    }
    let (place, rest) = match line.split_once("): ") {
        Some((place, rest)) if place.contains('(') => (Some(place), rest),
        _ => (None, line.strip_prefix("nvrtc: ").unwrap_or(line)),
    };
    let (word, severity) = WORDS.into_iter().find(|(word, _)| rest.starts_with(word))?;
    let (code, message) = rest[word.len()..].split_once(": ")?;
    if !(code.is_empty() || code.starts_with(" #")) {
        return None;
    }
    let (file, line) = match place.and_then(|place| place.rsplit_once('(')) {
        Some((file, line)) => (file, Some(line.parse().ok()?)),
        None => ("", None),
    };
    Some(diagnostic(severity, file, line, message))
}

fn diagnostic(severity: Severity, file: &str, line: Option<u32>, message: &str) -> Diagnostic {
    Diagnostic {
        severity,
        file: file.to_owned(),
        line,
        message: message.to_owned(),
        excerpt: String::new(),
    }
}

fn capped(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let mut seen = HashSet::new();
    found.retain(|each| {
        seen.insert((each.severity, each.file.clone(), each.line, each.message.clone()))
    });
    found.sort_by_key(|each| each.severity);
    found.truncate(DIAGNOSTICS_MAX);
    for each in &mut found {
        each.message = head(&each.message, MESSAGE_BYTES_MAX);
        each.excerpt = head(&each.excerpt, EXCERPT_BYTES_MAX);
    }
    found
}

/// Adds an error where the compiler failed and gave none: it does so for too much shared memory.
pub(super) fn explain_silence(found: &mut Vec<Diagnostic>, resources: &[KernelResources]) {
    if found.iter().any(|each| each.severity == Severity::Error) {
        return;
    }
    let greedy =
        resources.iter().find(|each| each.static_shared_bytes > STATIC_SHARED_BYTES_COMMON);
    let message = match greedy {
        Some(kernel) => format!(
            "kernel `{}` declares {} bytes of static shared memory, more than a block can have; \
             use less, or dynamic shared memory (`extern __shared__`)",
            kernel.kernel, kernel.static_shared_bytes
        ),
        None => "the compiler failed without saying why".to_owned(),
    };
    found.insert(0, diagnostic(Severity::Error, "", None, &message));
}

#[cfg(test)]
mod tests;
