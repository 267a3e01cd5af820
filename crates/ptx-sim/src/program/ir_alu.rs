//! Register-to-register operations of the decoded program: lane operations, comparisons,
//! conversions. Re-exported by `ir`.

use super::ir::{Reg, Slot};

/// Lane operation over registers. Suffix W: 32-bit bank, L: 64-bit bank; S, U: signedness;
/// F: f32, D: f64; R: directed rounding, taken from the flags.
#[rustfmt::skip]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AluOp {
    MovW, MovL, MovP,
    AddW, SubW, MulLoW, MulHiSW, MulHiUW, MulHi16, MadLoW, MadHiSW, MadHiUW,
    DivSW, DivUW, RemSW, RemUW, MinSW, MinUW, MaxSW, MaxUW, NegW, AbsW,
    AndW, OrW, XorW, NotW, ShlW, ShrSW, ShrUW, PopcW, ClzW, BrevW, BfindSW, BfindUW,
    BfeSW, BfeUW, BfiW, Lop3, Prmt, ShfL, ShfR, ShfLClamp, ShfRClamp, SadSW, SadUW,
    Mul24LoS, Mul24LoU, Mul24HiS, Mul24HiU, Dp4a, Dp2a, Bmsk, Szext, VabsDiff4, Fns,
    AddL, SubL, MulLoL, MulHiSL, MulHiUL, MadLoL, MadHiSL, MadHiUL,
    DivSL, DivUL, RemSL, RemUL, MinSL, MinUL, MaxSL, MaxUL, NegL, AbsL,
    AndL, OrL, XorL, NotL, ShlL, ShrSL, ShrUL, PopcL, ClzL, BrevL, BfindSL, BfindUL,
    BfeSL, BfeUL, BfiL,
    MulWideS, MulWideU, MadWideS, MadWideU,
    SignExtend, ZeroExtend, Truncate, ExtractW, ExtractL, PackW, PackL,
    SelW, SelL, AndP, OrP, XorP, NotP,
    AddF, SubF, MulF, FmaF, AddFR, SubFR, MulFR, FmaFR, DivF, DivFR, DivFApprox,
    MinF, MaxF, MinFNan, MaxFNan, NegF, AbsF, CopysignF,
    RcpF, RcpFR, SqrtF, SqrtFR, RsqrtF, Ex2F, Lg2F, SinF, CosF, TanhF,
    S32ToF, U32ToF,
    AddD, SubD, MulD, FmaD, AddDR, SubDR, MulDR, FmaDR, DivD, DivDR, MinD, MaxD, NegD, AbsD,
    CopysignD, RcpD, RcpDR, SqrtD, SqrtDR, RcpDApprox, RsqrtDApprox,
    AddH, SubH, MulH, FmaH, MinH, MaxH, NegH, AbsH, Ex2H, TanhH,
    TestpF, TestpD,
}

/// Modifier bits of [`Alu`].
pub(crate) mod flag {
    /// Flush subnormal inputs and results to signed zero.
    pub(crate) const FTZ: u16 = 1;
    /// Clamp the result to [0, 1].
    pub(crate) const SAT: u16 = 2;
    /// Shift of the two rounding bits.
    pub(crate) const ROUND_SHIFT: u16 = 2;
    /// Sign-extend 16-bit inputs.
    pub(crate) const SEXT16: u16 = 16;
    /// Keep only 16 bits of the result.
    pub(crate) const MASK16: u16 = 32;
    /// bfloat16 rather than half.
    pub(crate) const BF16: u16 = 64;
    /// Two packed halves.
    pub(crate) const PACKED: u16 = 128;
    /// NaN operands propagate through min and max.
    pub(crate) const NAN: u16 = 256;
    /// Results below zero become zero.
    pub(crate) const RELU: u16 = 512;
}

/// Rounding of a floating-point result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounding {
    /// Nearest, ties to even.
    Nearest,
    /// Toward zero.
    Zero,
    /// Toward minus infinity.
    Down,
    /// Toward plus infinity.
    Up,
}

impl Rounding {
    pub(crate) fn from_flags(flags: u16) -> Rounding {
        match (flags >> flag::ROUND_SHIFT) & 3 {
            0 => Rounding::Nearest,
            1 => Rounding::Zero,
            2 => Rounding::Down,
            _ => Rounding::Up,
        }
    }

    pub(crate) fn bits(self) -> u16 {
        (self as u16) << flag::ROUND_SHIFT
    }
}

/// One lane operation with its operand slots. Which bank each slot means follows from `op`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Alu {
    pub(crate) op: AluOp,
    pub(crate) flags: u16,
    pub(crate) d: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    /// Fourth source slot (bfi), look-up table (lop3), shift and mask (extract).
    pub(crate) e: u16,
}

/// Comparison of `setp` and `set`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compare {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// Number formats of comparisons and conversions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    U8,
    S8,
    U16,
    S16,
    U32,
    S32,
    U64,
    S64,
    F16,
    Bf16,
    F32,
    F64,
    Tf32,
    E4m3,
    E5m2,
}

impl Number {
    pub(crate) fn bits(self) -> u32 {
        match self {
            Number::U8 | Number::S8 | Number::E4m3 | Number::E5m2 => 8,
            Number::U16 | Number::S16 | Number::F16 | Number::Bf16 => 16,
            Number::U32 | Number::S32 | Number::F32 | Number::Tf32 => 32,
            Number::U64 | Number::S64 | Number::F64 => 64,
        }
    }

    pub(crate) fn is_float(self) -> bool {
        match self {
            Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => true,
            Number::Tf32 | Number::E4m3 | Number::E5m2 => true,
            Number::U8 | Number::U16 | Number::U32 | Number::U64 => false,
            Number::S8 | Number::S16 | Number::S32 | Number::S64 => false,
        }
    }

    pub(crate) fn is_signed(self) -> bool {
        matches!(self, Number::S8 | Number::S16 | Number::S32 | Number::S64)
    }
}

/// Logic that joins a comparison with a predicate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BoolOp {
    And,
    Or,
    Xor,
}

/// `setp` and `set`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SetCompare {
    pub(crate) compare: Compare,
    pub(crate) number: Number,
    pub(crate) ftz: bool,
    /// Packed halves: `d` gets the low result, `q` the high one.
    pub(crate) packed: bool,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    /// Joined predicate and whether it is negated.
    pub(crate) combine: Option<(BoolOp, Slot, bool)>,
    pub(crate) result: CompareResult,
}

/// Where a comparison goes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum CompareResult {
    /// `setp`: predicate and optional complement.
    Predicate(Reg, Reg),
    /// `set`: a word that holds `yes` or 0 (per half when packed).
    Word(Slot, u32),
}

/// `cvt` in general form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Convert {
    pub(crate) from: Number,
    pub(crate) to: Number,
    pub(crate) rounding: Rounding,
    /// Ties away from zero, for tf32.
    pub(crate) away: bool,
    /// Float to float of one width with an integer rounding (`rni` and so on).
    pub(crate) integral: bool,
    pub(crate) ftz: bool,
    pub(crate) sat: bool,
    pub(crate) relu: bool,
    pub(crate) d: Reg,
    pub(crate) a: Reg,
    pub(crate) pairing: Pairing,
}

/// Whether a conversion makes one value or two.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Pairing {
    One,
    /// `a` gives the upper value of a pair, this the lower.
    Sources(Slot),
    /// `a` holds a pair.
    Packed,
}

/// Carry chains.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carry {
    pub(crate) kind: CarryKind,
    pub(crate) wide: bool,
    pub(crate) signed: bool,
    pub(crate) carry_in: bool,
    pub(crate) carry_out: bool,
    pub(crate) d: Slot,
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
}

/// What a carry chain computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CarryKind {
    Add,
    Sub,
    MadLo,
    MadHi,
}
