//! The loop of an acceptance: ask what is next, perform it, store it, repeat.

use std::time::{Duration, Instant};

pub(crate) use agent::Pace;
use judge::JudgeError;
use pipeline::acceptance::{
    Conclusion, Entry, Found, Protocol, Step, Subject, Timed, TrialsRecord, WindowRecord, conclude,
    next_step,
};
use pipeline::digest::Digest;
use pipeline::report::microseconds;
use store::{AcceptanceRow, Ended, PilotKey, Store, framework};

use super::card_pace::{NO_CARD_TIME, on_card};

/// How far it came.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Carried {
    Ended(Box<Conclusion>, Ended),
    /// The deadline comes first; what is left, in words.
    Deadline(String),
    Interrupted(String),
}

/// Carries an acceptance on to its end. Each entry is on disk before the next step begins.
///
/// `perform` is the judge, or a script of a test.
pub(crate) async fn carry(
    store: &Store,
    row: &AcceptanceRow,
    task: &Digest,
    perform: &(impl Fn(&Protocol, &[Entry], &Step) -> Result<Entry, JudgeError> + Sync),
    pace: &Pace,
    say: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Carried> {
    let mut entries = store.entries(&row.id).await?;
    if !entries.is_empty() {
        say(&format!("going on after {} steps", entries.len()));
    }
    let mut longest = Duration::ZERO;
    loop {
        let step = next_step(&row.protocol, &entries);
        if step == Step::Done {
            let conclusion = conclude(&row.protocol, &entries);
            let ended = store.end_acceptance(&row.id, &conclusion).await?;
            return Ok(Carried::Ended(Box::new(conclusion), ended));
        }
        let left = describe_left(&row.protocol, &entries, &step);
        if pace.interrupt.was_requested() {
            return Ok(Carried::Interrupted(left));
        }
        // Going by the longest so far: the first begins, or a short call would come no further.
        if pace.deadline.is_some_and(|end| Instant::now() + longest >= end) {
            return Ok(Carried::Deadline(left));
        }
        let started = Instant::now();
        let entry = match known_pilot(store, row, task, &entries, &step).await? {
            Some(record) => Entry::Pilot(record),
            None => {
                let perform = || perform(&row.protocol, &entries, &step);
                match on_card(pace, store, row, perform).await? {
                    Some(Ok(entry)) => entry,
                    Some(Err(JudgeError::Cancelled)) => return Ok(Carried::Interrupted(left)),
                    Some(Err(error)) => return Err(error.into()),
                    None => return Ok(Carried::Deadline(format!("{left}; {NO_CARD_TIME}"))),
                }
            }
        };
        longest = longest.max(started.elapsed());
        let position = u32::try_from(entries.len())?;
        entries.push(store.append_entry(&row.id, position, &entry).await?);
        if let Some(line) = progress_line(&row.protocol, &entries) {
            say(&line);
        }
    }
}

/// A pilot that an earlier acceptance made under the same conditions. Which framework there is
/// today is known from the first pilot, which is always made.
async fn known_pilot(
    store: &Store,
    row: &AcceptanceRow,
    task: &Digest,
    entries: &[Entry],
    step: &Step,
) -> anyhow::Result<Option<WindowRecord>> {
    let Step::Pilot { case, baseline } = step else { return Ok(None) };
    let versions = entries.iter().find_map(|entry| match entry {
        Entry::Pilot(record) if is_framework(&record.subject) == baseline.is_framework() => {
            Some(framework(&record.versions))
        }
        Entry::Pilot(_) | Entry::Rebuilt { .. } | Entry::Trials(_) => None,
        Entry::Checked { .. } | Entry::Window(_) => None,
    });
    let Some(versions) = versions else { return Ok(None) };
    let key = PilotKey {
        task,
        case,
        baseline,
        device_model: &row.device_model,
        framework: &versions,
        judge_hash: &row.judge_hash,
    };
    Ok(store.pilot(&key).await?)
}

fn is_framework(subject: &Subject) -> bool {
    match subject {
        Subject::Baseline(id) => id.is_framework(),
        Subject::Candidate => false,
    }
}

/// What is left to do, beginning with the next step.
fn describe_left(protocol: &Protocol, entries: &[Entry], step: &Step) -> String {
    let next = match step {
        Step::Rebuild => "building it again".to_owned(),
        Step::Trials(group) => format!("the trials `{}`", protocol.groups[*group]),
        Step::Check(check) => format!("the check {check:?}").to_lowercase(),
        Step::Pilot { case, baseline } => format!("the pilot of {baseline} on `{case}`"),
        Step::Window { round, case, .. } => format!("round {round} on `{case}`"),
        Step::Done => "nothing".to_owned(),
    };
    format!("{} steps are stored; next is {next}", entries.len())
}

/// What the newest entry came to; windows are told of by rounds.
fn progress_line(protocol: &Protocol, entries: &[Entry]) -> Option<String> {
    Some(match entries.last()? {
        Entry::Rebuilt { same: true } => "built again: the same program".to_owned(),
        Entry::Rebuilt { same: false } => "built again: another program".to_owned(),
        Entry::Trials(record) => format!("trials {}: {}", record.group, trials_in_words(record)),
        Entry::Checked { check, found } => {
            format!("check {}: {}", format!("{check:?}").to_lowercase(), found_in_words(found))
        }
        Entry::Pilot(record) => {
            format!("pilot {} {}: {}", record.case, name_of(&record.subject), time_of(record))
        }
        Entry::Window(record) => return round_line(protocol, entries, record),
    })
}

/// A line for a round that this window ended.
fn round_line(protocol: &Protocol, entries: &[Entry], last: &WindowRecord) -> Option<String> {
    if let Timed::Void(why) = &last.timed {
        return Some(format!("round {}: void, {why}", last.round));
    }
    let next_round = match next_step(protocol, entries) {
        Step::Window { round, .. } => round,
        // What is checked now looks at the rounds, which are over.
        Step::Done | Step::Check(_) => last.round + 1,
        Step::Rebuild | Step::Trials(_) | Step::Pilot { .. } => return None,
    };
    if next_round == last.round {
        return None;
    }
    let mut parts: Vec<String> = Vec::new();
    for entry in entries {
        if let Entry::Window(record) = entry
            && record.round == last.round
            && record.case == protocol.cases[0].case
        {
            let name = name_of(&record.subject);
            if !parts.iter().any(|part| part.starts_with(&name)) {
                parts.push(format!("{name} {}", time_of(record)));
            }
        }
    }
    Some(format!("round {}: {}", last.round, parts.join(", ")))
}

fn name_of(subject: &Subject) -> String {
    match subject {
        Subject::Candidate => "candidate".to_owned(),
        Subject::Baseline(id) => id.to_string(),
    }
}

fn time_of(record: &WindowRecord) -> String {
    match &record.timed {
        Timed::Measured { cold, .. } => {
            let how = if record.ungated { " ungated" } else { "" };
            format!("{} µs{how}", microseconds(cold.median_ns))
        }
        Timed::Void(why) => format!("void, {why}"),
        Timed::Failed(verdict) => verdict.to_string(),
        Timed::NotAvailable(why) => format!("not available: {why}"),
    }
}

fn trials_in_words(record: &TrialsRecord) -> String {
    if !record.verdict.is_correct() {
        return record.verdict.to_string();
    }
    match record.missing() {
        None => "correct".to_owned(),
        Some(missing) if record.cases.is_empty() => format!("not available: {missing}"),
        Some(missing) => format!("correct; not available: {missing}"),
    }
}

fn found_in_words(found: &Found) -> String {
    match found {
        Found::Clean => "clean".to_owned(),
        Found::Fails { reason, detail } => format!("{}: {detail}", reason.code()),
        Found::Audits { detail } => format!("a person has to look: {detail}"),
        Found::Notes { detail } => detail.clone(),
        Found::NotAvailable { why } => format!("not available: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pipeline::acceptance::TrialsRecord;
    use pipeline::inputs::Distribution;
    use pipeline::report::{CaseReport, CaseStatus};
    use pipeline::verdict::{Reason, Verdict};

    use super::trials_in_words;

    #[test]
    fn a_group_of_trials_is_correct_only_where_something_was_probed() {
        let record = |cases: &[CaseReport], unprobed: &[&str], verdict| TrialsRecord {
            group: "relations".to_owned(),
            cases: cases.to_vec(),
            verdict,
            deterministic: true,
            class: None,
            length: None,
            unprobed: unprobed.iter().map(|it| (*it).to_owned()).collect(),
        };
        let (correct, wrong) = (Verdict::correct, || Verdict::failed(Reason::Mismatch, "off"));
        let case = CaseReport {
            case: "tiny".to_owned(),
            dims: BTreeMap::new(),
            distribution: Distribution::D1,
            status: CaseStatus::Passed,
            checks: Vec::new(),
            counters: None,
            findings: Vec::new(),
        };
        for (record, expected) in [
            (record(std::slice::from_ref(&case), &[], correct()), "correct"),
            (
                record(&[], &["no rows"], correct()),
                "not available: nothing could be probed (no rows)",
            ),
            (
                record(std::slice::from_ref(&case), &["a", "b"], correct()),
                "correct; not available: not all could be probed (a; b)",
            ),
            (record(&[case], &["a"], wrong()), "Wrong/MISMATCH"),
        ] {
            assert_eq!(trials_in_words(&record), expected);
        }
    }
}
