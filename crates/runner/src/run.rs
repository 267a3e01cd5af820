//! The reference and candidate children: a resolved plan on given inputs, outputs copied out.

use std::collections::BTreeMap;

use device::execute::{
    Access, Buffer, Device, Fault, Image, KernelLaunch, LaunchEnd, Launched, LoadEnd,
};
use device::sim::SimDevice;
use pipeline::build::{EntryFacts, ParamFacts};
use pipeline::inputs::Poison;
use pipeline::launch::{Launch, ResolvedPlan, ResolvedStep, Value};
use pipeline::limits::{FINDINGS_MAX, MESSAGE_BYTES_MAX, capped};
use pipeline::plan::form::Initial;
use pipeline::report::Counters;
use sandbox::inside::Inside;
use sandbox::wire::{
    DeviceChoice, Noted, OutputTensor, Place, RunCase, RunEnd, RunReport, RunRequest, RunResult,
};

use crate::RunnerError;
use crate::bulk::{Maps, Rooms};
use crate::details::{self, counters, noted};
use crate::limits::{PRINTED_BYTES_MAX, SIMULATED_MEMORY_BYTES_MAX};
use crate::sample::{self, SamplePart};

pub(crate) fn serve(inside: &mut Inside) -> Result<RunReport, RunnerError> {
    let request: RunRequest = inside.read_request()?;
    let inputs = request.runs.iter().flat_map(|run| run.inputs.iter().map(|input| input.data));
    let initial =
        request.runs.iter().flat_map(|run| run.outputs.iter().filter_map(|output| output.initial));
    let maps = Maps::read(inside, inputs.chain(initial).chain([request.ptx, request.cubin]))?;
    let ptx = std::str::from_utf8(maps.get(request.ptx)?)
        .map_err(|error| RunnerError::Request(format!("PTX: {error}")))?;
    let image = Image { ptx, cubin: maps.get(request.cubin)? };
    let mut rooms = Rooms::default();
    let mut report = RunReport { runs: Vec::new(), sample: None };
    for run in &request.runs {
        let mut session = Session::new(&request)?;
        let result =
            session.run(run, &image, &maps, |slice, bytes| rooms.write(inside, slice, bytes))?;
        let completed = result.end == RunEnd::Completed;
        report.runs.push(result);
        if !completed {
            return Ok(report);
        }
    }
    if let Some(case) = &request.sample {
        report.sample = Some(sample::count(&mut Session::new(&request)?, case, &image)?);
    }
    Ok(report)
}

/// Bytes of a DRAM sector.
const SECTOR_BYTES: u64 = 32;

/// A fresh device with the names that its launches need: no state passes from run to run.
pub(crate) struct Session<'a> {
    pub(crate) device: Box<dyn Device>,
    lowered_names: &'a [(String, String)],
    entries: &'a [EntryFacts],
    pub(crate) buffers: BTreeMap<String, Buffer>,
    pub(crate) counters: Counters,
    reversed: bool,
    /// Kernels that were launched, the last one included.
    pub(crate) launches: u64,
    findings: Vec<Noted>,
    detailed: bool,
    place: Option<Place>,
    printed: String,
}

impl<'a> Session<'a> {
    fn new(request: &'a RunRequest) -> Result<Self, RunnerError> {
        let device: Box<dyn Device> = match &request.device {
            DeviceChoice::Simulator { arch, launch_budget } => {
                Box::new(SimDevice::new(arch, *launch_budget)?)
            }
        };
        Ok(Self {
            device,
            lowered_names: &request.lowered_names,
            entries: &request.entries,
            buffers: BTreeMap::new(),
            counters: Counters::default(),
            reversed: false,
            launches: 0,
            findings: Vec::new(),
            detailed: request.detailed,
            place: None,
            printed: String::new(),
        })
    }

    fn run(
        &mut self,
        run: &RunCase,
        image: &Image<'_>,
        maps: &Maps,
        mut write: impl FnMut(sandbox::wire::Slice, &[u8]) -> Result<(), RunnerError>,
    ) -> Result<RunResult, RunnerError> {
        if let Some(end) = self.load(image, &run.plan)? {
            return Ok(self.result(end));
        }
        let inputs = run.inputs.iter().map(|input| input.data.bytes);
        let outputs = run.outputs.iter().map(|output| output.data.bytes);
        if let Some(end) = memory_end(inputs.chain(outputs), &run.plan) {
            return Ok(self.result(end));
        }
        for input in &run.inputs {
            let buffer = self.allocate(&input.name, input.data.bytes, access(input.writable))?;
            self.device.upload(buffer, 0, maps.get(input.data)?)?;
        }
        for output in &run.outputs {
            let buffer = self.allocate(&output.name, output.data.bytes, Access::ReadWrite)?;
            self.fill_output(buffer, output, run.poison, maps)?;
        }
        self.make_workspaces(&run.plan, run.poison)?;
        self.reversed = run.reversed;
        let end = self.perform(&run.plan, run.poison, &mut |_| None)?;
        if end == RunEnd::Completed {
            for output in &run.outputs {
                let mut content = vec![0; output.data.bytes as usize];
                self.device.download(self.buffers[&output.name], &mut content)?;
                write(output.data, &content)?;
            }
        }
        Ok(self.result(end))
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
        let mut content = vec![0; output.data.bytes as usize];
        poison.fill(output.dtype, &mut content);
        Ok(self.device.upload(buffer, 0, &content)?)
    }

    /// Loads the module; gives an end when the device cannot run it.
    pub(crate) fn load(
        &mut self,
        image: &Image<'_>,
        plan: &ResolvedPlan,
    ) -> Result<Option<RunEnd>, RunnerError> {
        let mut entries = Vec::new();
        for step in plan.prepare.iter().chain(&plan.steps) {
            if let ResolvedStep::Kernel(launch) = step {
                entries.push(self.entry_name(&launch.kernel)?);
            }
        }
        Ok(match self.device.load(image, &entries)? {
            LoadEnd::Loaded => None,
            LoadEnd::Unsupported { what, site } => {
                let site = site.filter(|_| self.detailed);
                self.place = site.map(|site| details::place(&site, [1; 3], [1; 3]));
                Some(RunEnd::Unsupported(capped(&what, MESSAGE_BYTES_MAX)))
            }
        })
    }

    pub(crate) fn allocate(
        &mut self,
        name: &str,
        bytes: u64,
        access: Access,
    ) -> Result<Buffer, RunnerError> {
        let buffer = self.device.allocate(name, bytes, access)?;
        self.buffers.insert(name.to_owned(), buffer);
        Ok(buffer)
    }

    /// Workspaces hold zero where the plan asks for it and poison otherwise.
    pub(crate) fn make_workspaces(
        &mut self,
        plan: &ResolvedPlan,
        poison: Poison,
    ) -> Result<(), RunnerError> {
        for workspace in &plan.workspaces {
            let buffer = self.allocate(&workspace.name, workspace.bytes, Access::ReadWrite)?;
            match workspace.init {
                Initial::Zero => self.device.fill(buffer, 0)?,
                Initial::None => self.device.fill(buffer, shared_poison(poison))?,
            }
        }
        Ok(())
    }

    /// Performs `prepare` and the steps; `sampled` picks the parts of a launch that are run.
    pub(crate) fn perform(
        &mut self,
        plan: &ResolvedPlan,
        poison: Poison,
        sampled: &mut dyn FnMut(&Launch) -> Option<Vec<SamplePart>>,
    ) -> Result<RunEnd, RunnerError> {
        for step in plan.prepare.iter().chain(&plan.steps) {
            let end = match step {
                ResolvedStep::Memset { buffer, byte } => {
                    let buffer = self.buffer(buffer)?;
                    self.device.fill(buffer, *byte)?;
                    self.counters.requested_bytes += buffer.bytes as f64;
                    self.counters.store_sectors += (buffer.bytes / SECTOR_BYTES) as f64;
                    RunEnd::Completed
                }
                ResolvedStep::Kernel(launch) => match sampled(launch) {
                    None => self.launch(launch, poison, None)?,
                    Some(parts) => self.launch_parts(launch, poison, &parts)?,
                },
            };
            if end != RunEnd::Completed {
                return Ok(end);
            }
        }
        Ok(RunEnd::Completed)
    }

    /// Runs parts of a launch one after the other, each counted for what it stands for.
    fn launch_parts(
        &mut self,
        launch: &Launch,
        poison: Poison,
        parts: &[SamplePart],
    ) -> Result<RunEnd, RunnerError> {
        let launches = self.launches + 1;
        for part in parts {
            let before = std::mem::take(&mut self.counters);
            let end = self.launch(launch, poison, Some(&part.blocks))?;
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
        launch: &Launch,
        poison: Poison,
        sampled_blocks: Option<&[u64]>,
    ) -> Result<RunEnd, RunnerError> {
        if let Some(Value::TensorMap(name)) =
            launch.args.iter().find(|value| matches!(value, Value::TensorMap(_)))
        {
            return Ok(RunEnd::Unsupported(format!("the tensor map `{name}`")));
        }
        let entry = self.entry_name(&launch.kernel)?;
        let facts = self.entries.iter().find(|facts| facts.name == entry);
        let facts = facts.ok_or_else(|| RunnerError::Request(format!("no entry `{entry}`")))?;
        let pairs = launch.args.iter().zip(&facts.params);
        let args = pairs.map(|(value, param)| self.encode(value, param));
        let args = args.collect::<Result<Vec<_>, _>>()?;
        self.launches += 1;
        let launched = self.device.launch(&KernelLaunch {
            entry,
            grid: launch.grid,
            block: launch.block,
            cluster: launch.cluster,
            shared_bytes: launch.shared_bytes,
            cooperative: launch.cooperative,
            pdl: launch.pdl,
            args: &args,
            shared_poison: shared_poison(poison),
            reversed: self.reversed,
            sampled_blocks,
        })?;
        Ok(self.absorb(launched, launch))
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

    fn encode(&self, value: &Value, param: &ParamFacts) -> Result<Vec<u8>, RunnerError> {
        let width = param.width as usize;
        let bits = match value {
            Value::Buffer(name) => self.buffer(name)?.address,
            Value::Integer(integer) => integer_bits(*integer, param)?,
            Value::Float(bits) if width == 4 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            Value::Float(bits) => *bits,
            Value::TensorMap(name) => {
                return Err(RunnerError::Request(format!("tensor map `{name}` as an argument")));
            }
        };
        let bytes = bits.to_le_bytes();
        let encoded = bytes.get(..width).map(<[u8]>::to_vec);
        encoded.ok_or_else(|| RunnerError::Request(format!("a parameter of {width} bytes")))
    }

    fn buffer(&self, name: &str) -> Result<Buffer, RunnerError> {
        let buffer = self.buffers.get(name).copied();
        buffer.ok_or_else(|| RunnerError::Request(format!("no buffer `{name}`")))
    }

    fn entry_name(&self, kernel: &str) -> Result<&'a str, RunnerError> {
        let names = self.lowered_names.iter();
        let mut found = names.filter(|(expression, _)| expression == kernel);
        let entry = found.next().map(|(_, entry)| entry.as_str());
        entry.ok_or_else(|| RunnerError::Request(format!("no entry for `{kernel}`")))
    }

    fn result(&mut self, end: RunEnd) -> RunResult {
        RunResult {
            end,
            counters: Some(self.counters),
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

/// The value was checked already; what does not fit is never cut.
fn integer_bits(integer: i64, param: &ParamFacts) -> Result<u64, RunnerError> {
    let low = || -(1i64 << (8 * param.width - 1));
    let fits = param.width >= 8 || (low()..1i64 << (8 * param.width)).contains(&integer);
    let bits = fits.then_some(integer as u64);
    bits.ok_or_else(|| RunnerError::Request(format!("{integer} in {} bytes", param.width)))
}

/// Shared memory and workspaces take one byte: a NaN and a negative integer, or a large float and a
/// large integer.
fn shared_poison(poison: Poison) -> u8 {
    match poison {
        Poison::Ones => 0xff,
        Poison::Values(_) => 0x7b,
    }
}

fn run_end(end: LaunchEnd) -> RunEnd {
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
