//! A machine with too little memory: a run waits, says so, and no attempt fails of it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use pipeline::notice::Notice;

use super::fixtures::World;
use crate::limits::MEMORY_FLOOR_BYTES;
use crate::{Here, Progress};

#[tokio::test]
async fn many_wait_for_memory_and_people_hear_of_it_once() {
    let world = World::new().await;
    let mut engine = world.engine(world.store().await, world.model(true));
    let (looks, heard) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let counted = Arc::clone(&looks);
    // Too little at the first two looks.
    engine.here = Here::with_memory(Arc::new(move || {
        let short = counted.fetch_add(1, Ordering::SeqCst) < 2;
        Some(MEMORY_FLOOR_BYTES - u64::from(short))
    }));
    let told = Arc::clone(&heard);
    engine.observer = Arc::new(move |progress: Progress<'_>| {
        told.lock().unwrap().extend(match progress {
            Progress::Paused { why } => Some(format!("paused: {}", why.is_some())),
            Progress::Notice { notice: Notice::BreakerOpen { what, .. } } => Some(what.clone()),
            Progress::Notice { notice: Notice::BreakerClosed { what } } => Some(what.clone()),
            _ => None,
        });
    });
    let run = &world.run;
    let found = tokio::join!(engine.has_memory(run), engine.has_memory(run));
    assert_eq!((found.0.unwrap(), found.1.unwrap()), (true, true));
    let memory = "the memory of this machine";
    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard, ["paused: true", memory, "paused: false", memory]);
    // It is over, so that nobody is told of it who looks later.
    assert_eq!(engine.store.pause(run).await.unwrap(), None);
}

#[tokio::test]
async fn a_pause_stands_in_the_ledger_while_it_lasts_and_whoever_stops_the_run_ends_it() {
    let world = World::new().await;
    let mut engine = world.engine(world.store().await, world.model(true));
    engine.here = Here::with_memory(Arc::new(|| Some(1 << 20)));
    engine.interrupt.request();
    assert!(!engine.has_memory(&world.run).await.unwrap());
    let pause = engine.store.pause(&world.run).await.unwrap().unwrap();
    assert!(pause.why.starts_with("1 MiB of memory are left"), "{}", pause.why);
}
