//! GPU-seconds of a run that a step of an acceptance reserves, and books when it has ended.
//!
//! The rules are in `pipeline::card_time`; the search's side is in `agent`.

use std::sync::Arc;
use std::time::Instant;

use agent::{CardPace, Desk, Pace};
use pipeline::card_time::{CardAdmission, admission, bound_us};
use pipeline::report::Stage;
use store::{AcceptanceRow, CardHold, Store};
use tokio::task::JoinHandle;

/// Why a step does not begin.
pub(crate) const NO_CARD_TIME: &str = "no GPU-seconds are left for it";

/// Performs a step, and books the time for which it may have held a card where anything is
/// counted; `None` where there is none left for it.
pub(crate) async fn on_card<T>(
    pace: &Pace,
    store: &Store,
    row: &AcceptanceRow,
    perform: impl FnOnce() -> T,
) -> anyhow::Result<Option<T>> {
    let Some(held) = hold_card(pace, store, row).await? else { return Ok(None) };
    let done = tokio::task::block_in_place(perform);
    if let Some(held) = held {
        held.release(store).await?;
    }
    Ok(Some(done))
}

/// Time on a card that a step holds.
struct Held {
    hold: CardHold,
    desk: Arc<Desk>,
    began: Instant,
    alarm: Option<JoinHandle<()>>,
}

/// Reserves time on a card for a step, where anything is counted; the outer `None` says that there
/// is none left.
async fn hold_card(
    pace: &Pace,
    store: &Store,
    row: &AcceptanceRow,
) -> anyhow::Result<Option<Option<Held>>> {
    let Some(CardPace { cap_us, desk, books_on }) = &pace.card_time else { return Ok(Some(None)) };
    let (run, attempt) = match books_on {
        Some((run, attempt)) => (run, attempt),
        None => (&row.run_id, &row.attempt_id),
    };
    let wanted_us = bound_us(Stage::Accept);
    let turn = desk.turn().await;
    let booked_us = store.card_time(run).await?.total_us();
    match admission(*cap_us, booked_us, wanted_us, 0) {
        CardAdmission::Fits => {}
        CardAdmission::Wait | CardAdmission::Spent => return Ok(None),
    }
    let hold = store.reserve_card(attempt, Stage::Accept, wanted_us).await?;
    let began = Instant::now();
    desk.note(&hold, began, wanted_us);
    drop(turn);
    let alarm = cap_us.map(|cap_us| {
        let (desk, store, run) = (Arc::clone(desk), store.clone(), run.clone());
        let interrupt = pace.interrupt.clone();
        tokio::spawn(async move {
            desk.until_crossed(&store, &run, cap_us).await;
            interrupt.expire_cards();
        })
    });
    Ok(Some(Some(Held { hold, desk: Arc::clone(desk), began, alarm })))
}

impl Held {
    /// Books what the step took.
    async fn release(self, store: &Store) -> anyhow::Result<()> {
        if let Some(alarm) = self.alarm {
            alarm.abort();
        }
        let used_us = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        let released = store.release_card(&self.hold, used_us).await;
        self.desk.forget(&self.hold);
        Ok(released?)
    }
}
