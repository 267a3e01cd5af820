//! The real program end to end: replayed model, real NVRTC, real children, simulator, SQLite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod crashes;
mod demo;
mod hostile;
mod program;
mod ranking;
mod scaffold;
mod simulate;
mod task_files;
mod usage;
