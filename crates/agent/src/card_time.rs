//! GPU-seconds: reserved before an evaluation begins, booked at what it took when it has ended, and
//! given up when the run's limit would be crossed.
//!
//! The rules are in `pipeline::card_time`. On a simulator nothing is counted.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use judge::{JobStage, JudgeError, Judgement};
use llm::Llm;
use pipeline::budget::Budget;
use pipeline::card_time::{
    CardAdmission, Shares, Where, admission, bound_us, overrun_us, search_cap_us, used_us,
};
use pipeline::next_step::StopReason;
use pipeline::report::Stage;
use store::{AttemptRow, CardHold, RunId, Store};
use tokio::sync::Notify;

use crate::asking::Opening;
use crate::engine::{Engine, RunEnd};
use crate::error::AgentError;
use crate::limits::{ADMISSION_WAIT_MS, CARD_POLL_MS};

/// The evaluations of this process that hold, or wait for, a card.
#[derive(Debug, Default)]
pub struct Cards {
    /// Who sees them; `None` on a simulator, which holds none.
    at: Option<Where>,
    /// Kernels that are measured after the search, for which a part of the limit is kept.
    kept_for: usize,
    /// Who shares the cards now.
    shared: Arc<Shared>,
    pub(crate) desk: Arc<Desk>,
}

/// Where all that reserve time on cards for a run go: its search, and looks at its best kernels.
#[derive(Debug, Default)]
pub struct Desk {
    /// When each began, and what is reserved for it.
    open: Mutex<HashMap<CardHold, (Instant, u64)>>,
    /// Held from the look at what is booked until the next reservation is stored.
    turn: tokio::sync::Mutex<()>,
    freed: Notify,
}

/// The shares of those that hold, or wait for, a card of this machine.
#[derive(Debug)]
struct Shared {
    from: Instant,
    shares: Mutex<Shares>,
}

impl Shared {
    fn of_cards(cards: usize) -> Arc<Self> {
        Arc::new(Self { from: Instant::now(), shares: Mutex::new(Shares::of_cards(cards)) })
    }

    fn shares(&self) -> MutexGuard<'_, Shares> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Shared {
    fn default() -> Self {
        Self { from: Instant::now(), shares: Mutex::new(Shares::of_cards(1)) }
    }
}

/// A place among them, until it is dropped.
#[derive(Debug)]
struct Share {
    shared: Arc<Shared>,
    /// When it began, and the mark of that time.
    open: Option<(u64, u64)>,
}

impl Share {
    fn begin(shared: &Arc<Shared>) -> Self {
        let mut shares = shared.shares();
        let now_us = elapsed_us(shared.from);
        let open = Some((now_us, shares.begin(now_us)));
        drop(shares);
        Self { shared: Arc::clone(shared), open }
    }

    /// Gives the place up: how long it was held, and what of that was its share.
    fn end(&mut self) -> (u64, u64) {
        let Some((began_us, mark_us)) = self.open.take() else { return (0, 0) };
        let mut shares = self.shared.shares();
        let now_us = elapsed_us(self.shared.from);
        (now_us.saturating_sub(began_us), shares.end(now_us, mark_us))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.end();
    }
}

/// An evaluation that may begin.
#[derive(Debug)]
pub(crate) struct Held {
    hold: CardHold,
    stage: Stage,
    at: Where,
    share: Share,
}

impl Cards {
    /// So many cards that are held here or elsewhere, or none.
    #[must_use]
    pub fn new(at: Option<Where>, cards: usize) -> Self {
        Self { at, shared: Shared::of_cards(cards), ..Self::default() }
    }

    /// Keeps as much from the search as it takes to measure so many kernels at its end.
    pub fn keep_for(&mut self, kernels: usize) {
        self.kept_for = kernels;
    }

    /// What of a limit the search may use.
    fn search_cap_us(&self, budget: &Budget) -> Option<u64> {
        let cap_us = budget.gpu_us_max?;
        Some(match self.kept_for {
            0 => cap_us,
            kernels => search_cap_us(cap_us, kernels),
        })
    }
}

impl Desk {
    /// Waits for the turn to look at what is booked and to store a reservation.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// A reservation is stored.
    pub fn note(&self, hold: &CardHold, began: Instant, reserved_us: u64) {
        self.open().insert(hold.clone(), (began, reserved_us));
    }

    /// What it took is booked.
    pub fn forget(&self, hold: &CardHold) {
        self.open().remove(hold);
        self.freed.notify_waiters();
    }

    /// How many hold something that they may give back.
    #[must_use]
    pub fn holding(&self) -> usize {
        self.open().len()
    }

    /// True where what is in hand is about to overrun what is reserved for it by more than a limit
    /// has room for.
    ///
    /// # Errors
    /// Those of the ledger.
    async fn crosses(&self, store: &Store, run: &RunId, cap_us: u64) -> store::Result<bool> {
        let elapsed = |(began, reserved_us): &(Instant, u64)| (elapsed_us(*began), *reserved_us);
        let over_us = overrun_us(self.open().values().map(elapsed));
        if over_us == 0 {
            return Ok(false);
        }
        let booked_us = store.card_time(run).await?.total_us();
        Ok(admission(Some(cap_us), booked_us, over_us, 0) != CardAdmission::Fits)
    }

    /// Returns before what is in hand crosses a limit. What the ledger does not tell now it tells
    /// at the next look.
    pub async fn until_crossed(&self, store: &Store, run: &RunId, cap_us: u64) {
        while !matches!(self.crosses(store, run, cap_us).await, Ok(true)) {
            tokio::time::sleep(Duration::from_millis(CARD_POLL_MS)).await;
        }
    }

    /// A poisoned lock only means that another task panicked while it held a plain map.
    fn open(&self) -> MutexGuard<'_, HashMap<CardHold, (Instant, u64)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn elapsed_us(began: Instant) -> u64 {
    u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// The stage of a job, as it is reported.
pub(crate) fn stage_of(stage: &JobStage) -> Stage {
    match stage {
        JobStage::Search => Stage::Search,
        JobStage::Promote { .. } => Stage::Promote,
    }
}

impl<L: Llm + Sync> Engine<L> {
    /// Waits until an evaluation may begin, and makes its reservation durable; `None` where nothing
    /// is counted.
    ///
    /// # Errors
    /// `Cancelled` where the run is to stop, for want of GPU-seconds too.
    pub(crate) async fn hold_card(
        &self,
        attempt: &AttemptRow,
        stage: Stage,
    ) -> Result<Option<Held>, AgentError> {
        let Some(at) = self.cards.at else { return Ok(None) };
        let reserved_us = bound_us(stage);
        loop {
            let freed = self.cards.desk.freed.notified();
            let turn = self.cards.desk.turn().await;
            match self.card_admission(&attempt.run_id, reserved_us).await? {
                CardAdmission::Fits => {
                    let hold = self.store.reserve_card(&attempt.id, stage, reserved_us).await?;
                    let began = Instant::now();
                    self.cards.desk.note(&hold, began, reserved_us);
                    let share = Share::begin(&self.cards.shared);
                    return Ok(Some(Held { hold, stage, at, share }));
                }
                CardAdmission::Wait => {}
                CardAdmission::Spent => {
                    self.interrupt.note_cards_spent();
                    return Err(JudgeError::Cancelled.into());
                }
            }
            drop(turn);
            tokio::select! {
                () = freed => {}
                () = tokio::time::sleep(Duration::from_millis(ADMISSION_WAIT_MS)) => {}
                () = self.interrupt.requested() => return Err(JudgeError::Cancelled.into()),
            }
        }
    }

    /// Books what an evaluation took, however it ended.
    pub(crate) async fn release_card(
        &self,
        held: Option<Held>,
        judged: &Result<Judgement, AgentError>,
    ) -> Result<(), AgentError> {
        let Some(Held { hold, stage, at, mut share }) = held else { return Ok(()) };
        let report = judged.as_ref().ok().map(|judgement| &judgement.report);
        let used_us = used_us(at, stage, report, share.end());
        let released = self.store.release_card(&hold, used_us).await;
        self.cards.desk.forget(&hold);
        Ok(released?)
    }

    /// Whether an evaluation fits beside those that hold a card.
    async fn card_admission(
        &self,
        run: &RunId,
        wanted_us: u64,
    ) -> Result<CardAdmission, AgentError> {
        let Some(cap_us) = self.cards.search_cap_us(&self.budget_now(run).await?) else {
            return Ok(CardAdmission::Fits);
        };
        let booked_us = self.store.card_time(run).await?.total_us();
        Ok(admission(Some(cap_us), booked_us, wanted_us, self.cards.desk.holding()))
    }

    /// Why no question is asked now: no kernel could be judged beside those of the `in_hand`
    /// attempts that are still to come.
    pub(crate) async fn no_card_time(
        &self,
        run: &RunId,
        budget: &Budget,
        in_hand: usize,
    ) -> Result<Option<Opening>, AgentError> {
        let (Some(cap_us), Some(_)) = (self.cards.search_cap_us(budget), self.cards.at) else {
            return Ok(None);
        };
        let booked_us = self.store.card_time(run).await?.total_us();
        let to_come = in_hand.saturating_sub(self.cards.desk.holding()).saturating_add(1);
        // One of them at least can be promoted, too.
        let searches_us = bound_us(Stage::Search).saturating_mul(to_come as u64);
        let wanted_us = searches_us.saturating_add(bound_us(Stage::Promote));
        let others = in_hand.max(self.cards.desk.holding());
        Ok(match admission(Some(cap_us), booked_us, wanted_us, others) {
            CardAdmission::Fits => None,
            // What gives back may be a look, whose end wakes nobody here.
            CardAdmission::Wait => Some(self.next_look()),
            CardAdmission::Spent => {
                Some(Opening::Stop(RunEnd::Finished(StopReason::GpuSecondsSpent)))
            }
        })
    }
}

impl<L: Llm + Send + Sync + 'static> Engine<L> {
    /// Gives up what is in hand here before it crosses the limit, where it takes longer than what
    /// was reserved for it.
    pub(crate) fn watch_cards(self: &Arc<Self>, run: &RunId) -> tokio::task::JoinHandle<()> {
        let (engine, run) = (Arc::clone(self), run.clone());
        tokio::spawn(async move {
            if engine.budget.gpu_us_max.is_none() || engine.cards.at != Some(Where::Here) {
                return;
            }
            loop {
                tokio::time::sleep(Duration::from_millis(CARD_POLL_MS)).await;
                // What the ledger does not tell now it tells at the next look.
                let budget = engine.budget_now(&run).await;
                let cap_us = budget.ok().and_then(|budget| engine.cards.search_cap_us(&budget));
                let Some(cap_us) = cap_us else { continue };
                if matches!(engine.cards.desk.crosses(&engine.store, &run, cap_us).await, Ok(true))
                {
                    return engine.interrupt.expire_cards();
                }
            }
        })
    }
}
