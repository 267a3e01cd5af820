//! The worker's side of the folder: takes jobs, asks its judge, writes results.
//!
//! A job is taken by a lock on its file, which ends with the process: whatever kills a worker, the
//! next one takes the job again. The result is there before the job goes away.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use judge::{CancelFlag, Evaluator, Job, JobPoll, Judge, JudgeError, Judgement, judge_hash};
use pipeline::confinement::level_of_judging;
use pipeline::digest::Digest;
use pipeline::limits::capped;
use pipeline::scrub::Scrubber;
use pipeline::verdict::Verdict;
use rustix::fs::{FlockOperation, flock};

use crate::announcement::announce;
use crate::archive::{Conditions, JobFailure, JobResult, unpack};
use crate::error::FleetError;
use crate::layout::{Layout, open_plain, read_open, remove, write_whole};
use crate::limits::{JOB_POLL_MS, MESSAGE_BYTES_MAX, TRIES_MAX};

/// Judges what arrives in a folder.
#[derive(Debug)]
pub struct Worker {
    layout: Layout,
    judge: Arc<Judge>,
    /// What must not leave this machine, which the run's does not know.
    scrubber: Arc<Scrubber>,
    /// Tasks whose reference reproduced its golden case here.
    proven: BTreeSet<Digest>,
}

/// How a worker's call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drained {
    /// Nothing is left, as far as this worker may take it.
    Empty,
    /// The deadline came first.
    Deadline,
    /// Somebody asked it to stop.
    Stopped,
}

/// What a worker tells while it works.
#[derive(Clone, Copy, Debug)]
pub enum WorkerEvent<'a> {
    /// A job is held; its judging begins.
    Taken { key: &'a str },
    /// The result is there; the job goes away next.
    Judged { task: &'a str, key: &'a str, verdict: &'a Verdict },
    /// The failure is told; the job goes away next.
    Failed { key: &'a str, why: &'a str },
}

/// A job file that this process holds.
struct Claim {
    key: String,
    file: File,
}

/// Why a job got no judgement.
enum NoJudgement {
    /// The job's fault or this machine's: told to the run.
    Failed(String),
    /// This machine lacks something: the job is another worker's.
    NotAvailable(String),
    Cancelled,
}

fn early_end(deadline: Option<Instant>, stop: &CancelFlag, cancel: &CancelFlag) -> Option<Drained> {
    if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
        return Some(Drained::Deadline);
    }
    (stop.is_cancelled() || cancel.is_cancelled()).then_some(Drained::Stopped)
}

/// That this machine holds children by less than the run requires.
fn confined(required: u8, held: u8) -> String {
    format!(
        "the run requires confinement of level {required} and this worker reaches {held}: see \
         `warpwright doctor` there, and leave WARPWRIGHT_CONFINEMENT unset"
    )
}

impl Worker {
    /// A worker with a judge of its own machine, whose device it tells the runs; what `scrubber`
    /// finds is in no result.
    ///
    /// # Errors
    /// A folder that cannot be made.
    pub fn open(
        root: &Path,
        judge: Arc<Judge>,
        scrubber: Arc<Scrubber>,
    ) -> Result<Self, FleetError> {
        let layout = Layout::open(root)?;
        announce(&layout, &judge.config().device)?;
        Ok(Self { layout, judge, scrubber, proven: BTreeSet::new() })
    }

    /// Judges jobs until `deadline` or a stop; with `drain` until none is left. `stop` ends it
    /// after the job in hand, `cancel` at once.
    ///
    /// # Errors
    /// A folder that cannot be read or written, or [`FleetError::NotAvailable`] when this machine
    /// cannot judge, as when all of its GPUs are out of service; the job in hand stays.
    pub fn work(
        &mut self,
        drain: bool,
        deadline: Option<Instant>,
        stop: &CancelFlag,
        cancel: &CancelFlag,
        observer: &dyn Fn(WorkerEvent<'_>),
    ) -> Result<Drained, FleetError> {
        loop {
            let mut took_one = false;
            for key in self.layout.waiting()? {
                if let Some(end) = early_end(deadline, stop, cancel) {
                    return Ok(end);
                }
                if let Some(claim) = self.claim(&key, observer)? {
                    took_one = true;
                    self.answer(&claim, cancel, observer)?;
                }
            }
            if took_one {
                continue;
            }
            if drain {
                return Ok(Drained::Empty);
            }
            if let Some(end) = early_end(deadline, stop, cancel) {
                return Ok(end);
            }
            std::thread::sleep(Duration::from_millis(JOB_POLL_MS));
        }
    }

    /// Locks a job; `None` when another worker has it, it is gone, or it is no job.
    fn claim(
        &self,
        key: &str,
        observer: &dyn Fn(WorkerEvent<'_>),
    ) -> Result<Option<Claim>, FleetError> {
        let path = self.layout.job(key);
        let file = match open_plain(&path) {
            Ok(Some(file)) => file,
            Ok(None) => return Ok(None),
            Err(error) => {
                self.refuse(key, &error.to_string(), observer)?;
                return Ok(None);
            }
        };
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(FleetError::io(&path, error)),
        }
        // Between opening and locking, another worker may have finished and removed it.
        let still_there = path.exists();
        Ok(still_there.then(|| Claim { key: key.to_owned(), file }))
    }

    fn answer(
        &mut self,
        claim: &Claim,
        cancel: &CancelFlag,
        observer: &dyn Fn(WorkerEvent<'_>),
    ) -> Result<(), FleetError> {
        let (key, path) = (claim.key.as_str(), self.layout.job(&claim.key));
        let bytes = match read_open(&claim.file, &path) {
            Ok(bytes) => bytes,
            Err(error) => return self.refuse(key, &error.to_string(), observer),
        };
        let (job, conditions) = match unpack(&bytes) {
            Ok((job, _)) if job.key().as_str() != key => {
                return self.refuse(key, "its name is not its key", observer);
            }
            Ok(unpacked) => unpacked,
            Err(why) => return self.refuse(key, &why, observer),
        };
        observer(WorkerEvent::Taken { key });
        let job = Arc::new(job);
        match self.judge(&job, &conditions, cancel).and_then(|it| self.result(&job, &it)) {
            Ok(result) => {
                let bytes = serde_json::to_vec(&result);
                let bytes = bytes.map_err(|error| FleetError::io(&path, error))?;
                write_whole(&self.layout.result(key), &bytes)?;
                let (task, verdict) = (job.task.spec.name.as_str(), &result.verdict);
                observer(WorkerEvent::Judged { task, key, verdict });
                remove(&path)
            }
            Err(NoJudgement::Cancelled) => Ok(()),
            Err(NoJudgement::NotAvailable(why)) => Err(FleetError::NotAvailable(why)),
            Err(NoJudgement::Failed(why)) => {
                self.tell_failure(key, &why)?;
                observer(WorkerEvent::Failed { key, why: &why });
                remove(&path)
            }
        }
    }

    /// What goes back to the run.
    fn result(&self, job: &Job, judgement: &Judgement) -> Result<JobResult, NoJudgement> {
        let why = "what it found is no result without the names of this machine in it";
        let result = JobResult::of(job, judgement).scrubbed(&self.scrubber);
        result.ok_or_else(|| NoJudgement::Failed(why.to_owned()))
    }

    /// Puts a file aside that is no job, so that a person can look at it.
    fn refuse(
        &self,
        key: &str,
        why: &str,
        observer: &dyn Fn(WorkerEvent<'_>),
    ) -> Result<(), FleetError> {
        self.tell_failure(key, why)?;
        observer(WorkerEvent::Failed { key, why });
        let (from, to) = (self.layout.job(key), self.layout.bad_job(key));
        std::fs::rename(&from, &to).map_err(|error| FleetError::io(&from, error))
    }

    fn tell_failure(&self, key: &str, why: &str) -> Result<(), FleetError> {
        let path = self.layout.failure(key);
        let failure = JobFailure::new(capped(&self.scrubber.scrub(why), MESSAGE_BYTES_MAX));
        let bytes = serde_json::to_vec(&failure).map_err(|error| FleetError::io(&path, error))?;
        write_whole(&path, &bytes)
    }

    fn judge(
        &mut self,
        job: &Arc<Job>,
        wanted: &Conditions,
        cancel: &CancelFlag,
    ) -> Result<Judgement, NoJudgement> {
        self.check_conditions(wanted).map_err(NoJudgement::Failed)?;
        let mut last = NoJudgement::Failed(String::new());
        for _ in 0..TRIES_MAX {
            match self.judge_once(job, cancel) {
                Ok(judgement) => {
                    let required = wanted.required_confinement;
                    let held = level_of_judging(&judgement.report.held);
                    return match judgement.report.was_held_at(required) {
                        true => Ok(judgement),
                        false => Err(NoJudgement::Failed(confined(required, held.unwrap_or(0)))),
                    };
                }
                Err(JudgeError::Cancelled) => return Err(NoJudgement::Cancelled),
                Err(JudgeError::NotAvailable(why)) => last = NoJudgement::NotAvailable(why),
                Err(error) => last = NoJudgement::Failed(error.to_string()),
            }
        }
        Err(last)
    }

    fn judge_once(&mut self, job: &Arc<Job>, cancel: &CancelFlag) -> Result<Judgement, JudgeError> {
        if !self.proven.contains(&job.task.hash) {
            let report = self.judge.check_golden(&job.task, cancel)?;
            if !report.deviations.is_empty() {
                let count = report.deviations.len();
                let why = format!("{count} of {} golden values differ", report.compared);
                return Err(JudgeError::Reference { task: job.task.spec.name.clone(), why });
            }
            self.proven.insert(job.task.hash.clone());
        }
        let ticket = self.judge.submit(job)?;
        loop {
            match self.judge.poll(&ticket, cancel)? {
                JobPoll::Done(judgement) => return Ok(*judgement),
                JobPoll::Pending { next_poll_ms } => {
                    std::thread::sleep(Duration::from_millis(next_poll_ms));
                }
            }
        }
    }

    /// A verdict of another judge, compiler or device would not be the one that was asked for.
    fn check_conditions(&self, wanted: &Conditions) -> Result<(), String> {
        let config = self.judge.config();
        let (judge_hash, device) = (judge_hash(), &config.device);
        let here = [judge_hash.as_str(), &config.toolchain_id, &device.model, &device.arch];
        let there =
            [&wanted.judge_hash, &wanted.toolchain_id, &wanted.device.model, &wanted.device.arch];
        for (what, (here, there)) in
            ["judge", "CUDA compiler", "device", "architecture"].iter().zip(here.iter().zip(there))
        {
            if *here != there.as_str() {
                return Err(format!(
                    "the run wants the {what} {there}, this worker has {here}: use the same \
                     version of warpwright and the same settings on both sides"
                ));
            }
        }
        let (required, reached) = (wanted.required_confinement, config.confinement.level_max);
        if reached < required {
            return Err(confined(required, reached));
        }
        if wanted.device != *device {
            return Err("the run knows other facts about this device".to_owned());
        }
        Ok(())
    }
}
