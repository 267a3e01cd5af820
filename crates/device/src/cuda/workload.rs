//! Launches of known length, to compare clocks: short and long copies, and arithmetic.
//!
//! Each kernel is sampled twice: with a flushed cache, and again and again with what the launch
//! before left there. Without a gate it can also run under a profiler, which waits for each launch.
//! Start at [`clock_series`].

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::driver::Geometry;
use super::harness::{Arg, Entry};
use super::timer::{THREADS, tiles};
use super::{Context, CudaDevice, Placement, Timer};
use crate::execute::{Access, Device, DeviceError, LaunchEnd};
use crate::limits::HARNESS_DEADLINE;

/// How many series there are.
pub const CLOCK_SERIES: usize = 2 * (COPIES.len() + FMA_ROUNDS.len());
/// Bytes that each copy reads; as many are written. About 5 µs to 5 ms on an H200.
const COPIES: [u64; 6] = [8 << 20, 32 << 20, 64 << 20, 256 << 20, 1 << 30, 10 << 30];
/// Rounds of multiply-adds of the series that move no memory: about 0.1 to 50 ms on an H200.
const FMA_ROUNDS: [u32; 4] = [100, 1_000, 8_000, 47_000];
const SAMPLES: u32 = 15;
const WARM_UP_MS: u32 = 100;

/// Times of one kernel, net of the events, in nanoseconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClockSeries {
    pub name: String,
    pub elapsed_ns: Vec<f64>,
}

/// Takes every series, in an order that never changes.
///
/// # Errors
/// Too little memory, or breakage.
pub fn clock_series(
    context: &Rc<Context>,
    harness_cubin: &[u8],
    gated: bool,
) -> Result<Vec<ClockSeries>, DeviceError> {
    let mut device = CudaDevice::new(context, HARNESS_DEADLINE, Placement::Lower)?;
    let mut timer = Timer::new(&mut device, context, harness_cubin)?;
    let bytes = COPIES.into_iter().max().unwrap_or(0);
    let to = device.allocate("clock.to", bytes, Access::ReadWrite)?;
    let from = device.allocate("clock.from", bytes, Access::ReadWrite)?;
    device.fill(from, 0x5a)?;
    timer.spin_clock(&mut device, WARM_UP_MS)?;
    device.synchronise()?;
    let pair_ns = if gated { timer.event_overhead_ns(&mut device, 50, true)? as f64 } else { 0.0 };
    let mut plans = Vec::new();
    for bytes in COPIES {
        let args = [Arg::Long(to.address), Arg::Long(from.address), Arg::Long(bytes / 16)];
        let plan = (Entry::Copy, tiles(bytes / 16), args.to_vec());
        plans.push((format!("copy of {} MiB", bytes >> 20), plan));
    }
    let blocks = 2 * u32::try_from(context.info().sm_count).unwrap_or(1).max(1);
    for rounds in FMA_ROUNDS {
        let constants = [Arg::Float(0.999), Arg::Float(0.001)];
        let args = [Arg::Long(timer.sink()), Arg::Word(rounds)].into_iter().chain(constants);
        let plan = (Entry::Fma, Geometry::line(blocks, 4 * THREADS), args.collect());
        plans.push((format!("{rounds} rounds of multiply-adds"), plan));
    }
    let mut all = Vec::new();
    for (name, plan) in plans {
        for cold in [true, false] {
            let name = format!("{name}, {}", if cold { "cold" } else { "warm" });
            let clock = Clock { cold, gated, pair_ns };
            all.push(series(&mut device, &mut timer, name, &plan, clock)?);
        }
    }
    Ok(all)
}

type Plan = (Entry, Geometry, Vec<Arg>);

/// How samples are taken.
#[derive(Clone, Copy)]
struct Clock {
    /// The cache is flushed before each; otherwise only the first sample finds it so, and medians
    /// don't show it.
    cold: bool,
    gated: bool,
    /// What a pair of events takes on its own.
    pair_ns: f64,
}

fn series(
    device: &mut CudaDevice,
    timer: &mut Timer,
    name: String,
    plan: &Plan,
    clock: Clock,
) -> Result<ClockSeries, DeviceError> {
    let mut elapsed_ns = Vec::new();
    for sample in 0..SAMPLES {
        if clock.cold || sample == 0 {
            timer.flush(device)?;
        }
        if clock.gated {
            let queue = |timer: &mut Timer, device: &mut CudaDevice| {
                timer.queue(device, plan.0, &plan.1, &plan.2)
            };
            let sample = timer.gated(device, queue)?;
            elapsed_ns.push(sample.elapsed_ns as f64 - clock.pair_ns);
        } else {
            timer.queue(device, plan.0, &plan.1, &plan.2)?;
            match device.synchronise()? {
                LaunchEnd::Completed => elapsed_ns.push(0.0),
                end => return Err(DeviceError::Failed(format!("the workload: {end:?}"))),
            }
        }
    }
    Ok(ClockSeries { name, elapsed_ns })
}
