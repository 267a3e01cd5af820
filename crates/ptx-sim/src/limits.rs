//! Every cap of the simulator in one place.

/// Distinct findings kept; later ones are dropped.
pub(crate) const FINDINGS_MAX: usize = 256;

/// Backward branches after which a polling group is put aside.
pub(crate) const POLL_EDGES_MAX: u32 = 16;

/// The same for a group that does not look like polling.
pub(crate) const BUSY_EDGES_MAX: u32 = 1 << 16;

/// Deepest call nesting.
pub(crate) const DEPTH_MAX: u32 = 512;

/// Most bytes of registers in the nested calls of one warp.
pub(crate) const FRAME_BYTES_MAX: usize = 64 << 20;

/// Most local memory of one lane, in bytes.
pub(crate) const LOCAL_BYTES_MAX: u32 = 512 << 10;

/// Largest grid extents in x, y, z.
pub(crate) const GRID_MAX: [u32; 3] = [0x7fff_ffff, 0xffff, 0xffff];

/// Largest block extents in x, y, z.
pub(crate) const BLOCK_MAX: [u32; 3] = [1024, 1024, 64];

/// Most bytes that all buffers of one machine may hold together.
pub const MEMORY_BYTES_MAX: u64 = 16 << 30;

/// Largest module variable, in bytes.
pub(crate) const VARIABLE_BYTES_MAX: u64 = 1 << 30;

/// Largest parameter or local area of a function, in bytes per lane.
pub(crate) const AREA_BYTES_MAX: u64 = 1 << 19;

/// Loops times blocks beyond which loops are not looked for; text order then serves.
pub(crate) const LOOP_WORK_MAX: usize = 1 << 26;

/// Most bytes that the parameters of an entry may take; twice what the hardware allows.
pub(crate) const PARAM_BYTES_MAX: u32 = 1 << 16;

/// Largest text accepted, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;

/// Deepest nesting of `{ }` scopes and initialisers.
pub const NESTING_MAX: usize = 64;

/// Most registers that one function may declare.
pub const REGISTERS_MAX: u64 = 60_000;

/// Asynchronous copies of one warp that have not arrived; beyond them the oldest do.
pub(crate) const ASYNC_COPIES_MAX: usize = 1 << 14;

/// Most bytes that one launch may print.
pub const PRINTED_BYTES_MAX: usize = 16 << 10;

/// Longest string that printing reads, in bytes.
pub(crate) const PRINTED_TEXT_BYTES_MAX: usize = 4096;
