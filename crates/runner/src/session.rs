//! One run of a plan on a fresh device: buffers filled, steps performed, outputs copied out.
//!
//! A run may also be another call on the device of the run before. On a GPU, what an earlier run
//! left in shared memory is still there; everything else is fresh.

use device::execute::{
    Access, Buffer, Device, DeviceError, Fault, Image, LaunchEnd, Launched, LoadEnd,
};
use pipeline::inputs::Poison;
use pipeline::launch::{Launch, ResolvedPlan, ResolvedStep};
use pipeline::limits::{FINDINGS_MAX, MESSAGE_BYTES_MAX, capped};
use pipeline::plan::form::Lifetime;
use pipeline::report::Counters;
use sandbox::inside::Inside;
use sandbox::wire::{Noted, OutputTensor, Place, RunCase, RunEnd, RunRequest, RunResult};

use crate::RunnerError;
use crate::bulk::{Maps, Rooms};
use crate::details::{self, counters, noted};
use crate::limits::{COPY_PART_BYTES, PRINTED_BYTES_MAX, SIMULATED_MEMORY_BYTES_MAX};
use crate::sample::SamplePart;
use crate::steps::{Bound, DeviceStep, KernelStep, LaunchMode, Names, poison_byte};

/// Bytes of a DRAM sector.
const SECTOR_BYTES: u64 = 32;

/// A fresh device with what its launches need.
pub(crate) struct Session<'a, D: Device> {
    pub(crate) device: D,
    names: Names<'a>,
    pub(crate) bound: Bound,
    pub(crate) counters: Counters,
    reversed: bool,
    /// Kernels that were launched, the last one included.
    pub(crate) launches: u64,
    findings: Vec<Noted>,
    detailed: bool,
    place: Option<Place>,
    printed: String,
}

impl<'a, D: Device> Session<'a, D> {
    pub(crate) fn new(device: D, request: &'a RunRequest) -> Self {
        Self {
            device,
            names: Names { lowered: &request.lowered_names, entries: &request.entries },
            bound: Bound::default(),
            counters: Counters::default(),
            reversed: false,
            launches: 0,
            findings: Vec::new(),
            detailed: request.detailed,
            place: None,
            printed: String::new(),
        }
    }

    /// Runs a case; outputs go to their rooms when it completed.
    pub(crate) fn run(
        &mut self,
        inside: &Inside,
        run: &RunCase,
        image: &Image<'_>,
        maps: &Maps,
        rooms: &mut Rooms,
    ) -> Result<RunResult, RunnerError> {
        let end = self.perform_run(run, image, maps)?;
        if end == RunEnd::Completed {
            for output in &run.outputs {
                let room = rooms.room(inside, output.data)?;
                self.device.download(self.bound.buffer(&output.name)?, room)?;
            }
        }
        Ok(self.result(end))
    }

    /// Runs a case; outputs stay on the device.
    pub(crate) fn perform_run(
        &mut self,
        run: &RunCase,
        image: &Image<'_>,
        maps: &Maps,
    ) -> Result<RunEnd, RunnerError> {
        let end = match self.prepared(run, image, maps)? {
            Some(end) => end,
            None => self.perform(&run.plan.steps, run.poison, &mut |_| None)?,
        };
        if end == RunEnd::Completed { self.side_effects(run, maps) } else { Ok(end) }
    }

    /// Loads the module and fills every buffer; gives an end where that is not possible.
    fn prepared(
        &mut self,
        run: &RunCase,
        image: &Image<'_>,
        maps: &Maps,
    ) -> Result<Option<RunEnd>, RunnerError> {
        self.reversed = run.reversed;
        if !run.continues {
            if let Some(end) = self.made(run, image)? {
                return Ok(Some(end));
            }
        } else if run.refills {
            self.empty(run)?;
        }
        for output in run.outputs.iter().filter(|_| run.refills || !run.continues) {
            self.fill_output(self.bound.buffer(&output.name)?, output, run.poison, maps)?;
        }
        // What is prepared must not depend on more than weights, so nothing else is there yet.
        self.fill_inputs(run, maps, true)?;
        let prepared = self.perform(&run.plan.prepare, run.poison, &mut |_| None)?;
        self.fill_inputs(run, maps, false)?;
        Ok(Some(prepared).filter(|end| *end != RunEnd::Completed))
    }

    /// Loads the module and makes every buffer.
    fn made(&mut self, run: &RunCase, image: &Image<'_>) -> Result<Option<RunEnd>, RunnerError> {
        if let Some(end) = self.load(image, &run.plan)? {
            return Ok(Some(end));
        }
        let inputs = run.inputs.iter().map(|input| input.data.bytes);
        let outputs = run.outputs.iter().map(|output| output.data.bytes);
        if self.device.is_simulated()
            && let Some(end) = memory_end(inputs.chain(outputs), &run.plan)
        {
            return Ok(Some(end));
        }
        for input in &run.inputs {
            let bytes = input.data.bytes + run.slack_bytes;
            self.allocate(&input.name, bytes, access(input.writable))?;
        }
        for output in &run.outputs {
            let bytes = output.data.bytes + run.slack_bytes;
            self.allocate(&output.name, bytes, Access::ReadWrite)?;
        }
        self.make_scratch(&run.plan, run.poison)
    }

    /// Overwrites what the call before left in inputs and workspaces.
    fn empty(&mut self, run: &RunCase) -> Result<(), RunnerError> {
        let inputs = run.inputs.iter().filter(|input| !input.weight);
        for input in inputs {
            self.device.fill(self.bound.buffer(&input.name)?, poison_byte(run.poison))?;
        }
        let bytes = self.bound.workspace_bytes(&run.plan, run.poison, &Lifetime::Prepared)?;
        for (buffer, byte) in bytes {
            self.device.fill(buffer, byte)?;
        }
        Ok(())
    }

    /// Fills the weights, or everything else.
    fn fill_inputs(
        &mut self,
        run: &RunCase,
        maps: &Maps,
        weights: bool,
    ) -> Result<(), RunnerError> {
        for input in run.inputs.iter().filter(|input| input.weight == weights) {
            let buffer = self.bound.buffer(&input.name)?;
            self.device.upload(buffer, 0, maps.get(input.data)?)?;
        }
        Ok(())
    }

    /// Makes workspaces and tensor maps; gives an end where the plan asks for what cannot be had.
    pub(crate) fn make_scratch(
        &mut self,
        plan: &ResolvedPlan,
        poison: Poison,
    ) -> Result<Option<RunEnd>, RunnerError> {
        match self.bound.make_workspaces(&mut self.device, plan, poison) {
            Err(RunnerError::Device(error @ DeviceError::Allocate { .. })) => {
                Ok(Some(RunEnd::Refused(capped(&error.to_string(), MESSAGE_BYTES_MAX))))
            }
            Err(error) => Err(error),
            Ok(()) => self.bound.make_maps(&mut self.device, plan),
        }
    }

    fn fill_output(
        &mut self,
        buffer: Buffer,
        output: &OutputTensor,
        poison: Poison,
        maps: &Maps,
    ) -> Result<(), RunnerError> {
        if let Some(initial) = output.initial {
            return Ok(self.device.upload(buffer, 0, maps.get(initial)?)?);
        }
        if poison == Poison::Ones {
            return Ok(self.device.fill(buffer, 0xff)?);
        }
        let mut content = vec![0; output.data.bytes as usize];
        poison.fill(output.dtype, &mut content);
        Ok(self.device.upload(buffer, 0, &content)?)
    }

    /// What a device that cannot forbid it must look for: changed inputs, writes beside buffers.
    fn side_effects(&mut self, run: &RunCase, maps: &Maps) -> Result<RunEnd, RunnerError> {
        if run.slack_bytes == 0
            && let Some(breach) = self.device.breaches()?.first()
        {
            return Ok(RunEnd::OutOfBounds(breach.to_string()));
        }
        for input in run.inputs.iter().filter(|input| !input.writable) {
            let buffer = self.bound.buffer(&input.name)?;
            if let Some(at) = self.first_difference(buffer, maps.get(input.data)?)? {
                let name = &input.name;
                let what = format!("the input `{name}` was changed, first at byte {at}");
                return Ok(RunEnd::ReadOnlyWrite(what));
            }
        }
        Ok(RunEnd::Completed)
    }

    /// The first byte of a buffer that is not as expected; a large buffer is looked at in parts.
    fn first_difference(
        &self,
        buffer: Buffer,
        expected: &[u8],
    ) -> Result<Option<usize>, RunnerError> {
        let mut found = vec![0; expected.len().min(COPY_PART_BYTES)];
        let mut start = 0;
        for expected in expected.chunks(COPY_PART_BYTES) {
            let found = &mut found[..expected.len()];
            self.device.download_part(buffer, start as u64, found)?;
            if found != expected {
                let at = found.iter().zip(expected).position(|(a, b)| a != b);
                return Ok(at.map(|at| start + at));
            }
            start += expected.len();
        }
        Ok(None)
    }

    /// Loads the module; gives an end when the device cannot run it.
    pub(crate) fn load(
        &mut self,
        image: &Image<'_>,
        plan: &ResolvedPlan,
    ) -> Result<Option<RunEnd>, RunnerError> {
        let entries = self.names.entries_of(plan)?;
        Ok(match self.device.load(image, &entries)? {
            LoadEnd::Loaded => None,
            LoadEnd::Unsupported { what, site } => {
                let site = site.filter(|_| self.detailed);
                self.place = site.map(|site| details::place(&site, [1; 3], [1; 3]));
                Some(RunEnd::Unsupported(capped(&what, MESSAGE_BYTES_MAX)))
            }
        })
    }

    /// Makes a buffer of the task; a device without room for it cannot judge the case.
    pub(crate) fn allocate(
        &mut self,
        name: &str,
        bytes: u64,
        access: Access,
    ) -> Result<Buffer, RunnerError> {
        let made = self.bound.allocate(&mut self.device, name, bytes, access);
        made.map_err(|error| match error {
            RunnerError::Device(error @ DeviceError::Allocate { .. }) => {
                RunnerError::NotAvailable(error.to_string())
            }
            other => other,
        })
    }

    /// Performs steps; `sampled` picks the parts of a launch that are run.
    pub(crate) fn perform(
        &mut self,
        steps: &[ResolvedStep],
        poison: Poison,
        sampled: &mut dyn FnMut(&Launch) -> Option<Vec<SamplePart>>,
    ) -> Result<RunEnd, RunnerError> {
        for step in steps {
            let end = self.step(step, poison, sampled)?;
            if end != RunEnd::Completed {
                return Ok(end);
            }
        }
        Ok(RunEnd::Completed)
    }

    fn step(
        &mut self,
        step: &ResolvedStep,
        poison: Poison,
        sampled: &mut dyn FnMut(&Launch) -> Option<Vec<SamplePart>>,
    ) -> Result<RunEnd, RunnerError> {
        match self.names.step(step, &self.bound)? {
            DeviceStep::Memset { buffer, byte } => {
                self.device.fill(buffer, byte)?;
                self.counters.requested_bytes += buffer.bytes as f64;
                self.counters.store_sectors += (buffer.bytes / SECTOR_BYTES) as f64;
                Ok(RunEnd::Completed)
            }
            DeviceStep::Kernel(kernel) => match sampled(kernel.launch) {
                None => self.launch(&kernel, poison, None),
                Some(parts) => self.launch_parts(&kernel, poison, &parts),
            },
        }
    }

    /// Runs parts of a launch one after the other, each counted for what it stands for.
    fn launch_parts(
        &mut self,
        kernel: &KernelStep<'_>,
        poison: Poison,
        parts: &[SamplePart],
    ) -> Result<RunEnd, RunnerError> {
        let launches = self.launches + 1;
        for part in parts {
            let before = std::mem::take(&mut self.counters);
            let end = self.launch(kernel, poison, Some(&part.blocks))?;
            self.launches = launches;
            self.counters.scale(part.weight);
            self.counters.add(&before);
            if end != RunEnd::Completed {
                return Ok(end);
            }
        }
        Ok(RunEnd::Completed)
    }

    fn launch(
        &mut self,
        kernel: &KernelStep<'_>,
        poison: Poison,
        sampled_blocks: Option<&[u64]>,
    ) -> Result<RunEnd, RunnerError> {
        self.launches += 1;
        let mode = LaunchMode { poison, reversed: self.reversed, sampled_blocks };
        let launched = self.device.launch(&kernel.on_device(&mode))?;
        Ok(self.absorb(launched, kernel.launch))
    }

    fn absorb(&mut self, launched: Launched, launch: &Launch) -> RunEnd {
        if let Some(counts) = launched.counters {
            self.counters.add(&counters(&counts));
        }
        let room = FINDINGS_MAX.saturating_sub(self.findings.len());
        let detailed = self.detailed;
        let remarks = launched.remarks.into_iter().take(room);
        self.findings.extend(remarks.map(|remark| noted(remark, launch, detailed)));
        if detailed {
            self.printed.push_str(&launched.printed);
            if let LaunchEnd::Faulted { site: Some(site), .. } = &launched.end {
                self.place = Some(details::place(site, launch.grid, launch.block));
            }
        }
        run_end(launched.end)
    }

    pub(crate) fn result(&mut self, end: RunEnd) -> RunResult {
        RunResult {
            end,
            counters: self.device.is_simulated().then_some(self.counters),
            findings: std::mem::take(&mut self.findings),
            place: self.place.take(),
            printed: capped(&self.printed, PRINTED_BYTES_MAX),
        }
    }
}

/// How device code may use an input.
pub(crate) fn access(writable: bool) -> Access {
    if writable { Access::ReadWrite } else { Access::ReadOnly }
}

/// An end when the tensors and workspaces need more than a simulated device holds here.
pub(crate) fn memory_end(
    tensors: impl Iterator<Item = u64>,
    plan: &ResolvedPlan,
) -> Option<RunEnd> {
    let workspaces = plan.workspaces.iter().map(|workspace| workspace.bytes);
    let total = tensors.chain(workspaces).fold(0u64, u64::saturating_add);
    (total > SIMULATED_MEMORY_BYTES_MAX).then(|| {
        RunEnd::Unsupported(format!(
            "{total} bytes of device memory; a simulated device has {SIMULATED_MEMORY_BYTES_MAX}"
        ))
    })
}

/// The end of a launch as the report has it.
pub(crate) fn run_end(end: LaunchEnd) -> RunEnd {
    let short = |message: String| capped(&message, MESSAGE_BYTES_MAX);
    match end {
        LaunchEnd::Completed => RunEnd::Completed,
        LaunchEnd::Refused(why) => RunEnd::Refused(short(why)),
        LaunchEnd::Unsupported(what) => RunEnd::Unsupported(short(what)),
        LaunchEnd::Faulted { fault, message, .. } => match fault {
            Fault::OutOfBounds => RunEnd::OutOfBounds(short(message)),
            Fault::ReadOnlyWrite => RunEnd::ReadOnlyWrite(short(message)),
            Fault::Hang => RunEnd::Hang(short(message)),
            Fault::Crash => RunEnd::Crash(short(message)),
        },
    }
}
