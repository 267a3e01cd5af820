//! What a run is told: kept, numbered, without secrets, and found when somebody changes it.

use pipeline::digest::Digest;
use pipeline::scrub::{Private, Scrubber};
use pipeline::tell::{Added, Said};

use super::fixtures::{Ledger, task_hash};
use crate::StoreError;
use crate::limits::HINTS_PENDING_MAX;

#[tokio::test]
async fn what_a_run_is_told_reads_back_in_order_with_an_event_each() {
    let ledger = Ledger::new().await;
    let (store, run, task) = (&ledger.store, &ledger.run, task_hash());
    let said = [
        (None, Said::Pause),
        (Some(&task), Said::Weight(3.0)),
        (Some(&task), Said::Hint("use mma".to_owned())),
        (None, Said::Add(Added { nusd: 50, ..Added::default() })),
        (Some(&task), Said::Shown { hint: 2, seq: 4 }),
    ];
    for (position, (task, said)) in (0..).zip(&said) {
        assert_eq!(store.tell(run, *task, said, "ada").await.unwrap(), position);
    }
    let rows = store.tells(run).await.unwrap();
    let found: Vec<_> = rows.iter().map(|row| (row.task.as_ref(), row.said.clone())).collect();
    assert_eq!(found, said);
    assert!(rows.iter().all(|row| row.teller == "ada" && row.told_us > 0));
    let kinds = ledger.event_kinds().await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "told").count(), said.len());
    assert!(store.verify_run(run).await.unwrap().is_ok());
    let stranger = store.tell(run, Some(&Digest::of_bytes(b"x")), &Said::Stop, "ada").await;
    assert!(matches!(stranger, Err(StoreError::Unstorable { .. })));
}

/// Rows as `said`, from a position on, as fast as they can be written.
async fn fill(ledger: &Ledger, said: &str, from: u32, count: u32) {
    let text = format!(
        "WITH RECURSIVE n(at) AS (SELECT {from} UNION ALL SELECT at + 1 FROM n WHERE at + 1 < {})
         INSERT INTO tell SELECT '{}', at, '{}', {said}, 'ada', 1, 'here' FROM n",
        from + count,
        ledger.run,
        task_hash()
    );
    ledger.sql(&text).await.unwrap();
}

#[tokio::test]
async fn only_hints_that_wait_are_too_many_and_a_run_hears_all_the_rest() {
    let ledger = Ledger::new().await;
    let (store, run, task) = (&ledger.store, &ledger.run, task_hash());
    let hint = Said::Hint("more".to_owned());
    let max = u32::try_from(HINTS_PENDING_MAX).unwrap();
    // Shown ones do not count, however many they are.
    fill(&ledger, r#"'{"hint":"x"}'"#, 0, 9 * max).await;
    let shown = format!(r#"json_object('shown', json_object('hint', at - {}, 'seq', 1))"#, 9 * max);
    fill(&ledger, &shown, 9 * max, 9 * max).await;
    assert_eq!(store.tell(run, Some(&task), &hint, "ada").await.unwrap(), 18 * max);
    fill(&ledger, r#"'{"hint":"x"}'"#, 18 * max + 1, max - 1).await;
    let refused = store.tell(run, Some(&task), &hint, "ada").await.unwrap_err();
    assert!(refused.to_string().contains("1000 hints wait for a prompt"), "{refused}");
    let shown = Said::Shown { hint: 18 * max, seq: 9 };
    for (about, said) in [(Some(&task), &shown), (None, &Said::Pause), (None, &Said::Stop)] {
        store.tell(run, about, said, "ada").await.unwrap();
    }
    assert_eq!(store.tells_from(run, 19 * max).await.unwrap().len(), 3);
    // One was shown, so that there is room again.
    store.tell(run, Some(&task), &hint, "ada").await.unwrap();
}

#[tokio::test]
async fn a_hint_is_stored_without_secrets() {
    let ledger = Ledger::new().await;
    let secret = Private::secret("the key", "tr0ub4dor-and-three").unwrap();
    let store = ledger.another().await.with_scrubber(Scrubber::new(vec![secret]));
    let said = Said::Hint("my key is tr0ub4dor-and-three".to_owned());
    store.tell(&ledger.run, None, &said, "ada").await.unwrap();
    let Said::Hint(text) = store.tells(&ledger.run).await.unwrap().remove(0).said else { panic!() };
    assert!(text.starts_with("my key is") && !text.contains("tr0ub4dor"), "{text}");
    let query = "SELECT count(*) FROM event WHERE body LIKE '%tr0ub4dor%'";
    assert_eq!(ledger.count(query).await, 0);
}

#[tokio::test]
async fn a_changed_word_is_found() {
    const UNLOCK: &str = "DROP TRIGGER tell_keeps_its_rows; DROP TRIGGER tell_loses_no_rows;";
    for (tampering, word) in [
        ("UPDATE tell SET teller = 'eve' WHERE position = 1", "`teller`"),
        ("UPDATE tell SET said = '\"stop\"' WHERE position = 1", "`said`"),
        ("UPDATE tell SET task_hash = (SELECT hash FROM task) WHERE position = 0", "`task`"),
        ("UPDATE tell SET told_us = 1 WHERE position = 1", "`told_us`"),
        ("DELETE FROM tell WHERE position = 1", "missing"),
        (
            "INSERT INTO tell SELECT run_id, 2, task_hash, said, teller, told_us, origin
             FROM tell WHERE position = 0",
            "told",
        ),
    ] {
        let ledger = Ledger::new().await;
        for said in [Said::Pause, Said::Resume] {
            ledger.store.tell(&ledger.run, None, &said, "ada").await.unwrap();
        }
        assert!(word == "told" || ledger.sql(tampering).await.is_err(), "{tampering}");
        ledger.sql(&format!("{UNLOCK} {tampering}")).await.unwrap();
        let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
        assert!(found.what.contains(word), "{tampering}: {}", found.what);
    }
}
