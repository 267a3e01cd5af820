//! The clock: the same launches timed by events and by NVIDIA's profiler.

use std::sync::Arc;

use std::process::{Command, Stdio};

use device::cuda::{self, ClockSeries};
use judge::{find_tool, profiler_times, profiler_words};
use pipeline::hardware::HardwareSheet;
use pipeline::report::microseconds;
use pipeline::timing::median;

use super::{Bench, Found};
use crate::limits::PROFILER_OUTPUT_BYTES_MAX;

/// How far the two may be apart above [`FROM_NS`].
const TOLERANCE: f64 = 0.02;
const FROM_NS: f64 = 20_000.0;
/// What is quoted of a profiler that measured nothing, in characters.
const SAID_CHARS_MAX: usize = 600;
/// Kernels of the workload that are timed.
const KERNELS: [&str; 2] = ["ww_copy", "ww_fma"];

/// The same launches by both clocks; why where there is no profiler.
struct Clocks {
    events: Vec<ClockSeries>,
    profiler: Result<Vec<f64>, String>,
}

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let cancel = judge::CancelFlag::default();
    let folder = tempfile::tempdir()?;
    let harness = folder.path().join("harness.cubin");
    std::fs::write(&harness, judge.harness_cubin(&cancel)?)?;
    let mut both: Option<Clocks> = None;
    for index in 0..cuda::CLOCK_SERIES {
        bench.item(&format!("kernel {}", index + 1), |_| {
            if both.is_none() {
                // On one card, which nobody else uses meanwhile.
                let times = judge.with_gpu(&cancel, |sheet| {
                    let (events, profiler) =
                        (by_events(&harness, sheet)?, by_profiler(&harness, sheet)?);
                    anyhow::Ok(Clocks { events, profiler })
                })?;
                both = Some(times?);
            }
            let Some(clocks) = &both else { return Ok(Found::new(false)) };
            Ok(compared(index, &clocks.events, &clocks.profiler))
        })?;
    }
    Ok(())
}

fn compared(index: usize, events: &[ClockSeries], profiler: &Result<Vec<f64>, String>) -> Found {
    let profiler = match profiler {
        Ok(times) => times,
        Err(why) => return Found::not_available(why),
    };
    let samples = events.get(index).map_or(0, |series| series.elapsed_ns.len());
    let start: usize = events.iter().take(index).map(|series| series.elapsed_ns.len()).sum();
    let of_profiler = profiler.get(start..start + samples).map(<[f64]>::to_vec);
    let of_events = events.get(index).and_then(|series| median(series.elapsed_ns.clone()));
    let (Some(by_events), Some(by_profiler)) = (of_events, of_profiler.and_then(median)) else {
        return Found::new(false).with("why", "the profiler saw other launches");
    };
    let apart = by_events / by_profiler - 1.0;
    let close = by_profiler < FROM_NS || apart.abs() <= TOLERANCE;
    Found::new(close)
        .with("what", events.get(index).map(|series| series.name.clone()).unwrap_or_default())
        .with("events µs", microseconds(by_events))
        .with("ncu µs", microseconds(by_profiler))
        .with("apart", format!("{:+.2} %", 100.0 * apart))
        .with("samples", samples.to_string())
}

/// This program again, as the workload that is timed.
pub(super) fn workload(
    program: &std::path::Path,
    harness: &std::path::Path,
    gate: &str,
) -> Vec<String> {
    let path = |path: &std::path::Path| path.display().to_string();
    vec![path(program), "__clock".to_owned(), path(harness), gate.to_owned()]
}

fn by_events(harness: &std::path::Path, sheet: &HardwareSheet) -> anyhow::Result<Vec<ClockSeries>> {
    let words = workload(&std::env::current_exe()?, harness, "gated");
    let output = Command::new(&words[0])
        .args(&words[1..])
        .env("CUDA_VISIBLE_DEVICES", &sheet.uuid)
        .stdin(Stdio::null())
        .output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        anyhow::bail!("the workload ended with {}: {why}", output.status);
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// Nanoseconds of each launch in order; the reason where there is no profiler.
fn by_profiler(
    harness: &std::path::Path,
    sheet: &HardwareSheet,
) -> anyhow::Result<Result<Vec<f64>, String>> {
    let Some(ncu) = find_tool("ncu") else { return Ok(Err("there is no ncu".to_owned())) };
    // The workload flushes the cache itself, the same way for both.
    let profiler = profiler_words(&ncu, &KERNELS.map(str::to_owned));
    let words = workload(&std::env::current_exe()?, harness, "ungated");
    let output = Command::new(&profiler[0])
        .args(&profiler[1..])
        .args(&words)
        .env("CUDA_VISIBLE_DEVICES", &sheet.uuid)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Ok(output) => output,
        Err(error) => return Ok(Err(format!("ncu: {error}"))),
    };
    let kept = output.stdout.len().min(PROFILER_OUTPUT_BYTES_MAX);
    let text = String::from_utf8_lossy(&output.stdout[..kept]).into_owned();
    let times = profiler_times(&text);
    if times.is_empty() {
        let all = format!("{text} {}", String::from_utf8_lossy(&output.stderr));
        let tail = all.chars().rev().take(SAID_CHARS_MAX).collect::<Vec<_>>();
        let said: String = tail.into_iter().rev().collect();
        return Ok(Err(format!("ncu measured nothing; it ended with: {}", said.trim())));
    }
    Ok(Ok(times))
}
