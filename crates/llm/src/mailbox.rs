//! Asks through files: a question is written into a folder, and whoever likes answers beside it.
//!
//! Everything is in the folder, by the id of the call, so that a question outlives this process
//! and an answer is found again wherever a crash left it. The text of the files is in `question`,
//! what is done to them in `folder`.
//!
//! Start at [`MailboxModel`].

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use pipeline::limits::capped;
use pipeline::transcript::Usage;
use pipeline::visible::visible;
use serde_json::{Map, Value};

use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{
    ERROR_BYTES_MAX, MAILBOX_FILE_BYTES_MAX, MAILBOX_ID_BYTES_MAX, MAILBOX_OPEN_MAX,
    MAILBOX_POLL_MS, MAILBOX_STABLE_MS, REPLY_BYTES_MAX,
};
use crate::model::{Llm, ModelInfo, Poll, Price, Reply, Request, Ticket};
use crate::told;
use folder::{File, Folder, Place, Sight, Unread};

mod folder;
mod question;

/// Where questions go, and what is said about who answers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MailboxSettings {
    /// What the mailbox is called in messages.
    pub name: String,
    pub folder: PathBuf,
    /// Who answers, as it is shown; an answer's counts may name someone else.
    pub model: String,
    /// Longest wait for one answer, in milliseconds; `None` waits for ever.
    pub deadline_ms: Option<u64>,
    /// Most tokens of one answer: what is asked for; nobody counts.
    pub output_tokens_max: u64,
}

/// A model behind a folder, which is locked until the last clone is dropped.
#[derive(Clone, Debug)]
pub struct MailboxModel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: MailboxSettings,
    folder: Folder,
    open: Mutex<HashMap<String, Looks>>,
}

/// Questions that this process asked are open, with the last new look at a reply and at a refusal
/// that were not taken yet.
type Looks = [Option<(Sight, Instant)>; ANSWERS.len()];

const TICKET_PREFIX: &str = "mailbox:";
const PENDING: Poll = Poll::Pending { next_poll_ms: MAILBOX_POLL_MS };
/// What answers a question, by precedence.
const ANSWERS: [File; 2] = [File::Reply, File::Refusal];

impl MailboxModel {
    /// Makes the folder, locks it, and removes what an earlier process left half-written.
    ///
    /// # Errors
    /// `LocalFile` for a folder that cannot be used or that another run uses.
    pub fn open(settings: MailboxSettings) -> Result<Self, LlmError> {
        let folder = Folder::open(&settings.folder)
            .map_err(|why| failed(&settings.name, ErrorClass::LocalFile, &why))?;
        Ok(Self { shared: Arc::new(Shared { settings, folder, open: Mutex::default() }) })
    }

    /// Files may be slow, so they are used on a thread that may wait.
    async fn off_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, LlmError> + Send + 'static,
    ) -> Result<T, LlmError> {
        let shared = Arc::clone(&self.shared);
        let worked = tokio::task::spawn_blocking(move || work(&shared)).await;
        let name = &self.shared.settings.name;
        worked.map_err(|error| failed(name, ErrorClass::LocalFile, &error.to_string()))?
    }
}

impl Llm for MailboxModel {
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        let request = request.clone();
        self.off_thread(move |shared| shared.submit(&request)).await
    }

    async fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        let ticket = ticket.clone();
        self.off_thread(move |shared| shared.poll(&ticket)).await
    }

    /// Moves the question away, so that nobody answers in vain.
    async fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        let ticket = ticket.clone();
        self.off_thread(move |shared| shared.cancel(&ticket)).await
    }

    fn describe(&self) -> ModelInfo {
        let settings = &self.shared.settings;
        ModelInfo {
            provider: "mailbox".to_owned(),
            model: settings.model.clone(),
            idempotent: true,
            price: Price::Free,
            output_tokens_max: settings.output_tokens_max,
            deadline_ms: settings.deadline_ms,
        }
    }
}

impl Shared {
    fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        let id = &request.id;
        if !is_file_name(id) {
            let shown = capped(&visible(id), MAILBOX_ID_BYTES_MAX);
            return Err(self.failed(ErrorClass::Refused, &format!("{shown:?} names no file")));
        }
        if self.answered(id)?.is_none() {
            self.note(id)?;
            self.ask(request).inspect_err(|_| self.forget(id))?;
        }
        Ok(Ticket::from(format!("{TICKET_PREFIX}{id}")))
    }

    /// Writes what is missing of a question that has no answer; the JSON file comes last, because
    /// programs wait for it.
    fn ask(&self, request: &Request) -> Result<(), LlmError> {
        let (id, folder) = (&request.id, &self.folder);
        let exists = |file| self.local(folder.exists(Place::Open, id, file));
        if self.first(Place::Open, id)?.is_some() {
            return Ok(());
        }
        let limits = question::Limits {
            deadline_ms: match (request.deadline_ms, self.settings.deadline_ms) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            },
            created: SystemTime::now(),
        };
        if !exists(File::ReadablePrompt)? {
            let text = question::readable(request, &limits);
            self.local(folder.write(id, File::ReadablePrompt, &text))?;
        }
        if !exists(File::Prompt)? {
            self.local(folder.write(id, File::Prompt, &question::json(request, &limits)))?;
        }
        Ok(())
    }

    fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        let unknown = || {
            let shown = capped(&visible(ticket.as_str()), ERROR_BYTES_MAX);
            self.failed(ErrorClass::UnknownTicket, &shown)
        };
        let id = id_of(ticket).ok_or_else(unknown)?;
        let answer = match self.answered(id)? {
            Some(answer) => Some(answer),
            None => self.arrived(id)?,
        };
        let Some(answer) = answer else {
            if !self.is_open(id)? {
                return Err(unknown());
            }
            self.give_up_if_late(id)?;
            return Ok(PENDING);
        };
        // Whoever wrote it may have taken it back since.
        if !self.take(id, answer)? {
            return Ok(PENDING);
        }
        match answer {
            File::Refusal => self.refusal(id).map(Poll::Done),
            File::Reply | File::Counts | File::Prompt | File::ReadablePrompt => {
                self.reply(id).map(Poll::Done)
            }
        }
    }

    /// Ends a question whose deadline is over, counted from when it was written.
    fn give_up_if_late(&self, id: &str) -> Result<(), LlmError> {
        let late =
            |deadline_ms: &u64| self.folder.age_ms(id).is_some_and(|age| age >= *deadline_ms);
        let Some(deadline_ms) = self.settings.deadline_ms.filter(late) else { return Ok(()) };
        self.close(id)?;
        let seconds = deadline_ms as f64 / 1e3;
        Err(self.failed(ErrorClass::Deadline, &format!("nobody answered within {seconds} s")))
    }

    fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        let Some(id) = id_of(ticket) else { return Ok(()) };
        self.close(id)
    }

    /// The answer that was taken already.
    fn answered(&self, id: &str) -> Result<Option<File>, LlmError> {
        self.first(Place::Done, id)
    }

    fn first(&self, place: Place, id: &str) -> Result<Option<File>, LlmError> {
        for answer in ANSWERS {
            if self.local(self.folder.exists(place, id, answer))? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// The answer that lies in the folder and is whole. While a reply is being written, a refusal
    /// does not count.
    fn arrived(&self, id: &str) -> Result<Option<File>, LlmError> {
        for (index, answer) in ANSWERS.into_iter().enumerate() {
            let Some(sight) = self.local(self.folder.look(id, answer))? else { continue };
            // A shell's `>` makes an empty file long before there is a reply.
            let is_begun = sight.is_file && sight.bytes == 0 && answer == File::Reply;
            if !is_begun {
                return Ok(self.is_whole(id, index, sight).then_some(answer));
            }
        }
        Ok(None)
    }

    fn is_whole(&self, id: &str, index: usize, sight: Sight) -> bool {
        if !sight.is_file || sight.renamed || sight.bytes > REPLY_BYTES_MAX as u64 {
            return true;
        }
        let mut open = self.open();
        let Some(look) = open.entry(id.to_owned()).or_default().get_mut(index) else { return true };
        let (seen, since) = *look.get_or_insert((sight, Instant::now()));
        if seen != sight {
            *look = Some((sight, Instant::now()));
        }
        seen == sight && since.elapsed() >= Duration::from_millis(MAILBOX_STABLE_MS)
    }

    fn is_open(&self, id: &str) -> Result<bool, LlmError> {
        if self.open().contains_key(id) {
            return Ok(true);
        }
        self.local(self.folder.exists(Place::Open, id, File::Prompt))
    }

    /// Moves an answer away, then its question; false if there is no such answer. What was counted
    /// goes first, because an answer counts once it is away; what a crash leaves in the folder is
    /// moved the next time.
    fn take(&self, id: &str, answer: File) -> Result<bool, LlmError> {
        let is_done = || self.local(self.folder.exists(Place::Done, id, answer));
        if !is_done()? {
            self.local(self.folder.put_away(id, File::Counts))?;
            self.local(self.folder.put_away(id, answer))?;
        }
        let taken = is_done()?;
        if taken {
            self.close(id)?;
        }
        Ok(taken)
    }

    fn close(&self, id: &str) -> Result<(), LlmError> {
        for file in [File::Prompt, File::ReadablePrompt] {
            self.local(self.folder.put_away(id, file))?;
        }
        self.forget(id);
        Ok(())
    }

    fn reply(&self, id: &str) -> Result<Reply, LlmError> {
        let bytes = self.folder.read(id, File::Reply, REPLY_BYTES_MAX);
        let bytes = bytes.map_err(|error| self.unread(error))?;
        let path = || self.folder.path(Place::Done, id, File::Reply);
        let malformed =
            |why: &str| self.failed(ErrorClass::Malformed, &format!("{} {why}", path().display()));
        let text = String::from_utf8(bytes).map_err(|_| malformed("is no UTF-8"))?;
        if text.trim().is_empty() {
            return Err(malformed("is empty"));
        }
        let told = self.counts(id);
        let or = |name: &str, default: &str| {
            told::text(&told, name).unwrap_or_else(|| default.to_owned())
        };
        let usage = told::usage(&told);
        let usage = usage.unwrap_or_else(|| Usage::estimate(self.prompt_bytes(id), text.len()));
        let answer = self.answer(id, text, usage, or("finish_reason", "stop"));
        Ok(Reply { model: or("model", &self.settings.model), ..answer })
    }

    /// What was counted, or nothing: an answer is not lost because of how it was counted.
    fn counts(&self, id: &str) -> Map<String, Value> {
        let bytes = self.folder.read(id, File::Counts, MAILBOX_FILE_BYTES_MAX).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn prompt_bytes(&self, id: &str) -> usize {
        let bytes = self.folder.read(id, File::Prompt, MAILBOX_FILE_BYTES_MAX).unwrap_or_default();
        question::message_bytes(&bytes)
    }

    /// A person's refusal is an answer: it ends this one attempt, with the words that were said.
    fn refusal(&self, id: &str) -> Result<Reply, LlmError> {
        let bytes = self.folder.read(id, File::Refusal, REPLY_BYTES_MAX);
        let bytes = bytes.map_err(|error| self.unread(error))?;
        let words = visible(&String::from_utf8_lossy(&bytes));
        let text = capped(words.trim(), REPLY_BYTES_MAX);
        let usage = Usage::estimate(self.prompt_bytes(id), text.len());
        Ok(self.answer(id, text, usage, "refusal".to_owned()))
    }

    fn answer(&self, id: &str, text: String, usage: Usage, finish_reason: String) -> Reply {
        Reply {
            text,
            finish_reason,
            usage: Some(usage),
            model: self.settings.model.clone(),
            latency_ms: self.folder.latency_ms(id),
            cost_nusd: Some(0),
            drift: false,
            reasoning: String::new(),
            http_log: String::new(),
        }
    }

    /// Notes that an answer is waited for.
    fn note(&self, id: &str) -> Result<(), LlmError> {
        let mut open = self.open();
        if open.len() >= MAILBOX_OPEN_MAX && !open.contains_key(id) {
            let why = format!("{MAILBOX_OPEN_MAX} questions are open");
            return Err(self.failed(ErrorClass::RateLimited, &why));
        }
        open.entry(id.to_owned()).or_default();
        Ok(())
    }

    fn forget(&self, id: &str) {
        self.open().remove(id);
    }

    fn open(&self) -> MutexGuard<'_, HashMap<String, Looks>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unread(&self, error: Unread) -> LlmError {
        match error {
            Unread::Answer(why) => self.failed(ErrorClass::Malformed, &why),
            Unread::Machine(why) => self.failed(ErrorClass::LocalFile, &why),
        }
    }

    fn local<T>(&self, result: Result<T, String>) -> Result<T, LlmError> {
        result.map_err(|why| self.failed(ErrorClass::LocalFile, &why))
    }

    fn failed(&self, class: ErrorClass, why: &str) -> LlmError {
        failed(&self.settings.name, class, why)
    }
}

/// Whatever happens to it, a question in a mailbox costs nothing.
fn failed(name: &str, class: ErrorClass, why: &str) -> LlmError {
    let why = capped(&format!("{name}: {why}"), ERROR_BYTES_MAX);
    LlmError::new(class, why).charged(Charge::Nothing)
}

fn id_of(ticket: &Ticket) -> Option<&str> {
    ticket.as_str().strip_prefix(TICKET_PREFIX).filter(|id| is_file_name(id))
}

/// True for ids that name files of this folder and of no other, none of them hidden.
fn is_file_name(id: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_short = (1..=MAILBOX_ID_BYTES_MAX).contains(&id.len());
    is_short && id.bytes().all(plain) && !id.starts_with('.') && !id.contains("..")
}

#[cfg(test)]
mod tests;
