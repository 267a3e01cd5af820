//! When a search must end so that its best kernels can still be measured before the run's time is
//! over. A measurement that does not fit leaves a kernel without a number in the morning.

use crate::limits::{CLOSING_SHARE_MAX, MEASUREMENT_MS};

/// The end of the search in a run that ends at `deadline_us` and has `tasks` kernels to measure:
/// earlier by what that takes, but never by more than half of the time that is left at `now_us`.
#[must_use]
pub fn search_deadline_us(deadline_us: i64, now_us: i64, tasks: usize) -> i64 {
    let tasks = i64::try_from(tasks).unwrap_or(i64::MAX);
    let wanted_us = tasks.saturating_mul(MEASUREMENT_MS).saturating_mul(1_000);
    let left_us = deadline_us.saturating_sub(now_us).max(0);
    deadline_us.saturating_sub(wanted_us.min(left_us / CLOSING_SHARE_MAX))
}

#[cfg(test)]
mod tests {
    use super::search_deadline_us;

    #[test]
    fn time_is_left_for_measuring_and_most_of_it_for_the_search() {
        let minute = 60_000_000;
        for (deadline, now, tasks, wanted) in [
            (600, 0, 6, 594),
            (600, 0, 1, 599),
            (600, 0, 0, 600),
            (600, 598, 6, 599),
            (600, 0, usize::MAX, 300),
            (600, 700, 6, 600),
        ] {
            let found = search_deadline_us(deadline * minute, now * minute, tasks);
            assert_eq!(found, wanted * minute, "{deadline} {now} {tasks}");
        }
    }
}
