//! How much of the work on this machine goes on at once. A card has a lease of its own; this only
//! keeps its queue short.

use tokio::sync::{AcquireError, Semaphore, SemaphorePermit};

/// Rights to build and to judge.
#[derive(Debug)]
pub struct Pools {
    builds: Semaphore,
    judging: Semaphore,
    judging_max: usize,
    /// Attempts of a run that may be under way.
    pub(crate) in_flight_max: usize,
}

impl Pools {
    /// Pools for so many builds, evaluations and attempts at once, each at least one.
    #[must_use]
    pub fn new(builds: usize, judging: usize, in_flight_max: usize) -> Self {
        let pool = |permits: usize| Semaphore::new(permits.clamp(1, Semaphore::MAX_PERMITS));
        let judging = pool(judging);
        let judging_max = judging.available_permits();
        Self { builds: pool(builds), judging, judging_max, in_flight_max: in_flight_max.max(1) }
    }

    pub(crate) async fn build(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.builds.acquire().await
    }

    /// Attempts that are being judged.
    pub(crate) fn judging_now(&self) -> usize {
        self.judging_max - self.judging.available_permits().min(self.judging_max)
    }

    pub(crate) async fn judging(&self) -> Result<SemaphorePermit<'_>, AcquireError> {
        self.judging.acquire().await
    }
}
