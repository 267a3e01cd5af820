//! The reference and candidate children: every case in turn, each on a fresh device; then the
//! headline is counted (on the simulator) or timed (on a GPU).

use std::rc::Rc;
use std::time::{Duration, Instant};

use device::cuda::{self, Context, CudaDevice, Placement};
use device::execute::{Device, DeviceError, Image};
use device::sim::SimDevice;
use pipeline::report::PartCost;
use sandbox::inside::Inside;
use sandbox::wire::{DeviceChoice, RunEnd, RunReport, RunRequest, Slice};

use crate::RunnerError;
use crate::bulk::{Maps, Rooms};
use crate::sample;
use crate::session::Session;
use crate::tiles;
use crate::window::{self, Before};

pub(crate) fn serve(inside: &mut Inside) -> Result<RunReport, RunnerError> {
    let request: RunRequest = inside.read_request()?;
    let maps = Maps::read(inside, slices(&request))?;
    let ptx = std::str::from_utf8(maps.get(request.ptx)?)
        .map_err(|error| RunnerError::Request(format!("PTX: {error}")))?;
    let image = Image { ptx, cubin: maps.get(request.cubin)? };
    let work = Work { inside, request: &request, maps: &maps, image };
    match &request.device {
        DeviceChoice::Simulator { arch, launch_budget } => {
            work.simulated(&|| SimDevice::new(arch, *launch_budget))
        }
        DeviceChoice::Cuda { uuid, launch_deadline_ms } => {
            work.on_gpu(uuid, Duration::from_millis(*launch_deadline_ms))
        }
    }
}

/// Everything that is read from memfds.
fn slices(request: &RunRequest) -> impl Iterator<Item = Slice> {
    let inputs = request.runs.iter().flat_map(|run| run.inputs.iter().map(|input| input.data));
    let initial =
        request.runs.iter().flat_map(|run| run.outputs.iter().filter_map(|output| output.initial));
    let window = request.window.iter().flat_map(|window| {
        let contents = window.contents.iter().flatten().map(|input| input.data);
        let initial = window.outputs.iter().filter_map(|output| output.initial);
        contents.chain(initial).chain([window.harness])
    });
    let tiles = request.tiles.iter().flat_map(|tiles| tiles.items.iter().map(|item| item.got));
    inputs.chain(initial).chain(window).chain(tiles).chain([request.ptx, request.cubin])
}

struct Work<'a> {
    inside: &'a Inside,
    request: &'a RunRequest,
    maps: &'a Maps,
    image: Image<'a>,
}

impl Work<'_> {
    fn simulated(
        &self,
        make: &dyn Fn() -> Result<SimDevice, DeviceError>,
    ) -> Result<RunReport, RunnerError> {
        let mut rooms = Rooms::default();
        let mut report = self.cases(&mut rooms, &mut |_| Ok(make()?))?;
        if let Some(case) = &self.request.sample
            && all_completed(&report)
        {
            let mut session = Session::new(make()?, self.request);
            report.sample = Some(sample::count(&mut session, case, &self.image)?);
        }
        Ok(report)
    }

    fn on_gpu(&self, uuid: &str, deadline: Duration) -> Result<RunReport, RunnerError> {
        // Without a context of its own yet, this process is not among those that it counts.
        let before = Before { uuid, state: window::gpu_state(uuid, false) };
        let started = Instant::now();
        let context = open_gpu(uuid)?;
        let opened = cost("context", started);
        let mut rooms = Rooms::default();
        let started = Instant::now();
        let mut report = self.cases(&mut rooms, &mut |reversed| {
            // Reads and writes past either end of a buffer must meet unmapped memory.
            let placement = if reversed { Placement::Lower } else { Placement::Upper };
            Ok(CudaDevice::new(&context, deadline, placement)?)
        })?;
        report.cost = vec![opened, cost("cases", started)];
        if let Some(request) = &self.request.window
            && all_completed(&report)
        {
            let device = CudaDevice::new(&context, deadline, Placement::Upper)?;
            let work = window::Work {
                inside: self.inside,
                names: crate::steps::Names {
                    lowered: &self.request.lowered_names,
                    entries: &self.request.entries,
                },
                image: self.image,
                maps: self.maps,
                request,
                before,
            };
            report.window = Some(window::time(&work, &context, device, &mut rooms)?);
        }
        // The process ends at once; tidying up would take longer than the driver's own clean-up.
        std::mem::forget(context);
        Ok(report)
    }

    fn cases<D: Device>(
        &self,
        rooms: &mut Rooms,
        make: &mut dyn FnMut(bool) -> Result<D, RunnerError>,
    ) -> Result<RunReport, RunnerError> {
        let mut report = RunReport {
            runs: Vec::new(),
            sample: None,
            window: None,
            tiles: None,
            cost: Vec::new(),
        };
        let mut session: Option<Session<'_, D>> = None;
        for run in &self.request.runs {
            let mut of_run = match session.take().filter(|_| run.continues) {
                Some(before) => before,
                None if run.continues => return Err(RunnerError::Request(NOTHING_BEFORE.into())),
                None => Session::new(make(run.reversed)?, self.request),
            };
            let result = match &self.request.tiles {
                None => of_run.run(self.inside, run, &self.image, self.maps, rooms)?,
                Some(tiles) => {
                    let end = of_run.perform_run(run, &self.image, self.maps)?;
                    if end == RunEnd::Completed {
                        report.tiles = Some(tiles::compare(&of_run, tiles, self.maps)?);
                    }
                    of_run.result(end)
                }
            };
            let completed = result.end == RunEnd::Completed;
            report.runs.push(result);
            if !completed {
                // What a hung or faulted GPU holds cannot be freed, and waiting for it never ends.
                std::mem::forget(of_run);
                return Ok(report);
            }
            session = Some(of_run);
        }
        Ok(report)
    }
}

/// What is wrong with a request whose first run continues.
const NOTHING_BEFORE: &str = "a run that continues has none before it";

fn all_completed(report: &RunReport) -> bool {
    report.runs.iter().all(|run| run.end == RunEnd::Completed)
}

/// The GPU that this process may see, which must be the one that was asked for.
pub(crate) fn open_gpu(uuid: &str) -> Result<Rc<Context>, RunnerError> {
    let unavailable = |error: cuda::CudaError| RunnerError::NotAvailable(error.to_string());
    let gpus = cuda::list().map_err(unavailable)?;
    let found = gpus.iter().find(|gpu| gpu.uuid == uuid);
    let gpu = found.ok_or_else(|| RunnerError::NotAvailable(format!("there is no GPU {uuid}")))?;
    Context::open(gpu.ordinal).map_err(unavailable)
}

/// The time since `started` as a part's cost.
pub(crate) fn cost(part: &str, started: Instant) -> PartCost {
    PartCost { part: part.to_owned(), ms: 1e3 * started.elapsed().as_secs_f64() }
}
