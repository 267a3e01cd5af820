//! What a look at a kernel costs in time: what earlier ones took, or an assumption.

use crate::limits::{ACCEPTANCE_MS, CLOSING_COSTS_SEEN, CLOSING_GAP_MS_MAX, MEASUREMENT_MS};

/// How long the looks at one operator's best kernel take, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    pub measure_ms: i64,
    pub accept_ms: i64,
}

impl Default for Costs {
    /// What is assumed before anything was seen.
    fn default() -> Self {
        Self { measure_ms: MEASUREMENT_MS, accept_ms: ACCEPTANCE_MS }
    }
}

impl Costs {
    /// What looks took on this model of card, newest first: of the task itself, or of others where
    /// there is none; the slowest of the latest few, so that what is begun is also ended.
    #[must_use]
    pub fn of(seen: &Seen) -> Self {
        let slowest = |own: &[i64], others: &[i64], assumed: i64| {
            let known = if own.is_empty() { others } else { own };
            known.iter().take(CLOSING_COSTS_SEEN).copied().max().unwrap_or(assumed)
        };
        let assumed = Self::default();
        Self {
            measure_ms: slowest(
                &seen.own_measurements,
                &seen.other_measurements,
                assumed.measure_ms,
            ),
            accept_ms: slowest(&seen.own_acceptances, &seen.other_acceptances, assumed.accept_ms),
        }
    }
}

/// How long looks took, in milliseconds, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub own_measurements: Vec<i64>,
    pub other_measurements: Vec<i64>,
    pub own_acceptances: Vec<i64>,
    pub other_acceptances: Vec<i64>,
}

/// How long something took that was stored at these times, in microseconds, its beginning first. A
/// long gap is one in which nobody worked: an interrupted acceptance goes on the next day.
#[must_use]
pub fn active_ms(times_us: &[i64]) -> i64 {
    let gaps = times_us.windows(2).map(|pair| pair[1].saturating_sub(pair[0]) / 1_000);
    gaps.filter(|gap_ms| (0..=CLOSING_GAP_MS_MAX).contains(gap_ms)).fold(0, i64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::{Costs, Seen, active_ms};

    #[test]
    fn the_slowest_of_the_latest_of_the_task_counts_then_of_others_then_the_assumption() {
        let seen = |own: &[i64], others: &[i64]| Seen {
            own_measurements: own.to_vec(),
            other_measurements: others.to_vec(),
            own_acceptances: own.iter().map(|ms| 10 * ms).collect(),
            other_acceptances: others.iter().map(|ms| 10 * ms).collect(),
        };
        for (own, others, wanted) in [
            (&[7, 9, 8][..], &[99][..], (9, 90)),
            // The fifth is too old.
            (&[1, 2, 3, 4, 500], &[], (4, 40)),
            (&[], &[30, 20], (30, 300)),
            (&[], &[], (60_000, 135_000)),
        ] {
            let costs = Costs::of(&seen(own, others));
            assert_eq!((costs.measure_ms, costs.accept_ms), wanted, "{own:?} {others:?}");
        }
    }

    #[test]
    fn a_night_between_two_steps_is_no_work() {
        let second = 1_000_000;
        for (seconds, wanted_ms) in [
            (&[0, 3, 5][..], 5_000),
            (&[0, 3, 3 + 8 * 3_600, 8 + 8 * 3_600], 8_000),
            (&[5], 0),
            (&[], 0),
            // The clock was set back in between.
            (&[9, 4, 6], 2_000),
        ] {
            let times: Vec<i64> = seconds.iter().map(|it| it * second).collect();
            assert_eq!(active_ms(&times), wanted_ms, "{seconds:?}");
        }
    }
}
