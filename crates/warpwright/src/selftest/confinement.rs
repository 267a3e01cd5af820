//! Confinement: what children reach, what holding them costs, and that a GPU works under each level
//! and each tool under its set.

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;
use judge::{
    BaselineCall, BaselineTimes, CancelFlag, ConfinementConfig, Evaluation, Judge, JudgeConfig,
    RunSeed, Sanitizer,
};
use pipeline::acceptance;
use pipeline::baseline::BaselineId;
use pipeline::confinement::LEVEL_MAX;
use pipeline::report::microseconds;
use pipeline::timing::median;
use sandbox::ChildKind;

use super::baselines::DEADLINE;
use super::{Bench, Found, Judged, Shipped, kernels};
use crate::embedded;

/// Children of each sort whose time is taken, and what the difference may be, in milliseconds.
const COST_ROUNDS: u32 = 30;
const COST_MAX_MS: f64 = 10.0;
/// Evaluations under each level, in turn with as many under none, and how far their medians may be
/// apart.
const ROUNDS: u64 = 5;
const APART_MAX: f64 = 0.01;
/// The kernel that is judged and watched.
const TASK: &str = "vector_add";

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.item("cost of a child", cost)?;
    for (kind, name) in [
        (ChildKind::Build, "reach of the compiler"),
        (ChildKind::Candidate, "reach of a candidate"),
        (ChildKind::Verify, "reach of the comparison"),
    ] {
        bench.item(name, |bench| reach(&bench.judge, kind))?;
    }
    if bench.is_simulated() {
        return Ok(());
    }
    for level in 0..=LEVEL_MAX {
        bench.item(&format!("GPU at level {level}"), |bench| at_level(bench, level))?;
        bench.item(&format!("another process at level {level}"), |bench| noticed(bench, level))?;
    }
    for level in (0..=LEVEL_MAX).rev() {
        bench.item(&format!("compute-sanitizer up to level {level}"), |it| sanitizer(it, level))?;
        bench.item(&format!("ncu up to level {level}"), |it| profiler(it, level))?;
    }
    for name in ["eager-strict", "compile-strict"] {
        bench.item(&format!("PyTorch {name} up to every level"), |it| pytorch(it, name))?;
    }
    Ok(())
}

fn cost(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let cost = bench.judge.confinement_cost(COST_ROUNDS, &CancelFlag::default())?;
    let more = cost.full_ms - cost.bare_ms;
    Ok(Found::new(more <= COST_MAX_MS)
        .with("bare ms", format!("{:.1}", cost.bare_ms))
        .with("confined ms", format!("{:.1}", cost.full_ms))
        .with("more ms", format!("{more:.1}"))
        .with("children", COST_ROUNDS.to_string()))
}

fn reach(judge: &Judge, kind: ChildKind) -> anyhow::Result<Found> {
    let reached = judge.reach(kind, &CancelFlag::default())?;
    let stops = reached.attempts.iter().map(|(what, stopped)| {
        format!("{what}: {}", stopped.as_deref().unwrap_or("nothing stopped it"))
    });
    Ok(Found::new(reached.open().is_empty())
        .with("held by", reached.confinement.to_string())
        .with("attempts", stops.collect::<Vec<_>>().join("; ")))
}

/// The judge of the self-test with layers up to a level.
fn judge_at(bench: &Bench<'_>, level_max: u8) -> Judge {
    let config = bench.judge.config().clone();
    let confinement = ConfinementConfig { level_max, ..config.confinement.clone() };
    Judge::new(JudgeConfig { confinement, ..config })
}

fn good_kernel() -> anyhow::Result<Shipped> {
    let all = embedded::selftest_kernels();
    let good = all.iter().find(|(task, name, _)| task == TASK && name == "good");
    let (_, _, reply) = good.context("a good kernel")?;
    Shipped::new(TASK, reply)
}

/// What held the candidate of an evaluation.
fn held(judged: &Judged) -> String {
    let report = judged.judgement.as_ref().map(|judgement| &judgement.report);
    let held = report.and_then(|report| report.confinement.as_ref());
    held.map(ToString::to_string).unwrap_or_default()
}

/// Verdict and times of one kernel under a level, beside those under none, in turn.
fn at_level(bench: &Bench<'_>, level: u8) -> anyhow::Result<Found> {
    let shipped = good_kernel()?;
    let judges = [judge_at(bench, level), judge_at(bench, 0)];
    let mut times = [Vec::new(), Vec::new()];
    let mut said = String::new();
    for index in 0..ROUNDS {
        for (i, judge) in judges.iter().enumerate() {
            let judged = shipped.judged(judge, &bench.seed, index)?;
            let Some(measured) = kernels::measured(&judged) else {
                let why = format!("{}: {}", judged.verdict, judged.verdict.detail);
                return Ok(Found::new(false).with("why", why).with("held by", held(&judged)));
            };
            times[i].push(measured.cold.median_ns);
            if i == 0 {
                said = held(&judged);
            }
        }
    }
    let [own, none] = times.map(|times| median(times).unwrap_or(f64::NAN));
    let apart = own / none - 1.0;
    Ok(Found::new(apart.abs() <= APART_MAX)
        .with("cold µs", microseconds(own))
        .with("at level 0", microseconds(none))
        .with("apart", format!("{:+.2} %", 100.0 * apart))
        .with("held by", said))
}

/// Whether a child that has a world of processes of its own still sees who else uses its card.
fn noticed(bench: &Bench<'_>, level: u8) -> anyhow::Result<Found> {
    let shipped = good_kernel()?;
    let other = in_another_queue(bench)?;
    let judge = judge_at(bench, level);
    let (done, mut most) = (AtomicBool::new(false), None);
    let evaluated = std::thread::scope(|scope| {
        let busy = || {
            while !done.load(Ordering::Relaxed) {
                if shipped.judged(&other, &bench.seed, 0).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().spawn_scoped(scope, busy)?;
        let evaluated = (0..ROUNDS).try_for_each(|index| {
            let judged = shipped.judged(&judge, &bench.seed, index)?;
            let gpu = judged.judgement.and_then(|judgement| judgement.report.gpu);
            let states = gpu.into_iter().flat_map(|gpu| [gpu.before, gpu.after]).flatten();
            most = most.max(states.filter_map(|state| state.foreign_processes).max());
            anyhow::Ok(())
        });
        done.store(true, Ordering::Relaxed);
        evaluated
    });
    evaluated?;
    let told = most.map_or_else(|| "nothing is told".to_owned(), |count| count.to_string());
    Ok(Found::new(most > Some(0)).with("other processes seen", told))
}

/// A judge on the same cards that does not wait for ours.
fn in_another_queue(bench: &Bench<'_>) -> anyhow::Result<Judge> {
    let config = bench.judge.config().clone();
    let mut gpus = config.gpus.clone().context("no GPU")?;
    gpus.lock_folder = bench.folder.join("other-locks");
    std::fs::create_dir_all(&gpus.lock_folder)?;
    Ok(Judge::new(JudgeConfig { gpus: Some(gpus), ..config }))
}

fn watched<T>(
    bench: &Bench<'_>,
    judge: &Judge,
    work: impl FnOnce(&Evaluation<'_>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    good_kernel()?.with_evaluation(judge, &bench.seed, work)
}

/// What held a tool.
fn with_record(judge: &Judge, set: &str, found: Found) -> Found {
    let records = judge.confinements();
    let record = records.iter().find(|held| held.set == set);
    found.with("held by", record.map(ToString::to_string).unwrap_or_default())
}

/// What memcheck says of the kernel up to a level; a tool that works under none is not available.
fn sanitizer(bench: &Bench<'_>, level: u8) -> anyhow::Result<Found> {
    let judge = judge_at(bench, level);
    let sanitized = |judge: &Judge| {
        watched(bench, judge, |evaluation| {
            let cancel = CancelFlag::default();
            Ok(judge.sanitized(evaluation, Sanitizer::Memcheck, &cancel)?.found)
        })
    };
    let found = match sanitized(&judge)? {
        acceptance::Found::Clean => Found::new(true),
        acceptance::Found::NotAvailable { why } => {
            let free = sanitized(&judge_at(bench, 0))?;
            lacking(&why, matches!(free, acceptance::Found::NotAvailable { .. }))
        }
        other => Found::new(false).with("found", format!("{other:?}")),
    };
    Ok(with_record(&judge, "compute-sanitizer", found))
}

/// A tool that gave nothing: the layers' fault where it works without them.
fn lacking(why: &str, also_free: bool) -> Found {
    if also_free { Found::not_available(why) } else { Found::new(false).with("why", why) }
}

/// The kernel's time by ncu up to a level, beside that under none.
fn profiler(bench: &Bench<'_>, level: u8) -> anyhow::Result<Found> {
    let judges = [judge_at(bench, level), judge_at(bench, 0)];
    let timed = |judge: &Judge| {
        watched(bench, judge, |evaluation| {
            let profiled = judge.profiled_launches(evaluation, &CancelFlag::default())?;
            Ok(profiled.map(|(launches, _)| median(launches).unwrap_or(f64::NAN)))
        })
    };
    let found = compared("ncu", timed(&judges[0])?, timed(&judges[1])?);
    Ok(with_record(&judges[0], "ncu", found))
}

/// What was timed up to a level and under none, or why it was not.
fn compared(name: &str, held: Result<f64, String>, free: Result<f64, String>) -> Found {
    match (held, free) {
        (Ok(held), Ok(free)) => beside(name, [held, free]),
        (Err(why), free) => lacking(&why, free.is_err()),
        (Ok(_), Err(why)) => Found::new(false).with("why at level 0", why),
    }
}

/// Two times of one thing, held and not held.
fn beside(name: &str, [held, free]: [f64; 2]) -> Found {
    let apart = held / free - 1.0;
    Found::new(apart.abs() <= APART_MAX)
        .with(&format!("{name} µs"), microseconds(held))
        .with("at level 0", microseconds(free))
        .with("apart", format!("{:+.2} %", 100.0 * apart))
}

/// PyTorch's times with every layer, beside those without.
fn pytorch(bench: &Bench<'_>, name: &str) -> anyhow::Result<Found> {
    let judges = [judge_at(bench, LEVEL_MAX), judge_at(bench, 0)];
    let timed = |judge: &Judge| {
        let times = timed_by_pytorch(bench, judge, name)?;
        anyhow::Ok(times.map(|times| times.cold.median_ns))
    };
    let found = compared(name, timed(&judges[0])?, timed(&judges[1])?);
    Ok(with_record(&judges[0], "python", found))
}

fn timed_by_pytorch(
    bench: &Bench<'_>,
    judge: &Judge,
    name: &str,
) -> anyhow::Result<Result<BaselineTimes, String>> {
    let task = crate::wiring::load_task(TASK)?.task;
    let case = task.spec.headline().context("no headline")?;
    let (baseline, master) = (BaselineId::from_name(name).context("a name")?, seed_of(&bench.seed));
    let call = BaselineCall {
        task: &task,
        case,
        baseline: &baseline,
        master: &master,
        deadline: DEADLINE,
    };
    Ok(judge.time_baseline(&call, &CancelFlag::default())?)
}

fn seed_of(seed: &RunSeed) -> pipeline::inputs::MasterSeed {
    seed.master("headline", 0)
}
