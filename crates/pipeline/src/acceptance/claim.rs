//! What a claim says: made from the entries of an acceptance that ended well.

use super::alike::dims_of;
use super::conclusion::{Against, CaseTime, Claim, LengthClass, compared_class};
use super::notes::noted;
use super::pilots::not_timed;
use super::{
    Entry, Found, LengthError, Protocol, Subject, TrialsRecord, WeightedCase, WindowRecord,
};
use crate::hidden::Dims;

pub(super) fn claimed(protocol: &Protocol, entries: &[Entry], against: Against) -> Claim {
    let baseline = Subject::Baseline(against.baseline.clone());
    let time = |case: &str, subject: &Subject| {
        mean_log(windows_of(entries, case, subject).filter_map(WindowRecord::median_ns)).exp()
    };
    let energy = |case: &str, subject: &Subject| {
        let all = windows_of(entries, case, subject).filter_map(|record| record.energy_mj);
        let all: Vec<f64> = all.collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    };
    let case = |case: &WeightedCase| CaseTime {
        case: case.case.clone(),
        weight: case.weight,
        dims: shape_of(entries, &case.case),
        candidate_ns: time(&case.case, &Subject::Candidate),
        baseline_ns: time(&case.case, &baseline),
        candidate_mj: energy(&case.case, &Subject::Candidate),
        baseline_mj: energy(&case.case, &baseline),
    };
    let mut notes = noted(entries);
    notes.extend(ungated(entries).map(str::to_owned));
    let mut not_available: Vec<String> = unprobed(entries).collect();
    not_available.extend(said(entries, &|found| match found {
        Found::NotAvailable { why } => Some(why.clone()),
        Found::Clean | Found::Fails { .. } | Found::Audits { .. } | Found::Notes { .. } => None,
    }));
    not_available.extend(not_timed(protocol, entries));
    Claim {
        cases: protocol.cases.iter().map(case).collect(),
        class: compared_class(protocol, entries),
        lengths: lengths(entries),
        deterministic: is_deterministic(entries),
        scope: protocol.scope.clone(),
        over_framework: against.baseline.is_framework(),
        against,
        steady: steady(entries),
        weaknesses: protocol.weaknesses.clone(),
        not_available,
        notes,
        accepted: Vec::new(),
    }
}

pub(super) fn is_deterministic(entries: &[Entry]) -> bool {
    entries.iter().all(|entry| !matches!(entry, Entry::Trials(record) if !record.deterministic))
}

/// The shape at which a case was timed, which is the same in all rounds.
pub(super) fn shape_of(entries: &[Entry], case: &str) -> Dims {
    windows_of(entries, case, &Subject::Candidate).map(dims_of).next().unwrap_or_default()
}

/// What must be said of rounds that no gate held.
pub(super) fn ungated(entries: &[Entry]) -> Option<&'static str> {
    let any = entries.iter().any(|entry| matches!(entry, Entry::Window(it) if it.ungated));
    any.then_some("ungated: the host's delays are in the times of both sides")
}

fn windows_of<'a>(
    entries: &'a [Entry],
    case: &'a str,
    subject: &'a Subject,
) -> impl Iterator<Item = &'a WindowRecord> {
    entries.iter().filter_map(move |entry| match entry {
        Entry::Window(record) => {
            (record.case == case && record.subject == *subject).then_some(record)
        }
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } | Entry::Pilot(_) => None,
    })
}

fn lengths(entries: &[Entry]) -> Vec<LengthClass> {
    let classes = entries.iter().filter_map(|entry| match entry {
        Entry::Trials(TrialsRecord { length: Some(at), class: Some(class), .. }) => {
            let LengthError { length, norm_error } = *at;
            Some(LengthClass { length, norm_error, class: *class })
        }
        Entry::Trials(_) | Entry::Rebuilt { .. } | Entry::Checked { .. } => None,
        Entry::Pilot(_) | Entry::Window(_) => None,
    });
    classes.collect()
}

/// Groups of trials that had nothing to show, or not all that they stand for.
fn unprobed(entries: &[Entry]) -> impl Iterator<Item = String> {
    entries.iter().filter_map(|entry| match entry {
        Entry::Trials(record) => record.missing().map(|it| format!("{}: {it}", record.group)),
        Entry::Rebuilt { .. } | Entry::Checked { .. } | Entry::Pilot(_) | Entry::Window(_) => None,
    })
}

pub(super) fn said(entries: &[Entry], what: &dyn Fn(&Found) -> Option<String>) -> Vec<String> {
    let said = entries.iter().filter_map(|entry| match entry {
        Entry::Checked { check, found } => what(found).map(|text| format!("{check:?}: {text}")),
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Pilot(_) | Entry::Window(_) => None,
    });
    said.collect()
}

fn steady(entries: &[Entry]) -> Vec<String> {
    let mut states: Vec<String> = Vec::new();
    for entry in entries {
        if let Entry::Window(record) = entry {
            states.extend(record.steady.iter().cloned());
        }
    }
    states.sort();
    states.dedup();
    states
}

/// The mean of the logs of times.
pub(super) fn mean_log(times: impl Iterator<Item = f64>) -> f64 {
    let logs: Vec<f64> = times.map(f64::ln).collect();
    logs.iter().sum::<f64>() / logs.len() as f64
}
