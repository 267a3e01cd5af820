//! The models of a run: which one a question goes to, how many calls each may have open, and which
//! are not asked for a while.
//!
//! The rule for failures is `pipeline::breaker`; here it meets a clock. Start at
//! [`Models::choose`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use llm::{Charge, Llm, LlmError, ModelInfo};
use pipeline::attempt::Mode;
use pipeline::breaker::{Breaker, Failure, Gate};
use pipeline::scrub::Scrubber;
use store::CallRow;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// What one model is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelUse {
    /// Calls that it may have open; at least one.
    pub calls_at_once: usize,
    /// The modes that it is asked in; empty for all.
    pub modes: Vec<Mode>,
}

/// Which model an attempt asks first; where that one is not to be had, the next ones follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ModelOrder {
    /// Attempts take them in turn.
    #[default]
    Turns,
    /// Always the first.
    First,
}

/// At least one model.
pub struct Models<L> {
    slots: Vec<Slot<L>>,
    order: ModelOrder,
    begun: Instant,
}

struct Slot<L> {
    llm: L,
    info: ModelInfo,
    modes: Vec<Mode>,
    calls: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    breaker: Breaker,
    /// Class and message of its last failure.
    last: Option<(String, String)>,
}

/// Where a question goes.
pub(crate) enum Choice {
    Model(Chosen),
    /// Not now; worth asking again when a call has ended, or at this time.
    Wait {
        until_ms: Option<u64>,
    },
    /// No model is left: class and message of what ended the last one.
    GivenUp {
        class: String,
        message: String,
    },
}

/// A model with the right to one call.
pub(crate) struct Chosen {
    pub(crate) index: usize,
    pub(crate) permit: OwnedSemaphorePermit,
    /// It tries whether the model is back.
    pub(crate) tries: bool,
}

/// What a failure did to its model.
pub(crate) struct Opened {
    /// How long nobody asks it; `None` for the rest of the run.
    pub(crate) wait_ms: Option<u64>,
}

impl<L: Llm> Models<L> {
    /// The models in their order.
    #[must_use]
    pub fn new(models: Vec<(L, ModelUse)>, order: ModelOrder) -> Self {
        let slot = |(llm, ModelUse { calls_at_once, modes }): (L, ModelUse)| {
            let calls = Arc::new(Semaphore::new(calls_at_once.max(1)));
            Slot { info: llm.describe(), llm, modes, calls, state: Mutex::default() }
        };
        Self { slots: models.into_iter().map(slot).collect(), order, begun: Instant::now() }
    }

    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// How many are for questions of this kind.
    pub(crate) fn count_for(&self, mode: Mode) -> usize {
        self.slots.iter().filter(|slot| slot.serves(mode)).count()
    }

    pub(crate) fn llm(&self, index: usize) -> &L {
        &self.slots[index].llm
    }

    pub(crate) fn info(&self, index: usize) -> &ModelInfo {
        &self.slots[index].info
    }

    /// The model that a call went to, if it is one of these; names are stored as `scrubber` leaves
    /// them.
    pub(crate) fn of_call(&self, call: &CallRow, scrubber: &Scrubber) -> Option<usize> {
        let stored = |name: &str| scrubber.scrub(name).into_owned();
        self.slots.iter().position(|slot| {
            let lane = slot.llm.describe_after(&call.provider, None);
            (&call.provider, &call.model) == (&stored(&lane.provider), &stored(&lane.model))
        })
    }

    /// The model for the attempt with this seq, none of those that refused it. One that is only
    /// busy is waited for, so that turns hold.
    pub(crate) fn choose(&self, seq: u32, mode: Mode, refused: &[usize]) -> Choice {
        let turn = match self.order {
            ModelOrder::Turns => (seq as usize).saturating_sub(1),
            ModelOrder::First => 0,
        };
        let (count, now_ms) = (self.slots.len(), self.now_ms());
        let mut soonest_ms: Option<u64> = None;
        let mut somebody_tries = false;
        let mut last = None;
        for index in (0..count).map(|offset| (turn + offset) % count) {
            let slot = &self.slots[index];
            if !slot.serves(mode) || refused.contains(&index) {
                continue;
            }
            let mut state = slot.state();
            match state.breaker.gate(now_ms) {
                Gate::GivenUp => last = last.or_else(|| state.last.clone()),
                Gate::Trying => somebody_tries = true,
                Gate::OpenUntil(until_ms) => {
                    soonest_ms = Some(soonest_ms.map_or(until_ms, |soonest| soonest.min(until_ms)));
                }
                Gate::Closed => match Arc::clone(&slot.calls).try_acquire_owned() {
                    Ok(permit) => {
                        let tries = state.breaker.asked(now_ms);
                        return Choice::Model(Chosen { index, permit, tries });
                    }
                    Err(_) => return Choice::Wait { until_ms: soonest_ms },
                },
            }
        }
        if somebody_tries || soonest_ms.is_some() {
            return Choice::Wait { until_ms: soonest_ms };
        }
        let none = || ("no_model".to_owned(), format!("no model is for `{}`", mode.name()));
        let (class, message) = last.unwrap_or_else(none);
        Choice::GivenUp { class, message }
    }

    /// Gives a choice back of which nothing came.
    pub(crate) fn give_back(&self, chosen: Chosen) {
        self.withdrawn(chosen.index, chosen.tries);
    }

    /// A call ended in a way that says nothing about its model; `tried` as it was chosen.
    pub(crate) fn withdrawn(&self, index: usize, tried: bool) {
        self.slots[index].state().breaker.withdrawn(tried);
    }

    /// A model has answered; true if it is asked again from now on.
    pub(crate) fn answered(&self, index: usize) -> bool {
        self.slots[index].state().breaker.answered()
    }

    /// A call has failed; `tried` as it was chosen.
    pub(crate) fn failed(&self, index: usize, error: &LlmError, tried: bool) -> Option<Opened> {
        let now_ms = self.now_ms();
        let mut state = self.slots[index].state();
        state.last = Some((error.class().name().to_owned(), error.to_string()));
        state.breaker.failed(failure_of(error), tried, now_ms).then(|| Opened {
            wait_ms: match state.breaker.gate(now_ms) {
                Gate::OpenUntil(until_ms) => Some(until_ms - now_ms),
                Gate::GivenUp => None,
                Gate::Closed | Gate::Trying => Some(0),
            },
        })
    }

    /// A model is not asked any more.
    pub(crate) fn give_up(&self, index: usize, class: &str, message: &str) {
        let mut state = self.slots[index].state();
        state.last = Some((class.to_owned(), message.to_owned()));
        state.breaker.give_up();
    }

    /// How long it is until a time that [`Models::choose`] named.
    pub(crate) fn until_ms(&self, until_ms: u64) -> u64 {
        until_ms.saturating_sub(self.now_ms())
    }

    /// The time in so many milliseconds, by the clock of [`Models::choose`].
    pub(crate) fn in_ms(&self, wait_ms: u64) -> u64 {
        self.now_ms().saturating_add(wait_ms)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

impl<L> Slot<L> {
    fn serves(&self, mode: Mode) -> bool {
        self.modes.is_empty() || self.modes.contains(&mode)
    }

    /// A poisoned lock only means that another task panicked while it held plain numbers.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What an error says about the next call.
pub(crate) fn failure_of(error: &LlmError) -> Failure {
    if !error.is_retryable() {
        return Failure::Lasting;
    }
    let paid = match error.charge() {
        Charge::Nothing => false,
        Charge::Unknown | Charge::Known { .. } => true,
    };
    Failure::Passing { wanted_wait_ms: error.wanted_wait_ms(), paid }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use llm::conformance::{ScriptedModel, Server};
    use llm::{ErrorClass, LlmError};
    use pipeline::attempt::Mode;
    use pipeline::limits::{BREAKER_FAILURES, BREAKER_WAIT_MS};

    use super::{Choice, ModelOrder, ModelUse, Models};

    fn models(count: usize, order: ModelOrder) -> Models<ScriptedModel> {
        let model = |index| {
            let mut model = ScriptedModel::new(&Server::default(), "", true);
            model.name = format!("model {index}");
            let modes = if index == 2 { vec![Mode::Repair] } else { Vec::new() };
            (model, ModelUse { calls_at_once: 2, modes })
        };
        Models::new((0..count).map(model).collect(), order)
    }

    /// The index that was chosen; its call ends at once.
    fn chosen(models: &Models<ScriptedModel>, seq: u32, mode: Mode) -> Result<usize, String> {
        match models.choose(seq, mode, &[]) {
            Choice::Model(chosen) => {
                let index = chosen.index;
                models.give_back(chosen);
                Ok(index)
            }
            Choice::Wait { until_ms } => Err(format!("wait, timed: {}", until_ms.is_some())),
            Choice::GivenUp { class, .. } => Err(class),
        }
    }

    #[test]
    fn models_are_taken_in_turn_or_in_order_and_each_in_its_modes() {
        for (order, mode, wanted) in [
            (ModelOrder::Turns, Mode::First, [0, 1, 0, 0]),
            (ModelOrder::Turns, Mode::Repair, [0, 1, 2, 0]),
            (ModelOrder::First, Mode::Repair, [0, 0, 0, 0]),
        ] {
            let models = models(3, order);
            let found = [1, 2, 3, 4].map(|seq| chosen(&models, seq, mode).unwrap());
            assert_eq!(found, wanted, "{order:?} {mode:?}");
        }
    }

    #[test]
    fn another_model_answers_while_one_is_down_and_the_last_ones_words_end_the_run() {
        let models = models(2, ModelOrder::First);
        assert!(!models.answered(0));
        let down = LlmError::new(ErrorClass::Unavailable, "500");
        for _ in 1..BREAKER_FAILURES {
            assert!(models.failed(0, &down, false).is_none());
            assert_eq!(chosen(&models, 1, Mode::First), Ok(0));
        }
        let wait_ms = models.failed(0, &down, false).unwrap().wait_ms;
        assert!(wait_ms.is_some_and(|wait_ms| wait_ms > 0), "{wait_ms:?}");
        assert_eq!(chosen(&models, 1, Mode::First), Ok(1));
        let refused = LlmError::new(ErrorClass::Auth, "401");
        assert!(models.failed(1, &refused, false).unwrap().wait_ms.is_none());
        assert_eq!(chosen(&models, 1, Mode::First), Err("wait, timed: true".to_owned()));
        models.give_up(0, "cap_ignored", "it answers too much");
        assert_eq!(chosen(&models, 1, Mode::First), Err("cap_ignored".to_owned()));
    }

    #[test]
    fn a_busy_model_is_waited_for() {
        let models = models(2, ModelOrder::First);
        let [one, _two] = [1, 2].map(|seq| models.choose(seq, Mode::First, &[]));
        assert_eq!(chosen(&models, 1, Mode::First), Err("wait, timed: false".to_owned()));
        assert!(matches!(models.choose(1, Mode::First, &[0]), Choice::Model(it) if it.index == 1));
        drop(one);
        assert_eq!(chosen(&models, 1, Mode::First), Ok(0));
    }

    #[test]
    fn a_try_whose_question_is_refused_keeps_nobody_else_out() {
        let mut models = models(1, ModelOrder::First);
        assert!(!models.answered(0));
        let down = LlmError::new(ErrorClass::Unavailable, "500");
        for _ in 0..BREAKER_FAILURES {
            models.failed(0, &down, false);
        }
        models.begun -= Duration::from_millis(BREAKER_WAIT_MS);
        let Choice::Model(tries) = models.choose(1, Mode::First, &[]) else { panic!("no try") };
        assert!(tries.tries);
        assert_eq!(chosen(&models, 2, Mode::First), Err("wait, timed: false".to_owned()));
        models.withdrawn(0, tries.tries);
        assert_eq!(chosen(&models, 2, Mode::First), Ok(0));
    }
}
