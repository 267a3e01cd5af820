//! Leases: one holder for each card, turns for everybody, cards out of service.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pipeline::device_facts::DeviceFacts;
use pipeline::hardware::{HardwareSheet, SHEET_VERSION};
use sandbox::CancelFlag;

use super::{GpuConfig, GpuPool, free_card};
use crate::JudgeError;
use crate::limits::{PARKED_LOOK, PARKED_LOOK_MAX, PARKED_MAX};

fn config(folder: &std::path::Path, count: usize) -> GpuConfig {
    let sheet = |index| HardwareSheet {
        version: SHEET_VERSION,
        uuid: format!("GPU-test-{index}"),
        driver: "1".to_owned(),
        cuda_version: 13000,
        facts: DeviceFacts::simulated_h200(),
        ceilings: None,
    };
    GpuConfig {
        sheets: (0..count).map(sheet).collect(),
        lock_folder: folder.to_owned(),
        launch_deadline_ms: 1000,
        environment: Vec::new(),
        case_cache_bytes_max: 1 << 20,
    }
}

#[test]
fn a_card_has_one_holder_also_between_processes() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), 2);
    // Two pools are two processes: the lock file is all that they share.
    let (here, there) = (GpuPool::new(2), GpuPool::new(2));
    let cancel = CancelFlag::default();
    let first = here.lease(&config, None, &cancel).unwrap();
    let second = there.lease(&config, None, &cancel).unwrap();
    assert_ne!(first.sheet.uuid, second.sheet.uuid);
    cancel.cancel();
    assert!(matches!(here.lease(&config, None, &cancel), Err(JudgeError::Cancelled)));
    assert_eq!(free_card(&config).unwrap().uuid, "GPU-test-0", "the first where none is free");
    drop(second);
    assert_eq!(free_card(&config).unwrap().uuid, "GPU-test-1");
    let third = here.lease(&config, None, &CancelFlag::default()).unwrap();
    assert_ne!(first.sheet.uuid, third.sheet.uuid);
}

#[test]
fn never_two_at_once_and_everybody_gets_a_turn() {
    let folder = tempfile::tempdir().unwrap();
    let config = Arc::new(config(folder.path(), 2));
    let pool = Arc::new(GpuPool::new(2));
    let held = Arc::new(AtomicUsize::new(0));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (config, pool, held) = (Arc::clone(&config), Arc::clone(&pool), Arc::clone(&held));
            std::thread::spawn(move || {
                let lease = pool.lease(&config, None, &CancelFlag::default()).unwrap();
                assert!(held.fetch_add(1, Ordering::SeqCst) < 2);
                std::thread::sleep(Duration::from_millis(5));
                held.fetch_sub(1, Ordering::SeqCst);
                drop(lease);
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn a_parked_card_is_not_leased_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), 2);
    let pool = GpuPool::new(2);
    let cancel = CancelFlag::default();
    pool.lease(&config, None, &cancel).unwrap().park("GPU-test-0: wrong checksum");
    let lease = pool.lease(&config, None, &cancel).unwrap();
    assert_eq!(lease.sheet.uuid, "GPU-test-1");
    lease.park("GPU-test-1: no answer");
    drop(lease);
    assert_eq!(pool.parked(&config).len(), 2);
    let end = pool.lease(&config, None, &cancel).unwrap_err().to_string();
    assert!(end.contains("wrong checksum") && end.contains("no answer"), "{end}");
}

/// Threads of one process hear at once that a card is free; whoever waits elsewhere has a turn all
/// the same.
#[test]
fn another_process_is_not_kept_out_by_many_threads() {
    let folder = tempfile::tempdir().unwrap();
    let config = Arc::new(config(folder.path(), 1));
    let (busy, other) = (Arc::new(GpuPool::new(1)), GpuPool::new(1));
    let done = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let taken = Arc::new(AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && taken.load(Ordering::Relaxed) < 10_000 {
                    let _lease = busy.lease(&config, None, &CancelFlag::default()).unwrap();
                    taken.fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
            });
        }
        while taken.load(Ordering::Relaxed) < 8 {
            std::thread::yield_now();
        }
        for _ in 0..3 {
            drop(other.lease(&config, None, &CancelFlag::default()).unwrap());
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(taken.load(Ordering::Relaxed) < 10_000);
}

#[test]
fn a_parked_card_is_looked_at_again_and_comes_back_when_it_is_healthy() {
    let folder = tempfile::tempdir().unwrap();
    let config = config(folder.path(), 1);
    let pool = GpuPool::new(1);
    let cancel = CancelFlag::default();
    let parked = Instant::now();
    pool.lease(&config, None, &cancel).unwrap().park("wrong checksum");
    assert!(pool.due(&config, parked).unwrap().is_none(), "not at once");
    assert!(pool.may_come_back(parked) && !pool.may_come_back(parked + 2 * PARKED_MAX));
    let mut now = parked + 2 * PARKED_LOOK;
    for doubled in [2, 4, 8] {
        let (lease, parking) = pool.due(&config, now).unwrap().unwrap();
        lease.park_as(parking.again("still wrong", now));
        drop(lease);
        assert_eq!(pool.parked(&config), [("GPU-test-0".to_owned(), "still wrong".to_owned())]);
        assert!(pool.due(&config, now + doubled * PARKED_LOOK - PARKED_LOOK).unwrap().is_none());
        now += doubled * PARKED_LOOK;
    }
    let there = GpuPool::new(1);
    let elsewhere = there.lease(&config, None, &cancel).unwrap();
    assert!(pool.due(&config, now).unwrap().is_none(), "another process uses it");
    drop(elsewhere);
    let (lease, _) = pool.due(&config, now + 2 * PARKED_LOOK_MAX).unwrap().unwrap();
    drop(lease);
    assert!(pool.parked(&config).is_empty());
    assert!(!pool.may_come_back(now));
    assert_eq!(pool.lease(&config, None, &cancel).unwrap().sheet.uuid, "GPU-test-0");
}
