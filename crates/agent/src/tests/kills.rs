//! A kill at every boundary: what the provider charged is what the ledger booked.

use llm::conformance::Failure;
use llm::{ErrorClass, LlmError};
use pipeline::next_step::StopReason;
use store::{Boundary, CallState};
use tokio::task::JoinSet;

use super::fixtures::World;
use crate::RunEnd;

const DONE: RunEnd = RunEnd::Finished(StopReason::AttemptsSpent);

fn failure(seq: u32, on_submit: bool, error: LlmError) -> Failure {
    Failure { seq, try_index: 0, error, on_submit }
}

/// The first question of each attempt: answered, charged without a reply, or refused.
fn failures() -> Vec<(u64, Vec<Failure>)> {
    let late = || LlmError::deadline(5);
    let unreadable = || LlmError::new(ErrorClass::Malformed, "no JSON");
    vec![
        (0, Vec::new()),
        (1, vec![failure(1, true, late())]),
        (1, vec![failure(1, false, unreadable())]),
        (2, vec![failure(1, false, late()), failure(2, true, unreadable())]),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_was_charged_is_settled_or_lost_whenever_the_process_dies() {
    let mut groups = JoinSet::new();
    for idempotent in [true, false] {
        for (lost_anyway, failures) in failures() {
            groups.spawn(kill_everywhere(idempotent, lost_anyway, failures));
        }
    }
    groups.join_all().await;
}

async fn kill_everywhere(idempotent: bool, lost_anyway: u64, failures: Vec<Failure>) {
    use Boundary::{Asked, Closed, Lost, Replied, Sent, Submitted, Ticketed};
    let boundaries = [Asked, Sent, Submitted, Ticketed, Lost, Replied, Closed];
    for (at, seq) in boundaries.into_iter().flat_map(|at| [(at, 1), (at, 2)]) {
        let world = World::new().await;
        let mut model = world.model(idempotent);
        model.failures = failures.clone();
        let case = format!("{at:?}:{seq}, idempotent {idempotent}, {failures:?}");
        let died = world.process(model.clone(), Some((at, seq))).await.is_none();
        let loses = failures.iter().any(|failure| failure.seq == seq);
        assert_eq!(died, at != Lost || loses, "{case}");
        let end = world.process(model, None).await.unwrap().unwrap();
        assert_eq!(end, DONE, "{case}");
        check_books(&world, &case, at, idempotent, lost_anyway).await;
    }
}

async fn check_books(
    world: &World,
    case: &str,
    killed_at: Boundary,
    idempotent: bool,
    lost_anyway: u64,
) {
    let summary = world.summary().await;
    // Stored as sent, killed before it was: nobody can tell, so it is booked, never left out.
    let never_left = u64::from(killed_at == Boundary::Sent && !idempotent);
    let booked = summary.bookings.settled.calls + summary.bookings.lost.calls;
    assert_eq!(booked, world.server.charged_calls() + never_left, "{case}");
    assert_eq!((summary.bookings.settled.calls, summary.bookings.reserved.calls), (2, 0), "{case}");
    let in_flight = match killed_at {
        Boundary::Sent | Boundary::Submitted | Boundary::Ticketed => u64::from(!idempotent),
        _ => 0,
    };
    assert!(
        summary.bookings.lost.calls <= lost_anyway + in_flight,
        "{case}: {:?}",
        summary.bookings.lost
    );
    assert!(world.server.charged_nusd() <= summary.bookings.total().nusd, "{case}");
    if idempotent && lost_anyway == 0 {
        assert_eq!((world.server.charged_calls(), summary.bookings.lost.calls), (2, 0), "{case}");
    }
}

/// Each process dies where the last one did, so that every resume is killed too.
#[tokio::test]
async fn a_resume_that_is_killed_again_books_every_call() {
    for kill_at in [Boundary::Submitted, Boundary::Ticketed] {
        let world = World::new().await;
        for _ in 0..3 {
            assert!(world.process(world.model(false), Some((kill_at, 1))).await.is_none());
        }
        let end = world.process(world.model(false), None).await.unwrap().unwrap();
        assert_eq!(end, DONE);
        let summary = world.summary().await;
        assert_eq!(
            (summary.bookings.settled.calls, summary.bookings.lost.calls),
            (2, 3),
            "{kill_at:?}"
        );
        assert_eq!(world.server.charged_calls(), 5);
    }
}

#[tokio::test]
async fn a_lost_call_says_why() {
    let world = World::new().await;
    let mut model = world.model(true);
    model.failures = vec![failure(1, true, LlmError::deadline(5))];
    assert_eq!(world.process(model, None).await.unwrap().unwrap(), DONE);
    let detail = world.store().await.attempt_detail(&world.run, &world.task.hash, 1).await.unwrap();
    let (class, message) = detail.calls[0].error.clone().unwrap();
    assert_eq!(detail.calls[0].state, CallState::Lost);
    assert_eq!((class.as_str(), message.contains("5 ms")), ("deadline", true), "{message}");
}

#[tokio::test]
async fn a_call_to_another_model_is_not_taken_for_this_ones() {
    for (kill_at, states) in [
        (Boundary::Asked, &[CallState::Settled][..]),
        (Boundary::Submitted, &[CallState::Lost, CallState::Settled]),
        (Boundary::Ticketed, &[CallState::Lost, CallState::Settled]),
    ] {
        let world = World::new().await;
        assert!(world.process(world.model(true), Some((kill_at, 1))).await.is_none());
        let mut other = world.model(true);
        other.name = "another".to_owned();
        assert_eq!(world.process(other, None).await.unwrap().unwrap(), DONE);
        let detail =
            world.store().await.attempt_detail(&world.run, &world.task.hash, 1).await.unwrap();
        let found: Vec<_> = detail.calls.iter().map(|call| call.state).collect();
        assert_eq!(found, states, "{kill_at:?}");
        let summary = world.summary().await;
        let booked = summary.bookings.settled.calls + summary.bookings.lost.calls;
        assert_eq!(booked, world.server.charged_calls(), "{kill_at:?}");
    }
}
