//! The paid part of an attempt: ask, wait, and book what became of it.
//!
//! A call is stored as `sent` before it is submitted, so that whatever the provider may charge for
//! is in the ledger first. What a dead process left as `sent` is submitted or polled again where
//! that costs nothing, and otherwise booked as lost before the question is asked anew.

use std::sync::{Mutex, MutexGuard, PoisonError};

use llm::{Llm, LlmError, ModelInfo, Reply, Request, Ticket, submit_within, wait_for};
use pipeline::prompt::Prompt;
use pipeline::transcript::Usage;
use store::{AttemptRow, Boundary, CallRow, CallState, CallTarget, Reservation, SettledReply};

use crate::advance::Advanced;
use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;
use crate::limits::{CALL_DEADLINE_MS, CALLS_PER_ATTEMPT_MAX, OUTPUT_TOKENS_MAX, RETRY_DELAY};

/// Class of a call whose process ended before its reply was stored.
const ABANDONED: &str = "abandoned";
/// Class of a call that was reserved for a model that this run no longer asks.
const OTHER_MODEL: &str = "other_model";

impl<L: Llm + Sync> Engine<L> {
    /// The most that a call can cost.
    pub(crate) fn reservation(&self, prompt: &Prompt) -> Reservation {
        let worst =
            Usage { input_tokens: prompt.input_tokens_bound(), output_tokens: OUTPUT_TOKENS_MAX };
        Reservation {
            tokens: worst.input_tokens + worst.output_tokens,
            nusd: self.llm.describe().price.cost_nusd(worst),
        }
    }

    /// Stores that the question may leave this program, then submits it.
    pub(crate) async fn send(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        if attempt.call.state != CallState::Reserved {
            return self.reopen(&attempt).await;
        }
        if !is_for(&attempt.call, &self.llm.describe()) {
            let why = "the run goes on with another model";
            self.store.fail_call(&attempt.id, OTHER_MODEL, why).await?;
            return self.reopen(&attempt).await;
        }
        self.store.mark_sent(&attempt.id).await?;
        self.submit(&attempt).await
    }

    async fn submit(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let request = Request {
            id: attempt.call.id.to_string(),
            task: self.task.spec.name.clone(),
            seq: attempt.ask.seq,
            try_index: attempt.call.try_index,
            prompt: attempt.prompt.clone(),
            output_tokens_max: OUTPUT_TOKENS_MAX,
        };
        let submitted = tokio::select! {
            submitted = submit_within(&self.llm, &request, CALL_DEADLINE_MS) => submitted,
            () = self.interrupt.at_once() => return Ok(Advanced::Stopped(RunEnd::Interrupted)),
        };
        match submitted {
            Ok(ticket) => {
                self.store.passed(Boundary::Submitted, attempt.ask.seq);
                self.store.put_ticket(&attempt.id, ticket.as_str()).await?;
                lock(&self.sent_here).insert(attempt.call.id.clone());
                self.reread(attempt).await
            }
            Err(error) => self.failed_call(attempt, &error).await,
        }
    }

    /// Waits for the reply to a question that was sent, here or by a process that died.
    pub(crate) async fn receive(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        let info = self.llm.describe();
        let ours = lock(&self.sent_here).contains(&attempt.call.id);
        let safe_again = info.idempotent && is_for(&attempt.call, &info);
        if !(ours || safe_again) {
            let why = "the process that sent it ended before the reply was stored";
            self.store.mark_lost(&attempt.id, ABANDONED, why).await?;
            return self.reread(&attempt).await;
        }
        let Some(ticket) = attempt.call.ticket.clone().map(Ticket::from) else {
            return self.submit(&attempt).await;
        };
        let received = tokio::select! {
            received = wait_for(&self.llm, &ticket, CALL_DEADLINE_MS) => received,
            () = self.interrupt.at_once() => return Ok(Advanced::Stopped(RunEnd::Interrupted)),
        };
        match received {
            Ok(reply) => {
                self.store.settle_reply(&attempt.id, &settled(reply)).await?;
                self.reread(&attempt).await
            }
            Err(error) => self.failed_call(&attempt, &error).await,
        }
    }

    /// Books the failure of a call that was sent; the run goes on when another try may help.
    async fn failed_call(
        &self,
        attempt: &AttemptRow,
        error: &LlmError,
    ) -> Result<Advanced, AgentError> {
        let (class, message) = (error.class().name(), error.to_string());
        // A provider that has the question may go on answering it whatever a poll says.
        let submitted = attempt.call.ticket.is_some() && !self.llm.describe().idempotent;
        if submitted || error.may_have_cost() {
            self.store.mark_lost(&attempt.id, class, &message).await?;
        } else {
            self.store.fail_call(&attempt.id, class, &message).await?;
        }
        let tries = attempt.call.try_index + 1;
        if !error.is_retryable() || tries >= CALLS_PER_ATTEMPT_MAX {
            let class = class.to_owned();
            return Ok(Advanced::Stopped(RunEnd::Provider { class, message }));
        }
        (self.observer)(Progress::Retrying { seq: attempt.ask.seq, why: &message });
        let delay = RETRY_DELAY * 2u32.saturating_pow(attempt.call.try_index);
        tokio::select! {
            () = tokio::time::sleep(delay) => self.reopen(attempt).await,
            () = self.interrupt.requested() => Ok(Advanced::Stopped(RunEnd::Interrupted)),
        }
    }

    /// Reserves the next try.
    async fn reopen(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let info = self.llm.describe();
        let target = CallTarget { provider: &info.provider, model: &info.model };
        let reservation = self.reservation(&attempt.prompt);
        let attempt = self.store.reopen_call(&attempt.id, reservation, target).await?;
        Ok(Advanced::To(Box::new(attempt)))
    }
}

/// True when a call was reserved for this model: at its price, with its tickets.
fn is_for(call: &CallRow, info: &ModelInfo) -> bool {
    (call.provider.as_str(), call.model.as_str()) == (info.provider.as_str(), info.model.as_str())
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

/// A poisoned lock only means that another task panicked while it held a plain set.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
