//! Time on cards: booked like money, and found when somebody changes it.

use pipeline::attempt::State;
use pipeline::report::Stage;

use super::fixtures::{Ledger, task_hash};
use crate::{CardTime, StoreError};

#[tokio::test]
async fn what_was_reserved_counts_until_it_is_known_what_was_used() {
    let ledger = Ledger::new().await;
    let (store, run) = (&ledger.store, &ledger.run);
    let (one, other) = (ledger.open(1).await.id, ledger.open(2).await.id);
    let time = |used_us, reserved_us, evaluations| CardTime { used_us, reserved_us, evaluations };
    assert_eq!(store.card_time(run).await.unwrap(), CardTime::default());
    let hold = store.reserve_card(&one, Stage::Search, 600).await.unwrap();
    let lost = store.reserve_card(&other, Stage::Promote, 900).await.unwrap();
    assert_eq!(store.card_time(run).await.unwrap(), time(0, 1_500, 2));
    store.release_card(&hold, 20).await.unwrap();
    let found = store.card_time(run).await.unwrap();
    assert_eq!((found, found.total_us()), (time(20, 900, 2), 920));
    // An evaluation ends once, and the next one of the same attempt is another.
    let again = store.release_card(&hold, 1).await;
    assert!(matches!(again, Err(StoreError::Unstorable { .. })), "{again:?}");
    store.reserve_card(&one, Stage::Promote, 900).await.unwrap();
    // A program that comes later finds what the one before it never ended.
    let later = ledger.another().await;
    assert_eq!(later.card_time(run).await.unwrap(), time(20, 1_800, 3));
    assert_eq!(later.run_summary(run).await.unwrap().card_time, time(20, 1_800, 3));
    assert_eq!(later.card_time_of_tasks(run).await.unwrap(), [(task_hash(), time(20, 1_800, 3))]);
    later.release_card(&lost, 950).await.unwrap();
    assert_eq!(later.card_time(run).await.unwrap(), time(970, 900, 3));
    assert!(store.verify_run(run).await.unwrap().is_ok());
    let device = pipeline::device_facts::DeviceFacts::simulated_h200().model;
    assert_eq!(store.card_history(&device).await.unwrap(), (970, 2));
    assert_eq!(store.card_history("another").await.unwrap(), (0, 0));
}

#[tokio::test]
async fn a_changed_time_is_found() {
    for (tampering, word) in [
        ("UPDATE card_time SET used_us = 1 WHERE used_us = 20", "`used_us`"),
        ("UPDATE card_time SET reserved_us = 1", "`reserved_us`"),
        ("UPDATE card_time SET stage = 'accept'", "`stage`"),
        ("UPDATE card_time SET used_us = 5 WHERE used_us IS NULL", "card_released"),
        ("DELETE FROM card_time", "missing"),
    ] {
        let ledger = Ledger::new().await;
        let id = ledger.open(1).await.id;
        for used_us in [Some(20), None] {
            let hold = ledger.store.reserve_card(&id, Stage::Search, 60).await.unwrap();
            if let Some(used_us) = used_us {
                ledger.store.release_card(&hold, used_us).await.unwrap();
            }
        }
        assert!(ledger.store.verify_run(&ledger.run).await.unwrap().is_ok());
        ledger.sql(tampering).await.unwrap();
        let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
        assert!(found.what.contains(word), "{tampering}: {}", found.what);
    }
}

#[tokio::test]
async fn money_of_a_task_is_what_counts_against_a_cap() {
    let ledger = Ledger::new().await;
    assert_eq!(ledger.store.spent_of_tasks(&ledger.run).await.unwrap(), []);
    ledger.bring(1, State::Replied).await;
    ledger.bring(2, State::Sent).await;
    ledger.open(3).await;
    let lost = ledger.bring(4, State::Sent).await;
    ledger.store.mark_lost(&lost, "abandoned", "gone").await.unwrap();
    let total = ledger.store.bookings(&ledger.run).await.unwrap().total();
    let spent = ledger.store.spent_of_tasks(&ledger.run).await.unwrap();
    assert_eq!(spent, [(task_hash(), total.nusd)]);
    assert!(total.nusd > 1_500, "{total:?}");
}
