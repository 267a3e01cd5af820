//! Where an evaluation happens: here, or somewhere else. Tickets survive a restart.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use pipeline::candidate::Candidate;
use pipeline::digest::Digest;
use pipeline::task::Task;
use sandbox::CancelFlag;

use crate::{Build, Evaluation, Judge, JudgeError, Judgement, RunSeed};

/// Everything that one evaluation needs, as a value that can travel.
#[derive(Clone, Debug)]
pub struct Job {
    /// Id of the attempt: the same after a restart.
    pub id: String,
    pub stage: JobStage,
    /// Identity of the evaluation: in the search stage equal keys have equal answers.
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

/// What a job asks for.
#[derive(Clone, Debug)]
pub enum JobStage {
    Search,
    /// Hidden cases, drawn from the job's seed, and the incumbent beside it.
    Promote {
        incumbent: Option<Box<Job>>,
    },
}

impl Job {
    /// What the job's answer is found by. Hidden cases are drawn for one attempt alone.
    #[must_use]
    pub fn key(&self) -> Digest {
        match self.stage {
            JobStage::Search => self.eval_key.clone(),
            JobStage::Promote { .. } => {
                let parts = [self.eval_key.as_str().as_bytes(), self.id.as_bytes()];
                Digest::of_parts("promote", &parts)
            }
        }
    }

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

    /// Gives a job up; one that is done or unknown is no error.
    ///
    /// # Errors
    /// An evaluator that cannot be reached.
    fn cancel(&self, ticket: &JobTicket) -> Result<(), JudgeError>;
}

/// This machine: a poll judges.
impl Evaluator for Judge {
    fn submit(&self, job: &Arc<Job>) -> Result<JobTicket, JudgeError> {
        let ticket = JobTicket(job.key().to_string());
        let mut jobs = self.jobs.lock().unwrap_or_else(PoisonError::into_inner);
        jobs.insert(ticket.clone(), Arc::clone(job));
        Ok(ticket)
    }

    fn poll(&self, ticket: &JobTicket, cancel: &CancelFlag) -> Result<JobPoll, JudgeError> {
        let taken = self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket);
        let job = taken.ok_or_else(|| JudgeError::UnknownJob { ticket: ticket.0.clone() })?;
        let evaluation = job.evaluation();
        let judgement = match &job.stage {
            JobStage::Search => self.evaluate(&evaluation, cancel)?,
            JobStage::Promote { incumbent } => {
                let incumbent = incumbent.as_deref().map(Job::evaluation);
                self.promote(&evaluation, incumbent.as_ref(), cancel)?
            }
        };
        Ok(JobPoll::Done(Box::new(judgement)))
    }

    fn cancel(&self, ticket: &JobTicket) -> Result<(), JudgeError> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).remove(ticket);
        Ok(())
    }
}
