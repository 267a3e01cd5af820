//! Every cap of the loop in one place.

/// Failures in a row before they end the run.
pub const FAILURES_MAX: u32 = 12;
/// How many of them may have cost something.
pub const PAID_FAILURES_MAX: u32 = 6;
/// Wait after the first failure that may have cost something: each further try may cost as much, so
/// that a disturbance gets time to pass. Quadrupled after each further one.
pub const PAID_RETRY_WAIT_MS: u64 = 4_000;
/// Wait after the first failure of a provider; doubled after each further one.
pub const RETRY_WAIT_MS: u64 = 500;
/// Longest wait between two tries that the provider did not ask for, in milliseconds.
pub const RETRY_WAIT_MS_MAX: u64 = 120_000;
/// Longest wait that a provider may ask for before it ends the run, in milliseconds.
pub const WANTED_WAIT_MS_MAX: u64 = 900_000;
/// How much longer than the model's own deadline its answer is waited for, so that the model can
/// say what became of it, in milliseconds.
pub const DEADLINE_GRACE_MS: u64 = 10_000;
/// Longest wait for a provider to take a question, in milliseconds.
pub const SUBMIT_DEADLINE_MS: u64 = 120_000;
/// Time between two looks at what a paused run is told, in milliseconds.
pub const TOLD_POLL_MS: u64 = 500;
