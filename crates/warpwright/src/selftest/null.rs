//! The comparison itself: a kernel against itself is the same, one slowed by 5 % is slower, and
//! what others do on the card makes a comparison void, never faster.

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use anyhow::Context;
use judge::{BaselineCall, CancelFlag, Evaluation, Judge, Paired, RunSeed};
use pipeline::baseline::BaselineId;
use pipeline::comparison::{Compared, Comparison, rate_upper_bound};
use pipeline::dtype::Dtype;
use pipeline::limits::{ROUNDS_MAX, ROUNDS_MIN};
use pipeline::task::Task;

use super::{Bench, Found, LAUNCH_DEADLINE_MS, Shipped, Status, clock, judge_on};
use crate::{embedded, wiring};

/// Comparisons of a kernel with itself, and with one that does 5 % more; failures that may be.
const SAME: u32 = 50;
const SLOWED: u32 = 20;
const SLOWED_FAILURES_MAX: u32 = 1;
/// The rate of failures that must be excluded.
const FAILURE_RATE_MAX: f64 = 0.15;
/// The kernel, and what makes it do a twentieth of its blocks twice.
const TASK: &str = "vector_add";
/// Elements: more than the cache holds, and no more, since inputs are drawn on the CPU.
const ELEMENTS: i64 = 8 << 20;
const START: &str = "const long long start = (long long)blockIdx.x * PER_BLOCK;";
const START_SLOWED: &str = "const long long blocks = (n + PER_BLOCK - 1) / PER_BLOCK;
    const long long again = ((long long)blockIdx.x - blocks) * 20;
    const long long start = (blockIdx.x < blocks ? (long long)blockIdx.x : again) * PER_BLOCK;";
const GRID: &str = "ceil_div(n, 2048)";
const GRID_SLOWED: &str = "ceil_div(n, 2048) + ceil_div(n, 40960)";

/// Whole comparisons; each is an item, so that a campaign may take several calls.
pub(super) fn campaign(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.item("product against itself", |bench| product(bench, false))?;
    bench.item("product beside another process", |bench| product(bench, true))?;
    // Both kinds in turn: a campaign that was cut short has some of each.
    let mut all = Vec::new();
    for index in 1..=SAME {
        all.push((format!("itself {index}"), false));
        if index <= SLOWED {
            all.push((format!("slowed by 5 % {index}"), true));
        }
    }
    let seed = bench.seed;
    bench.items_on_cards(&all, |judge, slowed| compared(judge, &seed, *slowed))?;
    let (same, slowed) = (tally(bench, "itself "), tally(bench, "slowed "));
    if same.0 < SAME || slowed.0 < SLOWED {
        return Ok(());
    }
    bench.item("campaign", |_| {
        let bound = rate_upper_bound(same.1, same.0);
        let passed = bound <= FAILURE_RATE_MAX && slowed.1 <= SLOWED_FAILURES_MAX;
        Ok(Found::new(passed)
            .with("against itself", format!("{} of {} not the same", same.1, same.0))
            .with("rate at most", format!("{:.1} %", 100.0 * bound))
            .with("slowed by 5 %", format!("{} of {} not slower", slowed.1, slowed.0)))
    })
}

/// Comparisons of a kind so far, and how many were not as they should be.
fn tally(bench: &Bench<'_>, kind: &str) -> (u32, u32) {
    let rows = bench.rows.iter().filter(|row| row.part == "null" && row.item.starts_with(kind));
    rows.fold((0, 0), |(all, failed), row| {
        (all + 1, failed + u32::from(row.status != Status::Passed))
    })
}

fn compared(judge: &Judge, seed: &RunSeed, slowed: bool) -> anyhow::Result<Found> {
    let kernels = embedded::selftest_kernels();
    let good = kernels.into_iter().find(|(task, name, _)| task == TASK && name == "good");
    let (_, _, reply) = good.context("no kernel")?;
    let other = match slowed {
        true => reply.replace(START, START_SLOWED).replace(GRID, GRID_SLOWED),
        false => reply.clone(),
    };
    anyhow::ensure!(!slowed || other.contains("again"), "the kernel has changed");
    let (mut candidate, mut other) = (Shipped::new(TASK, &other)?, Shipped::new(TASK, &reply)?);
    candidate.resize("n", ELEMENTS);
    other.resize("n", ELEMENTS);
    let cancel = CancelFlag::default();
    let started = Instant::now();
    let paired = candidate.with_evaluation(judge, seed, |candidate: &Evaluation<'_>| {
        other.with_evaluation(judge, seed, |other: &Evaluation<'_>| {
            Ok(judge.compare_kernels(candidate, other, &cancel)?)
        })
    })?;
    let expected = if slowed { Comparison::Slower } else { Comparison::Same };
    let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
    Ok(told(&paired, expected).with("seconds", seconds))
}

fn told(paired: &Paired, expected: Comparison) -> Found {
    let void = paired.void.len();
    match paired.compared() {
        Compared::Decided { comparison, interval } => Found::new(comparison == expected)
            .with("comparison", format!("{comparison:?}"))
            .with("ratio", interval.describe())
            .with("void rounds", void.to_string())
            .with("why void", paired.void.first().cloned().unwrap_or_default()),
        Compared::MoreRounds => Found::new(false).with("why", "it was not decided"),
    }
}

/// A product of 16-bit matrices, which keeps the card at its power limit, against itself; beside
/// another process every window must be void.
fn product(bench: &Bench<'_>, disturbed: bool) -> anyhow::Result<Found> {
    let mut task = wiring::load_task("matmul_f32")?.task;
    let tensors = task.spec.inputs.iter_mut().map(|it| &mut it.dtype);
    tensors.chain(task.spec.outputs.iter_mut().map(|it| &mut it.dtype)).for_each(|dtype| {
        *dtype = Dtype::Bf16;
    });
    // On the card that is disturbed.
    let first = bench.sheets.get(..1).context("no GPU")?;
    let judge = judge_on(bench.toolchain, first, LAUNCH_DEADLINE_MS)?;
    let _other = if disturbed { Some(Disturber::start(bench)?) } else { None };
    let mut paired = Paired { logs: Vec::new(), void: Vec::new() };
    for _ in 0..ROUNDS_MAX {
        match product_round(&judge, &bench.seed, &task)? {
            Ok(log) => paired.logs.push(log),
            Err(why) => paired.void.push(why),
        }
        let enough = paired.logs.len() as u32 >= ROUNDS_MIN;
        let decided = paired.compared() != Compared::MoreRounds;
        // What is void stays void: two rounds show it.
        if enough && decided || disturbed && paired.void.len() >= 2 {
            break;
        }
    }
    if disturbed {
        let void = paired.logs.is_empty() && !paired.void.is_empty();
        let why = paired.void.first().cloned().unwrap_or_default();
        let kept = paired.logs.len().to_string();
        return Ok(Found::new(void).with("why void", why).with("rounds that counted", kept));
    }
    Ok(told(&paired, Comparison::Same))
}

fn product_round(
    judge: &Judge,
    seed: &RunSeed,
    task: &Task,
) -> anyhow::Result<Result<f64, String>> {
    let baseline = BaselineId::from_name("vendor-strict").context("a name")?;
    let case = task.spec.headline().context("no headline")?;
    let master = seed.master("headline", 0);
    let deadline = std::time::Duration::from_secs(60);
    let call = BaselineCall { task, case, baseline: &baseline, master: &master, deadline };
    let mut logs = [0.0; 2];
    for side in [0, 1, 1, 0] {
        match judge.time_vendor(&call, &CancelFlag::default())? {
            Ok(times) => logs[side] += 0.5 * times.cold.median_ns.ln(),
            Err(why) => return Ok(Err(why)),
        }
    }
    Ok(Ok(logs[1] - logs[0]))
}

/// This program as somebody else on the card, again and again until it is dropped.
struct Disturber(Child);

impl Disturber {
    fn start(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let uuid = &bench.sheets.first().context("no GPU")?.uuid;
        let harness = bench.folder.join("harness.cubin");
        std::fs::write(&harness, bench.judge.harness_cubin(&CancelFlag::default())?)?;
        let words = clock::workload(&std::env::current_exe()?, &harness, "gated");
        let again = words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
        let child = Command::new("sh")
            .args(["-c", &format!("while :; do {again} > /dev/null 2>&1; done")])
            .env("CUDA_VISIBLE_DEVICES", uuid)
            .stdin(Stdio::null())
            .spawn()?;
        std::thread::sleep(std::time::Duration::from_secs(2));
        Ok(Self(child))
    }
}

impl Drop for Disturber {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::{GRID, START, TASK};
    use crate::embedded;

    #[test]
    fn the_slowed_kernel_is_made_of_the_shipped_one() {
        let kernels = embedded::selftest_kernels();
        let good = kernels.into_iter().find(|(task, name, _)| task == TASK && name == "good");
        let (_, _, reply) = good.unwrap();
        assert!(reply.contains(START) && reply.contains(GRID));
    }
}
