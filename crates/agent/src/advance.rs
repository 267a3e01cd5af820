//! How an attempt moves from one durable state to the next.
//!
//! Each function performs one step and stores its result before anything uses it. A step that was
//! interrupted is simply performed again, except a call: what was sent is never sent twice blindly.

use std::sync::Arc;

use judge::{Build, Evaluation, JudgeError, Judgement};
use llm::{Llm, LlmError, Reply, Request, Ticket, wait_for};
use pipeline::attempt::State;
use pipeline::candidate::{Candidate, danger_key, eval_key};
use pipeline::digest::Digest;
use pipeline::prompt::Prompt;
use pipeline::reply;
use pipeline::transcript::Usage;
use pipeline::verdict::Verdict;
use store::{
    AttemptRow, BuildRow, CallState, CallTarget, CandidateRow, NewBuild, NewCandidate,
    NewJudgement, Reservation, SettledReply,
};

use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;
use crate::limits::{CALL_DEADLINE_MS, CALLS_PER_ATTEMPT_MAX, OUTPUT_TOKENS_MAX, RETRY_DELAY};

/// What a step led to.
pub(crate) enum Advanced {
    To(Box<AttemptRow>),
    Stopped(RunEnd),
}

/// A verdict that needs no run: the same program was judged before, or is known to be dangerous.
struct Known {
    verdict: Verdict,
    report: Option<pipeline::report::Report>,
}

impl<L: Llm + Sync> Engine<L> {
    /// Performs the next step of an attempt.
    pub(crate) async fn advance(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        match attempt.state {
            State::Asked => return self.send(attempt).await,
            State::Sent => return self.receive(attempt).await,
            State::Replied => self.parse(&attempt).await?,
            State::Parsed => self.build(&attempt).await?,
            State::Built => self.judge(&attempt).await?,
            State::Judged => self.close(&attempt).await?,
            State::Closed => {}
        }
        self.reread(&attempt).await
    }

    /// The most that a call can cost.
    pub(crate) fn reservation(&self, prompt: &Prompt) -> Reservation {
        let worst =
            Usage { input_tokens: prompt.input_tokens_bound(), output_tokens: OUTPUT_TOKENS_MAX };
        Reservation {
            tokens: worst.input_tokens + worst.output_tokens,
            nusd: self.llm.describe().price.cost_nusd(worst),
        }
    }

    async fn reread(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        Ok(Advanced::To(Box::new(self.store.attempt(&attempt.id).await?)))
    }

    async fn send(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        if attempt.call.state != CallState::Reserved {
            return self.reopen(&attempt).await;
        }
        let request = Request {
            id: attempt.call.id.to_string(),
            task: self.task.spec.name.clone(),
            seq: attempt.ask.seq,
            try_index: attempt.call.try_index,
            prompt: attempt.prompt.clone(),
            output_tokens_max: OUTPUT_TOKENS_MAX,
        };
        match self.llm.submit(&request).await {
            Ok(ticket) => {
                self.store.mark_sent(&attempt.id, ticket.as_str()).await?;
                lock(&self.sent_here).insert(attempt.call.id.clone());
                self.reread(&attempt).await
            }
            Err(error) => self.failed_call(&attempt, &error).await,
        }
    }

    async fn receive(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        let ours = lock(&self.sent_here).contains(&attempt.call.id);
        let Some(ticket) = attempt.call.ticket.as_deref() else {
            return Err(incomplete(&attempt, "ticket"));
        };
        if !ours && !self.llm.describe().idempotent {
            self.store.mark_lost(&attempt.id).await?;
            return self.reread(&attempt).await;
        }
        match wait_for(&self.llm, &Ticket::from(ticket.to_owned()), CALL_DEADLINE_MS).await {
            Ok(reply) => {
                self.store.settle_reply(&attempt.id, &settled(reply)).await?;
                self.reread(&attempt).await
            }
            Err(error) => self.failed_call(&attempt, &error).await,
        }
    }

    /// Books a failed call; the run goes on when another try may help.
    async fn failed_call(
        &self,
        attempt: &AttemptRow,
        error: &LlmError,
    ) -> Result<Advanced, AgentError> {
        let (class, message) = (error.class(), error.to_string());
        if error.may_have_cost() && attempt.state == State::Sent {
            self.store.mark_lost(&attempt.id).await?;
        } else {
            self.store.fail_call(&attempt.id, class.name(), &message).await?;
        }
        let tries = attempt.call.try_index + 1;
        if !error.is_retryable() || tries >= CALLS_PER_ATTEMPT_MAX {
            let class = class.name().to_owned();
            return Ok(Advanced::Stopped(RunEnd::Provider { class, message }));
        }
        (self.observer)(Progress::Retrying { seq: attempt.ask.seq, why: &message });
        tokio::time::sleep(RETRY_DELAY * 2u32.saturating_pow(attempt.call.try_index)).await;
        self.reopen(attempt).await
    }

    async fn reopen(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let info = self.llm.describe();
        let target = CallTarget { provider: &info.provider, model: &info.model };
        let reservation = self.reservation(&attempt.prompt);
        let attempt = self.store.reopen_call(&attempt.id, reservation, target).await?;
        Ok(Advanced::To(Box::new(attempt)))
    }

    async fn parse(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let reply = attempt.reply.as_ref().ok_or_else(|| incomplete(attempt, "reply"))?;
        match reply::candidate(&reply.text, &self.task.signature()) {
            Err(malformed) => self.store.close_attempt(&attempt.id, &malformed.verdict()).await?,
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
        let (judge, task) = (Arc::clone(&self.judge), Arc::clone(&self.task));
        let cancel = self.interrupt.cancel_flag();
        let build = blocking(move || judge.build(&task, &candidate, &tunables, &cancel)).await?;
        let ptx = String::from_utf8_lossy(&build.ptx);
        let compiled = build.facts.is_some();
        let new = NewBuild {
            id: &build.id,
            facts: build.facts.as_ref(),
            diagnostics: &build.diagnostics,
            log: &build.log,
            ptx: compiled.then_some(ptx.as_ref()),
            cubin: compiled.then_some(build.cubin.as_slice()),
            verdict: build.verdict.as_ref(),
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
        let danger = danger_key(&facts.ptx_hash, &launch_hash, &device.arch);
        let key = eval_key(
            &facts.ptx_hash,
            &launch_hash,
            &self.task.hash,
            &device.model,
            judge::judge_hash().as_str(),
        );
        if let Some(known) = self.known(&danger, &key).await? {
            return self.record(attempt, &key, &known.verdict, known.report.as_ref(), true).await;
        }
        let judgement = self.evaluate(attempt, row, candidate, built).await?;
        if judgement.verdict.is_dangerous() {
            let what = format!("{}: {}", judgement.verdict, judgement.verdict.detail);
            self.store.put_danger(&danger, &what).await?;
        }
        self.record(attempt, &key, &judgement.verdict, Some(&judgement.report), false).await
    }

    async fn known(&self, danger: &Digest, key: &Digest) -> Result<Option<Known>, AgentError> {
        if let Some((verdict, report)) = self.store.verdict_of_eval_key(key).await? {
            return Ok(Some(Known { verdict, report: Some(report) }));
        }
        let Some(row) = self.store.danger(danger).await? else { return Ok(None) };
        let detail =
            format!("the same program did harm before and was not run again: {}", row.what);
        let reason = if row.what.starts_with("Hung") {
            pipeline::verdict::Reason::Timeout
        } else {
            pipeline::verdict::Reason::Crash
        };
        Ok(Some(Known { verdict: Verdict::failed(reason, detail), report: None }))
    }

    async fn evaluate(
        &self,
        attempt: &AttemptRow,
        row: &CandidateRow,
        candidate: Candidate,
        built: &BuildRow,
    ) -> Result<Judgement, AgentError> {
        let build = restored(built);
        let tunables = row.tunables.clone();
        let (judge, task) = (Arc::clone(&self.judge), Arc::clone(&self.task));
        let (seed, index) = (self.seed, u64::from(attempt.ask.seq - 1));
        let cancel = self.interrupt.cancel_flag();
        blocking(move || {
            let evaluation = Evaluation {
                task: &task,
                candidate: &candidate,
                tunables: &tunables,
                build: &build,
                seed: &seed,
                index,
            };
            judge.evaluate(&evaluation, &cancel)
        })
        .await
    }

    async fn record(
        &self,
        attempt: &AttemptRow,
        key: &Digest,
        verdict: &Verdict,
        report: Option<&pipeline::report::Report>,
        from_cache: bool,
    ) -> Result<(), AgentError> {
        let stage = pipeline::report::Stage::Search;
        let new = NewJudgement { stage, eval_key: Some(key), verdict, report, from_cache };
        Ok(self.store.record_judged(&attempt.id, &new).await?)
    }

    async fn close(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let judgement =
            attempt.judgement.as_ref().ok_or_else(|| incomplete(attempt, "judgement"))?;
        Ok(self.store.close_attempt(&attempt.id, &judgement.verdict).await?)
    }

    /// The stored candidate, parsed again: parsing is pure, so it gives what it gave before.
    fn candidate_of<'a>(
        &self,
        attempt: &'a AttemptRow,
    ) -> Result<(&'a CandidateRow, Candidate), AgentError> {
        let row = attempt.candidate.as_ref().ok_or_else(|| incomplete(attempt, "candidate"))?;
        let parsed = reply::candidate_of_parts(&row.source, &row.plan_text, &self.task.signature());
        Ok((row, parsed.map_err(|_| incomplete(attempt, "plan"))?))
    }
}

fn restored(built: &BuildRow) -> Build {
    Build {
        id: built.id.clone(),
        facts: built.facts.clone(),
        diagnostics: built.diagnostics.clone(),
        log: built.log.clone(),
        ptx: built.ptx.clone().unwrap_or_default().into_bytes(),
        cubin: built.cubin.clone().unwrap_or_default(),
        verdict: built.verdict.clone(),
    }
}

fn settled(reply: Reply) -> SettledReply {
    SettledReply {
        text: reply.text,
        usage: reply.usage,
        finish_reason: reply.finish_reason,
        model: reply.model,
        latency_ms: reply.latency_ms,
        cost_nusd: reply.cost_nusd,
        drift: reply.drift,
    }
}

fn incomplete(attempt: &AttemptRow, what: &'static str) -> AgentError {
    AgentError::Incomplete { seq: attempt.ask.seq, what }
}

/// A poisoned lock only means that another task panicked while it held a plain set.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs synchronous work of the judge off the event loop.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, JudgeError> + Send + 'static,
) -> Result<T, AgentError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => Ok(result?),
        Err(error) => Err(AgentError::Worker(error.to_string())),
    }
}
