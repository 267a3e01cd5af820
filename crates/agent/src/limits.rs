//! Every cap of the loop in one place.

use std::time::Duration;

/// How much longer than the model's own deadline its answer is waited for, so that the model can
/// say what became of it, in milliseconds.
pub const DEADLINE_GRACE_MS: u64 = 10_000;
/// Free bytes on the ledger's disk below which no attempt begins, and how often that is looked at.
pub const DISK_FLOOR_BYTES: u64 = 64 << 20;
pub const DISK_POLL: Duration = Duration::from_secs(2);
/// Bytes of memory left below which no build and no evaluation begins, and how often that is looked
/// at: about what a compiler with its largest modules takes.
pub const MEMORY_FLOOR_BYTES: u64 = 256 << 20;
pub const MEMORY_POLL: Duration = Duration::from_secs(2);
/// Longest wait for a provider to take a question, in milliseconds.
pub const SUBMIT_DEADLINE_MS: u64 = 120_000;
/// Longest wait for a call to end before a question looks again whether it may be asked, in
/// milliseconds.
pub const ADMISSION_WAIT_MS: u64 = 60_000;
/// Time between two looks at whether evaluations overrun what is reserved for them, in
/// milliseconds.
pub const CARD_POLL_MS: u64 = 250;
/// Time between two looks of an idle card at whether there is something to look at, and at when the
/// search must end, in milliseconds.
pub const CLOSING_POLL_MS: u64 = 500;
pub const ALARM_POLL_MS: u64 = 1_000;
/// Time between two looks at what a paused run is told, in milliseconds.
pub const TOLD_POLL_MS: u64 = 500;
