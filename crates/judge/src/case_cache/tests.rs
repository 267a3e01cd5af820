//! What stays in the cache, and who makes it.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier};

use super::CaseCache;
use crate::JudgeError;
use crate::cases::{CaseData, Tensors, lock};

const BYTES: u64 = 8192;

fn data() -> Result<CaseData, JudgeError> {
    let tensors = || Tensors::room("test", std::iter::once(("x".to_owned(), BYTES / 2)));
    Ok(CaseData { inputs: tensors()?, expected: tensors()? })
}

fn failure() -> JudgeError {
    JudgeError::Reference { task: "t".to_owned(), why: "no".to_owned() }
}

fn keys(cache: &CaseCache) -> String {
    let entries = lock(&cache.entries);
    assert_eq!(entries.bytes, entries.by_key.len() as u64 * BYTES);
    let mut keys: Vec<_> = entries.by_key.keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys.concat()
}

#[test]
fn what_was_not_used_for_the_longest_time_goes_first() {
    let cache = CaseCache::new(3 * BYTES, 100);
    for (key, left) in [
        ("a", "a"),
        ("b", "ab"),
        ("c", "abc"),
        ("a", "abc"),
        ("d", "acd"),
        ("c", "acd"),
        ("e", "cde"),
    ] {
        cache.get_or_make(key, data).unwrap();
        assert_eq!(keys(&cache), left, "after {key}");
    }
    cache.get_or_make("c", || panic!("it is there")).unwrap();
}

/// Each entry holds descriptors, however small it is.
#[test]
fn a_number_of_entries_is_not_exceeded() {
    let cache = CaseCache::new(u64::MAX, 2);
    for (key, left) in [("a", "a"), ("b", "ab"), ("a", "ab"), ("c", "ac"), ("d", "cd")] {
        cache.get_or_make(key, data).unwrap();
        assert_eq!(keys(&cache), left, "after {key}");
    }
}

#[test]
fn the_newest_stays_whatever_its_size() {
    let cache = CaseCache::new(1, 100);
    for key in ["a", "b"] {
        cache.get_or_make(key, data).unwrap();
        assert_eq!(keys(&cache), key);
    }
}

#[test]
fn threads_that_ask_for_the_same_wait_for_one() {
    let (cache, made, barrier) =
        (CaseCache::new(10 * BYTES, 100), AtomicU32::new(0), Barrier::new(4));
    let ask = || {
        barrier.wait();
        let make = || {
            made.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(std::time::Duration::from_millis(50));
            data()
        };
        cache.get_or_make("a", make).unwrap()
    };
    let found: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(made.load(Ordering::Relaxed), 1);
    assert!(found.iter().all(|it| Arc::ptr_eq(it, &found[0])));
}

/// Another key is made meanwhile, and a failure is not kept.
#[test]
fn keys_do_not_wait_for_each_other() {
    let cache = CaseCache::new(10 * BYTES, 100);
    let failed = cache.get_or_make("a", || {
        cache.get_or_make("b", data)?;
        Err(failure())
    });
    assert!(failed.is_err());
    assert_eq!(keys(&cache), "b");
    cache.get_or_make("a", data).unwrap();
    assert_eq!(keys(&cache), "ab");
}

#[test]
fn who_waited_for_a_failure_tries_again() {
    let (cache, tries, barrier) =
        (CaseCache::new(10 * BYTES, 100), AtomicU32::new(0), Barrier::new(3));
    let ask = || {
        barrier.wait();
        cache.get_or_make("a", || {
            std::thread::sleep(std::time::Duration::from_millis(20));
            if tries.fetch_add(1, Ordering::Relaxed) == 0 { Err(failure()) } else { data() }
        })
    };
    let ends: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(ask)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().is_ok()).collect()
    });
    assert_eq!((ends.iter().filter(|good| **good).count(), tries.into_inner()), (2, 2));
    assert_eq!(keys(&cache), "a");
}
