//! What this process knows of a run and its ledger does not: what it reserved and sent itself, how
//! long answers were, and whose turn it is to book.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::attempt::Mode;
use pipeline::completions::Completions;
use pipeline::notice::Cap;
use pipeline::reply::Ending;
use pipeline::tell::Told;
use store::CallId;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit};

use crate::models::Chosen;

/// State of one process; it begins empty.
#[derive(Debug, Default)]
pub struct Here {
    state: Mutex<State>,
    /// Held from the look at what is booked until the next booking is stored.
    booking: tokio::sync::Mutex<()>,
    changed: Notify,
    heard: tokio::sync::Mutex<Heard>,
    /// How many bytes of memory are left.
    pub(crate) memory: Left,
    /// Held by whoever looks at it, or waits for it.
    memory_turn: tokio::sync::Mutex<()>,
}

/// How many bytes of something are left, where that can be found out.
#[derive(Clone)]
pub(crate) struct Left(Arc<dyn Fn() -> Option<u64> + Send + Sync>);

impl Left {
    pub(crate) fn bytes(&self) -> Option<u64> {
        (self.0)()
    }
}

impl Default for Left {
    fn default() -> Self {
        Self(Arc::new(crate::memory::left_here))
    }
}

impl std::fmt::Debug for Left {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Left").finish_non_exhaustive()
    }
}

/// What the run was told, as far as it was read.
#[derive(Debug, Default)]
pub(crate) struct Heard {
    pub(crate) told: Arc<Told>,
    /// Position of the first row that was not read.
    pub(crate) next: u32,
}

#[derive(Debug, Default)]
struct State {
    /// Calls that this process reserved, or waits for, and that have not ended.
    open: HashMap<CallId, Open>,
    /// Those that this process submitted: those of a dead one are lost where nobody can tell.
    sent: HashSet<CallId>,
    completions: Completions,
    /// How far caps were used when somebody looked last, in percent.
    caps: Option<Vec<(Cap, u8)>>,
    /// Cards that were out of service then, each with its reason.
    parked: Vec<(String, String)>,
}

/// A call that may still be answered.
#[derive(Debug)]
struct Open {
    /// Its model among the run's.
    index: usize,
    /// Its right to be open; another process gave it none.
    permit: Option<OwnedSemaphorePermit>,
    /// It tries whether the model is back.
    tries: bool,
}

impl Here {
    /// A call was reserved for the model that was chosen.
    pub(crate) fn note_reserved(&self, call: &CallId, chosen: Chosen) {
        let Chosen { index, permit, tries } = chosen;
        let open = Open { index, permit: Some(permit), tries };
        self.state().open.insert(call.clone(), open);
    }

    /// A call that another process sent is waited for.
    pub(crate) fn note_found(&self, call: &CallId, index: usize) {
        let open = Open { index, permit: None, tries: false };
        self.state().open.insert(call.clone(), open);
    }

    /// The model of a call that was reserved here.
    pub(crate) fn reserved_for(&self, call: &CallId) -> Option<usize> {
        self.state().open.get(call).filter(|open| open.permit.is_some()).map(|open| open.index)
    }

    /// The model of a call that may still be answered.
    pub(crate) fn model_of(&self, call: &CallId) -> Option<usize> {
        self.state().open.get(call).map(|open| open.index)
    }

    /// True where a call tries whether its model is back.
    pub(crate) fn tries(&self, call: &CallId) -> bool {
        self.state().open.get(call).is_some_and(|open| open.tries)
    }

    pub(crate) fn note_sent(&self, call: &CallId) {
        self.state().sent.insert(call.clone());
    }

    pub(crate) fn has_sent(&self, call: &CallId) -> bool {
        self.state().sent.contains(call)
    }

    /// A call has its end in the ledger: what it held is free.
    pub(crate) fn note_ended(&self, call: &CallId) {
        let mut state = self.state();
        state.open.remove(call);
        state.sent.remove(call);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Calls of this process that may still be answered.
    pub(crate) fn calls_open(&self) -> usize {
        self.state().open.len()
    }

    /// How long an answer was, and whether its limit cut it off.
    pub(crate) fn note_completion(&self, mode: Mode, tokens: u64, finish_reason: &str) {
        let was_cut = Ending::of(finish_reason) == Ending::CutOff;
        self.state().completions.note(mode, tokens, was_cut);
    }

    /// The output limit that is wanted where `output_tokens_max` is the model's, and the smallest
    /// that is worth a call.
    pub(crate) fn output_limits(&self, mode: Mode, output_tokens_max: u64) -> [u64; 2] {
        let completions = &self.state().completions;
        let limit = completions.limit(mode, output_tokens_max);
        [limit, completions.useful(mode, limit)]
    }

    /// Waits for the turn to look at what is booked and to book.
    pub(crate) async fn booking_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.booking.lock().await
    }

    /// On a machine that has as much memory left as `left` says.
    #[cfg(test)]
    pub(crate) fn with_memory(left: Arc<dyn Fn() -> Option<u64> + Send + Sync>) -> Self {
        Self { memory: Left(left), ..Self::default() }
    }

    /// Waits for the turn to look at the memory that is left.
    pub(crate) async fn memory_turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.memory_turn.lock().await
    }

    /// What was heard so far, for whoever reads on.
    pub(crate) async fn heard(&self) -> tokio::sync::MutexGuard<'_, Heard> {
        self.heard.lock().await
    }

    /// Completes when a call ends after this was called.
    pub(crate) fn call_ended(&self) -> Notified<'_> {
        self.changed.notified()
    }

    /// Keeps which cards are out of service, and gives what was kept before.
    pub(crate) fn note_parked(&self, now: Vec<(String, String)>) -> Vec<(String, String)> {
        std::mem::replace(&mut self.state().parked, now)
    }

    /// Keeps how far caps are used, and gives what was kept before; the first look gives itself.
    pub(crate) fn note_caps(&self, now: Vec<(Cap, u8)>) -> Vec<(Cap, u8)> {
        let before = self.state().caps.replace(now.clone());
        before.unwrap_or(now)
    }

    /// A poisoned lock only means that another task panicked while it held plain sets.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
