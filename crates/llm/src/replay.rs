//! Answers from a recorded transcript: no model, no network, the same replies every time.
//!
//! Entries are matched by task and seq; the try selects among several entries of one pair. A
//! ticket holds everything that finds its entry, so that any later process can poll it.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::future::{Future, ready};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use pipeline::digest::Digest;
use pipeline::limits::capped;
use pipeline::transcript::{Entry, parse};
use serde::{Deserialize, Serialize};

use crate::error::{ErrorClass, LlmError};
use crate::limits::{
    CALL_DEADLINE_MS, ERROR_BYTES_MAX, OUTPUT_TOKENS_MAX, TICKET_BYTES_MAX, TRANSCRIPT_BYTES_MAX,
};
use crate::model::{Llm, ModelInfo, Poll, Price, Reply, Request, Ticket};

/// A model that repeats what was recorded.
#[derive(Clone, Debug)]
pub struct ReplayModel {
    /// Tries of each (task, seq), in the order of the file; shared by all clones.
    entries: Arc<RwLock<Tries>>,
    model: String,
    strict: bool,
    journal: Option<Arc<Journal>>,
}

/// Where an entry is, and what it must answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Place {
    task: String,
    seq: u32,
    #[serde(rename = "try")]
    try_index: u32,
    prompt: Digest,
}

type Tries = HashMap<(String, u32), Vec<Arc<Entry>>>;

const TICKET_PREFIX: &str = "replay:";

impl ReplayModel {
    /// Reads a transcript.
    ///
    /// # Errors
    /// `LocalFile` for a file that cannot be read or is no transcript.
    pub fn open(path: &Path) -> Result<Self, LlmError> {
        let failed = |why: String| local_file(path, &why);
        let text = read_capped(path).map_err(|error| failed(error.to_string()))?;
        let entries = parse(&text).map_err(|error| failed(error.to_string()))?;
        Ok(Self::of_entries(entries))
    }

    /// Replays entries that are already in memory.
    #[must_use]
    pub fn of_entries(entries: Vec<Entry>) -> Self {
        let model = entries.iter().map(|entry| entry.model.clone()).find(|model| !model.is_empty());
        let replay = Self::empty(&model.unwrap_or_else(|| "recorded".to_owned()));
        for entry in entries {
            replay.push(entry);
        }
        replay
    }

    /// A transcript without entries yet.
    #[must_use]
    pub fn empty(model: &str) -> Self {
        let model = model.to_owned();
        Self { entries: Arc::default(), model, strict: false, journal: None }
    }

    /// Adds an entry, for this model and every clone of it.
    pub fn push(&self, entry: Entry) {
        let mut tries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        tries.entry((entry.task.clone(), entry.seq)).or_default().push(Arc::new(entry));
    }

    /// Drops the entries of an attempt that will not be asked for again.
    pub fn forget(&self, task: &str, seq: u32) {
        let mut tries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        tries.remove(&(task.to_owned(), seq));
    }

    /// Makes a reply that was recorded for another prompt an error.
    #[must_use]
    pub fn strict(mut self, strict: bool) -> Self {
        self.strict = strict;
        self
    }

    /// Appends one JSON line to the file at `path` for each request that is answered, so that
    /// what was asked can be counted from outside.
    ///
    /// # Errors
    /// `LocalFile` for a file that cannot be opened.
    pub fn with_journal(mut self, path: &Path) -> Result<Self, LlmError> {
        self.journal = Some(Arc::new(Journal::open(path)?));
        Ok(self)
    }

    fn submit_now(&self, request: &Request) -> Result<Ticket, LlmError> {
        let prompt = request.prompt.hash();
        let Request { task, seq, try_index, .. } = request.clone();
        let place = Place { task, seq, try_index, prompt };
        self.entry(&place)?;
        let ticket = place.ticket()?;
        if let Some(journal) = &self.journal {
            journal.append(&request.id, &place)?;
        }
        Ok(ticket)
    }

    fn poll_now(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        let place = Place::of_ticket(ticket)?;
        let entry = self.entry(&place)?;
        match &entry.error {
            Some(text) => Err(LlmError::of_status_text(&capped(text, ERROR_BYTES_MAX))),
            None => self.reply(&entry, &place).map(Poll::Done),
        }
    }

    fn entry(&self, place: &Place) -> Result<Arc<Entry>, LlmError> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        let tries = entries.get(&(place.task.clone(), place.seq));
        let index = usize::try_from(place.try_index).unwrap_or(usize::MAX);
        // A recorded reply also answers the tries after it, as when a transcript grew between two.
        let entry = tries.and_then(|tries| {
            let last_reply = || tries.last().filter(|last| last.error.is_none());
            tries.get(index).or_else(last_reply).cloned()
        });
        entry.ok_or_else(|| {
            LlmError::new(ErrorClass::Exhausted, format!("the transcript has no {}", place.name()))
        })
    }

    fn reply(&self, entry: &Entry, place: &Place) -> Result<Reply, LlmError> {
        let recorded = !entry.prompt_hash.is_empty();
        let drift = recorded && entry.prompt_hash != place.prompt.as_str();
        if drift && self.strict {
            return Err(LlmError::new(ErrorClass::Drift, place.name()));
        }
        let model = if entry.model.is_empty() { &self.model } else { &entry.model };
        Ok(Reply {
            text: entry.reply.clone(),
            finish_reason: entry.finish_reason.clone(),
            usage: Some(entry.usage),
            model: model.clone(),
            latency_ms: entry.latency_ms,
            cost_nusd: Some(0),
            drift,
            reasoning: String::new(),
            http_log: String::new(),
        })
    }
}

impl Llm for ReplayModel {
    fn submit(&self, request: &Request) -> impl Future<Output = Result<Ticket, LlmError>> + Send {
        ready(self.submit_now(request))
    }

    fn poll(&self, ticket: &Ticket) -> impl Future<Output = Result<Poll, LlmError>> + Send {
        ready(self.poll_now(ticket))
    }

    fn cancel(&self, _: &Ticket) -> impl Future<Output = Result<(), LlmError>> + Send {
        ready(Ok(()))
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "replay".to_owned(),
            model: self.model.clone(),
            idempotent: true,
            price: Price::Free,
            output_tokens_max: OUTPUT_TOKENS_MAX,
            deadline_ms: Some(CALL_DEADLINE_MS),
        }
    }
}

impl Place {
    fn name(&self) -> String {
        format!("entry for task {}, seq {}, try {}", self.task, self.seq, self.try_index)
    }

    fn ticket(&self) -> Result<Ticket, LlmError> {
        let json = serde_json::to_string(self);
        let text = json.map(|json| format!("{TICKET_PREFIX}{json}"));
        match text {
            Ok(text) if text.len() <= TICKET_BYTES_MAX => Ok(Ticket::from(text)),
            Ok(_) | Err(_) => {
                Err(LlmError::new(ErrorClass::Refused, "the task's name is too long"))
            }
        }
    }

    fn of_ticket(ticket: &Ticket) -> Result<Self, LlmError> {
        let json = ticket.as_str().strip_prefix(TICKET_PREFIX);
        let place = json.and_then(|json| serde_json::from_str(json).ok());
        let shown = || capped(ticket.as_str(), TICKET_BYTES_MAX);
        place.ok_or_else(|| LlmError::new(ErrorClass::UnknownTicket, shown()))
    }
}

/// A file that gets a line for each request.
#[derive(Debug)]
struct Journal {
    path: PathBuf,
    file: Mutex<File>,
}

#[derive(Serialize)]
struct JournalLine<'a> {
    id: &'a str,
    #[serde(flatten)]
    place: &'a Place,
}

impl Journal {
    fn open(path: &Path) -> Result<Self, LlmError> {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|error| local_file(path, &error.to_string()))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// One write, so that a kill leaves a whole line or none.
    fn append(&self, id: &str, place: &Place) -> Result<(), LlmError> {
        let line = serde_json::to_string(&JournalLine { id, place });
        let line = line.map_err(|error| local_file(&self.path, &error.to_string()))?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all(format!("{line}\n").as_bytes());
        written.map_err(|error| local_file(&self.path, &error.to_string()))
    }
}

fn local_file(path: &Path, why: &str) -> LlmError {
    LlmError::new(ErrorClass::LocalFile, format!("{}: {why}", path.display()))
}

fn read_capped(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(TRANSCRIPT_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > TRANSCRIPT_BYTES_MAX {
        let why = format!("larger than {TRANSCRIPT_BYTES_MAX} bytes");
        return Err(std::io::Error::new(std::io::ErrorKind::FileTooLarge, why));
    }
    Ok(text)
}

#[cfg(test)]
mod tests;
