//! Loads and stores of one warp: address checks, bytes, traffic counters.
//!
//! The atomics are in `atomic`, the messages about bad addresses in `fault`.

use super::engine::{Engine, Fault, Place};
use super::fault;
use super::frame::{Frame, LANES, Longs};
use super::gather::{
    each_element, fits, for_values, gather_words, load_pattern, load_pattern_global,
};
use super::space::split_generic;
use super::traffic::{self, Pattern};
use crate::machine::address::Buffer;
use crate::program::ir::{MemoryAccess, MemorySpace};

/// Memory private to a block or warp, while an instruction runs.
#[derive(Debug)]
pub(super) struct Private<'w> {
    /// Shared memory of the block.
    pub(super) shared: &'w mut [u8],
    /// Local memory of each lane.
    pub(super) local: &'w mut [Vec<u8>],
}

/// Lanes whose access of `size` bytes is out of `bytes` or misaligned.
#[inline(always)]
fn bad_lanes(offsets: &Longs, active: u32, bytes: u64, size: u64) -> u32 {
    let Some(last) = bytes.checked_sub(size) else { return active };
    let mut bad = 0;
    for (lane, offset) in offsets.iter().enumerate() {
        let out = *offset > last || offset & (size - 1) != 0;
        bad |= u32::from(out) << lane;
    }
    bad & active
}

/// Little-endian value of up to 8 bytes; the range was checked.
#[inline(always)]
pub(super) fn get(bytes: &[u8], at: u64, size: u8) -> u64 {
    let at = at as usize;
    let slice = bytes.get(at..at + usize::from(size)).unwrap_or(&[]);
    match slice {
        [a, b, c, d] => u64::from(u32::from_le_bytes([*a, *b, *c, *d])),
        _ => slice.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
    }
}

/// Stores the low bytes; the range was checked.
#[inline(always)]
pub(super) fn put(bytes: &mut [u8], at: u64, size: u8, value: u64) {
    let at = at as usize;
    if let Some(slice) = bytes.get_mut(at..at + usize::from(size)) {
        slice.copy_from_slice(&value.to_le_bytes()[..usize::from(size)]);
    }
}

impl<'a> Engine<'a> {
    /// Executes a load.
    pub(super) fn load(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &MemoryAccess,
        active: u32,
        place: Place,
    ) -> Result<(), Fault> {
        let addresses = frame.addresses(op.base, op.offset);
        self.load_at(frame, private, op, addresses, active, place)
    }

    /// Executes a load from these addresses.
    pub(super) fn load_at(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &MemoryAccess,
        mut addresses: Longs,
        active: u32,
        place: Place,
    ) -> Result<(), Fault> {
        if op.space != MemorySpace::Generic {
            return self.load_space(frame, private, op, op.space, &addresses, active, place);
        }
        let mut left = active;
        while left != 0 {
            let (space, same) = split_generic(&mut addresses, left);
            self.load_space(frame, private, op, space, &addresses, same, place)?;
            left &= !same;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "one lane set of one access")]
    fn load_space(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &MemoryAccess,
        space: MemorySpace,
        addresses: &Longs,
        active: u32,
        place: Place,
    ) -> Result<(), Fault> {
        let size = access_bytes(op);
        match space {
            MemorySpace::Global | MemorySpace::Const | MemorySpace::Generic => {
                self.load_global(frame, op, addresses, active, place)
            }
            MemorySpace::Shared => self.load_shared(frame, private.shared, op, addresses, active),
            MemorySpace::Local => {
                fault::check_local(private.local, addresses, active, size, false)?;
                let local = &*private.local;
                each_element(frame, op, active, |lane, at| {
                    get(&local[lane], addresses[lane] + at, op.bytes)
                });
                self.counters.local_bytes += u64::from(active.count_ones()) * size;
                Ok(())
            }
            MemorySpace::EntryParam => {
                let params = &self.plan.params;
                fault::check_param(addresses, active, params.len() as u64, size)?;
                each_element(frame, op, active, |lane, at| {
                    get(params, addresses[lane] + at, op.bytes)
                });
                Ok(())
            }
            MemorySpace::FrameParam => {
                let stride = u64::from(frame.param_stride);
                fault::check_param(addresses, active, stride, size)?;
                let params = std::mem::take(&mut frame.params);
                each_element(frame, op, active, |lane, at| {
                    get(&params, lane as u64 * stride + addresses[lane] + at, op.bytes)
                });
                frame.params = params;
                Ok(())
            }
        }
    }

    fn load_shared(
        &mut self,
        frame: &mut Frame,
        shared: &[u8],
        op: &MemoryAccess,
        addresses: &Longs,
        active: u32,
    ) -> Result<(), Fault> {
        let size = access_bytes(op);
        let pattern = traffic::pattern(addresses, active, size);
        if pattern != Pattern::Other
            && fits(addresses, shared.len() as u64, size)
            && load_pattern(frame, op, pattern, |at| get(shared, addresses[0] + at, op.bytes))
        {
            self.counters.shared_requests += 1;
            self.counters.shared_wavefronts += traffic::pattern_wavefronts(pattern, size);
            return Ok(());
        }
        self.check_shared(addresses, active, shared.len() as u64, size, false)?;
        if op.bytes == 4 && !op.signed {
            let words = shared.as_chunks().0;
            gather_words(frame, op, addresses, active, |index| {
                words.get(index).map_or(0, |bytes| u32::from_le_bytes(*bytes))
            });
        } else {
            each_element(frame, op, active, |lane, at| get(shared, addresses[lane] + at, op.bytes));
        }
        self.counters.shared_requests += 1;
        self.counters.shared_wavefronts += traffic::wavefronts(addresses, active, size);
        Ok(())
    }

    fn load_global(
        &mut self,
        frame: &mut Frame,
        op: &MemoryAccess,
        addresses: &Longs,
        active: u32,
        place: Place,
    ) -> Result<(), Fault> {
        let size = access_bytes(op);
        let memory = self.memory;
        self.counters.global_load_requests += 1;
        self.counters.global_load_bytes += u64::from(active.count_ones()) * size;
        let pattern = traffic::pattern(addresses, active, size);
        if pattern != Pattern::Other
            && let Some(buffer) = memory.buffer(addresses[0])
        {
            let first = addresses[0].wrapping_sub(buffer.base);
            let last = addresses[LANES - 1].wrapping_sub(buffer.base);
            let run = load_pattern_global(frame, op, pattern, buffer, [first, last], size);
            if run {
                let sectors = traffic::pattern_sectors(pattern, first, size);
                self.counters.global_load_sectors += sectors;
                return Ok(());
            }
        }
        let mut left = active;
        while left != 0 {
            let (buffer, offsets, same) = self.buffer_lanes(addresses, left, size, false)?;
            let bad = bad_lanes(&offsets, same, buffer.bytes, size);
            if bad != 0 {
                let found = fault::check_global(memory, addresses, bad, size, false)?;
                if let Some((access, lane_set)) = found {
                    fault::note_padding(self, place, lane_set, &access);
                }
            }
            if op.bytes == 4 && !op.signed {
                gather_words(frame, op, &offsets, same, |index| buffer.words.word(index));
            } else {
                each_element(frame, op, same, |lane, at| {
                    buffer.words.load(offsets[lane] + at, op.bytes)
                });
            }
            self.counters.global_load_sectors += traffic::sectors(&offsets, same, size);
            left &= !same;
        }
        Ok(())
    }

    /// The buffer of the first lane, offsets into it, and the lanes that share it.
    #[inline(always)]
    pub(super) fn buffer_lanes(
        &self,
        addresses: &Longs,
        active: u32,
        size: u64,
        is_store: bool,
    ) -> Result<(&'a Buffer, Longs, u32), Fault> {
        let first = active.trailing_zeros() as usize % LANES;
        let Some(buffer) = self.memory.buffer(addresses[first]) else {
            return Err(fault::unallocated(addresses[first], 1 << first, size, is_store));
        };
        let offsets = addresses.map(|a| a.wrapping_sub(buffer.base));
        let mut same = 0;
        for (lane, address) in addresses.iter().enumerate() {
            same |= u32::from(address >> 36 == addresses[first] >> 36) << lane;
        }
        Ok((buffer, offsets, same & active))
    }

    /// Executes a store.
    pub(super) fn store(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &MemoryAccess,
        active: u32,
    ) -> Result<(), Fault> {
        let addresses = frame.addresses(op.base, op.offset);
        self.store_at(frame, private, op, addresses, active)
    }

    /// Executes a store to these addresses.
    pub(super) fn store_at(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &MemoryAccess,
        mut addresses: Longs,
        active: u32,
    ) -> Result<(), Fault> {
        if op.space != MemorySpace::Generic {
            return self.store_space(frame, private, op, op.space, &addresses, active);
        }
        let mut left = active;
        while left != 0 {
            let (space, same) = split_generic(&mut addresses, left);
            self.store_space(frame, private, op, space, &addresses, same)?;
            left &= !same;
        }
        Ok(())
    }

    fn store_space(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &MemoryAccess,
        space: MemorySpace,
        addresses: &Longs,
        active: u32,
    ) -> Result<(), Fault> {
        let size = access_bytes(op);
        match space {
            MemorySpace::Global | MemorySpace::Const | MemorySpace::Generic => {
                self.store_global(frame, op, addresses, active)
            }
            MemorySpace::Shared => {
                self.check_shared(addresses, active, private.shared.len() as u64, size, true)?;
                for_values(frame, op, active, |lane, at, value| {
                    put(private.shared, addresses[lane] + at, op.bytes, value);
                });
                self.counters.shared_requests += 1;
                self.counters.shared_wavefronts += traffic::wavefronts(addresses, active, size);
                Ok(())
            }
            MemorySpace::Local => {
                fault::check_local(private.local, addresses, active, size, true)?;
                for_values(frame, op, active, |lane, at, value| {
                    put(&mut private.local[lane], addresses[lane] + at, op.bytes, value);
                });
                self.counters.local_bytes += u64::from(active.count_ones()) * size;
                Ok(())
            }
            MemorySpace::EntryParam => Err(fault::param_write(addresses, active, size)),
            MemorySpace::FrameParam => {
                let stride = u64::from(frame.param_stride);
                fault::check_param(addresses, active, stride, size)?;
                let mut params = std::mem::take(&mut frame.params);
                for_values(frame, op, active, |lane, at, value| {
                    put(&mut params, lane as u64 * stride + addresses[lane] + at, op.bytes, value);
                });
                frame.params = params;
                Ok(())
            }
        }
    }

    fn store_global(
        &mut self,
        frame: &Frame,
        op: &MemoryAccess,
        addresses: &Longs,
        active: u32,
    ) -> Result<(), Fault> {
        let size = access_bytes(op);
        let pattern = traffic::pattern(addresses, active, size);
        if pattern == Pattern::Consecutive
            && let Some(buffer) = self.memory.buffer(addresses[0])
            && let offsets = addresses.map(|a| a.wrapping_sub(buffer.base))
            && fits(&offsets, buffer.bytes, size)
            && buffer.kind.is_writable()
        {
            for_values(frame, op, active, |lane, at, value| {
                buffer.words.store(offsets[lane] + at, op.bytes, value);
            });
            self.counters.global_store_sectors +=
                traffic::pattern_sectors(pattern, offsets[0], size);
            self.counters.global_store_requests += 1;
            self.counters.global_store_bytes += u64::from(active.count_ones()) * size;
            return Ok(());
        }
        let mut left = active;
        while left != 0 {
            let (buffer, offsets, same) = self.buffer_lanes(addresses, left, size, true)?;
            let bad = bad_lanes(&offsets, same, buffer.bytes, size);
            if bad != 0 || !buffer.kind.is_writable() {
                let suspects = if bad != 0 { bad } else { same };
                fault::check_global(self.memory, addresses, suspects, size, true)?;
            }
            for_values(frame, op, same, |lane, at, value| {
                buffer.words.store(offsets[lane] + at, op.bytes, value);
            });
            let sectors = traffic::sectors(&offsets, same, size);
            left &= !same;
            self.counters.global_store_sectors += sectors;
        }
        self.counters.global_store_requests += 1;
        self.counters.global_store_bytes += u64::from(active.count_ones()) * size;
        Ok(())
    }

    /// Checks shared-memory offsets of all active lanes.
    pub(super) fn check_shared(
        &self,
        addresses: &Longs,
        active: u32,
        bytes: u64,
        size: u64,
        is_store: bool,
    ) -> Result<(), Fault> {
        let bad = bad_lanes(addresses, active, bytes, size);
        if bad == 0 {
            return Ok(());
        }
        Err(fault::shared(self, addresses, bad, bytes, size, is_store))
    }
}

/// Bytes that one lane accesses.
#[inline(always)]
fn access_bytes(op: &MemoryAccess) -> u64 {
    u64::from(op.bytes) * op.regs.len() as u64
}
