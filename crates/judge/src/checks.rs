//! What an acceptance looks at besides outputs and times.

use pipeline::acceptance::{Check, Found};
use pipeline::defence::Defence;
use pipeline::inputs::{Distribution, MasterSeed, Poison};
use pipeline::launch::{ResolvedPlan, ResolvedStep};
use pipeline::task::spec::Case;
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::hidden::Runs;
use crate::trials::TrialSpec;
use crate::{Judge, JudgeError};

impl Judge {
    /// The checks that an acceptance on this machine has.
    pub(crate) fn checks_here(&self, evaluation: &Evaluation<'_>) -> Vec<Check> {
        let policy = self.config.policy;
        let several = evaluation.candidate.plan.kernels().count() > 1;
        let timers = policy.has(Defence::E).then_some(Check::Timers);
        let dead = (several && policy.has(Defence::G)).then_some(Check::DeadSteps);
        timers.into_iter().chain(dead).collect()
    }

    /// Looks at one thing.
    pub(crate) fn look(
        &self,
        evaluation: &Evaluation<'_>,
        check: Check,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        match check {
            Check::DeadSteps => self.dead_steps(evaluation, cancel),
            Check::Timers => Ok(timers(evaluation)),
            Check::Memcheck | Check::Initcheck | Check::Synccheck | Check::Racecheck => {
                Ok(not_yet("compute-sanitizer"))
            }
            Check::Simulator => Ok(not_yet("the simulator beside a GPU")),
            Check::CallHistory => Ok(not_yet("times by the number of the call")),
            Check::Eviction => Ok(not_yet("a set that was never touched")),
            Check::ProfilerClock => Ok(not_yet("ncu")),
            Check::Scaling => Ok(not_yet("times of other sizes")),
        }
    }

    /// Kernels whose absence changes no output bit.
    fn dead_steps(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let Some(facts) = &evaluation.build.facts else { return Ok(Found::Clean) };
        let cases = evaluation.task.spec.cases.iter().filter(|case| self.runs_here(case));
        let sized = cases.max_by_key(|case| {
            pipeline::hidden::tensor_bytes(&evaluation.task.spec, &case.dims).unwrap_or(0)
        });
        let Some(case) = sized else { return Ok(Found::Clean) };
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

fn not_yet(what: &str) -> Found {
    Found::NotAvailable { why: format!("{what} is not looked at by this version") }
}
