//! Runs in numbers: what was tried, what it cost.

use pipeline::transcript::Usage;
use pipeline::verdict::Kind;

use crate::rows::{RunRow, RunTask};

/// Tokens and money of one kind of booking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Booking {
    pub calls: u64,
    pub tokens: u64,
    pub nusd: i64,
}

/// What the calls of a run cost, or may cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bookings {
    /// Answered calls, at their price; at their worst case where the provider did not count.
    pub settled: Booking,
    /// Calls that may still be answered, at their worst case.
    pub reserved: Booking,
    /// Calls whose end is unknown, at their worst case.
    pub lost: Booking,
    /// Calls that a provider refused or broke, at what it counted for them.
    pub failed: Booking,
    /// Calls that may have cost something at a price that nobody knows; they count as nothing.
    pub unpriced_calls: u64,
}

impl Bookings {
    /// What counts against a cap: everything together.
    #[must_use]
    pub fn total(&self) -> Booking {
        [self.settled, self.reserved, self.lost, self.failed].into_iter().fold(
            Booking::default(),
            |sum, part| Booking {
                calls: sum.calls.saturating_add(part.calls),
                tokens: sum.tokens.saturating_add(part.tokens),
                nusd: sum.nusd.saturating_add(part.nusd),
            },
        )
    }
}

/// Time for which cards were held, and may be, for evaluations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardTime {
    /// By evaluations that have ended.
    pub used_us: u64,
    /// By those that have not: under way, or lost with their program.
    pub reserved_us: u64,
    pub evaluations: u64,
}

impl CardTime {
    /// What counts against a cap.
    #[must_use]
    pub fn total_us(self) -> u64 {
        self.used_us.saturating_add(self.reserved_us)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            used_us: self.used_us.saturating_add(other.used_us),
            reserved_us: self.reserved_us.saturating_add(other.reserved_us),
            evaluations: self.evaluations.saturating_add(other.evaluations),
        }
    }
}

/// A run in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct RunSummary {
    pub run: RunRow,
    pub attempts: u32,
    pub closed: u32,
    /// Closed attempts by kind of verdict, in the order of the kinds, zeros left out.
    pub verdicts: Vec<(Kind, u32)>,
    /// Input and output tokens of the settled calls.
    pub usage: Usage,
    pub bookings: Bookings,
    pub card_time: CardTime,
    /// Replies that had been recorded for another prompt.
    pub drifted: u64,
    /// One for each task of the run, in their order.
    pub tasks: Vec<TaskSummary>,
}

/// One task of a run in numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskSummary {
    pub task: RunTask,
    pub attempts: u32,
    pub closed: u32,
    /// Seq of the best correct attempt.
    pub best_seq: Option<u32>,
}
