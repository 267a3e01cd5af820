//! How an attempt moves from one durable state to the next.
//!
//! Each function performs one step and stores its result before anything uses it. A step that was
//! interrupted is simply performed again, except a call: see `calls`.

use std::sync::Arc;
use std::time::Duration;

use judge::{Build, Job, JobPoll, JobStage, JudgeError, Judgement};
use llm::Llm;
use pipeline::attempt::State;
use pipeline::candidate::{Candidate, danger_key, eval_key};
use pipeline::digest::Digest;
use pipeline::next_step::SearchEnd;
use pipeline::reply;
use pipeline::report::{Report, Stage};
use pipeline::verdict::Verdict;
use store::{AttemptRow, BuildRow, CandidateRow, NewBuild, NewCandidate, NewJudgement};

use crate::card_time::stage_of;
use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;

/// What a step led to.
pub(crate) enum Advanced {
    To(Box<AttemptRow>),
    /// The attempt waits for a person, and the search of its task ends.
    Parked {
        end: SearchEnd,
        why: String,
    },
    Stopped(RunEnd),
}

/// A verdict that needs no run: the same program was judged before, or is known to be dangerous.
struct Known {
    verdict: Verdict,
    report: Option<Report>,
}

impl<L: Llm + Sync> Engine<L> {
    /// Performs the next step of an attempt.
    pub(crate) async fn advance(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        match attempt.state {
            State::Asked => return self.send(attempt).await,
            State::Sent => return self.receive(attempt).await,
            State::Replied => self.parse(&attempt).await?,
            State::Parsed => {
                let _right = self.pools.build().await;
                if !self.has_memory(&attempt.run_id).await? {
                    return Ok(Advanced::Stopped(RunEnd::Interrupted));
                }
                self.build(&attempt).await?;
            }
            State::Built => {
                let _right = self.pools.judging().await;
                if !self.has_memory(&attempt.run_id).await? {
                    return Ok(Advanced::Stopped(RunEnd::Interrupted));
                }
                self.judge(&attempt).await?;
            }
            State::Judged => {
                let _right = self.pools.judging().await;
                if !self.has_memory(&attempt.run_id).await? {
                    return Ok(Advanced::Stopped(RunEnd::Interrupted));
                }
                self.promote_and_close(&attempt).await?;
            }
            State::Closed => {}
        }
        self.reread(&attempt).await
    }

    pub(crate) async fn reread(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        Ok(Advanced::To(Box::new(self.store.attempt_again(attempt).await?)))
    }

    async fn parse(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let reply = attempt.reply.as_ref().ok_or_else(|| incomplete(attempt, "reply"))?;
        match reply::candidate(&reply.text, &self.operator(attempt)?.task.signature()) {
            Err(malformed) => {
                let verdict = reply::explained(&malformed, &reply.text, &reply.finish_reason);
                self.store.close_attempt(&attempt.id, &verdict).await?;
            }
            Ok(candidate) => {
                let variant = candidate.default_variant();
                let new = NewCandidate {
                    id: &variant.candidate_id,
                    source: &candidate.source,
                    plan_text: &candidate.plan_text,
                    tunables: &variant.tunables,
                };
                self.store.record_parsed(&attempt.id, &new).await?;
            }
        }
        Ok(())
    }

    async fn build(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let (row, candidate) = self.candidate_of(attempt)?;
        let tunables = row.tunables.clone();
        let task = Arc::clone(&self.operator(attempt)?.task);
        let (judge, cancel) = (Arc::clone(&self.judge), self.interrupt.cancel_flag());
        let build = blocking(move || judge.build(&task, &candidate, &tunables, &cancel)).await?;
        let compiled = build.facts.is_some();
        let new = NewBuild {
            id: &build.id,
            facts: build.facts.as_ref(),
            diagnostics: &build.diagnostics,
            log: &build.log,
            ptx: compiled.then_some(build.ptx.as_slice()),
            cubin: compiled.then_some(build.cubin.as_slice()),
            verdict: build.verdict.as_ref(),
            held: build.held.as_ref(),
        };
        Ok(self.store.record_built(&attempt.id, &new).await?)
    }

    async fn judge(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let (row, candidate) = self.candidate_of(attempt)?;
        let built = attempt.build.as_ref().ok_or_else(|| incomplete(attempt, "build"))?;
        if let Some(verdict) = &built.verdict {
            return Ok(self.store.close_attempt(&attempt.id, verdict).await?);
        }
        let facts = built.facts.as_ref().ok_or_else(|| incomplete(attempt, "build facts"))?;
        let launch_hash = candidate.plan.launch_hash(&row.tunables);
        let device = &self.judge.config().device;
        let task_hash = &attempt.task_hash;
        let danger = danger_key(&facts.ptx_hash, &launch_hash, task_hash, &device.arch);
        let key = eval_key(
            &facts.ptx_hash,
            &candidate.plan.verdict_hash(&row.tunables),
            task_hash,
            &device.model,
            judge::judge_hash().as_str(),
        );
        // Until its verdict is stored, nobody else runs the same program.
        let _turn = self.in_flight.turn(&danger).await;
        if let Some(known) = self.known(&danger, &key).await? {
            let (verdict, report) = (&known.verdict, known.report.as_ref());
            let new = judgement(Some(&key), verdict, report, true);
            return Ok(self.store.record_judged(&attempt.id, &new).await?);
        }
        let found = self.evaluate(attempt, &key, row, candidate, built).await?;
        // What depended on how busy this machine was is remembered under no key.
        let key = found.repeatable.then_some(&key);
        let mut new = judgement(key, &found.verdict, Some(&found.report), false);
        new.danger = (found.repeatable && found.verdict.is_dangerous()).then_some(&danger);
        Ok(self.store.record_judged(&attempt.id, &new).await?)
    }

    async fn known(&self, danger: &Digest, key: &Digest) -> Result<Option<Known>, AgentError> {
        let toolchain_id = &self.judge.config().toolchain_id;
        let before = self.store.verdict_of_eval_key(key, toolchain_id).await?;
        if let Some((verdict, report)) = before.filter(|(_, report)| self.is_enough(report)) {
            return Ok(Some(Known { verdict, report: Some(report) }));
        }
        let Some(row) = self.store.danger(danger).await? else { return Ok(None) };
        let detail = format!("known from before, not run again: {}", row.verdict.detail);
        Ok(Some(Known { verdict: Verdict { detail, ..row.verdict }, report: row.report }))
    }

    /// Whether a verdict from before was found under the confinement that is required now.
    pub(crate) fn is_enough(&self, report: &Report) -> bool {
        report.was_held_at(self.judge.config().confinement.level_required)
    }

    async fn evaluate(
        &self,
        attempt: &AttemptRow,
        eval_key: &Digest,
        row: &CandidateRow,
        candidate: Candidate,
        built: &BuildRow,
    ) -> Result<Judgement, AgentError> {
        let operator = self.operator(attempt)?;
        let job = Job {
            id: attempt.id.to_string(),
            stage: JobStage::Search,
            eval_key: eval_key.clone(),
            task: Arc::clone(&operator.task),
            task_files: Arc::clone(&operator.files),
            candidate,
            tunables: row.tunables.clone(),
            build: restored(built).ok_or_else(|| incomplete(attempt, "PTX or cubin"))?,
            seed: self.seed,
            index: u64::from(attempt.ask.seq - 1),
        };
        self.judgement_of(attempt, job).await
    }

    /// Hands a job to the evaluator and waits for what it says; the time that it may hold a card is
    /// reserved before and booked after.
    pub(crate) async fn judgement_of(
        &self,
        attempt: &AttemptRow,
        job: Job,
    ) -> Result<Judgement, AgentError> {
        let held = self.hold_card(attempt, stage_of(&job.stage)).await?;
        let judged = self.evaluated(attempt, job).await;
        let released = self.release_card(held, &judged).await;
        let judgement = judged?;
        released?;
        Ok(judgement)
    }

    async fn evaluated(&self, attempt: &AttemptRow, job: Job) -> Result<Judgement, AgentError> {
        let (operator, job) = (self.operator(attempt)?, Arc::new(job));
        let evaluator = Arc::clone(&self.evaluator);
        let ticket = blocking(move || evaluator.submit(&job)).await?;
        loop {
            let (evaluator, ticket) = (Arc::clone(&self.evaluator), ticket.clone());
            let cancel = self.interrupt.cancel_flag();
            match blocking(move || evaluator.poll(&ticket, &cancel)).await? {
                JobPoll::Done(judgement) => return Ok(*judgement),
                JobPoll::Pending { next_poll_ms } => {
                    let task = &operator.task.spec.name;
                    (self.observer)(Progress::Elsewhere { task, seq: attempt.ask.seq });
                    self.wait_for_evaluator(next_poll_ms).await?;
                }
            }
        }
    }

    /// A job that waits elsewhere is found again after a restart, so one request ends the wait.
    async fn wait_for_evaluator(&self, wait_ms: u64) -> Result<(), AgentError> {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => Ok(()),
            () = self.interrupt.requested() => Err(JudgeError::Cancelled.into()),
        }
    }

    /// The stored candidate, parsed again: parsing is pure, so it gives what it gave before.
    pub(crate) fn candidate_of<'a>(
        &self,
        attempt: &'a AttemptRow,
    ) -> Result<(&'a CandidateRow, Candidate), AgentError> {
        let row = attempt.candidate.as_ref().ok_or_else(|| incomplete(attempt, "candidate"))?;
        let parsed = reply::candidate_of_parts(
            &row.source,
            &row.plan_text,
            &self.operator(attempt)?.task.signature(),
        );
        Ok((row, parsed.map_err(|_| incomplete(attempt, "plan"))?))
    }
}

/// A compile as it came from the judge; `None` when it lacks what it must have to run.
pub(crate) fn restored(built: &BuildRow) -> Option<Build> {
    Some(Build {
        id: built.id.clone(),
        facts: built.facts.clone(),
        diagnostics: built.diagnostics.clone(),
        log: built.log.clone(),
        ptx: built.ptx.clone()?,
        cubin: built.cubin.clone()?,
        verdict: built.verdict.clone(),
        held: built.held.clone(),
    })
}

fn judgement<'a>(
    eval_key: Option<&'a Digest>,
    verdict: &'a Verdict,
    report: Option<&'a Report>,
    from_cache: bool,
) -> NewJudgement<'a> {
    NewJudgement { stage: Stage::Search, eval_key, verdict, report, from_cache, danger: None }
}

pub(crate) fn incomplete(attempt: &AttemptRow, what: &'static str) -> AgentError {
    AgentError::Incomplete { seq: attempt.ask.seq, what }
}

/// Runs synchronous work of the judge off the event loop.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JudgeError> + Send + 'static,
) -> Result<T, AgentError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(AgentError::Worker(error.to_string())),
    }
}
