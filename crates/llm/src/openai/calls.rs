//! The requests of one process: those under way, and the last ones that ended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::error::LlmError;
use crate::limits::{ANSWERED_CALLS_MAX, OPEN_CALLS_MAX};
use crate::model::Reply;

/// How a request ended.
pub(super) type Outcome = Result<Reply, LlmError>;

/// Where the outcome of a request appears.
pub(super) type Outlook = watch::Receiver<Option<Outcome>>;

/// Requests by their id.
#[derive(Debug, Default)]
pub(super) struct Calls {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    calls: HashMap<String, Call>,
    /// Calls so far, to know the oldest.
    begun: u64,
}

/// A request; dropping it gives it up.
#[derive(Debug)]
struct Call {
    number: u64,
    outlook: Outlook,
    task: AbortHandle,
}

impl Drop for Call {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Call {
    fn is_open(&self) -> bool {
        self.outlook.borrow().is_none()
    }

    fn has_failed(&self) -> bool {
        self.outlook.borrow().as_ref().is_some_and(Result::is_err)
    }
}

/// Too many requests are under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Full;

impl Calls {
    /// Begins a request with `start`, unless this id is under way or answered.
    pub(super) fn begin(
        &self,
        id: &str,
        start: impl FnOnce() -> (Outlook, AbortHandle),
    ) -> Result<(), Full> {
        let mut state = self.state();
        if state.calls.get(id).is_some_and(|call| !call.has_failed()) {
            return Ok(());
        }
        if state.calls.values().filter(|call| call.is_open()).count() >= OPEN_CALLS_MAX {
            return Err(Full);
        }
        let (outlook, task) = start();
        state.begun += 1;
        let number = state.begun;
        state.calls.insert(id.to_owned(), Call { number, outlook, task });
        state.forget_oldest();
        Ok(())
    }

    pub(super) fn outlook(&self, id: &str) -> Option<Outlook> {
        self.state().calls.get(id).map(|call| call.outlook.clone())
    }

    /// Gives a request up that has not ended.
    pub(super) fn cancel(&self, id: &str) {
        let mut state = self.state();
        if state.calls.get(id).is_some_and(Call::is_open) {
            state.calls.remove(id);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget_oldest(&mut self) {
        let ended = self.calls.iter().filter(|(_, call)| !call.is_open());
        let mut ended: Vec<(u64, String)> =
            ended.map(|(id, call)| (call.number, id.clone())).collect();
        ended.sort_unstable();
        let surplus = ended.len().saturating_sub(ANSWERED_CALLS_MAX);
        for (_, id) in ended.into_iter().take(surplus) {
            self.calls.remove(&id);
        }
    }
}
