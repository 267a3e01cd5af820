//! `printf` and failed assertions: reads their texts and arguments from the memory of the device.

use super::engine::{Engine, Place};
use super::frame::{Frame, lanes};
use super::memory::get;
use super::space::classify;
use crate::limits::{PRINTED_BYTES_MAX, PRINTED_TEXT_BYTES_MAX};
use crate::numeric::printf;
use crate::program::ir::{Call, MemorySpace};
use crate::report::FindingKind;

/// The memories that one lane can point into besides the buffers.
#[derive(Clone, Copy)]
pub(super) struct LaneMemory<'m> {
    pub(super) shared: &'m [u8],
    pub(super) local: &'m [Vec<u8>],
}

impl Engine<'_> {
    /// Prints a call of `vprintf`, lane by lane, until the cap on what a launch may print.
    pub(super) fn print(
        &mut self,
        memory: LaneMemory<'_>,
        frame: &Frame,
        call: &Call,
        place: Place,
        active: u32,
    ) {
        for lane in lanes(active) {
            if self.printed.len() < PRINTED_BYTES_MAX {
                let text = self.printed_line(memory, frame, call, lane);
                let room = text.floor_char_boundary(PRINTED_BYTES_MAX - self.printed.len());
                self.printed.push_str(&text[..room]);
            }
        }
        if self.printed.len() >= PRINTED_BYTES_MAX {
            self.note(FindingKind::PrintDropped, place, active, None, || {
                format!("printf output beyond {PRINTED_BYTES_MAX} bytes is dropped")
            });
        }
    }

    fn printed_line(
        &self,
        memory: LaneMemory<'_>,
        frame: &Frame,
        call: &Call,
        lane: usize,
    ) -> String {
        let text = |address: u64| self.text(memory, lane, address);
        let template = argument(frame, call, lane, 0).and_then(text);
        let mut next = argument(frame, call, lane, 1).unwrap_or(0);
        let mut fetch = |bytes: u32| {
            next = next.checked_next_multiple_of(u64::from(bytes))?;
            let read = (0..u64::from(bytes)).rev().try_fold(0_u64, |value, at| {
                let byte = self.byte(memory, lane, next.checked_add(at)?)?;
                Some(value << 8 | u64::from(byte))
            });
            next = next.saturating_add(bytes.into());
            read
        };
        match template {
            Some(template) => printf::format(&template, &mut fetch, &text),
            None => "(printf with a format that is no string)\n".to_owned(),
        }
    }

    /// The words of a failed assertion.
    pub(super) fn assertion(
        &self,
        memory: LaneMemory<'_>,
        frame: &Frame,
        call: &Call,
        active: u32,
    ) -> String {
        let lane = active.trailing_zeros() as usize % super::frame::LANES;
        let address = argument(frame, call, lane, 0);
        match address.and_then(|address| self.text(memory, lane, address)) {
            Some(condition) => format!("the assertion `{condition}` failed"),
            None => "a device-side assertion failed".to_owned(),
        }
    }

    /// The string that ends in NUL at a generic address, capped.
    fn text(&self, memory: LaneMemory<'_>, lane: usize, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        for at in 0..PRINTED_TEXT_BYTES_MAX as u64 {
            match self.byte(memory, lane, address.checked_add(at)?)? {
                0 => break,
                byte => bytes.push(byte),
            }
        }
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn byte(&self, memory: LaneMemory<'_>, lane: usize, address: u64) -> Option<u8> {
        let (space, within) = classify(address);
        match space {
            MemorySpace::Shared => memory.shared.get(within as usize).copied(),
            MemorySpace::Local => memory.local.get(lane)?.get(within as usize).copied(),
            MemorySpace::EntryParam => self.plan.params.get(within as usize).copied(),
            _ => {
                let buffer = self.memory.buffer(address)?;
                let offset = address.checked_sub(buffer.base)?;
                (offset < buffer.bytes).then(|| buffer.words.load(offset, 1) as u8)
            }
        }
    }
}

/// The bits of an argument of a call, from the caller's parameter area.
fn argument(frame: &Frame, call: &Call, lane: usize, index: usize) -> Option<u64> {
    let (from, _, bytes) = *call.arguments.get(index)?;
    let at = lane as u64 * u64::from(frame.param_stride) + u64::from(from);
    Some(get(&frame.params, at, bytes.min(8) as u8))
}
