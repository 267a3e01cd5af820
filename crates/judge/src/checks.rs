//! What an acceptance looks at besides outputs and times.

use pipeline::acceptance::{Check, Entry, Found, Timed};
use pipeline::defence::Defence;
use pipeline::inputs::{Distribution, MasterSeed, Poison};
use pipeline::launch::{ResolvedPlan, ResolvedStep};
use pipeline::task::spec::Case;
use pipeline::timing::median;
use pipeline::verdict::Kind;
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::headline::WindowKind;
use crate::hidden::Runs;
use crate::limits::{EVICTION_TIE, HISTORY_CALLS, HISTORY_RATIO_MAX};
use crate::sanitizer::Sanitizer;
use crate::trials::TrialSpec;
use crate::{Judge, JudgeError};

impl Judge {
    /// The checks that an acceptance on this machine has.
    pub(crate) fn checks_here(&self, evaluation: &Evaluation<'_>) -> Vec<Check> {
        let policy = self.config.policy;
        let mut checks = Vec::new();
        if policy.has(Defence::E) {
            checks.push(Check::Timers);
        }
        if self.config.gpus.is_some() {
            checks.extend([Check::Memcheck, Check::Synccheck, Check::Racecheck]);
            checks.push(Check::Simulator);
        }
        if self.config.gpus.is_some() && policy.has(Defence::G) {
            checks.extend([Check::CallHistory, Check::Eviction, Check::ProfilerClock]);
        }
        if evaluation.candidate.plan.kernels().count() > 1 && policy.has(Defence::G) {
            checks.push(Check::DeadSteps);
        }
        checks
    }

    /// Looks at one thing, after these entries.
    pub(crate) fn look(
        &self,
        evaluation: &Evaluation<'_>,
        check: Check,
        entries: &[Entry],
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        match check {
            Check::DeadSteps => self.dead_steps(evaluation, cancel),
            Check::Timers => Ok(timers(evaluation)),
            Check::Memcheck => self.tool_found(evaluation, Sanitizer::Memcheck, cancel),
            Check::Synccheck => self.tool_found(evaluation, Sanitizer::Synccheck, cancel),
            Check::Racecheck => self.tool_found(evaluation, Sanitizer::Racecheck, cancel),
            Check::Simulator => self.on_simulator(evaluation, cancel),
            Check::CallHistory => self.call_history(evaluation, cancel),
            Check::Eviction => self.eviction(evaluation, cancel),
            Check::ProfilerClock => self.profiler_clock(evaluation, entries, cancel),
        }
    }

    fn tool_found(
        &self,
        evaluation: &Evaluation<'_>,
        tool: Sanitizer,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        Ok(self.sanitized(evaluation, tool, cancel)?.found)
    }

    /// Kernels whose absence changes no output bit.
    fn dead_steps(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let Some(facts) = &evaluation.build.facts else { return Ok(Found::Clean) };
        let Some(case) = self.largest_public(evaluation) else { return Ok(Found::Clean) };
        let Ok(whole) = self.plan_at(evaluation, facts, case) else { return Ok(Found::Clean) };
        for (index, step) in whole.steps.iter().enumerate() {
            let ResolvedStep::Kernel(launch) = step else { continue };
            let mut without = whole.clone();
            without.steps.remove(index);
            if self.gives_the_same(evaluation, case, &whole, without, cancel)? {
                let kernel = &launch.kernel;
                let detail = format!("step {} (`{kernel}`) changes no output", index + 1);
                return Ok(Found::Audits { detail });
            }
        }
        Ok(Found::Clean)
    }

    /// The public cases on the simulator, which watches every access of every thread.
    fn on_simulator(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let simulator = Judge::new(crate::JudgeConfig { gpus: None, ..self.config.clone() });
        let verdict = simulator.evaluate(evaluation, cancel)?.verdict;
        Ok(match (verdict.kind, verdict.reason) {
            (Kind::Correct, _) => Found::Clean,
            (Kind::Unsimulatable, _) => Found::NotAvailable { why: verdict.detail },
            // It is slower than a GPU by far, and may just not have been done.
            (Kind::Hung, _) => Found::NotAvailable { why: verdict.detail },
            (_, Some(reason)) => Found::Fails { reason, detail: verdict.detail },
            (_, None) => Found::NotAvailable { why: verdict.to_string() },
        })
    }

    /// Calls of one module whose variables are never reset: the first ones against the last.
    fn call_history(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let has_variables = evaluation.build.facts.as_ref().is_none_or(|it| it.static_bytes > 0);
        let Some(case) = self.largest_public(evaluation).filter(|_| has_variables) else {
            return Ok(Found::Clean);
        };
        let window = self.time_window(evaluation, case, WindowKind::History, cancel)?;
        let Some(gpu) = &window.gpu else { return Ok(unmeasured(&window.timed)) };
        let times: Vec<f64> = gpu.warm.iter().map(|sample| sample.elapsed_ns as f64).collect();
        let count = times.len();
        if count < HISTORY_CALLS as usize {
            return Ok(unmeasured(&window.timed));
        }
        // The first two also load instructions.
        let first = median(times[2..count / 4].to_vec()).unwrap_or(0.0);
        let last = median(times[count / 2..].to_vec()).unwrap_or(0.0);
        let ratio = first / last.max(1.0);
        if (1.0 / HISTORY_RATIO_MAX..=HISTORY_RATIO_MAX).contains(&ratio) {
            return Ok(Found::Clean);
        }
        let detail =
            format!("calls 3 to {} take {first:.0} ns, later ones {last:.0} ns", count / 4);
        Ok(Found::Audits { detail })
    }

    /// Where the kernel asks the cache to keep data: sets that nobody touched before against sets
    /// that come again.
    fn eviction(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let facts = evaluation.build.facts.as_ref();
        let keeps = |hint: &String| KEEPING_HINTS.iter().any(|keeping| hint.contains(keeping));
        let hinted = facts.is_some_and(|facts| facts.cache_hints.iter().any(keeps));
        let Some(case) = evaluation.task.spec.headline().filter(|_| hinted) else {
            return Ok(Found::Clean);
        };
        let rotating = self.time_window(evaluation, case, WindowKind::Search, cancel)?;
        let untouched = self.time_window(evaluation, case, WindowKind::Untouched, cancel)?;
        let (Some(rotating_ns), Some(untouched_ns)) = (rotating.median_ns(), untouched.median_ns())
        else {
            return Ok(unmeasured(&untouched.timed));
        };
        if untouched_ns <= (1.0 + EVICTION_TIE) * rotating_ns {
            return Ok(Found::Clean);
        }
        let detail = format!("{untouched_ns:.0} ns on fresh memory, {rotating_ns:.0} ns else");
        Ok(Found::Audits { detail })
    }

    fn largest_public<'a>(&self, evaluation: &Evaluation<'a>) -> Option<&'a Case> {
        let spec = &evaluation.task.spec;
        let cases = spec.cases.iter().filter(|case| self.runs_here(case));
        cases.max_by_key(|case| pipeline::hidden::tensor_bytes(spec, &case.dims).unwrap_or(0))
    }

    fn gives_the_same(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        whole: &ResolvedPlan,
        without: ResolvedPlan,
        cancel: &CancelFlag,
    ) -> Result<bool, JudgeError> {
        let master = MasterSeed(evaluation.seed.0).derive("dead steps");
        let spec = |plan: ResolvedPlan, twin_of| TrialSpec {
            case,
            plan,
            distribution: Distribution::D1,
            master,
            poison: Poison::Ones,
            continues: false,
            twin_of,
        };
        // What is left without a step may hang or fault, so it has a process of its own.
        let specs = vec![spec(whole.clone(), None), spec(without, Some(0))];
        let group = self.run_group(evaluation, Runs { specs, fresh_from: 1 }, cancel)?;
        Ok(group.verdict.is_correct() && group.deterministic)
    }
}

/// Hints that leave data in the cache for later.
const KEEPING_HINTS: [&str; 2] = ["evict_last", "createpolicy"];

fn unmeasured(timed: &Timed) -> Found {
    let why = match timed {
        Timed::Void(why) | Timed::NotAvailable(why) => why.clone(),
        Timed::Failed(verdict) => format!("{verdict}: {}", verdict.detail),
        Timed::Measured { .. } => "too few samples".to_owned(),
    };
    Found::NotAvailable { why }
}

/// A kernel that reads a timer has no use for it, and every timed output is compared anyway.
fn timers(evaluation: &Evaluation<'_>) -> Found {
    let Some(facts) = &evaluation.build.facts else { return Found::Clean };
    let is_timer = |name: &str| name.starts_with("%clock") || name.starts_with("%globaltimer");
    let found = facts.special_registers.iter().find(|register| is_timer(&register.name));
    match found {
        // The library's barriers and pipelines read it to give up waiting.
        Some(register) if register.name.starts_with("%globaltimer") && waits(evaluation) => {
            Found::Notes { detail: format!("`{}` reads {}", register.origin, register.name) }
        }
        Some(register) => {
            Found::Audits { detail: format!("`{}` reads {}", register.origin, register.name) }
        }
        None => Found::Clean,
    }
}

/// True for kernels that use the asynchronous barriers whose waiting loop reads a timer.
fn waits(evaluation: &Evaluation<'_>) -> bool {
    String::from_utf8_lossy(&evaluation.build.ptx).contains("mbarrier")
}
