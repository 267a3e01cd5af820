//! What is known of each task's search while a run is driven: what was tried, what is under way.
//!
//! It is read from the ledger once and then kept in outline, since the ledger of a night holds many
//! thousand attempts. The rules over it are in `pipeline::schedule`.

use pipeline::allotment::Purse;
use pipeline::attempt::{Attempt, best};
use pipeline::next_step::{Ask, SearchEnd, SearchLimits};
use pipeline::schedule::{Look, Phase, Search, Turn, look, next_turn_of, standing};
use pipeline::tell::{Leave, Told};

use crate::engine::Operator;
use crate::told;

/// One search for each operator, in their order.
pub(crate) struct Board {
    searches: Vec<Known>,
}

#[derive(Default)]
struct Known {
    /// By seq, in outline: a prompt that shows one as a whole has it from the ledger.
    attempts: Vec<Attempt>,
    in_flight: Vec<Ask>,
    /// What ended it from outside.
    ended: Option<SearchEnd>,
    /// True once its end was told.
    is_told: bool,
    /// What the policy made of it under these bounds, until it changes.
    looked: Option<(Bounds, Look)>,
}

/// What a look at a task depends on besides its search.
#[derive(Clone, Copy, PartialEq)]
struct Bounds {
    limits: SearchLimits,
    weight: f64,
    ended: Option<SearchEnd>,
}

impl Board {
    /// A board with the outlines of the closed attempts of each task, by seq.
    pub(crate) fn new(closed: Vec<Vec<Attempt>>) -> Self {
        let known = |attempts| Known { attempts, ..Known::default() };
        Self { searches: closed.into_iter().map(known).collect() }
    }

    /// Whose turn it is, under what the run was told.
    pub(crate) fn turn(
        &mut self,
        attempts_max: u32,
        operators: &[Operator],
        told: &Told,
        purses: &[Option<Purse>],
    ) -> Turn {
        let mut looks = Vec::new();
        for ((known, operator), purse) in self.searches.iter_mut().zip(operators).zip(purses) {
            let task = &operator.task.hash;
            let bounds = Bounds {
                limits: told::limits(told, task, operator.limits),
                weight: told.weight(task, operator.weight),
                ended: known.ended.or(told::stopped(told, task)),
            };
            looks.push(known.look(bounds, operator).with_purse(*purse));
        }
        next_turn_of(attempts_max, &looks)
    }

    /// True where a task is paused whose search is not at its end.
    pub(crate) fn some_wait(&self, operators: &[Operator], told: &Told) -> bool {
        self.searches.iter().zip(operators).any(|(known, operator)| {
            let is_paused = told.leave(&operator.task.hash) == Leave::Paused;
            is_paused && !matches!(standing(&known.search(operator)).phase, Phase::Ended(_))
        })
    }

    /// How many attempts are closed.
    pub(crate) fn made(&self) -> usize {
        self.searches.iter().map(|known| known.attempts.len()).sum()
    }

    /// What was tried at a task.
    pub(crate) fn attempts(&self, task: usize) -> &[Attempt] {
        &self.searches[task].attempts
    }

    /// The best kernel of a task, and whether it may still be replaced.
    pub(crate) fn best(&self, task: usize, operator: &Operator) -> (Option<u32>, bool) {
        let known = &self.searches[task];
        let phase = standing(&known.search(operator)).phase;
        let is_over = known.in_flight.is_empty() && matches!(phase, Phase::Ended(_));
        (best(&known.attempts).map(|attempt| attempt.seq), !is_over)
    }

    /// A task about whose search something becomes known.
    fn changed(&mut self, task: usize) -> &mut Known {
        let known = &mut self.searches[task];
        known.looked = None;
        known
    }

    /// An attempt is under way.
    pub(crate) fn begin(&mut self, task: usize, ask: Ask) {
        self.changed(task).in_flight.push(ask);
    }

    /// An attempt is closed.
    pub(crate) fn close(&mut self, task: usize, attempt: Attempt) {
        let known = self.changed(task);
        known.in_flight.retain(|ask| ask.seq != attempt.seq);
        let place = known.attempts.partition_point(|other| other.seq < attempt.seq);
        known.attempts.insert(place, attempt);
    }

    /// An attempt is given up for now, and its task with it.
    pub(crate) fn park(&mut self, task: usize, seq: u32, end: SearchEnd) {
        let known = self.changed(task);
        known.in_flight.retain(|ask| ask.seq != seq);
        known.ended = Some(end);
    }

    /// True where every task was given up for this reason.
    pub(crate) fn all_ended(&self, end: SearchEnd) -> bool {
        self.searches.iter().all(|known| known.ended == Some(end))
    }

    /// The end of a task's search, the first time that it is known.
    pub(crate) fn new_end(&mut self, task: usize, operator: &Operator) -> Option<SearchEnd> {
        let known = &mut self.searches[task];
        // What is under way may still change it.
        if !known.in_flight.is_empty() {
            return None;
        }
        match standing(&known.search(operator)).phase {
            Phase::Ended(end) if !std::mem::replace(&mut known.is_told, true) => Some(end),
            Phase::Ended(_) | Phase::Start | Phase::Search | Phase::Full => None,
        }
    }
}

impl Known {
    fn look(&mut self, bounds: Bounds, operator: &Operator) -> Look {
        match self.looked {
            Some((under, look)) if under == bounds => look,
            Some(_) | None => {
                let Bounds { limits, weight, ended } = bounds;
                let look = look(&Search { limits, weight, ended, ..self.search(operator) });
                self.looked = Some((bounds, look));
                look
            }
        }
    }

    fn search(&self, operator: &Operator) -> Search<'_> {
        Search {
            limits: operator.limits,
            weight: operator.weight,
            attempts: &self.attempts,
            in_flight: &self.in_flight,
            ended: self.ended,
            goal_ns: operator.goal_ns,
            purse: None,
        }
    }
}
