//! Whether a kernel's time grows with its work: one that takes as long for twice the work did it
//! before, or not at all.

use crate::hardware::{Floor, FloorLimit};
use crate::limits::{GROWTH_MIN, SHORT_TIME_NS, WORK_RATIO_MIN};
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
    use super::{Growth, SizedTime, growth_of, halved};
    use crate::hardware::{Floor, FloorLimit};
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
