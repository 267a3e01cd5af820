//! What a GPU generation allows: limits by architecture name.
//!
//! Limits only; no speed. The numbers follow NVIDIA's occupancy tables.

/// Limits of one architecture. Chips of one architecture differ in `sm_count`; the value here is
/// that of the best known data-centre or desktop part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `sm_90a` and the like.
    pub arch: String,
    /// Streaming multiprocessors of the chip.
    pub sm_count: u32,
    /// Shared memory that one block may use after opting in, in bytes.
    pub shared_per_block_optin: u32,
    /// Shared memory of one multiprocessor, in bytes.
    pub shared_per_sm: u32,
    /// Resident threads of one multiprocessor.
    pub max_threads_per_sm: u32,
    /// Resident blocks of one multiprocessor.
    pub max_blocks_per_sm: u32,
    /// Threads of one block.
    pub max_threads_per_block: u32,
    /// Shared memory reserved by the system for each block, in bytes.
    pub shared_reserved_per_block: u32,
}

impl Target {
    /// Limits for `sm_75` .. `sm_121`; suffixes `a` and `f` and the prefix `compute_` are accepted.
    pub fn for_arch(arch: &str) -> Option<Target> {
        let digits = arch
            .strip_prefix("sm_")
            .or_else(|| arch.strip_prefix("compute_"))?
            .trim_end_matches(['a', 'f']);
        let (sm_count, shared_kib, threads, blocks) = match digits {
            "75" => (68, 64, 1024, 16),
            "80" => (108, 164, 2048, 32),
            "86" => (84, 100, 1536, 16),
            "87" => (16, 164, 1536, 16),
            "88" => (16, 164, 1536, 24),
            "89" => (128, 100, 1536, 24),
            "90" => (132, 228, 2048, 32),
            "100" => (148, 228, 2048, 32),
            "103" => (148, 228, 2048, 32),
            "110" => (20, 228, 1536, 24),
            "120" => (170, 100, 1536, 24),
            "121" => (48, 100, 1536, 24),
            _ => return None,
        };
        let reserved = if digits == "75" { 0 } else { 1024 };
        Some(Target {
            arch: arch.replace("compute_", "sm_"),
            sm_count,
            shared_per_block_optin: (shared_kib << 10) - reserved,
            shared_per_sm: shared_kib << 10,
            max_threads_per_sm: threads,
            max_blocks_per_sm: blocks,
            max_threads_per_block: 1024,
            shared_reserved_per_block: reserved,
        })
    }

    /// Blocks of that shape that can be resident on the whole chip at once; at least one.
    pub fn resident_blocks(&self, threads_per_block: u32, shared_per_block: u32) -> u64 {
        let threads = threads_per_block.max(1).next_multiple_of(32);
        let by_threads = self.max_threads_per_sm / threads;
        let shared = shared_per_block.saturating_add(self.shared_reserved_per_block);
        let by_shared = self.shared_per_sm.checked_div(shared).unwrap_or(u32::MAX);
        let per_sm = by_threads.min(by_shared).min(self.max_blocks_per_sm).max(1);
        u64::from(per_sm) * u64::from(self.sm_count)
    }
}
