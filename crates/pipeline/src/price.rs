//! Money: what tokens cost, in integer nano-dollars.

use serde::{Deserialize, Serialize};

use crate::transcript::Usage;

/// What a token costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
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

    /// The same price at so many thousandths of it, rounded up, as for a lane with a discount.
    #[must_use]
    pub fn share(self, thousandths: u32) -> Self {
        let share = |nusd: i64| {
            let product = i128::from(nusd) * i128::from(thousandths);
            i64::try_from((product + 999).div_euclid(1_000)).unwrap_or(i64::MAX)
        };
        match self {
            Self::Free | Self::Subscription | Self::Unknown => self,
            Self::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd } => {
                Self::PerMillionTokens {
                    input_nusd: share(input_nusd),
                    cached_input_nusd: share(cached_input_nusd),
                    output_nusd: share(output_nusd),
                }
            }
        }
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
    use super::Price;
    use crate::transcript::Usage;

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
    fn a_share_of_a_price_rounds_up() {
        let of = |input_nusd, cached_input_nusd, output_nusd| Price::PerMillionTokens {
            input_nusd,
            cached_input_nusd,
            output_nusd,
        };
        for (price, thousandths, wanted) in [
            (Price::Free, 500, Price::Free),
            (Price::Unknown, 500, Price::Unknown),
            (of(2_000, 501, 1), 500, of(1_000, 251, 1)),
            (of(2_000, 501, 1), 1_000, of(2_000, 501, 1)),
            (of(i64::MAX, 0, 7), 2_000, of(i64::MAX, 0, 14)),
        ] {
            assert_eq!(price.share(thousandths), wanted, "{price:?} {thousandths}");
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
