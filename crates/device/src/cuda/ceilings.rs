//! What the GPU can do at most, measured: memory, L2, multiply-adds, the time of a launch.
//!
//! Yardsticks, not data-sheet values: each is the best of a few shapes of a plain kernel. Start at
//! [`measure`]; matrix products are in `products`.

mod products;

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::driver::Geometry;
use super::harness::{Arg, Entry};
use super::timer::{BLOCK_THREADS, THREADS, tiles};
use super::{Context, CudaDevice, CudaError, Placement, TimedSample, Timer};
use crate::execute::{Access, Buffer, Device, DeviceError};
use crate::limits::HARNESS_DEADLINE;

const SAMPLES: u32 = 25;
const PAIRS: u32 = 101;
const WARM_UP_MS: u32 = 100;
/// Size of each buffer in memory, if there is room, in bytes.
const BUFFER_BYTES: u64 = 2 << 30;
/// Part of the L2 cache that the L2 yardstick reads, and how often a sample reads it.
const L2_PART: u64 = 4;
const L2_PASSES: u32 = 64;
/// Rounds of the multiply-add yardstick, and operations of one round of one thread.
const FMA_ROUNDS: u32 = 4096;
const FMA_ROUND_FLOPS: f64 = 2.0 * 8.0 * 16.0;

/// A measured rate per second: median, 10th and 90th percentile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub samples: u32,
}

/// Measured ceilings of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ceilings {
    /// Bytes read plus bytes written.
    pub copy_bytes_per_s: Rate,
    pub read_bytes_per_s: Rate,
    pub write_bytes_per_s: Rate,
    pub l2_read_bytes_per_s: Rate,
    /// A multiply-add counts as two.
    pub fp32_flops_per_s: Rate,
    /// An empty kernel on a gated stream, without the events around it, in nanoseconds.
    pub launch_ns: f64,
    /// A gated pair of events around nothing, in nanoseconds.
    pub event_pair_ns: f64,
    /// SM clock beside the multiply-adds.
    pub sm_clock_hz: f64,
    /// `None` where there is no cuBLAS.
    pub gemm: Option<GemmRates>,
}

/// Operations per second of large matrix products, a multiply-add counting as two.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GemmRates {
    pub fp32: Rate,
    pub tf32: Rate,
    pub fp16: Rate,
    pub bf16: Rate,
    /// Or why the libraries do not do it on this GPU.
    pub int8: Result<Rate, String>,
    pub fp8: Result<Rate, String>,
}

impl Rate {
    /// The rates of `work` units done in each of the times.
    fn of(work: f64, times_ns: &[f64]) -> Rate {
        let mut rates: Vec<f64> =
            times_ns.iter().filter(|time| **time > 0.0).map(|time| work / (time * 1e-9)).collect();
        rates.sort_by(f64::total_cmp);
        Rate {
            median: quantile(&rates, 0.5),
            low: quantile(&rates, 0.1),
            high: quantile(&rates, 0.9),
            samples: rates.len() as u32,
        }
    }
}

/// The value at a quantile of sorted values; zero of none.
fn quantile(sorted: &[f64], at: f64) -> f64 {
    let index = (sorted.len().saturating_sub(1) as f64 * at).round() as usize;
    sorted.get(index).copied().unwrap_or(0.0)
}

/// Measures the ceilings, in about two seconds; takes up to 4 GiB of memory meanwhile.
///
/// # Errors
/// A harness that does not load, too little memory, or breakage.
pub fn measure(context: &Rc<Context>, harness_cubin: &[u8]) -> Result<Ceilings, CudaError> {
    let failed =
        |error: DeviceError| CudaError::Failed { call: "ceilings", code: error.to_string() };
    Bench::new(context, harness_cubin).and_then(|mut bench| bench.run()).map_err(failed)
}

struct Bench {
    device: CudaDevice,
    timer: Timer,
    /// Addresses of two buffers of `quads` pieces of 16 bytes.
    to: u64,
    from: u64,
    quads: u64,
    l2_bytes: u64,
    sm_count: u32,
    pair_ns: f64,
}

impl Bench {
    fn new(context: &Rc<Context>, harness_cubin: &[u8]) -> Result<Bench, DeviceError> {
        let mut device = CudaDevice::new(context, HARNESS_DEADLINE, Placement::Lower)?;
        let timer = Timer::new(&mut device, context, harness_cubin)?;
        let bytes = BUFFER_BYTES.min(context.free_bytes()? / 8) & !0xffff;
        let to = device.allocate("ceiling.to", bytes, Access::ReadWrite)?;
        let from = device.allocate("ceiling.from", bytes, Access::ReadWrite)?;
        device.fill(from, 0x5a)?;
        Ok(Bench {
            device,
            timer,
            to: to.address,
            from: from.address,
            quads: bytes / 16,
            l2_bytes: context.info().l2_bytes.max(0) as u64,
            sm_count: u32::try_from(context.info().sm_count).unwrap_or(1).max(1),
            pair_ns: 0.0,
        })
    }

    fn run(&mut self) -> Result<Ceilings, DeviceError> {
        self.timer.spin_clock(&mut self.device, WARM_UP_MS)?;
        self.device.synchronise()?;
        self.pair_ns = self.timer.event_overhead_ns(&mut self.device, PAIRS, true)? as f64;
        let launch_ns = self.launch_ns()?;
        let (fp32_flops_per_s, sm_clock_hz) = self.multiply_adds()?;
        Ok(Ceilings {
            copy_bytes_per_s: self.copy()?,
            read_bytes_per_s: self.read()?,
            write_bytes_per_s: self.write()?,
            l2_read_bytes_per_s: self.l2_read()?,
            fp32_flops_per_s,
            launch_ns,
            event_pair_ns: self.pair_ns,
            sm_clock_hz,
            gemm: self.gemm_rates()?,
        })
    }

    /// Gated samples of one launch, those that timed out left out.
    fn samples(
        &mut self,
        count: u32,
        entry: Entry,
        geometry: &Geometry,
        args: &[Arg],
    ) -> Result<Vec<TimedSample>, DeviceError> {
        let mut samples = Vec::new();
        // The first sample warms up.
        for index in 0..=count {
            let plan = |timer: &mut Timer, device: &mut CudaDevice| {
                timer.queue(device, entry, geometry, args)
            };
            let sample = self.timer.gated(&mut self.device, plan)?;
            if index > 0 && !sample.gate_timed_out {
                samples.push(sample);
            }
        }
        Ok(samples)
    }

    /// The rate of a launch that does `work` units.
    fn rate(
        &mut self,
        work: f64,
        entry: Entry,
        geometry: &Geometry,
        args: &[Arg],
    ) -> Result<Rate, DeviceError> {
        let samples = self.samples(SAMPLES, entry, geometry, args)?;
        Ok(Rate::of(work, &self.net(&samples)))
    }

    /// Times without those of the events, in nanoseconds.
    fn net(&self, samples: &[TimedSample]) -> Vec<f64> {
        samples.iter().map(|sample| sample.elapsed_ns as f64 - self.pair_ns).collect()
    }

    /// The best rate of a memory kernel: with a block for each tile, or with blocks that stay.
    fn memory_rate(&mut self, work: f64, entry: Entry, args: &[Arg]) -> Result<Rate, DeviceError> {
        let mut best = Rate::default();
        let stays = [4, 8].map(|blocks| Geometry::line(blocks * self.sm_count, THREADS));
        for geometry in [tiles(self.quads), stays[0], stays[1]] {
            let rate = self.rate(work, entry, &geometry, args)?;
            if rate.median > best.median {
                best = rate;
            }
        }
        Ok(best)
    }

    fn copy(&mut self) -> Result<Rate, DeviceError> {
        let args = [Arg::Long(self.to), Arg::Long(self.from), Arg::Long(self.quads)];
        let own = self.memory_rate(32.0 * self.quads as f64, Entry::Copy, &args)?;
        let drivers = self.driver_copy()?;
        Ok(if drivers.median > own.median { drivers } else { own })
    }

    /// The driver's own copy.
    fn driver_copy(&mut self) -> Result<Rate, DeviceError> {
        let bytes = 16 * self.quads;
        let (to, from) = (Buffer { address: self.to, bytes }, Buffer { address: self.from, bytes });
        let mut samples = Vec::new();
        for _ in 0..SAMPLES {
            let plan = |_: &mut Timer, device: &mut CudaDevice| device.copy_async(to, from);
            let sample = self.timer.gated(&mut self.device, plan)?;
            if !sample.gate_timed_out {
                samples.push(sample);
            }
        }
        Ok(Rate::of(2.0 * bytes as f64, &self.net(&samples)))
    }

    fn read(&mut self) -> Result<Rate, DeviceError> {
        let args = self.timer.read_args(self.from, self.quads, 1);
        self.memory_rate(16.0 * self.quads as f64, Entry::Read, &args)
    }

    fn write(&mut self) -> Result<Rate, DeviceError> {
        let args = [Arg::Long(self.to), Arg::Long(self.quads), Arg::Word(0x3f80_0000)];
        self.memory_rate(16.0 * self.quads as f64, Entry::Write, &args)
    }

    fn l2_read(&mut self) -> Result<Rate, DeviceError> {
        let quads = (self.l2_bytes / L2_PART / 16).min(self.quads);
        let args = self.timer.read_args(self.from, quads, L2_PASSES);
        let geometry = Geometry::line(8 * self.sm_count, THREADS);
        self.rate(16.0 * quads as f64 * f64::from(L2_PASSES), Entry::Read, &geometry, &args)
    }

    /// Operations per second, and the SM clock beside them.
    fn multiply_adds(&mut self) -> Result<(Rate, f64), DeviceError> {
        let blocks = 2 * self.sm_count;
        let threads = f64::from(blocks) * f64::from(BLOCK_THREADS);
        let work = threads * f64::from(FMA_ROUNDS) * FMA_ROUND_FLOPS;
        let args = [
            Arg::Long(self.timer.sink()),
            Arg::Word(FMA_ROUNDS),
            Arg::Float(0.999),
            Arg::Float(0.001),
        ];
        let geometry = Geometry::line(blocks, BLOCK_THREADS);
        let samples = self.samples(SAMPLES, Entry::Fma, &geometry, &args)?;
        let mut clocks: Vec<f64> = samples.iter().map(|sample| sample.sm_clock_hz).collect();
        clocks.sort_by(f64::total_cmp);
        Ok((Rate::of(work, &self.net(&samples)), quantile(&clocks, 0.5)))
    }

    fn launch_ns(&mut self) -> Result<f64, DeviceError> {
        let samples = self.samples(PAIRS, Entry::Empty, &Geometry::line(1, 1), &[])?;
        let mut times = self.net(&samples);
        times.sort_by(f64::total_cmp);
        Ok(quantile(&times, 0.5).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_quantiles_of_work_over_time() {
        let times: Vec<f64> = (1..=11).map(|time| f64::from(time) * 100.0).collect();
        let rate = Rate::of(1e3, &times);
        assert_eq!(rate.samples, 11);
        assert!((rate.median - 1e3 / 600e-9).abs() < 1.0, "{rate:?}");
        assert!(rate.low < rate.median && rate.median < rate.high);
        assert_eq!(Rate::of(1.0, &[0.0, -1.0]), Rate::default());
    }
}
