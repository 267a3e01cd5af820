//! `atom` and `red`: read, modify, write, lane by lane in ascending order.

use super::engine::{Engine, Fault};
use super::fault;
use super::frame::{Frame, LANES, Longs, lanes};
use super::memory::{Private, get, put};
use super::space::split_generic;
use crate::numeric::half::{self, Format};
use crate::numeric::{double, single};
use crate::program::ir::{Atomic, AtomicOp, MemorySpace, Number};

impl Engine<'_> {
    /// Executes an atomic operation.
    pub(super) fn atomic(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &Atomic,
        active: u32,
    ) -> Result<(), Fault> {
        let mut addresses = frame.addresses(op.base, op.offset);
        let mut left = active;
        while left != 0 {
            let (space, same) = match op.space {
                MemorySpace::Generic => split_generic(&mut addresses, left),
                space => (space, left),
            };
            match space {
                MemorySpace::Shared => self.atomic_shared(frame, private, op, &addresses, same)?,
                MemorySpace::Global | MemorySpace::Generic | MemorySpace::Const => {
                    self.atomic_global(frame, op, &addresses, same)?;
                }
                MemorySpace::Local | MemorySpace::EntryParam | MemorySpace::FrameParam => {
                    return Err(fault::unallocated(
                        addresses[same.trailing_zeros() as usize % LANES],
                        same,
                        element_bytes(op),
                        true,
                    ));
                }
            }
            left &= !same;
        }
        self.counters.atomics += u64::from(active.count_ones());
        Ok(())
    }

    fn atomic_shared(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &Atomic,
        addresses: &Longs,
        active: u32,
    ) -> Result<(), Fault> {
        let bytes = element_bytes(op);
        let size = bytes * op.a.len() as u64;
        self.check_shared(addresses, active, private.shared.len() as u64, size, true)?;
        apply(frame, op, active, false, |lane, at, change| {
            let offset = addresses[lane] + at;
            let old = get(private.shared, offset, bytes as u8);
            put(private.shared, offset, bytes as u8, change(old));
            old
        });
        self.counters.shared_requests += 1;
        Ok(())
    }

    fn atomic_global(
        &mut self,
        frame: &mut Frame,
        op: &Atomic,
        addresses: &Longs,
        active: u32,
    ) -> Result<(), Fault> {
        let bytes = element_bytes(op);
        let size = bytes * op.a.len() as u64;
        let mut left = active;
        while left != 0 {
            let (buffer, offsets, same) = self.buffer_lanes(addresses, left, size, true)?;
            fault::check_global(self.memory, addresses, same, size, true)?;
            apply(frame, op, same, true, |lane, at, change| {
                let offset = offsets[lane] + at;
                let old = buffer.words.load(offset, bytes as u8);
                buffer.words.store(offset, bytes as u8, change(old));
                old
            });
            left &= !same;
        }
        Ok(())
    }
}

/// Bytes of one element.
fn element_bytes(op: &Atomic) -> u64 {
    if op.packed { 4 } else { u64::from(op.number.bits() / 8) }
}

/// Runs the operation for each element of each lane and writes the old values.
fn apply(
    frame: &mut Frame,
    op: &Atomic,
    active: u32,
    global: bool,
    mut exchange: impl FnMut(usize, u64, &dyn Fn(u64) -> u64) -> u64,
) {
    let new: Option<Longs> = op.c.map(|c| frame.any(c));
    for (element, source) in op.a.iter().enumerate() {
        let at = element as u64 * element_bytes(op);
        let operand = frame.any(*source);
        let mut old = [0; LANES];
        for lane in lanes(active) {
            let c = new.map_or(0, |n| n[lane]);
            old[lane] = exchange(lane, at, &|old| combine(op, old, operand[lane], c, global));
        }
        if let Some(d) = op.d.get(element) {
            frame.set_any(*d, &old, active);
        }
    }
}

/// The new value. Global `f32` addition flushes subnormals, shared does not.
fn combine(op: &Atomic, old: u64, a: u64, c: u64, global: bool) -> u64 {
    if op.packed {
        let half = |shift: u32| combine_half(op, (old >> shift) as u16, (a >> shift) as u16);
        return u64::from(half(0)) | u64::from(half(16)) << 16;
    }
    match op.number {
        Number::F32 | Number::Tf32 => combine_single(op.op, old as u32, a as u32, global).into(),
        Number::F64 => match op.op {
            AtomicOp::Min => double::min(old, a),
            AtomicOp::Max => double::max(old, a),
            _ => double::canonical(f64::from_bits(old) + f64::from_bits(a)),
        },
        Number::F16 | Number::Bf16 => combine_half(op, old as u16, a as u16).into(),
        Number::U8
        | Number::S8
        | Number::U16
        | Number::S16
        | Number::U32
        | Number::S32
        | Number::U64
        | Number::S64
        // PTX has no atomics on 8-bit floats.
        | Number::E4m3
        | Number::E5m2 => combine_integer(op, old, a, c),
    }
}

fn combine_single(op: AtomicOp, old: u32, a: u32, global: bool) -> u32 {
    match op {
        AtomicOp::Min => single::min(old, a),
        AtomicOp::Max => single::max(old, a),
        _ if global => {
            let sum = f32::from_bits(single::flush(old)) + f32::from_bits(single::flush(a));
            single::flush(single::canonical(sum))
        }
        _ => single::canonical(f32::from_bits(old) + f32::from_bits(a)),
    }
}

fn combine_half(op: &Atomic, old: u16, a: u16) -> u16 {
    let format = if op.number == Number::Bf16 { Format::Bfloat } else { Format::Half };
    match op.op {
        AtomicOp::Min => half::extreme(format, old, a, false, false),
        AtomicOp::Max => half::extreme(format, old, a, true, false),
        _ => half::add(format, old, a),
    }
}

fn combine_integer(op: &Atomic, old: u64, a: u64, c: u64) -> u64 {
    let bits = op.number.bits();
    let keep = u64::MAX >> (64 - bits);
    let (old, a, c) = (old & keep, a & keep, c & keep);
    // Signed comparison with the sign bit flipped.
    let order = |x: u64| if op.number.is_signed() { x ^ 1 << (bits - 1) } else { x };
    let value = match op.op {
        AtomicOp::Add => old.wrapping_add(a),
        AtomicOp::Min => {
            if order(a) < order(old) {
                a
            } else {
                old
            }
        }
        AtomicOp::Max => {
            if order(a) > order(old) {
                a
            } else {
                old
            }
        }
        AtomicOp::And => old & a,
        AtomicOp::Or => old | a,
        AtomicOp::Xor => old ^ a,
        AtomicOp::Exch => a,
        AtomicOp::Cas => {
            if old == a {
                c
            } else {
                old
            }
        }
        AtomicOp::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
    };
    value & keep
}
