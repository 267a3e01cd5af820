//! Where times and ids come from: handed in, so that a test replays to the same rows.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{NoContext, Timestamp, Uuid};

/// A source of times (microseconds UTC) and of UUIDv7 ids.
#[derive(Clone)]
pub struct Clock {
    now_us: Arc<dyn Fn() -> i64 + Send + Sync>,
    new_id: Arc<dyn Fn(i64) -> Uuid + Send + Sync>,
}

impl Clock {
    /// The system's clock and random ids.
    #[must_use]
    pub fn system() -> Self {
        let now_us = || {
            let us = |time: Duration| i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
            match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => us(since),
                Err(before) => -us(before.duration()),
            }
        };
        let new_id = |now_us: i64| {
            let (seconds, nanos) = split_us(now_us);
            Uuid::new_v7(Timestamp::from_unix(NoContext, seconds, nanos))
        };
        Self { now_us: Arc::new(now_us), new_id: Arc::new(new_id) }
    }

    /// A clock that starts at `start_us`, moves by one millisecond at each look, and numbers its
    /// ids: equal calls give equal rows.
    #[must_use]
    pub fn scripted(start_us: i64) -> Self {
        let ticks = AtomicI64::new(start_us);
        let count = AtomicI64::new(0);
        let new_id = move |now_us: i64| {
            let mut tail = [0; 10];
            tail[2..].copy_from_slice(&count.fetch_add(1, Ordering::Relaxed).to_be_bytes());
            let millis = u64::try_from(now_us / 1_000).unwrap_or(0);
            uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
        };
        let now_us = move || ticks.fetch_add(1_000, Ordering::Relaxed);
        Self { now_us: Arc::new(now_us), new_id: Arc::new(new_id) }
    }

    /// Microseconds since 1970, UTC.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        (self.now_us)()
    }

    /// A new id made at `now_us`.
    #[must_use]
    pub fn new_id(&self, now_us: i64) -> String {
        (self.new_id)(now_us).to_string()
    }
}

fn split_us(now_us: i64) -> (u64, u32) {
    let seconds = u64::try_from(now_us.div_euclid(1_000_000)).unwrap_or(0);
    let nanos = u32::try_from(now_us.rem_euclid(1_000_000) * 1_000).unwrap_or(0);
    (seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::Clock;

    #[test]
    fn ids_are_version_7_and_scripted_ones_repeat() {
        let system = Clock::system();
        let id = system.new_id(system.now_us());
        assert_eq!((id.len(), id.as_bytes()[14]), (36, b'7'));
        assert_ne!(id, system.new_id(system.now_us()));
        let ids = |clock: Clock| [clock.new_id(clock.now_us()), clock.new_id(clock.now_us())];
        assert_eq!(ids(Clock::scripted(5_000)), ids(Clock::scripted(5_000)));
    }
}
