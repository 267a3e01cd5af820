//! Energy of one call, from readings of a card's counter while a plan repeats.
//!
//! The counter moves in steps of tens of milliseconds, so what counts lies between two of its
//! steps. It is a second number beside a time and decides nothing.

/// The counter after so many calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Since the calls began, in milliseconds.
    pub elapsed_ms: f64,
    pub calls: u64,
    pub counter_mj: u64,
}

/// Energy of one call in millijoules, from the first step of the counter to the last; `None` unless
/// those are `least_ms` apart.
#[must_use]
pub fn per_call_mj(readings: &[Reading], least_ms: f64) -> Option<f64> {
    let steps = readings.windows(2).filter(|pair| pair[0].counter_mj != pair[1].counter_mj);
    let mut steps = steps.map(|pair| pair[1]);
    let first = steps.next()?;
    let last = steps.next_back()?;
    let calls = last.calls.checked_sub(first.calls).filter(|calls| *calls > 0)?;
    let spent_mj = last.counter_mj.checked_sub(first.counter_mj)?;
    let long_enough = last.elapsed_ms - first.elapsed_ms >= least_ms;
    long_enough.then(|| spent_mj as f64 / calls as f64)
}

#[cfg(test)]
mod tests {
    use super::{Reading, per_call_mj};

    /// A reading every 10 ms, five calls each, of a counter that moves every `step_ms`.
    fn readings(count: u64, step_ms: u64, mj_per_step: u64) -> Vec<Reading> {
        let reading = |at: u64| Reading {
            elapsed_ms: 10.0 * at as f64,
            calls: 5 * at,
            counter_mj: 7_000 + 10 * at / step_ms * mj_per_step,
        };
        (1..=count).map(reading).collect()
    }

    #[test]
    fn it_is_what_was_spent_between_two_steps_of_the_counter() {
        // 500 W: 50 J in 100 ms, in which there are 50 calls.
        assert_eq!(per_call_mj(&readings(60, 100, 50_000), 200.0), Some(1_000.0));
        // Where the last step comes does not matter.
        assert_eq!(per_call_mj(&readings(59, 100, 50_000), 200.0), Some(1_000.0));
    }

    #[test]
    fn a_counter_that_hardly_moves_tells_nothing() {
        for readings in [
            Vec::new(),
            readings(60, 100, 0),
            readings(15, 100, 50_000),
            // Two steps, but too near each other.
            readings(25, 100, 50_000),
            // A counter that was set back.
            [readings(30, 100, 50_000), readings(1, 100, 0)].concat(),
        ] {
            assert_eq!(per_call_mj(&readings, 200.0), None);
        }
    }
}
