//! GPU-seconds that the steps of an acceptance reserve and book.

use std::sync::Arc;
use std::time::{Duration, Instant};

use agent::{CardPace, Desk, Pace};
use pipeline::card_time::bound_us;
use pipeline::report::Stage;
use store::Ended;

use super::{Ledger, Script, all, protocol, unhurried};
use crate::claims::card_pace::NO_CARD_TIME;
use crate::claims::carry::Carried;

fn paced(cap_us: u64, desk: &Arc<Desk>) -> Pace {
    let card_time = CardPace { cap_us: Some(cap_us), desk: Arc::clone(desk), books_on: None };
    Pace { card_time: Some(card_time), ..unhurried() }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_step_is_booked_at_what_it_took_and_reserves_nothing_afterwards() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(all())).await;
    let (desk, step_us) = (Arc::new(Desk::default()), bound_us(Stage::Accept));
    let (carried, _) = ledger.carry(&row, &Script::default(), &paced(2 * step_us, &desk)).await;
    assert!(matches!(carried.unwrap(), Carried::Ended(_, Ended::Claimed(_))));
    let booked = ledger.store.card_time(&row.run_id).await.unwrap();
    assert_eq!((booked.reserved_us, desk.holding()), (0, 0));
    assert!(booked.evaluations > 10 && booked.used_us < step_us, "{booked:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_step_begins_that_does_not_fit_beside_the_others() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(all())).await;
    let (desk, step_us) = (Arc::new(Desk::default()), bound_us(Stage::Accept));
    // Another look holds its reservation.
    let other = ledger.store.reserve_card(&row.attempt_id, Stage::Accept, step_us).await.unwrap();
    desk.note(&other, Instant::now(), step_us);
    let (carried, _) = ledger.carry(&row, &Script::default(), &paced(2 * step_us - 1, &desk)).await;
    let Carried::Deadline(left) = carried.unwrap() else { panic!() };
    assert!(left.ends_with(NO_CARD_TIME), "{left}");
    assert_eq!(ledger.store.entries(&row.id).await.unwrap(), Vec::new());
    ledger.store.release_card(&other, 0).await.unwrap();
    desk.forget(&other);
    let (carried, _) = ledger.carry(&row, &Script::default(), &paced(2 * step_us - 1, &desk)).await;
    assert!(matches!(carried.unwrap(), Carried::Ended(_, Ended::Claimed(_))));
}

#[tokio::test]
async fn what_overruns_is_given_up_only_where_the_limit_has_no_room() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(all())).await;
    let (desk, step_us) = (Desk::default(), bound_us(Stage::Accept));
    let hold = ledger.store.reserve_card(&row.attempt_id, Stage::Accept, step_us).await.unwrap();
    // It goes on for half as long again as it may.
    let began = Instant::now().checked_sub(Duration::from_micros(step_us * 3 / 2)).unwrap();
    desk.note(&hold, began, step_us);
    let moment = Duration::from_millis(700);
    for (cap_us, is_given_up) in [(10 * step_us, false), (step_us, true)] {
        let crossed = desk.until_crossed(&ledger.store, &row.run_id, cap_us);
        let ended = tokio::time::timeout(moment, crossed).await;
        assert_eq!(ended.is_ok(), is_given_up, "{cap_us}");
    }
}
