//! Repeats a window's subject while the card's energy counter is read.

use std::time::Instant;

use device::cuda;
use pipeline::energy::{Reading, per_call_mj};
use pipeline::limits::ENERGY_PATIENCE;

use super::{Ended, Running, updates_inputs};
use crate::RunnerError;
use crate::limits::{ENERGY_BATCH_LAUNCHES_MAX, ENERGY_BATCH_MS};

impl Running<'_> {
    /// Counts the energy of one call, where the window asks for it. What a call needs of its
    /// workspaces is in it; a module whose variables must be reset between calls is left out, and
    /// so is a plan that writes its inputs: it must not find what it left there.
    pub(super) fn energy(&mut self) -> Result<Ended, RunnerError> {
        let request = self.work.request;
        let least_ms = request.window.energy_ms;
        let uuid = self.work.before.uuid;
        let repeats = !request.has_variables && !updates_inputs(&request.contents);
        if least_ms == 0 || !repeats || cuda::energy_mj(uuid).is_none() {
            return Ok(None);
        }
        let launches = (request.plan.steps.len() as u64).max(1);
        let (started, mut readings, mut calls) = (Instant::now(), Vec::new(), 0);
        let mut batch = 1;
        let elapsed_ms = || 1e3 * started.elapsed().as_secs_f64();
        while elapsed_ms() < f64::from(least_ms * ENERGY_PATIENCE) {
            let batch_started = Instant::now();
            if let Some(end) = self.repeat(calls, batch)? {
                return Ok(Some(end));
            }
            calls += batch;
            let Some(counter_mj) = cuda::energy_mj(uuid) else { return Ok(None) };
            readings.push(Reading { elapsed_ms: elapsed_ms(), calls, counter_mj });
            self.result.energy_mj = per_call_mj(&readings, f64::from(least_ms));
            if self.result.energy_mj.is_some() {
                break;
            }
            batch = next_batch(batch, 1e3 * batch_started.elapsed().as_secs_f64(), launches);
        }
        Ok(None)
    }

    /// Queues so many calls on the buffer sets in turn, and waits for them.
    fn repeat(&mut self, from: u64, count: u64) -> Result<Ended, RunnerError> {
        let sets = u64::from(self.work.request.window.sets).max(1);
        for call in from..from + count {
            let set = (call % sets) as u32;
            self.fill_workspaces(set)?;
            if let Some(end) = self.queue_plan(set)? {
                return Ok(Some(end));
            }
        }
        self.wait()
    }
}

/// How many calls come next, after `batch` of them took so long.
fn next_batch(batch: u64, took_ms: f64, launches: u64) -> u64 {
    let wanted = batch as f64 * ENERGY_BATCH_MS / took_ms.max(1e-3);
    (wanted as u64).clamp(1, (ENERGY_BATCH_LAUNCHES_MAX / launches).max(1))
}

#[cfg(test)]
mod tests {
    use super::next_batch;

    #[test]
    fn a_batch_takes_about_ten_milliseconds_and_fits_into_the_queue() {
        for (batch, took_ms, launches, expected) in [
            (1, 0.1, 1, 100),
            (100, 10.0, 1, 100),
            (100, 40.0, 1, 25),
            (1, 30.0, 1, 1),
            (1, 0.001, 1, 512),
            (1, 0.001, 32, 16),
            (1, 0.0, 1000, 1),
        ] {
            assert_eq!(next_batch(batch, took_ms, launches), expected, "{took_ms} ms");
        }
    }
}
