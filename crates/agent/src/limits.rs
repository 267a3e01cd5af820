//! Every cap of the loop in one place.

use std::time::Duration;

/// Calls of one attempt before a provider's failures end the run.
pub const CALLS_PER_ATTEMPT_MAX: u32 = 4;
/// Longest answer that is asked for, in tokens.
pub const OUTPUT_TOKENS_MAX: u64 = 32_000;
/// Longest wait for one answer, in milliseconds.
pub const CALL_DEADLINE_MS: u64 = 1_800_000;
/// Wait after the first failure of a provider; doubled after each further one.
pub const RETRY_DELAY: Duration = Duration::from_millis(250);
