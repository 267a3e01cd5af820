//! The decoded program: what the executor walks over.
//!
//! Registers are indices into two banks of 32-lane arrays (32 and 64 bits wide) and one bank of
//! lane bit sets (predicates). Immediates, special registers and symbol addresses are slots too,
//! filled when a frame is made, so that no lane loop asks what kind of operand it has.

use std::sync::Arc;

pub(crate) use super::ir_alu::{
    Alu, AluOp, BoolOp, Carry, CarryKind, Compare, CompareResult, Convert, Number, Pairing,
    Rounding, SetCompare, flag,
};
pub(crate) use super::ir_warp::{
    AsyncCopy, AsyncSource, Barrier, BarrierReduction, Collective, ReduxMode, ShuffleMode, VoteMode,
};
use crate::report::Location;
use crate::syntax::SourceLocation;

/// Rounds up to a multiple of a power of two, saturating.
pub(crate) fn align_up(value: u32, align: u32) -> u32 {
    value.saturating_add(align - 1) & !(align - 1)
}

/// Index into a register bank.
pub(crate) type Slot = u16;

/// A register of any bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reg {
    /// 32-bit bank; also 16-bit registers, zero-extended (`narrow` set).
    Word { slot: Slot, narrow: bool },
    /// 64-bit bank.
    Long(Slot),
    /// Predicate bank.
    Pred(Slot),
    /// `_`: the value is dropped.
    Sink,
}

/// Memory that an instruction addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemorySpace {
    Generic,
    Global,
    Const,
    Shared,
    Local,
    /// Parameters of an entry: the same bytes for all lanes.
    EntryParam,
    /// Parameters of a device function or a call sequence: bytes per lane in the frame.
    FrameParam,
}

/// Base of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Base {
    Word(Slot),
    Long(Slot),
    /// Nothing but the offset.
    None,
}

/// A load or store.
#[derive(Debug, Clone)]
pub(crate) struct MemoryAccess {
    pub(crate) space: MemorySpace,
    /// Bytes of one element.
    pub(crate) bytes: u8,
    /// Elements sign-extend into wider registers.
    pub(crate) signed: bool,
    pub(crate) base: Base,
    pub(crate) offset: i64,
    /// One register for each vector element.
    pub(crate) regs: Vec<Reg>,
    /// Volatile, relaxed, acquire: what a polling loop uses.
    pub(crate) polls: bool,
}

/// Read-modify-write operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

/// `atom` and `red`.
#[derive(Debug, Clone)]
pub(crate) struct Atomic {
    pub(crate) op: AtomicOp,
    pub(crate) number: Number,
    pub(crate) packed: bool,
    pub(crate) space: MemorySpace,
    pub(crate) base: Base,
    pub(crate) offset: i64,
    /// Old values; empty for `red`.
    pub(crate) d: Vec<Reg>,
    pub(crate) a: Vec<Reg>,
    /// New value of a compare-and-swap.
    pub(crate) c: Option<Reg>,
}

/// A direct call.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) callee: Callee,
    /// Byte ranges of this frame's parameter area copied into the callee's: (from, to, bytes).
    pub(crate) arguments: Vec<(u32, u32, u32)>,
    /// Byte ranges copied back: (from in the callee, to here, bytes).
    pub(crate) results: Vec<(u32, u32, u32)>,
}

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callee {
    /// Index into [`ProgramData::functions`].
    Function(u32),
    /// Printing.
    Print,
    /// Device-side assertion.
    AssertFail,
}

/// Counters that read as time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockKind {
    /// Issued warp instructions so far, low half.
    Low,
    /// The same in 64 bits.
    Full,
    /// High half.
    High,
}

/// One instruction.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Alu(Alu),
    Compare(Box<SetCompare>),
    Convert(Box<Convert>),
    Carry(Box<Carry>),
    Load(Box<MemoryAccess>),
    Store(Box<MemoryAccess>),
    Atomic(Box<Atomic>),
    Collective(Box<(Collective, Slot)>),
    Activemask(Slot),
    AsyncCopy(Box<AsyncCopy>),
    /// `cp.async.commit_group`
    AsyncCommit,
    /// Until no more than so many of the newest groups are under way; without a number, nothing.
    AsyncWait(Option<u32>),
    Barrier(Box<Barrier>),
    /// The guard decides.
    Branch(u32),
    Call(Box<Call>),
    Return,
    Exit,
    Trap,
    Clock(ClockKind, Reg),
    /// To generic address and back: `d = a + window` where the low bits are kept.
    ToGeneric {
        d: Reg,
        a: Reg,
        window: u64,
    },
    FromGeneric {
        d: Reg,
        a: Reg,
        window: u64,
    },
    IsSpace {
        d: Slot,
        a: Reg,
        space: MemorySpace,
    },
    /// Fences, prefetches, hints.
    Nothing,
    /// Gives other warps a turn.
    Yield,
}

/// What an instruction counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Inserted by the decoder: not counted at all.
    Inserted,
    Move,
    Integer,
    Fp32(u8),
    Fp64(u8),
    Fp16(u8),
    Tensor(u16),
    Special,
    Control,
    Memory,
}

/// A decoded instruction.
#[derive(Debug, Clone)]
pub(crate) struct Inst {
    pub(crate) op: Op,
    pub(crate) class: Class,
    /// Predicate slot and whether it is negated.
    pub(crate) guard: Option<(Slot, bool)>,
}

/// Where an instruction came from.
#[derive(Debug, Clone)]
pub(crate) struct Origin {
    pub(crate) line: u32,
    pub(crate) location: Option<u32>,
    pub(crate) text: Arc<str>,
}

/// A constant of the 64-bit or 32-bit bank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Constant {
    /// The value itself.
    Value(u64),
    /// Address of a module variable plus an offset.
    Variable(u32, i64),
    /// Offset of a shared variable in the block's shared memory.
    Shared(u32, i64),
    /// Offset of the function's stack in local memory.
    Local(i64),
    /// Special register.
    Special(Special),
}

/// Special registers whose value is fixed for a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    Ctaid(u8),
    Nctaid(u8),
    LaneId,
    WarpId,
    WarpCount,
    SmId,
    SmCount,
    GridId,
    LanemaskEq,
    LanemaskLt,
    LanemaskLe,
    LanemaskGt,
    LanemaskGe,
    DynamicShared,
    TotalShared,
}

/// A function's code.
#[derive(Debug, Clone)]
pub(crate) struct FunctionCode {
    pub(crate) code: Vec<Inst>,
    pub(crate) origins: Vec<Origin>,
    pub(crate) locations: Vec<SourceLocation>,
    pub(crate) words: u32,
    pub(crate) longs: u32,
    pub(crate) preds: u32,
    pub(crate) word_constants: Vec<(Slot, Constant)>,
    pub(crate) long_constants: Vec<(Slot, Constant)>,
    pub(crate) pred_constants: Vec<(Slot, bool)>,
    /// Bytes of the frame's parameter area, per lane.
    pub(crate) param_bytes: u32,
    /// Bytes of local memory, per lane.
    pub(crate) local_bytes: u32,
    /// Shared variables that it names.
    pub(crate) shared: Vec<u32>,
    /// Functions that it calls.
    pub(crate) calls: Vec<u32>,
    /// Whether it communicates between blocks.
    pub(crate) communicates: bool,
}

/// A module variable in global or constant memory.
#[derive(Debug, Clone)]
pub(crate) struct ModuleVariable {
    pub(crate) name: String,
    pub(crate) constant: bool,
    /// Initial bytes, zero where nothing is given.
    pub(crate) image: Vec<u8>,
    /// Addresses to patch in: (offset, bytes, variable, addend).
    pub(crate) patches: Vec<(u32, u8, u32, i64)>,
}

/// A shared variable.
#[derive(Debug, Clone)]
pub(crate) struct SharedVariable {
    pub(crate) name: String,
    pub(crate) align: u32,
    /// 0: placed after all others (dynamic).
    pub(crate) bytes: u32,
}

/// One parameter of an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntryParam {
    pub(crate) name: String,
    pub(crate) offset: u32,
    pub(crate) bytes: u32,
}

/// A kernel that can be launched.
#[derive(Debug, Clone)]
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) function: u32,
    pub(crate) params: Vec<EntryParam>,
    pub(crate) param_bytes: u32,
    /// Offset of each shared variable in use, by index.
    pub(crate) shared_offsets: Vec<(u32, u32)>,
    pub(crate) static_shared: u32,
    /// Alignment of dynamic shared memory.
    pub(crate) dynamic_align: u32,
    pub(crate) maxntid: Option<[u32; 3]>,
    pub(crate) reqntid: Option<[u32; 3]>,
    /// Whether blocks talk to each other through global memory.
    pub(crate) communicates: bool,
}

/// Everything that was decoded.
#[derive(Debug, Default)]
pub(crate) struct ProgramData {
    pub(crate) functions: Vec<FunctionCode>,
    pub(crate) variables: Vec<ModuleVariable>,
    pub(crate) shared: Vec<SharedVariable>,
    pub(crate) kernels: Vec<Kernel>,
    pub(crate) files: Vec<(u32, String)>,
}

impl ProgramData {
    /// The source position of an instruction with its chain of inlining.
    pub(crate) fn location(&self, function: u32, pc: u32) -> Option<Location> {
        let function = self.functions.get(function as usize)?;
        let index = function.origins.get(pc as usize)?.location?;
        resolve_location(&function.locations, &self.files, index)
    }
}

/// Follows `inlined_at` from one `.loc` to the next, at most 16 deep.
pub(crate) fn resolve_location(
    locations: &[SourceLocation],
    files: &[(u32, String)],
    index: u32,
) -> Option<Location> {
    let path = |file: u32| {
        files
            .iter()
            .find(|(i, _)| *i == file)
            .map_or_else(|| format!("file {file}"), |f| f.1.clone())
    };
    let start = locations.get(index as usize)?;
    let mut chain = Vec::new();
    let mut at = start.inlined_at;
    while let Some((file, line, column)) = at
        && chain.len() < 16
    {
        chain.push((path(file), line));
        let next = locations
            .iter()
            .find(|l| (l.file, l.line, l.column) == (file, line, column) && l.inlined_at != at);
        at = next.and_then(|l| l.inlined_at);
    }
    Some(Location {
        file: path(start.file),
        line: start.line,
        column: start.column,
        inlined_at: chain,
    })
}
