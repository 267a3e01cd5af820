//! The batch lane of an OpenAI-compatible server: files of requests that are answered within a day,
//! at a lower price.
//!
//! Requests wait a short time for others, then leave in one file as one batch whose metadata names
//! them, so that a later process finds them again: nothing is ever handed over twice. A batch that
//! takes too long is cancelled. What it did answer is taken; what it did not run costs nothing, and
//! the next try goes to the interactive lane, as a call of its own ([`Llm::describe_after`]).
//!
//! Start at [`BatchModel`]; `lane` holds the rules, `form` the files' lines, `server` the requests.

use std::sync::Arc;

use self::lane::Lane;
use super::settings::{OpenAiSettings, OpenAiSettingsError};
use super::{OpenAiModel, PROVIDER};
use crate::error::{ErrorClass, LlmError};
use crate::limits::TICKET_BYTES_MAX;
use crate::model::{Llm, ModelInfo, Poll, Price, Request, Ticket};

mod form;
mod lane;
mod server;
mod state;

const BATCH_PROVIDER: &str = "openai-batch";
const BATCH_PREFIX: &str = "openai-batch:";

/// What is set for the batch lane beside what is set for the server.
#[derive(Clone, Copy, Debug)]
pub struct BatchSettings {
    /// What tokens cost there.
    pub price: Price,
    /// How long a request waits for others to join it, in milliseconds.
    pub collect_ms: u64,
    /// Most requests of one batch; more than [`crate::limits::BATCH_REQUESTS_MAX`] never join.
    pub requests_max: usize,
    /// Time between two looks at a batch, in milliseconds.
    pub poll_ms: u64,
    /// How long a batch may take before its requests go to the interactive lane, in milliseconds;
    /// `None` leaves it to the server.
    pub deadline_ms: Option<u64>,
}

/// A model behind the batches of an OpenAI-compatible server, with the same model's interactive
/// lane behind it. Clones share their requests.
#[derive(Clone, Debug)]
pub struct BatchModel {
    lane: Arc<Lane>,
    interactive: OpenAiModel,
}

impl BatchModel {
    /// A model as it is set. Nothing is asked yet.
    ///
    /// # Errors
    /// The setting that cannot be used, by name.
    pub fn new(
        settings: OpenAiSettings,
        batch: BatchSettings,
    ) -> Result<Self, OpenAiSettingsError> {
        let whole = OpenAiSettings { stream: false, price: batch.price, ..settings.clone() };
        let caller = OpenAiModel::new(whole)?.caller;
        let lane = Arc::new(Lane::new(caller, batch));
        Ok(Self { lane, interactive: OpenAiModel::new(settings)? })
    }
}

impl Llm for BatchModel {
    async fn submit(&self, request: &Request) -> Result<Ticket, LlmError> {
        if request.provider == PROVIDER {
            return self.interactive.submit(request).await;
        }
        let ticket = format!("{BATCH_PREFIX}{}", request.id);
        if ticket.len() > TICKET_BYTES_MAX {
            return Err(LlmError::new(ErrorClass::Refused, "the id of the request is too long"));
        }
        self.lane.submit(request)?;
        Ok(Ticket::from(ticket))
    }

    async fn poll(&self, ticket: &Ticket) -> Result<Poll, LlmError> {
        match ticket.as_str().strip_prefix(BATCH_PREFIX) {
            Some(id) => self.lane.poll(id).await,
            None => self.interactive.poll(ticket).await,
        }
    }

    async fn cancel(&self, ticket: &Ticket) -> Result<(), LlmError> {
        match ticket.as_str().strip_prefix(BATCH_PREFIX) {
            Some(id) => {
                self.lane.give_up(id);
                Ok(())
            }
            None => self.interactive.cancel(ticket).await,
        }
    }

    fn describe(&self) -> ModelInfo {
        ModelInfo {
            provider: BATCH_PROVIDER.to_owned(),
            idempotent: true,
            price: self.lane.price(),
            // A batch is waited for across restarts; its own deadline is the lane's.
            deadline_ms: None,
            ..self.interactive.describe()
        }
    }

    fn describe_after(&self, provider: &str, failure: Option<&str>) -> ModelInfo {
        let too_late = failure == Some(ErrorClass::Deadline.name());
        if provider == PROVIDER || (provider == BATCH_PROVIDER && too_late) {
            return self.interactive.describe();
        }
        self.describe()
    }
}

/// True for tickets of the interactive lane; for tests.
#[cfg(test)]
pub(super) fn is_interactive(ticket: &Ticket) -> bool {
    ticket.as_str().starts_with(super::TICKET_PREFIX)
}
