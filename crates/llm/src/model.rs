//! The seam to a model: few methods, tickets that survive a restart.

use std::fmt;
use std::future::Future;

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
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    pub model: String,
    pub latency_ms: u64,
    /// Price in nano-dollars.
    pub cost_nusd: i64,
    /// True when a recorded reply answered another prompt than the one asked.
    pub drift: bool,
}

/// What answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    pub provider: String,
    pub model: String,
    /// True when a ticket, or the same request submitted again, never costs a second answer.
    pub idempotent: bool,
    pub price: Price,
}

/// What a token costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Nothing.
    Free,
    /// Nano-dollars per million tokens.
    PerMillionTokens { input_nusd: i64, output_nusd: i64 },
}

impl Price {
    /// The price of `usage` in nano-dollars, rounded up; `i64::MAX` where it does not fit.
    #[must_use]
    pub fn cost_nusd(self, usage: Usage) -> i64 {
        let Self::PerMillionTokens { input_nusd, output_nusd } = self else { return 0 };
        let part = |tokens: u64, nusd: i64| i128::from(tokens) * i128::from(nusd);
        let total = part(usage.input_tokens, input_nusd) + part(usage.output_tokens, output_nusd);
        i64::try_from((total + 999_999).div_euclid(1_000_000)).unwrap_or(i64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use pipeline::transcript::Usage;

    use super::Price;

    #[test]
    fn prices_round_up_and_saturate() {
        let paid = Price::PerMillionTokens { input_nusd: 2_000_000_000, output_nusd: 1 };
        for (price, input_tokens, output_tokens, cost_nusd) in [
            (Price::Free, 1_000, 1_000, 0),
            (paid, 0, 0, 0),
            (paid, 1_000, 0, 2_000_000),
            (paid, 0, 1, 1),
            (paid, 0, 1_000_001, 2),
            (paid, u64::MAX, 0, i64::MAX),
        ] {
            assert_eq!(price.cost_nusd(Usage { input_tokens, output_tokens }), cost_nusd);
        }
    }
}
