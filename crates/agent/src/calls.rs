//! The paid part of an attempt: ask, wait, and book what became of it.
//!
//! A call is stored as `sent` before it is submitted, so that whatever the provider may charge for
//! is in the ledger first. What a dead process left as `sent` is submitted or polled again where
//! that costs nothing, and otherwise booked as lost before the question is asked anew.

use std::time::Duration;

use llm::{Charge, Llm, LlmError, ModelInfo, Reply, Request, Ticket, submit_within, wait_for};
use pipeline::budget::{CallWish, Spent};
use pipeline::next_step::StopReason;
use pipeline::prompt::Prompt;
use pipeline::transcript::Usage;
use store::{
    AttemptRow, Booking, Boundary, CallFailure, CallRow, CallState, CallTarget, Reservation, RunId,
    SettledReply,
};

use crate::advance::Advanced;
use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;
use crate::limits::{DEADLINE_GRACE_MS, SUBMIT_DEADLINE_MS};
use crate::retry::wait_before_retry_ms;

/// Class of a call whose process ended before its reply was stored.
const ABANDONED: &str = "abandoned";
/// Class of a provider that answers more than it was allowed to.
const CAP_IGNORED: &str = "cap_ignored";

impl<L: Llm + Sync> Engine<L> {
    /// The most that a call can cost, if that fits into what is left of the run's budget once
    /// `released` is given back.
    pub(crate) async fn reserve(
        &self,
        run: &RunId,
        model: &ModelInfo,
        prompt: &Prompt,
        released: Reservation,
    ) -> Result<Result<Reservation, StopReason>, AgentError> {
        // Without a cap nothing is counted: a run of many thousand calls need not sum them up.
        let capped = self.budget.tokens_max.is_some() || self.budget.nusd_max.is_some();
        let booked = match capped {
            true => self.store.bookings(run).await?.total(),
            false => Booking::default(),
        };
        let now_us = self.store.now_us();
        let spent = Spent {
            tokens: booked.tokens.saturating_sub(released.tokens),
            nusd: booked.nusd.saturating_sub(released.nusd),
            now_us,
        };
        let wish = CallWish {
            input_tokens: prompt.input_tokens_bound(),
            output_tokens: model.output_tokens_max,
            price: model.price,
        };
        let worst = self.budget_now(run).await?.admit(&spent, &wish);
        Ok(worst.map(|worst| Reservation { tokens: worst.tokens, nusd: worst.nusd }))
    }

    /// Stores that the question may leave this program, then submits it.
    pub(crate) async fn send(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        if attempt.call.state != CallState::Reserved {
            return self.reopen(&attempt).await;
        }
        // What another process reserved was reserved under its caps, its prices and its models.
        if !self.here.has_reserved(&attempt.call.id) {
            return self.renew(&attempt).await;
        }
        self.store.mark_sent(&attempt.id).await?;
        self.submit(&attempt).await
    }

    async fn submit(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let model = self.model(attempt.ask.seq);
        let request = Request {
            id: attempt.call.id.to_string(),
            task: self.operator(attempt)?.task.spec.name.clone(),
            seq: attempt.ask.seq,
            try_index: attempt.call.try_index,
            prompt: attempt.prompt.clone(),
            output_tokens_max: output_tokens_max(attempt),
            deadline_ms: self.info(attempt).deadline_ms,
            provider: attempt.call.provider.clone(),
        };
        let submitted = tokio::select! {
            submitted = submit_within(model, &request, SUBMIT_DEADLINE_MS) => submitted,
            () = self.interrupt.at_once() => return Ok(Advanced::Stopped(RunEnd::Interrupted)),
        };
        match submitted {
            Ok(ticket) => {
                self.store.passed(Boundary::Submitted, attempt.ask.seq);
                self.store.put_ticket(&attempt.id, ticket.as_str()).await?;
                self.here.note_sent(&attempt.call.id);
                self.reread(attempt).await
            }
            Err(error) => self.failed_call(attempt, &error).await,
        }
    }

    /// Waits for the reply to a question that was sent, here or by a process that died.
    pub(crate) async fn receive(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        let model = self.model(attempt.ask.seq);
        let info = self.info(&attempt);
        let ours = self.here.has_sent(&attempt.call.id);
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
            biased;
            received = wait_for(model, &ticket, waited_ms(&info)) => received,
            () = self.may_stop_waiting(&info) => {
                return Ok(Advanced::Stopped(RunEnd::Interrupted));
            }
        };
        match received {
            Ok(reply) => self.settle(&attempt, reply).await,
            Err(error) => self.failed_call(&attempt, &error).await,
        }
    }

    /// Returns when a wait for a reply may end: at the first request where the reply can still be
    /// fetched after a restart, otherwise at the second.
    async fn may_stop_waiting(&self, info: &ModelInfo) {
        if info.idempotent && info.deadline_ms.is_none() {
            self.interrupt.requested().await;
        } else {
            self.interrupt.at_once().await;
        }
    }

    async fn settle(&self, attempt: &AttemptRow, reply: Reply) -> Result<Advanced, AgentError> {
        self.here.note_reply();
        let broken = broken_bound(attempt, reply.usage, reply.cost_nusd);
        self.store.settle_reply(&attempt.id, &settled(reply, attempt.call.reservation)).await?;
        match self.end_of_caps(broken) {
            Some(end) => Ok(Advanced::Stopped(end)),
            None => self.reread(attempt).await,
        }
    }

    /// The end of a run whose caps cannot be kept, because a call broke the bound that was
    /// reserved for it.
    fn end_of_caps(&self, broken: Option<String>) -> Option<RunEnd> {
        let capped = self.budget.tokens_max.is_some() || self.budget.nusd_max.is_some();
        let what = broken.filter(|_| capped)?;
        let message = format!(
            "{what}, so that no cap can be kept; mend the price, use another model, or run without \
             token and dollar limits"
        );
        Some(RunEnd::Provider { class: CAP_IGNORED.to_owned(), message })
    }

    /// Books the failure of a call that was sent; the run goes on when another try may help.
    async fn failed_call(
        &self,
        attempt: &AttemptRow,
        error: &LlmError,
    ) -> Result<Advanced, AgentError> {
        let message = error.to_string();
        self.book_failure(attempt, error, &message).await?;
        let broken = match error.charge() {
            Charge::Known { usage, cost_nusd } => broken_bound(attempt, Some(usage), cost_nusd),
            Charge::Nothing | Charge::Unknown => None,
        };
        if let Some(end) = self.end_of_caps(broken) {
            return Ok(Advanced::Stopped(end));
        }
        if self.falls_back(attempt, error) {
            return self.reopen(attempt).await;
        }
        let failures = self.here.note_failure(error);
        let jitter = attempt.call.id.as_str().bytes().fold(0, u8::wrapping_add);
        let Some(wait_ms) = wait_before_retry_ms(error, failures, jitter) else {
            let class = error.class().name().to_owned();
            return Ok(Advanced::Stopped(RunEnd::Provider { class, message }));
        };
        let task = &self.operator(attempt)?.task.spec.name;
        let seq = attempt.ask.seq;
        (self.observer)(Progress::Retrying { task, seq, why: &message, wait_ms });
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(wait_ms)) => self.reopen(attempt).await,
            () = self.interrupt.requested() => Ok(Advanced::Stopped(RunEnd::Interrupted)),
        }
    }

    /// True where another lane of the model answers the next try: that is no failure of a provider,
    /// and all requests of a batch have it at once.
    fn falls_back(&self, attempt: &AttemptRow, error: &LlmError) -> bool {
        let (model, lane) = (self.model(attempt.ask.seq), &attempt.call.provider);
        let next = model.describe_after(lane, Some(error.class().name())).provider;
        error.charge() == Charge::Nothing && next != model.describe_after(lane, None).provider
    }

    /// What answers the attempt's newest call, on the lane that it was reserved for.
    fn info(&self, attempt: &AttemptRow) -> ModelInfo {
        self.model(attempt.ask.seq).describe_after(&attempt.call.provider, None)
    }

    async fn book_failure(
        &self,
        attempt: &AttemptRow,
        error: &LlmError,
        message: &str,
    ) -> Result<(), AgentError> {
        let info = self.info(attempt);
        let class = error.class().name();
        let paid = match error.charge() {
            Charge::Unknown => {
                return Ok(self.store.mark_lost(&attempt.id, class, message).await?);
            }
            Charge::Known { usage, cost_nusd } => {
                Some((usage, cost_nusd.or_else(|| info.price.cost_nusd(usage))))
            }
            Charge::Nothing => None,
        };
        Ok(self.store.fail_call(&attempt.id, CallFailure { class, message, paid }).await?)
    }

    /// Reserves the next try.
    async fn reopen(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let failed = self.store.attempt(&attempt.id).await?.call;
        let class = failed.error.as_ref().map(|(class, _)| class.as_str());
        let info = self.model(attempt.ask.seq).describe_after(&failed.provider, class);
        let none = Reservation::default();
        let reserved = self.reserve(&attempt.run_id, &info, &attempt.prompt, none).await?;
        let reservation = match reserved {
            Ok(reservation) => reservation,
            Err(reason) => return Ok(Advanced::Stopped(RunEnd::Finished(reason))),
        };
        let price_json = price_json(&info);
        let target = target(&info, &price_json);
        let attempt = self.store.reopen_call(&attempt.id, reservation, target).await?;
        self.here.note_reserved(&attempt.call.id);
        Ok(Advanced::To(Box::new(attempt)))
    }

    /// Reserves a call of another process anew, under what holds now.
    async fn renew(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let info = self.info(attempt);
        let released = attempt.call.reservation;
        let reserved = self.reserve(&attempt.run_id, &info, &attempt.prompt, released).await?;
        let reservation = match reserved {
            Ok(reservation) => reservation,
            Err(reason) => return Ok(Advanced::Stopped(RunEnd::Finished(reason))),
        };
        let price_json = price_json(&info);
        let target = target(&info, &price_json);
        let attempt = self.store.renew_call(&attempt.id, reservation, target).await?;
        self.here.note_reserved(&attempt.call.id);
        Ok(Advanced::To(Box::new(attempt)))
    }
}

/// How long an answer is waited for: the model ends a call by itself at its deadline.
fn waited_ms(model: &ModelInfo) -> Option<u64> {
    model.deadline_ms.map(|deadline_ms| deadline_ms.saturating_add(DEADLINE_GRACE_MS))
}

/// How a call cost more than could be reserved for it, in words.
fn broken_bound(
    attempt: &AttemptRow,
    usage: Option<Usage>,
    cost_nusd: Option<i64>,
) -> Option<String> {
    let (allowed, reserved) = (output_tokens_max(attempt), attempt.call.reservation);
    if let Some(usage) = usage.filter(|usage| !usage.estimated) {
        let answered = usage.output_tokens;
        if answered > allowed {
            return Some(format!("it answered {answered} tokens where {allowed} were allowed"));
        }
        let counted = usage.input_tokens.saturating_add(answered);
        if counted > reserved.tokens {
            let bound = reserved.tokens;
            return Some(format!("it counted {counted} tokens where {bound} are the most"));
        }
    }
    let (cost_nusd, reserved_nusd) = (cost_nusd?, reserved.nusd);
    (cost_nusd > reserved_nusd).then(|| {
        format!("it charged {cost_nusd} nano-dollars where its price allows {reserved_nusd}")
    })
}

/// The output limit that was reserved: what is left of the reservation beside the prompt.
fn output_tokens_max(attempt: &AttemptRow) -> u64 {
    attempt.call.reservation.tokens.saturating_sub(attempt.prompt.input_tokens_bound())
}

/// The price as it is stored with each call.
pub(crate) fn price_json(model: &ModelInfo) -> String {
    serde_json::to_string(&model.price).unwrap_or_default()
}

pub(crate) fn target<'a>(model: &'a ModelInfo, price_json: &'a str) -> CallTarget<'a> {
    CallTarget { provider: &model.provider, model: &model.model, price_json }
}

/// True when a call went to this model, whose tickets then mean something.
fn is_for(call: &CallRow, info: &ModelInfo) -> bool {
    (call.provider.as_str(), call.model.as_str()) == (info.provider.as_str(), info.model.as_str())
}

/// A reply as it is booked: one that nobody counted costs what was reserved for it.
fn settled(reply: Reply, reserved: Reservation) -> SettledReply {
    let uncounted = reply.usage.is_none().then_some(reserved.nusd);
    SettledReply {
        text: reply.text,
        usage: reply.usage,
        finish_reason: reply.finish_reason,
        model: reply.model,
        latency_ms: reply.latency_ms,
        cost_nusd: reply.cost_nusd.or(uncounted),
        drift: reply.drift,
        reasoning: reply.reasoning,
        http_log: reply.http_log,
    }
}
