//! How fast a task's baselines are, before there is a candidate.
//!
//! The headline is timed as the search stage times it; nobody compares what a framework computed
//! there, so these times say where to look and are in no claim. Start at [`Judge::survey_time`].

use pipeline::baseline::{BaselineId, BaselineKind};
use pipeline::candidate::Candidate;
use pipeline::report::Score;
use pipeline::task::Task;
use pipeline::task::spec::Precision;
use pipeline::timing::Spread;
use sandbox::CancelFlag;

use crate::baseline::timed::BaselineCall;
use crate::baselines::own_kernel;
use crate::evaluate::Evaluation;
use crate::limits::BASELINE_DEADLINE;
use crate::{Judge, JudgeError, RunSeed};

impl Judge {
    /// The baselines that this machine can time for a task, of those that count for its weakest
    /// class.
    ///
    /// # Errors
    /// Breakage, or cancelled.
    pub fn survey_baselines(
        &self,
        task: &Task,
        cancel: &CancelFlag,
    ) -> Result<Vec<BaselineId>, JudgeError> {
        let weakest = task.spec.classes.iter().max().copied().unwrap_or(Precision::Fp32);
        let mut found = self.baselines_here(task, cancel)?;
        found.retain(|baseline| baseline.admissible_for(weakest));
        Ok(found)
    }

    /// Times one of them at the headline. The inner error says why it has no time.
    ///
    /// # Errors
    /// Breakage that other baselines would meet too, or cancelled.
    pub fn survey_time(
        &self,
        task: &Task,
        baseline: &BaselineId,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Result<Spread, String>, JudgeError> {
        let Some(case) = task.spec.headline() else {
            return Ok(Err("the task has no headline".to_owned()));
        };
        let found = match own_kernel(task, &baseline.kind) {
            Some(kernel) => self.time_kernel(task, &kernel, seed, cancel),
            None => {
                let master = seed.master(&case.name, 0);
                let deadline = BASELINE_DEADLINE;
                let call = BaselineCall { task, case, baseline, master: &master, deadline };
                let times = match baseline.kind {
                    BaselineKind::Vendor => self.time_vendor(&call, cancel),
                    BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => {
                        self.time_baseline(&call, cancel)
                    }
                    BaselineKind::Custom(_) | BaselineKind::Naive => {
                        self.time_baseline(&call, cancel)
                    }
                };
                times.map(|times| times.map(|times| times.cold))
            }
        };
        match found {
            // One that breaks or is not to be had must not end a survey of a hundred others.
            Err(
                error @ (JudgeError::NotAvailable(_)
                | JudgeError::Child { .. }
                | JudgeError::Reference { .. }
                | JudgeError::Refused(_)),
            ) => Ok(Err(error.to_string())),
            other => other,
        }
    }

    /// A kernel that the task names, judged and timed like a candidate.
    fn time_kernel(
        &self,
        task: &Task,
        kernel: &Candidate,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Result<Spread, String>, JudgeError> {
        let tunables = &kernel.plan.default_tunables();
        let build = &self.build(task, kernel, tunables, cancel)?;
        let evaluation = Evaluation { task, candidate: kernel, tunables, build, seed, index: 0 };
        let judged = self.evaluate(&evaluation, cancel)?;
        Ok(match judged.report.score {
            Score::Measured(measured) => Ok(measured.cold),
            Score::None | Score::Estimated(_) if judged.verdict.is_correct() => {
                Err(format!("it was not timed: {}", judged.report.notes.join("; ")))
            }
            Score::None | Score::Estimated(_) => {
                Err(format!("{}: {}", judged.verdict, judged.verdict.detail))
            }
        })
    }
}
