//! What an acceptance looks at besides outputs and times.

use pipeline::acceptance::{Check, Entry, Found, Timed};
use pipeline::defence::Defence;
use pipeline::growth::{Growth, SizedTime, grows_into_room, growth_of, halved};
use pipeline::hardware::Floor;
use pipeline::inputs::{Distribution, MasterSeed, Poison};
use pipeline::launch::{ResolvedPlan, ResolvedStep};
use pipeline::task::spec::Case;
use pipeline::timing::median;
use pipeline::verdict::{Kind, Verdict};
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::headline::WindowKind;
use crate::hidden::Runs;
use crate::limits::{EVICTION_TIE, HISTORY_CALLS, HISTORY_RATIO_MAX};
use crate::sanitizer::Sanitizer;
use crate::timers::timers;
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
            checks.extend([Check::CallHistory, Check::Eviction, Check::Growth]);
            checks.push(Check::ProfilerClock);
        }
        if evaluation.candidate.plan.kernels().count() > 1 && policy.has(Defence::G) {
            checks.push(Check::DeadSteps);
        }
        if policy.has(Defence::F) {
            checks.push(Check::BigShape);
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
            Check::Timers => {
                let (facts, build) = (self.facts_of(evaluation)?, evaluation.build);
                Ok(timers(facts, &evaluation.candidate.source, &build.ptx))
            }
            Check::Memcheck => self.tool_found(evaluation, Sanitizer::Memcheck, cancel),
            Check::Synccheck => self.tool_found(evaluation, Sanitizer::Synccheck, cancel),
            Check::Racecheck => self.tool_found(evaluation, Sanitizer::Racecheck, cancel),
            Check::Simulator => self.on_simulator(evaluation, cancel),
            Check::CallHistory => self.call_history(evaluation, cancel),
            Check::Eviction => self.eviction(evaluation, cancel),
            Check::Growth => self.growth(evaluation, cancel),
            Check::ProfilerClock => self.profiler_clock(evaluation, entries, cancel),
            Check::BigShape => self.big_shape(evaluation, cancel),
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
        let facts = self.facts_of(evaluation)?;
        let Some(case) = self.largest_public(evaluation) else { return Ok(no_case()) };
        let whole = match self.plan_at(evaluation, facts, case) {
            Ok(whole) => whole,
            Err(verdict) => return Ok(Found::NotAvailable { why: verdict.detail }),
        };
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
        Ok(said_by_simulator(simulator.evaluate(evaluation, cancel)?.verdict))
    }

    /// Calls of one module whose variables are never reset: the first ones against the last.
    fn call_history(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        if self.facts_of(evaluation)?.static_bytes == 0 {
            return Ok(Found::Clean);
        }
        let Some(case) = self.largest_public(evaluation) else { return Ok(no_case()) };
        let window = self.time_window(evaluation, case, WindowKind::History, cancel)?;
        let (Timed::Measured { .. }, Some(gpu)) = (&window.timed, &window.gpu) else {
            return Ok(without_time(&window.timed));
        };
        let times: Vec<f64> = gpu.warm.iter().map(|sample| sample.elapsed_ns as f64).collect();
        let count = times.len();
        if count < HISTORY_CALLS as usize {
            let why = format!("{count} of {HISTORY_CALLS} calls were timed");
            return Ok(Found::NotAvailable { why });
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
        let keeps = |hint: &String| KEEPING_HINTS.iter().any(|keeping| hint.contains(keeping));
        if !self.facts_of(evaluation)?.cache_hints.iter().any(keeps) {
            return Ok(Found::Clean);
        }
        let Some(case) = evaluation.task.spec.headline() else {
            return Ok(Found::NotAvailable { why: "the task has no headline".to_owned() });
        };
        let rotating = self.time_window(evaluation, case, WindowKind::Search, cancel)?;
        let untouched = self.time_window(evaluation, case, WindowKind::Untouched, cancel)?;
        let Some(rotating_ns) = rotating.median_ns() else {
            return Ok(without_time(&rotating.timed));
        };
        let Some(untouched_ns) = untouched.median_ns() else {
            return Ok(without_time(&untouched.timed));
        };
        if untouched_ns <= (1.0 + EVICTION_TIE) * rotating_ns {
            return Ok(Found::Clean);
        }
        let detail = format!("{untouched_ns:.0} ns on fresh memory, {rotating_ns:.0} ns else");
        Ok(Found::Audits { detail })
    }

    /// The headline against half of it.
    fn growth(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let large = evaluation.task.spec.headline();
        let small = large.and_then(halved).filter(|case| self.is_inside(evaluation, case));
        let (Some(large), Some(small)) = (large, &small) else {
            let why = "no other size is inside the plan's domain".to_owned();
            return Ok(Found::NotAvailable { why });
        };
        if self.has_room_to_grow(evaluation, [small, large])? {
            let why = "half of the headline does not fill the card, so more costs no time";
            return Ok(Found::NotAvailable { why: why.to_owned() });
        }
        let mut sizes = Vec::new();
        for case in [small, large] {
            let window = self.time_window(evaluation, case, WindowKind::Search, cancel)?;
            let uuid = window.gpu.as_ref().map(|gpu| gpu.uuid.as_str());
            let Some(ns) = window.median_ns() else { return Ok(without_time(&window.timed)) };
            let Some(floor) = self.floor_on(uuid, evaluation, case)? else {
                let why = format!("no floor is known for `{}` on this card", case.name);
                return Ok(Found::NotAvailable { why });
            };
            sizes.push(SizedTime { floor, ns });
        }
        Ok(match growth_of(&sizes[0], &sizes[1]) {
            Growth::StandsStill(detail) => Found::Audits { detail },
            Growth::Grows => Found::Clean,
            Growth::Unknown(why) => Found::NotAvailable { why: why.to_owned() },
        })
    }

    /// True where the larger case only puts more blocks beside those of the smaller one.
    fn has_room_to_grow(
        &self,
        evaluation: &Evaluation<'_>,
        [small, large]: [&Case; 2],
    ) -> Result<bool, JudgeError> {
        let facts = self.facts_of(evaluation)?;
        let plans = [small, large].map(|case| self.plan_at(evaluation, facts, case));
        let [Ok(small), Ok(large)] = plans else { return Ok(false) };
        Ok(grows_into_room([&small, &large], facts, &self.config.device))
    }

    /// The floor of a case on a card of this judge.
    fn floor_on(
        &self,
        uuid: Option<&str>,
        evaluation: &Evaluation<'_>,
        case: &Case,
    ) -> Result<Option<Floor>, JudgeError> {
        let mut sheets = self.config.gpus.iter().flat_map(|gpus| &gpus.sheets);
        let sheet = sheets.find(|sheet| Some(sheet.uuid.as_str()) == uuid);
        let (spec, class) = (&evaluation.task.spec, evaluation.candidate.plan.precision);
        let mma_types = &self.facts_of(evaluation)?.mma_types;
        Ok(sheet.and_then(|sheet| sheet.floor(spec, case, class, mma_types)))
    }

    /// The largest public case inside the plan's domain.
    fn largest_public<'a>(&self, evaluation: &Evaluation<'a>) -> Option<&'a Case> {
        let spec = &evaluation.task.spec;
        let here = spec.cases.iter().filter(|case| self.runs_here(case));
        let cases = here.filter(|case| self.is_inside(evaluation, case));
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

/// What the simulator's verdict means for a kernel that a GPU found correct.
fn said_by_simulator(verdict: Verdict) -> Found {
    let not_available = |why: String| Found::NotAvailable { why };
    match (verdict.kind, verdict.reason) {
        (Kind::Correct, _) => Found::Clean,
        (Kind::Unsimulatable, _) => not_available(verdict.detail),
        // It is slower than a GPU by far, and may just not have been done.
        (Kind::Hung, _) => not_available(verdict.detail),
        // The plan holds on the GPU: what is wrong with it here is that its domain has none of the
        // simulator's cases, or what such a small device lacks.
        (Kind::Malformed | Kind::LaunchFailed, _) => {
            not_available(format!("the simulator cannot run the plan: {}", verdict.detail))
        }
        (_, Some(reason)) => Found::Fails { reason, detail: verdict.detail },
        (_, None) => not_available(verdict.to_string()),
    }
}

fn no_case() -> Found {
    Found::NotAvailable { why: "no public case inside the plan's domain runs here".to_owned() }
}

/// Hints that leave data in the cache for later.
const KEEPING_HINTS: [&str; 2] = ["evict_last", "createpolicy"];

/// What a window that gave no time says: wrong outputs in it reject the kernel.
fn without_time(timed: &Timed) -> Found {
    match timed {
        Timed::Void(why) | Timed::NotAvailable(why) => Found::NotAvailable { why: why.clone() },
        Timed::Failed(Verdict { reason: Some(reason), detail, .. }) => {
            Found::Fails { reason: *reason, detail: detail.clone() }
        }
        Timed::Failed(verdict) => Found::NotAvailable { why: verdict.to_string() },
        Timed::Measured { .. } => Found::NotAvailable { why: "too few samples".to_owned() },
    }
}

#[cfg(test)]
mod tests {
    use pipeline::acceptance::Found;
    use pipeline::verdict::{Reason, Verdict};

    use super::said_by_simulator;

    #[test]
    fn only_what_the_simulator_saw_is_held_against_a_kernel() {
        assert_eq!(said_by_simulator(Verdict::correct()), Found::Clean);
        for reason in Reason::ALL {
            let said = said_by_simulator(Verdict::failed(reason, "why"));
            let fails = matches!(said, Found::Fails { reason: found, .. } if found == reason);
            let silent = match reason {
                Reason::Plan | Reason::Launch | Reason::Reply => true,
                Reason::Unsupported | Reason::Timeout => true,
                Reason::Static | Reason::Compile | Reason::Guard | Reason::Crash => false,
                Reason::Mismatch | Reason::Poison | Reason::Input | Reason::Nonfinite => false,
                Reason::Shape | Reason::Dist | Reason::Precision => false,
                Reason::Nondet | Reason::State => false,
            };
            assert_eq!((fails, matches!(said, Found::NotAvailable { .. })), (!silent, silent));
        }
    }
}
