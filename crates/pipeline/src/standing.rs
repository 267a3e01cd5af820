//! A run in a few numbers that are hard to dress up: how many operators have a correct kernel, and
//! how many have a faster one, over all operators.
//!
//! One denominator, in which failures count; claims and single rounds apart; counts of the
//! simulator are no time, so that a run without a GPU has no number of this kind but `fast_0`.
//! Start at [`scoreboard`].

use serde::Serialize;

use crate::amdahl::{Part, gain_of_whole, shares};

/// How one operator stands at the end of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// No attempt is correct.
    Nothing,
    /// A kernel is correct; nobody timed it beside a baseline.
    Correct,
    /// One round beside a baseline: the baseline's time over the kernel's. No claim.
    Measured(f64),
    /// A claim that stands: the ends and the middle of its interval.
    Claimed { low: f64, ratio: f64 },
}

impl Standing {
    /// The lower end of the claim; `None` without one.
    fn claimed(self) -> Option<f64> {
        match self {
            Self::Claimed { low, .. } => Some(low),
            Self::Nothing | Self::Correct | Self::Measured(_) => None,
        }
    }

    /// The claim's lower end, or what one round gave.
    fn timed(self) -> Option<f64> {
        match self {
            Self::Claimed { low, .. } => Some(low),
            Self::Measured(ratio) => Some(ratio),
            Self::Nothing | Self::Correct => None,
        }
    }
}

/// Thresholds of `fast_p` above 0.
pub const THRESHOLDS: [f64; 3] = [1.0, 1.5, 2.0];

/// What `fast_p` means, in one line.
pub const FAST_P: &str = "fast_p: share of all operators of the run, failures among them, that \
                          have a correct kernel faster than p times its baseline; fast_0 asks only \
                          for a correct one";
/// What the columns mean, in one line.
pub const COLUMNS: &str = "claimed: only claims that stand, each at the lower end of its interval; \
                           claimed or measured: also one round beside a baseline, which claims \
                           nothing";
/// What the median is, in one line.
pub const MEDIAN: &str =
    "median: of the same factor over all operators of the run; one without it counts as 0";
/// What the gain of the whole is, in one line.
pub const WHOLE: &str = "gain of the whole (Amdahl): if each operator with a claim became that \
                         much faster and every other stayed; the whole is the run's operators \
                         together, in the shares that its weights give them";

/// `fast_p` for one threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct FastP {
    pub p: f64,
    /// Operators that count.
    pub claimed: usize,
    pub claimed_or_measured: usize,
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scoreboard {
    /// The one denominator.
    pub operators: usize,
    /// Numerator of `fast_0`.
    pub correct: usize,
    /// False where nothing was timed beside a baseline: then there is nothing to say of speed.
    pub timed: bool,
    pub fast: Vec<FastP>,
    pub median_claimed: Option<f64>,
    pub median_claimed_or_measured: Option<f64>,
    /// From claims alone, at their lower ends; `None` without a claim.
    pub whole_low: Option<f64>,
    /// The same at the middle of each interval.
    pub whole: Option<f64>,
}

/// Counts operators; each with its weight.
#[must_use]
pub fn scoreboard(operators: &[(f64, Standing)]) -> Scoreboard {
    let standings = || operators.iter().map(|(_, standing)| *standing);
    let timed = standings().any(|standing| standing.timed().is_some());
    let claims = standings().any(|standing| standing.claimed().is_some());
    let count = |factor: fn(Standing) -> Option<f64>, p: f64| {
        standings().filter(|standing| factor(*standing).is_some_and(|it| it > p)).count()
    };
    let fast = THRESHOLDS.map(|p| FastP {
        p,
        claimed: count(Standing::claimed, p),
        claimed_or_measured: count(Standing::timed, p),
    });
    let median = |factor: fn(Standing) -> Option<f64>| {
        timed.then(|| median(standings().map(|it| factor(it).unwrap_or(0.0)).collect()))
    };
    Scoreboard {
        operators: operators.len(),
        correct: standings().filter(|standing| *standing != Standing::Nothing).count(),
        timed,
        fast: if timed { fast.to_vec() } else { Vec::new() },
        median_claimed: median(Standing::claimed),
        median_claimed_or_measured: median(Standing::timed),
        whole_low: claims.then(|| whole(operators, |low, _| low)),
        whole: claims.then(|| whole(operators, |_, ratio| ratio)),
    }
}

fn whole(operators: &[(f64, Standing)], pick: impl Fn(f64, f64) -> f64) -> f64 {
    let weights: Vec<f64> = operators.iter().map(|(weight, _)| *weight).collect();
    gain_of_whole(shares(&weights).into_iter().zip(operators).map(|(share, (_, standing))| {
        let gain = match standing {
            Standing::Claimed { low, ratio } => pick(*low, *ratio),
            Standing::Nothing | Standing::Correct | Standing::Measured(_) => 1.0,
        };
        Part { share, gain }
    }))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        odd if odd % 2 == 1 => values[odd / 2],
        even => 0.5 * (values[even / 2 - 1] + values[even / 2]),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Standing, scoreboard};

    const CLAIM: Standing = Standing::Claimed { low: 1.4, ratio: 1.6 };

    #[test]
    fn failures_count_in_the_one_denominator() {
        let operators = [
            (1.0, Standing::Nothing),
            (1.0, Standing::Correct),
            (1.0, Standing::Measured(2.5)),
            (1.0, CLAIM),
        ];
        let board = scoreboard(&operators);
        assert_eq!((board.operators, board.correct, board.timed), (4, 3, true));
        let fast: Vec<_> =
            board.fast.iter().map(|it| (it.p, it.claimed, it.claimed_or_measured)).collect();
        assert_eq!(fast, [(1.0, 1, 2), (1.5, 0, 1), (2.0, 0, 1)]);
        assert_eq!(board.median_claimed, Some(0.0));
        assert_eq!(board.median_claimed_or_measured, Some(0.7));
        // A quarter of the time, 1.4 and 1.6 times as fast; the measured one promises nothing.
        let close = |found: Option<f64>, gain: f64| {
            (found.unwrap() - 1.0 / (0.75 + 0.25 / gain)).abs() < 1e-12
        };
        assert!(close(board.whole_low, 1.4) && close(board.whole, 1.6), "{board:?}");
    }

    #[test]
    fn the_simulator_gives_no_number_but_how_many_are_correct() {
        for operators in [
            vec![],
            vec![(1.0, Standing::Correct), (2.0, Standing::Correct), (1.0, Standing::Nothing)],
        ] {
            let board = scoreboard(&operators);
            assert!(!board.timed && board.fast.is_empty(), "{board:?}");
            assert_eq!((board.median_claimed, board.whole, board.whole_low), (None, None, None));
        }
    }

    #[test]
    fn as_fast_as_the_baseline_is_not_faster() {
        let at = |factor| scoreboard(&[(1.0, Standing::Measured(factor))]);
        assert_eq!(at(1.0).fast[0].claimed_or_measured, 0);
        assert_eq!(at(1.001).fast[0].claimed_or_measured, 1);
        assert_eq!(at(1.001).whole, None, "one round is no claim");
    }

    fn standing() -> impl Strategy<Value = Standing> {
        prop_oneof![
            Just(Standing::Nothing),
            Just(Standing::Correct),
            (0.1..5.0_f64).prop_map(Standing::Measured),
            (1.0..5.0_f64, 0.0..1.0_f64)
                .prop_map(|(low, more)| Standing::Claimed { low, ratio: low + more }),
        ]
    }

    proptest! {
        #[test]
        fn a_harder_threshold_and_a_stricter_column_never_count_more(
            operators in prop::collection::vec((0.1..9.0_f64, standing()), 1..40)
        ) {
            let board = scoreboard(&operators);
            let mut last = board.correct;
            for fast in &board.fast {
                prop_assert!(fast.claimed <= fast.claimed_or_measured);
                prop_assert!(fast.claimed_or_measured <= last);
                last = fast.claimed_or_measured;
            }
            prop_assert!(board.correct <= board.operators);
            if let (Some(low), Some(middle)) = (board.whole_low, board.whole) {
                prop_assert!((1.0..=middle * (1.0 + 1e-9)).contains(&low));
                prop_assert!(middle <= 6.0);
            }
            // One more failure never helps.
            let mut more = operators.clone();
            more.push((1.0, Standing::Nothing));
            let worse = scoreboard(&more);
            prop_assert!(worse.median_claimed_or_measured <= board.median_claimed_or_measured);
            prop_assert!(worse.whole.unwrap_or(1.0) <= board.whole.unwrap_or(1.0) * (1.0 + 1e-9));
        }
    }
}
