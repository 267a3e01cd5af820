//! What people decide about claims, and what tampering with it shows.

use pipeline::attempt::State;
use pipeline::comparison::Suspicion;
use serde_json::json;

use super::claiming::{Claimed, begin, carry, claimed};
use super::fixtures::Ledger;
use crate::tables::event;
use crate::{
    CheckOutcome, ClaimState, Decision, Ended, NewCheck, Purpose, Ruling, Store, StoreError,
};

/// Decisions one after the other, each with whether the claim is approved then.
const STEPS: [(Decision, &str, &str, bool); 3] = [
    (Decision::Accepted, "looks right", "ada", true),
    (Decision::Rejected, "the baseline was old", "bob", false),
    (Decision::Accepted, "measured again", "ada", true),
];

#[tokio::test]
async fn the_last_decision_about_a_claim_stands_and_each_is_in_the_log() {
    let Claimed { ledger, .. } = claimed().await;
    let store = &ledger.store;
    let claim = store.claims().await.unwrap().remove(0);
    assert!(claim.approvals.is_empty() && !claim.is_approved());
    for (decision, reason, reviewer, approved) in STEPS {
        store.review_claim(&claim.id, decision, Ruling { reason, reviewer }).await.unwrap();
        assert_eq!(store.claim(claim.id.as_str()).await.unwrap().is_approved(), approved);
    }
    let kinds = ledger.event_kinds().await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "claim_reviewed").count(), 3);
    let query = "SELECT count(*) FROM event WHERE kind = 'claim_reviewed'
                 AND json_extract(body, '$.reviewer') = 'bob'
                 AND json_extract(body, '$.decided_us') > 0";
    assert_eq!(ledger.count(query).await, 1);
    assert!(store.verify_run(&ledger.run).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_changed_decision_is_found() {
    const UNLOCK: &str =
        "DROP TRIGGER approval_keeps_its_rows; DROP TRIGGER approval_loses_no_rows;";
    for (tampering, word) in [
        ("UPDATE approval SET reviewer = 'eve' WHERE position = 1", "`reviewer`"),
        ("UPDATE approval SET decision = 'accepted' WHERE position = 1", "`decision`"),
        ("UPDATE approval SET reason = 'x' WHERE position = 2", "`reason`"),
        ("UPDATE approval SET decided_us = 1 WHERE position = 2", "`decided_us`"),
        ("DELETE FROM approval WHERE position = 2", "missing"),
        ("UPDATE claim SET claim = (SELECT conclusion FROM acceptance)", "`hash`"),
        (
            "INSERT INTO approval SELECT claim_id, 3, decision, reason, reviewer, decided_us,
             origin FROM approval WHERE position = 0",
            "claim_reviewed",
        ),
    ] {
        let Claimed { ledger, .. } = claimed().await;
        let claim = ledger.store.claims().await.unwrap().remove(0);
        for (decision, reason, reviewer, _) in STEPS {
            let ruling = Ruling { reason, reviewer };
            ledger.store.review_claim(&claim.id, decision, ruling).await.unwrap();
        }
        let only_adds = ["claim_reviewed", "`hash`"].contains(&word);
        assert!(only_adds || ledger.sql(tampering).await.is_err(), "{tampering}");
        ledger.sql(&format!("{UNLOCK} {tampering}")).await.unwrap();
        let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
        assert!(found.what.contains(word), "{tampering}: {}", found.what);
    }
}

/// What is decided about is looked at in the transaction that decides.
#[tokio::test]
async fn nothing_is_decided_twice_or_after_its_end() {
    let Claimed { ledger, id } = claimed().await;
    let store = &ledger.store;
    let claim = store.claims().await.unwrap().remove(0).id;
    let ruling = Ruling { reason: "fine", reviewer: "ada" };
    store.review_claim(&claim, Decision::Accepted, ruling).await.unwrap();
    let again = store.review_claim(&claim, Decision::Accepted, ruling).await.unwrap_err();
    assert!(matches!(&again, StoreError::NotWaiting { what } if what.contains("accepted")));
    let detail = "not reproduced";
    let new = NewCheck {
        acceptance: &id,
        claim: Some(&claim),
        bundle: None,
        outcome: CheckOutcome::NotReproduced,
        detail,
        becomes: Some(ClaimState::Withdrawn),
    };
    store.record_check(&new).await.unwrap();
    let late = store.review_claim(&claim, Decision::Rejected, ruling).await.unwrap_err();
    assert!(matches!(&late, StoreError::NotWaiting { what } if what.contains("withdrawn")));
    assert_eq!(store.claim(claim.as_str()).await.unwrap().approvals.len(), 1);
    assert!(store.verify_run(&ledger.run).await.unwrap().is_ok());
}

/// Who reads an older ledger first brings it up to date, and then sees all of it.
#[tokio::test]
async fn what_waits_in_an_older_ledger_is_seen_at_once() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let id = begin(&ledger.store, &attempt, Purpose::Claim).await;
    carry(&ledger.store, &id, Some(Suspicion::Physics)).await;
    let older = "DROP TABLE approval; ALTER TABLE review DROP COLUMN reviewer;
                 DELETE FROM _sqlx_migrations WHERE version = 5; UPDATE meta SET schema = 4";
    ledger.sql(older).await.unwrap();
    ledger.store.close().await;
    let store = Store::open_read_only(&ledger.path()).await.unwrap();
    let waiting = store.reviews().await.unwrap();
    assert_eq!(waiting.iter().map(|row| &row.acceptance_id).collect::<Vec<_>>(), [&id]);
}

/// A decision of a program that kept no names has none, and gets none later.
#[tokio::test]
async fn a_decision_of_an_older_program_cannot_be_signed_afterwards() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let id = begin(&ledger.store, &attempt, Purpose::Claim).await;
    let ended = carry(&ledger.store, &id, Some(Suspicion::Physics)).await;
    assert_eq!(ended, Ended::Waits);
    // As migration 0004 stored it.
    let decided = "UPDATE review SET decision = 'rejected', note = 'n', decided_us = 1";
    ledger.sql(decided).await.unwrap();
    let mut work = ledger.store.write().await.unwrap();
    let body = json!({ "acceptance": id.as_str(), "decision": "rejected", "note": "n" });
    event::append(&mut work, &ledger.run, "review_decided", &body).await.unwrap();
    work.commit().await.unwrap();
    assert!(ledger.store.verify_run(&ledger.run).await.unwrap().is_ok());
    ledger.sql("UPDATE review SET reviewer = 'ada'").await.unwrap();
    let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
    assert!(found.what.contains("`reviewer`"), "{}", found.what);
}

/// Ids begin with their time: those of a run and of its claims are alike for the most part.
#[tokio::test]
async fn the_start_of_a_claims_id_is_not_taken_before_a_runs() {
    let Claimed { ledger, id: _ } = claimed().await;
    let store = &ledger.store;
    let claims = store.claims_of_run(&ledger.run).await.unwrap();
    let (claim, run) = (claims[0].id.as_str(), ledger.run.as_str());
    let same = claim.bytes().zip(run.bytes()).take_while(|(a, b)| a == b).count();
    let said = store.claim_unless_run(&claim[..same]).await.unwrap_err().to_string();
    assert!(said.contains(&format!("claim {claim} of sum #1")), "{said}");
    assert!(said.contains(&format!("run {run}")) && said.contains("give more"), "{said}");
    for (selector, is_claim) in [(&claim[..=same], true), (claim, true), (run, false), ("", false)]
    {
        let found = store.claim_unless_run(selector).await.unwrap();
        assert_eq!(found.is_some(), is_claim, "{selector}");
    }
    let many: Vec<_> = (0..10).map(|n| format!("run {n}")).collect();
    let said = StoreError::ambiguous("0", &many).to_string();
    assert!(said.contains("run 7 and 2 more") && !said.contains("run 8"), "{said}");
}
