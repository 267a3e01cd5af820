//! GPU-seconds: reserved, waited for, spent, and given up before their limit is crossed.

use std::sync::Arc;
use std::time::Duration;

use judge::JudgeError;
use pipeline::budget::Budget;
use pipeline::card_time::{Where, bound_us};
use pipeline::next_step::StopReason;
use pipeline::prompt::Prompt;
use pipeline::report::Stage;
use pipeline::tell::{Added, Said};
use store::{AttemptRow, CallTarget, Reservation, Store};

use super::fixtures::World;
use crate::{AgentError, Cards, RunEnd};

const DONE: RunEnd = RunEnd::Finished(StopReason::AttemptsSpent);
const SPENT: RunEnd = RunEnd::Finished(StopReason::GpuSecondsSpent);

/// An attempt in hand, whose question and call are no matter here.
async fn attempt(world: &World, store: &Store, seq: u32) -> AttemptRow {
    let prompt = Prompt { mode: pipeline::attempt::Mode::First, messages: Vec::new() };
    let ask =
        pipeline::next_step::Ask { seq, mode: prompt.mode, parent: None, subset_notice: false };
    let target = CallTarget { provider: "test", model: "none", price_json: "\"free\"" };
    let none = Reservation::default();
    store.open_attempt(&world.run, &world.task.hash, &ask, &prompt, none, target).await.unwrap()
}

#[tokio::test]
async fn an_evaluation_waits_for_what_others_give_back_and_stops_where_nobody_will() {
    let world = World::new().await;
    let store = world.store().await;
    let (one, other) = (attempt(&world, &store, 1).await, attempt(&world, &store, 2).await);
    let mut engine = world.engine(store.clone(), world.model(true));
    let bound = bound_us(Stage::Search);
    engine.cards = Cards::new(Some(Where::Here), 1);
    engine.budget = Budget { gpu_us_max: Some(bound + bound / 2), ..engine.budget };
    let held = engine.hold_card(&one, Stage::Search).await.unwrap();
    assert_eq!(store.card_time(&world.run).await.unwrap().total_us(), bound);
    let mut second = Box::pin(engine.hold_card(&other, Stage::Search));
    let waited = tokio::time::timeout(Duration::from_millis(100), &mut second).await;
    assert!(waited.is_err(), "both were held at once");
    let cancelled = || Err(AgentError::Judge(JudgeError::Cancelled));
    engine.release_card(held, &cancelled()).await.unwrap();
    let held = second.await.unwrap();
    // Another process of this run lost as much as is left: nobody gives it back.
    store.reserve_card(&one.id, Stage::Search, bound / 2).await.unwrap();
    engine.release_card(held, &cancelled()).await.unwrap();
    let booked = store.card_time(&world.run).await.unwrap();
    assert_eq!((booked.reserved_us, booked.evaluations), (bound / 2, 3));
    assert!(booked.used_us < bound, "a moment was booked as {} us", booked.used_us);
    store.reserve_card(&one.id, Stage::Search, bound / 2).await.unwrap();
    let none = engine.hold_card(&other, Stage::Search).await;
    assert!(matches!(none, Err(AgentError::Judge(JudgeError::Cancelled))), "{none:?}");
    assert!(engine.interrupt.are_cards_spent());
}

#[tokio::test]
async fn no_question_is_asked_whose_kernel_could_not_be_judged() {
    for (at, end) in [(Some(Where::Here), SPENT), (Some(Where::Elsewhere), SPENT), (None, DONE)] {
        let world = World::new().await;
        let capped = || async {
            let mut engine = world.engine(world.store().await, world.model(true));
            engine.cards = Cards::new(at, 1);
            engine.budget = Budget { gpu_us_max: Some(179_000_000), ..engine.budget };
            Arc::new(engine).run(&world.run).await.unwrap()
        };
        assert_eq!(capped().await, end, "{at:?}");
        let asked = if at.is_some() { 0 } else { 2 };
        assert_eq!(world.server.charged_calls(), asked, "{at:?}");
        let store = world.store().await;
        let more = Said::Add(Added { gpu_us: 200_000_000, ..Added::default() });
        store.tell(&world.run, None, &more, "ada").await.unwrap();
        assert_eq!(capped().await, DONE, "{at:?}");
        assert_eq!(world.server.charged_calls(), 2, "{at:?}");
        // Nothing was judged, so nothing was held.
        assert_eq!(store.card_time(&world.run).await.unwrap().evaluations, 0);
    }
}

#[tokio::test]
async fn what_measures_the_best_kernels_is_kept_from_the_search() {
    for (kept_for, end) in [(0, DONE), (1, SPENT)] {
        let world = World::new().await;
        let mut engine = world.engine(world.store().await, world.model(true));
        engine.cards = Cards::new(Some(Where::Here), 1);
        engine.cards.keep_for(kept_for);
        engine.budget = Budget { gpu_us_max: Some(300_000_000), ..engine.budget };
        assert_eq!(Arc::new(engine).run(&world.run).await.unwrap(), end, "{kept_for}");
    }
}

#[tokio::test]
async fn what_overruns_its_reservation_is_given_up_before_the_limit_is_crossed() {
    for (cap_us, ends) in [(1_000_000, true), (u64::MAX, false)] {
        let world = World::new().await;
        let store = world.store().await;
        let row = attempt(&world, &store, 1).await;
        let mut engine = world.engine(store.clone(), world.model(true));
        engine.cards = Cards::new(Some(Where::Here), 1);
        engine.budget = Budget { gpu_us_max: Some(cap_us), ..engine.budget };
        // It may take a second, and to end it takes longer than that.
        let hold = store.reserve_card(&row.id, Stage::Search, 1_000_000).await.unwrap();
        engine.cards.desk.note(&hold, std::time::Instant::now(), 1_000_000);
        let engine = Arc::new(engine);
        let mut watch = engine.watch_cards(&world.run);
        let wait = Duration::from_millis(if ends { 60_000 } else { 700 });
        let ended = tokio::time::timeout(wait, &mut watch).await.is_ok();
        assert_eq!((ended, engine.interrupt.are_cards_spent()), (ends, ends), "{cap_us}");
        assert_eq!(engine.interrupt.cancel_flag().is_cancelled(), ends, "{cap_us}");
        watch.abort();
    }
}
