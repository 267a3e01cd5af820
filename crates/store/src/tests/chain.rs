//! The log of events: complete, in order, and showing what was changed.

use pipeline::attempt::State;

use super::fixtures::{Ledger, SETTINGS, advance, ask, open, start_run};
use crate::{Chain, Clock, RunState, Store};

const UNLOCK: &str = "DROP TRIGGER event_keeps_its_rows; DROP TRIGGER event_loses_no_rows;";

async fn full() -> Ledger {
    let ledger = Ledger::new().await;
    ledger.bring(1, State::Closed).await;
    ledger.store.finish_run(&ledger.run, RunState::Finished, "done").await.unwrap();
    ledger
}

#[tokio::test]
async fn every_change_is_one_event() {
    let ledger = full().await;
    ledger.store.reopen_run(&ledger.run, SETTINGS).await.unwrap();
    let kinds = ledger.event_kinds().await;
    let steps = State::ALL.map(State::name);
    let wanted = [&["run_started"][..], &steps, &["run_finished", "run_reopened"]].concat();
    assert_eq!(kinds, wanted);
    let chain = ledger.store.verify_chain(&ledger.run).await.unwrap();
    assert!(matches!(chain, Chain::Intact { events: 10, .. }), "{chain:?}");
}

#[tokio::test]
async fn events_cannot_be_changed_through_sql() {
    let ledger = full().await;
    for text in ["UPDATE event SET kind = 'x'", "DELETE FROM event"] {
        let error = ledger.sql(text).await.unwrap_err().to_string();
        assert!(error.contains("append-only"), "{error}");
    }
}

#[tokio::test]
async fn a_changed_chain_is_broken_at_the_first_changed_event() {
    for (tampering, seq) in [
        ("UPDATE event SET body = replace(body, '321', '320') WHERE kind = 'replied'", 4),
        ("UPDATE event SET kind = 'other' WHERE seq = 5", 5),
        ("UPDATE event SET hash = prev_hash WHERE seq = 6", 6),
        ("UPDATE event SET prev_hash = hash WHERE seq = 1", 1),
        ("DELETE FROM event WHERE seq = 3", 3),
        ("DELETE FROM event WHERE seq = 1", 1),
        ("DELETE FROM event WHERE seq = 9", 9),
        ("DELETE FROM event", 1),
        ("UPDATE event SET seq = 99 WHERE seq = 9", 9),
        (
            "INSERT INTO event SELECT run_id, 10, hash, hash, kind, body, created_us, origin
             FROM event WHERE seq = 9",
            10,
        ),
        ("UPDATE run SET event_count = 12", 10),
    ] {
        let ledger = full().await;
        ledger.sql(&format!("{UNLOCK} {tampering}")).await.unwrap();
        let chain = ledger.store.verify_chain(&ledger.run).await.unwrap();
        assert_eq!(chain, Chain::Broken { seq }, "{tampering}");
    }
}

#[tokio::test]
async fn rows_whose_owner_was_taken_out_are_found() {
    full().await.store.check_file().await.unwrap();
    for (tampering, table, owner) in [
        ("DELETE FROM run", "event", "run"),
        ("DELETE FROM attempt", "build", "attempt"),
        ("DELETE FROM task", "attempt", "task"),
    ] {
        let ledger = full().await;
        ledger.sql(&format!("PRAGMA foreign_keys = OFF; {tampering}")).await.unwrap();
        let error = ledger.store.check_file().await.unwrap_err().to_string();
        let words = format!("rows of `{table}` belong to a row of `{owner}` that is not there");
        assert!(error.contains(&words), "{tampering}: {error}");
    }
}

#[tokio::test]
async fn chains_of_runs_do_not_depend_on_each_other() {
    let ledger = Ledger::new().await;
    let other = start_run(&ledger.store).await;
    ledger.bring(1, State::Replied).await;
    open(&ledger.store, &other, &ask(1)).await.unwrap();
    ledger
        .sql(&format!("{UNLOCK} UPDATE event SET kind = 'x' WHERE run_id = '{other}'"))
        .await
        .unwrap();
    let chain = ledger.store.verify_chain(&ledger.run).await.unwrap();
    assert!(matches!(chain, Chain::Intact { events: 4, .. }), "{chain:?}");
    assert_eq!(ledger.store.verify_chain(&other).await.unwrap(), Chain::Broken { seq: 1 });
    let unknown = ledger.store.verify_chain(&"nobody".to_owned().into()).await;
    assert!(unknown.is_err());
}

#[tokio::test]
async fn the_same_run_on_the_same_clock_has_the_same_chain() {
    let folder = tempfile::tempdir().unwrap();
    let mut heads = Vec::new();
    for name in ["a.db", "b.db"] {
        let clock = Clock::scripted(1_700_000_000_000_000);
        let store = Store::open_with(&folder.path().join(name), clock).await.unwrap();
        let run = start_run(&store).await;
        let id = open(&store, &run, &ask(1)).await.unwrap().id;
        for state in State::ALL.into_iter().skip(1) {
            advance(&store, &id, state).await.unwrap();
        }
        heads.push((run.clone(), store.verify_chain(&run).await.unwrap()));
    }
    assert_eq!(heads[0], heads[1]);
}
