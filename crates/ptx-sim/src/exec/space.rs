//! Which memory a generic address means.

use super::frame::{LANES, Longs, lanes};
use crate::machine::address::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES};
use crate::program::ir::MemorySpace;

/// The space that a generic address falls into, and the address within it.
pub(super) fn classify(address: u64) -> (MemorySpace, u64) {
    match address {
        SHARED_WINDOW..LOCAL_WINDOW => (MemorySpace::Shared, address - SHARED_WINDOW),
        LOCAL_WINDOW..PARAM_WINDOW => (MemorySpace::Local, address - LOCAL_WINDOW),
        a if (PARAM_WINDOW..PARAM_WINDOW + WINDOW_BYTES).contains(&a) => {
            (MemorySpace::EntryParam, address - PARAM_WINDOW)
        }
        _ => (MemorySpace::Global, address),
    }
}

/// Splits a generic access by space: the first lane's space and all lanes that share it.
pub(super) fn split_generic(addresses: &mut Longs, active: u32) -> (MemorySpace, u32) {
    let first = active.trailing_zeros() as usize % LANES;
    let space = classify(addresses[first]).0;
    let mut same = 0;
    for lane in lanes(active) {
        let (found, within) = classify(addresses[lane]);
        if found == space {
            addresses[lane] = within;
            same |= 1 << lane;
        }
    }
    (space, same)
}
