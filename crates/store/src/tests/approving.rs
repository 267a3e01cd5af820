//! What people decide about claims, and what tampering with it shows.

use super::claiming::{Claimed, claimed};
use crate::{Decision, Ruling};

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
        let only_adds = word == "claim_reviewed";
        assert!(only_adds || ledger.sql(tampering).await.is_err(), "{tampering}");
        ledger.sql(&format!("{UNLOCK} {tampering}")).await.unwrap();
        let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
        assert!(found.what.contains(word), "{tampering}: {}", found.what);
    }
}
