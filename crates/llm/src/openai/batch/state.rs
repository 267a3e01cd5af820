//! What one process knows of its requests and of the server's batches.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::super::calls::Outcome;
use super::form::{Lines, Seen};
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{BATCH_FILE_BYTES_MAX, BATCH_REQUESTS_MAX, BATCHES_KEPT_MAX};

/// Where a request is.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// Maybe in a batch of an earlier process: the server's list tells.
    Unsure,
    /// It waits for the next file.
    Queued,
    /// Its file is being handed over.
    Leaving,
    /// In a batch of the server, at this line where it is known.
    In {
        batch: String,
        line: Option<usize>,
    },
    Ended(Box<Outcome>),
}

/// A request that is not handed over yet.
#[derive(Clone, Debug)]
pub(super) struct Waiting {
    pub(super) id: String,
    pub(super) line: Vec<u8>,
}

/// The file of one batch.
#[derive(Debug, Default)]
pub(super) struct File {
    pub(super) ids: Vec<String>,
    pub(super) bytes: Vec<u8>,
}

/// A batch of the server, as it was last seen.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) created_s: i64,
    pub(super) looked_at: Option<Instant>,
    /// Looks and reads in a row that failed.
    pub(super) failures: u32,
    pub(super) cancelled_at: Option<Instant>,
    /// Its requests that somebody still waits for.
    pub(super) wanted: usize,
    /// Once it has ended.
    pub(super) ended: Option<Ended>,
}

/// The end of a batch.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) lines: Lines,
    /// What became of requests without a line.
    pub(super) rest: Rest,
}

#[derive(Debug)]
pub(super) enum Rest {
    AsSeen(Box<Seen>),
    /// Nobody could find out.
    Unknown(LlmError),
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) places: HashMap<String, Place>,
    /// What [`Place::Unsure`] asks, by id.
    pub(super) unsure: HashMap<String, Vec<u8>>,
    pub(super) queue: Vec<Waiting>,
    pub(super) queued_since: Option<Instant>,
    pub(super) batches: HashMap<String, Batch>,
    /// Ends of batches in the order in which they were read.
    kept: Vec<String>,
    /// Looks at the server's list that did not show a request, by id.
    pub(super) misses: HashMap<String, u32>,
    pub(super) listed_at: Option<Instant>,
    /// Lists in a row that failed.
    pub(super) list_failures: u32,
    /// True where the last list ended before the server's batches did.
    pub(super) list_was_cut: bool,
}

impl State {
    pub(super) fn queue(&mut self, waiting: Waiting) {
        self.places.insert(waiting.id.clone(), Place::Queued);
        self.queued_since.get_or_insert_with(Instant::now);
        self.queue.push(waiting);
    }

    /// How long until the next file leaves.
    pub(super) fn until_full(&self, collect_ms: u64, requests_max: usize) -> Duration {
        let bytes: usize = self.queue.iter().map(|it| it.line.len()).sum();
        if self.queue.len() >= requests_max.clamp(1, BATCH_REQUESTS_MAX)
            || bytes >= BATCH_FILE_BYTES_MAX
        {
            return Duration::ZERO;
        }
        let waited = self.queued_since.map_or(Duration::ZERO, |since| since.elapsed());
        Duration::from_millis(collect_ms).saturating_sub(waited)
    }

    /// Takes the next file from the queue; the rest waits on.
    pub(super) fn next_file(&mut self, requests_max: usize) -> Option<File> {
        let mut file = File::default();
        while let Some(next) = self.queue.first() {
            let full = file.ids.len() >= requests_max.clamp(1, BATCH_REQUESTS_MAX)
                || file.bytes.len() + next.line.len() > BATCH_FILE_BYTES_MAX;
            if full {
                break;
            }
            let next = self.queue.remove(0);
            self.places.insert(next.id.clone(), Place::Leaving);
            file.ids.push(next.id);
            file.bytes.extend(next.line);
        }
        self.queued_since = (!self.queue.is_empty()).then(Instant::now);
        (!file.ids.is_empty()).then_some(file)
    }

    /// Notes a batch of the server with the requests that it holds.
    pub(super) fn note_batch(&mut self, seen: &Seen, ids: &[String], now_s: i64) {
        self.batches.entry(seen.id.clone()).or_insert_with(|| Batch {
            created_s: seen.created_s.unwrap_or(now_s),
            looked_at: None,
            failures: 0,
            cancelled_at: None,
            wanted: ids.len(),
            ended: None,
        });
        for (line, id) in ids.iter().enumerate() {
            let known = self.places.get(id);
            if matches!(known, Some(Place::In { .. } | Place::Ended(_))) {
                continue;
            }
            self.unsure.remove(id);
            self.queue.retain(|queued| queued.id != *id);
            let place = Place::In { batch: seen.id.clone(), line: Some(line) };
            self.places.insert(id.clone(), place);
        }
    }

    /// Keeps the end of a batch; of the oldest ones only where they are is kept.
    pub(super) fn keep(&mut self, id: &str, ended: Ended) {
        if let Some(batch) = self.batches.get_mut(id) {
            batch.ended = Some(ended);
            batch.failures = 0;
            self.kept.push(id.to_owned());
        }
        while self.kept.len() > BATCHES_KEPT_MAX {
            let oldest = self.kept.remove(0);
            if let Some(batch) = self.batches.get_mut(&oldest) {
                (batch.ended, batch.looked_at) = (None, None);
            }
        }
    }
}

/// The end of a request that nobody waits for and that never left.
pub(super) fn given_up() -> Outcome {
    let why = "the request was given up before it left";
    Err(LlmError::new(ErrorClass::Interrupted, why).charged(Charge::Nothing))
}
