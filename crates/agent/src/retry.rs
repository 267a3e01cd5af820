//! Whether and when a failed call is made again: a pure rule.

use llm::LlmError;

use crate::here::Failures;
use crate::limits::{
    FAILURES_MAX, PAID_FAILURES_MAX, PAID_RETRY_WAIT_MS, RETRY_WAIT_MS, RETRY_WAIT_MS_MAX,
    WANTED_WAIT_MS_MAX,
};

/// How long to wait before the next try, in milliseconds; `None` when there is none.
///
/// `failures` counts this one and those right before it; `jitter` in 0..=255 spreads the tries of
/// many runs. A wait that the provider asks for is kept to the millisecond or ends the run.
pub(crate) fn wait_before_retry_ms(
    error: &LlmError,
    failures: Failures,
    jitter: u8,
) -> Option<u64> {
    let too_many = failures.all >= FAILURES_MAX || failures.paid >= PAID_FAILURES_MAX;
    if !error.is_retryable() || too_many {
        return None;
    }
    let doubled = RETRY_WAIT_MS << failures.all.saturating_sub(1).min(32);
    let quadrupled = match failures.paid {
        0 => 0,
        paid => PAID_RETRY_WAIT_MS << (2 * (paid - 1)).min(32),
    };
    let own_ms = doubled.max(quadrupled).min(RETRY_WAIT_MS_MAX);
    let own_ms = own_ms + own_ms * u64::from(jitter) / 1024;
    match error.wanted_wait_ms() {
        Some(wanted_ms) if wanted_ms > WANTED_WAIT_MS_MAX => None,
        Some(wanted_ms) => Some(wanted_ms.max(own_ms)),
        None => Some(own_ms),
    }
}

#[cfg(test)]
mod tests {
    use llm::{ErrorClass, LlmError};

    use super::wait_before_retry_ms;
    use crate::here::Failures;

    #[test]
    fn waits_double_up_to_a_cap_and_keep_what_the_provider_wants() {
        let limited = || LlmError::new(ErrorClass::RateLimited, "429");
        let broken = || LlmError::new(ErrorClass::Interrupted, "reset");
        for (error, failures, jitter, wait_ms) in [
            (limited(), 1, 0, Some(500)),
            (limited(), 2, 0, Some(1_000)),
            (limited(), 3, 255, Some(2_498)),
            (limited(), 11, 0, Some(120_000)),
            (limited(), 12, 0, None),
            (limited().retry_after_ms(Some(7_000)), 1, 255, Some(7_000)),
            (limited().retry_after_ms(Some(1)), 2, 0, Some(1_000)),
            (limited().retry_after_ms(Some(900_000)), 1, 0, Some(900_000)),
            (limited().retry_after_ms(Some(900_001)), 1, 0, None),
            (broken(), 3, 0, Some(2_000)),
            (LlmError::new(ErrorClass::Auth, "401"), 1, 0, None),
        ] {
            let failures = Failures { all: failures, paid: 0 };
            let found = wait_before_retry_ms(&error, failures, jitter);
            assert_eq!(found, wait_ms, "{error} {failures:?}");
        }
        for (all, paid, wait_ms) in [
            (1, 1, Some(4_000)),
            (2, 2, Some(16_000)),
            (5, 5, Some(120_000)),
            (11, 5, Some(120_000)),
            (6, 6, None),
            (12, 0, None),
        ] {
            let found = wait_before_retry_ms(&broken(), Failures { all, paid }, 0);
            assert_eq!(found, wait_ms, "{all} {paid}");
        }
    }
}
