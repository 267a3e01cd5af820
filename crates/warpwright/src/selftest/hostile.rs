//! Kernels that harm: what they are told, how long it takes, and that the next one runs normally.

use std::sync::Arc;

use std::time::Instant;

use judge::{Judge, RunSeed};

use pipeline::report::microseconds;

use super::{Bench, Found, LAUNCH_DEADLINE_MS, Shipped, head_line, judge_on, kernels};
use crate::embedded;

/// How long an endless kernel may run when a hundred of them are tried, in milliseconds.
const ENDURANCE_DEADLINE_MS: u64 = 500;
const ENDURANCE_KERNELS: u64 = 100;
/// What one hostile kernel may take besides its deadline: processes, probe, a build.
const OVERHEAD_S: f64 = 20.0;

/// A shipped hostile kernel: its first lines say for which task, and what a GPU must answer.
struct Hostile {
    name: String,
    task: String,
    /// Any of these.
    expected: Vec<String>,
    reply: String,
}

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let seed = bench.seed;
    for hostile in all() {
        bench.item(&hostile.name.clone(), |_| one(&judge, &seed, &hostile))?;
    }
    Ok(())
}

/// Replies that use what a plan can ask for.
pub(super) fn features(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let seed = bench.seed;
    for (name, reply) in embedded::selftest_features() {
        let feature = parse(name, reply);
        bench.item(&feature.name.clone(), |_| {
            let judged = Shipped::new(&feature.task, &feature.reply)?.judged(&judge, &seed, 0)?;
            let verdict = judged.verdict.to_string();
            let timed = kernels::measured(&judged).is_some();
            let passed = feature.expected.contains(&verdict) && timed;
            let time = kernels::measured(&judged).map(|it| microseconds(it.cold.median_ns));
            Ok(Found::new(passed)
                .with("verdict", verdict)
                .with("cold µs", time.unwrap_or_default())
                .with("said", judged.verdict.detail))
        })?;
    }
    Ok(())
}

fn all() -> Vec<Hostile> {
    embedded::selftest_hostile().into_iter().map(|(name, reply)| parse(name, reply)).collect()
}

fn parse(name: String, reply: String) -> Hostile {
    let line = |key: &str| head_line(&reply, key);
    let expected = line("expect:").split(" or ").map(|text| text.trim().to_owned()).collect();
    Hostile { name, task: line("task:"), expected, reply }
}

fn one(judge: &Judge, seed: &RunSeed, hostile: &Hostile) -> anyhow::Result<Found> {
    let shipped = Shipped::new(&hostile.task, &hostile.reply)?;
    let started = Instant::now();
    let judged = shipped.judged(judge, seed, 0)?;
    let seconds = started.elapsed().as_secs_f64();
    let verdict = judged.verdict.to_string();
    let next = next_one(judge, seed)?;
    let in_time = seconds <= LAUNCH_DEADLINE_MS as f64 / 1e3 + OVERHEAD_S;
    let parked = judge.parked_gpus().len();
    let passed = hostile.expected.contains(&verdict) && in_time && next.1 && parked == 0;
    Ok(Found::new(passed)
        .with("verdict", verdict)
        .with("expected", hostile.expected.join(" or "))
        .with("seconds", format!("{seconds:.1}"))
        .with("the next kernel", next.0)
        .with("said", judged.verdict.detail))
}

/// A normal kernel right afterwards: its verdict, and whether it is as it should be.
pub(super) fn next_one(judge: &Judge, seed: &RunSeed) -> anyhow::Result<(String, bool)> {
    let kernels = embedded::selftest_kernels();
    let good =
        kernels.into_iter().find(|(task, name, _)| task == "reduce_sum_rows" && name == "good");
    let Some((task, _, reply)) = good else { return Ok(("none is shipped".to_owned(), false)) };
    let judged = Shipped::new(&task, &reply)?.judged(judge, seed, 0)?;
    let timed = kernels::measured(&judged).is_some();
    Ok((judged.verdict.to_string(), judged.verdict.is_correct() && timed))
}

/// Hanging and faulting kernels in turn, then a normal one.
pub(super) fn endurance(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.item("100 in a row", |bench| {
        let judge = judge_on(bench.toolchain, &bench.sheets, ENDURANCE_DEADLINE_MS)?;
        let all = all();
        let named = |name: &str| all.iter().find(|hostile| hostile.name == name);
        let chosen: Vec<_> = ["endless", "far_write", "deadlock", "misaligned"]
            .into_iter()
            .filter_map(named)
            .collect();
        let seed = bench.seed;
        let (mut as_expected, mut others) = (0u32, Vec::new());
        let started = Instant::now();
        for index in 0..ENDURANCE_KERNELS {
            let hostile = chosen[index as usize % chosen.len()];
            let shipped = Shipped::new(&hostile.task, &hostile.reply)?;
            let verdict = shipped.judged(&judge, &seed, 0)?.verdict.to_string();
            if hostile.expected.contains(&verdict) {
                as_expected += 1;
            } else {
                others.push(format!("{} {verdict}", hostile.name));
            }
        }
        let seconds = started.elapsed().as_secs_f64();
        let next = next_one(&judge, &seed)?;
        let parked = judge.parked_gpus();
        let all_as_expected = u64::from(as_expected) == ENDURANCE_KERNELS;
        Ok(Found::new(all_as_expected && next.1 && parked.is_empty())
            .with("as expected", format!("{as_expected} of {ENDURANCE_KERNELS}"))
            .with("others", others.join(", "))
            .with("seconds", format!("{seconds:.1}"))
            .with("the next kernel", next.0)
            .with("parked cards", parked.len().to_string()))
    })
}
