//! A short look beside a baseline: one round of four windows, without an interval or a claim.
//!
//! Every best kernel of a run gets it before the run ends, so that its number says more than that
//! it is the fastest of its kind.

use serde::{Deserialize, Serialize};

use super::{Conclusion, Protocol};
use crate::baseline::{BaselineId, BaselineKind};

/// What one round beside a baseline gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    pub baseline: BaselineId,
    /// Time of the baseline over that of the candidate.
    pub ratio: f64,
    pub candidate_ns: f64,
}

impl Protocol {
    /// The protocol of a measurement: the first case, against what needs no compiling.
    #[must_use]
    pub fn shortened(mut self) -> Self {
        self.groups.clear();
        self.checks.clear();
        self.cases.truncate(1);
        self.baselines.retain(|baseline| match baseline.kind {
            BaselineKind::Compile | BaselineKind::MaxAutotune => false,
            BaselineKind::Eager | BaselineKind::Vendor => true,
            BaselineKind::Custom(_) | BaselineKind::Naive => true,
        });
        self.rounds_max = 1;
        self
    }
}

impl Conclusion {
    /// What its rounds say without an interval; `None` where no round gave a time.
    #[must_use]
    pub fn measurement(&self) -> Option<Measurement> {
        let fastest = self.against.first().filter(|_| self.verdict.is_correct())?;
        let (candidate_ns, baseline_ns) = (fastest.candidate_ns, fastest.baseline_ns);
        (candidate_ns > 0.0).then(|| Measurement {
            baseline: fastest.baseline.clone(),
            ratio: baseline_ns / candidate_ns,
            candidate_ns,
        })
    }
}
