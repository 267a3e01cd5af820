//! How two kernels' times compare: an interval on the log ratio over rounds, and what it says.
//!
//! A round is one fresh process for each window, in an order that cancels drift; its value is the
//! log of the baseline's time over the candidate's. Samples within a process are never treated as
//! independent. Start at [`compare`].

use serde::{Deserialize, Serialize};

use crate::limits::{ROUNDS_MAX, ROUNDS_MIN};

/// A ratio within 3 % of 1 is the same.
const SAME_RATIO: f64 = 1.03;
/// Half-width, on the log ratio, above which more rounds are run, and above which nothing is said.
const HALF_WIDTH_WANTED: f64 = 0.015;
const HALF_WIDTH_MAX: f64 = 0.03;

/// How a candidate compares with a baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Comparison {
    /// Faster by more than 3 %, with the confidence of the interval.
    Faster,
    /// Within 3 %.
    Same,
    /// Slower by more than 3 %.
    Slower,
    /// The interval is too wide to say, or lies across a border between the others.
    Noisy,
    /// A person has to look: see [`Suspicion`].
    Suspect(Suspicion),
}

/// Why a time is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Suspicion {
    /// Less time than the work takes at least.
    Physics,
    /// The kernel does something that needs a person's eye.
    Audit,
}

/// How sure an interval is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Confidence {
    /// One comparison.
    #[default]
    #[serde(rename = "95 %")]
    P95,
    /// One of a campaign of many tasks.
    #[serde(rename = "99 %")]
    P99,
}

/// An interval on the log of baseline time over candidate time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interval {
    /// Mean over the rounds.
    pub log_ratio: f64,
    pub half_width: f64,
    pub rounds: u32,
    pub confidence: Confidence,
}

/// What rounds say, or how many more are needed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Compared {
    /// So many valid rounds are not enough.
    MoreRounds,
    Decided {
        comparison: Comparison,
        interval: Interval,
    },
}

impl Interval {
    /// The ratio that is claimed: the lower end.
    #[must_use]
    pub fn low(&self) -> f64 {
        (self.log_ratio - self.half_width).exp()
    }

    /// The middle of the interval as a ratio.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.log_ratio.exp()
    }

    #[must_use]
    pub fn high(&self) -> f64 {
        (self.log_ratio + self.half_width).exp()
    }

    /// The interval in words.
    #[must_use]
    pub fn describe(&self) -> String {
        let (low, high, rounds) = (self.low(), self.high(), self.rounds);
        let confidence = match self.confidence {
            Confidence::P95 => "95 %",
            Confidence::P99 => "99 %",
        };
        format!("{:.3}x ({low:.3} to {high:.3}, {confidence}, {rounds} rounds)", self.ratio())
    }

    /// True where it is narrow enough, and of enough rounds, for anything to be said.
    #[must_use]
    pub fn is_narrow(&self) -> bool {
        self.rounds >= ROUNDS_MIN && self.half_width <= HALF_WIDTH_MAX
    }

    fn says(&self) -> Option<Comparison> {
        if self.low() > SAME_RATIO {
            Some(Comparison::Faster)
        } else if self.high() < 1.0 / SAME_RATIO {
            Some(Comparison::Slower)
        } else if self.low() > 1.0 / SAME_RATIO && self.high() < SAME_RATIO {
            Some(Comparison::Same)
        } else {
            None
        }
    }
}

/// Compares from the log ratios of the valid rounds; `void` rounds count towards the most that may
/// be run. `rounds_max` is that number, at most [`ROUNDS_MAX`].
#[must_use]
pub fn compare(logs: &[f64], void: u32, rounds_max: u32, confidence: Confidence) -> Compared {
    let run = logs.len() as u32 + void;
    let exhausted = run >= rounds_max.min(ROUNDS_MAX);
    if (logs.len() as u32) < ROUNDS_MIN && !exhausted {
        return Compared::MoreRounds;
    }
    let Some(interval) = interval(logs, confidence) else {
        let nothing = Interval { log_ratio: 0.0, half_width: f64::MAX, rounds: 0, confidence };
        return Compared::Decided { comparison: Comparison::Noisy, interval: nothing };
    };
    // The width alone ends it, never the answer: rounds until one is liked would find it by luck.
    if interval.half_width > HALF_WIDTH_WANTED && !exhausted {
        return Compared::MoreRounds;
    }
    let said = interval.says().filter(|_| interval.is_narrow());
    let comparison = said.unwrap_or(Comparison::Noisy);
    Compared::Decided { comparison, interval }
}

/// Mean and Student's interval; `None` for fewer than two rounds or values that are not finite.
#[must_use]
pub fn interval(logs: &[f64], confidence: Confidence) -> Option<Interval> {
    let count = logs.len();
    if count < 2 || !logs.iter().all(|log| log.is_finite()) {
        return None;
    }
    let mean = logs.iter().sum::<f64>() / count as f64;
    let squares: f64 = logs.iter().map(|log| (log - mean).powi(2)).sum();
    let error = (squares / (count - 1) as f64 / count as f64).sqrt();
    let half_width = student_t(count - 1, confidence) * error;
    Some(Interval { log_ratio: mean, half_width, rounds: count as u32, confidence })
}

/// Two-sided quantile of Student's t for `freedom` >= 1 degrees of freedom.
fn student_t(freedom: usize, confidence: Confidence) -> f64 {
    const P95: [f64; 14] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
        2.145,
    ];
    const P99: [f64; 14] = [
        63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012,
        2.977,
    ];
    let table = match confidence {
        Confidence::P95 => P95,
        Confidence::P99 => P99,
    };
    // Never narrower than the exact value: beyond the table the last entry stays.
    table[freedom.clamp(1, table.len()) - 1]
}

/// Upper end of the Clopper-Pearson 95 % interval for a rate of which `failures` of `trials` are
/// known; 1 without trials.
#[must_use]
pub fn rate_upper_bound(failures: u32, trials: u32) -> f64 {
    if failures >= trials {
        return 1.0;
    }
    let (mut low, mut high) = (f64::from(failures) / f64::from(trials), 1.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        if binomial_at_most(failures, trials, middle) > 0.025 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Probability of at most `count` successes.
fn binomial_at_most(count: u32, trials: u32, rate: f64) -> f64 {
    let mut term = (1.0 - rate).powi(trials as i32);
    let mut sum = term;
    for k in 1..=count {
        term *= f64::from(trials - k + 1) / f64::from(k) * rate / (1.0 - rate);
        sum += term;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::{Compared, Comparison, Confidence, compare, interval, rate_upper_bound};

    fn decided(logs: &[f64], void: u32) -> Option<Comparison> {
        match compare(logs, void, 15, Confidence::P95) {
            Compared::MoreRounds => None,
            Compared::Decided { comparison, .. } => Some(comparison),
        }
    }

    /// `count` rounds around a ratio, alternating by `spread`.
    fn rounds(ratio: f64, spread: f64, count: usize) -> Vec<f64> {
        let sign = |i: usize| if i.is_multiple_of(2) { 1.0 } else { -1.0 };
        (0..count).map(|i| f64::ln(ratio) + sign(i) * spread).collect()
    }

    #[test]
    fn intervals_are_students() {
        let logs = [0.10, 0.12, 0.11, 0.13, 0.09, 0.11, 0.11];
        let found = interval(&logs, Confidence::P95).unwrap();
        // numpy and scipy: mean 0.11, s = 0.0129099, t(6) = 2.4469.
        assert!((found.log_ratio - 0.11).abs() < 1e-12);
        assert!((found.half_width - 0.011_940).abs() < 1e-5, "{}", found.half_width);
        let wider = interval(&logs, Confidence::P99).unwrap();
        assert!((wider.half_width / found.half_width - 3.707 / 2.447).abs() < 1e-3);
        assert_eq!(interval(&[0.1], Confidence::P95), None);
        assert_eq!(interval(&[0.1, f64::NAN], Confidence::P95), None);
    }

    #[test]
    fn what_rounds_say() {
        use Comparison::{Faster, Noisy, Same, Slower};
        for (ratio, spread, count, void, expected) in [
            (1.0, 0.004, 7, 0, Some(Same)),
            (1.10, 0.004, 7, 0, Some(Faster)),
            (0.95, 0.004, 7, 0, Some(Slower)),
            (1.10, 0.004, 6, 0, None),
            // Too wide: more rounds, and nothing is said after the last.
            (1.10, 0.03, 7, 0, None),
            (1.10, 0.08, 15, 0, Some(Noisy)),
            // Between the same and faster, nothing is said, and no more rounds are run for it.
            (1.03, 0.004, 15, 0, Some(Noisy)),
            (1.03, 0.004, 7, 0, Some(Noisy)),
            (1.0 / 1.03, 0.004, 7, 0, Some(Noisy)),
            // Wide is enough after the last round.
            (1.20, 0.04, 15, 0, Some(Faster)),
            // Void rounds count towards the most, and too few valid ones say nothing.
            (1.20, 0.001, 7, 8, Some(Faster)),
            (1.20, 0.001, 5, 10, Some(Noisy)),
            (1.20, 0.001, 0, 15, Some(Noisy)),
        ] {
            let logs = rounds(ratio, spread, count);
            assert_eq!(decided(&logs, void), expected, "{ratio} {spread} {count} {void}");
        }
    }

    #[test]
    fn the_bound_of_a_rate_is_clopper_and_pearsons() {
        for (failures, trials, expected) in
            [(0, 50, 0.0711), (1, 50, 0.1065), (2, 50, 0.1371), (3, 50, 0.1655), (5, 5, 1.0)]
        {
            let found = rate_upper_bound(failures, trials);
            assert!((found - expected).abs() < 2e-4, "{failures} of {trials}: {found}");
        }
        assert!((rate_upper_bound(0, 0) - 1.0).abs() < 1e-12);
    }
}
