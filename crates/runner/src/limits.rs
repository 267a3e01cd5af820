//! Every cap of this crate in one place.

/// Bytes of the compiler's log that a report carries.
pub(crate) const LOG_BYTES_MAX: usize = 48 * 1024;
/// Longest name of a file in a diagnostic, in bytes.
pub(crate) const FILE_NAME_BYTES_MAX: usize = 200;
/// Bytes of build facts that a report carries.
pub(crate) const FACTS_BYTES_MAX: usize = 512 * 1024;
/// Device memory that one simulated run may use, in bytes; well below what a child may hold.
pub(crate) const SIMULATED_MEMORY_BYTES_MAX: u64 = 4 << 30;
/// Blocks of one launch that are run when only a sample is counted.
pub(crate) const SAMPLED_BLOCKS_MAX: u64 = 8;
/// Distinct bytes of generated content in a sampled run; longer tensors repeat them.
pub(crate) const SAMPLE_CONTENT_BYTES: usize = 1 << 20;
/// What the launches of one run may print together, in bytes.
pub(crate) const PRINTED_BYTES_MAX: usize = 64 * 1024;
/// Longest name or instruction in a place, in bytes.
pub(crate) const PLACE_TEXT_BYTES_MAX: usize = 300;
/// Calls that a place names, of those into which it was inlined.
pub(crate) const INLINED_AT_MAX: usize = 4;
/// Pairs of events whose overhead is measured before a window.
pub(crate) const EVENT_PAIRS: u32 = 50;
/// How long plain arithmetic runs before a window, to bring the clocks up, in milliseconds.
pub(crate) const YARDSTICK_MS: u32 = 50;
/// How long the calls between two readings of the energy counter take about, in milliseconds, and
/// how many launches they may be: the driver's queue holds about a thousand.
pub(crate) const ENERGY_BATCH_MS: f64 = 10.0;
pub(crate) const ENERGY_BATCH_LAUNCHES_MAX: u64 = 512;
/// How long one launch of the conformance suite may take.
pub(crate) const CONFORMANCE_DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);
/// Bytes of an output that one thread hashes at a time; whole words.
pub(crate) const HASH_PART_BYTES: usize = 1 << 20;
/// Bytes of a buffer that are copied out at once only to be looked at.
pub(crate) const COPY_PART_BYTES: usize = 64 << 20;
