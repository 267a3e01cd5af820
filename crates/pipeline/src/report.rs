//! Everything that an evaluation measured about a candidate.

mod gpu;
mod score;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::build::EntryFacts;
use crate::check::OutputCheck;
use crate::confinement::{Confinement, level_of_judging};
use crate::inputs::Distribution;
use crate::promotion::Promotion;
use crate::verdict::{Reason, Verdict};

pub use gpu::{GpuRecord, GpuState, PartCost};
pub use score::{Estimate, Limit, Measured, Score, microseconds};

/// How far an evaluation went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Public cases only; steers the search and proves nothing.
    Search,
    /// Hidden cases and a few windows beside the incumbent.
    Promote,
    /// The full protocol behind a claim.
    Accept,
}

impl Stage {
    /// Every stage.
    pub const ALL: [Self; 3] = [Self::Search, Self::Promote, Self::Accept];

    /// The name, as in the ledger.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Search => "search",
            Self::Promote => "promote",
            Self::Accept => "accept",
        }
    }
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
    /// What hidden cases came to, in a promote.
    #[serde(default)]
    pub promotion: Option<Promotion>,
    /// The full verdict of a promote: who wrote the kernel is never shown it.
    #[serde(default)]
    pub ended: Option<Verdict>,
    /// What held the candidate's processes, where one ran; of several, the weakest.
    #[serde(default)]
    pub confinement: Option<Confinement>,
    /// What held each kind of child by which it was judged, the compiler's where it was compiled
    /// there; empty in a record from before this was kept.
    #[serde(default)]
    pub held: Vec<Confinement>,
}

impl Report {
    /// Whether all by which it was judged was held at this level at least, as its record says.
    #[must_use]
    pub fn was_held_at(&self, level: u8) -> bool {
        level == 0 || level_of_judging(&self.held).is_some_and(|held| held >= level)
    }

    /// A report of which only the score is known.
    #[must_use]
    pub fn of_score(score: Score) -> Self {
        Self {
            stage: Stage::Search,
            device: String::new(),
            kernels: Vec::new(),
            cases: Vec::new(),
            score,
            notes: Vec::new(),
            gpu: None,
            promotion: None,
            ended: None,
            confinement: None,
            held: Vec::new(),
        }
    }
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

#[cfg(test)]
mod tests {
    use super::Counters;

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
