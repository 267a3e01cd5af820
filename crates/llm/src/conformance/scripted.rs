//! A model that counts and charges, for tests of whoever books its calls.

use std::collections::BTreeMap;
use std::future::{Future, pending, ready};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::transcript::Usage;

use crate::error::{ErrorClass, LlmError};
use crate::model::{Llm, ModelInfo, Poll, Price, Reply, Request, Ticket};

/// What every answer costs.
const USAGE: Usage = Usage::of(10, 20);
const PRICE: Price = Price::PerMillionTokens {
    input_nusd: 3_000_000_000,
    cached_input_nusd: 300_000_000,
    output_nusd: 15_000_000_000,
};

/// The far side, which outlives the process that asks: share it between models of one test.
#[derive(Clone, Debug, Default)]
pub struct Server {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// Answers charged for each request id.
    charged: BTreeMap<String, u32>,
    polls: u32,
}

/// Fails one try of one question, after the server has charged for it.
#[derive(Clone, Debug)]
pub struct Failure {
    pub seq: u32,
    pub try_index: u32,
    pub error: LlmError,
    /// True when submitting fails, false when polling does.
    pub on_submit: bool,
}

/// Answers every question with the same text; see [`Server`] for what it was asked.
#[derive(Clone, Debug)]
pub struct ScriptedModel {
    pub server: Server,
    /// Name of the model.
    pub name: String,
    pub text: String,
    /// False: the same request submitted again is charged again.
    pub idempotent: bool,
    /// False: every poll stays pending.
    pub answers: bool,
    /// True: submitting takes for ever, after the server has charged.
    pub stuck_on_submit: bool,
    pub failures: Vec<Failure>,
    pub deadline_ms: Option<u64>,
}

impl Server {
    /// Answers charged so far.
    #[must_use]
    pub fn charged_calls(&self) -> u64 {
        self.state().charged.values().map(|times| u64::from(*times)).sum()
    }

    /// What they cost in nano-dollars.
    #[must_use]
    pub fn charged_nusd(&self) -> i64 {
        i64::try_from(self.charged_calls())
            .unwrap_or(i64::MAX)
            .saturating_mul(PRICE.cost_nusd(USAGE).unwrap_or(0))
    }

    /// Polls so far.
    #[must_use]
    pub fn polls(&self) -> u32 {
        self.state().polls
    }

    fn charge(&self, id: &str, idempotent: bool) {
        let mut state = self.state();
        let times = state.charged.entry(id.to_owned()).or_default();
        *times = if idempotent { 1 } else { *times + 1 };
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ScriptedModel {
    /// A model that answers `text`.
    #[must_use]
    pub fn new(server: &Server, text: &str, idempotent: bool) -> Self {
        Self {
            server: server.clone(),
            name: "scripted".to_owned(),
            text: text.to_owned(),
            idempotent,
            answers: true,
            stuck_on_submit: false,
            failures: Vec::new(),
            deadline_ms: Some(60_000),
        }
    }

    fn failure(&self, seq: u32, try_index: u32, on_submit: bool) -> Result<(), LlmError> {
        let of_this = |failure: &&Failure| {
            (failure.seq, failure.try_index, failure.on_submit) == (seq, try_index, on_submit)
        };
        self.failures.iter().find(of_this).map_or(Ok(()), |failure| Err(failure.error.clone()))
    }

    fn submit_now(&self, request: &Request) -> Result<Ticket, LlmError> {
        let Request { id, seq, try_index, .. } = request;
        self.server.charge(id, self.idempotent);
        self.failure(*seq, *try_index, true)?;
        Ok(Ticket::from(format!("{id}/{seq}/{try_index}")))
    }

    fn poll_now(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        self.server.state().polls += 1;
        let unknown = || LlmError::new(ErrorClass::UnknownTicket, ticket.to_string());
        let [id, seq, try_index] = ticket.as_str().split('/').collect::<Vec<_>>()[..] else {
            return Err(unknown());
        };
        if !self.server.state().charged.contains_key(id) {
            return Err(unknown());
        }
        let number = |text: &str| text.parse::<u32>().map_err(|_| unknown());
        self.failure(number(seq)?, number(try_index)?, false)?;
        if !self.answers {
            return Ok(Poll::Pending { next_poll_ms: 1 });
        }
        Ok(Poll::Done(Reply {
            text: self.text.clone(),
            finish_reason: "stop".to_owned(),
            usage: Some(USAGE),
            model: self.name.clone(),
            latency_ms: 1,
            cost_nusd: PRICE.cost_nusd(USAGE),
            drift: false,
            reasoning: String::new(),
            http_log: String::new(),
        }))
    }
}

impl Llm for ScriptedModel {
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        let submitted = self.submit_now(request);
        if self.stuck_on_submit {
            return pending().await;
        }
        submitted
    }

    fn poll(&self, ticket: &Ticket) -> impl Future<Output = Result<Poll, LlmError>> + Send {
        ready(self.poll_now(ticket))
    }

    fn cancel(&self, _: &Ticket) -> impl Future<Output = Result<(), LlmError>> + Send {
        ready(Ok(()))
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: "scripted".to_owned(),
            model: self.name.clone(),
            idempotent: self.idempotent,
            price: PRICE,
            output_tokens_max: 32_000,
            deadline_ms: self.deadline_ms,
        }
    }
}
