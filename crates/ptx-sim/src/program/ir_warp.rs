//! What the lanes of a warp do together, and what they wait for: collectives, copies, barriers.

use super::ir::{Base, Reg, Slot};
use super::ir_matrix::{FragmentAccess, MatrixAccess, Mma};

/// Modes of `shfl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ShuffleMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// Modes of `vote`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// Modes of `redux`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReduxMode {
    Add,
    MinS,
    MaxS,
    MinU,
    MaxU,
    And,
    Or,
    Xor,
}

/// Instructions that the lanes of a warp execute together.
#[derive(Debug, Clone)]
pub(crate) enum Collective {
    Shuffle {
        mode: ShuffleMode,
        d: Slot,
        p: Option<Slot>,
        a: Slot,
        b: Slot,
        c: Slot,
    },
    Vote {
        mode: VoteMode,
        d: Reg,
        p: Slot,
        negated: bool,
    },
    MatchAny {
        d: Slot,
        a: Reg,
    },
    MatchAll {
        d: Slot,
        p: Option<Slot>,
        a: Reg,
    },
    Redux {
        mode: ReduxMode,
        d: Slot,
        a: Slot,
    },
    /// `bar.warp.sync`
    WarpSync,
    Elect {
        d: Reg,
        p: Slot,
    },
    Mma(Box<Mma>),
    /// `movmatrix`
    Transpose {
        d: Slot,
        a: Slot,
    },
    /// `ldmatrix`, `stmatrix`
    Access(Box<MatrixAccess>),
    /// `wmma.load`, `wmma.store`
    FragmentAccess(Box<FragmentAccess>),
}

/// `cp.async` from global to shared memory.
#[derive(Debug, Clone)]
pub(crate) struct AsyncCopy {
    pub(crate) to: (Base, i64),
    pub(crate) from: (Base, i64),
    /// 4, 8 or 16.
    pub(crate) bytes: u8,
    pub(crate) source: AsyncSource,
}

/// How much of its source a copy reads; the rest becomes zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AsyncSource {
    Whole,
    Bytes(Slot),
    /// Nothing where this predicate holds, or does not (negated).
    Unless(Slot, bool),
}

/// What a barrier reduces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BarrierReduction {
    Popc(Slot),
    And(Slot),
    Or(Slot),
}

/// Block barriers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Barrier {
    pub(crate) id: Slot,
    /// Threads expected, if given.
    pub(crate) count: Option<Slot>,
    /// Arrive without waiting.
    pub(crate) arrive: bool,
    pub(crate) reduction: Option<BarrierReduction>,
    /// Source of the reduction: predicate slot, negated.
    pub(crate) source: Option<(Slot, bool)>,
}
