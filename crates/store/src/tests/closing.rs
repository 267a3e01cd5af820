//! What a run's end is planned by: how long looks at kernels took, and when the run went on.

use pipeline::attempt::State;
use pipeline::device_facts::DeviceFacts;

use super::claiming::{begin, carry, claimed};
use super::fixtures::{Ledger, SETTINGS, advance, ask, open, start_run, task_hash};
use crate::{Ended, Purpose};

#[tokio::test]
async fn acceptances_tell_what_they_were_for_and_when_their_steps_were_stored() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let id = begin(&ledger.store, &attempt, Purpose::Claim).await;
    let times = || ledger.store.acceptances_of_run(&ledger.run);
    let begun = times().await.unwrap();
    let [begun] = begun.as_slice() else { panic!("{begun:?}") };
    assert_eq!((begun.purpose, begun.ended, begun.times_us.len()), (Purpose::Claim, false, 1));
    assert_eq!((&begun.attempt_id, &begun.task_hash), (&attempt, &task_hash()));
    let here = ledger.store.acceptance(&id).await.unwrap().device_model;
    assert!(ledger.store.acceptance_times(&here).await.unwrap().is_empty(), "it has not ended");

    carry(&ledger.store, &id, None).await;
    let ended = times().await.unwrap().remove(0);
    let entries = ledger.store.entries(&id).await.unwrap().len();
    assert_eq!((ended.ended, ended.times_us.len()), (true, entries + 2));
    assert!(ended.times_us.is_sorted(), "{ended:?}");
    assert_eq!(ledger.store.acceptance_times(&here).await.unwrap(), [ended]);
    assert!(ledger.store.acceptance_times("another card").await.unwrap().is_empty());
}

#[tokio::test]
async fn one_that_was_rejected_says_nothing_of_how_long_the_whole_takes() {
    let ledger = claimed().await.ledger;
    let here = ledger.store.acceptances_of_run(&ledger.run).await.unwrap();
    let model = "SELECT count(*) FROM acceptance WHERE kind = 'Correct' AND state = 'ended'";
    assert_eq!((here.len(), ledger.count(model).await), (1, 1));
    ledger.sql("UPDATE acceptance SET kind = 'Wrong'").await.unwrap();
    let device = DeviceFacts::simulated_h200().model;
    assert!(ledger.store.acceptance_times(&device).await.unwrap().is_empty());
    ledger.sql("UPDATE acceptance SET kind = 'Correct'").await.unwrap();
    assert_eq!(ledger.store.acceptance_times(&device).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_run_tells_when_it_last_went_on() {
    let ledger = Ledger::new().await;
    let began_us = ledger.store.run(&ledger.run).await.unwrap().started_us;
    assert_eq!(ledger.store.went_on_us(&ledger.run).await.unwrap(), began_us);
    ledger.store.reopen_run(&ledger.run, SETTINGS).await.unwrap();
    let again_us = ledger.store.went_on_us(&ledger.run).await.unwrap();
    assert!(again_us > began_us, "{again_us} {began_us}");
}

/// Both runs have the program; the second one's first attempt came to nothing.
#[tokio::test]
async fn looks_and_claims_are_found_by_the_program_whichever_run_had_them() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    let first = ledger.bring(1, State::Closed).await;
    let second = start_run(store).await;
    let mut of_second = Vec::new();
    for (seq, reached) in [(1, State::Parsed), (2, State::Closed)] {
        let id = open(store, &second, &ask(seq)).await.unwrap().id;
        for step in State::ALL.into_iter().filter(|it| *it <= reached && *it != State::Asked) {
            advance(store, &id, step).await.unwrap();
        }
        of_second.push(id);
    }
    let acceptance = begin(store, &first, Purpose::Claim).await;
    let measured = begin(store, &of_second[1], Purpose::Measurement).await;
    let looks = async |attempt| {
        let looks = store.looks_at(attempt).await.unwrap();
        looks.into_iter().map(|it| (it.id, it.run_id, it.conclusion.is_some())).collect::<Vec<_>>()
    };
    let both = [
        (acceptance.clone(), ledger.run.clone(), false),
        (measured.clone(), second.clone(), false),
    ];
    assert_eq!((looks(&first).await, looks(&of_second[1]).await), (both.to_vec(), both.to_vec()));
    assert_eq!(looks(&of_second[0]).await, [], "it has another program, or none");

    assert!(matches!(carry(store, &acceptance, None).await, Ended::Claimed(_)));
    assert!(looks(&of_second[1]).await[0].2);
    for (run, seqs) in [(&ledger.run, [1]), (&second, [2])] {
        let claims = store.claims_of_kernels(run).await.unwrap();
        let [claim] = claims.as_slice() else { panic!("{claims:?}") };
        assert_eq!((&claim.claim.run_id, claim.claim.seq), (&ledger.run, 1));
        assert_eq!(claim.seqs, seqs, "{run}");
        assert!(claim.is_of(&task_hash(), seqs[0]) && !claim.is_of(&task_hash(), 3), "{run}");
    }
    assert_eq!(store.claims_of_run(&second).await.unwrap(), []);
    let third = start_run(store).await;
    assert_eq!(store.claims_of_kernels(&third).await.unwrap(), []);
}
