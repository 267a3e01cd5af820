//! The accept stage: performs the steps of [`pipeline::acceptance`], one at a time.
//!
//! The caller stores each entry before it asks for the next, so an acceptance can be interrupted
//! anywhere. Trials are in `hidden`, times in `windows`, baselines in `baselines`, the rest in
//! `checks`. Start at [`Judge::acceptance_protocol`].

mod groups;

use std::time::Instant;

use self::groups::Groups;

use pipeline::acceptance::{
    Check, Entry, Found, LengthError, Protocol, Step, Subject, Timed, TrialsRecord, WeightedCase,
    WindowRecord, is_ungated,
};
use pipeline::comparison::Confidence;
use pipeline::inputs::MasterSeed;
use pipeline::report::GpuRecord;
use pipeline::task::spec::{Case, Precision};
use pipeline::timing::{NoTime, summary};
use sandbox::{CancelFlag, ChildKind};

use crate::evaluate::{Evaluation, HEADLINE};
use crate::headline::WindowKind;
use crate::hidden::{Group, measured_class};
use crate::lengths;
use crate::windows::TimedWindow;
use crate::{Judge, JudgeError};

/// What is to be accepted. `evaluation.seed` is a secret of this acceptance alone.
#[derive(Clone, Copy)]
pub struct Acceptance<'a> {
    pub evaluation: Evaluation<'a>,
    /// The most rounds that are run, 7 to 15.
    pub rounds_max: u32,
    pub confidence: Confidence,
    /// What the task's admission leaves open.
    pub weaknesses: &'a [String],
}

impl Judge {
    /// What an acceptance consists of here and now.
    ///
    /// # Errors
    /// [`JudgeError::NotAvailable`] without a GPU: nothing else gives times.
    pub fn acceptance_protocol(
        &self,
        acceptance: &Acceptance<'_>,
        cancel: &CancelFlag,
    ) -> Result<Protocol, JudgeError> {
        if self.config.gpus.is_none() {
            let why = "a claim needs a GPU; the simulator gives no times";
            return Err(JudgeError::NotAvailable(why.to_owned()));
        }
        let evaluation = &acceptance.evaluation;
        let cases = evaluation.task.spec.cases.iter();
        let mut weighted: Vec<&Case> = cases.filter(|case| case.weight > 0.0).collect();
        weighted.sort_by_key(|case| case.name != HEADLINE);
        let case = |case: &&Case| WeightedCase { case: case.name.clone(), weight: case.weight };
        self.reach(ChildKind::Candidate, cancel)?;
        self.note_tools(cancel)?;
        Ok(Protocol {
            cases: weighted.iter().map(case).collect(),
            baselines: self.baselines_here(evaluation.task, cancel)?,
            confinement: self.confinements(),
            ..self.correctness_protocol(acceptance)
        })
    }

    /// The part of an acceptance that takes no times; any device performs it.
    #[must_use]
    pub fn correctness_protocol(&self, acceptance: &Acceptance<'_>) -> Protocol {
        let evaluation = &acceptance.evaluation;
        let Groups { names, scope } = self.accept_groups(evaluation);
        Protocol {
            groups: names,
            checks: self.checks_here(evaluation),
            cases: Vec::new(),
            baselines: Vec::new(),
            class: evaluation.candidate.plan.precision,
            rounds_max: acceptance.rounds_max,
            confidence: acceptance.confidence,
            scope,
            weaknesses: acceptance.weaknesses.to_vec(),
            claimed_against: None,
            confinement: Vec::new(),
        }
    }

    /// Performs one step; [`Step::Done`] is none.
    ///
    /// # Errors
    /// A broken reference, child or machine; never the candidate.
    pub fn acceptance_step(
        &self,
        acceptance: &Acceptance<'_>,
        protocol: &Protocol,
        entries: &[Entry],
        step: &Step,
        cancel: &CancelFlag,
    ) -> Result<Entry, JudgeError> {
        let evaluation = &acceptance.evaluation;
        match step {
            Step::Rebuild => {
                let same = self.builds_again(evaluation, Instant::now(), cancel)?;
                Ok(Entry::Rebuilt { same })
            }
            Step::Trials(index) => {
                self.trials_entry(evaluation, group_at(protocol, *index)?, cancel)
            }
            Step::Check(check) => {
                let found = self.check(evaluation, *check, entries, cancel)?;
                Ok(Entry::Checked { check: *check, found })
            }
            Step::Pilot { case, baseline } => {
                let subject = Subject::Baseline(baseline.clone());
                let place = Place { case, round: 0, position: 0, gated: true };
                let record = self.window_record(evaluation, &place, &subject, entries, cancel)?;
                if !waited_for_host(&record) {
                    return Ok(Entry::Pilot(record));
                }
                let place = Place { gated: false, ..place };
                self.window_record(evaluation, &place, &subject, entries, cancel).map(Entry::Pilot)
            }
            Step::Window { case, round, position, subject } => {
                let gated = !is_ungated(protocol, entries, case);
                let place = Place { case, round: *round, position: *position, gated };
                self.window_record(evaluation, &place, subject, entries, cancel).map(Entry::Window)
            }
            Step::Done => {
                let why = "it was asked to do nothing".to_owned();
                Err(JudgeError::Child { child: "accept", why })
            }
        }
    }

    fn trials_entry(
        &self,
        evaluation: &Evaluation<'_>,
        group: &str,
        cancel: &CancelFlag,
    ) -> Result<Entry, JudgeError> {
        let secret = MasterSeed(evaluation.seed.0).derive(&format!("accept/{group}"));
        let found = conclusive(self.accept_group(evaluation, group, &secret, cancel)?)?;
        let class = measured_class(&evaluation.task.spec, &found.errors);
        Ok(Entry::Trials(trials_record(group, class, found)))
    }

    fn window_record(
        &self,
        evaluation: &Evaluation<'_>,
        place: &Place<'_>,
        subject: &Subject,
        entries: &[Entry],
        cancel: &CancelFlag,
    ) -> Result<WindowRecord, JudgeError> {
        let spec = &evaluation.task.spec;
        let case = spec.cases.iter().find(|case| case.name == place.case);
        let case = case.ok_or_else(|| JudgeError::Child {
            child: "accept",
            why: format!("the task has no case `{}`", place.case),
        })?;
        let number = u64::from(place.round) << 8 | u64::from(place.position);
        let baseline_ns = pilot_ns(entries, place.case);
        // Energy is a second number beside the times, which one round gives.
        let (energy, gated) = (place.round == 1, place.gated);
        let kind = WindowKind::Accept { baseline_ns, number, energy, gated };
        let begun = WindowRecord::begun(place.case, subject.clone(), place.round, place.position);
        let mut record = WindowRecord { ungated: !place.gated, ..begun };
        match subject {
            Subject::Candidate => {
                let TimedWindow { timed, gpu, energy_mj, .. } =
                    self.time_window(evaluation, case, kind, cancel)?;
                (record.gpu, record.energy_mj) = (gpu, energy_mj);
                record.timed = match timed {
                    // Only a baseline may be missing.
                    Timed::NotAvailable(why) => Timed::Void(why),
                    other => other,
                };
            }
            Subject::Baseline(baseline) => {
                self.record_baseline(evaluation, case, baseline, kind, &mut record, cancel)?;
            }
        }
        record.steady = record.gpu.as_ref().map(steady_states).unwrap_or_default();
        Ok(record)
    }

    fn check(
        &self,
        evaluation: &Evaluation<'_>,
        check: Check,
        entries: &[Entry],
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let found = self.look(evaluation, check, entries, cancel);
        match found {
            // What cannot be looked at here is said, and nothing more.
            Err(JudgeError::NotAvailable(why)) => Ok(Found::NotAvailable { why }),
            other => other,
        }
    }
}

/// A group as it is stored. One that was correct on no case says that nothing was probed.
fn trials_record(group: &str, class: Option<Precision>, found: Group) -> TrialsRecord {
    let worst = found.errors.values().copied().reduce(f64::max);
    let length = lengths::of_group(group).zip(worst);
    let mut unprobed = found.unprobed;
    if found.verdict.is_correct() && found.cases.is_empty() && unprobed.is_empty() {
        unprobed.push("no case was run".to_owned());
    }
    TrialsRecord {
        group: group.to_owned(),
        class,
        length: length.map(|(length, norm_error)| LengthError { length, norm_error }),
        cases: found.cases,
        verdict: found.verdict,
        deterministic: found.deterministic,
        unprobed,
    }
}

/// A group whose end says something of the candidate. One that ended by the state of the machine is
/// nobody's verdict: nothing is stored, and the same command runs it again.
fn conclusive(group: Group) -> Result<Group, JudgeError> {
    if group.verdict.is_correct() || group.repeatable {
        return Ok(group);
    }
    let why = format!("{}: {}", group.verdict, group.verdict.detail);
    Err(JudgeError::Child { child: "candidate", why })
}

fn group_at(protocol: &Protocol, index: usize) -> Result<&str, JudgeError> {
    let group = protocol.groups.get(index).map(String::as_str);
    group.ok_or_else(|| JudgeError::Child {
        child: "accept",
        why: format!("the protocol has no group of trials with number {index}"),
    })
}

/// Which window of which round.
struct Place<'a> {
    case: &'a str,
    round: u32,
    position: u32,
    gated: bool,
}

/// True for a window that is void because its subject needs longer to queue its work than a gate
/// waits.
fn waited_for_host(record: &WindowRecord) -> bool {
    let samples = record.gpu.as_ref().map_or(&[][..], |gpu| &gpu.cold);
    let ungated = matches!(summary(samples, 1, 0), Err(NoTime::Ungated { .. }));
    ungated && matches!(record.timed, Timed::Void(_))
}

/// How long one call of the fastest baseline takes, by the pilot; 0 before there is one.
fn pilot_ns(entries: &[Entry], case: &str) -> f64 {
    let times = entries.iter().filter_map(|entry| match entry {
        Entry::Pilot(record) if record.case == case => record.median_ns(),
        Entry::Pilot(_) | Entry::Window(_) | Entry::Rebuilt { .. } => None,
        Entry::Trials(_) | Entry::Checked { .. } => None,
    });
    times.reduce(f64::min).unwrap_or(0.0)
}

/// What the driver said of the clocks before and after, but for idling.
fn steady_states(gpu: &GpuRecord) -> Vec<String> {
    let states = [&gpu.before, &gpu.after].into_iter().flatten();
    let mut reasons: Vec<String> = states.flat_map(|state| state.throttle.clone()).collect();
    reasons.retain(|reason| !reason.to_lowercase().contains("idle"));
    reasons.sort();
    reasons.dedup();
    reasons
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pipeline::acceptance::{LengthError, Subject, Timed, WindowRecord};
    use pipeline::report::GpuRecord;
    use pipeline::timing::Sample;
    use pipeline::verdict::{Reason, Verdict};

    use super::{conclusive, trials_record, waited_for_host};
    use crate::JudgeError;
    use crate::hidden::Group;

    fn record(ungated: usize, timed: Timed) -> WindowRecord {
        let sample = |at| Sample {
            content: 0,
            elapsed_ns: 1_000,
            sm_clock_hz: 1.98e9,
            ungated: at < ungated,
            hash: [0; 2],
        };
        let gpu = GpuRecord {
            uuid: String::new(),
            driver: String::new(),
            before: None,
            after: None,
            cold: (0..50).map(sample).collect(),
            warm: Vec::new(),
            cost: Vec::new(),
            memory: None,
        };
        let begun = WindowRecord::begun("headline", Subject::Candidate, 0, 0);
        WindowRecord { timed, gpu: Some(gpu), ..begun }
    }

    #[test]
    fn what_the_machine_did_is_no_verdict() {
        let ended = |verdict: Verdict, repeatable| Group { repeatable, ..Group::early(verdict) };
        let wrong = || Verdict::failed(Reason::Shape, "off");
        assert!(conclusive(ended(wrong(), true)).is_ok());
        assert!(conclusive(ended(Verdict::correct(), false)).is_ok());
        let killed = Verdict::failed(Reason::Unsupported, "killed by signal 9");
        for verdict in [wrong(), killed, Verdict::failed(Reason::Timeout, "60 s")] {
            let end = conclusive(ended(verdict, false));
            assert!(matches!(end, Err(JudgeError::Child { child: "candidate", .. })));
        }
    }

    #[test]
    fn a_group_without_cases_says_why_nothing_was_probed() {
        let record = |group: Group| trials_record("class at length 256", None, group);
        for (group, unprobed, missing) in [
            (
                Group::unprobed("the task states no relation between calls"),
                &["the task states no relation between calls"][..],
                Some("nothing could be probed (the task states no relation between calls)"),
            ),
            (
                Group::passed(),
                &["no case was run"],
                Some("nothing could be probed (no case was run)"),
            ),
            // What failed before anything ran did not pass either.
            (Group::early(Verdict::failed(Reason::Shape, "off")), &[], None),
        ] {
            let found = record(group);
            assert_eq!(found.unprobed, unprobed);
            assert_eq!(found.missing().as_deref(), missing);
            assert_eq!(found.length, None);
        }
    }

    #[test]
    fn an_error_stands_at_its_length_only_where_there_is_one() {
        let errors: BTreeMap<_, _> = [("x".to_owned(), 1e-6), ("y".to_owned(), 3e-6)].into();
        let at = |name: &str, errors| {
            trials_record(name, None, Group { errors, ..Group::passed() }).length
        };
        let expected = LengthError { length: 256, norm_error: 3e-6 };
        assert_eq!(at("class at length 256", errors.clone()), Some(expected));
        assert_eq!(at("class at length 256", BTreeMap::new()), None);
        assert_eq!(at("history", errors), None);
    }

    #[test]
    fn a_pilot_is_taken_without_a_gate_only_when_the_gate_did_not_hold_it() {
        let void = || Timed::Void("50 of 50 samples waited for the host".to_owned());
        for (record, expected) in [
            (record(50, void()), true),
            (record(6, void()), true),
            // A tenth may be dropped; such a window is void for another reason.
            (record(5, void()), false),
            (record(50, Timed::NotAvailable("no torch".to_owned())), false),
            (WindowRecord { gpu: None, ..record(50, void()) }, false),
        ] {
            assert_eq!(waited_for_host(&record), expected);
        }
    }
}
