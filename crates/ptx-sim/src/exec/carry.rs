//! Carry chains: add, subtract and multiply-add with carry in and out, lane by lane.

use super::frame::{Frame, LANES, Longs, lanes};
use crate::program::ir::{Carry, CarryKind};

/// Executes one link of a chain.
pub(super) fn execute(frame: &mut Frame, op: &Carry, active: u32) {
    let read = |slot| -> Longs {
        if op.wide { *frame.long(slot) } else { frame.word(slot).map(u64::from) }
    };
    let is_mad = matches!(op.kind, CarryKind::MadLo | CarryKind::MadHi);
    let (a, b) = (read(op.a), read(op.b));
    let c = if is_mad { read(op.c) } else { [0; LANES] };
    let mut value = [0; LANES];
    let mut carry = frame.carry;
    for lane in lanes(active) {
        let carry_in = op.carry_in && frame.carry >> lane & 1 == 1;
        let (result, carry_out) = link(op, a[lane], b[lane], c[lane], carry_in);
        value[lane] = result;
        if op.carry_out {
            carry = carry & !(1 << lane) | u32::from(carry_out) << lane;
        }
    }
    frame.carry = carry;
    if op.wide {
        frame.set_long(op.d, &value, active);
    } else {
        frame.set_word(op.d, &value.map(|v| v as u32), active);
    }
}

/// One lane: the result and the carry (for subtraction the borrow).
fn link(op: &Carry, a: u64, b: u64, c: u64, carry: bool) -> (u64, bool) {
    let bits = if op.wide { 64 } else { 32 };
    let keep = u64::MAX >> (64 - bits);
    let sum = |x: u64, y: u64| {
        let sum = u128::from(x) + u128::from(y) + u128::from(carry);
        (sum as u64 & keep, sum >> bits != 0)
    };
    match op.kind {
        CarryKind::Add => sum(a, b),
        CarryKind::Sub => {
            let take = u128::from(b) + u128::from(carry);
            let result = u128::from(a).wrapping_sub(take) as u64 & keep;
            (result, u128::from(a) < take)
        }
        CarryKind::MadLo => sum(a.wrapping_mul(b) & keep, c),
        CarryKind::MadHi => {
            let high = if op.signed {
                let extend = |x: u64| {
                    if op.wide { i128::from(x as i64) } else { i128::from(x as u32 as i32) }
                };
                ((extend(a) * extend(b)) >> bits) as u64
            } else {
                ((u128::from(a) * u128::from(b)) >> bits) as u64
            };
            sum(high & keep, c)
        }
    }
}
