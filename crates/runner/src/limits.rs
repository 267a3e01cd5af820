//! Every cap of this crate in one place.

/// Bytes of the compiler's log that a report carries.
pub(crate) const LOG_BYTES_MAX: usize = 48 * 1024;
/// Blocks of one launch that are run when only a sample is counted.
pub(crate) const SAMPLED_BLOCKS_MAX: u64 = 8;
/// Distinct bytes of generated content in a sampled run; longer tensors repeat them.
pub(crate) const SAMPLE_CONTENT_BYTES: usize = 1 << 20;
