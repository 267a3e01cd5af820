//! Sectors and wavefronts: what a warp's addresses cost the memory system, as counts.

use super::frame::{LANES, Longs, lanes};

/// Bytes of a global-memory sector.
const SECTOR_SHIFT: u32 = 5;
/// Banks of shared memory, 4 bytes wide.
const BANKS: usize = 32;

/// Distinct 32-byte sectors that the active lanes touch.
#[inline(always)]
pub(super) fn sectors(offsets: &Longs, active: u32, size: u64) -> u64 {
    let (mut count, mut next, mut sorted) = (0, 0, true);
    for lane in lanes(active) {
        let first = offsets[lane] >> SECTOR_SHIFT;
        let last = (offsets[lane] + size - 1) >> SECTOR_SHIFT;
        // Sectors below `next` are counted; ascending lanes only look ahead.
        sorted &= first + 1 >= next;
        count += (last + 1).saturating_sub(next.max(first));
        next = next.max(last + 1);
    }
    if sorted { count } else { sectors_unsorted(offsets, active, size) }
}

#[inline(never)]
fn sectors_unsorted(offsets: &Longs, active: u32, size: u64) -> u64 {
    let mut all: Vec<u64> = Vec::with_capacity(2 * LANES);
    for lane in lanes(active) {
        let first = offsets[lane] >> SECTOR_SHIFT;
        all.extend(first..=(offsets[lane] + size - 1) >> SECTOR_SHIFT);
    }
    all.sort_unstable();
    all.dedup();
    all.len() as u64
}

/// Passes over the banks: 64-bit accesses go by half warps, 128-bit ones by quarters.
#[inline(always)]
pub(super) fn wavefronts(offsets: &Longs, active: u32, size: u64) -> u64 {
    let uniform = lanes(active).all(|l| offsets[l] == offsets[active.trailing_zeros() as usize]);
    if uniform {
        return 1;
    }
    let groups = (size / 4).clamp(1, 4) as u32;
    let width = 32 / groups;
    let mut passes = 0;
    for group in 0..groups {
        let part = ((1_u64 << width) - 1) << (group * width);
        let part = active & part as u32;
        if part != 0 {
            passes += bank_passes(offsets, part, size);
        }
    }
    passes
}

/// Most distinct words in one bank.
fn bank_passes(offsets: &Longs, active: u32, size: u64) -> u64 {
    let mut first = [u64::MAX; BANKS];
    let mut conflict = false;
    for lane in lanes(active) {
        for word in offsets[lane] / 4..=(offsets[lane] + size - 1) / 4 {
            let seen = &mut first[word as usize % BANKS];
            conflict |= *seen != u64::MAX && *seen != word;
            *seen = word;
        }
    }
    if !conflict {
        return 1;
    }
    let mut words: Vec<u64> =
        lanes(active).flat_map(|lane| offsets[lane] / 4..=(offsets[lane] + size - 1) / 4).collect();
    words.sort_unstable();
    words.dedup();
    let mut in_bank = [0; BANKS];
    for word in words {
        in_bank[word as usize % BANKS] += 1;
    }
    in_bank.into_iter().max().unwrap_or(1)
}
