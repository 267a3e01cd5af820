//! Judges one entry, stage by stage, until one of them says no.

use pipeline::candidate::Candidate;
use pipeline::reply::candidate_of_parts;
use pipeline::task::Task;
use pipeline::verdict::{Kind, Verdict};
use sandbox::CancelFlag;

use super::{Catalogue, Code, Ended, Entry, Stage};
use crate::{Evaluation, Judge, JudgeError, RunSeed};

/// Which evaluation of a run an entry pretends to be: all share one, so that each reference is
/// computed once.
const INDEX: u64 = 0;

impl Catalogue {
    /// Judges an entry as a run would judge a candidate.
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
        let task = self.tasks.get(&entry.task).ok_or_else(|| JudgeError::Reference {
            task: entry.task.clone(),
            why: "the catalogue has no such task".to_owned(),
        })?;
        match candidate_of_parts(&entry.source, &entry.plan, &task.signature()) {
            Ok(candidate) => staged(task, &candidate, judge, seed, cancel),
            Err(malformed) => Ok(rejected(&malformed.verdict(), Stage::Static)),
        }
    }
}

fn staged(
    task: &Task,
    candidate: &Candidate,
    judge: &Judge,
    seed: &RunSeed,
    cancel: &CancelFlag,
) -> Result<Ended, JudgeError> {
    let tunables = &candidate.plan.default_tunables();
    let build = judge.build(task, candidate, tunables, cancel)?;
    let evaluation = Evaluation { task, candidate, tunables, build: &build, seed, index: INDEX };
    let mut passed = Stage::Static;
    for stage in Stage::ALL {
        let verdict = match stage {
            Stage::Static => build.verdict.clone().unwrap_or_else(Verdict::correct),
            Stage::Search => judge.evaluate(&evaluation, cancel)?.verdict,
            // This judge has no such stage.
            Stage::Promote | Stage::Accept => break,
        };
        if !verdict.is_correct() {
            return Ok(rejected(&verdict, stage));
        }
        passed = stage;
    }
    Ok(Ended { code: Code::Pass, stage: passed, detail: String::new() })
}

/// A plan that does not fit a public shape is found before anything has run.
fn rejected(verdict: &Verdict, stage: Stage) -> Ended {
    let stage = if verdict.kind == Kind::Malformed { Stage::Static } else { stage };
    let code = verdict.reason.map_or(Code::Pass, Code::Reason);
    Ended { code, stage, detail: verdict.detail.clone() }
}
