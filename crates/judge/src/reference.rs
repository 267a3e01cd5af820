//! The reference: compiled once per task, run in its own child, checked against the golden case.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::digest::Digest;
use pipeline::dtype::Dtype;
use pipeline::inputs::Poison;
use pipeline::launch::ResolvedPlan;
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::signature::Signature;
use pipeline::verdict::Kind;
use sandbox::wire::{
    DeviceChoice, InputTensor, OutputTensor, RunCase, RunEnd, RunReport, RunRequest, Slice,
};
use sandbox::{CancelFlag, ChildKind, Memfd, TimeLimit};

use crate::cases::{Tensors, input_sizes, lock, reference_sizes};
use crate::children::ChildEnd;
use crate::decide::words;
use crate::gpu::{Lease, sealed};
use crate::limits::{
    CANDIDATE_LAUNCH_BUDGET, CANDIDATE_TRIES_MAX, REFERENCE_BUILDS_MAX, REFERENCE_LAUNCH_BUDGET,
    REFERENCE_LAUNCH_DEADLINE_MS, REFERENCE_LIMITS,
};
use crate::on_card::{CardRun, busy};
use crate::{Build, Judge, JudgeError};

/// Compiled references by task hash.
pub(crate) type ReferenceBuilds = HashMap<Digest, Arc<Build>>;

/// How the reference compares with the golden case.
#[derive(Clone, Debug, PartialEq)]
pub struct GoldenReport {
    /// Elements compared.
    pub compared: u64,
    pub deviations: Vec<GoldenDeviation>,
}

/// An element where the reference is not the golden value.
#[derive(Clone, Debug, PartialEq)]
pub struct GoldenDeviation {
    pub output: String,
    pub index: usize,
    pub reference: f64,
    pub golden: f64,
}

impl Judge {
    /// Runs the reference on the golden inputs and compares with the golden outputs.
    ///
    /// Floats may differ by 1e-12 relative (fp64 functions are not correctly rounded) or by the
    /// smallest normal f64; integers must be equal.
    ///
    /// # Errors
    /// A reference that does not build or run here.
    pub fn check_golden(
        &self,
        task: &Task,
        cancel: &CancelFlag,
    ) -> Result<GoldenReport, JudgeError> {
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let dims = &task.golden.dims;
        let sizes = input_sizes(&task.spec, dims).map_err(broken)?;
        let mut inputs = Tensors::room("golden", sizes.into_iter())?;
        for input in &task.spec.inputs {
            let (offset, _) = inputs.places[&input.name];
            let bytes = task.golden.input_bytes(&input.name, input.dtype);
            inputs.memfd.fill(offset as usize, &bytes)?;
        }
        inputs.memfd.seal_write()?;
        let expected = self.expected_outputs(task, dims, &inputs, cancel)?;
        let map = expected.memfd.map()?;
        let mut report = GoldenReport { compared: 0, deviations: Vec::new() };
        for output in &task.spec.outputs {
            let (offset, bytes) = expected.places[&format!("{}_ref", output.name)];
            let values = &map[offset as usize..(offset + bytes) as usize];
            let golden = task.golden.output_bits(&output.name);
            compare_golden(&output.name, output.dtype.is_float(), values, &golden, &mut report);
        }
        Ok(report)
    }

    /// Runs the reference on `inputs`; the outputs are sealed.
    pub(crate) fn expected_outputs(
        &self,
        task: &Task,
        dims: &BTreeMap<String, i64>,
        inputs: &Tensors,
        cancel: &CancelFlag,
    ) -> Result<Tensors, JudgeError> {
        let build = self.reference_build(task, cancel)?;
        self.run_reference(task, &build, dims, inputs, cancel)
    }

    /// The reference as it is when `defines` are given to the compiler besides.
    pub(crate) fn mutated_build(
        &self,
        task: &Task,
        defines: &BTreeMap<String, i64>,
        cancel: &CancelFlag,
    ) -> Result<Build, JudgeError> {
        let plan = &task.reference.plan;
        let mut tunables = plan.default_tunables();
        tunables.extend(defines.clone());
        let names = plan.kernel_names();
        let build = self.compile(&task.reference.source, &tunables, &names, cancel)?;
        match &build.verdict {
            None => Ok(build),
            Some(verdict) => {
                let why = format!("with {defines:?}: {verdict}: {}", verdict.detail);
                Err(JudgeError::Reference { task: task.spec.name.clone(), why })
            }
        }
    }

    /// Runs a build of the reference on `inputs`; the outputs are sealed.
    pub(crate) fn run_reference(
        &self,
        task: &Task,
        build: &Build,
        dims: &BTreeMap<String, i64>,
        inputs: &Tensors,
        cancel: &CancelFlag,
    ) -> Result<Tensors, JudgeError> {
        let mut all = self.run_references(task, build, &[(dims, inputs)], cancel)?;
        all.pop().ok_or_else(|| JudgeError::Reference {
            task: task.spec.name.clone(),
            why: "it gave nothing".to_owned(),
        })
    }

    /// Runs a build of the reference on each of several inputs, in one child: on a GPU most of a
    /// short child's time is its context. The outputs are sealed.
    pub(crate) fn run_references(
        &self,
        task: &Task,
        build: &Build,
        asked: &[(&BTreeMap<String, i64>, &Tensors)],
        cancel: &CancelFlag,
    ) -> Result<Vec<Tensors>, JudgeError> {
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let facts = build.facts.as_ref().ok_or_else(|| broken("it has no build".to_owned()))?;
        let (mut runs, mut all) = (Vec::new(), Vec::new());
        for (dims, inputs) in asked {
            let sizes = reference_sizes(&task.spec, dims).map_err(broken)?;
            let named = sizes.iter().map(|(name, _, bytes)| (name.clone(), *bytes));
            let outputs = Tensors::room("expected", named)?;
            let at = 2 + 2 * all.len() as u32;
            let plan = self.reference_plan(task, dims)?;
            runs.push(reference_run(plan, (at, inputs), (at + 1, &outputs), &sizes));
            all.push(outputs);
        }
        let device = self.device_choice(None, Whose::Reference);
        let request = reference_request(build, facts, device, runs);
        let [ptx, cubin] = image_memfds(build)?;
        let mut bulk = vec![&ptx, &cubin];
        for ((_, inputs), outputs) in asked.iter().zip(&all) {
            bulk.extend([&inputs.memfd, &outputs.memfd]);
        }
        let run = CardRun {
            kind: ChildKind::Reference,
            whose: Whose::Reference,
            bulk: &bulk,
            limits: &REFERENCE_LIMITS,
            killed_tries_max: CANDIDATE_TRIES_MAX,
        };
        let dims: Vec<_> = asked.iter().map(|(dims, _)| *dims).collect();
        self.reference_report(task, &dims, &run, request, cancel)?;
        all.iter().try_for_each(|outputs| outputs.memfd.seal_write())?;
        Ok(all)
    }

    /// Runs a reference's child; every run, one at each of `dims`, must complete.
    pub(crate) fn reference_report(
        &self,
        task: &Task,
        dims: &[&BTreeMap<String, i64>],
        run: &CardRun<'_>,
        request: RunRequest,
        cancel: &CancelFlag,
    ) -> Result<RunReport, JudgeError> {
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let report: RunReport = match self.run_on_card(run, request, cancel)?.end {
            ChildEnd::Reported(report) => report,
            ChildEnd::TimedOut(TimeLimit::Wall) if self.config.gpus.is_none() => {
                return Err(JudgeError::NotAvailable(busy(run.limits)));
            }
            ChildEnd::TimedOut(_) => {
                return Err(broken("it did not end within its time".to_owned()));
            }
            ChildEnd::Crashed(why) => return Err(broken(why)),
            // No kernel can do that: this machine, or this program.
            ChildEnd::Killed(why) => {
                let often = format!("{why}, {} times in a row", run.killed_tries_max);
                return Err(too_small(task, &often));
            }
            ChildEnd::Broken(why) => return Err(too_small(task, &why)),
        };
        let failed = report.runs.iter().zip(dims).find(|(run, _)| run.end != RunEnd::Completed);
        match failed {
            Some((run, dims)) => Err(broken(format!("at {dims:?}: {}", words(&run.end)))),
            None if report.runs.len() != dims.len() => Err(broken("it was not run".to_owned())),
            None => Ok(report),
        }
    }

    pub(crate) fn reference_plan(
        &self,
        task: &Task,
        dims: &BTreeMap<String, i64>,
    ) -> Result<ResolvedPlan, JudgeError> {
        let scope = Scope::of_dims(dims)
            .with(&task.reference.plan.default_tunables())
            .with_device(&self.config.device);
        let resolved = task.reference.plan.resolve(&scope, &Signature::of_reference(&task.spec));
        resolved.map_err(|error| JudgeError::Reference {
            task: task.spec.name.clone(),
            why: error.to_string(),
        })
    }

    pub(crate) fn reference_build(
        &self,
        task: &Task,
        cancel: &CancelFlag,
    ) -> Result<Arc<Build>, JudgeError> {
        if let Some(found) = lock(&self.references).get(&task.hash) {
            return Ok(Arc::clone(found));
        }
        let plan = &task.reference.plan;
        let tunables = plan.default_tunables();
        let build =
            self.compile(&task.reference.source, &tunables, &plan.kernel_names(), cancel)?;
        if let Some(verdict) = &build.verdict {
            if verdict.kind == Kind::Unsimulatable {
                return Err(too_small(task, &verdict.detail));
            }
            let why = format!("{verdict}: {}", verdict.detail);
            return Err(JudgeError::Reference { task: task.spec.name.clone(), why });
        }
        let build = Arc::new(build);
        let mut references = lock(&self.references);
        if references.len() >= REFERENCE_BUILDS_MAX {
            references.clear();
        }
        references.insert(task.hash.clone(), Arc::clone(&build));
        Ok(build)
    }

    /// The device that a child runs on; kernels of ours may take longer than a candidate's.
    pub(crate) fn device_choice(&self, lease: Option<&Lease<'_>>, whose: Whose) -> DeviceChoice {
        let Some(lease) = lease else {
            let launch_budget = match whose {
                Whose::Candidate => CANDIDATE_LAUNCH_BUDGET,
                Whose::Reference => REFERENCE_LAUNCH_BUDGET,
            };
            return DeviceChoice::Simulator {
                arch: self.config.device.arch.clone(),
                launch_budget,
            };
        };
        DeviceChoice::Cuda {
            uuid: lease.sheet.uuid.clone(),
            launch_deadline_ms: match whose {
                Whose::Candidate => lease.config.launch_deadline_ms,
                Whose::Reference => REFERENCE_LAUNCH_DEADLINE_MS,
            },
        }
    }
}

/// A reference that this machine, or this program, could not run: the task is not at fault.
fn too_small(task: &Task, why: &str) -> JudgeError {
    JudgeError::NotAvailable(format!(
        "the reference of `{}` could not be run on this machine: {why}; is memory short? Free \
         some, raise the limits of this process (`ulimit -a`), or use a larger machine",
        task.spec.name
    ))
}

/// One run of a reference; inputs and outputs with their places in the child's bulk.
pub(crate) fn reference_run(
    plan: ResolvedPlan,
    (inputs_at, inputs): (u32, &Tensors),
    (outputs_at, outputs): (u32, &Tensors),
    sizes: &[(String, Dtype, u64)],
) -> RunCase {
    let input = |name: &String| InputTensor {
        name: name.clone(),
        data: inputs.slice(inputs_at, name).unwrap_or(EMPTY),
        writable: false,
        weight: false,
    };
    let output = |(name, dtype, _): &(String, Dtype, u64)| OutputTensor {
        name: name.clone(),
        dtype: *dtype,
        data: outputs.slice(outputs_at, name).unwrap_or(EMPTY),
        initial: None,
    };
    RunCase {
        plan,
        inputs: inputs.places.keys().map(input).collect(),
        outputs: sizes.iter().map(output).collect(),
        poison: Poison::Ones,
        reversed: false,
        continues: false,
        refills: true,
        slack_bytes: 0,
    }
}

pub(crate) fn reference_request(
    build: &Build,
    facts: &BuildFacts,
    device: DeviceChoice,
    runs: Vec<RunCase>,
) -> RunRequest {
    RunRequest {
        device,
        ptx: Slice { bulk: 0, offset: 0, bytes: build.ptx.len() as u64 },
        cubin: Slice { bulk: 1, offset: 0, bytes: build.cubin.len() as u64 },
        lowered_names: facts.lowered_names.clone(),
        entries: facts.entries.clone(),
        runs,
        sample: None,
        window: None,
        tiles: None,
        detailed: false,
    }
}

/// Whose kernels a child runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Candidate,
    Reference,
}

/// A slice of nothing; what it would name is always in the map it is a fallback for.
pub(crate) const EMPTY: Slice = Slice { bulk: 0, offset: 0, bytes: 0 };

/// The image of a build as two sealed memfds: PTX, cubin.
pub(crate) fn image_memfds(build: &Build) -> Result<[Memfd; 2], JudgeError> {
    Ok([sealed("ptx", &build.ptx)?, sealed("cubin", &build.cubin)?])
}

fn compare_golden(
    output: &str,
    float: bool,
    values: &[u8],
    golden: &[u64],
    report: &mut GoldenReport,
) {
    for (index, want) in golden.iter().enumerate() {
        report.compared += 1;
        let got = Dtype::F64.element_bits(values, index).unwrap_or(u64::MAX);
        let equal = got == *want || float && close(f64::from_bits(got), f64::from_bits(*want));
        if !equal {
            report.deviations.push(GoldenDeviation {
                output: output.to_owned(),
                index,
                reference: f64::from_bits(got),
                golden: f64::from_bits(*want),
            });
        }
    }
}

fn close(got: f64, want: f64) -> bool {
    let finite = got.is_finite() && want.is_finite();
    finite && (got - want).abs() <= 1e-12 * want.abs() + f64::MIN_POSITIVE
}
