//! Everything that an evaluation measured about a candidate.

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::build::EntryFacts;
use crate::check::OutputCheck;
use crate::device_facts::DeviceFacts;
use crate::hardware::Floor;
use crate::inputs::Distribution;
use crate::timing::{Sample, Spread};
use crate::verdict::Reason;

/// Bytes of a DRAM sector.
const SECTOR_BYTES: f64 = 32.0;
/// Warp instructions that one SM can issue per clock.
const ISSUE_PER_CLOCK: f64 = 4.0;
/// Estimated bounds closer than this are a tie.
const ESTIMATE_TIE: f64 = 0.03;
/// Measured times closer than this are a tie: other processes of one kernel differ by as much.
const MEASURED_TIE: f64 = 0.01;

/// How far an evaluation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Public cases only; steers the search and proves nothing.
    Search,
}

/// The report of one evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Report {
    pub stage: Stage,
    /// Device model; a simulated one is never a source of times.
    pub device: String,
    pub kernels: Vec<EntryFacts>,
    pub cases: Vec<CaseReport>,
    pub score: Score,
    /// What a reader must know besides: cases outside the domain, a headline that was not counted.
    pub notes: Vec<String>,
    /// Which card ran it, and in what state; `None` on a simulator.
    #[serde(default)]
    pub gpu: Option<GpuRecord>,
}

/// The card that an evaluation used, and how its process left it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuRecord {
    pub uuid: String,
    pub driver: String,
    /// State before and after the window, where the driver tells.
    pub before: Option<GpuState>,
    pub after: Option<GpuState>,
    /// Every sample of the window, cold ones first.
    pub cold: Vec<Sample>,
    pub warm: Vec<Sample>,
    /// How the parts of the evaluation took their time.
    pub cost: Vec<PartCost>,
}

/// Wall time of one part of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartCost {
    pub part: String,
    pub ms: f64,
}

/// What the driver says about a card at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuState {
    pub sm_clock_hz: f64,
    pub memory_clock_hz: f64,
    pub temperature_c: u32,
    pub power_w: f64,
    /// Why the clocks are not higher, in the driver's words.
    pub throttle: Vec<String>,
    /// Other processes that compute on the card.
    pub foreign_processes: u32,
}

/// One public case under one distribution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseReport {
    pub case: String,
    pub dims: BTreeMap<String, i64>,
    pub distribution: Distribution,
    pub status: CaseStatus,
    pub checks: Vec<OutputCheck>,
    pub counters: Option<Counters>,
    pub findings: Vec<Finding>,
}

/// How one case ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum CaseStatus {
    Passed,
    Failed {
        reason: Reason,
        detail: String,
    },
    /// The candidate stopped before this case.
    NotRun,
}

/// Something that the device or simulator noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Finding {
    pub severity: FindingSeverity,
    /// One sentence naming kernel, line, buffer and offset.
    pub message: String,
    pub count: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingSeverity {
    Info,
    Warning,
    Error,
}

/// Exact counts of a simulated run; estimates when scaled up from a sample of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counters {
    pub warp_instructions: f64,
    pub lane_instructions: f64,
    pub fp32_flops: f64,
    pub load_sectors: f64,
    pub store_sectors: f64,
    pub load_requests: f64,
    pub store_requests: f64,
    pub requested_bytes: f64,
    pub shared_wavefronts: f64,
    pub shared_requests: f64,
    pub branches: f64,
    pub divergent_branches: f64,
    pub atomics: f64,
    pub barriers: f64,
}

impl Counters {
    /// Adds the counts of another run.
    pub fn add(&mut self, other: &Self) {
        for (mine, theirs) in self.fields().into_iter().zip(other.values()) {
            *mine += theirs;
        }
    }

    /// Multiplies every count, to scale a sample of blocks to the whole grid.
    pub fn scale(&mut self, factor: f64) {
        self.fields().into_iter().for_each(|field| *field *= factor);
    }

    /// 32-byte sectors per warp-level request; 4 is ideal for 4-byte elements.
    #[must_use]
    pub fn sectors_per_request(&self) -> f64 {
        let requests = self.load_requests + self.store_requests;
        if requests == 0.0 { 0.0 } else { (self.load_sectors + self.store_sectors) / requests }
    }

    fn fields(&mut self) -> [&mut f64; 14] {
        [
            &mut self.warp_instructions,
            &mut self.lane_instructions,
            &mut self.fp32_flops,
            &mut self.load_sectors,
            &mut self.store_sectors,
            &mut self.load_requests,
            &mut self.store_requests,
            &mut self.requested_bytes,
            &mut self.shared_wavefronts,
            &mut self.shared_requests,
            &mut self.branches,
            &mut self.divergent_branches,
            &mut self.atomics,
            &mut self.barriers,
        ]
    }

    fn values(mut self) -> [f64; 14] {
        self.fields().map(|field| *field)
    }
}

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
    /// True when this time is shorter; `None` on another model. Times within 1 % are a tie.
    #[must_use]
    pub fn improves_on(&self, other: &Self) -> Option<bool> {
        if self.device != other.device {
            return None;
        }
        Some(self.cold.median_ns < (1.0 - MEASURED_TIE) * other.cold.median_ns)
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
    use super::{Counters, Estimate, Limit, Measured, Score};
    use crate::device_facts::DeviceFacts;
    use crate::hardware::{Floor, FloorLimit};
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

    #[test]
    fn counters_add_and_scale_every_field() {
        let mut total = Counters { barriers: 2.0, atomics: 1.0, ..Counters::default() };
        total.add(&Counters { barriers: 3.0, lane_instructions: 4.0, ..Counters::default() });
        total.scale(2.0);
        let expected = Counters {
            barriers: 10.0,
            atomics: 2.0,
            lane_instructions: 8.0,
            ..Counters::default()
        };
        assert_eq!(total, expected);
    }
}
