//! Who measures: the judge's side of an acceptance. This is the one place where the two meet.

use judge::{CancelFlag, Judge, JudgeError, RunSeed};
use pipeline::acceptance::{Entry, Protocol, Step};

use crate::claims::Effort;
use crate::claims::subject::Subject;

/// An acceptance on the cards of a judge.
pub(crate) struct Measure<'a> {
    pub(crate) judge: &'a Judge,
    pub(crate) subject: &'a Subject,
    /// Fresh, and secret until the claim.
    pub(crate) seed: &'a RunSeed,
    pub(crate) effort: Effort,
    pub(crate) weaknesses: &'a [String],
}

impl Measure<'_> {
    /// What the acceptance will consist of.
    ///
    /// # Errors
    /// A broken machine, or one that cannot measure.
    pub(crate) fn protocol(&self, cancel: &CancelFlag) -> Result<Protocol, JudgeError> {
        self.judge.acceptance_protocol(&self.acceptance(), cancel)
    }

    /// Performs one step of it.
    ///
    /// # Errors
    /// As [`Measure::protocol`]; never the candidate.
    pub(crate) fn step(
        &self,
        protocol: &Protocol,
        entries: &[Entry],
        step: &Step,
        cancel: &CancelFlag,
    ) -> Result<Entry, JudgeError> {
        self.judge.acceptance_step(&self.acceptance(), protocol, entries, step, cancel)
    }

    fn acceptance(&self) -> judge::Acceptance<'_> {
        let evaluation = judge::Evaluation {
            task: &self.subject.task,
            candidate: &self.subject.candidate,
            tunables: &self.subject.tunables,
            build: &self.subject.build,
            seed: self.seed,
            index: 0,
        };
        let Effort { rounds_max, confidence } = self.effort;
        judge::Acceptance { evaluation, rounds_max, confidence, weaknesses: self.weaknesses }
    }
}
