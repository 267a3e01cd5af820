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
    /// Longest wait for the answer, in milliseconds; `None` waits for ever.
    pub deadline_ms: Option<u64>,
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

/// What a token costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Nothing.
    Free,
    /// Nothing more than a flat fee that is paid anyway.
    Subscription,
    /// Nobody said.
    Unknown,
    /// Nano-dollars per million tokens. Input that the provider had cached costs no more than
    /// other input.
    PerMillionTokens { input_nusd: i64, cached_input_nusd: i64, output_nusd: i64 },
}

impl Price {
    /// The price of `usage` in nano-dollars, rounded up; `i64::MAX` where it does not fit, `None`
    /// where the price is unknown.
    #[must_use]
    pub fn cost_nusd(self, usage: Usage) -> Option<i64> {
        let (input_nusd, cached_input_nusd, output_nusd) = match self {
            Self::Free | Self::Subscription => return Some(0),
            Self::Unknown => return None,
            Self::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd } => {
                (input_nusd, cached_input_nusd, output_nusd)
            }
        };
        let cached_tokens = usage.cached_input_tokens.min(usage.input_tokens);
        let part = |tokens: u64, nusd: i64| i128::from(tokens) * i128::from(nusd);
        let total = part(usage.input_tokens - cached_tokens, input_nusd)
            + part(cached_tokens, cached_input_nusd)
            + part(usage.output_tokens, output_nusd);
        Some(i64::try_from((total + 999_999).div_euclid(1_000_000)).unwrap_or(i64::MAX))
    }

    /// Output tokens that `nusd` pays for beside `input_tokens`; `None` when tokens cost nothing.
    #[must_use]
    pub fn affordable_output_tokens(self, input_tokens: u64, nusd: i64) -> Option<u64> {
        match self {
            Self::Free | Self::Subscription | Self::Unknown => None,
            Self::PerMillionTokens { output_nusd: 0, .. } => None,
            Self::PerMillionTokens { input_nusd, output_nusd, .. } => {
                let input = i128::from(input_tokens) * i128::from(input_nusd);
                let left = i128::from(nusd) * 1_000_000 - input;
                Some(u64::try_from(left.max(0) / i128::from(output_nusd)).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use pipeline::transcript::Usage;

    use super::Price;

    const PAID: Price = Price::PerMillionTokens {
        input_nusd: 2_000_000_000,
        cached_input_nusd: 500_000_000,
        output_nusd: 1,
    };

    #[test]
    fn prices_round_up_and_saturate() {
        for (price, usage, cost_nusd) in [
            (Price::Free, Usage::of(1_000, 1_000), Some(0)),
            (Price::Subscription, Usage::of(1_000, 1_000), Some(0)),
            (Price::Unknown, Usage::of(0, 0), None),
            (PAID, Usage::of(0, 0), Some(0)),
            (PAID, Usage::of(1_000, 0), Some(2_000_000)),
            (PAID, Usage::of(0, 1), Some(1)),
            (PAID, Usage::of(0, 1_000_001), Some(2)),
            (PAID, Usage::of(u64::MAX, 0), Some(i64::MAX)),
            (PAID, Usage { cached_input_tokens: 600, ..Usage::of(1_000, 0) }, Some(1_100_000)),
            (PAID, Usage { cached_input_tokens: 9_000, ..Usage::of(1_000, 0) }, Some(500_000)),
        ] {
            assert_eq!(price.cost_nusd(usage), cost_nusd, "{price:?} {usage:?}");
        }
    }

    #[test]
    fn what_is_left_buys_so_many_output_tokens() {
        let price = Price::PerMillionTokens {
            input_nusd: 1_000_000,
            cached_input_nusd: 0,
            output_nusd: 4_000_000,
        };
        for (price, nusd, tokens) in [
            (Price::Free, 0, None),
            (price, 100, Some(0)),
            (price, 99, Some(0)),
            (price, 103, Some(0)),
            (price, 104, Some(1)),
            (price, 500, Some(100)),
        ] {
            let found = price.affordable_output_tokens(100, nusd);
            assert_eq!(found, tokens, "{price:?} {nusd}");
            let cost = found.and_then(|tokens| price.cost_nusd(Usage::of(100, tokens)));
            assert!(nusd < 100 || cost.is_none_or(|cost| cost <= nusd), "{price:?} {nusd}");
        }
    }
}
