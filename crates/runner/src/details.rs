//! What a report says about a launch: counts, findings, and in a detailed one their places: source
//! line, block, thread, buffer.

use device::execute::Remark;
use pipeline::launch::Launch;
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::report::{Counters, Finding, FindingSeverity};
use ptx_sim::Site;
use sandbox::wire::{Noted, Place};

use crate::limits::{INLINED_AT_MAX, PLACE_TEXT_BYTES_MAX};

/// A remark of the device as a finding, with its place if that is wanted.
pub(crate) fn noted(remark: Remark, launch: &Launch, detailed: bool) -> Noted {
    let site = remark.site.filter(|_| detailed);
    Noted {
        finding: Finding {
            severity: match remark.severity {
                ptx_sim::Severity::Info => FindingSeverity::Info,
                ptx_sim::Severity::Warning => FindingSeverity::Warning,
                ptx_sim::Severity::Error => FindingSeverity::Error,
            },
            message: capped(&remark.message, MESSAGE_BYTES_MAX),
            count: remark.count,
        },
        past_end: remark.past_end,
        place: site.map(|site| place(&site, launch.grid, launch.block)),
    }
}

/// A site with the coordinates of its block and of the first thread concerned.
pub(crate) fn place(site: &Site, grid: [u32; 3], block: [u32; 3]) -> Place {
    let short = |text: &str| capped(text, PLACE_TEXT_BYTES_MAX);
    let lane = if site.lanes == 0 { 0 } else { site.lanes.trailing_zeros() };
    let thread = u64::from(site.warp) * 32 + u64::from(lane);
    let inlined = site.source.iter().flat_map(|source| &source.inlined_at);
    Place {
        kernel: short(&site.kernel),
        source: site.source.as_ref().map(|source| (short(&source.file), source.line)),
        inlined_at: inlined.take(INLINED_AT_MAX).map(|(file, line)| (short(file), *line)).collect(),
        instruction: short(&site.ptx_text),
        block: coordinates(site.block, grid),
        thread: coordinates(thread, block),
        buffer: site.buffer.as_deref().map(short),
        offset: site.offset,
        bytes: site.size,
    }
}

/// Bytes that loads, stores and atomics ask for; an atomic counts as one word.
fn requested_bytes(counts: &ptx_sim::Counters) -> f64 {
    (counts.global_load_bytes + counts.global_store_bytes + 4 * counts.atomics) as f64
}

/// The counts that reports carry.
pub(crate) fn counters(counts: &ptx_sim::Counters) -> Counters {
    Counters {
        warp_instructions: counts.warp_instructions as f64,
        lane_instructions: counts.lane_instructions as f64,
        fp32_flops: counts.fp32_flops as f64,
        load_sectors: counts.global_load_sectors as f64,
        store_sectors: counts.global_store_sectors as f64,
        load_requests: counts.global_load_requests as f64,
        store_requests: counts.global_store_requests as f64,
        requested_bytes: requested_bytes(counts),
        shared_wavefronts: counts.shared_wavefronts as f64,
        shared_requests: counts.shared_requests as f64,
        branches: counts.branches as f64,
        divergent_branches: counts.divergent_branches as f64,
        atomics: counts.atomics as f64,
        barriers: counts.barriers as f64,
    }
}

fn coordinates(linear: u64, extents: [u32; 3]) -> [u32; 3] {
    let [x, y, _] = extents.map(|extent| u64::from(extent.max(1)));
    [linear % x, linear / x % y, linear / x / y].map(|at| at as u32)
}

#[cfg(test)]
mod tests {
    use super::coordinates;

    #[test]
    fn linear_indices_become_coordinates() {
        assert_eq!(coordinates(0, [4, 3, 2]), [0, 0, 0]);
        assert_eq!(coordinates(7, [4, 3, 2]), [3, 1, 0]);
        assert_eq!(coordinates(23, [4, 3, 2]), [3, 2, 1]);
    }
}
