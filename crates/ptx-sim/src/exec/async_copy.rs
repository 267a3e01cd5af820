//! `cp.async`: copies from global to shared memory that arrive as late as PTX allows.
//!
//! Addresses are checked when a copy is issued. Its bytes move when its thread waits for it, so
//! that a kernel that reads before it has waited reads what was there before.

use super::engine::{Engine, Fault, Place};
use super::fault;
use super::frame::{Frame, LANES, Longs, lanes};
use super::memory::put;
use super::traffic;
use crate::limits::ASYNC_COPIES_MAX;
use crate::machine::address::GlobalMemory;
use crate::program::ir::{AsyncCopy, AsyncSource};

/// The copies of a warp that have not arrived, oldest first.
#[derive(Debug, Default)]
pub(super) struct AsyncCopies {
    pending: Vec<Pending>,
    /// Groups that each lane has committed.
    committed: [u32; LANES],
}

#[derive(Debug, Clone, Copy)]
struct Pending {
    lane: u8,
    /// Bytes written, and how many of them are read; the rest are zeros.
    bytes: u8,
    read: u8,
    /// The group of its lane that it belongs to, or will.
    group: u32,
    to: u64,
    from: u64,
}

impl AsyncCopies {
    /// `cp.async.commit_group`
    pub(super) fn commit(&mut self, active: u32) {
        for lane in lanes(active) {
            self.committed[lane] += 1;
        }
    }

    /// `cp.async.wait_group`: all but the newest groups of these lanes arrive; without a number,
    /// `cp.async.wait_all`, also what belongs to no group yet.
    pub(super) fn wait(
        &mut self,
        memory: &GlobalMemory,
        shared: &mut [u8],
        newest: Option<u32>,
        active: u32,
    ) {
        let committed = self.committed;
        self.pending.retain(|copy| {
            let lane = usize::from(copy.lane);
            let is_due = newest.is_none_or(|newest| copy.group + newest < committed[lane]);
            let arrives = active >> lane & 1 == 1 && is_due;
            if arrives {
                copy.deliver(memory, shared);
            }
            !arrives
        });
    }
}

impl Pending {
    fn deliver(self, memory: &GlobalMemory, shared: &mut [u8]) {
        let buffer = memory.buffer(self.from);
        for i in 0..u64::from(self.bytes) {
            let byte = match buffer {
                Some(buffer) if i < u64::from(self.read) => {
                    buffer.words.load(self.from.wrapping_sub(buffer.base) + i, 1)
                }
                _ => 0,
            };
            put(shared, self.to + i, 1, byte);
        }
    }
}

impl Engine<'_> {
    /// Checks the copies of a warp and takes them in.
    pub(super) fn copy_later(
        &mut self,
        frame: &Frame,
        shared: &mut [u8],
        copies: &mut AsyncCopies,
        op: &AsyncCopy,
        active: u32,
        place: Place,
    ) -> Result<(), Fault> {
        let size = u64::from(op.bytes);
        let to = frame.addresses(op.to.0, op.to.1);
        let from = frame.addresses(op.from.0, op.from.1);
        let read = bytes_read(frame, op);
        self.check_shared(&to, active, shared.len() as u64, size, true)?;
        self.check_sources(&from, &read, size, active, place)?;
        for lane in lanes(active) {
            copies.pending.push(Pending {
                lane: lane as u8,
                bytes: op.bytes,
                read: read[lane],
                group: copies.committed[lane],
                to: to[lane],
                from: from[lane],
            });
        }
        // The oldest may arrive at any time.
        let over = copies.pending.len().saturating_sub(ASYNC_COPIES_MAX);
        copies.pending.drain(..over).for_each(|copy| copy.deliver(self.memory, shared));
        self.counters.global_load_requests += 1;
        self.counters.global_load_bytes += lanes(active).map(|l| u64::from(read[l])).sum::<u64>();
        self.counters.global_load_sectors += traffic::sectors(&from, active, size);
        self.counters.shared_requests += 1;
        self.counters.shared_wavefronts += traffic::wavefronts(&to, active, size);
        Ok(())
    }

    fn check_sources(
        &mut self,
        from: &Longs,
        read: &[u8; LANES],
        size: u64,
        active: u32,
        place: Place,
    ) -> Result<(), Fault> {
        let whole = lanes(active).filter(|l| u64::from(read[*l]) == size);
        let part = lanes(active).filter(|l| (1..size).contains(&u64::from(read[*l])));
        let [whole, part] =
            [whole.fold(0, |set, l| set | 1 << l), part.fold(0, |set, l| set | 1 << l)];
        // Of a part its first and its last byte.
        let last = std::array::from_fn(|l| from[l] + u64::from(read[l]).saturating_sub(1));
        for (addresses, suspects, bytes) in [(from, whole, size), (from, part, 1), (&last, part, 1)]
        {
            if suspects == 0 {
                continue;
            }
            let found = fault::check_global(self.memory, addresses, suspects, bytes, false)?;
            if let Some((access, lane_set)) = found {
                fault::note_padding(self, place, lane_set, &access);
            }
        }
        Ok(())
    }
}

/// Bytes that each lane reads: all, what an operand says, or none where a predicate says so.
fn bytes_read(frame: &Frame, op: &AsyncCopy) -> [u8; LANES] {
    match op.source {
        AsyncSource::Whole => [op.bytes; LANES],
        AsyncSource::Bytes(slot) => frame.word(slot).map(|n| n.min(op.bytes.into()) as u8),
        AsyncSource::Unless(slot, negated) => std::array::from_fn(|lane| {
            let ignored = (frame.pred(slot) >> lane & 1 == 1) != negated;
            if ignored { 0 } else { op.bytes }
        }),
    }
}
