//! Which samples of a window are taken, and when that ends.

use std::time::{Duration, Instant};

use device::cuda::Timer;
use pipeline::timing::{Operation, Sample, SampleSpec};
use sandbox::wire::RunEnd;

use super::{Ended, Running};
use crate::RunnerError;
use crate::bulk::Rooms;

/// Samples of one kind.
struct Series<'a> {
    operations: &'a [Operation],
    samples: Vec<SampleSpec>,
    /// Timed samples that are taken whatever the budget.
    least: u32,
    budget: Duration,
}

impl Running<'_> {
    pub(super) fn samples(
        &mut self,
        timer: &mut Timer,
        rooms: &mut Rooms,
    ) -> Result<Ended, RunnerError> {
        let window = &self.work.request.window;
        let budget = Duration::from_millis(u64::from(window.budget_ms));
        let cold = Series {
            operations: &window.cold_operations,
            samples: window.cold_samples.clone(),
            least: window.samples_min,
            budget,
        };
        match self.series(timer, rooms, &cold)? {
            Ok(samples) => self.result.cold = samples,
            Err(end) => return Ok(Some(end)),
        }
        let warm = Series {
            operations: &window.warm_operations,
            samples: vec![SampleSpec { set: 0, content: 0 }; window.warm_samples as usize],
            least: 1,
            budget,
        };
        match self.series(timer, rooms, &warm)? {
            Ok(samples) => self.result.warm = samples,
            Err(end) => return Ok(Some(end)),
        }
        Ok(None)
    }

    /// Takes samples until the list or, once the least number is timed, the budget is over, or no
    /// further one could be verified. What copying out takes does not count.
    fn series(
        &mut self,
        timer: &mut Timer,
        rooms: &mut Rooms,
        series: &Series<'_>,
    ) -> Result<Result<Vec<Sample>, RunEnd>, RunnerError> {
        let (started, copied_before) = (Instant::now(), self.copied);
        let mut taken: Vec<Sample> = Vec::new();
        for spec in &series.samples {
            let timed = taken.iter().filter(|sample| sample.content == 0).count();
            let own = started.elapsed().saturating_sub(self.copied - copied_before);
            if timed >= series.least as usize && own >= series.budget {
                break;
            }
            if self.cannot_verify(spec.content) {
                break;
            }
            match self.sample(timer, rooms, series.operations, spec)? {
                Ok(sample) => taken.push(sample),
                Err(end) => return Ok(Err(end)),
            }
        }
        Ok(Ok(taken))
    }
}
