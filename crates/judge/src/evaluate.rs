//! The search stage: every public case under two distributions, outputs poisoned, then compared.
//!
//! Two children when the reference is cached: one runs all cases in turn and has the headline
//! counted or timed, one compares. The parts are in [`crate::trials`] and [`crate::headline`].

use std::collections::BTreeMap;
use std::time::Instant;

use pipeline::build::BuildFacts;
use pipeline::candidate::Candidate;
use pipeline::defence::Defence;
use pipeline::gate::{Integers, check_values};
use pipeline::hardware::HardwareSheet;
use pipeline::launch::{LaunchError, ResolvedPlan};
use pipeline::memory::Fitted;
use pipeline::report::{CaseReport, CaseStatus, GpuRecord, PartCost, Report, Score, Stage};
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::spec::{Case, Place};
use pipeline::verdict::{Reason, Verdict};
use sandbox::wire::{RunReport, WindowResult};
use sandbox::{CancelFlag, ChildKind};

use crate::decide::{case_report, case_reports, forgiven, verdict_of};
use crate::headline::{Concluded, Headline};
use crate::lengths::name_rounding;
use crate::trials::Trial;
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

/// Name of the case that counts for speed.
pub(crate) const HEADLINE: &str = "headline";

/// The public cases that run here, each with its plan in numbers.
struct ResolvedCases<'a> {
    plans: Vec<(&'a Case, ResolvedPlan)>,
    /// Cases that the plan's domain leaves out.
    notes: Vec<String>,
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
        let facts = self.facts_of(evaluation)?;
        if let Some(verdict) = &evaluation.build.verdict {
            return Ok(self.early(verdict.clone(), facts));
        }
        let resolved = match self.resolve_cases(evaluation, facts) {
            Ok(resolved) => resolved,
            Err(verdict) => return Ok(self.early(verdict, facts)),
        };
        let mut notes = resolved.notes;
        let started = Instant::now();
        let specs = self.search_trials(evaluation, resolved.plans);
        let trials = self.prepare_trials(evaluation, specs, cancel)?;
        let headline = self.headline(evaluation, cancel)?;
        let mut cost = vec![part("inputs and reference", started)];
        let ran = self.run_candidate(evaluation, facts, &trials, &headline, cancel)?;
        notes.extend(ran.note);
        cost.extend(ran.cost);
        let gpu = ran.gpu.map(|sheet| (record(&sheet, cost), sheet));
        let mut found = Found { cases: Vec::new(), score: Score::None, notes, gpu };
        let early = match ran.report {
            Ok(run) => {
                self.compare(evaluation, (&trials, &headline), run, &mut found, cancel)?;
                None
            }
            Err(end) => {
                let not_run = |trial| case_report(trial, CaseStatus::NotRun);
                found.cases = trials.iter().map(not_run).collect();
                Some(end)
            }
        };
        let early = early.filter(|_| self.config.policy.has(Defence::H));
        if !self.config.policy.has(Defence::H) {
            forgiven(&mut found.cases);
        }
        let by_cases = || (verdict_of(&found.cases), ran.repeatable);
        let (verdict, repeatable) = early.unwrap_or_else(by_cases);
        let score = if verdict.is_correct() { found.score } else { Score::None };
        let mut report = self.report(facts, found.cases, score, found.notes);
        report.gpu = found.gpu.map(|(record, _)| record);
        report.confinement = self.confinement_of(ChildKind::Candidate);
        report.held = self.held_in_judging();
        Ok(Judgement { verdict, report, repeatable })
    }

    /// Has the outputs of a run compared, and concludes from its headline.
    fn compare(
        &self,
        evaluation: &Evaluation<'_>,
        (trials, headline): (&[Trial<'_>], &Headline<'_>),
        run: RunReport,
        found: &mut Found,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        let started = Instant::now();
        let mut checks = self.verify(evaluation, trials, headline, &run, cancel)?;
        let compared = part("compare", started);
        let of_window = checks.split_off_window(trials, &run);
        found.cases = case_reports(trials, run.runs, checks.checks);
        name_rounding(evaluation, &mut found.cases);
        let concluded = match (headline, &run.sample, &run.window) {
            (Headline::Counted(Some(counted)), Some(sample), _) => {
                self.counted(evaluation, counted, sample)
            }
            (Headline::Timed(timed), _, Some(window)) => {
                let sheet = found.gpu.as_ref().map(|(_, sheet)| sheet);
                timed.conclude(evaluation, sheet, window, of_window)
            }
            (Headline::Untimed(why), _, _) => self.untimed(evaluation, why),
            // A case before it failed.
            (Headline::Counted(_) | Headline::Timed(_) | Headline::Left, _, _) => {
                Concluded::default()
            }
        };
        if let Some((record, _)) = &mut found.gpu {
            record.cost.extend(run.cost);
            record.cost.push(compared);
            if let (Some(window), Headline::Timed(timed)) = (run.window, headline) {
                note_window(record, window, timed.fitted());
            }
        }
        found.notes.extend(concluded.notes);
        found.cases.extend(concluded.cases);
        found.score = concluded.score;
        Ok(())
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
            gpu: None,
            promotion: None,
            ended: None,
            confinement: None,
            held: self.held_in_judging(),
        }
    }

    /// True for cases that run in full: on a GPU every one but the headline, which is timed.
    pub(crate) fn runs_here(&self, case: &Case) -> bool {
        match self.config.gpus {
            None => case.on.contains(&Place::Sim),
            Some(_) => case.on.contains(&Place::Gpu) && case.name != HEADLINE,
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
            let runs_here = self.runs_here(case);
            let plan = match self.resolve(evaluation, &case.dims) {
                Ok(plan) => plan,
                Err(LaunchError::Domain { condition }) if case.name != HEADLINE => {
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

    pub(crate) fn resolve(
        &self,
        evaluation: &Evaluation<'_>,
        dims: &BTreeMap<String, i64>,
    ) -> Result<ResolvedPlan, LaunchError> {
        let scope = Scope::of_dims(dims).with(evaluation.tunables).with_device(&self.config.device);
        evaluation.candidate.plan.resolve(&scope, &evaluation.task.signature())
    }
}

fn plan_verdict(case: &Case, why: &str) -> Verdict {
    Verdict::failed(Reason::Plan, format!("at the public case `{}`: {why}", case.name))
}

/// The wall time since `started` as a part's cost.
pub(crate) fn part(name: &str, started: Instant) -> PartCost {
    PartCost { part: name.to_owned(), ms: 1e3 * started.elapsed().as_secs_f64() }
}

pub(crate) fn record(sheet: &HardwareSheet, cost: Vec<PartCost>) -> GpuRecord {
    GpuRecord {
        uuid: sheet.uuid.clone(),
        driver: sheet.driver.clone(),
        before: None,
        after: None,
        cold: Vec::new(),
        warm: Vec::new(),
        cost,
        memory: None,
    }
}

/// Moves what a window told into the record of its card.
pub(crate) fn note_window(record: &mut GpuRecord, window: WindowResult, fitted: &Fitted) {
    record.memory = Some(fitted.clone());
    record.before = window.before;
    record.after = window.after;
    record.cold = window.cold;
    record.warm = window.warm;
    record.cost.extend(window.cost);
}

/// What an evaluation found so far.
struct Found {
    cases: Vec<CaseReport>,
    score: Score,
    notes: Vec<String>,
    /// The card's record, and what is known of it.
    gpu: Option<(GpuRecord, HardwareSheet)>,
}
