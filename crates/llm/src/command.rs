//! Asks any program: the prompt on its stdin, the reply on its stdout.
//!
//! A call is one run of the program and ends with this process; nothing of it is found again after
//! a restart. The forms of prompt and reply are in `form`, the process is in `process`.
//!
//! Start at [`CommandModel`].

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline::limits::capped;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{
    COMMAND_FINISHED_MAX, COMMAND_POLL_MS, COMMAND_RUNNING_MAX, ERROR_BYTES_MAX, TICKET_BYTES_MAX,
};
use crate::model::{Llm, ModelInfo, Poll, Price, Reply, Request, Ticket};

mod form;
mod process;

/// How a program is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandSettings {
    /// What the program is called in messages.
    pub name: String,
    /// The program and its arguments; no shell reads them. A program without a slash is looked
    /// for in PATH.
    pub argv: Vec<String>,
    /// The model that answers, as it is shown; a JSON reply may name another one.
    pub model: String,
    /// Where the program runs; where this program runs if absent.
    pub working_folder: Option<PathBuf>,
    /// Names of variables that the program gets beside the usual few; the rest is not passed on.
    pub environment: Vec<String>,
    pub prompt_form: PromptForm,
    pub reply_form: ReplyForm,
    pub price: Price,
    /// Most tokens of one answer: what is asked for and reserved; the program may ignore it.
    pub output_tokens_max: u64,
    /// Longest run of the program, in milliseconds.
    pub deadline_ms: u64,
}

/// What the program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptForm {
    /// The messages' texts with a blank line between two of them, and a newline at the end.
    Text,
    /// One line with a JSON object: messages, limits and what the question is.
    Json,
}

/// What the program writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyForm {
    /// All of it is the reply.
    Text,
    /// A JSON object with the reply in `reply`.
    Json,
}

/// A model behind a program. Programs that still run when its last clone is dropped are killed.
#[derive(Clone, Debug)]
pub struct CommandModel {
    settings: Arc<CommandSettings>,
    calls: Arc<Mutex<Calls>>,
}

type Outcome = Result<Reply, LlmError>;

/// One run of the program.
#[derive(Debug)]
struct Call {
    /// Nothing while the program runs.
    outcome: watch::Receiver<Option<Outcome>>,
    /// Ends the run when it is used or dropped.
    stop: Option<oneshot::Sender<()>>,
}

/// The runs that can be polled.
#[derive(Debug, Default)]
struct Calls {
    by_id: HashMap<String, Call>,
    /// Ids by the time of their start.
    order: VecDeque<String>,
}

const TICKET_PREFIX: &str = "command:";

impl CommandModel {
    /// A model behind the program of `settings`, which is not started yet.
    ///
    /// # Errors
    /// `LocalFile` for settings without a program.
    pub fn new(settings: CommandSettings) -> Result<Self, LlmError> {
        if settings.argv.first().is_none_or(String::is_empty) {
            let why = format!("{}: no program is named", settings.name);
            return Err(LlmError::new(ErrorClass::LocalFile, why));
        }
        Ok(Self { settings: Arc::new(settings), calls: Arc::default() })
    }

    fn submit_now(&self, request: &Request) -> Result<Ticket, LlmError> {
        let text = format!("{TICKET_PREFIX}{}", request.id);
        if text.len() > TICKET_BYTES_MAX {
            let why = format!("{}: the request's id is too long", self.settings.name);
            return Err(LlmError::new(ErrorClass::Refused, why).of_program());
        }
        let mut calls = self.calls();
        if !calls.answers(&request.id) {
            calls.make_room(&self.settings.name)?;
            calls.insert(&request.id, self.start(request)?);
        }
        Ok(Ticket::from(text))
    }

    fn start(&self, request: &Request) -> Result<Call, LlmError> {
        let settings = Arc::clone(&self.settings);
        let limit_ms = request
            .deadline_ms
            .map_or(settings.deadline_ms, |limit_ms| limit_ms.min(settings.deadline_ms));
        let asked = form::Asked::new(request, settings.prompt_form, limit_ms);
        let running = process::start(&settings)?;
        let started = Instant::now();
        let (said, outcome) = watch::channel(None);
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(async move {
            let limit = Duration::from_millis(limit_ms);
            let finished = running.finish(&asked.input, limit, stopped).await;
            let latency_ms = u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
            // Nobody listens any more when the model was dropped.
            let _ = said.send(Some(form::outcome(&settings, &asked, &finished, latency_ms)));
        });
        Ok(Call { outcome, stop: Some(stop) })
    }

    fn outcome_of(&self, ticket: &Ticket) -> Result<watch::Receiver<Option<Outcome>>, LlmError> {
        let calls = self.calls();
        let call = id_of(ticket).and_then(|id| calls.by_id.get(id));
        call.map(|call| call.outcome.clone()).ok_or_else(|| {
            let shown = capped(ticket.as_str(), ERROR_BYTES_MAX);
            let error = LlmError::new(ErrorClass::UnknownTicket, shown);
            error.charged(form::charge(self.settings.price))
        })
    }

    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Llm for CommandModel {
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        self.submit_now(request)
    }

    async fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        let mut outcome = self.outcome_of(ticket)?;
        let ended = outcome.wait_for(Option::is_some);
        let ended = timeout(Duration::from_millis(COMMAND_POLL_MS), ended).await;
        let ended = ended.map(|said| said.ok().and_then(|said| said.clone()));
        match ended {
            Err(_) => Ok(Poll::Pending { next_poll_ms: 1 }),
            Ok(Some(outcome)) => outcome.map(Poll::Done),
            Ok(None) => {
                let why = format!("{}: its watcher is gone", self.settings.name);
                let error = LlmError::new(ErrorClass::Interrupted, why).of_program();
                Err(error.charged(form::charge(self.settings.price)))
            }
        }
    }

    /// Kills the program and waits for its end.
    async fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        let Ok(mut outcome) = self.outcome_of(ticket) else { return Ok(()) };
        let stop = id_of(ticket).and_then(|id| self.calls().by_id.get_mut(id)?.stop.take());
        drop(stop);
        let _ = outcome.wait_for(Option::is_some).await;
        Ok(())
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "command".to_owned(),
            model: self.settings.model.clone(),
            idempotent: false,
            price: self.settings.price,
            output_tokens_max: self.settings.output_tokens_max,
            deadline_ms: Some(self.settings.deadline_ms),
        }
    }
}

impl Calls {
    /// True when the program runs for this id, or has answered it.
    fn answers(&self, id: &str) -> bool {
        let call = self.by_id.get(id);
        call.is_some_and(|call| !matches!(&*call.outcome.borrow(), Some(Err(_))))
    }

    /// Forgets the oldest ends, and refuses more runs than can be watched.
    fn make_room(&mut self, name: &str) -> Result<(), LlmError> {
        let ended =
            |call: &Call| call.outcome.borrow().is_some() || call.outcome.has_changed().is_err();
        let ends: Vec<String> = {
            let is_end = |id: &&String| self.by_id.get(*id).is_none_or(ended);
            self.order.iter().filter(is_end).cloned().collect()
        };
        if self.order.len() - ends.len() >= COMMAND_RUNNING_MAX {
            let why = format!("{name}: {COMMAND_RUNNING_MAX} of it are running");
            return Err(LlmError::new(ErrorClass::RateLimited, why)
                .of_program()
                .charged(Charge::Nothing));
        }
        for id in ends.iter().take((ends.len() + 1).saturating_sub(COMMAND_FINISHED_MAX)) {
            self.by_id.remove(id);
            self.order.retain(|kept| kept != id);
        }
        Ok(())
    }

    fn insert(&mut self, id: &str, call: Call) {
        self.order.retain(|kept| kept != id);
        self.order.push_back(id.to_owned());
        self.by_id.insert(id.to_owned(), call);
    }
}

fn id_of(ticket: &Ticket) -> Option<&str> {
    ticket.as_str().strip_prefix(TICKET_PREFIX)
}

#[cfg(test)]
mod tests;
