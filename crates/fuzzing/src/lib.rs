//! What fuzzers call: each reader of untrusted bytes, with what must hold of it.
//!
//! A target takes any bytes and must neither panic nor take much memory or time; where reading
//! succeeds it also checks what reading promises. The tests of this crate run every target on its
//! kept corpus and on seeded changes of it; `cargo fuzz` searches further (see `docs/fuzzing.md`).
//! Start at [`TARGETS`].

mod child;
mod code;
mod model;
mod task;

/// A target by name.
#[derive(Clone, Copy)]
pub struct Target {
    /// Of its corpus folder, and of its program under `fuzz/`.
    pub name: &'static str,
    pub run: fn(&[u8]),
}

/// Every target.
pub const TARGETS: [Target; 8] = [
    Target { name: "reply", run: model::reply },
    Target { name: "plan", run: task::plan },
    Target { name: "expression", run: task::expression },
    Target { name: "task_files", run: task::files },
    Target { name: "child_report", run: child::report },
    Target { name: "compiler_log", run: code::log },
    Target { name: "ptx", run: code::ptx },
    Target { name: "provider", run: model::provider },
];

/// Longest input that a target looks at, in bytes: longer ones are cut by who reads them.
pub const INPUT_BYTES_MAX: usize = 64 << 10;

/// The target of this name.
#[must_use]
pub fn target(name: &str) -> Option<Target> {
    TARGETS.into_iter().find(|target| target.name == name)
}
