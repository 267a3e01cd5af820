//! Artifacts, caches, and several handles on one file.

use std::collections::BTreeMap;

use pipeline::admission::Admission;
use pipeline::attempt::State;
use pipeline::digest::Digest;
use pipeline::verdict::{Reason, Verdict};

use super::fixtures::{Ledger, advance, ask, open, report, start_run, start_run_with, task_hash};
use crate::{AdmissionKey, Chain, NewJudgement, NewTask, Store, StoreError};

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
async fn the_newest_look_at_a_task_is_kept() {
    let ledger = Ledger::new().await;
    let hash = task_hash();
    let files = BTreeMap::from([("task.toml".to_owned(), b"x".to_vec())]);
    let task = NewTask { hash: &hash, name: "softmax_rows", files: &files };
    let key = |judge: &[u8]| AdmissionKey {
        task: &hash,
        judge_hash: Digest::of_bytes(judge),
        toolchain_id: "nvrtc",
    };
    for deviations in [3, 0] {
        let found = Admission { deviations, ..Admission::default() };
        ledger.store.put_admission(&task, &key(b"a"), &found).await.unwrap();
        assert_eq!(ledger.store.admission(&key(b"a")).await.unwrap(), Some(found));
    }
    assert_eq!(ledger.store.admission(&key(b"b")).await.unwrap(), None);
    assert_eq!(ledger.count("SELECT count(*) FROM admission WHERE tier = 'weak'").await, 1);
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
async fn verdicts_are_found_again_by_key_and_toolchain() {
    let ledger = Ledger::new().await;
    let key = Digest::of_bytes(b"key");
    assert_eq!(ledger.store.verdict_of_eval_key(&key, "nvrtc").await.unwrap(), None);
    ledger.bring(1, State::Judged).await;
    let other = ledger.another().await;
    for (key, toolchain_id, known) in [
        (&key, "nvrtc", true),
        (&key, "nvrtc of tomorrow", false),
        (&key, "", false),
        (&Digest::of_bytes(b"no"), "nvrtc", false),
    ] {
        let found = other.verdict_of_eval_key(key, toolchain_id).await.unwrap();
        let wanted = known.then(|| (Verdict::correct(), report(5e8)));
        assert_eq!(found, wanted, "{toolchain_id}");
    }
    let run = start_run_with(&other, "nvrtc of tomorrow").await.unwrap();
    let id = open(&other, &run, &ask(1)).await.unwrap().id;
    for state in State::ALL.into_iter().filter(|state| (State::Sent..State::Closed).contains(state))
    {
        advance(&other, &id, state).await.unwrap();
    }
    let found = other.verdict_of_eval_key(&key, "nvrtc of tomorrow").await.unwrap();
    assert_eq!(found, Some((Verdict::correct(), report(5e8))));
}

/// Judges attempt `seq` as dangerous under the key `danger`.
async fn judge_dangerous(ledger: &Ledger, seq: u32, verdict: &Verdict) -> crate::Result<()> {
    let id = ledger.bring(seq, State::Built).await;
    let key = Digest::of_bytes(b"danger");
    let report = report(f64::from(seq));
    let new = NewJudgement {
        stage: report.stage,
        eval_key: None,
        verdict,
        report: Some(&report),
        from_cache: false,
        danger: Some(&key),
    };
    ledger.store.record_judged(&id, &new).await?;
    ledger.store.close_attempt(&id, verdict).await
}

#[tokio::test]
async fn dangers_keep_their_first_verdict_exactly() {
    let ledger = Ledger::new().await;
    let key = Digest::of_bytes(b"danger");
    assert_eq!(ledger.store.danger(&key).await.unwrap(), None);
    let guard = Verdict::failed(Reason::Guard, "Hung/TIMEOUT: 4 bytes past the end");
    judge_dangerous(&ledger, 1, &guard).await.unwrap();
    judge_dangerous(&ledger, 2, &Verdict::failed(Reason::Timeout, "5 s")).await.unwrap();
    let found = ledger.another().await.danger(&key).await.unwrap().unwrap();
    assert_eq!((found.verdict, found.key), (guard, key));
    assert_eq!(found.report, Some(report(1.0)));
    assert!(found.first_seen_us > 1_700_000_000_000_000);
}

#[tokio::test]
async fn a_danger_and_its_verdict_are_stored_together_or_not_at_all() {
    for table in ["danger", "evaluation"] {
        let ledger = Ledger::new().await;
        let refuse = format!(
            "CREATE TRIGGER t BEFORE INSERT ON {table} BEGIN SELECT RAISE(ABORT, 'x'); END"
        );
        ledger.sql(&refuse).await.unwrap();
        let judged = judge_dangerous(&ledger, 1, &Verdict::failed(Reason::Timeout, "5 s")).await;
        assert!(judged.is_err(), "{table}");
        assert_eq!(ledger.count("SELECT count(*) FROM danger").await, 0);
        assert_eq!(ledger.count("SELECT count(*) FROM evaluation").await, 0);
        let in_hand = ledger.store.attempt_in_hand(&ledger.run).await.unwrap().unwrap();
        assert_eq!(in_hand.state, State::Built);
    }
}

#[tokio::test]
async fn half_a_row_is_damage_not_a_default() {
    for tampering in [
        "UPDATE attempt SET detail = NULL",
        "UPDATE attempt SET plan = NULL",
        "UPDATE call SET finish_reason = NULL",
        "UPDATE call SET reply_model = NULL",
        "UPDATE call SET latency_ms = NULL",
        "UPDATE call SET reply = NULL",
        "UPDATE call SET error_class = 'deadline'",
    ] {
        let ledger = Ledger::new().await;
        ledger.bring(1, State::Closed).await;
        ledger.sql(tampering).await.unwrap();
        let read = ledger.store.closed_attempts(&ledger.run, &task_hash()).await;
        assert!(matches!(read, Err(StoreError::Damaged { .. })), "{tampering}: {read:?}");
    }
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
                store.mark_sent(&id).await.unwrap();
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
    let new = NewJudgement {
        stage: odd.stage,
        eval_key: None,
        verdict: &Verdict::correct(),
        report: Some(&odd),
        from_cache: false,
        danger: None,
    };
    let error = ledger.store.record_judged(&id, &new).await.unwrap_err();
    assert!(matches!(error, StoreError::Unstorable { .. }), "{error}");
    assert_eq!(ledger.store.attempt(&id).await.unwrap().state, State::Built);
}
