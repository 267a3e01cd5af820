//! Runs: finding them, their ends, their numbers, their secrets.

use pipeline::attempt::State;
use pipeline::report::Stage;
use pipeline::transcript::Usage;
use pipeline::verdict::{Kind, Reason, Verdict};

use super::fixtures::{
    Ledger, RESERVED, SETTINGS, TARGET, advance, ask, files, open, reply, start_run, task_hash,
    try_start_run,
};
use crate::{Booking, CallFailure, RunKind, RunState, RunTask, StoreError};

#[tokio::test]
async fn a_run_comes_back_as_it_was_started() {
    let ledger = Ledger::new().await;
    let row = ledger.store.run(&ledger.run).await.unwrap();
    assert_eq!((row.kind, row.state), (RunKind::Auto, RunState::Running));
    assert_eq!(row.tasks, [RunTask { hash: task_hash(), name: "sum".to_owned() }]);
    assert_eq!((row.settings_json.as_str(), row.ended_us), (SETTINGS, None));
    assert_eq!(ledger.store.task_files(&task_hash()).await.unwrap(), files());
    let unknown = ledger.store.task_files(&task_hash().to_string()[1..].to_owned().into()).await;
    assert!(matches!(unknown, Err(StoreError::UnknownTask { .. })));
    ledger.store.finish_run(&ledger.run, RunState::Stopped, "interrupted").await.unwrap();
    let ended = ledger.store.run(&ledger.run).await.unwrap();
    assert_eq!((ended.state, ended.reason.as_deref()), (RunState::Stopped, Some("interrupted")));
    assert!(ended.ended_us >= Some(row.started_us));
    ledger.store.reopen_run(&ledger.run, SETTINGS).await.unwrap();
    assert_eq!(ledger.store.run(&ledger.run).await.unwrap(), row);
}

#[tokio::test]
async fn selectors_name_exactly_one_run() {
    let ledger = Ledger::new().await;
    let (store, first) = (&ledger.store, &ledger.run);
    let second = start_run(store).await;
    let same = first.as_str().bytes().zip(second.as_str().bytes());
    let common = same.take_while(|(a, b)| a == b).count();
    for (selector, wanted) in [
        ("@last", &second),
        (first.as_str(), first),
        (&first.as_str()[..common + 1], first),
        (&second.as_str()[..common + 1], &second),
    ] {
        assert_eq!(&store.resolve_run(selector).await.unwrap(), wanted, "{selector}");
    }
    let ambiguous = store.resolve_run(&first.as_str()[..common]).await.unwrap_err();
    let said = ambiguous.to_string();
    assert!(matches!(ambiguous, StoreError::Ambiguous { .. }), "{said}");
    assert!(said.contains(&format!("run {first}")) && said.contains(&format!("run {second}")));
    for selector in ["", "%", "nobody", "@first"] {
        let unknown = store.resolve_run(selector).await.unwrap_err();
        assert!(matches!(unknown, StoreError::UnknownRun { .. }), "{unknown}");
    }
    let listed = store.list_runs().await.unwrap();
    assert_eq!(listed.iter().map(|row| &row.id).collect::<Vec<_>>(), [&second, first]);
    let nobody = "nobody".to_owned().into();
    assert!(store.finish_run(&nobody, RunState::Failed, "x").await.is_err());
    assert!(store.run(&nobody).await.is_err());
}

#[tokio::test]
async fn a_run_is_born_with_its_seeds_and_they_are_in_no_event() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    assert_eq!(store.secret_seeds(&ledger.run).await.unwrap().as_deref(), Some("[424242]"));
    let shown = "SELECT count(*) FROM event WHERE body LIKE '%424242%'";
    assert_eq!(ledger.count(shown).await, 0);
}

/// A run without its seeds could never be resumed.
#[tokio::test]
async fn a_run_whose_seeds_cannot_be_stored_does_not_exist() {
    let ledger = Ledger::new().await;
    let refuse =
        "CREATE TRIGGER t BEFORE INSERT ON secret_seed BEGIN SELECT RAISE(ABORT, 'x'); END";
    ledger.sql(refuse).await.unwrap();
    assert!(try_start_run(&ledger.store).await.is_err());
    assert_eq!(ledger.count("SELECT count(*) FROM run").await, 1);
}

#[tokio::test]
async fn settings_change_with_an_event_or_not_at_all() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    store.reopen_run(&ledger.run, SETTINGS).await.unwrap();
    assert_eq!(ledger.event_kinds().await, ["run_started", "run_reopened"]);
    store.reopen_run(&ledger.run, "{\"attempts\":9}").await.unwrap();
    let kinds = ["run_started", "run_reopened", "run_reopened", "settings_changed"];
    assert_eq!(ledger.event_kinds().await, kinds);
    let read = || async { store.run(&ledger.run).await.unwrap().settings_json };
    assert_eq!(read().await, "{\"attempts\":9}");
    let refuse = "CREATE TRIGGER t BEFORE INSERT ON event WHEN NEW.kind = 'settings_changed'
                  BEGIN SELECT RAISE(ABORT, 'x'); END";
    ledger.sql(refuse).await.unwrap();
    assert!(store.reopen_run(&ledger.run, "{}").await.is_err());
    assert_eq!(ledger.event_kinds().await, kinds);
    assert_eq!(read().await, "{\"attempts\":9}");
    let chain = store.verify_chain(&ledger.run).await.unwrap();
    assert!(matches!(chain, crate::Chain::Intact { events: 4, .. }), "{chain:?}");
}

#[tokio::test]
async fn the_summary_adds_up() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    ledger.bring(1, State::Closed).await;
    let second = ledger.open(2).await.id;
    store.mark_sent(&second).await.unwrap();
    store.mark_lost(&second, "deadline", "late").await.unwrap();
    store.reopen_call(&second, RESERVED, TARGET).await.unwrap();
    let counted = CallFailure {
        paid: Some((Usage::of(5, 6), Some(7))),
        ..CallFailure::unpaid("rate_limited", "429")
    };
    store.fail_call(&second, counted).await.unwrap();
    store.reopen_call(&second, RESERVED, TARGET).await.unwrap();
    store.mark_sent(&second).await.unwrap();
    store.settle_reply(&second, &reply("no fences")).await.unwrap();
    store.close_attempt(&second, &Verdict::failed(Reason::Reply, "no fence")).await.unwrap();
    ledger.open(3).await;
    let summary = store.run_summary(&ledger.run).await.unwrap();
    assert_eq!((summary.attempts, summary.closed, summary.tasks[0].best_seq), (3, 2, Some(1)));
    assert_eq!(summary.verdicts, [(Kind::Malformed, 1), (Kind::Correct, 1)]);
    assert_eq!(summary.usage, Usage::of(140, 60));
    let bookings = summary.bookings;
    assert_eq!(bookings.settled, Booking { calls: 2, tokens: 200, nusd: 642 });
    assert_eq!(bookings.lost, Booking { calls: 1, tokens: 1_000, nusd: 500 });
    assert_eq!(bookings.reserved, Booking { calls: 1, tokens: 1_000, nusd: 500 });
    assert_eq!(bookings.failed, Booking { calls: 1, tokens: 11, nusd: 7 });
    assert_eq!(summary.drifted, 2);
    assert_eq!(bookings.total(), Booking { calls: 5, tokens: 2_211, nusd: 642 + 500 + 500 + 7 });
    assert_eq!(store.bookings(&ledger.run).await.unwrap(), bookings);
    let third = store.attempt_in_hand(&ledger.run).await.unwrap().unwrap();
    store.mark_sent(&third.id).await.unwrap();
    let again = store.run_summary(&ledger.run).await.unwrap();
    assert_eq!(again.bookings.reserved, bookings.reserved);
}

#[tokio::test]
async fn an_empty_run_has_an_empty_summary() {
    let ledger = Ledger::new().await;
    let other = start_run(&ledger.store).await;
    let id = open(&ledger.store, &other, &ask(1)).await.unwrap().id;
    advance(&ledger.store, &id, State::Sent).await.unwrap();
    let summary = ledger.store.run_summary(&ledger.run).await.unwrap();
    assert_eq!(
        (summary.attempts, summary.bookings.total().nusd, summary.tasks[0].best_seq),
        (0, 0, None)
    );
    assert!(ledger.store.attempt_in_hand(&ledger.run).await.unwrap().is_none());
    assert!(ledger.store.closed_attempts(&ledger.run, &task_hash()).await.unwrap().is_empty());
}

/// What is kept beside the rows is counted again by whoever verifies.
#[tokio::test]
async fn changed_sums_and_scores_are_found() {
    for (tampering, word) in [
        ("UPDATE run_total SET cost_nusd = cost_nusd - 1 WHERE state = 'settled'", "sums"),
        ("DELETE FROM run_total WHERE state = 'settled'", "sums"),
        (
            "INSERT INTO run_total SELECT run_id, 'lost', 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, origin
          FROM run_total WHERE state = 'settled'",
            "sums",
        ),
        ("UPDATE call SET cost_nusd = 0 WHERE state = 'settled'", "cost_nusd"),
        ("UPDATE run_task SET best_seq = NULL", "the best attempt"),
        ("UPDATE run_task SET best_seq = 2", "the best attempt"),
        ("UPDATE run_task SET folded_to = 0", "the best attempt"),
        // What comes next would not be seen.
        ("UPDATE run_task SET folded_to = 2", "the best attempt"),
        ("UPDATE task_money SET nusd = nusd + 1", "the money of each task"),
        ("DELETE FROM task_money", "the money of each task"),
        ("UPDATE task_card_time SET used_us = used_us - 1", "the time on cards of each task"),
        ("UPDATE task_card_time SET evaluations = 2", "the time on cards of each task"),
        ("DELETE FROM task_card_time", "the time on cards of each task"),
        ("UPDATE evaluation SET score = '7'", "does not read back"),
        (
            "UPDATE evaluation SET score = replace(score, 'instructions\":', 'instructions\":1')",
            "score",
        ),
        ("UPDATE evaluation SET promotion = '{\"passed\":{\"ratio\":2.0}}'", "score"),
    ] {
        let ledger = Ledger::new().await;
        let id = ledger.bring(1, State::Closed).await;
        let hold = ledger.store.reserve_card(&id, Stage::Promote, 60).await.unwrap();
        ledger.store.release_card(&hold, 20).await.unwrap();
        assert!(ledger.store.verify_run(&ledger.run).await.unwrap().is_ok());
        ledger.sql(tampering).await.unwrap();
        let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
        assert!(found.what.contains(word), "{tampering}: {}", found.what);
    }
}

/// Rows of an older program have no score beside their report, which is read instead.
#[tokio::test]
async fn without_a_kept_score_the_report_is_read() {
    let ledger = Ledger::new().await;
    ledger.bring(1, State::Closed).await;
    let (store, run) = (&ledger.store, &ledger.run);
    let kept = store.outlines(run, &task_hash()).await.unwrap();
    assert!(kept[0].report.is_some());
    ledger.sql("UPDATE evaluation SET score = NULL, promotion = NULL").await.unwrap();
    assert_eq!(store.outlines(run, &task_hash()).await.unwrap(), kept);
    assert_eq!(store.run_summary(run).await.unwrap().tasks[0].best_seq, Some(1));
    assert!(store.verify_run(run).await.unwrap().is_ok());
}

/// The sums of an older ledger are made of its calls.
#[tokio::test]
async fn sums_of_an_older_ledger_are_those_of_its_calls() {
    let ledger = Ledger::new().await;
    ledger.bring(1, State::Closed).await;
    ledger.bring(2, State::Closed).await;
    let before = ledger.store.bookings(&ledger.run).await.unwrap();
    let migration = include_str!("../../../../migrations/sqlite/0011_sums.sql");
    let start = migration.find("INSERT INTO run_total").unwrap();
    let fill = &migration[start..start + migration[start..].find(';').unwrap()];
    ledger.sql(&format!("DELETE FROM run_total; {fill}")).await.unwrap();
    assert_eq!(ledger.store.bookings(&ledger.run).await.unwrap(), before);
    assert!(ledger.store.verify_run(&ledger.run).await.unwrap().is_ok());
}

/// What counts against a task is the same in an older ledger, and whatever is closed or has ended.
#[tokio::test]
async fn what_tasks_spent_is_kept_as_it_is_counted() {
    let ledger = Ledger::new().await;
    let (store, run) = (&ledger.store, &ledger.run);
    let counted = "SELECT sum(CASE WHEN state IN ('settled', 'failed') THEN cost_nusd
                       ELSE reserved_nusd END) FROM call";
    let times = "SELECT sum(coalesce(used_us, reserved_us)) FROM card_time";
    for (seq, reached, used_us) in [
        (1, State::Closed, Some(20)),
        (2, State::Sent, None),
        (3, State::Closed, Some(70)),
        (4, State::Judged, Some(5)),
        (5, State::Closed, None),
    ] {
        let id = ledger.bring(seq, reached).await;
        let hold = store.reserve_card(&id, Stage::Search, 600).await.unwrap();
        if let Some(used_us) = used_us {
            store.release_card(&hold, used_us).await.unwrap();
        }
        let spent = store.spent_of_tasks(run).await.unwrap();
        assert_eq!(spent, [(task_hash(), ledger.count(counted).await)], "{seq}");
        let time = store.card_time(run).await.unwrap();
        assert_eq!(time.total_us() as i64, ledger.count(times).await, "{seq}");
        assert_eq!(time.evaluations, u64::from(seq), "{seq}");
    }
    let before = (store.spent_of_tasks(run).await.unwrap(), store.card_time(run).await.unwrap());
    let migration = include_str!("../../../../migrations/sqlite/0012_task_sums.sql");
    for table in ["task_money", "task_card_time"] {
        let start = migration.find(&format!("INSERT INTO {table}")).unwrap();
        let fill = &migration[start..start + migration[start..].find(';').unwrap()];
        ledger.sql(&format!("DELETE FROM {table}; {fill}")).await.unwrap();
    }
    let after = (store.spent_of_tasks(run).await.unwrap(), store.card_time(run).await.unwrap());
    assert_eq!(after, before);
    assert!(store.verify_run(run).await.unwrap().is_ok());
}

#[tokio::test]
async fn the_best_is_known_in_whatever_order_attempts_are_closed() {
    let ledger = Ledger::new().await;
    let (store, run) = (&ledger.store, &ledger.run);
    let first = ledger.open(1).await.id;
    let best = async || store.run_summary(run).await.unwrap().tasks[0].best_seq;
    for seq in [2, 3] {
        ledger.bring(seq, State::Closed).await;
        assert_eq!(best().await, Some(2), "{seq}");
        assert_eq!(ledger.count("SELECT folded_to FROM run_task").await, 0);
    }
    for step in State::ALL.into_iter().skip(1) {
        advance(store, &first, step).await.unwrap();
    }
    // All have the same score: the first stands.
    assert_eq!(best().await, Some(1));
    assert_eq!(ledger.count("SELECT folded_to FROM run_task").await, 3);
    let found = store.best_outline(run, &task_hash()).await.unwrap();
    assert_eq!(found, store.outlines(run, &task_hash()).await.unwrap().into_iter().next());
    assert!(store.verify_run(run).await.unwrap().is_ok());
}
