//! `setp` and `set`: comparisons of all lanes into bit sets.

use super::frame::{Frame, LANES};
use crate::numeric::half::Format;
use crate::numeric::single;
use crate::program::ir::{BoolOp, Compare, CompareResult, Number, Reg, SetCompare, Slot};

/// Executes one comparison under a mask.
#[inline(always)]
pub(super) fn execute(frame: &mut Frame, op: &SetCompare, mask: u32) {
    let low = join(frame, op, bits(frame, op, 0));
    match op.result {
        CompareResult::Predicate(p, q) => {
            let other = match op.packed {
                true => join(frame, op, bits(frame, op, 16)),
                // The complement of the comparison is joined, not the joined result.
                false => join(frame, op, !bits(frame, op, 0)),
            };
            for (reg, value) in [(p, low), (q, other)] {
                if let Reg::Pred(slot) = reg {
                    frame.set_pred(slot, value, mask);
                }
            }
        }
        CompareResult::Word(slot, yes) => {
            let high = if op.packed { join(frame, op, bits(frame, op, 16)) } else { low };
            let value: [u32; LANES] = std::array::from_fn(|lane| {
                let part = |set: u32, mask: u32| if set >> lane & 1 != 0 { yes & mask } else { 0 };
                part(low, 0xffff) | part(high, 0xffff_0000)
            });
            frame.set_word(slot, &value, mask);
        }
    }
}

#[inline(always)]
fn join(frame: &Frame, op: &SetCompare, bits: u32) -> u32 {
    let Some((join, slot, negated)) = op.combine else { return bits };
    let other = frame.pred(slot) ^ if negated { u32::MAX } else { 0 };
    match join {
        BoolOp::And => bits & other,
        BoolOp::Or => bits | other,
        BoolOp::Xor => bits ^ other,
    }
}

/// One bit for each lane.
#[inline(always)]
fn gather(test: impl Fn(usize) -> bool) -> u32 {
    let mut flags = [0_u32; LANES];
    for (lane, flag) in flags.iter_mut().enumerate() {
        *flag = u32::from(test(lane)) << lane;
    }
    flags.iter().fold(0, |bits, flag| bits | flag)
}

macro_rules! integers {
    ($compare:expr, $a:expr, $b:expr, $read:expr) => {{
        let (a, b, read) = ($a, $b, $read);
        match $compare {
            Compare::Eq | Compare::Equ => gather(|l| read(a[l]) == read(b[l])),
            Compare::Ne | Compare::Neu => gather(|l| read(a[l]) != read(b[l])),
            Compare::Lt | Compare::Ltu => gather(|l| read(a[l]) < read(b[l])),
            Compare::Le | Compare::Leu => gather(|l| read(a[l]) <= read(b[l])),
            Compare::Gt | Compare::Gtu => gather(|l| read(a[l]) > read(b[l])),
            Compare::Ge | Compare::Geu => gather(|l| read(a[l]) >= read(b[l])),
            Compare::Num => u32::MAX,
            Compare::Nan => 0,
        }
    }};
}

// Lanes where neither operand is NaN.
macro_rules! ordered {
    ($a:expr, $b:expr, $read:expr) => {
        !gather(|l| $read($a[l]).is_nan() || $read($b[l]).is_nan())
    };
}

macro_rules! floats {
    ($compare:expr, $a:expr, $b:expr, $read:expr) => {{
        let (a, b, read) = ($a, $b, $read);
        match $compare {
            Compare::Eq => gather(|l| read(a[l]) == read(b[l])),
            Compare::Ne => ordered!(a, b, read) & !gather(|l| read(a[l]) == read(b[l])),
            Compare::Lt => gather(|l| read(a[l]) < read(b[l])),
            Compare::Le => gather(|l| read(a[l]) <= read(b[l])),
            Compare::Gt => gather(|l| read(a[l]) > read(b[l])),
            Compare::Ge => gather(|l| read(a[l]) >= read(b[l])),
            Compare::Neu => !gather(|l| read(a[l]) == read(b[l])),
            Compare::Equ => !ordered!(a, b, read) | gather(|l| read(a[l]) == read(b[l])),
            Compare::Geu => !gather(|l| read(a[l]) < read(b[l])),
            Compare::Gtu => !gather(|l| read(a[l]) <= read(b[l])),
            Compare::Leu => !gather(|l| read(a[l]) > read(b[l])),
            Compare::Ltu => !gather(|l| read(a[l]) >= read(b[l])),
            Compare::Num => ordered!(a, b, read),
            Compare::Nan => !ordered!(a, b, read),
        }
    }};
}

/// Compares; halves are taken from bit `shift`.
#[inline(always)]
fn bits(frame: &Frame, op: &SetCompare, shift: u32) -> u32 {
    let word = |slot: Slot| frame.word(slot);
    let long = |slot: Slot| frame.long(slot);
    match op.number {
        Number::S32 => integers!(op.compare, word(op.a), word(op.b), |x: u32| x as i32),
        Number::U32 => integers!(op.compare, word(op.a), word(op.b), |x: u32| x),
        Number::S16 | Number::S8 => {
            integers!(op.compare, word(op.a), word(op.b), |x: u32| x as i16)
        }
        // PTX has no comparisons of 8-bit floats.
        Number::U16 | Number::U8 | Number::E4m3 | Number::E5m2 => {
            integers!(op.compare, word(op.a), word(op.b), |x: u32| x as u16)
        }
        Number::S64 => integers!(op.compare, long(op.a), long(op.b), |x: u64| x as i64),
        Number::U64 => integers!(op.compare, long(op.a), long(op.b), |x: u64| x),
        Number::F32 | Number::Tf32 if op.ftz => {
            floats!(op.compare, word(op.a), word(op.b), |x: u32| f32::from_bits(single::flush(x)))
        }
        Number::F32 | Number::Tf32 => {
            floats!(op.compare, word(op.a), word(op.b), f32::from_bits)
        }
        Number::F64 => floats!(op.compare, long(op.a), long(op.b), f64::from_bits),
        Number::F16 => {
            floats!(op.compare, word(op.a), word(op.b), |x: u32| Format::Half
                .widen((x >> shift) as u16))
        }
        Number::Bf16 => {
            floats!(op.compare, word(op.a), word(op.b), |x: u32| Format::Bfloat
                .widen((x >> shift) as u16))
        }
    }
}
