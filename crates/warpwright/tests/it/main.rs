//! The real program end to end: replayed model, real NVRTC, real children, simulator, SQLite.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod batches;
mod budgets;
mod catalogue;
mod claims;
mod closing;
mod compile_attacks;
mod config;
mod confinement;
mod crashes;
mod cut_sets;
mod demo;
mod doctor;
mod folder;
mod gpu;
mod hidden;
mod hostile;
mod includes;
mod jsonl;
mod live;
mod living;
mod memory;
mod models;
mod night;
mod persuasion;
mod private_files;
mod program;
mod ranking;
mod report;
mod reviews;
mod scaffold;
mod second_night;
mod server;
mod simulate;
mod survey;
mod task_files;
mod trouble;
mod usage;
