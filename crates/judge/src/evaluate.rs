//! The search stage: every public case under two distributions, outputs poisoned, then compared.
//!
//! Two children when the reference is cached: one runs all cases in turn, one compares.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::candidate::Candidate;
use pipeline::check::OutputCheck;
use pipeline::expression::Expression;
use pipeline::gate::{Integers, check_values};
use pipeline::inputs::{Distribution, Poison};
use pipeline::launch::{LaunchError, ResolvedPlan};
use pipeline::plan::form::Algorithm;
use pipeline::report::{CaseReport, CaseStatus, Counters, Estimate, Report, Score, Stage};
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::spec::{Case, Compare, Place, Precision, extents};
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{
    InputTensor, OutputTensor, RunCase, RunEnd, RunReport, RunRequest, SampleCase, SampleInput,
    SampleResult, Slice, VerifyItem, VerifyReport, VerifyRequest,
};
use sandbox::{CancelFlag, ChildKind, Memfd};

use crate::cases::{CaseData, Tensors, input_sizes, output_sizes, role_parameter};
use crate::children::{ChildEnd, broken_here};
use crate::decide::{
    case_report, case_reports, headline_failure, headline_report, verdict_of, words,
};
use crate::limits::{
    BYTES_SHARE_MIN, CANDIDATE_LAUNCH_BUDGET, CANDIDATE_LIMITS, CANDIDATE_TRIES_MAX,
    FLOPS_SHARE_MIN, VERIFY_LIMITS,
};
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
    /// False when the end depended on how busy this machine was: then it must not be remembered.
    pub repeatable: bool,
}

/// The public cases that run here, each with its plan in numbers.
struct ResolvedCases<'a> {
    plans: Vec<(&'a Case, ResolvedPlan)>,
    /// Cases that the plan's domain leaves out.
    notes: Vec<String>,
}

/// One case under one distribution, ready to run.
pub(crate) struct Trial<'a> {
    pub(crate) case: &'a Case,
    pub(crate) distribution: Distribution,
    plan: ResolvedPlan,
    poison: Poison,
    data: Arc<CaseData>,
    pub(crate) outputs: Tensors,
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
            return Ok(self.early(verdict.clone(), facts));
        }
        let resolved = match self.resolve_cases(evaluation, facts) {
            Ok(resolved) => resolved,
            Err(verdict) => return Ok(self.early(verdict, facts)),
        };
        let mut notes = resolved.notes;
        let trials = self.prepare_trials(evaluation, resolved.plans, cancel)?;
        let sample = self.sample_case(evaluation);
        let run = match self.run_trials(evaluation, facts, &trials, sample, cancel)? {
            Ok(run) => run,
            Err((verdict, repeatable)) => {
                let cases = trials.iter().map(|trial| case_report(trial, CaseStatus::NotRun));
                let report = self.report(facts, cases.collect(), Score::None, notes);
                return Ok(Judgement { verdict, report, repeatable });
            }
        };
        let checks = self.verify(evaluation, &trials, &run, cancel)?;
        let mut cases = case_reports(&trials, run.runs, checks);
        let mut score = Score::None;
        if let Some(sample) = run.sample {
            match headline_failure(&sample) {
                Some((reason, detail)) => {
                    cases.extend(headline_report(evaluation, &sample, reason, detail));
                }
                None => score = self.score(evaluation, &sample, &mut notes),
            }
        }
        let verdict = verdict_of(&cases);
        let score = if verdict.is_correct() { score } else { Score::None };
        let report = self.report(facts, cases, score, notes);
        Ok(Judgement { verdict, report, repeatable: true })
    }

    /// The estimate for a counted headline; otherwise a note that says why there is none. A kernel
    /// that moves or computes less than the task needs did not do the work, and is not ranked.
    fn score(
        &self,
        evaluation: &Evaluation<'_>,
        sample: &SampleResult,
        notes: &mut Vec<String>,
    ) -> Score {
        if sample.end != RunEnd::Completed {
            let end = words(&sample.end);
            notes.push(format!("the headline shape could not be counted here: {end}"));
            return Score::None;
        }
        if let Some(missing) = missing_work(evaluation, &sample.counters) {
            notes.push(format!("the headline shape is not ranked: {missing}"));
            return Score::None;
        }
        let device = &self.config.device;
        Score::Estimated(Estimate::new(&sample.counters, device, sample.blocks))
    }

    /// A judgement from before anything ran.
    fn early(&self, verdict: Verdict, facts: &BuildFacts) -> Judgement {
        let report = self.report(facts, Vec::new(), Score::None, Vec::new());
        Judgement { verdict, report, repeatable: true }
    }

    fn report(
        &self,
        facts: &BuildFacts,
        cases: Vec<CaseReport>,
        score: Score,
        notes: Vec<String>,
    ) -> Report {
        Report {
            stage: Stage::Search,
            device: self.config.device.model.clone(),
            kernels: facts.entries.clone(),
            cases,
            score,
            notes,
        }
    }

    /// The plan at each public case; a plan error at any of them is the verdict, also at one that
    /// only a GPU can run.
    fn resolve_cases<'a>(
        &self,
        evaluation: &Evaluation<'a>,
        facts: &BuildFacts,
    ) -> Result<ResolvedCases<'a>, Verdict> {
        let mut resolved = ResolvedCases { plans: Vec::new(), notes: Vec::new() };
        for case in &evaluation.task.spec.cases {
            let runs_here = case.on.contains(&Place::Sim);
            let plan = match self.resolve(evaluation, &case.dims) {
                Ok(plan) => plan,
                Err(LaunchError::Domain { condition }) if case.name != "headline" => {
                    let what = format!("the case `{}` is outside the domain", case.name);
                    resolved.notes.push(format!("{what} (`{condition}`) and was not run"));
                    continue;
                }
                Err(error) => return Err(plan_verdict(case, &error.to_string())),
            };
            check_values(facts, &plan, Integers::NonNegative)
                .map_err(|why| plan_verdict(case, &why))?;
            if runs_here {
                resolved.plans.push((case, plan));
            }
        }
        if resolved.plans.is_empty() {
            let why = "the plan's domain leaves no public case that this machine can run";
            return Err(Verdict::failed(Reason::Plan, why));
        }
        Ok(resolved)
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
                // The two runs of a case find different garbage in their outputs, and run their
                // warps and blocks in opposite orders.
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
            let writable = evaluation.candidate.plan.in_place.contains(&input.name);
            Some(SampleInput { input: input.clone(), parameter, bytes, writable })
        });
        Some(SampleCase {
            plan: self.resolve(evaluation, dims).ok()?,
            inputs: inputs.collect::<Option<_>>()?,
            outputs: output_sizes(spec, dims).ok()?,
        })
    }

    /// Runs all trials in one child; an end without a report is a verdict, with whether it would
    /// be the same again.
    fn run_trials(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        trials: &[Trial<'_>],
        sample: Option<SampleCase>,
        cancel: &CancelFlag,
    ) -> Result<Result<RunReport, (Verdict, bool)>, JudgeError> {
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
            detailed: false,
        };
        let image = image_memfds(build)?;
        let mut bulk: Vec<&Memfd> = image.iter().collect();
        for trial in trials {
            bulk.extend([&trial.data.inputs.memfd, &trial.outputs.memfd]);
        }
        let end = self.call_candidate(&request, &bulk, cancel)?;
        for trial in trials {
            trial.outputs.memfd.seal_write()?;
        }
        Ok(match end {
            ChildEnd::Reported(report) => Ok(report),
            ChildEnd::TimedOut => {
                let seconds = CANDIDATE_LIMITS.deadline.as_secs();
                let detail = format!("the public cases did not end within {seconds} s");
                Err((Verdict::failed(Reason::Timeout, detail), false))
            }
            ChildEnd::Broken(why) => Err((broken_here(&why), false)),
            ChildEnd::Crashed(why) | ChildEnd::Killed(why) => {
                let detail = format!("its process died: {why}");
                Err((Verdict::failed(Reason::Crash, detail), false))
            }
        })
    }

    /// Runs the candidate's child, again if somebody else killed it: that is never its fault.
    fn call_candidate(
        &self,
        request: &RunRequest,
        bulk: &[&Memfd],
        cancel: &CancelFlag,
    ) -> Result<ChildEnd<RunReport>, JudgeError> {
        for _ in 0..CANDIDATE_TRIES_MAX {
            let end = self.call(ChildKind::Candidate, request, bulk, &CANDIDATE_LIMITS, cancel)?;
            if !matches!(end, ChildEnd::Killed(_)) {
                return Ok(end);
            }
        }
        let why = format!("it was killed {CANDIDATE_TRIES_MAX} times in a row; is memory short?");
        Ok(ChildEnd::Broken(why))
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
            ChildEnd::Crashed(why) | ChildEnd::Killed(why) | ChildEnd::Broken(why) => {
                Err(JudgeError::Child { child, why })
            }
        }
    }
}

/// What a counted headline lacks of the task's own roofline, in words.
fn missing_work(evaluation: &Evaluation<'_>, counters: &Counters) -> Option<String> {
    let roofline = &evaluation.task.spec.roofline;
    let plan = &evaluation.candidate.plan;
    let bytes = at_headline(evaluation.task, &roofline.bytes);
    if counters.requested_bytes < BYTES_SHARE_MIN * bytes {
        let moved = counters.requested_bytes;
        return Some(format!(
            "the kernel moves {moved:.3e} bytes there, the task needs {bytes:.3e}"
        ));
    }
    // Other algorithms and classes may well execute fewer fp32 operations.
    let direct = plan.algorithm == Algorithm::Direct && plan.precision == Precision::Fp32;
    let flops = roofline.flops.get(&Precision::Fp32).filter(|_| direct);
    let flops = flops.map_or(0.0, |flops| at_headline(evaluation.task, flops));
    if counters.fp32_flops < FLOPS_SHARE_MIN * flops {
        let done = counters.fp32_flops;
        return Some(format!(
            "the kernel does {done:.3e} operations there, the task needs {flops:.3e}"
        ));
    }
    None
}

/// Value of a roofline expression at the headline. A checked task has one for every case.
fn at_headline(task: &Task, text: &str) -> f64 {
    let Some(headline) = task.spec.headline() else { return 0.0 };
    let parsed = Expression::parse(text, &task.spec.dim_names());
    let value = parsed.and_then(|parsed| parsed.integer(&Scope::of_dims(&headline.dims)));
    value.map_or(f64::INFINITY, |value| value as f64)
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
        initial: None,
    };
    RunCase {
        plan: trial.plan.clone(),
        inputs: task.spec.inputs.iter().map(input).collect(),
        outputs: task.spec.outputs.iter().map(output).collect(),
        poison: trial.poison,
        reversed: trial.poison != Poison::Ones,
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
            accumulation_unit: spec.accumulation_unit(precision),
            norm_limit: spec.norm_limit(precision),
            flush_denormals: spec.flush_denormals,
            poison: trial.poison,
        })
    };
    spec.outputs.iter().map(item).collect()
}
