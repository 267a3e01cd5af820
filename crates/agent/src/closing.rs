//! Looks at the best kernels of a run, beside its search and after it: measurements, then claims.
//!
//! [`Engine::close`] is the loop, and it fits on a screen. What is looked at next, and how much of
//! the run's time is set aside for it, is decided by `pipeline::closing`. While somebody searches,
//! a look begins only where a card would be idle; what attempts and looks then want of one card
//! goes by the queue of its lease. Nothing here asks a model or costs a token.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use llm::Llm;
use pipeline::card_time::search_cap_us;
use pipeline::closing::{Best, Frame, Look, Operator as Known, Work, next, plan};
use pipeline::next_step::StopReason;
use pipeline::notice::Notice;
use pipeline::tell::{Leave, Told};
use store::RunId;
use tokio::task::JoinSet;

use crate::closer::{CardPace, Closer, Done, Looked, Pace};
use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;
use crate::limits::CLOSING_POLL_MS;

/// The looks of one process at one run.
pub(crate) struct Looks {
    closer: Arc<dyn Closer>,
    run: RunId,
    jobs: JoinSet<Ended>,
    in_hand: BTreeMap<usize, InHand>,
    /// What the ledger said, and of which kernels; empty where it is to be asked again.
    looked: Vec<Looked>,
    bests: Vec<Option<u32>>,
    /// Looks that were made here, with what came of them.
    made: BTreeMap<(Work, u32), Made>,
    from_us: i64,
    /// True where the run has no claim yet.
    awaits_first: bool,
    /// True once the run's time was over.
    is_cut: bool,
}

/// A look that is under way.
#[derive(Clone, Copy)]
struct InHand {
    work: Work,
    seq: u32,
    ends_us: i64,
    limits: Limits,
}

/// What came of a look that was made here.
#[derive(Clone, Copy)]
enum Made {
    Over(Look),
    /// It was stopped where the run's limits were these.
    Left(Limits),
}

/// The limits of a run that stop a look.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Limits {
    end_us: Option<i64>,
    gpu_us: Option<u64>,
}

pub(crate) struct Ended {
    place: usize,
    done: Result<Done, String>,
}

/// What came of the wish to begin looks.
#[derive(PartialEq, Eq)]
enum Turn {
    /// All lanes are taken, the cards are, or the run is paused.
    Later,
    /// There is nothing to look at, or no time.
    Nothing,
}

impl<L: Llm + Send + Sync + 'static> Engine<L> {
    /// Looks at best kernels until the search is over and nothing is left that there is time for.
    /// True where a person stopped it before.
    pub(crate) async fn close(self: Arc<Self>, mut looks: Looks) -> Result<bool, AgentError> {
        let interrupt = &self.claims.interrupt;
        loop {
            let told = self.told(&looks.run).await?;
            let is_over = !self.claims.shared.known().1.contains(&true);
            if told.leave_of_run() == Leave::Stopped && !interrupt.was_requested() {
                interrupt.request();
            }
            self.cut_off(&mut looks, &told);
            let turn = self.begin_looks(&mut looks, &told).await;
            let nothing = interrupt.was_requested() || (is_over && turn == Turn::Nothing);
            if looks.jobs.is_empty() && nothing {
                let by_a_person = !looks.is_cut && !interrupt.are_cards_spent();
                return Ok(interrupt.was_requested() && by_a_person);
            }
            tokio::select! {
                Some(ended) = looks.jobs.join_next() => {
                    let ended = ended.map_err(|error| AgentError::Worker(error.to_string()))?;
                    self.note_looked(&mut looks, ended);
                }
                () = self.claims.shared.changed.notified() => looks.looked.clear(),
                () = tokio::time::sleep(Duration::from_millis(CLOSING_POLL_MS)) => {}
            }
        }
    }

    /// What is looked at first, and time set aside for it; `None` where nobody looks.
    pub(crate) async fn looks(&self, run: &RunId) -> Result<Option<Looks>, AgentError> {
        let Some(closer) = self.claims.closer.clone() else { return Ok(None) };
        let summary = self.store.run_summary(run).await?;
        let best = |hash| summary.tasks.iter().find(|it| it.task.hash == hash)?.best_seq;
        let bests = self.operators.iter().map(|it| best(it.task.hash.clone())).collect();
        self.claims.shared.begin(bests);
        let mut looks = Looks {
            closer,
            run: run.clone(),
            jobs: JoinSet::new(),
            in_hand: BTreeMap::new(),
            looked: Vec::new(),
            bests: Vec::new(),
            made: BTreeMap::new(),
            from_us: self.store.now_us(),
            awaits_first: self.store.claims_of_run(run).await?.is_empty(),
            is_cut: false,
        };
        if !self.look(&mut looks).await {
            return Ok(None);
        }
        let told = self.told(run).await?;
        let (frame, operators) = (self.frame(&looks, &told), self.stands(&looks, &told));
        self.claims.shared.set_aside(plan(&frame, &operators).set_aside_ms * 1_000);
        Ok(Some(looks))
    }

    /// Waits for looks to end: with what there is time for where the search ended by itself, else
    /// after the step in hand. True where a person stopped them.
    pub(crate) async fn end_looks(
        &self,
        closing: &mut JoinSet<Result<bool, AgentError>>,
        end: &Result<RunEnd, AgentError>,
    ) -> Result<bool, AgentError> {
        match end {
            Ok(RunEnd::Interrupted | RunEnd::Finished(StopReason::TasksStopped)) | Err(_) => {
                self.claims.interrupt.request();
            }
            Ok(RunEnd::Finished(_) | RunEnd::Provider { .. } | RunEnd::InputEnded) => {}
        }
        self.claims.shared.search_is_over();
        match closing.join_next().await {
            Some(Ok(stopped)) => stopped,
            Some(Err(error)) => Err(AgentError::Worker(error.to_string())),
            None => Ok(false),
        }
    }

    /// What begins late ends with the run: nothing begins that is known to take longer.
    fn cut_off(&self, looks: &mut Looks, told: &Told) {
        let end_us = told.budget(self.budget).deadline_us;
        if !looks.is_cut && end_us.is_some_and(|end_us| end_us <= self.store.now_us()) {
            looks.is_cut = !self.claims.interrupt.was_requested();
            (0..2).for_each(|_| self.claims.interrupt.request());
        }
    }

    /// Asks the ledger what is known of the best kernels; false where it cannot say.
    async fn look(&self, looks: &mut Looks) -> bool {
        looks.bests = self.claims.shared.known().0;
        match looks.closer.look(&looks.bests).await {
            Ok(looked) => looks.looked = looked,
            Err(why) => {
                (self.observer)(Progress::Unlooked { why: &why });
                looks.looked.clear();
            }
        }
        looks.looked.len() == self.operators.len()
    }

    fn limits(&self, told: &Told) -> Limits {
        let budget = told.budget(self.budget);
        Limits { end_us: budget.deadline_us, gpu_us: budget.gpu_us_max }
    }

    fn frame(&self, looks: &Looks, told: &Told) -> Frame {
        Frame {
            from_us: looks.from_us,
            now_us: self.store.now_us(),
            end_us: told.budget(self.budget).deadline_us,
            lanes: looks.closer.lanes(),
            accepts: self.claims.accepts,
        }
    }

    /// The operators as the plan wants them.
    fn stands(&self, looks: &Looks, told: &Told) -> Vec<Known> {
        let now_us = self.store.now_us();
        let searching = self.claims.shared.known().1;
        let limits = self.limits(told);
        let of = |(place, looked): (usize, &Looked)| {
            let operator = &self.operators[place];
            let seq = looks.bests.get(place).copied().flatten();
            let in_hand = looks.in_hand.get(&place).filter(|it| Some(it.seq) != seq);
            let best = looked.best.zip(seq);
            let best = best.map(|(best, seq)| looks.made_of(place, seq, best, limits));
            let is_accept = |it: &InHand| matches!(it.work, Work::Accept(_));
            Known {
                weight: told.weight(&operator.task.hash, operator.weight),
                searching: searching.get(place).copied().unwrap_or(false),
                best,
                tried: looked.tried || in_hand.is_some_and(is_accept),
                outdated_ms: in_hand.map_or(0, |it| (it.ends_us - now_us).max(0) / 1_000),
                costs: looked.costs,
            }
        };
        looks.looked.iter().enumerate().map(of).collect()
    }

    /// Begins what there is time and a card for.
    async fn begin_looks(self: &Arc<Self>, looks: &mut Looks, told: &Told) -> Turn {
        if self.claims.interrupt.was_requested() {
            return Turn::Nothing;
        }
        if looks.looked.is_empty() && !self.look(looks).await {
            return Turn::Nothing;
        }
        loop {
            let (frame, operators) = (self.frame(looks, told), self.stands(looks, told));
            let planned = plan(&frame, &operators);
            self.claims.shared.set_aside(planned.set_aside_ms.saturating_mul(1_000));
            let in_hand = looks.in_hand.keys().copied().collect();
            let Some(work) = next(&frame, &planned, &operators, &in_hand) else {
                return Turn::Nothing;
            };
            let searched = operators.iter().any(|operator| operator.searching);
            let judging = if searched { self.pools.judging_now() } else { 0 };
            let busy = looks.jobs.len() + judging >= frame.lanes;
            if busy || told.leave_of_run() == Leave::Paused {
                return Turn::Later;
            }
            let Some(seq) = looks.bests[work.place()] else { return Turn::Nothing };
            let cap_us = cap_of(work, told.budget(self.budget).gpu_us_max, &operators);
            let limits = self.limits(told);
            self.begin_look(looks, &frame, (cap_us, limits), (work, seq, work.cost_ms(&operators)));
        }
    }

    fn begin_look(
        &self,
        looks: &mut Looks,
        frame: &Frame,
        (cap_us, limits): (Option<u64>, Limits),
        (work, seq, cost_ms): (Work, u32, i64),
    ) {
        let task = &self.operators[work.place()].task.spec.name;
        (self.observer)(Progress::Looking { task, seq, work, cost_ms });
        let left_us = frame.end_us.map(|end_us| end_us - frame.now_us);
        let left = left_us.map(|us| Duration::from_micros(u64::try_from(us).unwrap_or(0)));
        let pace = Pace {
            interrupt: self.claims.interrupt.clone(),
            cancel: None,
            deadline: left.and_then(|left| Instant::now().checked_add(left)),
            card_time: Some(CardPace {
                cap_us,
                desk: Arc::clone(&self.cards.desk),
                books_on: None,
            }),
        };
        let ends_us = frame.now_us.saturating_add(cost_ms.saturating_mul(1_000));
        looks.in_hand.insert(work.place(), InHand { work, seq, ends_us, limits });
        let (closer, place) = (Arc::clone(&looks.closer), work.place());
        looks
            .jobs
            .spawn(async move { Ended { place, done: closer.perform(work, seq, pace).await } });
    }

    fn note_looked(&self, looks: &mut Looks, ended: Ended) {
        looks.looked.clear();
        let Some(InHand { work, seq, limits, .. }) = looks.in_hand.remove(&ended.place) else {
            return;
        };
        let task = &self.operators[ended.place].task.spec.name;
        let done = ended.done.unwrap_or_else(Done::Without);
        (self.observer)(Progress::LookEnded { task, seq, work, done: &done });
        let came_to = match &done {
            Done::Quietly | Done::Claimed { .. } => Some(Made::Over(Look::Ended)),
            Done::Without(_) => Some(Made::Over(Look::GivenUp)),
            Done::Left(_) => Some(Made::Left(limits)),
            Done::Noisy(_) => None,
        };
        looks.made.extend(came_to.map(|it| ((work, seq), it)));
        if let Done::Claimed { claim, says } = done
            && std::mem::take(&mut looks.awaits_first)
        {
            self.notice(&Notice::FirstClaim { task: task.clone(), claim, says });
        }
    }
}

/// What a look may find used of a run's GPU-seconds: a claim leaves what it takes to measure each
/// best kernel.
fn cap_of(work: Work, cap_us: Option<u64>, operators: &[Known]) -> Option<u64> {
    let due = operators.iter().filter(|operator| operator.may_need_measurement()).count();
    match work {
        Work::Accept(_) if due > 0 => cap_us.map(|cap_us| search_cap_us(cap_us, due)),
        Work::Accept(_) | Work::Measure(_) => cap_us,
    }
}

impl Looks {
    /// What the ledger says of a kernel, and what was made of it here: no look is made twice, and
    /// one that the run's limits stopped goes on only under others.
    fn made_of(&self, place: usize, seq: u32, best: Best, limits: Limits) -> Best {
        let with = |known: Look, work: Work| match (known, self.made.get(&(work, seq))) {
            (Look::Due | Look::Again, Some(Made::Over(came_to))) => *came_to,
            (Look::Due | Look::Again, Some(Made::Left(then))) if *then == limits => Look::GivenUp,
            (Look::Due | Look::Again, Some(Made::Left(_)) | None) => known,
            (Look::Ended | Look::Noisy | Look::GivenUp, _) => known,
        };
        Best {
            measurement: with(best.measurement, Work::Measure(place)),
            acceptance: with(best.acceptance, Work::Accept(place)),
        }
    }
}
