//! The rules of the batch lane: when a file leaves, where a request is, when a batch is given up.
//!
//! Nothing runs by itself but a hand-over: whoever polls moves things on. A hand-over is a task of
//! its own, so that a caller that stops waiting does not leave half of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::super::Caller;
use super::super::calls::Outcome;
use super::form::{self, Lines, Seen, Stage};
use super::state::{Ended, File, Place, Rest, State, Waiting, given_up};
use super::{BatchSettings, Price};
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{
    BATCH_CANCEL_WAIT_MS, BATCH_FAILURES_MAX, BATCH_FILE_BYTES_MAX, BATCH_LOOKS, BATCH_QUEUED_MAX,
    POLL_WAIT_MS_MAX,
};
use crate::model::{Poll, Request};

/// Pause before a look that follows another, in milliseconds, and while a file leaves.
const SOON_MS: u64 = 100;

/// The batches of one model in this process.
#[derive(Debug)]
pub(super) struct Lane {
    caller: Arc<Caller>,
    settings: BatchSettings,
    /// When this process began, for ids that tell when they were made.
    began_ms: u64,
    state: Mutex<State>,
    /// One list or look at a time.
    looking: tokio::sync::Mutex<()>,
}

impl Lane {
    pub(super) fn new(caller: Arc<Caller>, settings: BatchSettings) -> Self {
        let began_ms = u64::try_from(Timestamp::now().as_millisecond()).unwrap_or(0);
        Self { caller, settings, began_ms, state: Mutex::default(), looking: Default::default() }
    }

    pub(super) fn price(&self) -> Price {
        self.settings.price
    }

    /// Lines a request up, unless it is known; one that an earlier process may have handed over is
    /// looked for first.
    pub(super) fn submit(self: &Arc<Self>, request: &Request) -> Result<(), LlmError> {
        let refused = |why: &str| Err(LlmError::new(ErrorClass::Refused, why));
        if !form::can_be_named(&request.id) {
            return refused("the id of the request cannot stand in a batch's metadata");
        }
        let line = form::line(&self.caller, request);
        if line.len() > BATCH_FILE_BYTES_MAX {
            return refused("the request is longer than a batch's file may be");
        }
        let mut state = self.state();
        let sent = state.places.get(&request.id).is_some_and(|place| match place {
            Place::Ended(outcome) => !never_left(outcome),
            Place::Unsure | Place::Queued | Place::Leaving | Place::In { .. } => true,
        });
        if sent {
            return Ok(());
        }
        if state.queue.len() + state.unsure.len() >= BATCH_QUEUED_MAX {
            let why = "too many requests of this program wait for a batch";
            return Err(LlmError::new(ErrorClass::RateLimited, why));
        }
        if made_ms(&request.id).is_some_and(|made_ms| made_ms >= self.began_ms) {
            state.queue(Waiting { id: request.id.clone(), line });
        } else {
            state.places.insert(request.id.clone(), Place::Unsure);
            state.unsure.insert(request.id.clone(), line);
        }
        Ok(())
    }

    pub(super) async fn poll(self: &Arc<Self>, id: &str) -> Result<Poll, LlmError> {
        let place = self.state().places.get(id).cloned();
        match place {
            None | Some(Place::Unsure) => self.find(id).await,
            Some(Place::Queued) => Ok(self.hand_over_when_due()),
            Some(Place::Leaving) => Ok(pending(SOON_MS)),
            Some(Place::In { batch, line }) => self.ask(&batch, id, line).await,
            Some(Place::Ended(outcome)) => outcome.map(Poll::Done),
        }
    }

    /// Gives a request up: one that waits never leaves; a batch that nobody waits for is cancelled.
    pub(super) fn give_up(self: &Arc<Self>, id: &str) {
        let mut state = self.state();
        match state.places.get(id).cloned() {
            Some(Place::Queued) => {
                state.queue.retain(|waiting| waiting.id != id);
                state.places.insert(id.to_owned(), Place::Ended(Box::new(given_up())));
            }
            Some(Place::In { batch: name, .. }) => {
                let Some(batch) = state.batches.get_mut(&name) else { return };
                batch.wanted = batch.wanted.saturating_sub(1);
                if batch.wanted == 0 && batch.ended.is_none() && batch.cancelled_at.is_none() {
                    batch.cancelled_at = Some(Instant::now());
                    let lane = Arc::clone(self);
                    // A courtesy: what comes of it shows at the next look.
                    tokio::spawn(async move { lane.caller.cancel_batch(&name).await });
                }
            }
            None | Some(Place::Unsure | Place::Leaving | Place::Ended(_)) => {}
        }
    }

    /// Sends the queue on its way when it waited long enough or is full.
    fn hand_over_when_due(self: &Arc<Self>) -> Poll {
        let mut state = self.state();
        let left = state.until_full(self.settings.collect_ms, self.settings.requests_max);
        if !left.is_zero() {
            return pending(ms(left).clamp(1, SOON_MS.max(self.settings.poll_ms)));
        }
        while let Some(file) = state.next_file(self.settings.requests_max) {
            let lane = Arc::clone(self);
            tokio::spawn(async move { lane.hand_over(file).await });
            // What did not fit waits for more.
            if !state.until_full(self.settings.collect_ms, self.settings.requests_max).is_zero() {
                break;
            }
        }
        pending(SOON_MS)
    }

    async fn hand_over(&self, file: File) {
        let ids = file.ids.clone();
        match self.begin(file).await {
            Ok(seen) => self.state().note_batch(&seen, &ids, Timestamp::now().as_second()),
            Err(error) => {
                let mut state = self.state();
                for id in ids {
                    let outcome = Err(error.clone());
                    state.places.insert(id, Place::Ended(Box::new(outcome)));
                }
            }
        }
    }

    /// Uploads a file and begins its batch. Where nobody knows whether it began, the server's list
    /// is asked; a batch is never begun twice.
    async fn begin(&self, file: File) -> Result<Seen, LlmError> {
        let ids: Vec<_> = file.ids.iter().map(String::as_str).collect();
        let mark = file.ids.first().cloned().unwrap_or_default();
        let Some(metadata) = form::metadata(&mark, &ids) else {
            let why = "the ids of a batch's requests do not fit into its metadata";
            return Err(LlmError::new(ErrorClass::Refused, why));
        };
        // Nothing is run before its batch has begun.
        let input = self.caller.upload(&mark, file.bytes).await;
        let input = input.map_err(form::of_all)?;
        let error = match self.caller.begin_batch(&input, &metadata).await {
            Ok(seen) => return Ok(seen),
            Err(error) => error,
        };
        let may_have_begun = match error.class() {
            ErrorClass::Unavailable | ErrorClass::Interrupted | ErrorClass::Malformed => true,
            ErrorClass::Deadline => true,
            ErrorClass::Exhausted | ErrorClass::Auth | ErrorClass::NoCredit => false,
            ErrorClass::RateLimited | ErrorClass::Refused | ErrorClass::Recorded => false,
            ErrorClass::Drift | ErrorClass::UnknownTicket | ErrorClass::LocalFile => false,
        };
        if !may_have_begun {
            return Err(form::of_all(error));
        }
        self.begun_all_the_same(&mark, error).await
    }

    /// The batch with this mark, where the server began it although `error` came of it.
    async fn begun_all_the_same(&self, mark: &str, error: LlmError) -> Result<Seen, LlmError> {
        let (mut misses, mut failures) = (0, 0);
        while failures <= BATCH_FAILURES_MAX {
            tokio::time::sleep(Duration::from_millis(self.settings.poll_ms)).await;
            let Ok(listed) = self.caller.list_batches().await else {
                failures += 1;
                continue;
            };
            let ours = |seen: &Seen| seen.mark.as_deref() == Some(mark);
            if let Some(seen) = listed.batches.into_iter().find(ours) {
                return Ok(seen);
            }
            misses += 1;
            // It would be among the newest.
            if misses >= BATCH_LOOKS {
                return Err(error.charged(Charge::Nothing));
            }
        }
        Err(error.charged(Charge::Unknown))
    }

    /// Looks for a request in the server's list: one that an earlier process may have handed over.
    async fn find(self: &Arc<Self>, id: &str) -> Result<Poll, LlmError> {
        let Ok(_turn) = self.looking.try_lock() else { return Ok(pending(SOON_MS)) };
        let again = Duration::from_millis(self.settings.poll_ms.min(5_000));
        let fresh = |state: &State| state.listed_at.is_some_and(|at| at.elapsed() < again);
        let asked = self.state().misses.get(id).copied().unwrap_or(0);
        if asked > 0 && fresh(&self.state()) {
            return Ok(pending(ms(again).max(1)));
        }
        if !fresh(&self.state()) {
            match self.caller.list_batches().await {
                Ok(listed) => {
                    let mut state = self.state();
                    let now_s = Timestamp::now().as_second();
                    for seen in listed.batches.iter().filter(|seen| seen.mark.is_some()) {
                        state.note_batch(seen, &seen.ids, now_s);
                    }
                    state.listed_at = Some(Instant::now());
                    (state.list_failures, state.list_was_cut) = (0, !listed.is_whole);
                }
                Err(error) => {
                    let mut state = self.state();
                    state.list_failures += 1;
                    if state.list_failures > BATCH_FAILURES_MAX {
                        return Err(error.charged(Charge::Unknown));
                    }
                    let wait_ms = self.settings.poll_ms.saturating_mul(state.list_failures.into());
                    return Ok(pending(wait_ms));
                }
            }
        }
        self.found(id)
    }

    /// What a list tells of a request.
    fn found(&self, id: &str) -> Result<Poll, LlmError> {
        let mut state = self.state();
        if matches!(state.places.get(id), Some(Place::In { .. })) {
            return Ok(pending(1));
        }
        let misses = state.misses.entry(id.to_owned()).or_insert(0);
        *misses += 1;
        // A list may lag behind what a process that was killed just did.
        if *misses < BATCH_LOOKS {
            return Ok(pending(self.settings.poll_ms.clamp(1, 5_000)));
        }
        state.misses.remove(id);
        let charge = if state.list_was_cut { Charge::Unknown } else { Charge::Nothing };
        match state.unsure.remove(id) {
            Some(line) if charge == Charge::Nothing => {
                state.queue(Waiting { id: id.to_owned(), line });
                Ok(pending(1))
            }
            Some(_) | None => {
                state.places.remove(id);
                let why = "no batch of the server holds this request";
                Err(LlmError::new(ErrorClass::UnknownTicket, why).charged(charge))
            }
        }
    }

    /// How far a batch is, and what it says of a request.
    async fn ask(&self, name: &str, id: &str, line: Option<usize>) -> Result<Poll, LlmError> {
        let poll = Duration::from_millis(self.settings.poll_ms);
        let is_due = |state: &State| {
            state.batches.get(name).is_some_and(|batch| {
                batch.ended.is_none() && batch.looked_at.is_none_or(|at| at.elapsed() >= poll)
            })
        };
        if is_due(&self.state()) {
            let Ok(_turn) = self.looking.try_lock() else { return Ok(pending(SOON_MS)) };
            if is_due(&self.state()) {
                self.look(name).await;
            }
        }
        let mut state = self.state();
        let Some(batch) = state.batches.get_mut(name) else { return Ok(pending(SOON_MS)) };
        let Some(ended) = &batch.ended else {
            let failures = u64::from(batch.failures) + 1;
            return Ok(pending(self.settings.poll_ms.saturating_mul(failures)));
        };
        let outcome = match (ended.lines.outcomes.get(id), &ended.rest) {
            (Some(outcome), _) => outcome.clone(),
            (None, Rest::AsSeen(seen)) => {
                Err(self.caller.shown(seen.without_line(&self.caller, &ended.lines, line)))
            }
            (None, Rest::Unknown(error)) => Err(error.clone()),
        };
        outcome.map(Poll::Done)
    }

    /// Looks at a batch: reads its files once it has ended, cancels it once it takes too long.
    async fn look(&self, name: &str) {
        let seen = self.caller.look_at_batch(name).await;
        let read = match &seen {
            Ok(seen) if seen.stage() != Stage::UnderWay => self.read(seen).await.map(Some),
            Ok(_) => Ok(None),
            Err(error) => Err(error.clone()),
        };
        let cancels = {
            let mut state = self.state();
            let Some(batch) = state.batches.get_mut(name) else { return };
            batch.looked_at = Some(Instant::now());
            match read {
                Ok(Some(ended)) => {
                    state.keep(name, ended);
                    false
                }
                Err(error) => {
                    batch.failures += 1;
                    if batch.failures > BATCH_FAILURES_MAX {
                        state.keep(name, unknown(error.charged(Charge::Unknown)));
                    }
                    false
                }
                Ok(None) => {
                    batch.failures = 0;
                    let wait = Duration::from_millis(BATCH_CANCEL_WAIT_MS);
                    if batch.cancelled_at.is_some_and(|at| at.elapsed() >= wait) {
                        let why = format!("the batch {name} was cancelled and does not end");
                        state.keep(name, unknown(LlmError::new(ErrorClass::Deadline, why)));
                        false
                    } else {
                        batch.cancelled_at.is_none() && self.is_late(batch.created_s)
                    }
                }
            }
        };
        if cancels && self.caller.cancel_batch(name).await.is_ok() {
            let mut state = self.state();
            if let Some(batch) = state.batches.get_mut(name) {
                (batch.cancelled_at, batch.looked_at) = (Some(Instant::now()), None);
            }
        }
    }

    fn is_late(&self, created_s: i64) -> bool {
        let taken_s = Timestamp::now().as_second().saturating_sub(created_s).max(0);
        let taken_ms = u64::try_from(taken_s).unwrap_or(0).saturating_mul(1_000);
        self.settings.deadline_ms.is_some_and(|deadline_ms| taken_ms >= deadline_ms)
    }

    /// Reads the files of a batch that has ended.
    async fn read(&self, seen: &Seen) -> Result<Ended, LlmError> {
        let mut lines = Lines::default();
        // An answer counts more than an error for the same request.
        for file in [&seen.error_file, &seen.output_file].into_iter().flatten() {
            let text = self.caller.read_file(file).await?;
            lines.add(&self.caller, seen, &text);
        }
        Ok(Ended { lines, rest: Rest::AsSeen(Box::new(seen.clone())) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn pending(wait_ms: u64) -> Poll {
    Poll::Pending { next_poll_ms: wait_ms.clamp(1, POLL_WAIT_MS_MAX) }
}

fn unknown(error: LlmError) -> Ended {
    Ended { lines: Lines::default(), rest: Rest::Unknown(error) }
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// True for an end that may be followed by the same request again: it cost nothing and was never
/// in a batch.
fn never_left(outcome: &Outcome) -> bool {
    outcome.as_ref().is_err_and(|error| error.charge() == Charge::Nothing)
}

/// When an id was made, in milliseconds since 1970, where it is a UUID of version 7.
fn made_ms(id: &str) -> Option<u64> {
    let bytes = id.as_bytes();
    if bytes.len() != 36 || bytes.get(14) != Some(&b'7') || bytes.get(8) != Some(&b'-') {
        return None;
    }
    u64::from_str_radix(&format!("{}{}", id.get(..8)?, id.get(9..13)?), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::made_ms;

    #[test]
    fn an_id_tells_when_it_was_made() {
        for (id, made) in [
            ("0190f1c2-0000-7000-8000-000000000001", Some(0x0190_f1c2_0000)),
            ("0190f1c2-0000-4000-8000-000000000001", None),
            ("conformance-1-0", None),
            ("", None),
        ] {
            assert_eq!(made_ms(id), made, "{id}");
        }
    }
}
