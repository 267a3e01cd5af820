//! Whether a model may be asked now: what its failures mean for the next call, as a pure rule.
//!
//! A call that failed is made again after a wait of its own. When nothing but failures comes back,
//! the breaker opens: nobody asks that model until a while has passed, then one call tries whether
//! it is back. A model that never answered gets less patience than one that did, and one whose
//! failures may cost money even less. Times come in, in milliseconds since any fixed moment.

use crate::limits::{
    BREAKER_FAILURES, BREAKER_PAID_FAILURES, BREAKER_WAIT_MS, BREAKER_WAIT_MS_MAX, OUTAGE_MS_MAX,
    PAID_RETRY_WAIT_MS, PAID_TRIES_MAX, RETRY_WAIT_MS, RETRY_WAIT_MS_MAX, TRIES_AT_FIRST_MAX,
    WANTED_WAIT_AT_FIRST_MS_MAX,
};

/// A call without a reply, as far as it says something about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It may go away by itself.
    Passing {
        /// What the provider asks to wait.
        wanted_wait_ms: Option<u64>,
        /// True where it may have cost something.
        paid: bool,
    },
    /// It stays as it is until a person does something: a refused key, an account without credit.
    Lasting,
}

/// Whether a model may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    Closed,
    /// Not before this time; then one call may try.
    OpenUntil(u64),
    /// Somebody tries right now.
    Trying,
    /// Not any more in this process.
    GivenUp,
}

/// What one model's calls have come to since its last reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breaker {
    /// True once it has answered.
    answered: bool,
    failures: u32,
    /// Those that may have cost something.
    paid: u32,
    /// When it opened, or the last failure before that.
    since_ms: u64,
    /// How often it opened: once and then for each call that tried in vain.
    opened: u32,
    paid_tries: u32,
    open_until_ms: u64,
    /// When the call went out that tries whether it is back.
    trying_since_ms: Option<u64>,
    given_up: bool,
}

impl Breaker {
    /// Whether a call may go out at `now_ms`.
    #[must_use]
    pub fn gate(&self, now_ms: u64) -> Gate {
        match self {
            Self { given_up: true, .. } => Gate::GivenUp,
            Self { open_until_ms, .. } if now_ms < *open_until_ms => {
                Gate::OpenUntil(*open_until_ms)
            }
            Self { opened: 1.., trying_since_ms: Some(since_ms), .. }
                if now_ms < since_ms.saturating_add(BREAKER_WAIT_MS_MAX) =>
            {
                Gate::Trying
            }
            Self { .. } => Gate::Closed,
        }
    }

    /// True while nobody or only one may ask.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.opened > 0 || self.given_up
    }

    /// A call goes out; true if it is the one that tries whether the model is back. After a while
    /// without an end another one may.
    pub fn asked(&mut self, now_ms: u64) -> bool {
        let tries = self.opened > 0;
        if tries {
            self.trying_since_ms = Some(now_ms);
        }
        tries
    }

    /// A call ended in a way that says nothing about the model; `tried` as [`Breaker::asked`] said.
    pub fn withdrawn(&mut self, tried: bool) {
        if tried {
            self.trying_since_ms = None;
        }
    }

    /// A reply came; true if that closed the breaker. What was given up stays so.
    pub fn answered(&mut self) -> bool {
        let (given_up, was_open) = (self.given_up, self.opened > 0);
        *self = Self { answered: true, given_up, ..Self::default() };
        was_open && !given_up
    }

    /// Nobody asks this model any more.
    pub fn give_up(&mut self) {
        self.given_up = true;
    }

    /// A call failed, `tried` as [`Breaker::asked`] said; true if that opened the breaker or ended
    /// the patience with it.
    pub fn failed(&mut self, failure: Failure, tried: bool, now_ms: u64) -> bool {
        self.withdrawn(tried);
        let (wanted_wait_ms, paid) = match failure {
            Failure::Lasting => {
                self.given_up = true;
                return true;
            }
            Failure::Passing { wanted_wait_ms, paid } => (wanted_wait_ms, paid),
        };
        if self.opened == 0 {
            self.since_ms = now_ms;
        }
        self.failures = self.failures.saturating_add(1);
        self.paid = self.paid.saturating_add(u32::from(paid));
        self.paid_tries = self.paid_tries.saturating_add(u32::from(paid && tried));
        if self.is_hopeless(tried, now_ms, wanted_wait_ms) {
            self.given_up = true;
            return true;
        }
        // Nobody asks sooner than the provider said, also while the breaker is closed.
        let wanted_until_ms = wanted_wait_ms.map_or(0, |wait_ms| now_ms.saturating_add(wait_ms));
        self.open_until_ms = self.open_until_ms.max(wanted_until_ms);
        let in_a_row = self.failures >= BREAKER_FAILURES || self.paid >= BREAKER_PAID_FAILURES;
        // What was under way when it opened opens it no further.
        let opens = if self.opened > 0 { tried } else { in_a_row };
        if !opens {
            return false;
        }
        let wait_ms = BREAKER_WAIT_MS << self.opened.min(16);
        let until_ms = now_ms.saturating_add(wait_ms.min(BREAKER_WAIT_MS_MAX));
        self.open_until_ms = self.open_until_ms.max(until_ms);
        self.opened = self.opened.saturating_add(1);
        true
    }

    fn is_hopeless(&self, tried: bool, now_ms: u64, wanted_wait_ms: Option<u64>) -> bool {
        let outage_ms = now_ms.saturating_sub(self.since_ms);
        let wanted_ms = wanted_wait_ms.unwrap_or(0);
        let wanted_ms_max = if self.answered { OUTAGE_MS_MAX } else { WANTED_WAIT_AT_FIRST_MS_MAX };
        outage_ms >= OUTAGE_MS_MAX
            || wanted_ms >= wanted_ms_max
            || self.paid_tries >= PAID_TRIES_MAX
            || (tried && !self.answered && self.opened >= TRIES_AT_FIRST_MAX)
    }
}

/// How long a question waits by itself before it is put again after its `tries`th call without a
/// reply, in milliseconds; what its model wants is the breaker's. `jitter` in 0..=255 spreads the
/// tries of many.
#[must_use]
pub fn wait_before_retry_ms(failure: Failure, tries: u32, jitter: u8) -> Option<u64> {
    let Failure::Passing { paid, .. } = failure else { return None };
    let step = tries.saturating_sub(1).min(16);
    let own_ms = if paid { PAID_RETRY_WAIT_MS << (2 * step) } else { RETRY_WAIT_MS << step };
    let own_ms = own_ms.min(RETRY_WAIT_MS_MAX);
    Some(own_ms + own_ms * u64::from(jitter) / 1024)
}

#[cfg(test)]
mod tests {
    use super::{Breaker, Failure, Gate, wait_before_retry_ms};
    use crate::limits::{
        BREAKER_FAILURES, BREAKER_PAID_FAILURES, BREAKER_WAIT_MS, BREAKER_WAIT_MS_MAX,
        OUTAGE_MS_MAX, PAID_TRIES_MAX, TRIES_AT_FIRST_MAX,
    };

    const FREE: Failure = Failure::Passing { wanted_wait_ms: None, paid: false };
    const PAID: Failure = Failure::Passing { wanted_wait_ms: None, paid: true };

    fn proven() -> Breaker {
        let mut breaker = Breaker::default();
        assert!(!breaker.answered());
        breaker
    }

    #[test]
    fn it_opens_after_failures_in_a_row_and_one_call_tries() {
        let mut breaker = proven();
        for call in 1..BREAKER_FAILURES {
            assert!(!breaker.failed(FREE, false, 10), "{call}");
        }
        assert_eq!(breaker.gate(10), Gate::Closed);
        assert!(breaker.failed(FREE, false, 10));
        // What was under way when it opened opens nothing again.
        assert!(!breaker.failed(FREE, false, 11));
        let until_ms = 10 + BREAKER_WAIT_MS;
        assert_eq!(breaker.gate(until_ms - 1), Gate::OpenUntil(until_ms));
        assert_eq!(breaker.gate(until_ms), Gate::Closed);
        assert!(breaker.asked(until_ms));
        assert_eq!(breaker.gate(until_ms), Gate::Trying);
        // An older call that fails now is not the one that tries.
        assert!(!breaker.failed(PAID, false, until_ms));
        assert_eq!(breaker.gate(until_ms), Gate::Trying);
        assert!(breaker.failed(FREE, true, until_ms));
        assert_eq!(breaker.gate(until_ms), Gate::OpenUntil(until_ms + 2 * BREAKER_WAIT_MS));
        let now_ms = until_ms + BREAKER_WAIT_MS_MAX;
        assert!(breaker.asked(now_ms));
        breaker.withdrawn(false);
        assert_eq!(breaker.gate(now_ms), Gate::Trying);
        breaker.withdrawn(true);
        assert_eq!(breaker.gate(now_ms), Gate::Closed);
        assert!(breaker.asked(now_ms));
        // A try that does not end keeps nobody out for ever.
        assert_eq!(breaker.gate(now_ms + BREAKER_WAIT_MS_MAX), Gate::Closed);
        assert!(breaker.answered());
        assert_eq!((breaker.gate(0), breaker.is_open()), (Gate::Closed, false));
    }

    #[test]
    fn a_reply_between_failures_keeps_it_closed() {
        let mut breaker = proven();
        for _ in 0..100 {
            for _ in 1..BREAKER_FAILURES {
                assert!(!breaker.failed(FREE, false, 0));
            }
            assert!(!breaker.answered());
        }
    }

    #[test]
    fn what_a_provider_asks_for_holds_for_all() {
        let mut breaker = proven();
        let limited = Failure::Passing { wanted_wait_ms: Some(30_000), paid: false };
        assert!(!breaker.failed(limited, false, 5));
        assert_eq!(breaker.gate(6), Gate::OpenUntil(30_005));
        assert_eq!((breaker.gate(30_005), breaker.is_open()), (Gate::Closed, false));
    }

    /// Each try as late as it may be: an outage of hours is waited out, but not for ever.
    #[test]
    fn an_outage_is_waited_out_by_who_has_answered_before() {
        let fails = |mut breaker: Breaker, failure: Failure| {
            let (mut now_ms, mut calls) = (0, 0);
            while !matches!(breaker.gate(now_ms), Gate::GivenUp) {
                if let Gate::OpenUntil(until_ms) = breaker.gate(now_ms) {
                    assert!(until_ms - now_ms <= BREAKER_WAIT_MS_MAX);
                    now_ms = until_ms;
                }
                let tried = breaker.asked(now_ms);
                breaker.failed(failure, tried, now_ms);
                calls += 1;
            }
            (now_ms, calls)
        };
        let (gave_up_ms, calls) = fails(proven(), FREE);
        assert!(gave_up_ms >= OUTAGE_MS_MAX && calls < 200, "{gave_up_ms} {calls}");
        let at_first = fails(Breaker::default(), FREE);
        assert_eq!(at_first.1, BREAKER_FAILURES + TRIES_AT_FIRST_MAX);
        assert!(at_first.0 > 60_000, "{at_first:?}");
        assert_eq!(fails(proven(), PAID).1, BREAKER_PAID_FAILURES + PAID_TRIES_MAX);
        assert_eq!(fails(proven(), Failure::Lasting), (0, 1));
        let far = Failure::Passing { wanted_wait_ms: Some(OUTAGE_MS_MAX), paid: false };
        assert_eq!(fails(proven(), far), (0, 1));
    }

    /// Sixteen calls whose connections break at once are one disturbance.
    #[test]
    fn calls_that_break_together_are_no_reason_to_give_up() {
        let mut breaker = proven();
        let opened = (0..16).filter(|_| breaker.failed(PAID, false, 0)).count();
        assert_eq!((opened, breaker.gate(0)), (1, Gate::OpenUntil(BREAKER_WAIT_MS)));
    }

    #[test]
    fn waits_double_up_to_a_cap() {
        for (failure, tries, jitter, wait_ms) in [
            (FREE, 1, 0, Some(500)),
            (FREE, 2, 0, Some(1_000)),
            (FREE, 3, 255, Some(2_498)),
            (FREE, 60, 0, Some(120_000)),
            (PAID, 1, 0, Some(4_000)),
            (PAID, 2, 0, Some(16_000)),
            (PAID, 60, 0, Some(120_000)),
            (Failure::Lasting, 1, 0, None),
        ] {
            assert_eq!(wait_before_retry_ms(failure, tries, jitter), wait_ms, "{failure:?}");
        }
    }

    /// A model that is hardly asked has few failures, whatever lies between them.
    #[test]
    fn single_failures_far_apart_are_no_outage() {
        let mut breaker = proven();
        assert!(!breaker.failed(FREE, false, 0));
        assert!(!breaker.failed(FREE, false, 2 * OUTAGE_MS_MAX));
        assert_eq!(breaker.gate(2 * OUTAGE_MS_MAX), Gate::Closed);
    }
}
