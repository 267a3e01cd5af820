//! A naive and a good kernel for each task.

use std::sync::Arc;

use pipeline::report::{Measured, Score, microseconds};

use super::{Bench, Found, Judged, Shipped};
use crate::embedded;

/// Tasks that read about as much as they write, whose good kernel must come close to the measured
/// copy bandwidth, and how close.
const CLOSE: [&str; 4] = ["vector_add", "gelu", "softmax_rows", "layer_norm"];
const CLOSE_SHARE: f64 = 0.85;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let seed = bench.seed;
    for (task, name, reply) in embedded::selftest_kernels() {
        bench.item(&format!("{task} {name}"), |bench| {
            let judged = Shipped::new(&task, &reply)?.judged(&judge, &seed, 0)?;
            Ok(found(&task, &name, &judged, copy_rate(bench, &judged)))
        })?;
    }
    Ok(())
}

/// The copy bandwidth of the card that judged, in bytes per second.
fn copy_rate(bench: &Bench<'_>, judged: &Judged) -> f64 {
    let uuid = measured(judged).map(|measured| measured.uuid.as_str());
    let sheet = bench.sheets.iter().find(|sheet| Some(sheet.uuid.as_str()) == uuid);
    let ceilings = sheet.and_then(|sheet| sheet.ceilings.as_ref());
    ceilings.map_or(f64::INFINITY, |ceilings| ceilings.copy_bytes_per_s.median)
}

fn found(task: &str, name: &str, judged: &Judged, copy_rate: f64) -> Found {
    let notes = judged.judgement.iter().flat_map(|judgement| &judgement.report.notes);
    let notes: Vec<&str> = notes.map(String::as_str).collect();
    let Some(measured) = measured(judged) else {
        let why = [judged.verdict.detail.as_str(), &notes.join("; ")].join(" ");
        return Found::new(false).with("verdict", judged.verdict.to_string()).with("why", why);
    };
    let share = measured.share_of_floor().unwrap_or(0.0);
    let cold = &measured.cold;
    let bytes = measured.floor.map_or(0.0, |floor| floor.bytes);
    let of_copy = 1e9 * bytes / cold.median_ns / copy_rate;
    let close_enough = name != "good" || !CLOSE.contains(&task) || of_copy >= CLOSE_SHARE;
    Found::new(judged.verdict.is_correct() && close_enough)
        .with("verdict", judged.verdict.to_string())
        .with("cold µs", microseconds(cold.median_ns))
        .with("p10", microseconds(cold.p10_ns))
        .with("p90", microseconds(cold.p90_ns))
        .with("samples", cold.samples.to_string())
        .with("warm µs", measured.warm.map_or_else(String::new, |it| microseconds(it.median_ns)))
        .with("rate", measured.floor.map_or_else(String::new, |it| it.rate(cold.median_ns)))
        .with("floor µs", measured.floor.map_or_else(String::new, |it| microseconds(it.ns)))
        .with("of the floor", format!("{:.1} %", 100.0 * share))
        .with("of the copy bandwidth", format!("{:.1} %", 100.0 * of_copy))
        .with("notes", notes.join("; "))
        .with("evaluated in ms", format!("{:.0}", judged.total_ms))
        .with("parts", parts(judged))
}

/// How the parts of an evaluation took their time, in milliseconds.
fn parts(judged: &Judged) -> String {
    let gpu = judged.judgement.iter().filter_map(|judgement| judgement.report.gpu.as_ref());
    let costs = gpu.flat_map(|gpu| &gpu.cost);
    costs.map(|part| format!("{} {:.0}", part.part, part.ms)).collect::<Vec<_>>().join(", ")
}

/// The times of a correct kernel.
pub(super) fn measured(judged: &Judged) -> Option<&Measured> {
    match judged.judgement.as_ref().map(|judgement| &judgement.report.score) {
        Some(Score::Measured(measured)) => Some(measured),
        Some(Score::None | Score::Estimated(_)) | None => None,
    }
}
