//! The seam to a model: few methods, tickets that survive a restart.

use std::fmt;
use std::future::Future;

pub use pipeline::price::Price;
use pipeline::prompt::Prompt;
use pipeline::transcript::Usage;

use crate::error::LlmError;

/// Something that answers prompts.
///
/// Errors are ours or the provider's; a bad answer is a [`Reply`] like any other.
pub trait Llm {
    /// Hands a request over. The same request may be submitted again after a crash; an idempotent
    /// provider then answers it once.
    fn submit(&self, request: &Request) -> impl Future<Output = Result<Ticket, LlmError>> + Send;

    /// Asks for the reply to a submitted request, also one of an earlier process.
    fn poll(&self, ticket: &Ticket) -> impl Future<Output = Result<Poll, LlmError>> + Send;

    /// Gives a request up; one that is done or unknown is no error.
    fn cancel(&self, ticket: &Ticket) -> impl Future<Output = Result<(), LlmError>> + Send;

    /// What answers, and at what price.
    fn describe(&self) -> ModelInfo;

    /// What answers calls of `provider`, one of the lanes of this model; after a try there that
    /// ended as the class `failure`, what answers the next one. A model with one lane has one
    /// answer.
    fn describe_after(&self, provider: &str, failure: Option<&str>) -> ModelInfo {
        let _ = (provider, failure);
        self.describe()
    }
}

/// One question to a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Id of the call, made by us; the idempotency key where a provider has one.
    pub id: String,
    /// Name of the task.
    pub task: String,
    /// Seq of the attempt.
    pub seq: u32,
    /// 0-based number of the try: calls of this attempt that ended without a reply.
    pub try_index: u32,
    pub prompt: Prompt,
    /// Most tokens that the model may answer with.
    pub output_tokens_max: u64,
    /// Longest wait for the answer, in milliseconds; `None` waits for ever.
    pub deadline_ms: Option<u64>,
    /// The lane that the call was reserved for, as [`ModelInfo::provider`] names it; empty for the
    /// one that [`Llm::describe`] describes.
    pub provider: String,
}

/// What a provider needs to find a submitted request again; opaque text for a ledger.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(String);

impl Ticket {
    /// The ticket as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<String> for Ticket {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How far a submitted request is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Not answered; worth asking again after this time.
    Pending {
        next_poll_ms: u64,
    },
    Done(Reply),
}

/// An answer with its price.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub text: String,
    /// As the provider names it, e.g. `stop` or `length`.
    pub finish_reason: String,
    /// `None` when the provider did not count: the call is then booked at its worst case.
    pub usage: Option<Usage>,
    /// The model that answered, as the provider names it.
    pub model: String,
    pub latency_ms: u64,
    /// Price in nano-dollars; `None` when it is not known.
    pub cost_nusd: Option<i64>,
    /// True when a recorded reply answered another prompt than the one asked.
    pub drift: bool,
    /// What the model said apart from its answer, where the provider shows it.
    pub reasoning: String,
    /// What happened on the wire, as JSON; empty where there is no wire.
    pub http_log: String,
}

/// What answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub provider: String,
    pub model: String,
    /// True when a ticket, or the same request submitted again, never costs a second answer.
    pub idempotent: bool,
    pub price: Price,
    /// Most tokens that one answer may have: what is asked for, and what is reserved.
    pub output_tokens_max: u64,
    /// Longest wait for one answer, in milliseconds; `None` waits for ever.
    pub deadline_ms: Option<u64>,
}
