//! What the end of a run is planned by: looks that were made, and what they took.

use pipeline::closing::{Best, Costs, Look};
use pipeline::device_facts::DeviceFacts;
use pipeline::limits::{ACCEPTANCE_MS, TASK_CHECK_MS};
use store::{Ended, Purpose};

use super::{Ledger, Script, all, protocol, unhurried};
use crate::claims::carry::Carried;
use crate::claims::closing::look;

#[tokio::test(flavor = "multi_thread")]
async fn each_look_is_found_and_says_what_the_next_one_takes() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    let run = store.resolve_run("@last").await.unwrap();
    let tasks = store.run(&run).await.unwrap().tasks;
    let model = DeviceFacts::simulated_h200().model;
    let looked = async |best: Option<u32>| {
        look(store, &run, &tasks, &[best], (&model, "nvrtc")).await.unwrap().remove(0)
    };
    // Nobody checked the task, which comes before its first acceptance.
    let assumed = Costs { accept_ms: ACCEPTANCE_MS + TASK_CHECK_MS, ..Costs::default() };
    let none = looked(None).await;
    assert_eq!((none.best, none.tried, none.costs), (None, false, assumed));
    assert_eq!(looked(Some(1)).await.best, Some(Best::NEW));

    let short = protocol(all()).shortened();
    let row = ledger.begin_for(Purpose::Measurement, &short).await;
    assert_eq!(looked(Some(1)).await.best, Some(Best::NEW), "it has not ended");
    ledger.carry(&row, &Script::default(), &unhurried()).await.0.unwrap();
    let measured = looked(Some(1)).await;
    let wanted = Best { measurement: Look::Ended, acceptance: Look::Due };
    assert_eq!((measured.best, measured.tried), (Some(wanted), false));
    assert!(measured.costs.measure_ms < assumed.measure_ms, "{measured:?}");
    assert_eq!(measured.costs.accept_ms, assumed.accept_ms);

    let row = ledger.begin(&protocol(all())).await;
    ledger.carry(&row, &Script::default(), &unhurried()).await.0.unwrap();
    let accepted = looked(Some(1)).await;
    let wanted = Best { acceptance: Look::Ended, ..wanted };
    assert_eq!((accepted.best, accepted.tried), (Some(wanted), true));
    assert!(accepted.costs.accept_ms < assumed.accept_ms, "{accepted:?}");
    // Times of another card say nothing of this one.
    let elsewhere = look(store, &run, &tasks, &[Some(1)], ("another card", "nvrtc")).await.unwrap();
    assert_eq!(elsewhere[0].costs, assumed);
    assert!(
        look(store, &run, &tasks, &[Some(2)], (&model, "nvrtc")).await.is_err(),
        "no such attempt"
    );
}

/// A judge that is disturbed: each round's windows are far from each other.
#[tokio::test(flavor = "multi_thread")]
async fn an_acceptance_that_noise_ended_is_due_again_so_often_a_day() {
    let ledger = Ledger::new().await;
    let store = &ledger.store;
    let run = store.resolve_run("@last").await.unwrap();
    let tasks = store.run(&run).await.unwrap().tasks;
    let model = DeviceFacts::simulated_h200().model;
    for wanted in [Look::Due, Look::Again, Look::Noisy] {
        let looked = look(store, &run, &tasks, &[Some(1)], (&model, "nvrtc")).await.unwrap();
        assert_eq!(looked[0].best.unwrap().acceptance, wanted);
        assert_eq!(looked[0].tried, wanted != Look::Due);
        let row = ledger.begin(&protocol(all())).await;
        let noisy = Script { noise: true, ..Script::default() };
        let (carried, _) = ledger.carry(&row, &noisy, &unhurried()).await;
        let Carried::Ended(conclusion, Ended::Nothing) = carried.unwrap() else { panic!() };
        assert!(conclusion.is_worth_another_try(), "{conclusion:?}");
    }
    let row = ledger.begin(&protocol(all())).await;
    ledger.carry(&row, &Script::default(), &unhurried()).await.0.unwrap();
    let looked = look(store, &run, &tasks, &[Some(1)], (&model, "nvrtc")).await.unwrap();
    assert_eq!(looked[0].best.unwrap().acceptance, Look::Ended, "by hand it may be tried on");
}
