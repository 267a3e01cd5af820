//! Sectors and wavefronts: what a warp's addresses cost the memory system, as counts.

use super::frame::{FULL, LANES, Longs, lanes};

/// Bytes of a global-memory sector.
const SECTOR_SHIFT: u32 = 5;
/// Banks of shared memory, 4 bytes wide.
const BANKS: usize = 32;

/// Frequent shapes of a full warp's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pattern {
    /// All lanes name the same place.
    Uniform,
    /// Each lane's place follows the one before.
    Consecutive,
    /// Anything else, and every partial warp.
    Other,
}

/// Recognises the shape in one pass.
#[inline(always)]
pub(super) fn pattern(addresses: &Longs, active: u32, size: u64) -> Pattern {
    let (mut differ, mut apart) = (0, 0);
    let mut expected = 0_u64;
    for address in addresses {
        let distance = address.wrapping_sub(addresses[0]);
        differ |= distance;
        apart |= distance ^ expected;
        expected = expected.wrapping_add(size);
    }
    match (differ, apart) {
        _ if active != FULL => Pattern::Other,
        (0, _) => Pattern::Uniform,
        (_, 0) => Pattern::Consecutive,
        _ => Pattern::Other,
    }
}

/// Sectors of a recognised shape that starts at an offset aligned to the access.
#[inline(always)]
pub(super) fn pattern_sectors(pattern: Pattern, first: u64, size: u64) -> u64 {
    let bytes = if pattern == Pattern::Consecutive { 32 * size } else { size };
    ((first + bytes - 1) >> SECTOR_SHIFT) - (first >> SECTOR_SHIFT) + 1
}

/// Wavefronts of a recognised shape.
#[inline(always)]
pub(super) fn pattern_wavefronts(pattern: Pattern, size: u64) -> u64 {
    if pattern == Pattern::Consecutive { (size / 4).clamp(1, 4) } else { 1 }
}

/// Distinct 32-byte sectors that the active lanes touch. Aligned accesses of up to 32 bytes, which
/// is all that PTX has, never straddle two.
#[inline(always)]
pub(super) fn sectors(offsets: &Longs, active: u32, size: u64) -> u64 {
    let mut found = [0; LANES];
    let mut count = 0;
    let mut previous = u64::MAX;
    for lane in lanes(active) {
        let sector = offsets[lane] >> SECTOR_SHIFT;
        // Neighbours mostly share a sector; the list of distinct ones is short.
        if sector != previous && !found[..count].contains(&sector) {
            found[count] = sector;
            count += 1;
        }
        previous = sector;
    }
    count as u64 * (size >> SECTOR_SHIFT).max(1)
}

/// Passes over the banks: 64-bit accesses go by half warps, 128-bit ones by quarters.
#[inline(always)]
pub(super) fn wavefronts(offsets: &Longs, active: u32, size: u64) -> u64 {
    let first = offsets[active.trailing_zeros() as usize % LANES];
    let (mut low, mut high) = (first, first);
    for (lane, offset) in offsets.iter().enumerate() {
        let offset = if active >> lane & 1 != 0 { *offset } else { first };
        low = low.min(offset);
        high = high.max(offset);
    }
    // One place, or words so close together that no two of them share a bank.
    if low == high || (size <= 4 && high / 4 - low / 4 < BANKS as u64) {
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
