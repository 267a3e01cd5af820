//! Looks that end without what they were for: which are made again, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pipeline::closing::Work;
use pipeline::tell::{Added, Said};

use super::closing::{DONE, Script, run, world};
use crate::Done;

/// A look that ends as `done` the first time, and as it should the next.
fn once(done: Done) -> (Arc<Script>, Arc<AtomicUsize>) {
    let tries = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&tries);
    let script = Script::acting(1, move |work, _| {
        let is_first = work == Work::Accept(1) && counted.fetch_add(1, Ordering::SeqCst) == 0;
        let done = if is_first { done.clone() } else { Done::Quietly };
        Box::pin(async move { Ok(done) })
    });
    (Arc::new(script), tries)
}

#[tokio::test]
async fn noise_is_tried_again_where_what_is_known_says_so_and_a_failure_is_not() {
    for (done, tries) in [
        (Done::Noisy("two cards' worth of noise".to_owned()), 2),
        (Done::Without("slower".to_owned()), 1),
        // Nothing that stopped it is another now.
        (Done::Left("round 3".to_owned()), 1),
    ] {
        let (script, found) = once(done.clone());
        let (world, engine) = world(0, &script).await;
        assert_eq!(run(engine, &world).await, DONE, "{done:?}");
        assert_eq!(found.load(Ordering::SeqCst), tries, "{done:?}");
    }
}

/// GPU-seconds are added while a look ends for want of them: it goes on.
#[tokio::test]
async fn a_look_that_a_limit_stopped_goes_on_once_the_limit_is_raised() {
    for (more, tries) in [(0, 1), (5_000_000, 2)] {
        let said = Arc::new(tokio::sync::Notify::new());
        let (heard, found) = (Arc::clone(&said), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&found);
        let script = Script::acting(1, move |work, _| {
            let is_first = work == Work::Accept(1) && counted.fetch_add(1, Ordering::SeqCst) == 0;
            let heard = Arc::clone(&heard);
            Box::pin(async move {
                if !is_first {
                    return Ok(Done::Quietly);
                }
                heard.notified().await;
                Ok(Done::Left("no GPU-seconds are left".to_owned()))
            })
        });
        let script = Arc::new(script);
        let (world, mut engine) = world(0, &script).await;
        engine.budget.gpu_us_max = Some(1_000_000_000);
        let (store, run_id) = (world.store().await, world.run.clone());
        let driven = tokio::spawn(async move { Arc::new(engine).run(&run_id).await });
        while found.load(Ordering::SeqCst) == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        if more > 0 {
            let added = Added { gpu_us: more, ..Added::default() };
            store.tell(&world.run, None, &Said::Add(added), "ada").await.unwrap();
        }
        said.notify_one();
        assert_eq!(driven.await.unwrap().unwrap(), DONE);
        assert_eq!(found.load(Ordering::SeqCst), tries, "{more}");
    }
}
