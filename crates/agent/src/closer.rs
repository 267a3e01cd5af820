//! Who looks at the best kernels of a run: the seam between the loop and the cards.
//!
//! What is looked at next, and whether there is time, is decided by `pipeline::closing`; the loop
//! over it is in `closing`. The program's implementation measures and accepts on GPUs; tests have a
//! script.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use judge::CancelFlag;
use pipeline::closing::{Best, Costs, Work};
use store::{AttemptId, RunId};
use tokio::sync::Notify;

use crate::card_time::Desk;
use crate::interrupt::Interrupt;

/// Something that is under way at a [`Closer`].
pub type Doing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who measures and accepts kernels. What goes wrong there is said in words and ends no run.
pub trait Closer: Send + Sync {
    /// How many kernels it looks at side by side: one on each card.
    fn lanes(&self) -> usize;

    /// What the ledger knows of each operator's best kernel, given by its number.
    fn look<'a>(&'a self, bests: &'a [Option<u32>]) -> Doing<'a, Result<Vec<Looked>, String>>;

    /// Carries a look at the kernel with this number on to its end.
    fn perform<'a>(&'a self, work: Work, seq: u32, pace: Pace) -> Doing<'a, Result<Done, String>>;
}

/// What is known of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Looked {
    pub best: Option<Best>,
    /// True where an acceptance of any of the run's kernels of it has ended.
    pub tried: bool,
    pub costs: Costs,
}

/// When a look stops although something of it is left.
#[derive(Clone, Debug)]
pub struct Pace {
    pub interrupt: Interrupt,
    /// What its children watch, where something else than the interrupt stops them too.
    pub cancel: Option<CancelFlag>,
    /// When everything must be over.
    pub deadline: Option<Instant>,
    /// The run's GPU-seconds that its steps are booked on; `None` where a person asked for a claim.
    pub card_time: Option<CardPace>,
}

impl Pace {
    /// The flag that its children watch.
    #[must_use]
    pub fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone().unwrap_or_else(|| self.interrupt.cancel_flag())
    }
}

/// A run's GPU-seconds.
#[derive(Clone, Debug)]
pub struct CardPace {
    /// How many a look may find used with it, in microseconds.
    pub cap_us: Option<u64>,
    /// Where they are reserved.
    pub desk: Arc<Desk>,
    /// The attempt of the run that they are booked on: an acceptance that is gone on with may have
    /// been begun by another run.
    pub books_on: Option<(RunId, AttemptId)>,
}

/// How a look ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Done {
    /// With nothing that is to be said.
    Quietly,
    /// With a claim: its id, and what it says.
    Claimed { claim: String, says: String },
    /// Without what it was for, and why.
    Without(String),
    /// Without it for noise alone; what is known of the kernel says whether it is tried again.
    Noisy(String),
    /// It was stopped; what is left, in words.
    Left(String),
}

/// The looks at a run's best kernels. Without a closer there are none, as on the simulator.
#[derive(Clone)]
pub struct Claims {
    pub closer: Option<Arc<dyn Closer>>,
    /// Whether claims are made, or only measurements.
    pub accepts: bool,
    /// Stops them; the end of the search does not.
    pub interrupt: Interrupt,
    pub(crate) shared: Arc<Shared>,
}

impl Default for Claims {
    fn default() -> Self {
        let (interrupt, shared) = (Interrupt::patient(), Arc::default());
        Self { closer: None, accepts: false, interrupt, shared }
    }
}

/// What the loop of the attempts tells the loop of the looks, and the other way round.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    bests: Vec<Option<u32>>,
    searching: Vec<bool>,
    set_aside_us: i64,
}

impl Claims {
    /// Looks that `closer` makes.
    #[must_use]
    pub fn by(closer: Arc<dyn Closer>, accepts: bool) -> Self {
        Self { closer: Some(closer), accepts, ..Self::default() }
    }
}

impl Shared {
    /// What is known of the operators when the search begins.
    pub(crate) fn begin(&self, bests: Vec<Option<u32>>) {
        let mut state = self.state();
        state.searching = vec![true; bests.len()];
        state.bests = bests;
        drop(state);
        self.changed.notify_one();
    }

    /// The best kernel of an operator, and whether it may still be replaced.
    pub(crate) fn note(&self, place: usize, best: Option<u32>, searching: bool) {
        let mut state = self.state();
        let mut changed = false;
        if let Some(it) = state.bests.get_mut(place) {
            changed = std::mem::replace(it, best) != best;
        }
        if let Some(it) = state.searching.get_mut(place) {
            changed |= std::mem::replace(it, searching) != searching;
        }
        drop(state);
        if changed {
            self.changed.notify_one();
        }
    }

    /// Nothing is searched any more.
    pub(crate) fn search_is_over(&self) {
        self.state().searching.iter_mut().for_each(|it| *it = false);
        self.changed.notify_one();
    }

    /// The best kernel of each operator, and whether it may still be replaced.
    pub(crate) fn known(&self) -> (Vec<Option<u32>>, Vec<bool>) {
        let state = self.state();
        (state.bests.clone(), state.searching.clone())
    }

    /// Time before the run's end in which nothing is searched.
    pub(crate) fn set_aside_us(&self) -> i64 {
        self.state().set_aside_us
    }

    pub(crate) fn set_aside(&self, us: i64) {
        self.state().set_aside_us = us;
    }

    /// A poisoned lock only means that another task panicked while it held plain numbers.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
