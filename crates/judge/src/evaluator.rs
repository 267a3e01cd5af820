//! Where an evaluation happens: here, or somewhere else. Tickets survive a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use pipeline::candidate::Candidate;
use pipeline::digest::Digest;
use pipeline::task::Task;
use sandbox::CancelFlag;

use crate::{Build, Evaluation, Judge, JudgeError, Judgement, Promoted, RunSeed};

/// Everything that one evaluation needs, as a value that can travel.
#[derive(Clone, Debug)]
pub struct Job {
    /// Id of the attempt: the same after a restart.
    pub id: String,
    /// Identity of the evaluation: equal keys have equal answers.
    pub eval_key: Digest,
    pub task: Arc<Task>,
    /// The files that the task was read from: path inside its folder → bytes.
    pub task_files: Arc<BTreeMap<String, Vec<u8>>>,
    pub candidate: Candidate,
    pub tunables: BTreeMap<String, i64>,
    pub build: Build,
    pub seed: RunSeed,
    /// Which evaluation of the run this is; picks the master seeds.
    pub index: u64,
}

impl Job {
    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation {
            task: &self.task,
            candidate: &self.candidate,
            tunables: &self.tunables,
            build: &self.build,
            seed: &self.seed,
            index: self.index,
        }
    }
}

/// What an evaluator needs to find a submitted job again; opaque text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobTicket(pub String);

/// How far a submitted job is.
#[derive(Clone, Debug, PartialEq)]
pub enum JobPoll {
    /// Not judged; worth asking again after this time.
    Pending {
        next_poll_ms: u64,
    },
    Done(Box<Judgement>),
}

/// Something that judges built candidates. Errors are the machine's or ours, never a verdict.
pub trait Evaluator: Send + Sync {
    /// Hands a job over. The same job may be handed over again after a crash.
    ///
    /// # Errors
    /// An evaluator that cannot take jobs now.
    fn submit(&self, job: &Arc<Job>) -> Result<JobTicket, JudgeError>;

    /// Asks for the judgement; may take as long as judging does.
    ///
    /// # Errors
    /// A ticket that is not known, a broken machine, or a cancelled job.
    fn poll(&self, ticket: &JobTicket, cancel: &CancelFlag) -> Result<JobPoll, JudgeError>;

    /// Lets a job's candidate meet hidden cases, and the incumbent beside it. `None` from an
    /// evaluator that cannot.
    ///
    /// # Errors
    /// A broken machine, or a cancelled job.
    fn promote(
        &self,
        _job: &Job,
        _incumbent: Option<&Job>,
        _cancel: &CancelFlag,
    ) -> Result<Option<Promoted>, JudgeError> {
        Ok(None)
    }

    /// Gives a job up; one that is done or unknown is no error.
    ///
    /// # Errors
    /// An evaluator that cannot be reached.
    fn cancel(&self, ticket: &JobTicket) -> Result<(), JudgeError>;
}

/// This machine: a poll judges.
impl Evaluator for Judge {
    fn submit(&self, job: &Arc<Job>) -> Result<JobTicket, JudgeError> {
        let ticket = JobTicket(job.eval_key.to_string());
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.insert(ticket.clone(), Arc::clone(job));
        Ok(ticket)
    }

    fn poll(&self, ticket: &JobTicket, cancel: &CancelFlag) -> Result<JobPoll, JudgeError> {
        let taken = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket);
        let job = taken.ok_or_else(|| JudgeError::UnknownJob { ticket: ticket.0.clone() })?;
        let evaluation = job.evaluation();
        Ok(JobPoll::Done(Box::new(self.evaluate(&evaluation, cancel)?)))
    }

    fn promote(
        &self,
        job: &Job,
        incumbent: Option<&Job>,
        cancel: &CancelFlag,
    ) -> Result<Option<Promoted>, JudgeError> {
        let incumbent = incumbent.map(Job::evaluation);
        Judge::promote(self, &job.evaluation(), incumbent.as_ref(), cancel).map(Some)
    }

    fn cancel(&self, ticket: &JobTicket) -> Result<(), JudgeError> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket);
        Ok(())
    }
}
