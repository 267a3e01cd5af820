//! Times the headline case on a GPU: performs the operations of a window, whatever they are.
//!
//! Every timed output is hashed on the device; outputs whose hash is new are copied out, to be
//! compared where the candidate never was. Start at [`time`].

mod energy;
mod series;
mod sets;
mod vendor;

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use device::cuda::{self, Blas, Context, CudaDevice, Timer};
use device::execute::{Buffer, Device, DeviceError, Image, LaunchEnd};
use pipeline::inputs::Poison;
use pipeline::report::GpuState;
use pipeline::timing::{Operation, Sample, SampleSpec, combined_hash, output_key};
use sandbox::inside::Inside;
use sandbox::wire::{
    InputTensor, RunEnd, Slice, SlotContent, WindowRequest, WindowResult, WindowSubject,
};

use crate::RunnerError;
use crate::bulk::{Maps, Rooms};
use crate::limits::{EVENT_PAIRS, YARDSTICK_MS};
use crate::run::cost;
use crate::session::run_end;
use crate::steps::{DeviceStep, LaunchMode, Names};
use sets::Set;

/// What a window needs.
pub(crate) struct Work<'a> {
    pub(crate) inside: &'a Inside,
    pub(crate) names: Names<'a>,
    pub(crate) image: Image<'a>,
    pub(crate) maps: &'a Maps,
    pub(crate) request: &'a WindowRequest,
    pub(crate) before: Before<'a>,
}

/// The card before this process used it.
pub(crate) struct Before<'a> {
    pub(crate) uuid: &'a str,
    pub(crate) state: Option<GpuState>,
}

/// The state of a card, on which this process has opened a context or not; `None` where the driver
/// does not tell.
pub(crate) fn gpu_state(uuid: &str, opened: bool) -> Option<GpuState> {
    let state = cuda::state(uuid).ok()?;
    Some(GpuState {
        sm_clock_hz: state.sm_clock_hz,
        memory_clock_hz: state.memory_clock_hz,
        temperature_c: state.temperature_c,
        power_w: state.power_w,
        throttle: state.throttle,
        foreign_processes: foreign(state.processes.as_deref(), &own_numbers(), opened),
    })
}

/// The numbers of this process: in its namespace and outside of it. Drivers differ in which one
/// they list.
fn own_numbers() -> [u32; 2] {
    [std::process::id(), sandbox::inside::outer_process_id()]
}

/// How many of the processes are not this one. Where this one must be listed and is not, the list
/// has the numbers of another namespace, and nobody can tell.
fn foreign(listed: Option<&[(u32, u64)]>, own: &[u32], opened: bool) -> Option<u32> {
    let listed = listed?;
    let others = listed.iter().filter(|(pid, _)| !own.contains(pid)).count();
    let told = others < listed.len() || !opened;
    told.then(|| u32::try_from(others).unwrap_or(u32::MAX))
}

/// Times the plan of the request.
pub(crate) fn time(
    work: &Work<'_>,
    context: &Rc<Context>,
    device: CudaDevice,
    rooms: &mut Rooms,
) -> Result<WindowResult, RunnerError> {
    let mut window = Running {
        device,
        work,
        blas: None,
        sets: Vec::new(),
        contents: Vec::new(),
        result: WindowResult {
            end: RunEnd::Completed,
            cold: Vec::new(),
            warm: Vec::new(),
            event_pair_ns: 0.0,
            slots: Vec::new(),
            before: work.before.state.clone(),
            after: None,
            energy_mj: None,
            cost: Vec::new(),
        },
        seen: BTreeSet::new(),
        copied: Duration::ZERO,
    };
    match window.run(context, rooms) {
        Ok(None) => {}
        Ok(Some(end)) => window.result.end = end,
        Err(RunnerError::NotAvailable(why)) => window.result.end = RunEnd::Unsupported(why),
        Err(error) => return Err(error),
    }
    window.result.after = gpu_state(work.before.uuid, true);
    let Running { device, blas, result, .. } = window;
    // As after every run of a GPU: the process ends at once.
    std::mem::forget((device, blas));
    Ok(result)
}

pub(crate) struct Running<'a> {
    device: CudaDevice,
    work: &'a Work<'a>,
    /// The vendor's library, where a window times it.
    blas: Option<Blas>,
    sets: Vec<Set<'a>>,
    /// The inputs of each content, in the order of the request.
    contents: Vec<Vec<Buffer>>,
    result: WindowResult,
    /// Content and hash of outputs that were copied out.
    seen: BTreeSet<(u32, [u64; 2])>,
    /// How long copying out took.
    copied: Duration,
}

/// A step of the window that did not complete.
pub(crate) type Ended = Option<RunEnd>;

impl Running<'_> {
    fn run(&mut self, context: &Rc<Context>, rooms: &mut Rooms) -> Result<Ended, RunnerError> {
        let started = Instant::now();
        if let Some(end) = self.prepare_device()? {
            return Ok(Some(end));
        }
        let harness = self.work.maps.get(self.work.request.harness)?;
        let mut timer = Timer::new(&mut self.device, context, harness)?;
        self.note("upload", started);
        let started = Instant::now();
        timer.spin_clock(&mut self.device, YARDSTICK_MS)?;
        let gated = self.work.request.window.is_gated();
        let pair = timer.event_overhead_ns(&mut self.device, EVENT_PAIRS, gated)?;
        self.result.event_pair_ns = pair as f64;
        if let Some(end) = self.warm_up()? {
            return Ok(Some(end));
        }
        self.note("warm_up", started);
        let started = Instant::now();
        if let Some(end) = self.samples(&mut timer, rooms)? {
            return Ok(Some(end));
        }
        self.note("samples", started);
        let started = Instant::now();
        if let Some(end) = self.energy()? {
            return Ok(Some(end));
        }
        self.note("energy", started);
        self.side_effects(&mut timer)
    }

    fn note(&mut self, part: &str, started: Instant) {
        self.result.cost.push(cost(part, started));
    }

    /// Runs the plan until the clocks are up; the first calls also find what cannot run at all.
    fn warm_up(&mut self) -> Result<Ended, RunnerError> {
        let window = &self.work.request.window;
        for set in 0..window.sets {
            if let Some(end) = self.refill(&SampleSpec { set, content: 0 })? {
                return Ok(Some(end));
            }
        }
        let started = Instant::now();
        let least = Duration::from_millis(u64::from(window.warm_up_ms));
        let updates = updates_inputs(&self.work.request.contents);
        for round in 0u32.. {
            // A call finds what the plan promises it, also when it is not timed.
            if updates
                && let Some(end) =
                    self.refill(&SampleSpec { set: round % window.sets, content: 0 })?
            {
                return Ok(Some(end));
            }
            if window.cold_operations.contains(&Operation::Poison) {
                self.poison(round % window.sets)?;
            }
            if let Some(end) = self.queue_plan(round % window.sets)? {
                return Ok(Some(end));
            }
            if let Some(end) = self.wait()? {
                return Ok(Some(end));
            }
            if started.elapsed() >= least {
                break;
            }
        }
        Ok(None)
    }

    /// Performs the operations of one sample in their order.
    fn sample(
        &mut self,
        timer: &mut Timer,
        rooms: &mut Rooms,
        operations: &[Operation],
        spec: &SampleSpec,
    ) -> Result<Result<Sample, RunEnd>, RunnerError> {
        let mut sample = None;
        for operation in operations {
            let end = match operation {
                Operation::ResetModule => self.reset_module()?,
                Operation::Refill => self.refill(spec)?,
                Operation::Poison => self.poison(spec.set)?,
                Operation::ScrubShared => done(timer.scrub_shared(&mut self.device, 0xff))?,
                Operation::FlushCache => done(timer.flush(&mut self.device))?,
                Operation::CloseGate => done(timer.close_gate(&mut self.device))?,
                Operation::StartEvent => done(timer.start(&mut self.device))?,
                Operation::Plan => self.queue_plan(spec.set)?,
                Operation::StopEvent => done(timer.stop(&mut self.device))?,
                Operation::HashOutputs => self.hash_outputs(timer, spec.set)?,
                Operation::OpenGate => done(timer.open_gate())?,
                Operation::Wait => match self.finish(timer, rooms, spec)? {
                    Ok(found) => {
                        sample = Some(found);
                        None
                    }
                    Err(end) => Some(end),
                },
            };
            if let Some(end) = end {
                return Ok(Err(end));
            }
        }
        let sample = sample.ok_or_else(|| RunnerError::Request("no wait in a sample".to_owned()));
        sample.map(Ok)
    }

    fn finish(
        &mut self,
        timer: &mut Timer,
        rooms: &mut Rooms,
        spec: &SampleSpec,
    ) -> Result<Result<Sample, RunEnd>, RunnerError> {
        if let Some(end) = self.wait()? {
            return Ok(Err(end));
        }
        let timed = timer.sample()?;
        let hash = combined_hash(&timer.hashes()?);
        let started = Instant::now();
        self.copy_out(rooms, spec, hash)?;
        self.copied += started.elapsed();
        Ok(Ok(Sample {
            content: spec.content,
            elapsed_ns: timed.elapsed_ns,
            sm_clock_hz: timed.sm_clock_hz,
            ungated: timed.gate_timed_out,
            hash,
        }))
    }

    /// True while a slot is free for outputs of a content; each other content that has none yet
    /// keeps one.
    fn has_slot(&self, content: u32) -> bool {
        let request = self.work.request;
        let held = |content: u32| self.seen.iter().any(|(other, _)| *other == content);
        let others = (0..request.contents.len() as u32).filter(|other| *other != content);
        let kept = others.filter(|other| !held(*other)).count();
        self.result.slots.len() + kept < request.slots as usize
    }

    /// True when outputs of a content differ from call to call and no more of them can be copied
    /// out: another sample could not be verified.
    fn cannot_verify(&self, content: u32) -> bool {
        let known = self.seen.iter().filter(|(other, _)| *other == content).count();
        known > 1 && !self.has_slot(content)
    }

    /// Copies the outputs to the next slot if nothing of that content and hash was copied yet.
    fn copy_out(
        &mut self,
        rooms: &mut Rooms,
        spec: &SampleSpec,
        hash: [u64; 2],
    ) -> Result<(), RunnerError> {
        let request = self.work.request;
        let slot = self.result.slots.len() as u64;
        if self.seen.contains(&(spec.content, hash)) || !self.has_slot(spec.content) {
            return Ok(());
        }
        for output in &request.outputs {
            let offset = output.data.offset + slot * request.slot_bytes;
            let room = rooms.room(self.work.inside, Slice { offset, ..output.data })?;
            let buffer = self.set(spec.set)?.bound.buffer(&output.name)?;
            self.device.download(buffer, room)?;
        }
        self.seen.insert((spec.content, hash));
        self.result.slots.push(SlotContent { content: spec.content, hash });
        Ok(())
    }

    fn queue_plan(&mut self, set: u32) -> Result<Ended, RunnerError> {
        self.set(set)?;
        match &self.work.request.subject {
            WindowSubject::Plan => queue(&mut self.device, &self.sets[set as usize].steps),
            WindowSubject::Gemm(call) => self.queue_gemm(call, set),
            WindowSubject::Copy { from, to } => self.queue_copy(from, to, set),
        }
    }

    fn hash_outputs(&mut self, timer: &mut Timer, set: u32) -> Result<Ended, RunnerError> {
        let request = self.work.request;
        for (index, output) in request.outputs.iter().enumerate() {
            let buffer = self.set(set)?.bound.buffer(&output.name)?;
            let key = output_key(request.window.hash_key, index);
            timer.hash(&mut self.device, buffer, output.data.bytes, key)?;
        }
        Ok(None)
    }

    fn wait(&mut self) -> Result<Ended, RunnerError> {
        Ok(ended(self.device.synchronise()?))
    }

    /// Writes beside buffers, and inputs that are not what they were filled with.
    fn side_effects(&mut self, timer: &mut Timer) -> Result<Ended, RunnerError> {
        let request = self.work.request;
        if request.slack_bytes == 0
            && let Some(breach) = self.device.breaches()?.first()
        {
            return Ok(Some(RunEnd::OutOfBounds(breach.to_string())));
        }
        let inputs = request.contents.first().into_iter().flatten().enumerate();
        for (index, input) in inputs.filter(|(_, input)| !input.writable) {
            let key = request.window.hash_key;
            for set in &self.sets {
                let buffer = set.bound.buffer(&input.name)?;
                timer.hash(&mut self.device, buffer, input.data.bytes, key)?;
            }
            // What the sets hold is known by now, so one of them can hold each content once more.
            let first = self.set(0)?.bound.buffer(&input.name)?;
            for content in 0..request.contents.len() {
                self.fill_input(first, content, index)?;
                timer.hash(&mut self.device, first, input.data.bytes, key)?;
            }
            if let Some(end) = self.wait()? {
                return Ok(Some(end));
            }
            let of_sets = timer.hashes()?;
            let (of_sets, hashes) = of_sets.split_at(self.sets.len().min(of_sets.len()));
            if hashes.len() != request.contents.len()
                || !of_sets.iter().all(|hash| hashes.contains(hash))
            {
                let what = format!("the input `{}` was changed at the headline shape", input.name);
                return Ok(Some(RunEnd::ReadOnlyWrite(what)));
            }
        }
        Ok(None)
    }
}

/// Queues steps without waiting for them.
pub(crate) fn queue(
    device: &mut CudaDevice,
    steps: &[DeviceStep<'_>],
) -> Result<Ended, RunnerError> {
    let mode = LaunchMode { poison: Poison::Ones, reversed: false, sampled_blocks: None };
    for step in steps {
        match step {
            DeviceStep::Memset { buffer, byte } => device.fill_async(*buffer, *byte)?,
            DeviceStep::Kernel(kernel) => {
                if let Some(end) = device.enqueue(&kernel.on_device(&mode))? {
                    return Ok(ended(end));
                }
            }
        }
    }
    Ok(None)
}

/// True when calls write into their inputs, so that each one needs them filled anew.
fn updates_inputs(contents: &[Vec<InputTensor>]) -> bool {
    contents.iter().flatten().any(|input| input.writable)
}

fn ended(end: LaunchEnd) -> Ended {
    Some(run_end(end)).filter(|end| !matches!(end, RunEnd::Completed))
}

fn done(result: Result<(), DeviceError>) -> Result<Ended, RunnerError> {
    Ok(result.map(|()| None)?)
}

#[cfg(test)]
mod tests;
