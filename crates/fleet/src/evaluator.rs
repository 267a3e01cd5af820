//! The run's side of the folder: jobs go out, results come in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use judge::{CancelFlag, Evaluator, Job, JobPoll, JobTicket, JudgeError};
use pipeline::limits::capped;
use pipeline::visible::visible;

use crate::archive::{Conditions, JobFailure, JobResult, pack};
use crate::error::FleetError;
use crate::layout::{Layout, read_if_there, remove, write_whole};
use crate::limits::{MESSAGE_BYTES_MAX, RESULT_POLL_MS};

/// Has jobs judged by whoever works on a folder.
#[derive(Debug)]
pub struct FolderEvaluator {
    root: PathBuf,
    layout: Layout,
    conditions: Conditions,
    /// Jobs of this process that have no result yet, so that a job file that was lost is written
    /// again.
    open: Mutex<BTreeMap<JobTicket, Arc<Job>>>,
}

impl FolderEvaluator {
    /// Opens the folder, and makes it where it is missing.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn open(root: &Path, conditions: Conditions) -> Result<Self, FleetError> {
        let layout = Layout::open(root)?;
        Ok(Self { root: root.to_owned(), layout, conditions, open: Mutex::default() })
    }

    fn elsewhere(&self, why: impl std::fmt::Display) -> JudgeError {
        JudgeError::Elsewhere {
            place: format!("evaluator folder {}", self.root.display()),
            why: why.to_string(),
        }
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<JobTicket, Arc<Job>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the job unless it is there or answered.
    fn hand_over(&self, job: &Job) -> Result<(), JudgeError> {
        let path = self.layout.job(job.key().as_str());
        // In this order: a worker writes the result before it removes the job.
        if path.exists() || self.result_of(job)?.is_some() {
            return Ok(());
        }
        let bytes = pack(job, &self.conditions).map_err(|why| self.elsewhere(why))?;
        write_whole(&path, &bytes).map_err(|error| self.elsewhere(error))
    }

    /// The result for a job, if it is there and means this job. What depended on how busy the
    /// worker was answers nobody but the job that it was made for.
    fn result_of(&self, job: &Job) -> Result<Option<JobResult>, JudgeError> {
        let path = self.layout.result(job.key().as_str());
        let Some(bytes) = read_if_there(&path).map_err(|error| self.elsewhere(error))? else {
            return Ok(None);
        };
        // What is no result is put aside, and the job is handed over again.
        let Ok(result) = JobResult::parse(&bytes) else {
            let aside = self.layout.bad_result(job.key().as_str());
            std::fs::rename(&path, aside).map_err(|error| self.elsewhere(error))?;
            return Ok(None);
        };
        let ours = result.key == job.key()
            && result.judge_hash == self.conditions.judge_hash
            && (result.repeatable || result.id == job.id)
            && result.report.was_held_at(self.conditions.required_confinement);
        if !ours {
            remove(&path).map_err(|error| self.elsewhere(error))?;
        }
        Ok(ours.then_some(result))
    }

    /// A worker's failure, which is told once.
    fn failure_of(&self, job: &Job) -> Result<(), JudgeError> {
        let path = self.layout.failure(job.key().as_str());
        let Some(bytes) = read_if_there(&path).map_err(|error| self.elsewhere(error))? else {
            return Ok(());
        };
        remove(&path).map_err(|error| self.elsewhere(error))?;
        let why = JobFailure::parse(&bytes).map_or_else(|why| why, |failure| failure.why);
        let why = visible(&capped(&why, MESSAGE_BYTES_MAX));
        Err(self.elsewhere(format!("its worker could not judge: {why}")))
    }
}

impl Evaluator for FolderEvaluator {
    fn submit(&self, job: &Arc<Job>) -> Result<JobTicket, JudgeError> {
        // A failure of an earlier process was told then; now the job is tried anew.
        let stale = self.layout.failure(job.key().as_str());
        remove(&stale).map_err(|error| self.elsewhere(error))?;
        self.hand_over(job)?;
        let ticket = JobTicket(job.key().to_string());
        self.jobs().insert(ticket.clone(), Arc::clone(job));
        Ok(ticket)
    }

    fn poll(&self, ticket: &JobTicket, cancel: &CancelFlag) -> Result<JobPoll, JudgeError> {
        let unknown = || JudgeError::UnknownJob { ticket: ticket.0.clone() };
        let job = self.jobs().get(ticket).cloned().ok_or_else(unknown)?;
        if let Some(result) = self.result_of(&job)? {
            self.jobs().remove(ticket);
            return Ok(JobPoll::Done(Box::new(result.judgement())));
        }
        self.failure_of(&job)?;
        if cancel.is_cancelled() {
            return Err(JudgeError::Cancelled);
        }
        self.hand_over(&job)?;
        Ok(JobPoll::Pending { next_poll_ms: RESULT_POLL_MS })
    }

    fn cancel(&self, ticket: &JobTicket) -> Result<(), JudgeError> {
        let Some(job) = self.jobs().remove(ticket) else { return Ok(()) };
        let path = self.layout.job(job.key().as_str());
        remove(&path).map_err(|error| self.elsewhere(error))
    }
}
