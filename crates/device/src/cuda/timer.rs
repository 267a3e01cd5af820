//! Times of what is queued between two events, behind a gate so that the host's own time does not
//! count, with what the timing protocol queues around it.
//!
//! The order of one sample: [`Timer::flush`], [`Timer::scrub_shared`], [`Timer::close_gate`],
//! [`Timer::start`], the launches, [`Timer::stop`], [`Timer::hash`], then [`Timer::open_gate`],
//! [`CudaDevice::synchronise`], [`Timer::sample`]. The launch queue holds about 1,000 launches:
//! more behind a closed gate would block until the gate's own timeout. Which samples count is not
//! decided here.

use std::rc::Rc;
use std::time::Instant;

use super::driver::{Event, Geometry, Mapping, Pinned, Primary, Stream};
use super::harness::{Arg, Entry, Harness};
use super::{Context, CudaDevice};
use crate::execute::{Buffer, DeviceError, LaunchEnd};
use crate::limits::{GATE_MINIMUM, GATE_TIMEOUT, HASHES_MAX, POLL_SLEEP_MAX, TIMER_DROP_WAIT};

/// Words of the pinned memory: the flag, and the gate's record in a line of its own.
const FLAG: usize = 0;
const RECORD: usize = 16;
const RECORD_WORDS: usize = 3;
const PINNED_WORDS: usize = 32;
/// What a sum must be to be written at all.
const NEVER: u32 = 0x5eed_dead;
/// Bytes before the hashes, where kernels write what must not be optimised away.
const SINK_BYTES: u64 = 256;
const HASH_BYTES: u64 = 16;
/// Threads of a block of the harness's memory kernels, and of those that fill a block.
pub(super) const THREADS: u32 = 256;
pub(super) const BLOCK_THREADS: u32 = 1024;

/// One timed sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimedSample {
    /// From the start event to the stop event, in nanoseconds; the pair's own time included.
    pub elapsed_ns: u64,
    /// SM clock while the last gate was closed; zero if none was, or if the GPU's timer is coarse.
    pub sm_clock_hz: f64,
    /// The gate opened by itself: the host was too slow, and the sample is void.
    pub gate_timed_out: bool,
}

/// The harness on one device. Made once a process.
///
/// Dropping it opens its gates and waits for a while; what it still queued then is never freed.
#[derive(Debug)]
pub struct Timer {
    primary: Rc<Primary>,
    harness: Harness,
    stream: Rc<Stream>,
    pinned: Pinned,
    /// The last gate that was closed, and the last that was opened.
    closed: u64,
    opened: u64,
    start: Event,
    stop: Event,
    flush_to: Mapping,
    flush_from: Mapping,
    /// The sink, then the hashes.
    scratch: Mapping,
    hashes: u64,
    sm_count: u32,
    shared_bytes: u32,
}

impl Timer {
    /// Loads the compiled harness and makes what it needs: four times the L2 cache of memory.
    ///
    /// # Errors
    /// A module that is not the harness, too little memory, or breakage.
    pub fn new(
        device: &mut CudaDevice,
        context: &Rc<Context>,
        harness_cubin: &[u8],
    ) -> Result<Timer, DeviceError> {
        let (primary, info) = (&context.primary, context.info());
        let granularity = primary.granularity()?;
        let flush_bytes = (2 * info.l2_bytes.max(1) as u64).next_multiple_of(granularity);
        let scratch_bytes = (SINK_BYTES + HASHES_MAX * HASH_BYTES).next_multiple_of(granularity);
        let shared_bytes = u32::try_from(info.shared_per_block_optin).unwrap_or(0);
        let timer = Timer {
            primary: Rc::clone(primary),
            harness: Harness::load(primary, harness_cubin)?,
            stream: Rc::clone(device.stream()),
            pinned: Pinned::new(primary, PINNED_WORDS)?,
            closed: 0,
            opened: 0,
            start: Event::new(primary)?,
            stop: Event::new(primary)?,
            flush_to: Mapping::new(primary, flush_bytes)?,
            flush_from: Mapping::new(primary, flush_bytes)?,
            scratch: Mapping::new(primary, scratch_bytes)?,
            hashes: 0,
            sm_count: u32::try_from(info.sm_count).unwrap_or(1).max(1),
            shared_bytes,
        };
        timer.harness.function(Entry::Scrub).allow_shared(shared_bytes)?;
        for mapping in [&timer.flush_from, &timer.scratch] {
            device.queue(|stream| stream.fill(mapping.start(), 0, mapping.bytes()))?;
        }
        Ok(timer)
    }

    /// Queues a flush of L2: writes twice its size, then reads as much of other memory so that no
    /// dirty line is left, and no line persists.
    ///
    /// # Errors
    /// Breakage only; so for everything that queues.
    pub fn flush(&mut self, device: &mut CudaDevice) -> Result<(), DeviceError> {
        let quads = self.flush_to.bytes() / 16;
        let to = self.flush_to.start();
        self.write(device, to, quads, NEVER)?;
        let from = self.flush_from.start();
        self.read(device, from, quads, 1)?;
        let primary = Rc::clone(device.primary());
        device.queue(|_| primary.reset_persisting_l2())
    }

    /// Queues as many blocks as there are SMs, each of which fills the most shared memory that a
    /// block can have, and some local memory. That every SM gets one is likely, not certain.
    ///
    /// # Errors
    /// Breakage only.
    pub fn scrub_shared(&mut self, device: &mut CudaDevice, byte: u8) -> Result<(), DeviceError> {
        let word = u32::from_ne_bytes([byte; 4]);
        let geometry = Geometry {
            shared_bytes: self.shared_bytes,
            ..Geometry::line(self.sm_count, BLOCK_THREADS)
        };
        let args =
            [Arg::Word(word), Arg::Word(self.shared_bytes / 4), Arg::Long(self.scratch.start())];
        self.queue(device, Entry::Scrub, &geometry, &args)
    }

    /// Queues the gate that holds everything behind it until [`Timer::open_gate`].
    ///
    /// # Errors
    /// Breakage only.
    pub fn close_gate(&mut self, device: &mut CudaDevice) -> Result<(), DeviceError> {
        self.closed += 1;
        for word in RECORD..RECORD + RECORD_WORDS {
            self.pinned.store(word, 0);
        }
        let nanoseconds = |time: std::time::Duration| Arg::Long(time.as_nanos() as u64);
        let args = [
            Arg::Long(self.pinned.address() + 8 * FLAG as u64),
            Arg::Long(self.closed),
            Arg::Long(self.pinned.address() + 8 * RECORD as u64),
            nanoseconds(GATE_MINIMUM),
            nanoseconds(GATE_TIMEOUT),
        ];
        self.queue(device, Entry::Gate, &Geometry::line(1, 1), &args)
    }

    /// Lets every gate pass that was closed so far.
    ///
    /// # Errors
    /// No gate is closed.
    pub fn open_gate(&mut self) -> Result<(), DeviceError> {
        if self.opened == self.closed {
            return Err(DeviceError::Failed("no gate is closed".to_owned()));
        }
        self.opened = self.closed;
        self.pinned.store(FLAG, self.opened);
        Ok(())
    }

    /// Queues the event before the plan.
    ///
    /// # Errors
    /// Breakage only.
    pub fn start(&mut self, device: &mut CudaDevice) -> Result<(), DeviceError> {
        device.queue(|stream| self.start.record(stream))
    }

    /// Queues the event behind the plan.
    ///
    /// # Errors
    /// Breakage only.
    pub fn stop(&mut self, device: &mut CudaDevice) -> Result<(), DeviceError> {
        device.queue(|stream| self.stop.record(stream))
    }

    /// Queues the hash of a buffer's first `bytes` bytes, as [`crate::content_hash`] has it.
    ///
    /// # Errors
    /// More bytes than the buffer has, more hashes than may wait, or breakage.
    pub fn hash(
        &mut self,
        device: &mut CudaDevice,
        buffer: Buffer,
        bytes: u64,
        key: [u64; 2],
    ) -> Result<(), DeviceError> {
        buffer.check_range(0, bytes)?;
        if self.hashes == HASHES_MAX {
            let why = format!("at most {HASHES_MAX} hashes may wait to be read");
            return Err(DeviceError::Failed(why));
        }
        let sums = self.scratch.start() + SINK_BYTES + HASH_BYTES * self.hashes;
        self.hashes += 1;
        let args = [
            Arg::Long(buffer.address),
            Arg::Long(bytes),
            Arg::Long(key[0]),
            Arg::Long(key[1]),
            Arg::Long(sums),
        ];
        let pairs = bytes.div_ceil(16).div_ceil(u64::from(THREADS)).max(1);
        let blocks = pairs.min(u64::from(8 * self.sm_count)) as u32;
        self.queue(device, Entry::Hash, &Geometry::line(blocks, THREADS), &args)
    }

    /// Queues multiply-adds on the whole GPU for about so long.
    ///
    /// # Errors
    /// Breakage only.
    pub fn spin_clock(
        &mut self,
        device: &mut CudaDevice,
        milliseconds: u32,
    ) -> Result<(), DeviceError> {
        let args = [
            Arg::Long(self.scratch.start()),
            Arg::Long(u64::from(milliseconds) * 1_000_000),
            Arg::Float(0.999),
            Arg::Float(0.001),
        ];
        self.queue(device, Entry::Spin, &Geometry::line(2 * self.sm_count, BLOCK_THREADS), &args)
    }

    /// The sample between the last start and stop; only after the device has synchronised.
    ///
    /// # Errors
    /// Events that were not queued or have not passed.
    pub fn sample(&mut self) -> Result<TimedSample, DeviceError> {
        let [nanoseconds, cycles, timed_out] =
            std::array::from_fn(|word| self.pinned.load(RECORD + word));
        let clock = if nanoseconds == 0 { 0.0 } else { cycles as f64 / nanoseconds as f64 * 1e9 };
        Ok(TimedSample {
            elapsed_ns: self.stop.since(&self.start)?,
            sm_clock_hz: clock,
            gate_timed_out: timed_out != 0,
        })
    }

    /// The hashes queued since the last call, in order; only after the device has synchronised.
    ///
    /// # Errors
    /// Breakage only.
    pub fn hashes(&mut self) -> Result<Vec<[u64; 2]>, DeviceError> {
        let address = self.scratch.start() + SINK_BYTES;
        let mut bytes = vec![0; (HASH_BYTES * self.hashes) as usize];
        self.stream.download(&mut bytes, address)?;
        self.stream.fill(address, 0, HASH_BYTES * self.hashes)?;
        self.hashes = 0;
        let words = bytes
            .chunks_exact(8)
            .map(|chunk| chunk.iter().rev().fold(0u64, |word, byte| word << 8 | u64::from(*byte)));
        let words: Vec<u64> = words.collect();
        Ok(words.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect())
    }

    /// What an event pair around nothing takes: the median of `pairs`, in nanoseconds. Without a
    /// gate the host's delays are in it.
    ///
    /// # Errors
    /// Breakage, or a fault of something queued before.
    pub fn event_overhead_ns(
        &mut self,
        device: &mut CudaDevice,
        pairs: u32,
        gated: bool,
    ) -> Result<u64, DeviceError> {
        let mut times = Vec::new();
        for _ in 0..pairs.max(1) {
            let sample = match gated {
                true => self.gated(device, |_, _| Ok(()))?,
                false => self.ungated(device)?,
            };
            times.push(sample.elapsed_ns);
        }
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    /// One gated sample of what `plan` queues; the device must be idle.
    pub(super) fn gated(
        &mut self,
        device: &mut CudaDevice,
        plan: impl FnOnce(&mut Timer, &mut CudaDevice) -> Result<(), DeviceError>,
    ) -> Result<TimedSample, DeviceError> {
        self.close_gate(device)?;
        self.start(device)?;
        plan(self, device)?;
        self.stop(device)?;
        self.open_gate()?;
        self.synchronised(device)
    }

    /// One sample of nothing, which no gate holds.
    fn ungated(&mut self, device: &mut CudaDevice) -> Result<TimedSample, DeviceError> {
        self.start(device)?;
        self.stop(device)?;
        self.synchronised(device)
    }

    fn synchronised(&mut self, device: &mut CudaDevice) -> Result<TimedSample, DeviceError> {
        match device.synchronise()? {
            LaunchEnd::Completed => self.sample(),
            end => Err(DeviceError::Failed(format!("the harness did not complete: {end:?}"))),
        }
    }

    /// Queues a write of `quads` pieces of 16 bytes.
    pub(super) fn write(
        &self,
        device: &CudaDevice,
        to: u64,
        quads: u64,
        word: u32,
    ) -> Result<(), DeviceError> {
        let args = [Arg::Long(to), Arg::Long(quads), Arg::Word(word)];
        self.queue(device, Entry::Write, &tiles(quads), &args)
    }

    /// Queues a read of `quads` pieces of 16 bytes, `passes` times.
    pub(super) fn read(
        &self,
        device: &CudaDevice,
        from: u64,
        quads: u64,
        passes: u32,
    ) -> Result<(), DeviceError> {
        self.queue(device, Entry::Read, &tiles(quads), &self.read_args(from, quads, passes))
    }

    pub(super) fn read_args(&self, from: u64, quads: u64, passes: u32) -> [Arg; 5] {
        [
            Arg::Long(from),
            Arg::Long(quads),
            Arg::Word(passes),
            Arg::Word(NEVER),
            Arg::Long(self.scratch.start()),
        ]
    }

    /// Where kernels write what must not be optimised away.
    pub(super) fn sink(&self) -> u64 {
        self.scratch.start()
    }

    /// Queues an entry of the harness.
    pub(super) fn queue(
        &self,
        device: &CudaDevice,
        entry: Entry,
        geometry: &Geometry,
        args: &[Arg],
    ) -> Result<(), DeviceError> {
        device.queue(|stream| self.harness.launch(stream, entry, geometry, args))
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.pinned.store(FLAG, self.closed);
        let started = Instant::now();
        // An error means that the context has faulted: then nothing runs in it any more.
        while !self.primary.is_abandoned() && matches!(self.stream.is_idle(), Ok(false)) {
            if started.elapsed() >= TIMER_DROP_WAIT {
                self.primary.abandon();
            }
            std::thread::sleep(POLL_SLEEP_MAX);
        }
    }
}

/// A grid with one tile of the memory kernels for each block.
pub(super) fn tiles(quads: u64) -> Geometry {
    let blocks = quads.div_ceil(4 * u64::from(THREADS)).clamp(1, i32::MAX as u64);
    Geometry::line(blocks as u32, THREADS)
}

#[cfg(test)]
mod tests;
