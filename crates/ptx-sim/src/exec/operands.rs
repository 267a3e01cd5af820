//! Operands and results of the lane loops, with the modifiers that few instructions carry.

use super::frame::{Frame, LANES, Words};
use crate::numeric::half::{self, Format};
use crate::numeric::single;
use crate::program::ir::{Alu, Rounding, flag};

/// Makes 32 lanes from an expression of the lane number.
#[inline(always)]
pub(super) fn each<T: Copy + Default>(value: impl Fn(usize) -> T) -> [T; LANES] {
    let mut out = [T::default(); LANES];
    for (lane, slot) in out.iter_mut().enumerate() {
        *slot = value(lane);
    }
    out
}

/// Applies a rare modifier to all lanes. Out of line, so that the arms stay small.
#[inline(never)]
fn modify(value: &mut Words, modifier: fn(u32) -> u32) {
    value.iter_mut().for_each(|v| *v = modifier(*v));
}

/// A word operand, sign-extended from 16 bits if the instruction says so.
#[inline(always)]
pub(super) fn integer_operand(frame: &Frame, op: &Alu, slot: u16) -> Words {
    let mut value = *frame.word(slot);
    if op.flags & flag::SEXT16 != 0 {
        modify(&mut value, |v| v as i16 as u32);
    }
    value
}

/// A single operand, flushed if the instruction says so.
#[inline(always)]
pub(super) fn single_operand(frame: &Frame, op: &Alu, slot: u16) -> Words {
    let mut value = *frame.word(slot);
    if op.flags & flag::FTZ != 0 {
        modify(&mut value, single::flush);
    }
    value
}

#[inline(always)]
pub(super) fn put_integer(frame: &mut Frame, op: &Alu, mask: u32, mut value: Words) {
    if op.flags & flag::MASK16 != 0 {
        modify(&mut value, |v| v & 0xffff);
    }
    frame.set_word(op.d, &value, mask);
}

#[inline(always)]
pub(super) fn put_single(frame: &mut Frame, op: &Alu, mask: u32, mut value: Words) {
    if op.flags & (flag::FTZ | flag::SAT) != 0 {
        if op.flags & flag::FTZ != 0 {
            modify(&mut value, single::flush);
        }
        if op.flags & flag::SAT != 0 {
            modify(&mut value, single::saturate);
        }
    }
    frame.set_word(op.d, &value, mask);
}

/// Applies a function to the halves of words.
#[inline(never)]
pub(super) fn halves(op: &Alu, a: u32, b: u32, c: u32, f: &dyn Fn(u16, u16, u16) -> u16) -> u32 {
    let format = half_format(op);
    let finish = |bits: u16| {
        let bits = if op.flags & flag::SAT != 0 { half::saturate(format, bits) } else { bits };
        if op.flags & flag::RELU != 0 { half::relu(format, bits) } else { bits }
    };
    let low = u32::from(finish(f(a as u16, b as u16, c as u16)));
    if op.flags & flag::PACKED == 0 {
        return low;
    }
    let high = finish(f((a >> 16) as u16, (b >> 16) as u16, (c >> 16) as u16));
    low | u32::from(high) << 16
}

#[inline(always)]
pub(super) fn half_format(op: &Alu) -> Format {
    if op.flags & flag::BF16 != 0 { Format::Bfloat } else { Format::Half }
}

/// A function of one half through double precision.
pub(super) fn half_function(format: Format, x: u16, f: fn(f64) -> f64) -> u16 {
    format.narrow(f(format.widen(x)), Rounding::Nearest)
}
