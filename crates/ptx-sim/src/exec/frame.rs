//! Registers of one call of one function, for the 32 lanes of a warp.

use crate::program::ir::{Base, Reg, Slot};

/// Lanes of a warp.
pub(super) const LANES: usize = 32;
/// All lanes.
pub(super) const FULL: u32 = u32::MAX;

/// 32-bit values of all lanes.
pub(super) type Words = [u32; LANES];
/// 64-bit values of all lanes.
pub(super) type Longs = [u64; LANES];

/// A frame; lanes that are not in `lanes` have left it or never were in it.
#[derive(Debug, Default)]
pub(super) struct Frame {
    pub(super) function: u32,
    pub(super) words: Vec<Words>,
    pub(super) longs: Vec<Longs>,
    pub(super) preds: Vec<u32>,
    /// Parameter area, lane by lane.
    pub(super) params: Vec<u8>,
    /// Bytes of one lane's parameter area.
    pub(super) param_stride: u32,
    /// Carry flag of each lane.
    pub(super) carry: u32,
    /// Lanes that still have to return.
    pub(super) lanes: u32,
    /// Frame and program counter to return to.
    pub(super) caller: Option<(usize, u32)>,
    /// Calls above this one.
    pub(super) depth: u32,
    /// Where its local memory starts.
    pub(super) local_base: u32,
}

/// The set lanes of a mask, ascending.
#[inline(always)]
pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let lane = left.trailing_zeros();
        left &= left.wrapping_sub(1);
        (lane < 32).then_some(lane as usize)
    })
}

/// Overwrites the lanes of a mask.
#[inline(always)]
pub(super) fn blend<T: Copy>(to: &mut [T; LANES], from: &[T; LANES], mask: u32) {
    if mask == FULL {
        *to = *from;
    } else {
        blend_partial(to, from, mask);
    }
}

// Out of line: it would otherwise be repeated in every arm of the lane loops.
#[inline(never)]
fn blend_partial<T: Copy>(to: &mut [T; LANES], from: &[T; LANES], mask: u32) {
    for lane in 0..LANES {
        to[lane] = if mask >> lane & 1 != 0 { from[lane] } else { to[lane] };
    }
}

impl Frame {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        size_of_val(&self.words[..]) + size_of_val(&self.longs[..]) + self.params.len()
    }

    /// Takes lanes out; a frame without lanes is dropped by its warp.
    pub(super) fn retire(&mut self, mask: u32) {
        self.lanes &= !mask;
    }

    #[inline(always)]
    pub(super) fn word(&self, slot: Slot) -> &Words {
        &self.words[usize::from(slot)]
    }

    #[inline(always)]
    pub(super) fn long(&self, slot: Slot) -> &Longs {
        &self.longs[usize::from(slot)]
    }

    #[inline(always)]
    pub(super) fn pred(&self, slot: Slot) -> u32 {
        self.preds[usize::from(slot)]
    }

    #[inline(always)]
    pub(super) fn set_word(&mut self, slot: Slot, value: &Words, mask: u32) {
        blend(&mut self.words[usize::from(slot)], value, mask);
    }

    #[inline(always)]
    pub(super) fn set_long(&mut self, slot: Slot, value: &Longs, mask: u32) {
        blend(&mut self.longs[usize::from(slot)], value, mask);
    }

    #[inline(always)]
    pub(super) fn set_pred(&mut self, slot: Slot, value: u32, mask: u32) {
        let to = &mut self.preds[usize::from(slot)];
        *to = *to & !mask | value & mask;
    }

    /// A register of any bank as 64-bit values; a predicate as 0 and 1.
    pub(super) fn any(&self, reg: Reg) -> Longs {
        match reg {
            Reg::Word { slot, .. } => self.word(slot).map(u64::from),
            Reg::Long(slot) => *self.long(slot),
            Reg::Pred(slot) => {
                let bits = self.pred(slot);
                std::array::from_fn(|lane| u64::from(bits >> lane & 1))
            }
            Reg::Sink => [0; LANES],
        }
    }

    /// Writes the low bits into a register of any bank.
    #[inline(always)]
    pub(super) fn set_any(&mut self, reg: Reg, value: &Longs, mask: u32) {
        match reg {
            Reg::Word { slot, narrow } => {
                let keep = if narrow { 0xffff } else { u32::MAX };
                self.set_word(slot, &value.map(|v| v as u32 & keep), mask);
            }
            Reg::Long(slot) => self.set_long(slot, value, mask),
            Reg::Pred(slot) => {
                let bits = (0..LANES).fold(0, |bits, l| bits | ((value[l] & 1) as u32) << l);
                self.set_pred(slot, bits, mask);
            }
            Reg::Sink => {}
        }
    }

    /// Addresses of all lanes.
    #[inline(always)]
    pub(super) fn addresses(&self, base: Base, offset: i64) -> Longs {
        match base {
            Base::Long(slot) => self.long(slot).map(|a| a.wrapping_add_signed(offset)),
            Base::Word(slot) => {
                self.word(slot).map(|a| u64::from(a.wrapping_add_signed(offset as i32)))
            }
            Base::None => [offset as u64; LANES],
        }
    }
}
