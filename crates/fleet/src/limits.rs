//! Every cap of this crate in one place.

/// Largest job or result file that is read, in bytes.
pub const FILE_BYTES_MAX: u64 = 256 << 20;
/// Everything in one job after decompression, in bytes.
pub const JOB_BYTES_MAX: u64 = 512 << 20;
/// Jobs that one look finds; later looks find the rest.
pub const WAITING_MAX: usize = 10_000;
/// Files in one job.
pub const JOB_FILES_MAX: usize = 1_000;
/// zstd level of jobs.
pub const ZSTD_LEVEL: i32 = 6;
/// Wait between two looks for a result, in milliseconds.
pub const RESULT_POLL_MS: u64 = 200;
/// Wait between two looks for jobs, in milliseconds.
pub const JOB_POLL_MS: u64 = 200;
/// Times that a worker tries a job on which its machine breaks.
pub const TRIES_MAX: u32 = 2;
/// Longest message that travels back, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 2_000;
/// Largest bundle that is read, in bytes, packed and unpacked.
pub const BUNDLE_BYTES_MAX: u64 = 256 << 20;
/// Steps of an acceptance in a bundle.
pub const BUNDLE_ENTRIES_MAX: usize = 10_000;
/// Entries of each list of a bundle's protocol, and windows of one case in one round.
pub const BUNDLE_LIST_MAX: usize = 256;
pub const BUNDLE_POSITIONS_MAX: u32 = 64;
