//! What one evaluation costs, beside the way in which PyTorch programs build a kernel.

use std::sync::Arc;

use std::process::Stdio;

use judge::CancelFlag;
use pipeline::hardware::HardwareSheet;
use pipeline::timing::median;
use serde_json::{Value, json};

use super::{Bench, Found, Judged, Shipped};
use crate::embedded;
use crate::limits::LOAD_INLINE_OUTPUT_BYTES_MAX;

/// Evaluations that count; one before them fills the caches.
const EVALUATIONS: u64 = 5;
/// The most that the median may be, in milliseconds.
const LIMIT_MS: f64 = 1_500.0;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let good: Vec<_> =
        embedded::selftest_kernels().into_iter().filter(|(_, name, _)| name == "good").collect();
    for (task, _, reply) in &good {
        bench.item(task, |bench| own(bench, task, reply))?;
    }
    let judge = Arc::clone(&bench.judge);
    bench.item("load_inline", |bench| {
        judge.with_gpu(&CancelFlag::default(), |sheet| through_pytorch(bench, sheet, &good))?
    })
}

fn own(bench: &Bench<'_>, task: &str, reply: &str) -> anyhow::Result<Found> {
    let (judge, seed) = (&bench.judge, &bench.seed);
    let shipped = Shipped::new(task, reply)?;
    // The same index draws the same inputs: their reference is cached.
    let first = shipped.judged(judge, seed, 0)?;
    if !first.verdict.is_correct() {
        return Ok(Found::new(false).with("verdict", first.verdict.to_string()));
    }
    let mut all = Vec::new();
    for _ in 0..EVALUATIONS {
        all.push(shipped.judged(judge, seed, 0)?);
    }
    let total = median(all.iter().map(|judged| judged.total_ms).collect()).unwrap_or(f64::MAX);
    let ends = all.iter().map(|judged| judged.total_ms);
    let (low, high) = ends.fold((f64::MAX, 0f64), |(l, h), ms| (l.min(ms), h.max(ms)));
    Ok(Found::new(total <= LIMIT_MS)
        .with("median ms", format!("{total:.0}"))
        .with("min to max", format!("{low:.0} to {high:.0}"))
        .with("build", format!("{:.0}", part_median(&all, &|judged| judged.build_ms)))
        .with("parts", parts(&all)))
}

fn part_median(all: &[Judged], of: &dyn Fn(&Judged) -> f64) -> f64 {
    median(all.iter().map(of).collect()).unwrap_or(0.0)
}

/// The median of each part of the evaluation, in milliseconds.
fn parts(all: &[Judged]) -> String {
    let cost = |judged: &Judged| {
        let gpu = judged.judgement.as_ref().and_then(|judgement| judgement.report.gpu.clone());
        gpu.map(|gpu| gpu.cost).unwrap_or_default()
    };
    let Some(first) = all.first() else { return String::new() };
    let text = |(index, part): (usize, pipeline::report::PartCost)| {
        let ms = part_median(all, &|judged| cost(judged).get(index).map_or(0.0, |part| part.ms));
        format!("{} {ms:.0}", part.part)
    };
    let texts: Vec<_> = cost(first).into_iter().enumerate().map(text).collect();
    texts.join(", ")
}

/// The same kernels built by `load_inline`, all at once on this machine's cores.
fn through_pytorch(
    bench: &Bench<'_>,
    sheet: &HardwareSheet,
    good: &[(String, String, String)],
) -> anyhow::Result<Found> {
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("load_inline.py");
    std::fs::write(&script, embedded::LOAD_INLINE)?;
    let mut started = Vec::new();
    for (task, _, reply) in good {
        let case = folder.path().join(format!("{task}.json"));
        std::fs::write(&case, serde_json::to_vec(&case_of(bench, task, reply)?)?)?;
        let child = std::process::Command::new("python3")
            .arg(&script)
            .arg(&case)
            .env("CUDA_VISIBLE_DEVICES", &sheet.uuid)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        match child {
            Ok(child) => started.push((task, child)),
            Err(error) => return Ok(Found::not_available(&format!("python3: {error}"))),
        }
    }
    let mut passed = true;
    let mut columns = Vec::new();
    for (task, child) in started {
        let output = child.wait_with_output()?;
        let text = &output.stdout[..output.stdout.len().min(LOAD_INLINE_OUTPUT_BYTES_MAX)];
        let said: Value = serde_json::from_slice(text.trim_ascii()).unwrap_or(Value::Null);
        let number = |name: &str| said.get(name).and_then(Value::as_f64);
        columns.push((
            task,
            match (number("total_s"), number("build_s")) {
                (Some(total), Some(build)) => format!("{total:.1} s (build {build:.1} s)"),
                _ => {
                    passed = false;
                    let error = said.get("error").and_then(Value::as_str).unwrap_or("no answer");
                    error.chars().take(120).collect()
                }
            },
        ));
    }
    if columns.iter().all(|(_, text)| text.contains("No module named")) {
        return Ok(Found::not_available("PyTorch is not installed for python3"));
    }
    let all = Found::new(passed).with("how", "six builds at once");
    Ok(columns.into_iter().fold(all, |found, (task, text)| found.with(task, text)))
}

/// What the script needs of a kernel: its source, and one launch at the headline shape.
fn case_of(bench: &Bench<'_>, task: &str, reply: &str) -> anyhow::Result<Value> {
    use pipeline::launch::{ResolvedStep, Value as Argument};
    let shipped = Shipped::new(task, reply)?;
    let candidate = shipped.candidate.map_err(|verdict| anyhow::anyhow!("{verdict}"))?;
    let spec = &shipped.task.spec;
    let dims = &spec.headline().ok_or_else(|| anyhow::anyhow!("no headline"))?.dims;
    let facts = bench.sheets.first().map(|sheet| sheet.facts.clone());
    let facts = facts.ok_or_else(|| anyhow::anyhow!("no GPU"))?;
    let scope = pipeline::scope::Scope::of_dims(dims)
        .with(&candidate.plan.default_tunables())
        .with_device(&facts);
    let plan = candidate.plan.resolve(&scope, &shipped.task.signature())?;
    let launch = plan.steps.iter().find_map(|step| match step {
        ResolvedStep::Kernel(launch) => Some(launch),
        ResolvedStep::Memset { .. } => None,
    });
    let launch = launch.ok_or_else(|| anyhow::anyhow!("no kernel"))?;
    let argument = |value: &Argument| match value {
        Argument::Buffer(name) => tensor(spec, name, dims),
        Argument::Integer(value) => Ok(json!({ "int": value, "bits": 32 })),
        Argument::Float(bits) => Ok(json!({ "float": f64::from_bits(*bits) })),
        Argument::TensorMap(_) => Err(anyhow::anyhow!("a tensor map")),
    };
    let args = launch.args.iter().map(argument).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(json!({
        "name": task, "source": candidate.source, "entry": launch.kernel, "grid": launch.grid,
        "block": launch.block, "shared_bytes": launch.shared_bytes, "args": args,
    }))
}

fn tensor(
    spec: &pipeline::task::spec::TaskSpec,
    name: &str,
    dims: &std::collections::BTreeMap<String, i64>,
) -> anyhow::Result<Value> {
    let input = spec.inputs.iter().find(|input| input.name == name);
    let output = spec.outputs.iter().find(|output| output.name == name);
    let (role, shape, dtype) = match (input, output) {
        (Some(input), _) => ("input", &input.shape, input.dtype),
        (None, Some(output)) => ("output", &output.shape, output.dtype),
        (None, None) => return Err(anyhow::anyhow!("the workspace `{name}`")),
    };
    let shape = pipeline::task::spec::extents(shape, dims)?;
    Ok(json!({ "tensor": name, "role": role, "shape": shape, "dtype": dtype }))
}
