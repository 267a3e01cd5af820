//! Whether a program's acceptance is over, from those that were had of it, whichever run had them.
//!
//! What came to nothing for noise alone is tried again, but so often a day and no more: the best
//! of many tries would be luck. Start at [`stand_of`].

use super::Look;
use crate::limits::{ACCEPTANCE_TRIES_A_DAY_MAX, DAY_US};

/// What an acceptance of a program came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Came {
    /// It has not ended.
    Open,
    /// It ended, and that stands.
    Settled,
    /// It ended for noise, without saying anything of the kernel.
    Noisy,
}

/// An acceptance of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Try {
    /// When it began, in microseconds UTC.
    pub started_us: i64,
    pub came: Came,
}

/// How the acceptance of a program stands that was tried so, the oldest first.
#[must_use]
pub fn stand_of(tries: &[Try], now_us: i64) -> Look {
    match tries.iter().rev().map(|it| it.came).find(|came| *came != Came::Open) {
        None | Some(Came::Open) => Look::Due,
        Some(Came::Settled) => Look::Ended,
        Some(Came::Noisy) if ended_within_a_day(tries, now_us) < ACCEPTANCE_TRIES_A_DAY_MAX => {
            Look::Again
        }
        Some(Came::Noisy) => Look::Noisy,
    }
}

/// How many of them began in the last 24 hours and have ended.
#[must_use]
pub fn ended_within_a_day(tries: &[Try], now_us: i64) -> usize {
    let since_us = now_us.saturating_sub(DAY_US);
    tries.iter().filter(|it| it.came != Came::Open && it.started_us > since_us).count()
}

#[cfg(test)]
mod tests {
    use super::Came::{Noisy, Open, Settled};
    use super::{Try, stand_of};
    use crate::closing::Look;
    use crate::limits::DAY_US;

    #[test]
    fn noise_is_tried_twice_a_day_and_what_ended_otherwise_stands() {
        let now_us = 10 * DAY_US;
        let hours = |hours: i64| now_us - hours * DAY_US / 24;
        for (tries, wanted) in [
            (&[][..], Look::Due),
            (&[(1, Open)], Look::Due),
            (&[(200, Settled)], Look::Ended),
            (&[(200, Settled), (1, Open)], Look::Ended),
            (&[(2, Noisy)], Look::Again),
            (&[(2, Noisy), (1, Open)], Look::Again),
            (&[(3, Noisy), (2, Noisy)], Look::Noisy),
            (&[(3, Noisy), (2, Noisy), (1, Open)], Look::Noisy),
            (&[(3, Noisy), (2, Settled)], Look::Ended),
            // A day later there are tries again.
            (&[(25, Noisy), (2, Noisy)], Look::Again),
            (&[(26, Noisy), (25, Noisy)], Look::Again),
            (&[(24, Noisy), (23, Noisy)], Look::Again),
        ] {
            let of = |(ago, came): &(i64, _)| Try { started_us: hours(*ago), came: *came };
            let listed: Vec<_> = tries.iter().map(of).collect();
            assert_eq!(stand_of(&listed, now_us), wanted, "{tries:?}");
        }
    }
}
