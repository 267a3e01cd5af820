//! The rounds of an acceptance: which are valid, and what each says.

use std::collections::{BTreeMap, BTreeSet};

use super::alike::Conditions;
use super::claim::mean_log;
use super::{Entry, Protocol, Subject, Timed, WindowRecord, sequence};
use crate::baseline::BaselineId;

/// The rounds so far.
pub(super) struct Rounds {
    /// Number of the last round that was begun; 0 before the first.
    pub(super) current: u32,
    /// The window that the current round lacks next.
    pub(super) open: Option<(String, u32)>,
    pub(super) void: u32,
    /// Log ratios of the valid rounds, by baseline.
    pub(super) logs: BTreeMap<BaselineId, Vec<f64>>,
    /// Log times of the candidate and of the baseline in each valid round.
    pub(super) times: BTreeMap<BaselineId, Vec<[f64; 2]>>,
    pub(super) void_reasons: Vec<String>,
    /// What all valid rounds have in common.
    conditions: Conditions,
}

pub(super) fn rounds(protocol: &Protocol, entries: &[Entry], joined: &[BaselineId]) -> Rounds {
    let windows = || {
        entries.iter().filter_map(|entry| match entry {
            Entry::Window(record) => Some(record),
            Entry::Rebuilt { .. } | Entry::Trials(_) => None,
            Entry::Checked { .. } | Entry::Pilot(_) => None,
        })
    };
    let current = windows().map(|record| record.round).max().unwrap_or(0);
    let mut rounds = Rounds {
        current,
        open: None,
        void: 0,
        logs: joined.iter().map(|baseline| (baseline.clone(), Vec::new())).collect(),
        times: BTreeMap::new(),
        void_reasons: Vec::new(),
        conditions: Conditions::default(),
    };
    let numbers: BTreeSet<u32> = windows().map(|record| record.round).collect();
    for round in numbers {
        let of_round: Vec<_> = windows().filter(|record| record.round == round).collect();
        rounds.add(protocol, joined, &of_round);
    }
    rounds
}

impl Rounds {
    fn add(&mut self, protocol: &Protocol, joined: &[BaselineId], windows: &[&WindowRecord]) {
        let void = windows.iter().find_map(|record| match &record.timed {
            Timed::Void(why) | Timed::NotAvailable(why) => Some(why.clone()),
            Timed::Measured { .. } | Timed::Failed(_) => None,
        });
        let mut conditions = self.conditions.clone();
        if let Some(why) = void.or_else(|| conditions.meet(windows).err()) {
            self.void += 1;
            self.void_reasons.push(why);
            return;
        }
        let places = sequence(joined).len() as u32;
        for case in &protocol.cases {
            let done = windows.iter().filter(|record| record.case == case.case).count() as u32;
            if done < places {
                self.open = Some((case.case.clone(), done));
                return;
            }
        }
        self.conditions = conditions.lasting();
        let candidate = weighted_log(protocol, windows, &Subject::Candidate);
        for baseline in joined {
            let subject = Subject::Baseline(baseline.clone());
            let time = weighted_log(protocol, windows, &subject);
            self.logs.entry(baseline.clone()).or_default().push(time - candidate);
            self.times.entry(baseline.clone()).or_default().push([candidate, time]);
        }
    }
}

/// Log of the weighted time over the cases; a case's time is the geometric mean of its two windows.
fn weighted_log(protocol: &Protocol, windows: &[&WindowRecord], subject: &Subject) -> f64 {
    let of_case = |case: &str| {
        let own = windows.iter().filter(|it| it.case == case && it.subject == *subject);
        mean_log(own.filter_map(|record| record.median_ns()))
    };
    let weighted = protocol.cases.iter().map(|case| case.weight * of_case(&case.case).exp());
    weighted.sum::<f64>().ln()
}
