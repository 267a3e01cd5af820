//! Case data that was made before, by key.
//!
//! What is asked for by several threads is made by the first of them; what was not used for the
//! longest time goes when there is too much.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::JudgeError;
use crate::cases::{CaseData, lock};
use crate::limits::{CASE_CACHE_ENTRIES_MAX, CASE_FILES};

/// Locked by the thread that makes the data, while others wait.
type Cell = Arc<Mutex<Option<Arc<CaseData>>>>;

/// Case data by key, up to a number of bytes and of entries, each of which holds descriptors.
#[derive(Debug)]
pub(crate) struct CaseCache {
    bytes_max: u64,
    entries_max: usize,
    entries: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: HashMap<String, Entry>,
    /// Of all entries that are made.
    bytes: u64,
    /// Counts uses.
    now: u64,
}

#[derive(Debug)]
struct Entry {
    cell: Cell,
    /// 0 until it is made.
    bytes: u64,
    used: u64,
}

impl CaseCache {
    /// An empty cache. Data that is larger than `bytes_max` alone is kept until the next is made.
    pub(crate) fn new(bytes_max: u64, entries_max: usize) -> Self {
        Self { bytes_max, entries_max, entries: Mutex::default() }
    }

    /// The data of `key`, made now if it is not there. When making fails, a thread that waited for
    /// it tries itself: the failure may have been that the first one's work was cancelled.
    pub(crate) fn get_or_make(
        &self,
        key: &str,
        make: impl FnOnce() -> Result<CaseData, JudgeError>,
    ) -> Result<Arc<CaseData>, JudgeError> {
        let cell = lock(&self.entries).used(key);
        let mut content = lock(&cell);
        if let Some(found) = &*content {
            return Ok(Arc::clone(found));
        }
        let made = make().map(Arc::new);
        let mut entries = lock(&self.entries);
        match &made {
            Ok(data) => {
                *content = Some(Arc::clone(data));
                entries.made(key, data.bytes());
                entries.evict(self.bytes_max, self.entries_max);
            }
            Err(_) => entries.failed(key),
        }
        made
    }
}

impl CaseCache {
    /// True while the data of `key` is here.
    pub(crate) fn holds(&self, key: &str) -> bool {
        lock(&self.entries).by_key.get(key).is_some_and(|entry| entry.bytes > 0)
    }

    /// Keeps data that was made with others; what another thread made meanwhile is the same.
    pub(crate) fn put(&self, key: &str, data: CaseData) -> Result<(), JudgeError> {
        self.get_or_make(key, || Ok(data)).map(drop)
    }
}

impl Entries {
    fn used(&mut self, key: &str) -> Cell {
        self.now += 1;
        let fresh = || Entry { cell: Arc::default(), bytes: 0, used: 0 };
        let entry = self.by_key.entry(key.to_owned()).or_insert_with(fresh);
        entry.used = self.now;
        Arc::clone(&entry.cell)
    }

    fn made(&mut self, key: &str, bytes: u64) {
        self.now += 1;
        if let Some(entry) = self.by_key.get_mut(key) {
            (entry.bytes, entry.used) = (bytes, self.now);
            self.bytes += bytes;
        }
    }

    /// Removes an entry that could not be made, unless somebody waits to try again. The caller
    /// holds one of the two handles that are left then.
    fn failed(&mut self, key: &str) {
        if self.by_key.get(key).is_some_and(|entry| Arc::strong_count(&entry.cell) <= 2) {
            self.by_key.remove(key);
        }
    }

    fn evict(&mut self, bytes_max: u64, entries_max: usize) {
        while self.bytes > bytes_max || self.by_key.len() > entries_max {
            let made = self.by_key.iter().filter(|(_, entry)| entry.bytes > 0);
            let oldest = made.min_by_key(|(_, entry)| entry.used);
            let Some((key, bytes)) = oldest.map(|(key, entry)| (key.clone(), entry.bytes)) else {
                return;
            };
            // The newest stays: it is in use.
            if bytes == self.bytes {
                return;
            }
            self.by_key.remove(&key);
            self.bytes -= bytes;
        }
    }
}

/// Entries that this process has descriptors for, beside all else that it opens.
pub(crate) fn entries_max() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let entries = files.map_or(u64::MAX, |files| files / CASE_FILES);
    entries.clamp(1, CASE_CACHE_ENTRIES_MAX) as usize
}

#[cfg(test)]
mod tests;
