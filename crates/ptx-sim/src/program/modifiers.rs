//! The modifiers of one opcode, taken off one by one; what is left over was not understood.

use super::builder::{Decoded, Reject};
use super::ir::{Number, Rounding, flag};

/// Operand type of an instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ty {
    pub(super) kind: Kind,
    pub(super) bits: u32,
    /// Two halves in one word.
    pub(super) packed: bool,
}

/// How the bits are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Pred,
    Bits,
    Unsigned,
    Signed,
    Float,
    Bfloat,
}

impl Ty {
    pub(super) fn parse(text: &str) -> Option<Ty> {
        let (kind, bits, packed) = match text {
            "pred" => (Kind::Pred, 1, false),
            "b8" => (Kind::Bits, 8, false),
            "b16" => (Kind::Bits, 16, false),
            "b32" => (Kind::Bits, 32, false),
            "b64" => (Kind::Bits, 64, false),
            "b128" => (Kind::Bits, 128, false),
            "u8" => (Kind::Unsigned, 8, false),
            "u16" => (Kind::Unsigned, 16, false),
            "u32" => (Kind::Unsigned, 32, false),
            "u64" => (Kind::Unsigned, 64, false),
            "s8" => (Kind::Signed, 8, false),
            "s16" => (Kind::Signed, 16, false),
            "s32" => (Kind::Signed, 32, false),
            "s64" => (Kind::Signed, 64, false),
            "f16" => (Kind::Float, 16, false),
            "f32" => (Kind::Float, 32, false),
            "f64" => (Kind::Float, 64, false),
            "bf16" => (Kind::Bfloat, 16, false),
            "f16x2" => (Kind::Float, 32, true),
            "bf16x2" => (Kind::Bfloat, 32, true),
            _ => return None,
        };
        Some(Ty { kind, bits, packed })
    }

    pub(super) fn is_half(self) -> bool {
        self.packed || self.kind == Kind::Bfloat || (self.kind == Kind::Float && self.bits == 16)
    }

    pub(super) fn is_integer(self) -> bool {
        matches!(self.kind, Kind::Bits | Kind::Unsigned | Kind::Signed)
    }

    pub(super) fn is_signed(self) -> bool {
        self.kind == Kind::Signed
    }

    /// The number format; packed halves give that of one half.
    pub(super) fn number(self) -> Decoded<Number> {
        Ok(match (self.kind, self.bits) {
            (Kind::Float, 16) => Number::F16,
            (Kind::Float, 32) if self.packed => Number::F16,
            (Kind::Float, 32) => Number::F32,
            (Kind::Float, 64) => Number::F64,
            (Kind::Bfloat, _) => Number::Bf16,
            (Kind::Signed, 8) => Number::S8,
            (Kind::Signed, 16) => Number::S16,
            (Kind::Signed, 32) => Number::S32,
            (Kind::Signed, 64) => Number::S64,
            (Kind::Unsigned | Kind::Bits, 8) => Number::U8,
            (Kind::Unsigned | Kind::Bits, 16) => Number::U16,
            (Kind::Unsigned | Kind::Bits, 32) => Number::U32,
            (Kind::Unsigned | Kind::Bits, 64) => Number::U64,
            _ => return Err(Reject::Unsupported),
        })
    }

    /// Flags of a 16-bit integer operation.
    pub(super) fn integer_flags(self) -> u16 {
        match (self.bits, self.is_signed()) {
            (16, true) => flag::SEXT16 | flag::MASK16,
            (16, false) => flag::MASK16,
            _ => 0,
        }
    }

    /// Flags of a half operation.
    pub(super) fn half_flags(self) -> u16 {
        let bf16 = if self.kind == Kind::Bfloat { flag::BF16 } else { 0 };
        if self.packed { bf16 | flag::PACKED } else { bf16 | flag::MASK16 }
    }
}

/// Modifiers not yet understood.
#[derive(Debug)]
pub(super) struct Modifiers<'o> {
    pub(super) left: Vec<&'o str>,
}

impl<'o> Modifiers<'o> {
    pub(super) fn of(op: &'o str) -> (&'o str, Modifiers<'o>) {
        let mut parts = op.split('.');
        let root = parts.next().unwrap_or_default();
        (root, Modifiers { left: parts.collect() })
    }

    /// Removes a modifier if it is there.
    pub(super) fn take(&mut self, name: &str) -> bool {
        let at = self.left.iter().position(|m| *m == name);
        at.map(|at| self.left.remove(at)).is_some()
    }

    /// Removes the first of these that is there.
    pub(super) fn take_any<'n>(&mut self, names: &[&'n str]) -> Option<&'n str> {
        names.iter().copied().find(|n| self.take(n))
    }

    /// Removes the last type.
    pub(super) fn take_type(&mut self) -> Decoded<Ty> {
        let at = self.left.iter().rposition(|m| Ty::parse(m).is_some());
        let at = at.ok_or(Reject::Unsupported)?;
        Ty::parse(self.left.remove(at)).ok_or(Reject::Unsupported)
    }

    /// Removes a floating-point rounding.
    pub(super) fn take_rounding(&mut self) -> Rounding {
        match self.take_any(&["rn", "rz", "rm", "rp"]) {
            Some("rz") => Rounding::Zero,
            Some("rm") => Rounding::Down,
            Some("rp") => Rounding::Up,
            _ => Rounding::Nearest,
        }
    }

    /// Removes `.ftz` and `.sat` as flags.
    pub(super) fn take_float_flags(&mut self) -> u16 {
        let ftz = if self.take("ftz") { flag::FTZ } else { 0 };
        let sat = if self.take("sat") { flag::SAT } else { 0 };
        ftz | sat
    }

    /// Refuses what is left over.
    pub(super) fn finish(self) -> Decoded<()> {
        if self.left.is_empty() { Ok(()) } else { Err(Reject::Unsupported) }
    }
}
