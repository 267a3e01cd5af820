//! What a launch tells: outcome, counters, findings, and where in the program they arose.
//!
//! Values only; the executor fills them.

use std::fmt;

/// Everything that one launch produced besides the bytes in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchReport {
    /// How it ended.
    pub outcome: Outcome,
    /// Exact counts over the executed blocks.
    pub counters: Counters,
    /// Remarks that did not stop the launch, deduplicated by place and kind.
    pub findings: Vec<Finding>,
    /// What `printf` wrote, capped.
    pub printed: String,
    /// What is left of the budget.
    pub warp_instructions_left: u64,
}

/// How a launch ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// All selected blocks ran to their end.
    Completed,
    /// The launch was not legal; nothing ran. One sentence says why.
    Refused(String),
    /// A block stopped; memory holds what was written until then.
    Trapped(Trap),
}

/// A fault that stopped the launch.
#[derive(Debug, Clone, PartialEq)]
pub struct Trap {
    /// Kind.
    pub kind: TrapKind,
    /// One clear sentence that names buffer, offset and line.
    pub message: String,
    /// Where.
    pub site: Site,
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TrapKind {
    /// Past the end or before the start of a buffer, shared, local or parameter memory.
    OutOfBounds,
    /// Address not a multiple of the access size.
    Misaligned,
    /// Store into a buffer that the launch may only read, or into constant memory.
    ReadOnlyWrite,
    /// Store into the padding after a buffer.
    PaddingWrite,
    /// Address that belongs to no buffer at all, null included.
    Unallocated,
    /// The warp-instruction budget ran out.
    Budget,
    /// No warp can ever run again: barriers that cannot complete.
    Deadlock,
    /// A warp-wide `.sync` instruction whose named lanes cannot all arrive.
    Collective,
    /// `trap` or `brkpt` was executed.
    TrapInstruction,
    /// A device-side assertion failed.
    Assertion,
    /// Calls nested too deep, or too much local memory.
    StackOverflow,
}

impl TrapKind {
    /// A short stable name for reports.
    pub fn name(self) -> &'static str {
        match self {
            TrapKind::OutOfBounds => "out of bounds",
            TrapKind::Misaligned => "misaligned access",
            TrapKind::ReadOnlyWrite => "write to read-only memory",
            TrapKind::PaddingWrite => "write past the end of a buffer",
            TrapKind::Unallocated => "unallocated address",
            TrapKind::Budget => "instruction budget exhausted",
            TrapKind::Deadlock => "deadlock",
            TrapKind::Collective => "warp collective cannot complete",
            TrapKind::TrapInstruction => "trap instruction",
            TrapKind::Assertion => "assertion failed",
            TrapKind::StackOverflow => "stack overflow",
        }
    }
}

impl fmt::Display for TrapKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A place in the program and in the grid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Site {
    /// Kernel that was launched.
    pub kernel: String,
    /// CUDA source position, if the PTX carries line information.
    pub source: Option<Location>,
    /// One-based line of the PTX text; 0 if unknown.
    pub ptx_line: u32,
    /// The instruction as text.
    pub ptx_text: String,
    /// Linear block index.
    pub block: u64,
    /// Warp within the block.
    pub warp: u32,
    /// Bit set of the lanes concerned.
    pub lanes: u32,
    /// Address of the first lane concerned.
    pub address: Option<u64>,
    /// Name of the buffer or memory that the address belongs to.
    pub buffer: Option<String>,
    /// Byte offset from the start of the buffer; negative before it.
    pub offset: Option<i64>,
    /// Bytes accessed by one lane; 0 if not a memory access.
    pub size: u32,
}

/// A source position with the chain of inlining, innermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Location {
    /// Path as NVRTC wrote it.
    pub file: String,
    /// One-based line.
    pub line: u32,
    /// One-based column; 0 if unknown.
    pub column: u32,
    /// `file:line` of each call site, innermost first.
    pub inlined_at: Vec<(String, u32)>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)?;
        self.inlined_at.iter().try_for_each(|(file, line)| write!(f, ", inlined at {file}:{line}"))
    }
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Harmless on hardware.
    Info,
    /// Works by luck.
    Warning,
    /// Wrong.
    Error,
}

/// Kinds of remarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FindingKind {
    /// Bytes after the end of a buffer were read, inside its padding.
    PaddingRead,
    /// Lanes of one warp met a block barrier at different instructions.
    DivergentBarrier,
    /// A member mask names lanes that have exited.
    MaskNamesExitedLanes,
    /// A shuffle read a lane that does not take part.
    ShuffleFromInactiveLane,
    /// More was printed than is kept.
    PrintDropped,
}

impl FindingKind {
    /// How much it matters.
    pub fn severity(self) -> Severity {
        match self {
            FindingKind::PaddingRead | FindingKind::PrintDropped => Severity::Info,
            FindingKind::DivergentBarrier | FindingKind::MaskNamesExitedLanes => Severity::Warning,
            FindingKind::ShuffleFromInactiveLane => Severity::Error,
        }
    }
}

/// A remark about one place of the program.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Kind.
    pub kind: FindingKind,
    /// One sentence.
    pub message: String,
    /// First occurrence.
    pub site: Site,
    /// Warp-level occurrences.
    pub count: u64,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Exact counts over the executed blocks; lane-level unless named otherwise.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }
        impl Counters {
            /// Adds another launch or block.
            pub fn add(&mut self, other: &Counters) { $(self.$name += other.$name;)* }
        }
    };
}
counters! {
    /// Blocks executed.
    blocks,
    /// Instructions issued, one per warp.
    warp_instructions,
    /// Instructions executed, one per active lane.
    lane_instructions,
    /// Single-precision operations; a fused multiply-add is two.
    fp32_flops,
    /// Double-precision operations; a fused multiply-add is two.
    fp64_flops,
    /// Half and bfloat16 operations; packed forms count twice.
    fp16_flops,
    /// Operations of tensor cores, of any format; a multiply-add is two.
    tensor_flops,
    /// ex2, lg2, sin, cos, tanh, rcp, rsqrt, sqrt.
    special_ops,
    /// Integer, logic, compare and conversion operations.
    integer_ops,
    /// Branches, calls, returns.
    control_ops,
    /// Conditional branches, warp level.
    branches,
    /// Conditional branches whose lanes went both ways, warp level.
    divergent_branches,
    /// Global load instructions, warp level.
    global_load_requests,
    /// Global store instructions, warp level.
    global_store_requests,
    /// Bytes asked for by global loads.
    global_load_bytes,
    /// Bytes written by global stores.
    global_store_bytes,
    /// Distinct 32-byte sectors touched, summed over load requests.
    global_load_sectors,
    /// Distinct 32-byte sectors touched, summed over store requests.
    global_store_sectors,
    /// Shared load and store instructions, warp level.
    shared_requests,
    /// Passes over 32 banks of 4 bytes that these need.
    shared_wavefronts,
    /// Bytes read and written in local memory.
    local_bytes,
    /// Atomic operations, one per lane, global and shared.
    atomics,
    /// Block barriers, warp level.
    barriers,
}
