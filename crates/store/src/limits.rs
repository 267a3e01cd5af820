//! Every cap of the ledger in one place.

use std::time::Duration;

/// Texts longer than this are compressed, in bytes.
pub const RAW_BYTES_MAX: usize = 4 * 1024;
/// Largest artifact, in bytes before compression.
pub const ARTIFACT_BYTES_MAX: usize = 256 << 20;
/// zstd level of artifacts: they are written once, between two slow steps.
pub const ZSTD_LEVEL: i32 = 6;
/// How long a writer waits for another process to finish its transaction, in milliseconds.
pub const BUSY_TIMEOUT_MS: u64 = 10_000;
/// Connections that only read.
pub const READERS_MAX: u32 = 4;
/// How long opening waits for another process that creates or migrates, in milliseconds.
pub const OPEN_WAIT_MS: u64 = 10_000;
/// Pause between two looks at a held lock, in milliseconds.
pub const LOCK_POLL_MS: u64 = 20;
/// Tries before a lock that only those hold who ask counts as held, and the pause between them.
pub const LOCK_TRIES: u32 = 500;
pub const LOCK_PAUSE: Duration = Duration::from_millis(20);
/// Looks at the number of a process that has a lock and has not written it yet.
pub const PID_LOOKS: u32 = 5;
/// Longest provider error that is kept, in bytes.
pub const ERROR_BYTES_MAX: usize = 2_000;
/// Events read at once while a chain is verified.
pub const EVENTS_AT_ONCE: i64 = 1_000;
/// Entries of one acceptance: trials, checks, pilots, and 15 rounds of every case.
pub const ENTRIES_MAX: u32 = 10_000;
/// Hints of one run that wait for a prompt. What is obeyed at once does not count, so that a run
/// can always be stopped.
pub const HINTS_PENDING_MAX: usize = 1_000;
/// Acceptances of each purpose that say what the next one takes.
pub const ACCEPTANCE_TIMES_MAX: u32 = 64;
/// Newest events of a run among which it is looked for when it last went on.
pub const EVENTS_LOOKED_AT: i64 = 5_000;
