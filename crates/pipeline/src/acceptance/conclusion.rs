//! What the entries of an acceptance mean.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::claim::{claimed, is_deterministic, shape_of, ungated};
use super::pilots::untold;
use super::rounds::{Rounds, rounds};
use super::suspicions::{Raised, in_words, suspicions};
use super::{Entry, Found, Protocol, Scope, Timed, WeightedCase, joined};
use crate::baseline::BaselineId;
use crate::comparison::{Compared, Comparison, Interval, compare};
use crate::hidden::Dims;
use crate::task::spec::Precision;
use crate::verdict::{Reason, Verdict};

/// How far a number can be trusted; always printed beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Tier {
    /// From the search stage: it steers and says nothing.
    Searched,
    /// A few windows side by side.
    Measured,
    /// A full acceptance; provisional until somebody else gets it too.
    Claimed,
    /// Reproduced by another process on another day or another card of the model.
    Confirmed,
}

impl Tier {
    /// The name, as in files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Searched => "searched",
            Self::Measured => "measured",
            Self::Claimed => "claimed",
            Self::Confirmed => "confirmed",
        }
    }
}

/// A candidate against one baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Against {
    pub baseline: BaselineId,
    pub comparison: Comparison,
    pub interval: Interval,
    /// Weighted times over the cases, geometric means over the rounds, in nanoseconds.
    pub candidate_ns: f64,
    pub baseline_ns: f64,
}

/// One case of a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CaseTime {
    pub case: String,
    pub weight: f64,
    /// The shape that was timed, smaller than asked for where memory is; empty where it is not
    /// known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub dims: Dims,
    pub candidate_ns: f64,
    pub baseline_ns: f64,
    /// Energy of one call in millijoules, where the card's counter told; it decides nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_mj: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline_mj: Option<f64>,
}

/// A speed-up that is shown: only from a correct kernel that is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Against the fastest baseline in the rounds.
    pub against: Against,
    pub cases: Vec<CaseTime>,
    /// The weaker of the declared and the measured precision class.
    pub class: Precision,
    pub deterministic: bool,
    pub scope: Scope,
    /// The class at each accumulation length that was tried, shortest first; `class` is not
    /// stronger than any.
    #[serde(default)]
    pub lengths: Vec<LengthClass>,
    /// False when the only baselines are kernels of ours: then it is no speed-up over a framework.
    pub over_framework: bool,
    /// Lasting states of the card that both sides were measured in.
    pub steady: Vec<String>,
    /// What was not looked at, with the reason.
    pub not_available: Vec<String>,
    pub notes: Vec<String>,
    /// Why less can be told by the task than should be: wrong answers that would have passed too.
    #[serde(default)]
    pub weaknesses: Vec<String>,
    /// What a person looked at and let pass.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accepted: Vec<Raised>,
}

/// The class of a kernel at one accumulation length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LengthClass {
    pub length: i64,
    pub norm_error: f64,
    pub class: Precision,
}

/// What an acceptance came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Conclusion {
    pub verdict: Verdict,
    /// Against each joined baseline, the fastest first.
    pub against: Vec<Against>,
    /// Against the fastest; `None` where nothing was compared.
    pub comparison: Option<Comparison>,
    pub claim: Option<Claim>,
    /// Why there is no claim, in numbers, with the command that helps.
    pub cause: String,
    /// Of a correct kernel, faster or not.
    #[serde(default)]
    pub kind: Option<Kind>,
    /// What a person has to look at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<Raised>,
}

/// What a second look has to find too besides the times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kind {
    /// The weaker of the declared and the measured precision class.
    pub class: Precision,
    pub deterministic: bool,
    /// The shape at which each case was timed; empty where it is not known.
    pub shapes: BTreeMap<String, Dims>,
}

impl Conclusion {
    /// True where another try may say more: nothing could be told for noise. An interval that is
    /// narrow and says nothing would only be tried until it is liked.
    #[must_use]
    pub fn is_worth_another_try(&self) -> bool {
        let narrow = self.against.first().is_some_and(|fastest| fastest.interval.is_narrow());
        self.verdict.is_correct()
            && match self.comparison {
                Some(Comparison::Noisy) => !narrow,
                None => true,
                Some(Comparison::Faster | Comparison::Same | Comparison::Slower) => false,
                Some(Comparison::Suspect(_)) => false,
            }
    }
}

/// The first entry that rejects the candidate.
pub(super) fn failure(entries: &[Entry]) -> Option<Verdict> {
    entries.iter().find_map(|entry| match entry {
        Entry::Rebuilt { same: false } => {
            let detail = "compiling the same source again gave another program";
            Some(Verdict::failed(Reason::State, detail))
        }
        Entry::Rebuilt { same: true } | Entry::Pilot(_) => None,
        Entry::Trials(record) => (!record.verdict.is_correct()).then(|| record.verdict.clone()),
        Entry::Checked { check, found: Found::Fails { reason, detail } } => {
            Some(Verdict::failed(*reason, format!("{check:?}: {detail}").to_lowercase()))
        }
        Entry::Checked {
            found:
                Found::Clean
                | Found::Audits { .. }
                | Found::Notes { .. }
                | Found::NotAvailable { .. },
            ..
        } => None,
        Entry::Window(record) => match &record.timed {
            Timed::Failed(verdict) => Some(verdict.clone()),
            Timed::Measured { .. } | Timed::Void(_) | Timed::NotAvailable(_) => None,
        },
    })
}

/// The class that the candidate is compared in.
pub(super) fn compared_class(protocol: &Protocol, entries: &[Entry]) -> Precision {
    let measured = entries.iter().filter_map(|entry| match entry {
        Entry::Trials(record) => record.class,
        Entry::Rebuilt { .. } | Entry::Checked { .. } | Entry::Pilot(_) | Entry::Window(_) => None,
    });
    measured.fold(protocol.class, Precision::max)
}

/// What the entries of a finished acceptance mean.
#[must_use]
pub fn conclude(protocol: &Protocol, entries: &[Entry]) -> Conclusion {
    if let Some(verdict) = failure(entries) {
        let cause = format!("{verdict}: {}", verdict.detail);
        return Conclusion {
            verdict,
            against: Vec::new(),
            comparison: None,
            claim: None,
            cause,
            kind: None,
            raised: Vec::new(),
        };
    }
    let kind = Some(kind(protocol, entries));
    let (verdict, claim) = (Verdict::correct(), None);
    if let Some(cause) = untold(protocol, entries) {
        let (against, comparison, raised) = (Vec::new(), Some(Comparison::Noisy), Vec::new());
        return Conclusion { verdict, against, comparison, claim, cause, kind, raised };
    }
    let joined = joined(protocol, entries);
    let rounds = rounds(protocol, entries, &joined);
    let mut against: Vec<Against> =
        joined.iter().filter_map(|baseline| one(protocol, &rounds, baseline)).collect();
    against.sort_by(|a, b| a.baseline_ns.total_cmp(&b.baseline_ns));
    let Some(fastest) = against.first().cloned() else {
        let (cause, raised) = (cause(entries, &rounds, None, None), Vec::new());
        return Conclusion { verdict, against, comparison: None, claim, cause, kind, raised };
    };
    let raised = suspicions(entries, &fastest);
    let comparison = match raised.first() {
        Some(raised) => Comparison::Suspect(raised.suspicion),
        None => fastest.comparison,
    };
    let cause = cause(entries, &rounds, Some(&fastest), Some(comparison));
    let claim = (comparison == Comparison::Faster).then(|| claimed(protocol, entries, fastest));
    let comparison = Some(comparison);
    Conclusion { verdict, against, comparison, claim, cause, kind, raised }
}

fn kind(protocol: &Protocol, entries: &[Entry]) -> Kind {
    let shape = |case: &WeightedCase| (case.case.clone(), shape_of(entries, &case.case));
    Kind {
        class: compared_class(protocol, entries),
        deterministic: is_deterministic(entries),
        shapes: protocol.cases.iter().map(shape).collect(),
    }
}

/// The claim of an acceptance that a person looked at and let pass; `None` where it is not faster.
#[must_use]
pub fn reviewed(protocol: &Protocol, entries: &[Entry], note: &str) -> Option<Claim> {
    let conclusion = conclude(protocol, entries);
    if conclusion.raised.is_empty() {
        return None;
    }
    let fastest = conclusion.against.first().filter(|it| it.comparison == Comparison::Faster)?;
    let mut claim = claimed(protocol, entries, fastest.clone());
    claim.notes.extend(conclusion.raised.iter().map(|Raised { suspicion, detail, .. }| {
        format!("let pass by a person in spite of {suspicion:?} ({detail}): {note}")
    }));
    claim.accepted = conclusion.raised;
    Some(claim)
}

fn one(protocol: &Protocol, rounds: &Rounds, baseline: &BaselineId) -> Option<Against> {
    let logs = rounds.logs.get(baseline)?;
    let times = rounds.times.get(baseline).map(Vec::as_slice).unwrap_or_default();
    let compared = compare(logs, rounds.void, protocol.rounds_max, protocol.confidence);
    let Compared::Decided { comparison, interval } = compared else { return None };
    let mean = |side: usize| {
        let sum: f64 = times.iter().map(|pair| pair[side]).sum();
        // 0 where no round gave a time.
        if times.is_empty() { 0.0 } else { (sum / times.len() as f64).exp() }
    };
    let baseline = baseline.clone();
    Some(Against { baseline, comparison, interval, candidate_ns: mean(0), baseline_ns: mean(1) })
}

/// Why there is no claim, with the command that helps.
fn cause(
    entries: &[Entry],
    rounds: &Rounds,
    fastest: Option<&Against>,
    comparison: Option<Comparison>,
) -> String {
    let (Some(fastest), Some(comparison)) = (fastest, comparison) else {
        return match rounds.void_reasons.first() {
            Some(why) => format!("no round gave a time: {why}"),
            None => "no baseline could be timed here, so there is nothing to compare with; \
                     install PyTorch, or name a baseline in the task"
                .to_owned(),
        };
    };
    let interval = fastest.interval;
    let mut against = format!("{} against {}", interval.describe(), fastest.baseline);
    if let Some(ungated) = ungated(entries) {
        against = format!("{against}; {ungated}");
    }
    match comparison {
        Comparison::Faster => String::new(),
        Comparison::Same => format!("as fast within 3 %: {against}"),
        Comparison::Slower => format!("slower: {against}"),
        Comparison::Noisy if interval.is_narrow() => {
            format!("undecided: the interval lies across the border at 3 %: {against}")
        }
        Comparison::Noisy => {
            let void = rounds.void_reasons.len();
            let half = 100.0 * interval.half_width.min(9.99);
            let first = rounds.void_reasons.first().map(|why| format!(" ({why})"));
            format!(
                "half-width {half:.1} % after {} rounds, {void} void{}: {against}; try accept \
                 --rounds 15 on an idle machine",
                interval.rounds,
                first.unwrap_or_default()
            )
        }
        Comparison::Suspect(_) => {
            format!("{} ({against})", in_words(&suspicions(entries, fastest)))
        }
    }
}
