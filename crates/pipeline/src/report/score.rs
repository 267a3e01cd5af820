//! What ranks a candidate: an estimate from counts, or times from a GPU. Kinds are never mixed.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Counters;
use crate::device_facts::DeviceFacts;
use crate::hardware::Floor;
use crate::limits::SHORT_TIME_NS;
use crate::timing::Spread;

/// Bytes of a DRAM sector.
const SECTOR_BYTES: f64 = 32.0;
/// Warp instructions that one SM can issue per clock.
const ISSUE_PER_CLOCK: f64 = 4.0;
/// Estimated bounds closer than this are a tie.
const ESTIMATE_TIE: f64 = 0.03;
/// Measured times closer than this are a tie: other processes of one kernel differ by as much.
const MEASURED_TIE: f64 = 0.01;
/// The same for times that are hardly longer than those of the events around them.
const MEASURED_TIE_SHORT: f64 = 0.05;

/// What a candidate is ranked by. Scores of different kinds are never compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Score {
    None,
    Estimated(Estimate),
    Measured(Measured),
}

/// Times of the headline case on a GPU, from the search stage: they steer and claim nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Device model; times on other models are never compared.
    pub device: String,
    /// The card.
    pub uuid: String,
    /// With nothing in the cache: what counts.
    pub cold: Spread,
    /// With what the cache still held.
    pub warm: Option<Spread>,
    /// `None` until the card's ceilings were measured.
    pub floor: Option<Floor>,
    /// Two events with nothing between them, in nanoseconds; the times are net of it.
    pub event_pair_ns: f64,
}

/// A simulator's estimate of the headline case: counts, and a lower bound that is no time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Estimate {
    /// Device model whose sheet the bound uses.
    pub device: String,
    /// Roofline lower bound in nanoseconds of the sheet's peaks; never shown as a time.
    pub bound_ns: f64,
    pub sectors: f64,
    pub instructions: f64,
    /// Which limit gives the bound.
    pub limit: Limit,
    /// Blocks simulated, of how many.
    pub sampled_blocks: [u64; 2],
}

/// The resource that an estimate says is exhausted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    MemorySectors,
    Flops,
    SharedWavefronts,
    Issue,
}

impl Limit {
    /// The limit in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::MemorySectors => "memory sectors",
            Self::Flops => "fp32 arithmetic",
            Self::SharedWavefronts => "shared-memory wavefronts",
            Self::Issue => "instruction issue",
        }
    }
}

impl Estimate {
    /// The bound for `counters` on the sheet of `facts`.
    #[must_use]
    pub fn new(counters: &Counters, facts: &DeviceFacts, sampled_blocks: [u64; 2]) -> Self {
        let sectors = counters.load_sectors + counters.store_sectors;
        let per_clock = facts.sm_count as f64 * facts.clock_hz;
        let limits = [
            (sectors * SECTOR_BYTES / facts.bandwidth_bytes_per_s, Limit::MemorySectors),
            (counters.fp32_flops / facts.fp32_flops_per_s, Limit::Flops),
            (counters.shared_wavefronts / per_clock, Limit::SharedWavefronts),
            (counters.warp_instructions / (per_clock * ISSUE_PER_CLOCK), Limit::Issue),
        ];
        let (seconds, limit) = limits
            .into_iter()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or((0.0, Limit::MemorySectors));
        Self {
            device: facts.model.clone(),
            bound_ns: seconds * 1e9,
            sectors,
            instructions: counters.warp_instructions,
            limit,
            sampled_blocks,
        }
    }

    /// True when this estimate is better than `other`; `None` when the devices differ.
    ///
    /// Bounds within 3 % are a tie, broken by sectors, then by instructions.
    #[must_use]
    pub fn improves_on(&self, other: &Self) -> Option<bool> {
        if self.device != other.device {
            return None;
        }
        let tie = |a: f64, b: f64| (a - b).abs() <= ESTIMATE_TIE * a.max(b);
        let order = if !tie(self.bound_ns, other.bound_ns) {
            self.bound_ns.total_cmp(&other.bound_ns)
        } else if !tie(self.sectors, other.sectors) {
            self.sectors.total_cmp(&other.sectors)
        } else {
            self.instructions.total_cmp(&other.instructions)
        };
        Some(order == Ordering::Less)
    }
}

impl Measured {
    /// True when this time is shorter; `None` on another model. Times within 1 % are a tie, short
    /// ones within 5 %.
    #[must_use]
    pub fn improves_on(&self, other: &Self) -> Option<bool> {
        if self.device != other.device {
            return None;
        }
        let short = self.cold.median_ns.min(other.cold.median_ns) < SHORT_TIME_NS;
        let tie = if short { MEASURED_TIE_SHORT } else { MEASURED_TIE };
        Some(self.cold.median_ns < (1.0 - tie) * other.cold.median_ns)
    }

    /// Share of the floor that the kernel reaches; 1 is the floor.
    #[must_use]
    pub fn share_of_floor(&self) -> Option<f64> {
        self.floor.map(|floor| floor.ns / self.cold.median_ns.max(1.0))
    }

    fn describe(&self) -> String {
        let cold = &self.cold;
        let ends = format!("{} to {}", microseconds(cold.p10_ns), microseconds(cold.p90_ns));
        let mut text = format!("measured {} µs ({ends})", microseconds(cold.median_ns));
        if let (Some(floor), Some(share)) = (self.floor, self.share_of_floor()) {
            let rate = floor.rate(cold.median_ns);
            let ns = microseconds(floor.ns);
            text.push_str(&format!(", {rate}, {:.1} % of the floor ({ns} µs)", 100.0 * share));
        }
        if let Some(warm) = &self.warm {
            text.push_str(&format!("; warm {} µs", microseconds(warm.median_ns)));
        }
        text
    }
}

/// Nanoseconds as microseconds, in four figures.
#[must_use]
pub fn microseconds(ns: f64) -> String {
    let us = ns / 1e3;
    let digits = if us >= 1e3 {
        0
    } else if us >= 1e2 {
        1
    } else {
        2
    };
    format!("{us:.digits$}")
}

impl Score {
    /// True when this score is better; a score beats none, and none beats nothing.
    #[must_use]
    pub fn improves_on(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::None, _) => false,
            (Self::Estimated(_), Self::None) => true,
            (Self::Estimated(mine), Self::Estimated(theirs)) => {
                mine.improves_on(theirs).unwrap_or(false)
            }
            // A time counts for more than any estimate, which claims no time.
            (Self::Measured(_), Self::None | Self::Estimated(_)) => true,
            (Self::Estimated(_), Self::Measured(_)) => false,
            (Self::Measured(mine), Self::Measured(theirs)) => {
                mine.improves_on(theirs).unwrap_or(false)
            }
        }
    }

    /// The score in words, always marked as an estimate where it is one.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::None => "no score".to_owned(),
            Self::Estimated(estimate) => format!(
                "estimate (no GPU): {:.3e} sectors, {:.3e} warp instructions, bound by {}",
                estimate.sectors,
                estimate.instructions,
                estimate.limit.describe()
            ),
            Self::Measured(measured) => measured.describe(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Estimate, Limit, Measured, Score};
    use crate::device_facts::DeviceFacts;
    use crate::hardware::{Floor, FloorLimit};
    use crate::report::Counters;
    use crate::timing::Spread;

    fn estimate(sectors: f64, instructions: f64) -> Estimate {
        let counters = Counters {
            load_sectors: sectors,
            warp_instructions: instructions,
            ..Counters::default()
        };
        Estimate::new(&counters, &DeviceFacts::simulated_h200(), [1, 1])
    }

    #[test]
    fn the_bound_is_the_largest_limit() {
        let memory = estimate(1.5e8, 1.0);
        assert_eq!(memory.limit, Limit::MemorySectors);
        assert!((memory.bound_ns - 1e6).abs() < 1.0);
        assert_eq!(estimate(1.0, 1e9).limit, Limit::Issue);
    }

    #[test]
    fn ties_are_broken_by_sectors_then_instructions() {
        let base = estimate(1e8, 1e6);
        assert_eq!(estimate(0.9e8, 1e6).improves_on(&base), Some(true));
        assert_eq!(estimate(0.99e8, 0.5e6).improves_on(&base), Some(true));
        assert_eq!(base.improves_on(&base), Some(false));
        let elsewhere = Estimate { device: "other".to_owned(), ..base.clone() };
        assert_eq!(elsewhere.improves_on(&base), None);
        assert!(!Score::Estimated(elsewhere).improves_on(&Score::Estimated(base)));
    }

    fn measured(device: &str, median_ns: f64) -> Score {
        let spread = |median_ns: f64| Spread {
            median_ns,
            p10_ns: 0.99 * median_ns,
            p90_ns: 1.02 * median_ns,
            samples: 30,
            dropped: 0,
        };
        Score::Measured(Measured {
            device: device.to_owned(),
            uuid: "GPU-1".to_owned(),
            cold: spread(median_ns),
            warm: Some(spread(0.9 * median_ns)),
            floor: Some(Floor {
                ns: 62_500.0,
                limit: FloorLimit::Bandwidth,
                bytes: 268_435_456.0,
                flops: 0.0,
                flops_per_s: 0.0,
            }),
            event_pair_ns: 1280.0,
        })
    }

    #[test]
    fn times_are_compared_on_one_model_and_never_with_estimates() {
        let base = measured("a", 80_000.0);
        assert!(measured("a", 79_000.0).improves_on(&base));
        assert!(!measured("a", 79_500.0).improves_on(&base), "a tie");
        assert!(!measured("b", 10.0).improves_on(&base));
        let estimated = Score::Estimated(estimate(1.0, 1.0));
        assert!(base.improves_on(&estimated) && !estimated.improves_on(&base));
        assert_eq!(
            base.describe(),
            "measured 80.00 µs (79.20 to 81.60), 3.36 TB/s, 78.1 % of the floor (62.50 µs); warm \
             72.00 µs"
        );
    }
}
