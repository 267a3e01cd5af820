//! Being asked to stop, and breaking while the ledger breaks.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pipeline::attempt::State;
use pipeline::next_step::StopReason;
use store::{CallState, RunState};

use super::fixtures::World;
use crate::{AgentError, Progress, RunEnd};

/// Far more than any of this takes; only a hang meets it.
const HANG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_request_ends_a_wait_that_would_never_end() {
    for stuck_on_submit in [false, true] {
        let world = World::new().await;
        let mut silent = world.model(true);
        silent.answers = false;
        silent.stuck_on_submit = stuck_on_submit;
        let engine = world.engine(world.store().await, silent);
        let (interrupt, run) = (engine.interrupt.clone(), world.run.clone());
        let driven = tokio::spawn(async move { std::sync::Arc::new(engine).run(&run).await });
        until(|| world.server.charged_calls() == 1).await;
        interrupt.request();
        let polls = world.server.polls();
        if stuck_on_submit {
            tokio::time::sleep(Duration::from_millis(50)).await;
        } else {
            until(|| world.server.polls() > polls + 3).await;
        }
        assert!(!driven.is_finished(), "a sent question was given up at the first request");
        interrupt.request();
        let end = tokio::time::timeout(HANG, driven).await.unwrap().unwrap().unwrap();
        assert_eq!(end, RunEnd::Interrupted);
        let store = world.store().await;
        assert_eq!(store.run(&world.run).await.unwrap().state, RunState::Stopped);
        let in_hand = store.attempt_in_hand(&world.run).await.unwrap().unwrap();
        assert_eq!((in_hand.state, in_hand.call.state), (State::Sent, CallState::Sent));
        assert_eq!(in_hand.call.ticket.is_some(), !stuck_on_submit);
        let end = world.process(world.model(true), None).await.unwrap().unwrap();
        assert_eq!(end, RunEnd::Finished(StopReason::AttemptsSpent));
        assert_eq!(world.server.charged_calls(), 2);
    }
}

async fn until(holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(HANG, waiting).await.unwrap();
}

#[tokio::test]
async fn the_first_request_stops_after_the_step_in_hand() {
    for (asked_at, stopped_at) in [
        (State::Asked, State::Asked),
        (State::Sent, State::Replied),
        (State::Replied, State::Replied),
    ] {
        let world = World::new().await;
        let mut engine = world.engine(world.store().await, world.model(false));
        let interrupt = engine.interrupt.clone();
        engine.observer = Arc::new(move |progress: Progress<'_>| {
            if let Progress::Reached { attempt, .. } = progress
                && attempt.state == asked_at
                && !interrupt.is_set()
            {
                interrupt.request();
            }
        });
        assert_eq!(std::sync::Arc::new(engine).run(&world.run).await.unwrap(), RunEnd::Interrupted);
        let in_hand = world.store().await.attempt_in_hand(&world.run).await.unwrap().unwrap();
        assert_eq!(in_hand.state, stopped_at, "{asked_at:?}");
        assert_eq!(world.summary().await.bookings.lost.calls, 0);
    }
}

/// Closes the ledger before the compiler, which is absent, is started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_error_is_kept_when_the_ledger_breaks_as_well() {
    let world = World::new().await;
    let store = world.store().await;
    let mut model = world.model(true);
    model.text = super::known::right_reply();
    let mut engine = world.engine(store.clone(), model);
    let unnoted = Arc::new(Mutex::new(Vec::new()));
    let sink = unnoted.clone();
    engine.observer = Arc::new(move |progress: Progress<'_>| match progress {
        Progress::Reached { attempt, .. } if attempt.state == State::Parsed => {
            let runtime = tokio::runtime::Handle::current();
            tokio::task::block_in_place(|| runtime.block_on(store.close()));
        }
        Progress::Unnoted { why } => sink.lock().unwrap().push(why.to_owned()),
        Progress::Reached { .. } | Progress::Booked { .. } => {}
        Progress::Elsewhere { .. } | Progress::Resting { .. } | Progress::Back { .. } => {}
        Progress::SearchEnded { .. } | Progress::Retrying { .. } | Progress::Paused { .. } => {}
        Progress::Looking { .. } | Progress::LookEnded { .. } | Progress::Unlooked { .. } => {}
        Progress::Notice { .. } => {}
    });
    let error = std::sync::Arc::new(engine).run(&world.run).await.unwrap_err();
    assert!(matches!(error, AgentError::Judge(_)), "{error}");
    assert_eq!(unnoted.lock().unwrap().len(), 1);
}
