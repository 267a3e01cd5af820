//! What this process knows of a run and its ledger does not: what it reserved and sent itself, and
//! how the provider has behaved since the last reply.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use llm::{Charge, LlmError};
use pipeline::notice::Cap;
use store::CallId;

/// State of one process; it begins empty.
#[derive(Debug, Default)]
pub struct Here(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Calls that were reserved under the settings of this process.
    reserved: HashSet<CallId>,
    /// Calls that this process submitted: those of a dead one are lost where nobody can tell.
    sent: HashSet<CallId>,
    failures: Failures,
    /// How far caps were used when somebody looked last, in percent.
    caps: Option<Vec<(Cap, u8)>>,
}

/// Provider failures since the last reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures {
    pub(crate) all: u32,
    /// Those that may have cost something.
    pub(crate) paid: u32,
}

impl Here {
    pub(crate) fn note_reserved(&self, call: &CallId) {
        self.state().reserved.insert(call.clone());
    }

    pub(crate) fn has_reserved(&self, call: &CallId) -> bool {
        self.state().reserved.contains(call)
    }

    pub(crate) fn note_sent(&self, call: &CallId) {
        self.state().sent.insert(call.clone());
    }

    pub(crate) fn has_sent(&self, call: &CallId) -> bool {
        self.state().sent.contains(call)
    }

    pub(crate) fn note_reply(&self) {
        self.state().failures = Failures::default();
    }

    /// Counts a failure, and gives the count with it.
    pub(crate) fn note_failure(&self, error: &LlmError) -> Failures {
        let mut state = self.state();
        state.failures.all += 1;
        state.failures.paid += match error.charge() {
            Charge::Nothing => 0,
            Charge::Unknown | Charge::Known { .. } => 1,
        };
        state.failures
    }

    /// Keeps how far caps are used, and gives what was kept before; the first look gives itself.
    pub(crate) fn note_caps(&self, now: Vec<(Cap, u8)>) -> Vec<(Cap, u8)> {
        let before = self.state().caps.replace(now.clone());
        before.unwrap_or(now)
    }

    /// A poisoned lock only means that another task panicked while it held plain sets.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
