//! Moves vector elements between registers and memory, with the fast shapes of a full warp.
//!
//! All ranges were checked before; what is out of range here reads as 0.

use super::frame::{FULL, Frame, LANES, Longs, lanes};
use super::traffic::Pattern;
use crate::machine::address::Buffer;
use crate::program::ir::{MemoryAccess, Reg};

/// Extends a loaded value to 64 bits by the sign of its type.
#[inline(always)]
fn extend(value: u64, op: &MemoryAccess) -> u64 {
    match (op.signed, op.bytes) {
        (true, 1) => value as i8 as u64,
        (true, 2) => value as i16 as u64,
        (true, 4) => value as i32 as u64,
        _ => value,
    }
}

/// Reads each vector element of the active lanes and writes its register.
#[inline(always)]
pub(super) fn each_element(
    frame: &mut Frame,
    op: &MemoryAccess,
    active: u32,
    read: impl Fn(usize, u64) -> u64,
) {
    for (element, reg) in op.regs.iter().enumerate() {
        let at = element as u64 * u64::from(op.bytes);
        let mut value = [0; LANES];
        for lane in lanes(active) {
            value[lane] = extend(read(lane, at), op);
        }
        frame.set_any(*reg, &value, active);
    }
}

/// 32-bit loads from anywhere in one memory, by word index. Inactive lanes repeat the first active
/// one, so that the loop has no branch; they are not written.
#[inline(always)]
pub(super) fn gather_words(
    frame: &mut Frame,
    op: &MemoryAccess,
    offsets: &Longs,
    active: u32,
    word: impl Fn(usize) -> u32,
) {
    let first = offsets[active.trailing_zeros() as usize % LANES] >> 2;
    let mut index = [0; LANES];
    for (lane, index) in index.iter_mut().enumerate() {
        *index = if active >> lane & 1 != 0 { offsets[lane] >> 2 } else { first };
    }
    for (element, reg) in op.regs.iter().enumerate() {
        let mut value = [0; LANES];
        for (value, index) in value.iter_mut().zip(&index) {
            *value = word(*index as usize + element);
        }
        match reg {
            Reg::Word { slot, narrow: false } => frame.set_word(*slot, &value, active),
            other => frame.set_any(*other, &value.map(u64::from), active),
        }
    }
}

/// Hands each vector element of the active lanes to a writer, lanes ascending.
#[inline(always)]
pub(super) fn for_values(
    frame: &Frame,
    op: &MemoryAccess,
    active: u32,
    mut write: impl FnMut(usize, u64, u64),
) {
    for (element, reg) in op.regs.iter().enumerate() {
        let at = element as u64 * u64::from(op.bytes);
        let value = frame.any(*reg);
        for lane in lanes(active) {
            write(lane, at, value[lane]);
        }
    }
}

/// Whether first and last lane are in bounds and aligned; in between the addresses ascend.
#[inline(always)]
pub(super) fn fits(addresses: &Longs, bytes: u64, size: u64) -> bool {
    let Some(most) = bytes.checked_sub(size) else { return false };
    addresses[0] <= most && addresses[LANES - 1] <= most && addresses[0] & (size - 1) == 0
}

/// A load of a full warp whose lanes all read the same place.
#[inline(always)]
pub(super) fn load_pattern(
    frame: &mut Frame,
    op: &MemoryAccess,
    pattern: Pattern,
    read: impl Fn(u64) -> u64,
) -> bool {
    if pattern != Pattern::Uniform {
        return false;
    }
    for (element, reg) in op.regs.iter().enumerate() {
        let value = extend(read(element as u64 * u64::from(op.bytes)), op);
        match reg {
            Reg::Word { slot, narrow: false } => {
                frame.set_word(*slot, &[value as u32; LANES], FULL);
            }
            other => frame.set_any(*other, &[value; LANES], FULL),
        }
    }
    true
}

/// A load of a full warp from one place or from consecutive 32-bit words.
#[inline(always)]
pub(super) fn load_pattern_global(
    frame: &mut Frame,
    op: &MemoryAccess,
    pattern: Pattern,
    buffer: &Buffer,
    [first, last]: [u64; 2],
    size: u64,
) -> bool {
    let Some(most) = buffer.bytes.checked_sub(size) else { return false };
    if first > most || last > most || first & (size - 1) != 0 {
        return false;
    }
    if load_pattern(frame, op, pattern, |at| buffer.words.load(first + at, op.bytes)) {
        return true;
    }
    let [Reg::Word { slot, narrow: false }] = op.regs[..] else { return false };
    let Some(run) = buffer.words.run((first >> 2) as usize, LANES) else { return false };
    if op.bytes != 4 {
        return false;
    }
    let mut value = [0; LANES];
    for (to, from) in value.iter_mut().zip(run) {
        *to = from.load(std::sync::atomic::Ordering::Relaxed);
    }
    frame.set_word(slot, &value, FULL);
    true
}
