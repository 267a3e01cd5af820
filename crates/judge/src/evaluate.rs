//! The search stage: every public case under two distributions, outputs poisoned, then compared.
//!
//! Two children when the reference is cached: one runs all cases in turn, one compares.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::candidate::Candidate;
use pipeline::check::OutputCheck;
use pipeline::gate::check_values;
use pipeline::inputs::{Distribution, Poison};
use pipeline::launch::{LaunchError, ResolvedPlan};
use pipeline::report::{CaseReport, CaseStatus, Estimate, Report, Score, Stage};
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::spec::{Case, Compare, Place, extents};
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{
    InputTensor, OutputTensor, RunCase, RunEnd, RunReport, RunRequest, RunResult, SampleCase,
    SampleInput, Slice, VerifyItem, VerifyReport, VerifyRequest,
};
use sandbox::{CancelFlag, ChildKind, Memfd};

use crate::cases::{CaseData, Tensors, input_sizes, output_sizes, role_parameter};
use crate::children::ChildEnd;
use crate::limits::{CANDIDATE_LAUNCH_BUDGET, CANDIDATE_LIMITS, VERIFY_LIMITS};
use crate::reference::{EMPTY, image_memfds};
use crate::{Build, Judge, JudgeError, RunSeed};

/// What is evaluated.
#[derive(Clone, Copy)]
pub struct Evaluation<'a> {
    pub task: &'a Task,
    pub candidate: &'a Candidate,
    pub tunables: &'a BTreeMap<String, i64>,
    pub build: &'a Build,
    pub seed: &'a RunSeed,
    /// Which evaluation of the run this is; picks the master seeds.
    pub index: u64,
}

/// The judge's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    pub verdict: Verdict,
    pub report: Report,
}

/// One case under one distribution, ready to run.
struct Trial<'a> {
    case: &'a Case,
    distribution: Distribution,
    plan: ResolvedPlan,
    poison: Poison,
    data: Arc<CaseData>,
    outputs: Tensors,
}

impl Judge {
    /// Runs the search stage.
    ///
    /// # Errors
    /// A broken reference, child or machine; never the candidate.
    pub fn evaluate(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Judgement, JudgeError> {
        let Some(facts) = &evaluation.build.facts else {
            let why = "a build without facts was to be run".to_owned();
            return Err(JudgeError::Child { child: "candidate", why });
        };
        if let Some(verdict) = &evaluation.build.verdict {
            return Ok(self.judgement(verdict.clone(), facts, Vec::new(), Score::None));
        }
        let plans = match self.resolve_cases(evaluation, facts) {
            Ok(plans) => plans,
            Err(verdict) => return Ok(self.judgement(verdict, facts, Vec::new(), Score::None)),
        };
        let trials = self.prepare_trials(evaluation, plans, cancel)?;
        let sample = self.sample_case(evaluation);
        let run = match self.run_trials(evaluation, facts, &trials, sample, cancel)? {
            Ok(run) => run,
            Err(verdict) => {
                return Ok(self.judgement(verdict, facts, not_run(&trials), Score::None));
            }
        };
        let checks = self.verify(evaluation, &trials, &run, cancel)?;
        let cases = case_reports(&trials, run.runs, checks);
        let verdict = verdict_of(&cases);
        let score = match run.sample.filter(|_| verdict.is_correct()) {
            Some(sample) => sample.counters.map_or(Score::None, |counters| {
                Score::Estimated(Estimate::new(&counters, &self.config.device, sample.blocks))
            }),
            None => Score::None,
        };
        Ok(self.judgement(verdict, facts, cases, score))
    }

    fn judgement(
        &self,
        verdict: Verdict,
        facts: &BuildFacts,
        cases: Vec<CaseReport>,
        score: Score,
    ) -> Judgement {
        let report = Report {
            stage: Stage::Search,
            device: self.config.device.model.clone(),
            kernels: facts.entries.clone(),
            cases,
            score,
        };
        Judgement { verdict, report }
    }

    /// The plan at each public case that this device runs; a plan error is the verdict.
    fn resolve_cases<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        facts: &BuildFacts,
    ) -> Result<Vec<(&'a Case, ResolvedPlan)>, Verdict> {
        let mut plans = Vec::new();
        for case in evaluation.task.cases(Place::Sim) {
            let plan = match self.resolve(evaluation, &case.dims) {
                Ok(plan) => plan,
                // A kernel may decline shapes; that they are few is judged with the hidden ones.
                Err(LaunchError::Domain { .. }) => continue,
                Err(error) => return Err(plan_verdict(case, &error.to_string())),
            };
            check_values(facts, &plan).map_err(|why| plan_verdict(case, &why))?;
            plans.push((case, plan));
        }
        if let Some(headline) = evaluation.task.spec.headline() {
            let resolved = self.resolve(evaluation, &headline.dims);
            resolved.map_err(|error| plan_verdict(headline, &error.to_string()))?;
        }
        if plans.is_empty() {
            let why = "the plan's domain leaves no public case that this machine can run";
            return Err(Verdict::failed(Reason::Plan, why));
        }
        Ok(plans)
    }

    fn resolve(
        &self,
        evaluation: &Evaluation<'_>,
        dims: &BTreeMap<String, i64>,
    ) -> Result<ResolvedPlan, LaunchError> {
        let scope = Scope::of_dims(dims).with(evaluation.tunables).with_device(&self.config.device);
        evaluation.candidate.plan.resolve(&scope, &evaluation.task.signature())
    }

    fn prepare_trials<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        plans: Vec<(&'a Case, ResolvedPlan)>,
        cancel: &CancelFlag,
    ) -> Result<Vec<Trial<'a>>, JudgeError> {
        let task = evaluation.task;
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let mut trials = Vec::new();
        for (case, plan) in plans {
            let master = evaluation.seed.master(&case.name, evaluation.index);
            for (i, distribution) in
                Distribution::search_pair(&task.spec.family).into_iter().enumerate()
            {
                // The two runs of a case find different garbage in their outputs.
                let value_seed = evaluation.index.wrapping_mul(2).wrapping_add(1);
                let poison = if i == 0 { Poison::Ones } else { Poison::Values(value_seed) };
                let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
                trials.push(Trial {
                    case,
                    distribution,
                    plan: plan.clone(),
                    poison,
                    data: self.case_data(task, &case.dims, distribution, &master, cancel)?,
                    outputs: Tensors::room("outputs", sizes.into_iter())?,
                });
            }
        }
        Ok(trials)
    }

    /// The headline case for counting; `None` where the simulator cannot hold it.
    fn sample_case(&self, evaluation: &Evaluation<'_>) -> Option<SampleCase> {
        let spec = &evaluation.task.spec;
        let dims = &spec.headline()?.dims;
        let sizes = input_sizes(spec, dims).ok()?;
        let inputs = spec.inputs.iter().zip(sizes).map(|(input, (_, bytes))| {
            let parameter = role_parameter(input, dims).ok()?;
            Some(SampleInput { input: input.clone(), parameter, bytes })
        });
        Some(SampleCase {
            plan: self.resolve(evaluation, dims).ok()?,
            inputs: inputs.collect::<Option<_>>()?,
            outputs: output_sizes(spec, dims).ok()?,
        })
    }

    /// Runs all trials in one child; an end without a report is a verdict.
    fn run_trials(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        trials: &[Trial<'_>],
        sample: Option<SampleCase>,
        cancel: &CancelFlag,
    ) -> Result<Result<RunReport, Verdict>, JudgeError> {
        let build = evaluation.build;
        let in_place = &evaluation.candidate.plan.in_place;
        let numbered = trials.iter().enumerate();
        let request = RunRequest {
            device: self.device_choice(CANDIDATE_LAUNCH_BUDGET),
            ptx: Slice { bulk: 0, offset: 0, bytes: build.ptx.len() as u64 },
            cubin: Slice { bulk: 1, offset: 0, bytes: build.cubin.len() as u64 },
            lowered_names: facts.lowered_names.clone(),
            entries: facts.entries.clone(),
            runs: numbered
                .map(|(i, trial)| run_case(evaluation.task, in_place, trial, 2 + 2 * i as u32))
                .collect(),
            sample,
        };
        let image = image_memfds(build)?;
        let mut bulk: Vec<&Memfd> = image.iter().collect();
        for trial in trials {
            bulk.extend([&trial.data.inputs.memfd, &trial.outputs.memfd]);
        }
        let end = self.call(ChildKind::Candidate, &request, &bulk, &CANDIDATE_LIMITS, cancel)?;
        for trial in trials {
            trial.outputs.memfd.seal_write()?;
        }
        Ok(match end {
            ChildEnd::Reported(report) => Ok(report),
            ChildEnd::TimedOut => Err(Verdict::failed(
                Reason::Timeout,
                format!("it did not end within {} s", CANDIDATE_LIMITS.deadline.as_secs()),
            )),
            ChildEnd::Crashed(why) => {
                Err(Verdict::failed(Reason::Crash, format!("its process died: {why}")))
            }
        })
    }

    /// Compares the outputs of every completed run in a child of its own.
    fn verify(
        &self,
        evaluation: &Evaluation<'_>,
        trials: &[Trial<'_>],
        run: &RunReport,
        cancel: &CancelFlag,
    ) -> Result<Vec<OutputCheck>, JudgeError> {
        let mut bulk: Vec<&Memfd> = Vec::new();
        let mut items = Vec::new();
        for (trial, result) in trials.iter().zip(&run.runs) {
            if result.end == RunEnd::Completed {
                let first = bulk.len() as u32;
                bulk.extend([&trial.outputs.memfd, &trial.data.expected.memfd]);
                items.extend(verify_items(evaluation, trial, first)?);
            }
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let (child, count) = ("verify", items.len());
        let request = VerifyRequest { items };
        match self.call(ChildKind::Verify, &request, &bulk, &VERIFY_LIMITS, cancel)? {
            ChildEnd::Reported(VerifyReport { checks }) if checks.len() == count => Ok(checks),
            ChildEnd::Reported(_) => {
                Err(JudgeError::Child { child, why: "it left out checks".to_owned() })
            }
            ChildEnd::TimedOut => Err(JudgeError::Child { child, why: "timed out".to_owned() }),
            ChildEnd::Crashed(why) => Err(JudgeError::Child { child, why }),
        }
    }
}

fn plan_verdict(case: &Case, why: &str) -> Verdict {
    Verdict::failed(Reason::Plan, format!("at the public case `{}`: {why}", case.name))
}

fn run_case(task: &Task, in_place: &[String], trial: &Trial<'_>, first_bulk: u32) -> RunCase {
    let input = |input: &pipeline::task::spec::Input| InputTensor {
        name: input.name.clone(),
        data: trial.data.inputs.slice(first_bulk, &input.name).unwrap_or(EMPTY),
        writable: in_place.contains(&input.name),
    };
    let output = |output: &pipeline::task::spec::Output| OutputTensor {
        name: output.name.clone(),
        dtype: output.dtype,
        data: trial.outputs.slice(first_bulk + 1, &output.name).unwrap_or(EMPTY),
    };
    RunCase {
        plan: trial.plan.clone(),
        inputs: task.spec.inputs.iter().map(input).collect(),
        outputs: task.spec.outputs.iter().map(output).collect(),
        poison: trial.poison,
    }
}

fn verify_items(
    evaluation: &Evaluation<'_>,
    trial: &Trial<'_>,
    first_bulk: u32,
) -> Result<Vec<VerifyItem>, JudgeError> {
    let spec = &evaluation.task.spec;
    let precision = evaluation.candidate.plan.precision;
    let broken = |error: pipeline::task::spec::SpecError| JudgeError::Reference {
        task: spec.name.clone(),
        why: error.to_string(),
    };
    let item = |output: &pipeline::task::spec::Output| {
        let expected = &trial.data.expected;
        let bound = expected.slice(first_bulk + 1, &format!("{}_bound", output.name));
        Ok(VerifyItem {
            name: output.name.clone(),
            dtype: output.dtype,
            compare: output.compare,
            extents: extents(&output.shape, &trial.case.dims).map_err(broken)?,
            got: trial.outputs.slice(first_bulk, &output.name).unwrap_or(EMPTY),
            reference: expected
                .slice(first_bulk + 1, &format!("{}_ref", output.name))
                .unwrap_or(EMPTY),
            bound: bound.filter(|_| output.compare == Compare::Bound),
            accumulation_unit: precision.accumulation_unit(),
            norm_limit: spec.norm_limit(precision),
            flush_denormals: spec.flush_denormals,
            poison: trial.poison,
        })
    };
    spec.outputs.iter().map(item).collect()
}

fn not_run(trials: &[Trial<'_>]) -> Vec<CaseReport> {
    trials.iter().map(|trial| case_report(trial, CaseStatus::NotRun)).collect()
}

fn case_report(trial: &Trial<'_>, status: CaseStatus) -> CaseReport {
    CaseReport {
        case: trial.case.name.clone(),
        dims: trial.case.dims.clone(),
        distribution: trial.distribution,
        status,
        checks: Vec::new(),
        counters: None,
        findings: Vec::new(),
    }
}

fn case_reports(
    trials: &[Trial<'_>],
    runs: Vec<RunResult>,
    checks: Vec<OutputCheck>,
) -> Vec<CaseReport> {
    let mut runs = runs.into_iter();
    let mut checks = checks.into_iter();
    let report = |trial: &Trial<'_>| {
        let Some(run) = runs.next() else { return case_report(trial, CaseStatus::NotRun) };
        let mut report = case_report(trial, CaseStatus::Passed);
        report.counters = run.counters;
        report.findings = run.findings;
        report.status = match run_failure(run.end) {
            Some((reason, detail)) => CaseStatus::Failed { reason, detail },
            None => {
                report.checks = checks.by_ref().take(trial.outputs.places.len()).collect();
                check_status(&report.checks)
            }
        };
        report
    };
    trials.iter().map(report).collect()
}

fn run_failure(end: RunEnd) -> Option<(Reason, String)> {
    match end {
        RunEnd::Completed => None,
        RunEnd::Refused(why) => Some((Reason::Launch, why)),
        RunEnd::Unsupported(what) => Some((Reason::Unsupported, what)),
        RunEnd::OutOfBounds(message) => Some((Reason::Guard, message)),
        RunEnd::ReadOnlyWrite(message) => Some((Reason::Input, message)),
        RunEnd::Hang(message) => Some((Reason::Timeout, message)),
        RunEnd::Crash(message) => Some((Reason::Crash, message)),
    }
}

fn check_status(checks: &[OutputCheck]) -> CaseStatus {
    let failed = checks.iter().find_map(|check| check.failure.map(|reason| (reason, check)));
    match failed {
        None if checks.is_empty() => CaseStatus::Failed {
            reason: Reason::Mismatch,
            detail: "no output was compared".to_owned(),
        },
        None => CaseStatus::Passed,
        Some((reason, check)) => {
            let detail = if check.wrong == 0 {
                format!("output `{}` is too inaccurate as a whole", check.output)
            } else {
                format!("output `{}`: {}", check.output, check.pattern)
            };
            CaseStatus::Failed { reason, detail }
        }
    }
}

/// The first case that failed decides; a case that was not run never passes.
fn verdict_of(cases: &[CaseReport]) -> Verdict {
    for report in cases {
        match &report.status {
            CaseStatus::Passed => {}
            CaseStatus::Failed { reason: reason @ Reason::Unsupported, detail } => {
                return Verdict::failed(*reason, detail.clone());
            }
            CaseStatus::Failed { reason, detail } => {
                let place = format!("case `{}`, {:?}", report.case, report.distribution);
                return Verdict::failed(*reason, format!("{place}: {detail}"));
            }
            CaseStatus::NotRun => {
                let detail = format!("the case `{}` was not run", report.case);
                return Verdict::failed(Reason::Crash, detail);
            }
        }
    }
    Verdict::correct()
}
