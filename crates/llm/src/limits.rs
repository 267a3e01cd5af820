//! Every cap of the providers in one place.

/// Largest transcript file, in bytes.
pub const TRANSCRIPT_BYTES_MAX: u64 = 256 << 20;
/// Longest wait between two polls that a provider may ask for, in milliseconds.
pub const POLL_WAIT_MS_MAX: u64 = 60_000;
/// Longest wait for a provider to take note that a request is given up, in milliseconds.
pub const CANCEL_MS_MAX: u64 = 5_000;
/// Longest provider message that an error keeps, in bytes.
pub const ERROR_BYTES_MAX: usize = 1_000;
/// Longest answer that is asked for where nothing else is set, in tokens.
pub const OUTPUT_TOKENS_MAX: u64 = 32_000;
/// Longest wait for one answer where nothing else is set, in milliseconds.
pub const CALL_DEADLINE_MS: u64 = 1_800_000;
/// Longest ticket, in bytes.
pub const TICKET_BYTES_MAX: usize = 1_024;
