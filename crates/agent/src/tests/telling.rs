//! What a run is told while it is on, and what it does then.

use std::sync::Arc;
use std::time::Duration;

use pipeline::budget::Budget;
use pipeline::next_step::StopReason;
use pipeline::tell::{Added, Said};
use store::RunState;

use super::fixtures::World;
use crate::RunEnd;

const DONE: RunEnd = RunEnd::Finished(StopReason::AttemptsSpent);

#[tokio::test]
async fn a_paused_run_waits_and_a_stopped_one_ends_until_it_is_told_to_go_on() {
    for (said, of_task) in
        [(Said::Pause, false), (Said::Pause, true), (Said::Stop, false), (Said::Stop, true)]
    {
        let world = World::new().await;
        let (store, run) = (world.store().await, world.run.clone());
        let task = of_task.then(|| world.task.hash.clone());
        store.tell(&run, task.as_ref(), &said, "ada").await.unwrap();
        let engine = world.engine(world.store().await, world.model(true));
        let driven = tokio::spawn(async move { Arc::new(engine).run(&run).await });
        let go_on = async || {
            assert_eq!(world.server.charged_calls(), 0, "{said:?} {of_task}");
            store.tell(&world.run, task.as_ref(), &Said::Resume, "ada").await.unwrap();
        };
        let end = if said == Said::Pause {
            tokio::time::sleep(Duration::from_millis(100)).await;
            assert!(!driven.is_finished(), "{said:?} {of_task}");
            go_on().await;
            driven.await.unwrap().unwrap()
        } else {
            let stopped = match of_task {
                true => RunEnd::Finished(StopReason::TasksStopped),
                false => RunEnd::Interrupted,
            };
            assert_eq!(driven.await.unwrap().unwrap(), stopped);
            assert_eq!(store.run(&world.run).await.unwrap().state, RunState::Stopped);
            go_on().await;
            world.process(world.model(true), None).await.unwrap().unwrap()
        };
        assert_eq!(end, DONE, "{said:?} {of_task}");
        assert_eq!(world.server.charged_calls(), 2);
    }
}

#[tokio::test]
async fn what_was_added_can_be_reserved_and_no_more() {
    // The worst case of the shortest useful answer is more than the first cap allows.
    const CAP: i64 = 50_000_000;
    const MORE: i64 = 100_000_000;
    let world = World::new().await;
    let capped = || async {
        let mut engine = world.engine(world.store().await, world.model(true));
        engine.budget = Budget { nusd_max: Some(CAP), ..engine.budget };
        Arc::new(engine).run(&world.run).await.unwrap()
    };
    let none = RunEnd::Finished(StopReason::DollarsSpent);
    assert_eq!(capped().await, none);
    assert_eq!(world.server.charged_calls(), 0);
    let store = world.store().await;
    let add = |nusd| Said::Add(Added { nusd, ..Added::default() });
    store.tell(&world.run, None, &add(MORE), "ada").await.unwrap();
    assert_eq!(capped().await, DONE);
    assert_eq!(world.server.charged_calls(), 2);
    let attempt = store.attempt_detail(&world.run, &world.task.hash, 1).await.unwrap();
    let reserved = attempt.calls[0].reservation.nusd;
    assert!(reserved > CAP && reserved <= CAP + MORE, "{reserved}");
    // Attempts are caps too; the money was taken back meanwhile.
    store.tell(&world.run, None, &add(-MORE), "ada").await.unwrap();
    let more = Said::Add(Added { attempts: 2, ..Added::default() });
    store.tell(&world.run, None, &more, "ada").await.unwrap();
    let mut engine = world.engine(world.store().await, world.model(true));
    engine.operators[0].limits.attempts_max = 9;
    engine.budget = Budget { nusd_max: Some(CAP), ..engine.budget };
    assert_eq!(Arc::new(engine).run(&world.run).await.unwrap(), none);
    assert_eq!(world.server.charged_calls(), 2);
}

#[tokio::test]
async fn a_hint_is_in_one_prompt_and_marked_as_shown() {
    let world = World::new().await;
    let store = world.store().await;
    let hint = Said::Hint("use float4".to_owned());
    store.tell(&world.run, None, &hint, "ada").await.unwrap();
    world.process(world.model(true), None).await.unwrap().unwrap();
    for (seq, shows) in [(1, true), (2, false)] {
        let detail = store.attempt_detail(&world.run, &world.task.hash, seq).await.unwrap();
        let prompt = &detail.attempt.prompt.messages[1].content;
        assert_eq!(prompt.contains("```text\nuse float4\n```"), shows, "{seq}");
    }
    let said: Vec<_> =
        store.tells(&world.run).await.unwrap().into_iter().map(|row| row.said).collect();
    assert_eq!(said, [hint, Said::Shown { hint: 0, seq: 1 }]);
}
