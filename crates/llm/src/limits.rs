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
/// Longest wait of one poll for a request that is under way, in milliseconds.
pub const LONG_POLL_MS: u64 = 1_000;
/// Most answered requests whose replies stay to be polled again.
pub const ANSWERED_CALLS_MAX: usize = 64;
/// Most requests under way at once.
pub const OPEN_CALLS_MAX: usize = 1_024;
/// Longest answer with its reasoning, in bytes.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Longest body of an answer that comes in one piece, and longest line of a stream, in bytes.
pub const BODY_BYTES_MAX: usize = 16 << 20;
/// Most bytes of a stream: each token comes with a few hundred bytes around it.
pub const STREAM_BYTES_MAX: u64 = 256 << 20;
/// What is read of the body of an error, in bytes.
pub const ERROR_BODY_BYTES_MAX: usize = 64 << 10;
/// Signs of life without content keep an answer waiting at most so many times the idle limit.
pub const IDLE_WITHOUT_CONTENT_MAX: u32 = 20;
/// Longest wait for the usage after the model has finished, in milliseconds.
pub const AFTER_FINISH_MS_MAX: u64 = 10_000;
/// Longest wait before the next try that a provider may ask for, in milliseconds.
pub const WANTED_WAIT_MS_MAX: u64 = 24 * 3_600_000;
/// Most tokens of a kind that a provider may report for one call.
pub const REPORTED_TOKENS_MAX: u64 = 100_000_000;
/// Highest cost of one call that a provider may report, in nano-dollars.
pub const REPORTED_COST_NUSD_MAX: i64 = 1_000_000_000_000;
/// Longest name that a provider may give itself, its model or a request, in bytes.
pub const NAME_BYTES_MAX: usize = 200;
