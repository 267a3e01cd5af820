//! Baselines: one protocol for both interpreters, and numerics that depend on what was asked for
//! and not on what ran before.

use std::time::Duration;

use anyhow::{Context, anyhow};
use judge::{Acceptance, BaselineCall, BaselineTimes, CancelFlag, Evaluation};
use pipeline::acceptance::{Step, joined, next_step};
use pipeline::baseline::{BaselineId, MathMode};
use pipeline::comparison::Confidence;
use pipeline::limits::ROUNDS_MIN;
use pipeline::reply;
use pipeline::report::microseconds;
use pipeline::task::Task;
use pipeline::task::spec::Precision;
use pipeline::verdict::Reason;

use super::{Bench, Found, Shipped};
use crate::{embedded, wiring};

/// How far the two interpreters may be apart.
const PROTOCOL_TOLERANCE: f64 = 0.01;
/// How far two windows of one baseline may be apart, whatever ran before.
const ORDER_TOLERANCE: f64 = 0.03;
/// TF32 is worth at least so much where it is allowed; 7.3 was seen on an H200.
const TF32_GAIN_MIN: f64 = 3.0;
/// The limit of the norm-wise error that a task gives this class.
const TF32_NU: f64 = 1e-3;
/// Medians that were seen on an H200, strict and fast, in nanoseconds, and how far others may be.
const H200_NS: [f64; 2] = [2.7e6, 0.37e6];
const H200_TOLERANCE: f64 = 0.15;
/// Without graphs, trying more kernels must not lose more than this.
const AUTOTUNE_LOSS_MAX: f64 = 1.1;
/// What one window may take, compiling included.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);

/// The same work through the runner and through Python.
pub(super) fn protocol(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let same_work = embedded::SAME_WORK;
    let table = |function: &str| {
        format!("[[baseline]]\nname = \"own\"\npython = \"reference:{function}\"\n")
    };
    bench.item("cuBLAS sgemm", |bench| {
        let task = changed("matmul_f32", same_work, &table("sgemm"))?;
        compared(bench, &task, true)
    })?;
    bench.item("copy", |bench| compared(bench, &changed("gelu", same_work, &table("copy"))?, false))
}

fn compared(bench: &Bench<'_>, task: &Task, product: bool) -> anyhow::Result<Found> {
    let vendor = BaselineId::from_name("vendor-strict").context("a name")?;
    let master = bench.seed.master("headline", 0);
    let call = call(task, &vendor, &master)?;
    let cancel = CancelFlag::default();
    let by_runner = || {
        let times = match product {
            true => bench.judge.time_vendor(&call, &cancel)?,
            false => bench.judge.time_copy(&call, &cancel)?,
        };
        times.map_err(|why| anyhow!("by the runner: {why}"))
    };
    // In an order that cancels drift; a window's warm samples are few.
    let first = by_runner()?;
    let python = [0, 1].map(|_| timed(bench, task, "custom-own-strict"));
    let [python, python_again] = python;
    let (python, python_again, last) = (python?, python_again?, by_runner()?);
    let [by_python, by_runner] = [[&python, &python_again], [&first, &last]].map(Pair::of);
    let (by_python, by_runner) = (by_python?, by_runner?);
    let [cold, warm] = [by_python.cold / by_runner.cold, by_python.warm / by_runner.warm];
    let close = [cold, warm].into_iter().all(|it| (it - 1.0).abs() <= PROTOCOL_TOLERANCE);
    Ok(Found::new(close)
        .with("runner cold µs", microseconds(by_runner.cold))
        .with("Python cold µs", microseconds(by_python.cold))
        .with("apart", format!("{:+.2} %", 100.0 * (cold - 1.0)))
        .with("runner warm µs", microseconds(by_runner.warm))
        .with("Python warm µs", microseconds(by_python.warm))
        .with("apart warm", format!("{:+.2} %", 100.0 * (warm - 1.0)))
        .with("versions", versions(&python)))
}

/// Means over two windows, in nanoseconds.
struct Pair {
    cold: f64,
    warm: f64,
}

impl Pair {
    fn of(windows: [&BaselineTimes; 2]) -> anyhow::Result<Self> {
        let cold = windows.map(|times| times.cold.median_ns);
        let [first, second] = windows.map(|times| times.warm.map(|warm| warm.median_ns));
        let (first, second) = (first.context("no warm time")?, second.context("no warm time")?);
        Ok(Self { cold: 0.5 * (cold[0] + cold[1]), warm: 0.5 * (first + second) })
    }
}

/// Numerics in either order, and the modes of the compiler.
pub(super) fn fairness(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.item("fp32 product, strict and fast in either order", either_order)?;
    bench.item("softmax(gelu(x) * 2 + 1), compiled", compiler_modes)?;
    bench.item("TF32 product where only fp32 is admitted", rounded_in_strict)?;
    bench.item("TF32 product where TF32 is admitted", rounded_rivals)
}

/// The class is measured, whatever the plan says.
fn rounded_in_strict(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let judged =
        Shipped::new("matmul_f32", embedded::TF32)?.judged(&bench.judge, &bench.seed, 0)?;
    let refused = judged.verdict.reason == Some(Reason::Precision);
    let verdict = &judged.verdict;
    Ok(Found::new(refused).with("verdict", format!("{verdict}: {}", verdict.detail)))
}

/// A weaker class is compared with what may use it too: the pilots of an acceptance, and who of
/// them would enter its rounds.
fn rounded_rivals(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let shipped = rounding(embedded::TF32)?;
    let judged = shipped.judged(&bench.judge, &bench.seed, 0)?;
    let (judge, cancel) = (&bench.judge, CancelFlag::default());
    let rivals = shipped.with_evaluation(judge, &bench.seed, |evaluation: &Evaluation<'_>| {
        let acceptance = Acceptance {
            evaluation: *evaluation,
            rounds_max: ROUNDS_MIN,
            confidence: Confidence::default(),
            weaknesses: &[],
        };
        let mut protocol = judge.acceptance_protocol(&acceptance, &cancel)?;
        (protocol.groups, protocol.checks) = (Vec::new(), Vec::new());
        let mut entries = Vec::new();
        loop {
            match next_step(&protocol, &entries) {
                Step::Window { .. } | Step::Done => return Ok(joined(&protocol, &entries)),
                step => {
                    let entry =
                        judge.acceptance_step(&acceptance, &protocol, &entries, &step, &cancel)?;
                    entries.push(entry);
                }
            }
        }
    })?;
    let fast = !rivals.is_empty() && rivals.iter().all(|rival| rival.math == MathMode::Fast);
    let names: Vec<_> = rivals.iter().map(BaselineId::name).collect();
    Ok(Found::new(fast && judged.verdict.is_correct())
        .with("verdict", judged.verdict.to_string())
        .with("compared with", names.join(", ")))
}

/// The kernel as a plan that says what it does, for the task as one that admits it.
fn rounding(reply: &str) -> anyhow::Result<Shipped> {
    let reply = reply.replace("precision = \"fp32\"", "precision = \"tf32\"");
    let mut task = wiring::load_task("matmul_f32")?.task;
    task.spec.classes.push(Precision::Tf32);
    task.spec.gate.nu.insert(Precision::Tf32, TF32_NU);
    let parsed = reply::candidate(&reply, &task.signature());
    Ok(Shipped { candidate: parsed.map_err(|malformed| malformed.verdict()), task })
}

fn either_order(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let task = wiring::load_task("matmul_f32")?.task;
    let names = ["eager-strict", "eager-fast", "eager-fast", "eager-strict"];
    let times = names.map(|name| timed(bench, &task, name));
    let [strict, fast, fast_first, strict_after] = times;
    let (strict, fast, fast_first, strict_after) = (strict?, fast?, fast_first?, strict_after?);
    let pairs = [(&strict, &strict_after), (&fast, &fast_first)];
    let apart = pairs.map(|(one, other)| one.cold.median_ns / other.cold.median_ns - 1.0);
    let gain = strict.cold.median_ns / fast.cold.median_ns;
    let seen = [strict.cold.median_ns, fast.cold.median_ns];
    let near = |(seen, expected): (f64, f64)| (seen / expected - 1.0).abs() <= H200_TOLERANCE;
    let is_h200 = bench.sheets.first().is_some_and(|sheet| sheet.facts.model.contains("H200"));
    let known = !is_h200 || seen.into_iter().zip(H200_NS).all(near);
    let steady = apart.iter().all(|apart| apart.abs() <= ORDER_TOLERANCE);
    let flag =
        |times: &BaselineTimes| times.flags.get("matmul.allow_tf32").cloned().unwrap_or_default();
    Ok(Found::new(steady && known && gain >= TF32_GAIN_MIN)
        .with("strict µs", microseconds(strict.cold.median_ns))
        .with("fast µs", microseconds(fast.cold.median_ns))
        .with("fast first µs", microseconds(fast_first.cold.median_ns))
        .with("strict after it µs", microseconds(strict_after.cold.median_ns))
        .with("gain", format!("{gain:.2}x"))
        .with("allow_tf32 read back", format!("{}, {}", flag(&strict), flag(&fast)))
        .with("versions", versions(&strict)))
}

fn compiler_modes(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let table = "[[baseline]]\nname = \"graphs\"\npython = \"reference:graphs\"\n";
    let task = changed("softmax_rows", embedded::CHAIN, table)?;
    let names = ["eager-strict", "compile-strict", "max-autotune-strict", "custom-graphs-strict"];
    let [eager, compile, autotune, graphs] = names.map(|name| timed(bench, &task, name));
    let [eager, compile, autotune] = [eager?, compile?, autotune?].map(|it| it.cold.median_ns);
    // Shown only: what a mode may do that copies its inputs proves nothing.
    let graphs = graphs.map_or_else(|why| why.to_string(), |it| microseconds(it.cold.median_ns));
    let fair = compile < eager && autotune <= AUTOTUNE_LOSS_MAX * compile;
    Ok(Found::new(fair)
        .with("eager µs", microseconds(eager))
        .with("default µs", microseconds(compile))
        .with("max-autotune-no-cudagraphs µs", microseconds(autotune))
        .with("max-autotune with graphs µs", graphs))
}

fn timed(bench: &Bench<'_>, task: &Task, name: &str) -> anyhow::Result<BaselineTimes> {
    let baseline = BaselineId::from_name(name).context("a name")?;
    let master = bench.seed.master("headline", 0);
    let call = call(task, &baseline, &master)?;
    let times = bench.judge.time_baseline(&call, &CancelFlag::default())?;
    times.map_err(|why| anyhow!("{name}: {why}"))
}

fn call<'a>(
    task: &'a Task,
    baseline: &'a BaselineId,
    master: &'a pipeline::inputs::MasterSeed,
) -> anyhow::Result<BaselineCall<'a>> {
    let case = task.spec.headline().context("no headline")?;
    Ok(BaselineCall { task, case, baseline, master, deadline: DEADLINE })
}

pub(super) fn versions(times: &BaselineTimes) -> String {
    let each = times.versions.iter().map(|(name, version)| format!("{name} {version}"));
    each.collect::<Vec<_>>().join(", ")
}

/// A built-in task with another module, and baselines of its own.
fn changed(name: &str, module: &str, tables: &str) -> anyhow::Result<Task> {
    let mut files = wiring::load_task(name)?.files;
    let spec = files.get("task.toml").context("no task.toml")?;
    let spec = String::from_utf8(spec.clone())?.replace("[hidden]", &format!("{tables}\n[hidden]"));
    files.insert("task.toml".to_owned(), spec.into_bytes());
    files.insert("reference.py".to_owned(), module.as_bytes().to_vec());
    Ok(wiring::parse_task(files)?.task)
}

#[cfg(test)]
mod tests {
    use pipeline::baseline::BaselineId;

    use super::changed;
    use crate::embedded;

    #[test]
    fn the_rounding_kernel_has_a_plan_for_either_task() {
        let strict = super::Shipped::new("matmul_f32", embedded::TF32).unwrap();
        assert_eq!(strict.candidate.unwrap().plan.precision, super::Precision::Fp32);
        let admitted = super::rounding(embedded::TF32).unwrap();
        assert_eq!(admitted.candidate.unwrap().plan.precision, super::Precision::Tf32);
    }

    #[test]
    fn changed_tasks_are_tasks_and_name_what_their_modules_have() {
        for (task, module, function) in [
            ("matmul_f32", embedded::SAME_WORK, "sgemm"),
            ("gelu", embedded::SAME_WORK, "copy"),
            ("softmax_rows", embedded::CHAIN, "graphs"),
        ] {
            let table =
                format!("[[baseline]]\nname = \"own\"\npython = \"reference:{function}\"\n");
            let task = changed(task, module, &table).unwrap();
            assert!(task.spec.baselines.iter().any(|baseline| baseline.name == "own"));
            assert!(task.module.unwrap().contains(&format!("def {function}(")));
        }
        for name in ["vendor-strict", "custom-own-strict", "custom-graphs-strict"] {
            assert!(BaselineId::from_name(name).is_some(), "{name}");
        }
    }
}
