//! The cards themselves: sheets, the device suite, wrong kernels on both devices, several at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use device::execute::conformance;
use judge::{CancelFlag, Judge};
use pipeline::device_facts::DeviceFacts;

use super::{Bench, Found, Shipped};
use crate::commands::hardware::sheet_lines;
use crate::{embedded, wiring};

pub(super) fn hardware(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    for sheet in bench.sheets.clone() {
        bench.item(&sheet.uuid, |_| {
            let lines = sheet_lines(&sheet);
            let found =
                Found::new(sheet.ceilings.as_ref().is_some_and(|found| found.memory_scrubbed));
            Ok(found.with("sheet", lines.join("; ")))
        })?;
    }
    Ok(())
}

pub(super) fn conformance(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let cancel = CancelFlag::default();
    let names: Vec<String> = conformance::ENTRIES.iter().map(|&name| name.to_owned()).collect();
    let build = judge.compile(conformance::SOURCE, &BTreeMap::new(), &names, &cancel)?;
    for test in conformance::TESTS {
        bench.item(test, |_| {
            let failure = judge.conformance(test, &build.ptx, &build.cubin, &cancel)?;
            let found = Found::new(failure.is_none());
            Ok(found.with("found", failure.unwrap_or_else(|| "as it must be".to_owned())))
        })?;
    }
    Ok(())
}

pub(super) fn wrong_kernels(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let gpu = Arc::clone(&bench.judge);
    let simulator = wiring::judge_for(bench.toolchain, DeviceFacts::simulated_h200(), None)?;
    let seed = bench.seed;
    for name in embedded::task_names() {
        let task = wiring::load_task(&name)?.task;
        for wrong in &task.wrong {
            let item = format!("{name} {}", wrong.name);
            bench.item(&item, |_| {
                let reply = pipeline::reply::compose(&wrong.source, &wrong.plan);
                let shipped = Shipped::new(&name, &reply)?;
                let on_gpu = shipped.judged(&gpu, &seed, 0)?.verdict;
                let simulated = shipped.judged(&simulator, &seed, 0)?.verdict;
                let expected =
                    format!("{}/{}", wrong.expect.kind.name(), wrong.expect.reason.code());
                let same = on_gpu.to_string() == expected && simulated.to_string() == expected;
                Ok(Found::new(same)
                    .with("GPU", on_gpu.to_string())
                    .with("simulator", simulated.to_string())
                    .with("expected", expected)
                    .with("said on the GPU", on_gpu.detail))
            })?;
        }
    }
    Ok(())
}

/// What several threads share: kernels left, verdicts found, cards used.
#[derive(Default)]
struct Shared {
    left: Vec<(String, String, String)>,
    verdicts: BTreeMap<String, BTreeSet<String>>,
    used: BTreeMap<String, u32>,
    errors: Vec<String>,
}

/// Every kernel twice for each card, taken by as many threads as there are cards.
pub(super) fn several(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let count = bench.sheets.len();
    bench.item("all kernels over all cards", |bench| {
        if count < 2 {
            return Ok(Found::not_available("one GPU was given; this needs two"));
        }
        let judge = Arc::clone(&bench.judge);
        let kernels = embedded::selftest_kernels();
        let left = std::iter::repeat_n(kernels, 2 * count).flatten().collect();
        let shared = Arc::new(Mutex::new(Shared { left, ..Shared::default() }));
        let seed = bench.seed;
        std::thread::scope(|scope| {
            for _ in 0..count {
                let work = || work(&judge, &seed, &shared);
                std::thread::Builder::new().spawn_scoped(scope, work)?;
            }
            anyhow::Ok(())
        })?;
        let shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let same = shared.verdicts.values().all(|verdicts| verdicts.len() == 1);
        let correct = shared.verdicts.values().flatten().all(|verdict| verdict == "Correct");
        let found =
            Found::new(same && correct && shared.used.len() == count && shared.errors.is_empty());
        let used = shared.used.iter().map(|(uuid, times)| format!("{uuid}: {times}"));
        Ok(found
            .with("kernels", shared.verdicts.len().to_string())
            .with("evaluations by card", used.collect::<Vec<_>>().join(", "))
            .with("verdicts are the same", same.to_string())
            .with("errors", shared.errors.join("; ")))
    })
}

fn work(judge: &Judge, seed: &judge::RunSeed, shared: &Mutex<Shared>) {
    let lock = || shared.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some((task, name, reply)) = lock().left.pop() else { return };
        let judged = Shipped::new(&task, &reply).and_then(|it| it.judged(judge, seed, 0));
        let mut shared = lock();
        match judged {
            Ok(judged) => {
                let verdicts = shared.verdicts.entry(format!("{task} {name}")).or_default();
                verdicts.insert(judged.verdict.to_string());
                let gpu = judged.judgement.and_then(|judgement| judgement.report.gpu);
                if let Some(gpu) = gpu {
                    *shared.used.entry(gpu.uuid).or_default() += 1;
                }
            }
            Err(error) => shared.errors.push(format!("{task} {name}: {error:#}")),
        }
    }
}
