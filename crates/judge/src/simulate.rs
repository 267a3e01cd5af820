//! Any kernel on given inputs, without a task: what it did, and what is suspicious about that.
//!
//! The launch runs twice, with other garbage in the outputs and with warps and blocks in the
//! opposite order; where the results differ, a third run tells which of the two was the reason.

pub(crate) mod outputs;

use std::time::Duration;

use pipeline::dtype::Dtype;
use pipeline::inputs::Poison;
use pipeline::launch::ResolvedPlan;
use pipeline::report::Counters;
use sandbox::wire::{
    DeviceChoice, InputTensor, Noted, OutputTensor, Place, RunCase, RunEnd, RunReport, RunRequest,
    RunResult, Slice,
};
use sandbox::{CancelFlag, ChildKind, ChildLimits, Memfd};
use serde::Serialize;

use crate::cases::Tensors;
use crate::children::ChildEnd;
use crate::limits::CANDIDATE_LIMITS;
use crate::reference::{EMPTY, image_memfds};
use crate::{Build, Judge, JudgeError};
use outputs::{Outputs, SimulatedOutput};

/// The launches to simulate, all of them legal for the build.
#[derive(Clone, Copy, Debug)]
pub struct Simulation<'a> {
    /// A build that compiled.
    pub build: &'a Build,
    pub plan: &'a ResolvedPlan,
    /// Every buffer that the plan names, workspaces apart.
    pub tensors: &'a [Tensor],
    /// Warp instructions that one launch may execute.
    pub launch_budget: u64,
    /// Wall time for both runs together.
    pub deadline: Duration,
}

/// One buffer.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    pub name: String,
    pub dtype: Dtype,
    pub elements: u64,
    pub content: Content,
}

/// What a buffer holds at first, and whether kernels may write it.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// Values that kernels only read.
    Input(Vec<u8>),
    /// Values that kernels read and write.
    Updated(Vec<u8>),
    /// Garbage, other in each run; kernels are to write all of it.
    Output,
}

/// What a simulation came to.
#[derive(Clone, Debug, Serialize)]
pub struct SimulationReport {
    /// How the run ended that ended worst.
    pub end: RunEnd,
    /// True when the fault came only in the second run: with other garbage, in the opposite order.
    pub only_in_second_run: bool,
    /// Where the fault arose.
    pub place: Option<Place>,
    /// Counts of the first run.
    pub counters: Option<Counters>,
    pub findings: Vec<Noted>,
    /// What the first run printed.
    pub printed: String,
    /// Empty unless both runs completed.
    pub outputs: Vec<SimulatedOutput>,
}

/// One report for each run, or the end of a child that gave none.
type Reports = Result<Vec<RunResult>, RunEnd>;

/// One way to run the launches: garbage and order.
#[derive(Clone, Copy)]
struct Variant {
    poison: Poison,
    reversed: bool,
}

const FIRST: Variant = Variant { poison: Poison::Ones, reversed: false };
const SECOND: Variant = Variant { poison: Poison::Values(1), reversed: true };
/// The garbage of the second run in the order of the first.
const THIRD: Variant = Variant { poison: Poison::Values(1), reversed: false };

impl Judge {
    /// Runs the launches in a confined child, two or three times.
    ///
    /// # Errors
    /// A broken child or machine; never the kernel.
    pub fn simulate(
        &self,
        simulation: &Simulation<'_>,
        cancel: &CancelFlag,
    ) -> Result<SimulationReport, JudgeError> {
        let given = given_tensors(simulation.tensors)?;
        let (runs, results) = self.run_variants(simulation, &given, &[FIRST, SECOND], cancel)?;
        let mut runs = match runs {
            Ok(runs) => runs.into_iter(),
            Err(end) => return Ok(ended(end)),
        };
        let (Some(first), second) = (runs.next(), runs.next()) else {
            return Err(broken("it left out the first run".to_owned()));
        };
        let mut report = report_of(first, second);
        if report.end == RunEnd::Completed {
            let maps = results.iter().map(Outputs::map).collect::<Result<Vec<_>, _>>()?;
            if let [first, second] = &maps[..] {
                let third = match outputs::any_difference(simulation.tensors, first, second) {
                    true => self.third_run(simulation, &given, cancel)?,
                    false => None,
                };
                report.outputs =
                    outputs::compare(simulation.tensors, first, second, third.as_ref());
            }
        }
        Ok(report)
    }

    fn third_run(
        &self,
        simulation: &Simulation<'_>,
        given: &Tensors,
        cancel: &CancelFlag,
    ) -> Result<Option<outputs::Mapped>, JudgeError> {
        let (runs, results) = self.run_variants(simulation, given, &[THIRD], cancel)?;
        let completed = runs.is_ok_and(|runs| runs.iter().all(|r| r.end == RunEnd::Completed));
        results.first().filter(|_| completed).map(Outputs::map).transpose()
    }

    /// Runs variants one after the other in one child; an end when it gave no report.
    fn run_variants(
        &self,
        simulation: &Simulation<'_>,
        given: &Tensors,
        variants: &[Variant],
        cancel: &CancelFlag,
    ) -> Result<(Reports, Vec<Outputs>), JudgeError> {
        let build = simulation.build;
        let facts = build.facts.as_ref().ok_or_else(|| broken("there is no build".to_owned()))?;
        let results = variants.iter().map(|_| Outputs::room(simulation.tensors));
        let results = results.collect::<Result<Vec<_>, _>>()?;
        let numbered = variants.iter().zip(3..);
        let request = RunRequest {
            device: DeviceChoice::Simulator {
                arch: self.config.device.arch.clone(),
                launch_budget: simulation.launch_budget,
            },
            ptx: Slice { bulk: 0, offset: 0, bytes: build.ptx.len() as u64 },
            cubin: Slice { bulk: 1, offset: 0, bytes: build.cubin.len() as u64 },
            lowered_names: facts.lowered_names.clone(),
            entries: facts.entries.clone(),
            runs: numbered
                .zip(&results)
                .map(|((variant, bulk), outputs)| {
                    run_case(simulation, *variant, given, outputs, bulk)
                })
                .collect(),
            sample: None,
            window: None,
            tiles: None,
            detailed: true,
        };
        let image = image_memfds(build)?;
        let mut bulk: Vec<&Memfd> = image.iter().chain([&given.memfd]).collect();
        bulk.extend(results.iter().map(Outputs::memfd));
        let deadline = simulation.deadline;
        let limits = ChildLimits { deadline, cpu_s: deadline.as_secs(), ..CANDIDATE_LIMITS };
        let kind = ChildKind::Candidate;
        let runs = match self.call(kind, &request, &bulk, &limits, None, cancel)? {
            ChildEnd::Reported(RunReport { runs, .. }) => Ok(runs),
            ChildEnd::TimedOut(_) => Err(RunEnd::Hang(format!(
                "it did not end within {} s of this machine's time",
                deadline.as_secs()
            ))),
            ChildEnd::Crashed(why) | ChildEnd::Killed(why) | ChildEnd::Broken(why) => {
                return Err(broken(why));
            }
        };
        Ok((runs, results))
    }
}

fn broken(why: String) -> JudgeError {
    JudgeError::Child { child: "candidate", why }
}

/// The values that are given, in sealed memory.
fn given_tensors(tensors: &[Tensor]) -> Result<Tensors, JudgeError> {
    let given = || {
        tensors.iter().filter_map(|tensor| match &tensor.content {
            Content::Input(bytes) | Content::Updated(bytes) => Some((&tensor.name, bytes)),
            Content::Output => None,
        })
    };
    let sizes = given().map(|(name, bytes)| (name.clone(), bytes.len() as u64));
    let mut room = Tensors::room("given", sizes)?;
    for (name, bytes) in given() {
        let start = room.places.get(name).map_or(0, |(offset, _)| *offset);
        room.memfd.fill(usize::try_from(start).unwrap_or(usize::MAX), bytes)?;
    }
    room.memfd.seal_write()?;
    Ok(room)
}

fn run_case(
    simulation: &Simulation<'_>,
    variant: Variant,
    given: &Tensors,
    outputs: &Outputs,
    output_bulk: u32,
) -> RunCase {
    let tensors = || simulation.tensors.iter();
    let data = |tensor: &Tensor| given.slice(2, &tensor.name).unwrap_or(EMPTY);
    let read_only = tensors().filter(|tensor| matches!(tensor.content, Content::Input(_)));
    let written = tensors().filter(|tensor| !matches!(tensor.content, Content::Input(_)));
    RunCase {
        plan: simulation.plan.clone(),
        inputs: read_only
            .map(|tensor| InputTensor {
                name: tensor.name.clone(),
                data: data(tensor),
                writable: false,
                weight: false,
            })
            .collect(),
        outputs: written
            .map(|tensor| OutputTensor {
                name: tensor.name.clone(),
                dtype: tensor.dtype,
                data: outputs.slice(output_bulk, &tensor.name),
                initial: matches!(tensor.content, Content::Updated(_)).then(|| data(tensor)),
            })
            .collect(),
        poison: variant.poison,
        reversed: variant.reversed,
        continues: false,
        refills: true,
        slack_bytes: 0,
    }
}

fn ended(end: RunEnd) -> SimulationReport {
    SimulationReport {
        end,
        only_in_second_run: false,
        place: None,
        counters: None,
        findings: Vec::new(),
        printed: String::new(),
        outputs: Vec::new(),
    }
}

/// The first run with its counts, or the second where only that one went wrong.
fn report_of(first: RunResult, second: Option<RunResult>) -> SimulationReport {
    let worse =
        second.filter(|second| first.end == RunEnd::Completed && second.end != RunEnd::Completed);
    let mut report = SimulationReport {
        counters: first.counters,
        findings: first.findings,
        printed: first.printed,
        place: first.place,
        ..ended(first.end)
    };
    if let Some(worse) = worse {
        report.only_in_second_run = true;
        report.end = worse.end;
        report.place = worse.place;
    }
    report
}
