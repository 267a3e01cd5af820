//! Whether a kernel's time grows with its work: one that takes as long for twice the work did it
//! before, or not at all.

use crate::build::{BuildFacts, EntryFacts};
use crate::device_facts::DeviceFacts;
use crate::hardware::{Floor, FloorLimit};
use crate::launch::{Launch, ResolvedPlan, ResolvedStep};
use crate::limits::{
    BLOCKS_PER_SM_MAX, GROWTH_MIN, REGISTER_GRAIN, SHARED_RESERVED_BYTES, SHORT_TIME_NS,
    WORK_RATIO_MIN,
};
use crate::task::spec::Case;

/// A shape's floor, and the time that was measured there, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SizedTime {
    pub floor: Floor,
    pub ns: f64,
}

/// What two sizes say together.
#[derive(Clone, Debug, PartialEq)]
pub enum Growth {
    Grows,
    /// More work changes the time too little: both times in words.
    StandsStill(String),
    /// Nothing can be said, and why.
    Unknown(&'static str),
}

/// Compares the times of two sizes.
#[must_use]
pub fn growth_of(small: &SizedTime, large: &SizedTime) -> Growth {
    let bound = [small, large].iter().all(|it| it.floor.limit == FloorLimit::Bandwidth);
    let work = large.floor.bytes / small.floor.bytes.max(1.0);
    if !bound {
        return Growth::Unknown(
            "arithmetic is the limit, so the time need not grow with the bytes",
        );
    }
    if small.ns.max(large.ns) < SHORT_TIME_NS {
        return Growth::Unknown("the launches are hardly longer than their events");
    }
    if work < WORK_RATIO_MIN {
        return Growth::Unknown("half of the headline moves nearly as many bytes");
    }
    let grown = large.ns / small.ns.max(1.0);
    // What doubling must change, for as many doublings as there are.
    if grown >= GROWTH_MIN.powf(work.log2()) {
        return Growth::Grows;
    }
    Growth::StandsStill(format!(
        "{work:.2} times the bytes take {grown:.2} times as long: {:.0} ns and {:.0} ns",
        small.ns, large.ns
    ))
}

/// True where the larger size has more blocks in a launch, and those of the smaller one leave room
/// on the card: the others run beside them then, and the time says nothing.
#[must_use]
pub fn grows_into_room(
    [small, large]: [&ResolvedPlan; 2],
    facts: &BuildFacts,
    device: &DeviceFacts,
) -> bool {
    launches(small).zip(launches(large)).any(|(small, large)| {
        let entry = facts.entry_of(&small.kernel);
        let room = entry.map_or(0, |entry| resident_blocks(entry, small, device));
        blocks(large) > blocks(small) && blocks(small) < room
    })
}

fn launches(plan: &ResolvedPlan) -> impl Iterator<Item = &Launch> {
    plan.steps.iter().filter_map(|step| match step {
        ResolvedStep::Kernel(launch) => Some(launch),
        ResolvedStep::Memset { .. } => None,
    })
}

fn blocks(launch: &Launch) -> u64 {
    launch.grid.iter().map(|extent| u64::from(*extent)).product()
}

/// At most so many blocks of a launch are on the card at once.
fn resident_blocks(entry: &EntryFacts, launch: &Launch, device: &DeviceFacts) -> u64 {
    let count = |fact: i64| u64::try_from(fact).unwrap_or(0);
    let threads: u64 = launch.block.iter().map(|extent| u64::from(*extent)).product();
    let threads = threads.max(1).next_multiple_of(count(device.warp_size).max(1));
    let registers = threads * u64::from(entry.registers.max(1)).next_multiple_of(REGISTER_GRAIN);
    let shared = u64::from(entry.static_shared_bytes) + u64::from(launch.shared_bytes);
    let limits = [
        BLOCKS_PER_SM_MAX,
        count(device.max_threads_per_sm) / threads,
        count(device.registers_per_sm) / registers,
        count(device.shared_per_sm) / (shared + SHARED_RESERVED_BYTES),
    ];
    limits.into_iter().min().unwrap_or(1).max(1) * count(device.sm_count)
}

/// A case with its largest extent halved; `None` where there is nothing to halve.
#[must_use]
pub fn halved(case: &Case) -> Option<Case> {
    let (dim, extent) = case.dims.iter().max_by_key(|(_, extent)| **extent)?;
    let mut half = Case { name: format!("half of {}", case.name), ..case.clone() };
    half.dims.insert(dim.clone(), extent / 2);
    (extent / 2 >= 1).then_some(half)
}

#[cfg(test)]
mod tests {
    use super::{Growth, SizedTime, grows_into_room, growth_of, halved};
    use crate::build::{BuildFacts, EntryFacts};
    use crate::device_facts::DeviceFacts;
    use crate::hardware::{Floor, FloorLimit};
    use crate::launch::{Launch, ResolvedPlan, ResolvedStep};
    use crate::task::spec::{Case, Place};

    fn at(bytes: f64, us: f64, limit: FloorLimit) -> SizedTime {
        let floor = Floor { ns: 0.0, limit, bytes, flops: 0.0, flops_per_s: 0.0 };
        SizedTime { floor, ns: 1e3 * us }
    }

    #[test]
    fn only_long_memory_bound_work_that_does_not_grow_is_named() {
        const MEMORY: FloorLimit = FloorLimit::Bandwidth;
        for (small, large, expected) in [
            (at(1e8, 40.0, MEMORY), at(2e8, 80.0, MEMORY), "grows"),
            (at(1e8, 40.0, MEMORY), at(2e8, 53.0, MEMORY), "grows"),
            (at(1e8, 40.0, MEMORY), at(2e8, 51.0, MEMORY), "still"),
            (at(1e8, 80.0, MEMORY), at(2e8, 40.0, MEMORY), "still"),
            // Four times the work must change at least 1.69.
            (at(1e8, 40.0, MEMORY), at(4e8, 66.0, MEMORY), "still"),
            (at(1e8, 40.0, MEMORY), at(4e8, 69.0, MEMORY), "grows"),
            // Launches and sizes that say nothing.
            (at(1e6, 6.0, MEMORY), at(2e6, 6.0, MEMORY), "unknown"),
            (at(1e8, 40.0, MEMORY), at(1.1e8, 40.0, MEMORY), "unknown"),
            (at(1e8, 40.0, MEMORY), at(2e8, 40.0, FloorLimit::Arithmetic), "unknown"),
        ] {
            let word = match growth_of(&small, &large) {
                Growth::Grows => "grows",
                Growth::StandsStill(_) => "still",
                Growth::Unknown(_) => "unknown",
            };
            assert_eq!(word, expected, "{small:?} {large:?}");
        }
        let still = growth_of(&at(1e8, 40.0, MEMORY), &at(2e8, 44.0, MEMORY));
        let words = "2.00 times the bytes take 1.10 times as long: 40000 ns and 44000 ns";
        assert_eq!(still, Growth::StandsStill(words.to_owned()));
    }

    fn plan(blocks: u32, threads: u32, shared_bytes: u32) -> ResolvedPlan {
        let step = ResolvedStep::Kernel(Launch {
            kernel: "k".to_owned(),
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: [1; 3],
            shared_bytes,
            cooperative: false,
            pdl: false,
            args: Vec::new(),
        });
        let steps = vec![step];
        let (workspaces, tensor_maps, prepare) = (Vec::new(), Vec::new(), Vec::new());
        ResolvedPlan { workspaces, tensor_maps, prepare, steps }
    }

    #[test]
    fn blocks_that_run_beside_others_cost_no_time() {
        let facts = |registers: u32| BuildFacts {
            entries: vec![EntryFacts {
                name: "k".to_owned(),
                params: Vec::new(),
                registers,
                spill_bytes: 0,
                static_shared_bytes: 0,
                max_threads: None,
            }],
            lowered_names: vec![("k".to_owned(), "k".to_owned())],
            externs: Vec::new(),
            static_bytes: 0,
            special_registers: Vec::new(),
            mma_types: Vec::new(),
            cache_hints: Vec::new(),
            ptx_hash: String::new(),
            cubin_hash: String::new(),
        };
        let device = DeviceFacts::simulated_h200();
        // 132 multiprocessors of 2,048 threads, 65,536 registers and 228 KiB of shared memory.
        for (small, large, threads, shared_bytes, registers, room) in [
            (16, 32, 64, 0, 32, true),
            (132 * 32 - 1, 9000, 64, 0, 32, true),
            (132 * 32, 9000, 64, 0, 32, false),
            (132 * 8 - 1, 9000, 256, 0, 32, true),
            (132 * 8, 9000, 256, 0, 32, false),
            (132 * 2, 9000, 256, 0, 128, false),
            (132, 9000, 256, 120 << 10, 32, false),
            // A grid that does not grow does more in each block.
            (132, 132, 64, 0, 32, false),
        ] {
            let plans = [small, large].map(|blocks| plan(blocks, threads, shared_bytes));
            let found = grows_into_room([&plans[0], &plans[1]], &facts(registers), &device);
            assert_eq!(found, room, "{small} {threads} {shared_bytes} {registers}");
        }
    }

    #[test]
    fn the_largest_extent_is_halved() {
        let dims = [("rows".to_owned(), 4096), ("cols".to_owned(), 8191)].into();
        let case = Case { name: "headline".to_owned(), dims, weight: 1.0, on: vec![Place::Gpu] };
        let half = halved(&case).unwrap();
        assert_eq!((half.dims["rows"], half.dims["cols"]), (4096, 4095));
        assert_eq!(half.name, "half of headline");
        let one = Case { dims: [("n".to_owned(), 1)].into(), ..case };
        assert!(halved(&one).is_none());
    }
}
