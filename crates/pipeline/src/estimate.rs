//! What a run will need, before it is started: an estimate from what calls needed so far, or from
//! assumptions that are named. Nothing is capped by it.

use serde::Serialize;

use crate::limits::{ASSUMED_LATENCY_MS, ASSUMED_OUTPUT_TOKENS, INPUT_BYTES_PER_TOKEN};
use crate::price::Price;
use crate::transcript::Usage;

/// What the answered calls of one model were like: sums over all of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallHistory {
    pub calls: u64,
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub latency_ms: u64,
}

/// A run that somebody wants to start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    pub attempts: u64,
    /// Mean length of the first prompts, in bytes.
    pub prompt_bytes: u64,
    pub output_tokens_max: u64,
    pub price: Price,
    /// Questions that may be open at once.
    pub calls_at_once: u64,
}

/// What it will need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Estimate {
    pub input_tokens: u64,
    pub output_tokens: u64,
    /// `None` where the price is unknown.
    pub nusd: Option<i64>,
    /// Time that the model takes; judging goes on beside it.
    pub model_ms: u64,
    /// Calls that the figures come from; zero where they are assumed.
    pub from_calls: u64,
    /// Tokens and latency of one call.
    pub of_call: [u64; 3],
}

/// Estimates a run.
#[must_use]
pub fn estimate(plan: &Plan, history: &CallHistory) -> Estimate {
    let mean = |sum: u64| sum.checked_div(history.calls);
    let input = mean(history.input_tokens).unwrap_or(plan.prompt_bytes / INPUT_BYTES_PER_TOKEN);
    let assumed = ASSUMED_OUTPUT_TOKENS.min(plan.output_tokens_max);
    let output = mean(history.output_tokens).unwrap_or(assumed);
    let latency_ms = mean(history.latency_ms).unwrap_or(ASSUMED_LATENCY_MS);
    let input_tokens = input.saturating_mul(plan.attempts);
    let output_tokens = output.saturating_mul(plan.attempts);
    let rounds = plan.attempts.div_ceil(plan.calls_at_once.max(1));
    Estimate {
        input_tokens,
        output_tokens,
        nusd: plan.price.cost_nusd(Usage::of(input_tokens, output_tokens)),
        model_ms: latency_ms.saturating_mul(rounds),
        from_calls: history.calls,
        of_call: [input, output, latency_ms],
    }
}

#[cfg(test)]
mod tests {
    use super::{CallHistory, Plan, estimate};
    use crate::price::Price;

    #[test]
    fn means_of_what_was_seen_take_the_place_of_assumptions() {
        let price = Price::PerMillionTokens {
            input_nusd: 1_000_000_000,
            cached_input_nusd: 0,
            output_nusd: 10_000_000_000,
        };
        let (attempts, calls_at_once) = (100, 16);
        let plan =
            Plan { attempts, prompt_bytes: 8_000, output_tokens_max: 5_000, price, calls_at_once };
        let assumed = estimate(&plan, &CallHistory::default());
        assert_eq!((assumed.input_tokens, assumed.output_tokens), (200_000, 500_000));
        assert_eq!((assumed.nusd, assumed.from_calls), (Some(5_200_000_000), 0));
        let (calls, input_tokens, output_tokens, latency_ms) = (4, 12_000, 4_000, 40_000);
        let history = CallHistory { calls, input_tokens, output_tokens, latency_ms };
        let seen = estimate(&plan, &history);
        assert_eq!((seen.input_tokens, seen.output_tokens), (300_000, 100_000));
        assert_eq!((seen.nusd, seen.model_ms), (Some(1_300_000_000), 70_000));
        let unknown = estimate(&Plan { price: Price::Unknown, ..plan }, &history);
        assert_eq!(unknown.nusd, None);
    }
}
