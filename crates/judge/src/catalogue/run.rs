//! Judges one entry, stage by stage, until one of them says no.

use std::collections::BTreeMap;

use pipeline::acceptance::{self, Found, Step, conclude, next_step};
use pipeline::candidate::Candidate;
use pipeline::comparison::Confidence;
use pipeline::inputs::MasterSeed;
use pipeline::limits::ROUNDS_MIN;
use pipeline::reply::candidate_of_parts;
use pipeline::task::Task;
use pipeline::verdict::{Kind, Verdict};
use sandbox::CancelFlag;

use super::{Catalogue, Code, Ended, Entry, Stage};
use crate::limits::{GAIN_MAX, GAIN_TRIES_MAX};
use crate::windows::Beside;
use crate::{Acceptance, Build, Evaluation, Judge, JudgeError, RunSeed};

/// Which evaluation of a run an entry pretends to be: all share one, so that each reference is
/// computed once.
const INDEX: u64 = 0;

impl Catalogue {
    /// Judges an entry as a run would judge a candidate that is promoted and accepted.
    ///
    /// # Errors
    /// Our own breakage: a broken reference, child or machine; never the kernel.
    pub fn run(
        &self,
        entry: &Entry,
        judge: &Judge,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Ended, JudgeError> {
        self.run_to(entry, Stage::Accept, judge, seed, cancel)
    }

    /// Judges an entry up to a stage.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn run_to(
        &self,
        entry: &Entry,
        last: Stage,
        judge: &Judge,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Ended, JudgeError> {
        let task = self.tasks.get(&entry.task).ok_or_else(|| JudgeError::Reference {
            task: entry.task.clone(),
            why: "the catalogue has no such task".to_owned(),
        })?;
        let subject = match built(entry, task, judge, cancel)? {
            Ok(subject) => subject,
            Err(verdict) => return Ok(rejected(&verdict, Stage::Static)),
        };
        let ended = staged(&subject, last, judge, seed, cancel)?;
        let timed = match ended.code {
            Code::Pass => true,
            // A look at the number spares a person one.
            Code::Audit => judge.config().gpus.is_some(),
            Code::Reason(_) | Code::NoGain => false,
        };
        if !timed || !entry.expect.contains(&Code::NoGain) {
            return Ok(ended);
        }
        let plain = entry.plain.as_deref().and_then(|plain| self.entry(plain));
        match plain.map(|plain| built(plain, task, judge, cancel)).transpose()? {
            Some(Ok(plain)) => gain(ended, &subject, &plain, judge, seed, cancel),
            Some(Err(_)) | None => Ok(ended),
        }
    }

    /// The entry with this name.
    #[must_use]
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.name == name)
    }
}

/// A kernel of the catalogue, compiled.
struct Subject<'a> {
    task: &'a Task,
    candidate: Candidate,
    tunables: BTreeMap<String, i64>,
    build: Build,
}

impl Subject<'_> {
    fn evaluation<'a>(&'a self, seed: &'a RunSeed) -> Evaluation<'a> {
        let Self { task, candidate, tunables, build } = self;
        Evaluation { task, candidate, tunables, build, seed, index: INDEX }
    }
}

fn built<'a>(
    entry: &Entry,
    task: &'a Task,
    judge: &Judge,
    cancel: &CancelFlag,
) -> Result<Result<Subject<'a>, Verdict>, JudgeError> {
    let candidate = match candidate_of_parts(&entry.source, &entry.plan, &task.signature()) {
        Ok(candidate) => candidate,
        Err(malformed) => return Ok(Err(malformed.verdict())),
    };
    let tunables = candidate.plan.default_tunables();
    let build = judge.build(task, &candidate, &tunables, cancel)?;
    Ok(Ok(Subject { task, candidate, tunables, build }))
}

fn staged(
    subject: &Subject<'_>,
    last: Stage,
    judge: &Judge,
    seed: &RunSeed,
    cancel: &CancelFlag,
) -> Result<Ended, JudgeError> {
    // What promote and accept draw must be known to no other stage.
    let own = |stage: Stage| RunSeed(MasterSeed(seed.0).derive(stage.name()).0);
    for stage in Stage::ALL.into_iter().filter(|stage| *stage <= last) {
        let seed = own(stage);
        let ended = match stage {
            Stage::Static => {
                rejected(subject.build.verdict.as_ref().unwrap_or(&Verdict::correct()), stage)
            }
            Stage::Search => {
                let searched = judge.evaluate(&subject.evaluation(&seed), cancel)?;
                rejected(&searched.verdict, stage)
            }
            Stage::Promote => {
                let promoted = judge.promote(&subject.evaluation(&seed), None, cancel)?;
                rejected(&promoted.verdict, stage)
            }
            Stage::Accept => accepted(subject, judge, &seed, cancel)?,
        };
        if ended.code != Code::Pass {
            return Ok(ended);
        }
    }
    Ok(Ended { code: Code::Pass, stage: last, detail: String::new() })
}

/// The part of an acceptance that any device performs.
fn accepted(
    subject: &Subject<'_>,
    judge: &Judge,
    seed: &RunSeed,
    cancel: &CancelFlag,
) -> Result<Ended, JudgeError> {
    let evaluation = subject.evaluation(seed);
    let (rounds_max, confidence) = (ROUNDS_MIN, Confidence::P95);
    let acceptance = Acceptance { evaluation, rounds_max, confidence, weaknesses: &[] };
    let protocol = judge.correctness_protocol(&acceptance);
    let mut entries = Vec::new();
    loop {
        let step = next_step(&protocol, &entries);
        if step == Step::Done {
            break;
        }
        entries.push(judge.acceptance_step(&acceptance, &protocol, &entries, &step, cancel)?);
    }
    let verdict = conclude(&protocol, &entries).verdict;
    let audited = entries.iter().find_map(|entry| match entry {
        acceptance::Entry::Checked { check, found: Found::Audits { detail } } => {
            Some(format!("{check:?}: {detail}"))
        }
        acceptance::Entry::Checked { .. } | acceptance::Entry::Rebuilt { .. } => None,
        acceptance::Entry::Trials(_) => None,
        acceptance::Entry::Pilot(_) | acceptance::Entry::Window(_) => None,
    });
    Ok(match audited.filter(|_| verdict.is_correct()) {
        Some(detail) => Ended { code: Code::Audit, stage: Stage::Accept, detail },
        None => rejected(&verdict, Stage::Accept),
    })
}

/// Whether a correct kernel is faster than the same one without its trick: where there are times,
/// by the order trick, plain, plain, trick.
fn gain(
    ended: Ended,
    trick: &Subject<'_>,
    plain: &Subject<'_>,
    judge: &Judge,
    seed: &RunSeed,
    cancel: &CancelFlag,
) -> Result<Ended, JudgeError> {
    let said = |what: String| match ended.detail.is_empty() {
        true => what,
        false => format!("{}; {what}", ended.detail),
    };
    if judge.config().gpus.is_none() {
        let detail = "correct; the simulator gives no times".to_owned();
        return Ok(Ended { code: Code::NoGain, detail, ..ended });
    }
    let (plain, trick) = (plain.evaluation(seed), trick.evaluation(seed));
    let mut beside = Beside::Unknown;
    for _ in 0..GAIN_TRIES_MAX {
        if beside == Beside::Unknown {
            beside = judge.time_beside(&trick, &plain, cancel)?;
        }
    }
    // Of the trick over the plain kernel.
    let ratio = match beside {
        Beside::Ratio(ratio) => 1.0 / ratio,
        Beside::TooFast(why) => return Ok(Ended { code: Code::Audit, detail: said(why), ..ended }),
        Beside::Failed(verdict) => return Ok(rejected(&verdict, ended.stage)),
        Beside::Unknown => {
            let detail = said("a window beside the plain kernel gave no time".to_owned());
            return Ok(Ended { detail, ..ended });
        }
    };
    let code = match ended.code {
        Code::Pass if ratio.ln() >= -GAIN_MAX => Code::NoGain,
        other => other,
    };
    let detail = said(format!("{ratio:.4} times as long as without the trick"));
    Ok(Ended { code, detail, ..ended })
}

/// A plan that does not fit a public shape is found before anything has run.
fn rejected(verdict: &Verdict, stage: Stage) -> Ended {
    let stage = if verdict.kind == Kind::Malformed { Stage::Static } else { stage };
    let code = verdict.reason.map_or(Code::Pass, Code::Reason);
    Ended { code, stage, detail: verdict.detail.clone() }
}
