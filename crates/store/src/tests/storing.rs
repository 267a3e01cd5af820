//! Artifacts, caches, and several handles on one file.

use pipeline::attempt::State;
use pipeline::digest::Digest;
use pipeline::verdict::Verdict;

use super::fixtures::{Ledger, ask, facts, open, report, start_run};
use crate::{Chain, Store, StoreError};

#[tokio::test]
async fn equal_artifacts_are_stored_once_and_large_ones_packed() {
    let ledger = Ledger::new().await;
    ledger.bring(1, State::Closed).await;
    let before = ledger.count("SELECT count(*) FROM artifact").await;
    ledger.bring(2, State::Closed).await;
    // Only the user message of the second attempt is new.
    assert_eq!(ledger.count("SELECT count(*) FROM artifact").await, before + 1);
    assert_eq!(ledger.count("SELECT count(*) FROM candidate").await, 1);
    assert_eq!(ledger.count("SELECT count(*) FROM build").await, 2);
    let packed = "SELECT length(bytes) FROM artifact WHERE codec = 'zstd'";
    assert!(ledger.count(packed).await < 1_000);
    let large = "SELECT count(*) FROM artifact WHERE codec = 'raw' AND size_bytes > 4096";
    assert_eq!(ledger.count(large).await, 0);
}

#[tokio::test]
async fn a_changed_artifact_is_damage() {
    for tampering in [
        "UPDATE artifact SET bytes = x'00'",
        "UPDATE artifact SET size_bytes = -1 WHERE codec = 'zstd'",
        "UPDATE artifact SET size_bytes = 1 WHERE codec = 'zstd'",
        "PRAGMA foreign_keys = off; DELETE FROM artifact",
        "UPDATE artifact SET bytes = x'ff', codec = 'zstd'",
    ] {
        let ledger = Ledger::new().await;
        let id = ledger.bring(1, State::Replied).await;
        ledger.sql(tampering).await.unwrap();
        let error = ledger.store.attempt(&id).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{tampering}: {error}");
    }
}

#[tokio::test]
async fn unknown_names_are_damage_not_guesses() {
    for tampering in [
        "UPDATE attempt SET mode = 'dream'",
        "UPDATE message SET role = 'oracle'",
        "UPDATE call SET usage = '{'",
        "UPDATE evaluation SET kind = 'Perfect'",
        "UPDATE evaluation SET stage = 'encore'",
        "UPDATE variant SET \"values\" = '[]'",
        "UPDATE call SET reserved_tokens = 0, latency_ms = -1",
    ] {
        let ledger = Ledger::new().await;
        let id = ledger.bring(1, State::Judged).await;
        ledger.sql(tampering).await.unwrap();
        let error = ledger.store.attempt(&id).await.unwrap_err();
        assert!(matches!(error, StoreError::Damaged { .. }), "{tampering}: {error}");
    }
}

#[tokio::test]
async fn verdicts_and_builds_are_found_again_by_key() {
    let ledger = Ledger::new().await;
    let (key, build) = (Digest::of_bytes(b"key"), Digest::of_bytes(b"build"));
    assert_eq!(ledger.store.verdict_of_eval_key(&key).await.unwrap(), None);
    assert_eq!(ledger.store.build_of_id(&build).await.unwrap(), None);
    ledger.bring(1, State::Judged).await;
    let other = ledger.another().await;
    let found = other.verdict_of_eval_key(&key).await.unwrap();
    assert_eq!(found, Some((Verdict::correct(), report(5e8))));
    let found = other.build_of_id(&build).await.unwrap().unwrap();
    assert_eq!((found.id, found.facts), (build, Some(facts())));
    assert_eq!(other.verdict_of_eval_key(&Digest::of_bytes(b"no")).await.unwrap(), None);
}

#[tokio::test]
async fn dangers_are_remembered_by_their_first_word() {
    let ledger = Ledger::new().await;
    let key = Digest::of_bytes(b"danger");
    assert_eq!(ledger.store.danger(&key).await.unwrap(), None);
    ledger.store.put_danger(&key, "hung for 5 s").await.unwrap();
    ledger.store.put_danger(&key, "other").await.unwrap();
    let found = ledger.another().await.danger(&key).await.unwrap().unwrap();
    assert_eq!((found.what.as_str(), found.key), ("hung for 5 s", key));
    assert!(found.first_seen_us > 1_700_000_000_000_000);
}

#[tokio::test]
async fn a_reader_sees_what_is_committed_while_another_writes() {
    let ledger = Ledger::new().await;
    let id = ledger.open(1).await.id;
    let reader = Store::open_read_only(&ledger.path()).await.unwrap();
    let mut work = ledger.store.write().await.unwrap();
    crate::tables::attempt::set_state(&mut work, &id, State::Sent).await.unwrap();
    assert_eq!(reader.attempt(&id).await.unwrap().state, State::Asked);
    assert_eq!(reader.run_summary(&ledger.run).await.unwrap().attempts, 1);
    work.commit().await.unwrap();
    assert_eq!(reader.attempt(&id).await.unwrap().state, State::Sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_of_several_runs_do_not_disturb_each_other() {
    let ledger = Ledger::new().await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let store = ledger.another().await;
        tasks.push(tokio::spawn(async move {
            let run = start_run(&store).await;
            for seq in 1..=10 {
                let id = open(&store, &run, &ask(seq)).await.unwrap().id;
                store.mark_sent(&id, "t").await.unwrap();
            }
            run
        }));
    }
    for task in tasks {
        let run = task.await.unwrap();
        let chain = ledger.store.verify_chain(&run).await.unwrap();
        assert!(matches!(chain, Chain::Intact { events: 21, .. }), "{chain:?}");
    }
}

#[tokio::test]
async fn a_number_that_would_not_come_back_is_refused() {
    let ledger = Ledger::new().await;
    let id = ledger.bring(1, State::Built).await;
    let odd = report(f64::NAN);
    let new = crate::NewJudgement {
        stage: odd.stage,
        eval_key: None,
        verdict: &Verdict::correct(),
        report: Some(&odd),
        from_cache: false,
    };
    let error = ledger.store.record_judged(&id, &new).await.unwrap_err();
    assert!(matches!(error, StoreError::Unstorable { .. }), "{error}");
    assert_eq!(ledger.store.attempt(&id).await.unwrap().state, State::Built);
}
