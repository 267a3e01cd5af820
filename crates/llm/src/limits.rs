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
/// Largest reply of a program or a mailbox, in bytes.
pub const REPLY_BYTES_MAX: usize = 1 << 20;
/// What is kept of the end of a program's stderr, in bytes.
pub const COMMAND_STDERR_BYTES_MAX: usize = 4 << 10;
/// One byte in so many of a program's reply may be no UTF-8; such bytes are replaced.
pub const COMMAND_INVALID_BYTES_SHARE: usize = 100;
/// Programs that run at once.
pub const COMMAND_RUNNING_MAX: usize = 64;
/// Ends of programs that can be polled again; the oldest are forgotten.
pub const COMMAND_FINISHED_MAX: usize = 64;
/// Longest wait of one poll for a program's end, in milliseconds.
pub const COMMAND_POLL_MS: u64 = 1_000;
/// Time between SIGTERM and SIGKILL, in milliseconds; less than [`CANCEL_MS_MAX`].
pub const COMMAND_GRACE_MS: u64 = 2_000;
/// Longest wait for the rest of a reply after the program's end, where something that it started
/// holds its pipes open, in milliseconds.
pub const COMMAND_DRAIN_MS: u64 = 500;
/// Time between two looks at whether a program has ended, in milliseconds.
pub const COMMAND_EXIT_POLL_MS: u64 = 20;
/// Longest wait for a killed program's end, in milliseconds.
pub const COMMAND_KILL_WAIT_MS: u64 = 2_000;
/// Questions that a mailbox has open at once.
pub const MAILBOX_OPEN_MAX: usize = 1_000;
/// Longest id that names a mailbox's files, in bytes.
pub const MAILBOX_ID_BYTES_MAX: usize = 100;
/// How long an answer's size must stay the same, unless it was renamed in, in milliseconds.
pub const MAILBOX_STABLE_MS: u64 = 200;
/// Time between two looks into a mailbox, in milliseconds.
pub const MAILBOX_POLL_MS: u64 = 250;
/// Largest of a mailbox's other files that is read, in bytes: questions, counts.
pub const MAILBOX_FILE_BYTES_MAX: usize = 16 << 20;
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
/// Longest wait for the body of an error, in milliseconds.
pub const ERROR_BODY_WAIT_MS: u64 = 10_000;
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
/// Requests of one batch: as many as a batch's metadata can name by UUIDs, 13 in each of 15 values.
pub const BATCH_REQUESTS_MAX: usize = 195;
/// Values of a batch's metadata that name requests, and the longest of them, in characters: OpenAI
/// keeps 16 of 512.
pub const BATCH_IDS_KEYS_MAX: usize = 15;
pub const BATCH_METADATA_CHARS_MAX: usize = 512;
/// Longest file of a batch, in bytes; OpenAI takes 200 MB.
pub const BATCH_FILE_BYTES_MAX: usize = 64 << 20;
/// Longest file of a batch's results, in bytes.
pub const BATCH_RESULT_BYTES_MAX: usize = 256 << 20;
/// Most lines of such a file that are read.
pub const BATCH_LINES_MAX: usize = 1_000;
/// Requests that wait for a batch.
pub const BATCH_QUEUED_MAX: usize = 10_000;
/// Batches on one page of the server's list, and most pages that are read.
pub const BATCH_PAGE_MAX: usize = 100;
pub const BATCH_PAGES_MAX: usize = 20;
/// Looks at the list that must miss a request before it counts as never handed over.
pub const BATCH_LOOKS: u32 = 2;
/// Looks in a row that may fail before a batch's requests are given up.
pub const BATCH_FAILURES_MAX: u32 = 60;
/// Ends of batches that are kept in memory; older ones are read again.
pub const BATCHES_KEPT_MAX: usize = 16;
/// Longest wait for a cancelled batch to end, in milliseconds; OpenAI says ten minutes.
pub const BATCH_CANCEL_WAIT_MS: u64 = 15 * 60_000;
