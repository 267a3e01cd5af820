//! What a reproduction does to a claim of this ledger, with a script in the judge's place.

use std::collections::BTreeMap;

use fleet::bundle::{Bundle, Hashes, Manifest};
use pipeline::acceptance::Entry;
use pipeline::digest::Digest;
use pipeline::reproduction::Reproduction;
use store::{ClaimRow, ClaimState, Purpose, Store};

use super::{Ledger, Script, all, protocol, unhurried};
use crate::commands::reproduce::settle;
use crate::outcome::Exit;

/// The bundle of a claim, as far as a reproduction's end looks at it.
async fn bundle_of(store: &Store, claim: &ClaimRow) -> Bundle {
    let row = store.acceptance(&claim.acceptance_id).await.unwrap();
    let none = Digest::of_bytes(b"");
    let manifest = Manifest {
        bundle: Manifest::VERSION,
        claim_id: claim.id.to_string(),
        program: String::new(),
        task: claim.task_name.clone(),
        claim: claim.claim.clone(),
        conclusion: row.conclusion.clone().unwrap(),
        review_note: None,
        protocol: row.protocol.clone(),
        seed: store.acceptance_seed(&row.id).await.unwrap(),
        inputs: Vec::new(),
        tunables: BTreeMap::new(),
        hashes: Hashes {
            source: none.clone(),
            plan: none.clone(),
            candidate: none.clone(),
            ptx: row.ptx_hash.clone(),
            cubin: row.cubin_hash.clone(),
            task: claim.task_hash.clone(),
            judge: row.judge_hash.clone(),
            toolchain_id: row.toolchain_id.clone(),
            eval_key: row.eval_key.clone(),
        },
        device_model: row.device_model.clone(),
        cards: Vec::new(),
        process: row.process.clone(),
        started_us: row.started_us,
        chain_head: claim.chain_head.clone(),
    };
    let entries = store.entries(&row.id).await.unwrap();
    let (source, plan) = (String::new(), String::new());
    Bundle { manifest, entries, source, plan, task_files: BTreeMap::new(), digest: none }
}

/// What somebody did to a bundle.
type Spoil = fn(&mut Bundle);

/// A claim made on card `A`, and what came of a reproduction of its bundle by program `key` on
/// `card`.
async fn after(
    spoil: Spoil,
    (card, key): (&'static str, &[u8]),
    found: &Reproduction,
) -> (ClaimState, Exit) {
    let ledger = Ledger::new().await;
    let on = |card| Script { card: Some(card), ..Script::default() };
    let row = ledger.begin(&protocol(all())).await;
    ledger.carry(&row, &on("A"), &unhurried()).await.0.unwrap();
    let claim = ledger.store.claims().await.unwrap().remove(0);
    let mut bundle = bundle_of(&ledger.store, &claim).await;
    spoil(&mut bundle);
    let again = ledger.begin_of(key, Purpose::Reproduction, &protocol(all())).await;
    ledger.carry(&again, &on(card), &unhurried()).await.0.unwrap();
    let outcome = settle(&ledger.store, &bundle, &again, found).await.unwrap();
    let now = ledger.store.claim(claim.id.as_str()).await.unwrap();
    assert!(ledger.store.verify_run(&claim.run_id).await.unwrap().is_ok());
    (now.state, outcome.exit)
}

fn same() -> Reproduction {
    Reproduction::Reproduced { claimed: 1.25, found: 1.2 }
}

fn lost() -> Reproduction {
    Reproduction::NotReproduced("no longer faster".to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_independent_reproduction_confirms_and_a_failed_one_withdraws() {
    use ClaimState::{Claimed, Confirmed, Withdrawn};
    let noisy = || Reproduction::NotComparable("too noisy".to_owned());
    for (card, key, found, state, exit) in [
        ("A", &b"key"[..], same(), Claimed, Exit::Done),
        ("B", b"key", same(), Confirmed, Exit::Done),
        ("B", b"key", noisy(), Claimed, Exit::NotAvailable),
        ("A", b"key", lost(), Withdrawn, Exit::NotReproduced),
        // Another compiler's program, or another judge's verdict.
        ("B", b"other", same(), Claimed, Exit::Done),
        ("B", b"other", lost(), Claimed, Exit::NotReproduced),
    ] {
        assert_eq!(after(|_| {}, (card, key), &found).await, (state, exit), "{card} {found:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_bundle_says_of_itself_moves_no_claim() {
    const DAY_US: i64 = 86_400_000_000;
    // Everything but the ledger's own record of where and when: the claim is still its own.
    let elsewhere: [Spoil; 2] = [
        |bundle| bundle.manifest.started_us -= 2 * DAY_US,
        |bundle| bundle.manifest.process = "another".to_owned(),
    ];
    for spoil in elsewhere {
        let state = after(spoil, ("A", b"key"), &same()).await.0;
        assert_eq!(state, ClaimState::Claimed);
    }
    let forged: [Spoil; 8] = [
        |bundle| bundle.manifest.claim_id.clear(),
        |bundle| bundle.manifest.claim_id.truncate(30),
        |bundle| bundle.manifest.chain_head = Digest::of_bytes(b"forged"),
        |bundle| bundle.manifest.claim.against.interval.log_ratio += 0.1,
        |bundle| bundle.manifest.claim.weaknesses.push("forged".to_owned()),
        |bundle| bundle.manifest.seed = "11".to_owned(),
        |bundle| bundle.manifest.hashes.eval_key = Digest::of_bytes(b"forged"),
        |bundle| on_another_card(&mut bundle.entries),
    ];
    for (index, spoil) in forged.into_iter().enumerate() {
        for found in [same(), lost()] {
            let state = after(spoil, ("B", b"key"), &found).await.0;
            assert_eq!(state, ClaimState::Claimed, "{index} {found:?}");
        }
    }
}

fn on_another_card(entries: &mut [Entry]) {
    for entry in entries {
        if let Entry::Window(record) = entry
            && let Some(gpu) = &mut record.gpu
        {
            gpu.uuid = "C".to_owned();
        }
    }
}
