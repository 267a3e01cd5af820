//! Trials that nobody was shown: shapes and contents drawn afresh, each run twice, then a history.
//!
//! The two runs of a trial differ in everything that must not matter: garbage in outputs and
//! workspaces, the place of the buffers, the order of blocks. Start at [`Judge::run_group`].

use std::collections::BTreeMap;

use pipeline::build::BuildFacts;
use pipeline::check::OutputCheck;
use pipeline::gate::{Integers, check_values};
use pipeline::hidden::{self, HiddenShape};
use pipeline::inputs::{Distribution, MasterSeed, Poison};
use pipeline::launch::{LaunchError, ResolvedPlan};
use pipeline::limits::NORM_ELEMENTS_MIN;
use pipeline::report::{CaseReport, CaseStatus};
use pipeline::task::spec::{Case, Place, Precision, TaskSpec};
use pipeline::verdict::{Reason, Verdict};
use sandbox::CancelFlag;
use sandbox::wire::{RunEnd, RunReport, RunResult, Spread};

use crate::compared::Checks;
use crate::decide::{case_report, case_reports, forgiven};
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::lengths::name_rounding;
use crate::limits::SPREAD_SHARE_MAX;
use crate::trials::{Trial, TrialSpec};
use crate::{Judge, JudgeError};
use pipeline::defence::Defence;

/// What a group of trials came to.
pub(crate) struct Group {
    pub(crate) cases: Vec<CaseReport>,
    pub(crate) verdict: Verdict,
    /// False when equal inputs gave other bits, within the gates.
    pub(crate) deterministic: bool,
    /// False when the end depended on the state of the machine.
    pub(crate) repeatable: bool,
    /// Largest norm-wise error where it tells precision classes apart, by output.
    pub(crate) errors: BTreeMap<String, f64>,
    /// What of it could not be probed, each with the reason.
    pub(crate) unprobed: Vec<String>,
}

impl Group {
    /// A group that has nothing to run here.
    pub(crate) fn passed() -> Self {
        Self::early(Verdict::correct())
    }

    /// A group that needed no run.
    pub(crate) fn early(verdict: Verdict) -> Self {
        let (cases, errors, unprobed) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { cases, verdict, deterministic: true, repeatable: true, errors, unprobed }
    }

    /// A group without anything to probe: it neither passes nor fails, and says why.
    pub(crate) fn unprobed(why: &str) -> Self {
        Self { unprobed: vec![why.to_owned()], ..Self::passed() }
    }
}

/// A list of runs, and the index from which they have a process of their own.
pub(crate) struct Runs<'a> {
    pub(crate) specs: Vec<TrialSpec<'a>>,
    pub(crate) fresh_from: usize,
}

impl Judge {
    /// Draws hidden shapes inside the plan's domain as cases; the names tell no more than a number.
    pub(crate) fn hidden_cases(
        &self,
        evaluation: &Evaluation<'_>,
        secret: &MasterSeed,
        count: usize,
        bytes_max: u64,
    ) -> Vec<(Case, HiddenShape)> {
        if !self.config.policy.has(Defence::F) {
            return Vec::new();
        }
        let place = match self.config.gpus {
            Some(_) => Place::Gpu,
            None => Place::Sim,
        };
        let admits = |dims: &hidden::Dims| self.admits(evaluation, dims);
        let spec = &evaluation.task.spec;
        let shapes = hidden::draw(spec, place, bytes_max, secret, count, &admits);
        let case = |(index, shape): (usize, HiddenShape)| {
            let (name, dims) = (format!("hidden {}", index + 1), shape.dims.clone());
            (Case { name, dims, weight: 0.0, on: vec![place] }, shape)
        };
        shapes.into_iter().enumerate().map(case).collect()
    }

    /// Data without anything special: what a shape or a history is tried on.
    pub(crate) fn plain_distribution(&self) -> Distribution {
        match self.config.policy.has(Defence::F) {
            true => Distribution::D1,
            false => Distribution::Uniform,
        }
    }

    /// The distributions besides the plain one that say something about the task.
    pub(crate) fn other_distributions(&self, evaluation: &Evaluation<'_>) -> Vec<Distribution> {
        match self.config.policy.has(Defence::F) {
            true => Distribution::others(&evaluation.task.spec),
            false => Vec::new(),
        }
    }

    /// True where the plan's domain holds; other errors of the plan are the candidate's.
    pub(crate) fn admits(&self, evaluation: &Evaluation<'_>, dims: &hidden::Dims) -> bool {
        !matches!(self.resolve(evaluation, dims), Err(LaunchError::Domain { .. }))
    }

    /// True for cases that the plan's domain does not leave out.
    pub(crate) fn is_inside(&self, evaluation: &Evaluation<'_>, case: &Case) -> bool {
        self.admits(evaluation, &case.dims)
    }

    /// The facts of a build that passed the gate; what did not is never run.
    pub(crate) fn facts_of<'e>(
        &self,
        evaluation: &Evaluation<'e>,
    ) -> Result<&'e BuildFacts, JudgeError> {
        evaluation.build.facts.as_ref().ok_or_else(|| {
            let why = "a build without facts was to be run".to_owned();
            JudgeError::Child { child: "candidate", why }
        })
    }

    /// The plan at a case; a verdict where it has none.
    pub(crate) fn plan_at(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        case: &Case,
    ) -> Result<ResolvedPlan, Verdict> {
        let failed = |why: String| Verdict::failed(Reason::Shape, format!("{}: {why}", case.name));
        let plan = self.resolve(evaluation, &case.dims).map_err(|it| failed(it.to_string()))?;
        check_values(facts, &plan, Integers::NonNegative).map_err(failed)?;
        Ok(plan)
    }

    /// Runs specs in one process, those from `fresh_from` on in another, and has all compared.
    pub(crate) fn run_group(
        &self,
        evaluation: &Evaluation<'_>,
        runs: Runs<'_>,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let trials = self.prepare_trials(evaluation, runs.specs, cancel)?;
        self.run_trials(evaluation, &trials, runs.fresh_from, cancel)
    }

    /// As [`Self::run_group`], for trials that are ready.
    pub(crate) fn run_trials(
        &self,
        evaluation: &Evaluation<'_>,
        trials: &[Trial<'_>],
        fresh_from: usize,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let facts = self.facts_of(evaluation)?;
        let mut results: Vec<RunResult> = Vec::new();
        let mut repeatable = true;
        let (together, apart) = trials.split_at(fresh_from.min(trials.len()));
        for part in [together, apart].into_iter().filter(|part| !part.is_empty()) {
            let ran = self.run_candidate(evaluation, facts, part, &Headline::Left, cancel)?;
            repeatable &= ran.repeatable;
            match ran.report {
                Ok(report) => results.extend(all_of(part.len(), report.runs)?),
                Err(_) if !self.config.policy.has(Defence::H) => return Ok(Group::passed()),
                Err((verdict, again)) => {
                    let mut group = Group::early(verdict);
                    group.cases = trials.iter().map(not_run).collect();
                    group.repeatable = repeatable && again;
                    return Ok(group);
                }
            }
            if results.iter().any(|result| result.end != RunEnd::Completed) {
                break;
            }
        }
        let report =
            RunReport { runs: results, sample: None, window: None, tiles: None, cost: Vec::new() };
        let checks = self.verify(evaluation, trials, &Headline::Left, &report, cancel)?;
        let mut group = self.grouped(evaluation, trials, report, checks);
        group.repeatable &= repeatable;
        Ok(group)
    }

    fn grouped(
        &self,
        evaluation: &Evaluation<'_>,
        trials: &[Trial<'_>],
        report: RunReport,
        checks: Checks,
    ) -> Group {
        let completed = report.runs.iter().filter(|it| it.end == RunEnd::Completed).count();
        let spreads = spreads_of(&trials[..completed.min(trials.len())], &checks.spreads);
        let mut cases = case_reports(trials, report.runs, checks.checks);
        name_rounding(evaluation, &mut cases);
        if !self.config.policy.has(Defence::H) {
            forgiven(&mut cases);
        }
        let mut verdict = hidden_verdict(&cases);
        let mut deterministic = true;
        let promised = evaluation.candidate.plan.deterministic;
        for (trial, spread) in trials.iter().zip(spreads) {
            let Some(spread) = spread.filter(|spread| !spread.equal_bits) else { continue };
            deterministic = false;
            let apart = promised || spread.ratio > SPREAD_SHARE_MAX;
            if verdict.is_correct() && apart {
                verdict = unstable(trial, &spread);
            }
        }
        let errors = errors_of(&cases);
        let unprobed = Vec::new();
        Group { cases, verdict, deterministic, repeatable: true, errors, unprobed }
    }

    /// The runs of one case: each distribution twice, and the first once more in a process of its
    /// own.
    pub(crate) fn case_runs<'a>(
        &self,
        case: &'a Case,
        plan: &ResolvedPlan,
        distributions: &[Distribution],
        secret: &MasterSeed,
    ) -> Runs<'a> {
        let mut specs = Vec::new();
        for distribution in distributions {
            let master = secret.derive(&format!("{}/{distribution:?}", case.name));
            for poison in [Poison::Ones, garbage(&master)] {
                let twin_of = (poison != Poison::Ones).then(|| specs.len() - 1);
                specs.push(TrialSpec {
                    case,
                    plan: plan.clone(),
                    distribution: *distribution,
                    master,
                    poison,
                    continues: false,
                    twin_of,
                });
            }
        }
        let fresh_from = specs.len();
        Runs { specs, fresh_from }
    }

    /// Three calls of one module on contents A, B, A: the third must give what the first gave.
    pub(crate) fn history_runs<'a>(
        &self,
        case: &'a Case,
        plan: &ResolvedPlan,
        secret: &MasterSeed,
    ) -> Runs<'a> {
        let [first, second] = ["history A", "history B"].map(|label| secret.derive(label));
        let spec = |master: MasterSeed, index: usize| TrialSpec {
            case,
            plan: plan.clone(),
            distribution: self.plain_distribution(),
            master,
            poison: if index == 1 { garbage(&master) } else { Poison::Ones },
            continues: index > 0,
            twin_of: (index == 2).then_some(0),
        };
        let specs = vec![spec(first, 0), spec(second, 1), spec(first, 2)];
        Runs { fresh_from: specs.len(), specs }
    }
}

/// The runs, as many as were asked for unless one of them went wrong: those that follow are paired
/// with their trials by their order.
fn all_of(asked: usize, runs: Vec<RunResult>) -> Result<Vec<RunResult>, JudgeError> {
    let completed = runs.iter().all(|run| run.end == RunEnd::Completed);
    if runs.len() > asked || completed && runs.len() < asked {
        let why = format!("it reports {} runs of {asked}", runs.len());
        return Err(JudgeError::Child { child: "candidate", why });
    }
    Ok(runs)
}

/// The class that errors reach: the strongest whose limit all of them meet; `None` where the task
/// gives no limits, or nothing told.
pub(crate) fn measured_class(spec: &TaskSpec, errors: &BTreeMap<String, f64>) -> Option<Precision> {
    let worst = errors.values().copied().reduce(f64::max)?;
    let mut limits: Vec<_> = spec.gate.nu.iter().collect();
    limits.sort_by(|a, b| a.0.cmp(b.0));
    let met = limits.into_iter().find(|(_, limit)| worst <= **limit);
    met.map(|(class, _)| *class)
}

/// Finite values from a seed of their own.
pub(crate) fn garbage(master: &MasterSeed) -> Poison {
    let secret = master.derive("garbage").0;
    Poison::Values(u64::from_le_bytes(std::array::from_fn(|at| secret[at])))
}

fn not_run(trial: &Trial<'_>) -> CaseReport {
    case_report(trial, CaseStatus::NotRun)
}

/// The largest spread of each trial over its outputs.
fn spreads_of(trials: &[Trial<'_>], spreads: &[Option<Spread>]) -> Vec<Option<Spread>> {
    let mut left = spreads.iter();
    let of_trial = |trial: &Trial<'_>| {
        let own = left.by_ref().take(trial.outputs.places.len()).flatten();
        own.copied().reduce(|a, b| Spread {
            equal_bits: a.equal_bits && b.equal_bits,
            ratio: a.ratio.max(b.ratio),
        })
    };
    trials.iter().map(of_trial).collect()
}

fn unstable(trial: &Trial<'_>, spread: &Spread) -> Verdict {
    let reason = if trial.is_later_call() { Reason::State } else { Reason::Nondet };
    let (case, distribution) = (&trial.case.name, trial.distribution);
    let apart = spread.ratio;
    let detail = format!(
        "case `{case}`, {distribution:?}: two runs on equal inputs are {apart:.2e} tolerances apart"
    );
    Verdict::failed(reason, detail)
}

/// The first failure in the words for hidden cases: a shape that fails already on plain data, a
/// distribution that fails where plain data pass, a call that fails where the first one passed.
fn hidden_verdict(cases: &[CaseReport]) -> Verdict {
    let Some((index, report)) =
        cases.iter().enumerate().find(|(_, report)| report.status != CaseStatus::Passed)
    else {
        return Verdict::correct();
    };
    let (reason, detail) = match &report.status {
        CaseStatus::Passed => return Verdict::correct(),
        CaseStatus::NotRun => (Reason::Crash, "it was not run".to_owned()),
        CaseStatus::Failed { reason, detail } => (*reason, detail.clone()),
    };
    let plain_passes = cases[..index].iter().any(|other| {
        other.case == report.case
            && other.distribution == Distribution::D1
            && other.status == CaseStatus::Passed
    });
    let plain = report.distribution == Distribution::D1;
    let reason = match reason {
        Reason::Mismatch | Reason::Nonfinite if plain => Reason::Shape,
        Reason::Mismatch | Reason::Nonfinite | Reason::Precision if plain_passes => Reason::Dist,
        Reason::Precision if !report.distribution.tells_classes() => Reason::Dist,
        other => other,
    };
    let place = format!("case `{}`, {:?}", report.case, report.distribution);
    Verdict::failed(reason, format!("{place}: {detail}"))
}

fn errors_of(cases: &[CaseReport]) -> BTreeMap<String, f64> {
    let mut errors = BTreeMap::new();
    let telling = cases.iter().filter(|case| case.distribution.tells_classes());
    // In fewer elements the error of one rules the norm, and no limit is held against it.
    let long = |check: &&OutputCheck| check.compared >= NORM_ELEMENTS_MIN;
    for check in telling.flat_map(|case| &case.checks).filter(long) {
        let worst: &mut f64 = errors.entry(check.output.clone()).or_default();
        *worst = worst.max(check.norm_error).max(check.worst_part_error);
    }
    errors
}

#[cfg(test)]
mod tests;
