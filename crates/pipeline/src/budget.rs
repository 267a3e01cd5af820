//! What a run may spend, and whether the next call fits into what is left.
//!
//! A call's worst case is a bound: its prompt in bytes, and the output limit that is sent. Amounts
//! and the time come in; nothing is booked here.

use serde::{Deserialize, Serialize};

use crate::limits::CALL_ROOM_MS;
use crate::next_step::StopReason;
use crate::price::Price;
use crate::transcript::Usage;

/// The caps of a run; a missing one does not bind. They are never crossed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Attempts of all tasks together.
    pub attempts_max: u32,
    /// Input and output tokens of all calls together.
    #[serde(default)]
    pub tokens_max: Option<u64>,
    /// Nano-dollars.
    #[serde(default)]
    pub nusd_max: Option<i64>,
    /// When the run stops, in microseconds UTC.
    #[serde(default)]
    pub deadline_us: Option<i64>,
    /// Time for which a card is held for the run's evaluations, in microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_us_max: Option<u64>,
}

/// What counts against the caps: everything that was paid, may have been paid, or is reserved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub tokens: u64,
    pub nusd: i64,
    /// The time now, in microseconds UTC.
    pub now_us: i64,
    /// Time on cards, in microseconds.
    pub gpu_us: u64,
}

/// A call that somebody wants to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallWish {
    /// Bound on the input tokens.
    pub input_tokens: u64,
    /// The output limit that is wanted, in tokens.
    pub output_tokens: u64,
    /// The smallest one that is worth the call.
    pub useful_tokens: u64,
    pub price: Price,
}

/// Whether a call may be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    Fits(WorstCase),
    /// Not now: other calls hold more than they will cost, so it may fit when one has ended.
    Wait,
    Stop(StopReason),
}

/// The worst case of a call that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorstCase {
    /// The output limit to send: what is wanted, or less near a cap.
    pub output_tokens_max: u64,
    /// Input and output together.
    pub tokens: u64,
    /// Zero where the price is unknown.
    pub nusd: i64,
}

impl Budget {
    /// A budget that only counts attempts.
    #[must_use]
    pub fn of_attempts(attempts_max: u32) -> Self {
        Self { attempts_max, ..Self::default() }
    }

    /// Whether a call may be made beside `calls_open` others whose worst cases are in `spent`. As
    /// long as others are open it waits for the limit that it wants, so near a cap fewer calls are
    /// made at once; the last one takes what is left.
    #[must_use]
    pub fn admission(&self, spent: &Spent, wish: &CallWish, calls_open: usize) -> Admission {
        let whole = CallWish { useful_tokens: wish.output_tokens, ..*wish };
        let wish = if calls_open > 0 { &whole } else { wish };
        match self.admit(spent, wish) {
            Ok(worst) => Admission::Fits(worst),
            Err(StopReason::TokensSpent | StopReason::DollarsSpent) if calls_open > 0 => {
                Admission::Wait
            }
            Err(reason) => Admission::Stop(reason),
        }
    }

    /// The worst case of a call that fits into what is left. Near a cap the output limit shrinks,
    /// so that the money is spent and not stranded.
    ///
    /// # Errors
    /// The cap that leaves no room for a useful answer.
    pub fn admit(&self, spent: &Spent, wish: &CallWish) -> Result<WorstCase, StopReason> {
        if self.deadline_us.is_some_and(|end| end - spent.now_us < CALL_ROOM_MS * 1_000) {
            return Err(StopReason::TimeSpent);
        }
        let needed = wish.useful_tokens.min(wish.output_tokens);
        let by_tokens = self
            .tokens_max
            .map(|cap| cap.saturating_sub(spent.tokens).saturating_sub(wish.input_tokens));
        if by_tokens.is_some_and(|tokens| tokens < needed) {
            return Err(StopReason::TokensSpent);
        }
        let by_money = self.output_tokens_by_money(spent, wish);
        if by_money.is_some_and(|tokens| tokens < needed) {
            return Err(StopReason::DollarsSpent);
        }
        let output_tokens_max =
            [by_tokens, by_money].into_iter().flatten().fold(wish.output_tokens, u64::min);
        let worst = Usage::of(wish.input_tokens, output_tokens_max);
        Ok(WorstCase {
            output_tokens_max,
            tokens: worst.input_tokens.saturating_add(output_tokens_max),
            nusd: wish.price.cost_nusd(worst).unwrap_or(0),
        })
    }

    /// Output tokens that the money left pays for; `None` where money does not bind.
    fn output_tokens_by_money(&self, spent: &Spent, wish: &CallWish) -> Option<u64> {
        let left = self.nusd_max?.saturating_sub(spent.nusd);
        let input_nusd = wish.price.cost_nusd(Usage::of(wish.input_tokens, 0))?;
        if input_nusd > left {
            return Some(0);
        }
        wish.price.affordable_output_tokens(wish.input_tokens, left)
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, Budget, CallWish, Spent};
    use crate::attempt::Mode;
    use crate::completions::Completions;
    use crate::next_step::StopReason::{self, DollarsSpent, TimeSpent, TokensSpent};
    use crate::price::Price;

    /// A dollar buys a million input or 100,000 output tokens.
    const PRICE: Price = Price::PerMillionTokens {
        input_nusd: 1_000_000_000,
        cached_input_nusd: 0,
        output_nusd: 10_000_000_000,
    };
    const DOLLAR: i64 = 1_000_000_000;

    fn admitted(budget: Budget, spent: Spent, price: Price) -> Result<(u64, i64), StopReason> {
        let (output_tokens, useful_tokens) = (32_000, 4_000);
        let wish = CallWish { input_tokens: 10_000, output_tokens, useful_tokens, price };
        let worst = budget.admit(&spent, &wish)?;
        assert_eq!(worst.tokens, 10_000 + worst.output_tokens_max);
        Ok((worst.output_tokens_max, worst.nusd))
    }

    #[test]
    fn the_worst_case_fits_or_the_cap_is_named() {
        let tokens = |cap| Budget { tokens_max: Some(cap), ..Budget::of_attempts(9) };
        let money = |cap| Budget { nusd_max: Some(cap), ..Budget::of_attempts(9) };
        let until = |end| Budget { deadline_us: Some(end), ..Budget::of_attempts(9) };
        let spent = |tokens, nusd, now_us| Spent { tokens, nusd, now_us, gpu_us: 0 };
        let whole = Ok((32_000, 330_000_000));
        for (budget, before, price, wanted) in [
            (Budget::of_attempts(9), spent(u64::MAX, i64::MAX, i64::MAX), PRICE, whole),
            (tokens(100_000), spent(58_000, 0, 0), PRICE, whole),
            (tokens(100_000), spent(58_001, 0, 0), PRICE, Ok((31_999, 329_990_000))),
            (tokens(100_000), spent(86_000, 0, 0), PRICE, Ok((4_000, 50_000_000))),
            (tokens(100_000), spent(86_001, 0, 0), PRICE, Err(TokensSpent)),
            (tokens(100_000), spent(u64::MAX, 0, 0), PRICE, Err(TokensSpent)),
            (money(DOLLAR), spent(0, 670_000_000, 0), PRICE, whole),
            (money(DOLLAR), spent(0, 940_000_000, 0), PRICE, Ok((5_000, 60_000_000))),
            (money(DOLLAR), spent(0, 960_000_000, 0), PRICE, Err(DollarsSpent)),
            (money(DOLLAR), spent(0, i64::MAX, 0), PRICE, Err(DollarsSpent)),
            (money(0), spent(0, 0, 0), Price::Free, Ok((32_000, 0))),
            (money(0), spent(0, 0, 0), Price::Subscription, Ok((32_000, 0))),
            (money(0), spent(0, 0, 0), PRICE, Err(DollarsSpent)),
            (until(60_000_000), spent(0, 0, 0), PRICE, whole),
            (until(60_000_000), spent(0, 0, 1), PRICE, Err(TimeSpent)),
        ] {
            let found = admitted(budget, before, price);
            assert_eq!(found, wanted, "{budget:?} {before:?}");
            if let (Ok((_, nusd)), Some(cap)) = (found, budget.nusd_max) {
                assert!(before.nusd + nusd <= cap, "{budget:?} {before:?}");
            }
        }
    }

    /// Where only input costs, it must still fit.
    #[test]
    fn free_output_does_not_hide_paid_input() {
        let price = Price::PerMillionTokens {
            input_nusd: 1_000_000_000,
            cached_input_nusd: 0,
            output_nusd: 0,
        };
        let budget = |cap| Budget { nusd_max: Some(cap), ..Budget::of_attempts(9) };
        assert_eq!(admitted(budget(9_999_999), Spent::default(), price), Err(DollarsSpent));
        let fits = admitted(budget(10_000_000), Spent::default(), price);
        assert_eq!(fits, Ok((32_000, 10_000_000)));
    }

    #[test]
    fn near_a_cap_fewer_calls_are_made_and_the_last_takes_what_is_left() {
        let budget = Budget { tokens_max: Some(100_000), ..Budget::of_attempts(9) };
        let (output_tokens, useful_tokens, price) = (32_000, 12_000, Price::Free);
        let wish = CallWish { input_tokens: 8_000, output_tokens, useful_tokens, price };
        for (tokens, calls_open, wanted) in [
            (60_000, 3, Some(32_000)),
            (60_001, 3, None),
            (60_001, 0, Some(31_999)),
            (80_000, 0, Some(12_000)),
            (80_000, 1, None),
        ] {
            let spent = Spent { tokens, ..Spent::default() };
            let found = match budget.admission(&spent, &wish, calls_open) {
                Admission::Fits(worst) => Some(worst.output_tokens_max),
                Admission::Wait => None,
                Admission::Stop(reason) => panic!("{reason:?}"),
            };
            assert_eq!(found, wanted, "{tokens} {calls_open}");
        }
        let spent = Spent { tokens: 80_001, ..Spent::default() };
        assert_eq!(budget.admission(&spent, &wish, 0), Admission::Stop(TokensSpent));
        let late = Budget { deadline_us: Some(0), ..budget };
        assert_eq!(late.admission(&spent, &wish, 3), Admission::Stop(TimeSpent));
    }

    /// Sixteen calls at once, each allowed 64,000 tokens and answered with 12,000.
    #[test]
    fn nearly_all_of_a_cap_is_spent_and_no_token_more() {
        let cap = 2_000_000;
        let budget = Budget { tokens_max: Some(cap), ..Budget::of_attempts(9_999) };
        let (mut completions, mut settled) = (Completions::default(), 0);
        let mut open: std::collections::VecDeque<u64> = std::collections::VecDeque::new();
        loop {
            let tokens = settled + open.iter().sum::<u64>();
            let output_tokens = completions.limit(Mode::Optimise, 64_000);
            let useful_tokens = completions.useful(Mode::Optimise, output_tokens);
            let price = Price::Free;
            let wish = CallWish { input_tokens: 3_000, output_tokens, useful_tokens, price };
            let spent = Spent { tokens, ..Spent::default() };
            match budget.admission(&spent, &wish, open.len()) {
                Admission::Fits(worst) if open.len() < 16 => open.push_back(worst.tokens),
                Admission::Fits(_) | Admission::Wait => {
                    open.pop_front();
                    settled += 2_000 + 12_000;
                    completions.note(Mode::Optimise, 12_000, false);
                }
                Admission::Stop(reason) => {
                    assert_eq!((reason, open.len()), (TokensSpent, 0));
                    break;
                }
            }
            assert!(settled + open.iter().sum::<u64>() <= cap);
        }
        assert!(settled * 100 >= cap * 99, "{settled}");
    }
}
