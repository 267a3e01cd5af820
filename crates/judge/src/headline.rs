//! The headline case: counted on a sample of blocks by the simulator, timed on a GPU.

mod careless;
mod counted;
mod kind;
mod prepare;
mod room;
mod slots;
mod timed;

use pipeline::inputs::Distribution;
use pipeline::report::{CaseReport, CaseStatus, Score};
use pipeline::verdict::Reason;
use sandbox::wire::{SampleCase, WindowRequest};
use sandbox::{CancelFlag, Memfd};

use crate::evaluate::Evaluation;
use crate::{Judge, JudgeError};
pub(crate) use counted::CountedHeadline;
pub(crate) use kind::WindowKind;
pub(crate) use slots::{Ranked, disturbance};
pub(crate) use timed::TimedHeadline;

/// What is done with the headline case here.
pub(crate) enum Headline<'a> {
    /// `None` where the simulator cannot hold it.
    Counted(Option<Box<CountedHeadline>>),
    Timed(Box<TimedHeadline<'a>>),
    /// Nothing, and why.
    Untimed(String),
    /// This stage does not look at it.
    Left,
}

/// What came of the headline.
pub(crate) struct Concluded {
    pub(crate) score: Score,
    pub(crate) cases: Vec<CaseReport>,
    pub(crate) notes: Vec<String>,
}

impl Default for Concluded {
    fn default() -> Self {
        Self { score: Score::None, cases: Vec::new(), notes: Vec::new() }
    }
}

impl Headline<'_> {
    pub(crate) fn sample(&self) -> Option<SampleCase> {
        match self {
            Self::Counted(counted) => counted.as_ref().map(|it| it.sample.clone()),
            Self::Timed(_) | Self::Untimed(_) | Self::Left => None,
        }
    }

    /// `first_bulk` is the index of the first of [`Headline::bulk`] in the request.
    pub(crate) fn window_request(
        &self,
        evaluation: &Evaluation<'_>,
        first_bulk: u32,
    ) -> Option<WindowRequest> {
        match self {
            Self::Timed(timed) => Some(timed.request(evaluation, first_bulk)),
            Self::Counted(_) | Self::Untimed(_) | Self::Left => None,
        }
    }

    pub(crate) fn bulk(&self) -> Vec<&Memfd> {
        match self {
            Self::Timed(timed) => timed.bulk(),
            Self::Counted(_) | Self::Untimed(_) | Self::Left => Vec::new(),
        }
    }

    /// Forbids writing to what the candidate's child wrote.
    pub(crate) fn seal(&self) -> Result<(), JudgeError> {
        match self {
            Self::Timed(timed) => timed.seal(),
            Self::Counted(_) | Self::Untimed(_) | Self::Left => Ok(()),
        }
    }
}

impl Judge {
    /// A headline that could not be run: nobody saw the kernel there, so it did not pass.
    pub(crate) fn untimed(&self, evaluation: &Evaluation<'_>, why: &str) -> Concluded {
        let mut concluded = Concluded::default();
        let headline = evaluation.task.spec.headline();
        concluded.cases.extend(headline.map(|case| CaseReport {
            case: case.name.clone(),
            dims: case.dims.clone(),
            distribution: Distribution::D1,
            status: CaseStatus::Failed {
                reason: Reason::Unsupported,
                detail: format!("the headline shape could not be timed here: {why}"),
            },
            checks: Vec::new(),
            counters: None,
            findings: Vec::new(),
        }));
        concluded
    }

    /// What is to be done with the headline case of a task.
    pub(crate) fn headline<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        cancel: &CancelFlag,
    ) -> Result<Headline<'a>, JudgeError> {
        match &self.config.gpus {
            None => Ok(Headline::Counted(self.counted_case(evaluation, cancel)?.map(Box::new))),
            Some(_) => match evaluation.task.spec.headline() {
                Some(case) => self.timed_case(evaluation, case, WindowKind::Search, cancel),
                None => Ok(Headline::Untimed("the task has no headline".to_owned())),
            },
        }
    }
}
