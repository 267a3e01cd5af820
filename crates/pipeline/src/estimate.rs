//! What a run will need, before it is started: an estimate from what calls needed so far, or from
//! assumptions that are named. Nothing is capped by it.

use serde::Serialize;

use crate::budget::Budget;
use crate::limits::{ASSUMED_LATENCY_MS, ASSUMED_OUTPUT_TOKENS, INPUT_BYTES_PER_TOKEN};
use crate::notice::Cap;
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
    /// The most that a first prompt may count as, in tokens, where the model counts nothing but
    /// costs money: each of its calls is booked at its worst case.
    pub booked_at_most: Option<u64>,
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
    let [input, output] = match plan.booked_at_most {
        Some(bound) => [bound, plan.output_tokens_max],
        None => [input, output],
    };
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

/// What all attempts of a run will need together, where that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub attempts: u64,
    pub tokens: u64,
    pub nusd: Option<i64>,
    pub us: u64,
    pub gpu_us: Option<u64>,
}

/// The cap that ends a run first, and after how many of its attempts; `None` where all of them fit.
/// `now_us` is when it begins.
#[must_use]
pub fn first_cap(needs: &Needs, budget: &Budget, now_us: i64) -> Option<(Cap, u64)> {
    let whole = |amount: i64| u64::try_from(amount).unwrap_or(0);
    let left_us = budget.deadline_us.map(|end_us| whole(end_us.saturating_sub(now_us)));
    let caps = [
        (Cap::Dollars, budget.nusd_max.map(whole), needs.nusd.map(whole)),
        (Cap::Tokens, budget.tokens_max, Some(needs.tokens)),
        (Cap::Time, left_us, Some(needs.us)),
        (Cap::GpuSeconds, budget.gpu_us_max, needs.gpu_us),
    ];
    let strikes = caps.into_iter().filter_map(|(cap, most, needed)| {
        let (most, needed) = (most?, needed?);
        let attempts = u128::from(needs.attempts) * u128::from(most) / u128::from(needed.max(1));
        (most < needed).then(|| (cap, u64::try_from(attempts).unwrap_or(u64::MAX)))
    });
    strikes.min_by_key(|(_, attempts)| *attempts)
}

#[cfg(test)]
mod tests {
    use super::{CallHistory, Needs, Plan, estimate, first_cap};
    use crate::budget::Budget;
    use crate::notice::Cap;
    use crate::price::Price;

    #[test]
    fn means_of_what_was_seen_take_the_place_of_assumptions() {
        let price = Price::PerMillionTokens {
            input_nusd: 1_000_000_000,
            cached_input_nusd: 0,
            output_nusd: 10_000_000_000,
        };
        let (attempts, calls_at_once) = (100, 16);
        let plan = Plan {
            attempts,
            prompt_bytes: 8_000,
            output_tokens_max: 5_000,
            booked_at_most: None,
            price,
            calls_at_once,
        };
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
        // Nothing that it answers is counted, so that what was seen is no help.
        let uncounted = estimate(&Plan { booked_at_most: Some(8_128), ..plan }, &history);
        assert_eq!((uncounted.input_tokens, uncounted.output_tokens), (812_800, 500_000));
        assert_eq!(uncounted.nusd, Some(5_812_800_000));
    }

    #[test]
    fn the_first_cap_is_the_one_that_leaves_the_fewest_attempts() {
        let needs =
            Needs { attempts: 100, tokens: 1_000, nusd: Some(4_000), us: 3_600, gpu_us: Some(500) };
        let none = Budget::of_attempts(100);
        for (budget, first) in [
            (none, None),
            (Budget { tokens_max: Some(1_000), nusd_max: Some(4_000), ..none }, None),
            (Budget { tokens_max: Some(999), ..none }, Some((Cap::Tokens, 99))),
            (
                Budget { tokens_max: Some(500), nusd_max: Some(1_000), ..none },
                Some((Cap::Dollars, 25)),
            ),
            (Budget { deadline_us: Some(1_000 + 360), ..none }, Some((Cap::Time, 10))),
            (Budget { deadline_us: Some(7), ..none }, Some((Cap::Time, 0))),
            (
                Budget { gpu_us_max: Some(5), deadline_us: Some(1_360), ..none },
                Some((Cap::GpuSeconds, 1)),
            ),
        ] {
            assert_eq!(first_cap(&needs, &budget, 1_000), first, "{budget:?}");
        }
        let unknown = Needs { nusd: None, gpu_us: None, ..needs };
        let budget = Budget { nusd_max: Some(1), gpu_us_max: Some(1), ..none };
        assert_eq!(first_cap(&unknown, &budget, 1_000), None);
    }
}
