//! Every cap of this crate in one place.

/// Longest request and longest report, in bytes, without the length before it.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// What is kept of a child's standard error, in bytes; the tail is kept.
pub const STDERR_BYTES_MAX: usize = 64 << 10;
/// Bulk memories of one child.
pub const BULK_MAX: usize = 64;
/// Longest reason that a child may give, in characters.
pub(crate) const REASON_CHARS_MAX: usize = 2000;
/// How often the cancel flag is looked at, in milliseconds.
pub(crate) const CANCEL_POLL_MS: u64 = 50;
/// Bytes read from a pipe at once.
pub(crate) const READ_BYTES: usize = 64 << 10;
/// Reads from one pipe before the others get their turn.
pub(crate) const READS_MAX: usize = 64;
/// How long a killed child may take to be gone before it is left to a thread of its own.
pub(crate) const REAP_WAIT: std::time::Duration = std::time::Duration::from_secs(10);
/// Tries to seal a memory that some process still has mapped.
pub(crate) const SEAL_TRIES_MAX: u32 = 200;
/// The wait between two of them.
pub(crate) const SEAL_WAIT: std::time::Duration = std::time::Duration::from_millis(5);
/// Bytes of a shared memory for which a thread of its own is worth starting.
pub(crate) const PREPARE_BYTES_MIN: usize = 8 << 20;
/// Threads that prepare one shared memory.
pub(crate) const PREPARE_THREADS_MAX: usize = 16;
/// Longest request to a fork server, in bytes: it must fit into one packet.
pub(crate) const SERVER_REQUEST_BYTES_MAX: usize = 128 << 10;
/// Longest answer of a fork server, in bytes.
pub(crate) const SERVER_ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long a fork server may take to fork or to reap before it counts as dead.
pub(crate) const SERVER_ANSWER_WAIT: std::time::Duration = std::time::Duration::from_secs(30);
/// Tries to make a working directory before another program that tidies up takes it.
pub(crate) const FOLDER_TRIES_MAX: u32 = 8;
/// Temporary files and folders that are looked at for what killed programs left.
pub(crate) const FOLDERS_SEEN_MAX: usize = 100_000;
/// Descriptors that are closed one by one where there is no call for all of them.
pub(crate) const OPEN_FILES_MAX: u64 = 1 << 20;
/// Processes and threads that a child may have.
pub(crate) const PROCESSES_MAX: u64 = 1024;
/// What a child may write into a working directory in memory, in bytes and in files.
pub(crate) const WORK_FOLDER_BYTES_MAX: u64 = 64 << 20;
pub(crate) const WORK_FOLDER_FILES_MAX: u64 = 1024;
/// Memory of a child's group besides its own data and what is shared with it, in bytes.
pub(crate) const GROUP_SPARE_BYTES: u64 = 1 << 30;
/// How long the processes of a group may take to be gone once it was killed, and how often that is
/// looked at.
pub(crate) const GROUP_END_WAIT: std::time::Duration = std::time::Duration::from_secs(1);
pub(crate) const GROUP_END_POLL: std::time::Duration = std::time::Duration::from_millis(2);
/// Longest account of what holds a child, in bytes.
pub(crate) const TOLD_BYTES_MAX: usize = 64 << 10;
/// Folders that the gate of files knows.
pub(crate) const GATE_FOLDERS_MAX: usize = 16;
/// Tries to open a file while somebody moves files.
pub(crate) const GATE_TRIES_MAX: u32 = 64;
