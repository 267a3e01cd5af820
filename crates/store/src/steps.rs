//! The life of an attempt, one durable transaction a step.
//!
//! `asked → sent → replied → parsed → built → judged → closed`. Each step checks the state,
//! writes its rows and one event, and is on disk when it returns. A step that was already made is
//! `WrongState`, never a duplicate. A failed or lost call leads back to `asked` with no call open.

use pipeline::attempt::State;
use pipeline::digest::Digest;
use pipeline::limits::capped;
use pipeline::next_step::Ask;
use pipeline::prompt::Prompt;
use pipeline::verdict::{Reason, Verdict};
use serde_json::{Value, json};

use crate::error::StoreError;
use crate::limits::ERROR_BYTES_MAX;
use crate::open::{Store, Work};
use crate::promotion::last_verdict;
use crate::reading::attempt_row;
use crate::scrubbing;
use crate::tables::attempt::{Bare, NewAttempt};
use crate::tables::{artifact, attempt, build, call, candidate, danger, evaluation, event};
use crate::{
    AttemptId, AttemptRow, Boundary, CallFailure, CallId, CallState, CallTarget, NewBuild,
    NewCandidate, NewJudgement, Reservation, Result, RunId, SettledReply,
};

impl Store {
    /// Opens an attempt: the question, its messages and the worst case of its first call, in
    /// state `asked`.
    ///
    /// # Errors
    /// An unknown run, task or parent; `WrongState` if the run has an attempt with this seq.
    pub async fn open_attempt(
        &self,
        run: &RunId,
        task: &Digest,
        ask: &Ask,
        prompt: &Prompt,
        reservation: Reservation,
        target: CallTarget<'_>,
    ) -> Result<AttemptRow> {
        let mut work = self.write().await?;
        let clean = scrubbing::Target::of(self.scrubber(), target);
        let target = clean.clean();
        attempt::refuse_repeated(&mut work, run, task, ask.seq).await?;
        let id = work.new_attempt_id();
        let prompt_hash = prompt.hash();
        let new = NewAttempt { id: &id, run, task, ask, prompt_hash: &prompt_hash };
        attempt::insert(&mut work, &new).await?;
        let call = call::insert(&mut work, &id, 0, target, reservation, prompt).await?;
        let body = json!({
            "attempt": id.as_str(), "task": task, "seq": ask.seq, "mode": ask.mode,
            "parent": ask.parent, "prompt": prompt_hash,
            "call": call_body(&call, 0, target, reservation),
        });
        event::append(&mut work, run, State::Asked.name(), &body).await?;
        let row = attempt_row(work.connection(), &id).await?;
        self.commit_step(work, Boundary::Asked, ask.seq).await?;
        Ok(row)
    }

    /// Notes that the question is about to leave this program: from here on it may cost money.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `asked` with a reserved call.
    pub async fn mark_sent(&self, id: &AttemptId) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "sent", &[State::Asked]).await?;
        let open = step.open_call(&mut work, CallState::Reserved).await?;
        call::set_sent(&mut work, &open.row.id).await?;
        let body = json!({ "call": open.row.id.as_str() });
        step.advance(self, work, State::Sent, body).await
    }

    /// Keeps the ticket to ask for the reply to a sent question.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `sent` and has no ticket.
    pub async fn put_ticket(&self, id: &AttemptId, ticket: &str) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "given a ticket", &[State::Sent]).await?;
        let open = step.open_call(&mut work, CallState::Sent).await?;
        if open.row.ticket.is_some() {
            return Err(step.wrong("sent and its call has a ticket".to_owned()));
        }
        call::set_ticket(&mut work, &open.row.id, ticket).await?;
        let body = json!({ "call": open.row.id.as_str(), "ticket": ticket });
        step.append(&mut work, "ticket_stored", body).await?;
        self.commit_step(work, Boundary::Ticketed, step.bare.ask.seq).await
    }

    /// Stores a reply and settles its cost; it is on disk when this returns.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `sent`.
    pub async fn settle_reply(&self, id: &AttemptId, reply: &SettledReply) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "settled", &[State::Sent]).await?;
        let open = step.open_call(&mut work, CallState::Sent).await?;
        let reply = &scrubbing::reply(&work.scrubber, reply);
        let text = artifact::put(&mut work, reply.text.as_bytes()).await?;
        call::set_settled(&mut work, &open.row.id, reply, text.as_str()).await?;
        let body = json!({
            "call": open.row.id.as_str(), "reply": text, "usage": reply.usage,
            "cost_nusd": reply.cost_nusd, "model": reply.model, "drift": reply.drift,
            "finish_reason": reply.finish_reason,
        });
        step.advance(self, work, State::Replied, body).await
    }

    /// Ends the open call as failed by the provider, booked at what it counted; the attempt is
    /// `asked` again. Book a call that may have cost something with [`Store::mark_lost`] instead.
    ///
    /// # Errors
    /// `WrongState` unless a call is reserved or sent.
    pub async fn fail_call(&self, id: &AttemptId, failure: CallFailure<'_>) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "failed", &[State::Asked, State::Sent]).await?;
        let wanted = step.call_state();
        let open = step.open_call(&mut work, wanted).await?;
        let message = scrubbing::text(&work.scrubber, failure.message);
        let message = capped(&message, ERROR_BYTES_MAX);
        let failure = CallFailure { message: &message, ..failure };
        call::set_ended(&mut work, &open.row.id, CallState::Failed, failure).await?;
        let (usage, cost_nusd) = failure.paid.unzip();
        let body = json!({
            "call": open.row.id.as_str(), "class": failure.class, "message": message,
            "usage": usage, "cost_nusd": cost_nusd.flatten(),
        });
        step.back_to_asked(self, work, Boundary::Failed, body).await
    }

    /// Books a sent call whose end is unknown as lost, at its reserved price, with the class and
    /// message of what became of it; the attempt is `asked` again.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `sent`.
    pub async fn mark_lost(&self, id: &AttemptId, class: &str, message: &str) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "booked as lost", &[State::Sent]).await?;
        let open = step.open_call(&mut work, CallState::Sent).await?;
        let message = capped(&scrubbing::text(&work.scrubber, message), ERROR_BYTES_MAX);
        let failure = CallFailure::unpaid(class, &message);
        call::set_ended(&mut work, &open.row.id, CallState::Lost, failure).await?;
        let Reservation { tokens, nusd } = open.row.reservation;
        let body = json!({
            "call": open.row.id.as_str(), "reserved_nusd": nusd, "reserved_tokens": tokens,
            "class": class, "message": message,
        });
        step.back_to_asked(self, work, Boundary::Lost, body).await
    }

    /// Reserves a call that was not sent anew: at what it may cost now, for whom it goes to now.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `asked` with a reserved call.
    pub async fn renew_call(
        &self,
        id: &AttemptId,
        reservation: Reservation,
        target: CallTarget<'_>,
    ) -> Result<AttemptRow> {
        let mut work = self.write().await?;
        let clean = scrubbing::Target::of(self.scrubber(), target);
        let target = clean.clean();
        let step = Step::load(&mut work, id, "reserved anew", &[State::Asked]).await?;
        let open = step.open_call(&mut work, CallState::Reserved).await?;
        call::set_reservation(&mut work, &open.row.id, reservation, target).await?;
        let call = call_body(&open.row.id, open.row.try_index, target, reservation);
        step.append(&mut work, "call_reserved", json!({ "call": call })).await?;
        let row = attempt_row(work.connection(), id).await?;
        work.commit().await?;
        Ok(row)
    }

    /// Reserves the next try of an attempt whose last call failed or was lost.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `asked` and no call is open.
    pub async fn reopen_call(
        &self,
        id: &AttemptId,
        reservation: Reservation,
        target: CallTarget<'_>,
    ) -> Result<AttemptRow> {
        let mut work = self.write().await?;
        let clean = scrubbing::Target::of(self.scrubber(), target);
        let target = clean.clean();
        let step = Step::load(&mut work, id, "asked again", &[State::Asked]).await?;
        let last = call::newest(work.connection(), id).await?;
        step.refuse_open_call(&last)?;
        let prompt = Prompt {
            mode: step.bare.ask.mode,
            messages: call::messages(work.connection(), &last.row.id).await?,
        };
        let try_index = last.row.try_index + 1;
        let call = call::insert(&mut work, id, try_index, target, reservation, &prompt).await?;
        let body = json!({ "call": call_body(&call, try_index, target, reservation) });
        step.append(&mut work, "call_reserved", body).await?;
        let row = attempt_row(work.connection(), id).await?;
        self.commit_step(work, Boundary::Asked, step.bare.ask.seq).await?;
        Ok(row)
    }

    /// Stores the candidate that the reply held.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `replied`.
    pub async fn record_parsed(&self, id: &AttemptId, new: &NewCandidate<'_>) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "parsed", &[State::Replied]).await?;
        let stored = candidate::put(&mut work, new).await?;
        attempt::set_candidate(&mut work, id, new.id, &stored.variant, &stored.plan).await?;
        let body = json!({
            "candidate": new.id, "variant": stored.variant, "source": stored.source,
            "plan": stored.plan,
        });
        step.advance(self, work, State::Parsed, body).await
    }

    /// Stores what the compiler said, a failure included.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `parsed`.
    pub async fn record_built(&self, id: &AttemptId, new: &NewBuild<'_>) -> Result<()> {
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "built", &[State::Parsed]).await?;
        let verdict = new.verdict.map(|verdict| scrubbing::verdict(&work.scrubber, verdict));
        let held = new.held.map(|held| scrubbing::held(&work.scrubber, held)).transpose()?;
        let new = &NewBuild {
            diagnostics: &scrubbing::diagnostics(&work.scrubber, new.diagnostics),
            log: &scrubbing::text(&work.scrubber, new.log),
            verdict: verdict.as_ref(),
            held: held.as_ref(),
            ..*new
        };
        let parts = build::insert(&mut work, id, step.variant()?, new).await?;
        let body = parts.body(new.id);
        step.advance(self, work, State::Built, body).await
    }

    /// Stores what the judge found, and remembers a program that must never run again, whose first
    /// verdict stays.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is `built`.
    pub async fn record_judged(&self, id: &AttemptId, new: &NewJudgement<'_>) -> Result<()> {
        check_verdict(new.verdict)?;
        let mut work = self.write().await?;
        let step = Step::load(&mut work, id, "judged", &[State::Built]).await?;
        let new =
            &NewJudgement { verdict: &scrubbing::verdict(&work.scrubber, new.verdict), ..*new };
        let report = evaluation::insert(&mut work, id, step.variant()?, new).await?;
        if let Some(key) = new.danger {
            danger::put(&mut work, key, new.verdict, report.as_ref()).await?;
        }
        let body = json!({
            "stage": new.stage.name(), "eval_key": new.eval_key,
            "verdict": verdict_body(new.verdict), "report": report,
            "from_cache": new.from_cache, "danger": new.danger,
        });
        step.advance(self, work, State::Judged, body).await
    }

    /// Ends an attempt. One that was judged must end with the judge's last verdict.
    ///
    /// # Errors
    /// `WrongState` unless the attempt is between `replied` and `judged`; `Unstorable` for
    /// another verdict than the judge's.
    pub async fn close_attempt(&self, id: &AttemptId, verdict: &Verdict) -> Result<()> {
        check_verdict(verdict)?;
        let mut work = self.write().await?;
        let from = [State::Replied, State::Parsed, State::Built, State::Judged];
        let step = Step::load(&mut work, id, "closed", &from).await?;
        let verdict = &last_verdict(&mut work, id, verdict).await?;
        attempt::close(&mut work, &step.bare, verdict).await?;
        let body = json!({ "verdict": verdict_body(verdict) });
        step.append(&mut work, State::Closed.name(), body).await?;
        self.commit_step(work, Boundary::Closed, step.bare.ask.seq).await
    }
}

/// One step of an attempt that is in the right state for it.
struct Step {
    bare: Bare,
    action: &'static str,
}

impl Step {
    async fn load(
        work: &mut Work,
        id: &AttemptId,
        action: &'static str,
        from: &[State],
    ) -> Result<Self> {
        let bare = attempt::get(work.connection(), id).await?;
        let step = Self { bare, action };
        if from.contains(&step.bare.state) {
            Ok(step)
        } else {
            Err(step.wrong(step.bare.state.name().to_owned()))
        }
    }

    fn wrong(&self, found: String) -> StoreError {
        StoreError::WrongState { seq: self.bare.ask.seq, action: self.action, found }
    }

    /// The newest call, which must be in state `wanted`.
    async fn open_call(&self, work: &mut Work, wanted: CallState) -> Result<call::StoredCall> {
        let newest = call::newest(work.connection(), &self.bare.id).await?;
        let state = newest.row.state;
        if state == wanted {
            return Ok(newest);
        }
        let call = state.name();
        Err(self.wrong(format!("{} and its call is {call}", self.bare.state.name())))
    }

    fn refuse_open_call(&self, last: &call::StoredCall) -> Result<()> {
        match last.row.state {
            CallState::Failed | CallState::Lost => Ok(()),
            CallState::Reserved | CallState::Sent | CallState::Settled => {
                let call = last.row.state.name();
                Err(self.wrong(format!("{} and its call is {call}", self.bare.state.name())))
            }
        }
    }

    /// The state that the open call has in this state of the attempt.
    fn call_state(&self) -> CallState {
        match self.bare.state {
            State::Asked => CallState::Reserved,
            State::Sent => CallState::Sent,
            State::Replied | State::Parsed | State::Built | State::Judged | State::Closed => {
                CallState::Settled
            }
        }
    }

    fn variant(&self) -> Result<&Digest> {
        let none = || StoreError::damaged(format!("attempt {} has no variant", self.bare.id));
        self.bare.variant_id.as_ref().ok_or_else(none)
    }

    /// Writes the event, with the attempt that it is about.
    async fn append(&self, work: &mut Work, kind: &str, mut body: Value) -> Result<()> {
        body["attempt"] = self.bare.id.as_str().into();
        body["seq"] = self.bare.ask.seq.into();
        event::append(work, &self.bare.run_id, kind, &body).await
    }

    async fn advance(self, store: &Store, mut work: Work, to: State, body: Value) -> Result<()> {
        attempt::set_state(&mut work, &self.bare.id, to).await?;
        self.append(&mut work, to.name(), body).await?;
        store.commit_step(work, to.into(), self.bare.ask.seq).await
    }

    /// Ends a call without a reply: `ended` is `Failed` or `Lost`.
    async fn back_to_asked(
        self,
        store: &Store,
        mut work: Work,
        ended: Boundary,
        body: Value,
    ) -> Result<()> {
        attempt::set_state(&mut work, &self.bare.id, State::Asked).await?;
        self.append(&mut work, &format!("call_{}", ended.name()), body).await?;
        store.commit_step(work, ended, self.bare.ask.seq).await
    }
}

/// A reason that its kind never carries would not read back as the same verdict.
pub(crate) fn check_verdict(verdict: &Verdict) -> Result<()> {
    let fits = match verdict.reason {
        Some(reason) => reason.kinds().contains(&verdict.kind),
        None => verdict.is_correct(),
    };
    let why = || format!("{verdict} is no pair of kind and reason");
    if fits { Ok(()) } else { Err(StoreError::Unstorable { what: "the verdict", why: why() }) }
}

pub(crate) fn verdict_body(verdict: &Verdict) -> Value {
    let reason = verdict.reason.map(Reason::code);
    json!({ "kind": verdict.kind.name(), "reason": reason, "detail": verdict.detail })
}

fn call_body(
    id: &CallId,
    try_index: u32,
    target: CallTarget<'_>,
    reservation: Reservation,
) -> Value {
    json!({
        "id": id.as_str(), "try": try_index, "provider": target.provider, "model": target.model,
        "reserved_nusd": reservation.nusd, "reserved_tokens": reservation.tokens,
    })
}
