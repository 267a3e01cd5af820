//! Every cap of the loop in one place.

/// How much longer than the model's own deadline its answer is waited for, so that the model can
/// say what became of it, in milliseconds.
pub const DEADLINE_GRACE_MS: u64 = 10_000;
/// Free bytes on the ledger's disk below which no attempt begins, and how often that is looked at.
pub const DISK_FLOOR_BYTES: u64 = 64 << 20;
pub const DISK_POLL_MS: u64 = 2_000;
/// Longest wait for a provider to take a question, in milliseconds.
pub const SUBMIT_DEADLINE_MS: u64 = 120_000;
/// Longest wait for a call to end before a question looks again whether it may be asked, in
/// milliseconds.
pub const ADMISSION_WAIT_MS: u64 = 60_000;
/// Time between two looks at whether evaluations overrun what is reserved for them, in
/// milliseconds.
pub const CARD_POLL_MS: u64 = 250;
/// Time between two looks at what a paused run is told, in milliseconds.
pub const TOLD_POLL_MS: u64 = 500;
