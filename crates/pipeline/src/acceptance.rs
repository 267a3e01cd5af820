//! The full protocol behind a claim, as data: what is done next, what was found, what follows.
//!
//! Everything that an acceptance did is a list of [`Entry`], stored one by one; [`next_step`] says
//! from the list what comes next, [`conclude`] what it means. So an acceptance that was interrupted
//! goes on where it stopped. Nothing here runs anything; the judge performs the steps.

mod alike;
mod claim;
mod conclusion;
mod measurement;
mod notes;
mod pilots;
mod rounds;
mod scope;
mod suspicions;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::baseline::BaselineId;
use crate::comparison::{Compared, Confidence, Suspicion, compare};
use crate::confinement::Confinement;
use crate::report::{CaseReport, GpuRecord};
use crate::task::spec::Precision;
use crate::timing::Spread;
use crate::verdict::{Reason, Verdict};

pub(crate) use alike::describe;
pub use conclusion::{
    Against, CaseTime, Claim, Conclusion, Kind, LengthClass, Tier, conclude, reviewed,
};
pub use measurement::Measurement;
pub use pilots::{is_ungated, joined};
pub use scope::Scope;
pub use suspicions::{Raised, RaisedBy};

/// What one acceptance consists of. Fixed before its first step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Protocol {
    /// Names of the groups of trials, in their order.
    pub groups: Vec<String>,
    /// What is looked at besides.
    pub checks: Vec<Check>,
    /// Cases whose weight is above 0, the headline first.
    pub cases: Vec<WeightedCase>,
    /// Baselines that there are here, to be piloted.
    pub baselines: Vec<BaselineId>,
    /// The weaker of the declared and the measured class is compared.
    pub class: Precision,
    pub rounds_max: u32,
    pub confidence: Confidence,
    pub scope: Scope,
    /// What the task's admission leaves open, a line each; empty for a proven task.
    #[serde(default)]
    pub weaknesses: Vec<String>,
    /// What the claim was against that is looked at again: it joins the rounds whatever its pilot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_against: Option<BaselineId>,
    /// What holds children where it is performed, one record for each kind.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub confinement: Vec<Confinement>,
}

/// A case that counts for speed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WeightedCase {
    pub case: String,
    pub weight: f64,
}

/// Something that is looked at besides outputs and times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Check {
    /// compute-sanitizer's tools; one for uninitialised memory would find nothing, since all that a
    /// kernel may read was written before.
    Memcheck,
    Synccheck,
    Racecheck,
    /// The trials again on the simulator.
    Simulator,
    /// Timers that the kernel reads.
    Timers,
    /// Kernels of the plan without which the outputs are the same.
    DeadSteps,
    /// Calls that get faster or slower as their number grows.
    CallHistory,
    /// Cache hints that keep data for the next call.
    Eviction,
    /// Times that do not grow with the work.
    Growth,
    /// The times of the rounds against those of the vendor's profiler.
    ProfilerClock,
    /// A shape so large that 32-bit arithmetic goes wrong, where memory and the task have one.
    BigShape,
}

impl Check {
    /// True for what looks at the times of the rounds, and so comes after them.
    #[must_use]
    pub fn is_after_rounds(self) -> bool {
        match self {
            Self::ProfilerClock => true,
            Self::Memcheck | Self::Synccheck | Self::Racecheck | Self::Simulator => false,
            Self::Timers | Self::DeadSteps | Self::CallHistory | Self::Eviction => false,
            Self::Growth | Self::BigShape => false,
        }
    }
}

/// Whose time a window takes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Candidate,
    Baseline(BaselineId),
}

/// One finished piece of an acceptance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// The source was compiled again; false when the PTX was another one.
    Rebuilt {
        same: bool,
    },
    Trials(TrialsRecord),
    Checked {
        check: Check,
        found: Found,
    },
    /// A baseline alone, before the rounds.
    Pilot(WindowRecord),
    Window(WindowRecord),
}

/// Trials of one group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrialsRecord {
    pub group: String,
    pub cases: Vec<CaseReport>,
    pub verdict: Verdict,
    /// False when equal inputs gave other bits, within the gates.
    pub deterministic: bool,
    /// The strongest class that the outputs reach.
    pub class: Option<Precision>,
    /// Of a group that measures the class at one accumulation length.
    #[serde(default)]
    pub length: Option<LengthError>,
    /// What of the group could not be probed, each with the reason: all of it where there are no
    /// cases. Records of older programs have none, and conclude as they did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unprobed: Vec<String>,
}

impl TrialsRecord {
    /// What is not available of the group; `None` where all of it was probed.
    #[must_use]
    pub fn missing(&self) -> Option<String> {
        let how = if self.cases.is_empty() { "nothing" } else { "not all" };
        let why = self.unprobed.join("; ");
        (!self.unprobed.is_empty()).then(|| format!("{how} could be probed ({why})"))
    }
}

/// How exact a kernel is at one accumulation length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthError {
    pub length: i64,
    /// The largest norm-wise error; the excess for 16-bit outputs.
    pub norm_error: f64,
}

/// What a check came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Found {
    Clean,
    /// The kernel is rejected.
    Fails {
        reason: Reason,
        detail: String,
    },
    /// A person has to look before there can be a claim.
    Audits {
        detail: String,
    },
    /// Worth saying, without consequence.
    Notes {
        detail: String,
    },
    NotAvailable {
        why: String,
    },
}

/// One window of timing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRecord {
    pub case: String,
    pub subject: Subject,
    /// From 1; 0 for a pilot.
    pub round: u32,
    /// Place in the round, from 0.
    pub position: u32,
    pub timed: Timed,
    /// The card, its state before and after, every sample.
    pub gpu: Option<GpuRecord>,
    /// Switches of a framework before and after, and versions: name and value.
    pub flags_before: Vec<(String, String)>,
    pub flags_after: Vec<(String, String)>,
    pub versions: Vec<(String, String)>,
    /// Norm-wise error and whether the task's gate holds, for baselines.
    pub error: Option<BaselineError>,
    /// Lasting states of the card, such as a power cap.
    pub steady: Vec<String>,
    /// True where no gate held the stream, so that the host's delays are in the times: its queueing
    /// takes longer than a gate waits.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ungated: bool,
    /// Energy of one run in millijoules, where the card's counter tells.
    pub energy_mj: Option<f64>,
}

/// How exact a baseline is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineError {
    pub norm_error: f64,
    pub passes: bool,
    pub detail: String,
}

/// What a window came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Timed {
    Measured {
        cold: Spread,
        warm: Option<Spread>,
        suspicion: Option<(Suspicion, String)>,
    },
    /// Nothing can be said of this window; its round is void.
    Void(String),
    /// The candidate's outputs were wrong, or it did not end.
    Failed(Verdict),
    /// The baseline cannot be run here.
    NotAvailable(String),
}

impl WindowRecord {
    /// A window of which nothing is known yet: void until it is.
    #[must_use]
    pub fn begun(case: &str, subject: Subject, round: u32, position: u32) -> Self {
        Self {
            case: case.to_owned(),
            subject,
            round,
            position,
            timed: Timed::Void(String::new()),
            gpu: None,
            flags_before: Vec::new(),
            flags_after: Vec::new(),
            versions: Vec::new(),
            error: None,
            steady: Vec::new(),
            ungated: false,
            energy_mj: None,
        }
    }

    /// The median with a cold cache, in nanoseconds.
    #[must_use]
    pub fn median_ns(&self) -> Option<f64> {
        match &self.timed {
            Timed::Measured { cold, .. } => Some(cold.median_ns),
            Timed::Void(_) | Timed::Failed(_) | Timed::NotAvailable(_) => None,
        }
    }
}

/// What is to be done next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Rebuild,
    /// The group with this index.
    Trials(usize),
    Check(Check),
    Pilot {
        case: String,
        baseline: BaselineId,
    },
    Window {
        case: String,
        round: u32,
        position: u32,
        subject: Subject,
    },
    /// Nothing: [`conclude`] says what was found.
    Done,
}

/// The next step after `entries`, in the order in which they were made.
#[must_use]
pub fn next_step(protocol: &Protocol, entries: &[Entry]) -> Step {
    if conclusion::failure(entries).is_some() {
        return Step::Done;
    }
    if !entries.iter().any(|entry| matches!(entry, Entry::Rebuilt { .. })) {
        return Step::Rebuild;
    }
    if let Some(index) = protocol.groups.iter().position(|group| !has_group(entries, group)) {
        return Step::Trials(index);
    }
    let checked = |wanted: &Check| {
        entries.iter().any(|entry| matches!(entry, Entry::Checked { check, .. } if check == wanted))
    };
    let mut missing = protocol.checks.iter().copied().filter(|check| !checked(check));
    if let Some(check) = missing.clone().find(|check| !check.is_after_rounds()) {
        return Step::Check(check);
    }
    for case in &protocol.cases {
        let lacking = |baseline: &&BaselineId| pilots::is_lacking(entries, &case.case, baseline);
        if let Some(baseline) = protocol.baselines.iter().find(lacking) {
            return Step::Pilot { case: case.case.clone(), baseline: baseline.clone() };
        }
    }
    match next_window(protocol, entries) {
        Step::Done => missing.next().map_or(Step::Done, Step::Check),
        step => step,
    }
}

fn has_group(entries: &[Entry], group: &str) -> bool {
    entries.iter().any(|entry| matches!(entry, Entry::Trials(record) if record.group == *group))
}

/// Who is timed in one round of one case, in order: each subject twice, as a palindrome, so that a
/// drift over the round cancels.
#[must_use]
pub fn sequence(joined: &[BaselineId]) -> Vec<Subject> {
    let there =
        std::iter::once(Subject::Candidate).chain(joined.iter().cloned().map(Subject::Baseline));
    let there: Vec<Subject> = there.collect();
    there.iter().chain(there.iter().rev()).cloned().collect()
}

fn next_window(protocol: &Protocol, entries: &[Entry]) -> Step {
    let joined = joined(protocol, entries);
    let untold = pilots::untold(protocol, entries).is_some();
    if joined.is_empty() || untold || protocol.cases.is_empty() {
        return Step::Done;
    }
    let rounds = rounds::rounds(protocol, entries, &joined);
    let sequence = sequence(&joined);
    if let Some((case, position)) = rounds.open {
        let subject = sequence[position as usize % sequence.len()].clone();
        return Step::Window { case, round: rounds.current, position, subject };
    }
    // All joined baselines must be decided: the claim is against the fastest of them.
    let undecided = rounds.logs.values().any(|logs| {
        let compared = compare(logs, rounds.void, protocol.rounds_max, protocol.confidence);
        compared == Compared::MoreRounds
    });
    if !undecided {
        return Step::Done;
    }
    let case = protocol.cases[0].case.clone();
    let subject = sequence[0].clone();
    Step::Window { case, round: rounds.current + 1, position: 0, subject }
}
