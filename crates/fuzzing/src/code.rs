//! What a compiler makes of hostile source: its log and its PTX.

use ptx_sim::Program;
use ptx_sim::syntax::{self, FunctionKind};

/// More diagnostics, or kernels, than a log gives.
const FOUND_MAX: usize = 1_024;
/// Entries that are decoded of one module.
const ENTRIES_MAX: usize = 16;

/// A log of the compiler beside a source and its PTX.
pub(crate) fn log(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let source = text.lines().rev().collect::<Vec<_>>().join("\n");
    let (diagnostics, kernels) = device::nvrtc::read_log(&text, &source, &text);
    let found = diagnostics.len().max(kernels.len());
    assert!(found <= FOUND_MAX, "{found}");
}

/// PTX: whatever is parsed is decoded for each entry, or refused by name.
pub(crate) fn ptx(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let Ok(module) = syntax::parse(&text) else { return };
    let entries = module.functions.iter().filter(|it| it.kind == FunctionKind::Entry);
    for entry in entries.take(ENTRIES_MAX) {
        if let Err(error) = Program::decode(&module, &[&entry.name]) {
            assert!(!error.to_string().is_empty());
        }
    }
}
