//! Many attempts under way at once: books under kills, caps, and how many there are.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use llm::conformance::{Failure, ScriptedModel};
use llm::{ErrorClass, LlmError};
use pipeline::budget::Budget;
use pipeline::next_step::{SearchLimits, StopReason};
use store::{Boundary, Store};

use super::fixtures::World;
use crate::{Engine, ModelOrder, ModelUse, Models, RunEnd};

const ATTEMPTS: u32 = 9;

fn engine(world: &World, store: Store, idempotent: bool) -> Engine<ScriptedModel> {
    let mut engine = world.engine(store, world.model(idempotent));
    engine.budget = Budget::of_attempts(ATTEMPTS);
    engine.operators[0].limits =
        SearchLimits { attempts_max: ATTEMPTS, plateau: None, in_flight_max: 4 };
    engine
}

/// One process that dies at `kill_at`, where nothing after it happens.
async fn process(
    world: &World,
    idempotent: bool,
    kill_at: Option<(Boundary, u32)>,
) -> Option<RunEnd> {
    let store = world.store().await.with_boundary_hook(Arc::new(move |boundary, seq| {
        if kill_at == Some((boundary, seq)) {
            std::panic::panic_any("killed");
        }
    }));
    let (engine, run) = (Arc::new(engine(world, store, idempotent)), world.run.clone());
    tokio::spawn(async move { engine.run(&run).await.unwrap() }).await.ok()
}

#[tokio::test]
async fn a_kill_with_many_calls_open_loses_no_more_than_those() {
    use Boundary::{Asked, Closed, Replied, Sent, Submitted, Ticketed};
    for idempotent in [true, false] {
        for kill_at in [Asked, Sent, Submitted, Ticketed, Replied, Closed].map(|at| (at, 3)) {
            let case = format!("{kill_at:?}, idempotent {idempotent}");
            let world = World::new().await;
            assert_eq!(process(&world, idempotent, Some(kill_at)).await, None, "{case}");
            let open = world.summary().await.bookings.reserved.calls;
            let never_left = never_left(&world).await;
            let end = process(&world, idempotent, None).await;
            assert_eq!(end, Some(RunEnd::Finished(StopReason::AttemptsSpent)), "{case}");
            let bookings = world.summary().await.bookings;
            assert_eq!(bookings.settled.calls, u64::from(ATTEMPTS), "{case}");
            assert_eq!(bookings.reserved.calls, 0, "{case}");
            assert!(bookings.lost.calls <= open, "{case}: {bookings:?}");
            let booked = bookings.settled.calls + bookings.lost.calls;
            let unsent = if idempotent { 0 } else { never_left };
            assert_eq!(booked, world.server.charged_calls() + unsent, "{case}");
        }
    }
}

/// Calls that are stored as sent and never reached the server.
async fn never_left(world: &World) -> u64 {
    let store = world.store().await;
    let open = store.attempts_in_hand(&world.run).await.unwrap();
    let sent = open.iter().filter(|attempt| attempt.state.name() == "sent").count() as u64;
    let settled = world.summary().await.bookings.settled.calls;
    settled + sent - world.server.charged_calls()
}

#[tokio::test]
async fn so_many_are_under_way_and_no_cap_is_crossed() {
    let (most, now) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let world = World::new().await;
    let (high, count) = (Arc::clone(&most), Arc::clone(&now));
    let store =
        world.store().await.with_boundary_hook(Arc::new(move |boundary, _| match boundary {
            Boundary::Asked => {
                high.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            }
            Boundary::Closed => _ = count.fetch_sub(1, Ordering::SeqCst),
            _ => {}
        }));
    let engine = engine(&world, store, true);
    let end = Arc::new(engine).run(&world.run).await.unwrap();
    assert_eq!(end, RunEnd::Finished(StopReason::AttemptsSpent));
    assert_eq!((most.load(Ordering::SeqCst), now.load(Ordering::SeqCst)), (4, 0));
}

#[tokio::test]
async fn a_model_has_no_more_calls_open_than_it_may() {
    for calls_at_once in [1, 2] {
        let world = World::new().await;
        let open = Arc::new(AtomicUsize::new(0));
        let (most, count) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&open));
        let high = Arc::clone(&most);
        let store =
            world.store().await.with_boundary_hook(Arc::new(move |boundary, _| match boundary {
                Boundary::Asked => {
                    high.fetch_max(count.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                }
                Boundary::Replied => _ = count.fetch_sub(1, Ordering::SeqCst),
                _ => {}
            }));
        let mut engine = engine(&world, store, true);
        let model_use = ModelUse { calls_at_once, modes: Vec::new() };
        engine.models = Models::new(vec![(world.model(true), model_use)], ModelOrder::Turns);
        Arc::new(engine).run(&world.run).await.unwrap();
        assert_eq!(most.load(Ordering::SeqCst), calls_at_once);
    }
}

#[tokio::test]
async fn a_cap_that_holds_few_calls_is_kept_with_many_wanted() {
    let world = World::new().await;
    let store = world.store().await;
    let mut engine = engine(&world, store.clone(), true);
    // One worst case and a half: the answers cost far less, so the calls go one after the other.
    let tokens_max = 60_000;
    engine.budget.tokens_max = Some(tokens_max);
    let run = world.run.clone();
    let crossed = Arc::new(AtomicUsize::new(0));
    let (seen, books) = (Arc::clone(&crossed), store.clone());
    engine.tells_bookings = true;
    engine.observer = Arc::new(move |progress: crate::Progress<'_>| {
        if let crate::Progress::Booked { bookings } = progress
            && bookings.total().tokens > tokens_max
        {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    let end = Arc::new(engine).run(&run).await.unwrap();
    assert_eq!(end, RunEnd::Finished(StopReason::AttemptsSpent));
    assert_eq!(crossed.load(Ordering::SeqCst), 0);
    let bookings = books.bookings(&run).await.unwrap();
    assert_eq!(bookings.settled.calls, u64::from(ATTEMPTS));
    assert!(bookings.total().tokens <= tokens_max, "{bookings:?}");
}

/// A question that one model was too busy for and then refused goes to the other one; one that both
/// refuse ends its task.
#[tokio::test]
async fn a_question_goes_to_the_models_that_have_not_refused_it() {
    let failure = |try_index, class| Failure {
        seq: 1,
        try_index,
        error: LlmError::new(class, "no"),
        on_submit: true,
    };
    for (second_refuses, asked, end) in [
        (false, &["one", "one", "two"][..], StopReason::AttemptsSpent),
        (true, &["one", "one", "two"][..], StopReason::SearchesEnded),
    ] {
        let world = World::new().await;
        let mut engine = engine(&world, world.store().await, true);
        engine.operators[0].limits.attempts_max = 1;
        let mut models = ["one", "two"].map(|name| {
            let mut model = world.model(true);
            model.name = name.to_owned();
            model
        });
        let limited = failure(0, ErrorClass::RateLimited);
        models[0].failures = vec![limited, failure(1, ErrorClass::Refused)];
        if second_refuses {
            models[1].failures = vec![failure(2, ErrorClass::Refused)];
        }
        let model_use = ModelUse { calls_at_once: 2, modes: Vec::new() };
        let models = models.into_iter().map(|model| (model, model_use.clone())).collect();
        engine.models = Models::new(models, ModelOrder::First);
        let ended = Arc::new(engine).run(&world.run).await.unwrap();
        let store = world.store().await;
        let detail = store.attempt_detail(&world.run, &world.task.hash, 1).await.unwrap();
        let names: Vec<_> = detail.calls.iter().map(|call| call.model.as_str()).collect();
        assert_eq!(names, asked, "{second_refuses}");
        match ended {
            RunEnd::Finished(reason) => assert_eq!(reason, end),
            RunEnd::Provider { class, .. } => {
                assert_eq!((class.as_str(), second_refuses), ("refused", true))
            }
            other => panic!("{other:?}"),
        }
    }
}
