//! The paid part of an attempt: ask, wait, and book what became of it.
//!
//! A call is stored as `sent` before it is submitted, so that whatever the provider may charge for
//! is in the ledger first. What a dead process left as `sent` is submitted or polled again where
//! that costs nothing, and otherwise booked as lost before the question is asked anew.

use std::time::Duration;

use llm::{
    Charge, ErrorClass, Llm, LlmError, ModelInfo, Reply, Request, Ticket, submit_within, wait_for,
};
use pipeline::attempt::State;
use pipeline::breaker::wait_before_retry_ms;
use pipeline::next_step::SearchEnd;
use pipeline::notice::Notice;
use store::{
    AttemptRow, Boundary, CallFailure, CallRow, CallState, NotedModel, Reservation, RunId,
};

use crate::advance::Advanced;
use crate::asking::Lane;
use crate::bounds::{broken_bound, output_tokens_max, settled};
use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;
use crate::limits::{DEADLINE_GRACE_MS, SUBMIT_DEADLINE_MS};
use crate::models::failure_of;

/// Class of a call whose process ended before its reply was stored.
const ABANDONED: &str = "abandoned";
/// Class of a provider that answers more than it was allowed to.
const CAP_IGNORED: &str = "cap_ignored";

impl<L: Llm + Sync> Engine<L> {
    /// Stores that the question may leave this program, then submits it.
    pub(crate) async fn send(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        if attempt.call.state != CallState::Reserved {
            return self.reopen(&attempt).await;
        }
        // What another process reserved was reserved under its caps, its prices and its models.
        let Some(index) = self.here.reserved_for(&attempt.call.id) else {
            return self.renew(&attempt).await;
        };
        self.store.mark_sent(&attempt.id).await?;
        self.submit(&attempt, index).await
    }

    async fn submit(&self, attempt: &AttemptRow, index: usize) -> Result<Advanced, AgentError> {
        let (model, info) = (self.models.llm(index), self.info(attempt, index));
        let request = Request {
            id: attempt.call.id.to_string(),
            task: self.operator(attempt)?.task.spec.name.clone(),
            seq: attempt.ask.seq,
            try_index: attempt.call.try_index,
            prompt: attempt.prompt.clone(),
            output_tokens_max: output_tokens_max(attempt),
            deadline_ms: info.deadline_ms,
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
            Err(error) => self.failed_call(attempt, index, error).await,
        }
    }

    /// Waits for the reply to a question that was sent, here or by a process that died.
    pub(crate) async fn receive(&self, attempt: AttemptRow) -> Result<Advanced, AgentError> {
        let Some(index) = self.waited_for(&attempt) else {
            let why = "the process that sent it ended before the reply was stored";
            self.store.mark_lost(&attempt.id, ABANDONED, why).await?;
            self.here.note_ended(&attempt.call.id);
            return self.reread(&attempt).await;
        };
        let (model, info) = (self.models.llm(index), self.info(&attempt, index));
        let Some(ticket) = attempt.call.ticket.clone().map(Ticket::from) else {
            return self.submit(&attempt, index).await;
        };
        let received = tokio::select! {
            biased;
            received = wait_for(model, &ticket, waited_ms(&info)) => received,
            () = self.may_stop_waiting(&info) => {
                return Ok(Advanced::Stopped(RunEnd::Interrupted));
            }
        };
        match received {
            Ok(reply) => self.settle(&attempt, index, reply).await,
            Err(error) => self.failed_call(&attempt, index, error).await,
        }
    }

    /// The model that a reply is waited for from: of a call that this process sent, or of one whose
    /// ticket means something to a model of the run.
    fn waited_for(&self, attempt: &AttemptRow) -> Option<usize> {
        let call = &attempt.call;
        if self.here.has_sent(&call.id) {
            return self.here.model_of(&call.id);
        }
        let known = |index: &usize| self.info(attempt, *index).idempotent;
        self.models.of_call(call, self.store.scrubber()).filter(known)
    }

    /// Counts a call of another process that is waited for among those that are open.
    pub(crate) fn note_found(&self, attempt: &AttemptRow) {
        if attempt.state == State::Sent
            && let Some(index) = self.waited_for(attempt)
        {
            self.here.note_found(&attempt.call.id, index);
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

    async fn settle(
        &self,
        attempt: &AttemptRow,
        index: usize,
        reply: Reply,
    ) -> Result<Advanced, AgentError> {
        let broken = broken_bound(attempt, reply.usage, reply.cost_nusd);
        if let Some(usage) = reply.usage {
            let (mode, tokens) = (attempt.ask.mode, usage.output_tokens);
            self.here.note_completion(mode, tokens, &reply.finish_reason);
        }
        self.store.settle_reply(&attempt.id, &settled(reply, attempt.call.reservation)).await?;
        if self.models.answered(index) {
            let model = noted(self.models.info(index));
            self.store.note_breaker_closed(&attempt.run_id, model).await?;
            (self.observer)(Progress::Back { model: model.model });
            self.notice(&Notice::BreakerClosed { what: model.model.to_owned() });
        }
        self.give_up_bound_breaker(&attempt.run_id, index, broken).await?;
        self.here.note_ended(&attempt.call.id);
        self.reread(attempt).await
    }

    /// A model whose calls break the bound that is reserved for them is not asked any more where
    /// there is a cap: none could be kept.
    async fn give_up_bound_breaker(
        &self,
        run: &RunId,
        index: usize,
        broken: Option<String>,
    ) -> Result<(), AgentError> {
        let capped = self.budget.tokens_max.is_some() || self.budget.nusd_max.is_some();
        let Some(what) = broken.filter(|_| capped) else { return Ok(()) };
        let message = format!(
            "{what}, so that no cap can be kept; mend the price, use another model, or run without \
             token and dollar limits"
        );
        self.models.give_up(index, CAP_IGNORED, &message);
        self.rests(run, index, (CAP_IGNORED, &message), None).await
    }

    /// Notes and tells that a model is not asked for a while.
    async fn rests(
        &self,
        run: &RunId,
        index: usize,
        why: (&str, &str),
        wait_ms: Option<u64>,
    ) -> Result<(), AgentError> {
        let model = noted(self.models.info(index));
        self.store.note_breaker_opened(run, model, why, wait_ms).await?;
        (self.observer)(Progress::Resting { model: model.model, why: why.1, wait_ms });
        self.notice(&Notice::BreakerOpen { what: model.model.to_owned(), why: why.1.to_owned() });
        Ok(())
    }

    /// Books the failure of a call that was sent; another try follows where one may help.
    async fn failed_call(
        &self,
        attempt: &AttemptRow,
        index: usize,
        error: LlmError,
    ) -> Result<Advanced, AgentError> {
        // What is shown and told from here on is what the ledger may hold.
        let error = &error.map_message(|text| self.store.scrubber().scrub(text).into_owned());
        let (message, class) = (error.to_string(), error.class());
        self.book_failure(attempt, index, error, &message).await?;
        let broken = match error.charge() {
            Charge::Known { usage, cost_nusd } => broken_bound(attempt, Some(usage), cost_nusd),
            Charge::Nothing | Charge::Unknown => None,
        };
        self.give_up_bound_breaker(&attempt.run_id, index, broken).await?;
        let next = self.next_try(attempt, index, error, &message).await;
        self.here.note_ended(&attempt.call.id);
        match next? {
            Try::None => Ok(Advanced::Parked {
                end: SearchEnd::Refused,
                why: format!("{}: {message}", class.name()),
            }),
            Try::After(0) => self.reopen(attempt).await,
            Try::After(wait_ms) => {
                let task = &self.operator(attempt)?.task.spec.name;
                let seq = attempt.ask.seq;
                (self.observer)(Progress::Retrying { task, seq, why: &message, wait_ms });
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                    () = self.interrupt.requested() => {
                        return Ok(Advanced::Stopped(RunEnd::Interrupted));
                    }
                }
                self.reopen(attempt).await
            }
        }
    }

    /// What a failure means for its question, and notes what it means for its model.
    async fn next_try(
        &self,
        attempt: &AttemptRow,
        index: usize,
        error: &LlmError,
        message: &str,
    ) -> Result<Try, AgentError> {
        let tries = attempt.call.try_index.saturating_add(1);
        let (class, tried) = (error.class(), self.here.tries(&attempt.call.id));
        if class == ErrorClass::Refused {
            self.models.withdrawn(index, tried);
            let refused = self.refused(attempt).await?.len();
            let all_refused = refused >= self.models.count_for(attempt.ask.mode);
            return Ok(if all_refused { Try::None } else { Try::After(0) });
        }
        // Another lane of the same model goes on with it, or it never reached the model.
        let provider = &attempt.call.provider;
        let next = self.models.llm(index).describe_after(provider, Some(class.name()));
        let unknown = class == ErrorClass::UnknownTicket && error.charge() == Charge::Nothing;
        if unknown || next.provider != self.info(attempt, index).provider {
            self.models.withdrawn(index, tried);
            return Ok(Try::After(0));
        }
        if let Some(opened) = self.models.failed(index, error, tried) {
            let why = (error.class().name(), message);
            self.rests(&attempt.run_id, index, why, opened.wait_ms).await?;
            // Another model may answer at once, and where there is none the run ends.
            if opened.wait_ms.is_none() {
                return Ok(Try::After(0));
            }
        }
        let jitter = attempt.call.id.as_str().bytes().fold(0, u8::wrapping_add);
        let own_ms = wait_before_retry_ms(failure_of(error), tries, jitter).unwrap_or(0);
        // The model is not asked sooner than it wants; another one may be.
        let wanted_ms = error.wanted_wait_ms().filter(|_| self.models.count() == 1);
        Ok(Try::After(own_ms.max(wanted_ms.unwrap_or(0))))
    }

    /// The models that have refused an attempt's question.
    async fn refused(&self, attempt: &AttemptRow) -> Result<Vec<usize>, AgentError> {
        let (run, task, seq) = (&attempt.run_id, &attempt.task_hash, attempt.ask.seq);
        let calls = self.store.attempt_detail(run, task, seq).await?.calls;
        let is_refusal = |call: &&CallRow| {
            call.error.as_ref().is_some_and(|(class, _)| class == ErrorClass::Refused.name())
        };
        let scrubber = self.store.scrubber();
        let refused = calls.iter().filter(is_refusal);
        let mut refused: Vec<_> =
            refused.filter_map(|call| self.models.of_call(call, scrubber)).collect();
        refused.sort_unstable();
        refused.dedup();
        Ok(refused)
    }

    /// What answers the attempt's newest call, on the lane that it was reserved for.
    fn info(&self, attempt: &AttemptRow, index: usize) -> ModelInfo {
        self.models.llm(index).describe_after(&attempt.call.provider, None)
    }

    async fn book_failure(
        &self,
        attempt: &AttemptRow,
        index: usize,
        error: &LlmError,
        message: &str,
    ) -> Result<(), AgentError> {
        let info = self.info(attempt, index);
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

    /// Reserves the next try, with a model that has not refused the question.
    async fn reopen(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let failed = self.store.attempt(&attempt.id).await?.call;
        let class = failed.error.as_ref().map(|(class, _)| class.as_str());
        let model = self.models.of_call(&failed, self.store.scrubber());
        let lane = Lane { model, provider: &failed.provider, failure: class };
        // A person may have mended what all refused.
        let mut refused = self.refused(attempt).await?;
        if refused.len() >= self.models.count_for(attempt.ask.mode) {
            refused.clear();
        }
        let none = Reservation::default();
        let admitted = match self.admit_again(attempt, &refused, lane, none).await? {
            Ok(admitted) => admitted,
            Err(end) => return Ok(Advanced::Stopped(end)),
        };
        let (reservation, target) = (admitted.reservation, admitted.target());
        let attempt = self.store.reopen_call(&attempt.id, reservation, target).await?;
        self.here.note_reserved(&attempt.call.id, admitted.chosen);
        Ok(Advanced::To(Box::new(attempt)))
    }

    /// Reserves a call of another process anew, under what holds now.
    async fn renew(&self, attempt: &AttemptRow) -> Result<Advanced, AgentError> {
        let model = self.models.of_call(&attempt.call, self.store.scrubber());
        let lane = Lane { model, provider: &attempt.call.provider, failure: None };
        let released = attempt.call.reservation;
        let admitted = match self.admit_again(attempt, &[], lane, released).await? {
            Ok(admitted) => admitted,
            Err(end) => return Ok(Advanced::Stopped(end)),
        };
        let (reservation, target) = (admitted.reservation, admitted.target());
        let attempt = self.store.renew_call(&attempt.id, reservation, target).await?;
        self.here.note_reserved(&attempt.call.id, admitted.chosen);
        Ok(Advanced::To(Box::new(attempt)))
    }
}

/// What comes after a failed call.
enum Try {
    /// The same question, after so many milliseconds.
    After(u64),
    /// Every model refuses it.
    None,
}

/// A model as notes name it.
fn noted(info: &ModelInfo) -> NotedModel<'_> {
    NotedModel { provider: &info.provider, model: &info.model }
}

/// How long an answer is waited for: the model ends a call by itself at its deadline.
fn waited_ms(model: &ModelInfo) -> Option<u64> {
    model.deadline_ms.map(|deadline_ms| deadline_ms.saturating_add(DEADLINE_GRACE_MS))
}
