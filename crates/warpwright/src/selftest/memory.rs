//! Memory: the headline at each rung of what gives way, and cases on which 32-bit arithmetic goes
//! wrong.

use std::time::Instant;

use anyhow::Context;
use judge::{Acceptance, CancelFlag, Evaluation, MemoryCaps};
use pipeline::acceptance::{Check, Entry, Found as Checked, Step};
use pipeline::comparison::Confidence;
use pipeline::limits::ROUNDS_MIN;
use pipeline::memory::{Fitted, Memory, Rung, words};
use pipeline::report::{Score, microseconds};

use super::{Bench, Found, LAUNCH_DEADLINE_MS, Shipped, catalogue, judge_on};
use crate::embedded;

/// The kernel that is timed at each rung, and how far its time may be from that with all memory.
const TIMED: &str = "softmax_rows";
const APART_MAX: f64 = 0.03;
/// The largest tensor of the big case must have more bytes than this.
const BIG_ABOVE: u64 = 1 << 31;

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let mut whole_ns = None;
    for rung in Rung::ALL {
        bench.item(&rung.to_string(), |bench| {
            let (found, median_ns) = timed(bench, rung, whole_ns)?;
            if rung == Rung::Everything {
                whole_ns = median_ns;
            }
            Ok(found)
        })?;
    }
    bench.item("beyond 2^31 bytes", |bench| big(bench, "reduce_sum_rows", None))?;
    bench.item("beyond 2^31 elements", |bench| {
        big(bench, "vector_add", Some((3 << 30, 64 << 30)))
    })?;
    // The other way round: a kernel that goes wrong only there is caught.
    bench.item("an index of 32 bits", |bench| catalogue::named(bench, "H77"))
}

fn shipped(task: &str) -> anyhow::Result<Shipped> {
    let kernels = embedded::selftest_kernels();
    let good = kernels.into_iter().find(|(of, name, _)| of == task && name == "good");
    let (_, _, reply) = good.context("no kernel")?;
    Shipped::new(task, &reply)
}

/// Judges a kernel with just so much memory that this rung must be taken; also its time.
fn timed(
    bench: &Bench<'_>,
    rung: Rung,
    whole_ns: Option<f64>,
) -> anyhow::Result<(Found, Option<f64>)> {
    let shipped = shipped(TIMED)?;
    let judge = judge_on(bench.toolchain, &bench.sheets, LAUNCH_DEADLINE_MS)?;
    let caps = caps(&judge.headline_needs(&shipped.task), rung);
    let judged = shipped.judged(&judge.with_memory(caps), &bench.seed, 0)?;
    let report = judged.judgement.as_ref().map(|judgement| &judgement.report);
    let fitted = report.and_then(|report| report.gpu.as_ref()?.memory.clone());
    let median_ns = report.and_then(|report| match &report.score {
        Score::Measured(measured) => Some(measured.cold.median_ns),
        Score::Estimated(_) | Score::None => None,
    });
    let apart = whole_ns.zip(median_ns).map(|(whole, own)| own / whole - 1.0);
    // Another shape has another time.
    let close = rung == Rung::SmallerShape || apart.is_none_or(|it| it.abs() <= APART_MAX);
    let taken = fitted.as_ref().is_some_and(|fitted| fitted.rung == rung);
    let correct = judged.verdict.is_correct() && median_ns.is_some();
    let found = Found::new(taken && close && correct)
        .with("verdict", judged.verdict.to_string())
        .with("taken", fitted.as_ref().map(|it| it.rung.to_string()).unwrap_or_default())
        .with("shape", fitted.as_ref().map(|it| words(&it.dims)).unwrap_or_default())
        .with("cold µs", median_ns.map(microseconds).unwrap_or_default())
        .with("apart", apart.map(|it| format!("{:+.2} %", 100.0 * it)).unwrap_or_default())
        .with("why", fitted.map(|Fitted { why, .. }| why).unwrap_or_default());
    Ok((found, median_ns))
}

/// One byte less than the rung above takes, of whatever this rung takes less of.
fn caps(needs: &[(Rung, Memory)], rung: Rung) -> MemoryCaps {
    let mut caps = MemoryCaps::default();
    for pair in needs.windows(2).filter(|pair| pair[1].0 == rung) {
        let [(_, above), (_, own)] = [pair[0], pair[1]];
        // A smaller shape takes less than any of these, of the device first.
        if own.device < above.device || rung == Rung::SmallerShape {
            caps.device_bytes = above.device - 1;
        } else if own.host < above.host {
            caps.host_bytes = above.host - 1;
        }
    }
    caps
}

/// The big case of an acceptance, of an honest kernel; with other ranges where some are given.
fn big(bench: &Bench<'_>, task: &str, ranges: Option<(i64, u64)>) -> anyhow::Result<Found> {
    let mut shipped = shipped(task)?;
    if let Some((high, bytes_max)) = ranges {
        let hidden = &mut shipped.task.spec.hidden;
        hidden.ranges.values_mut().for_each(|[_, own]| *own = high);
        hidden.bytes_max = bytes_max;
    }
    let judge = judge_on(bench.toolchain, &bench.sheets, LAUNCH_DEADLINE_MS)?;
    shipped.with_evaluation(&judge, &bench.seed, |evaluation: &Evaluation<'_>| {
        let acceptance = Acceptance {
            evaluation: *evaluation,
            rounds_max: ROUNDS_MIN,
            confidence: Confidence::default(),
            weaknesses: &[],
        };
        let protocol = judge.correctness_protocol(&acceptance);
        let step = Step::Check(Check::BigShape);
        let started = Instant::now();
        let cancel = CancelFlag::default();
        let entry = judge.acceptance_step(&acceptance, &protocol, &[], &step, &cancel)?;
        let seconds = format!("{:.1}", started.elapsed().as_secs_f64());
        let (passed, said) = match &entry {
            Entry::Checked { found: Checked::Notes { detail }, .. } => {
                (verified(detail).is_some_and(|bytes| bytes > BIG_ABOVE), detail.clone())
            }
            other => (false, format!("{other:?}")),
        };
        Ok(Found::new(passed).with("what", said).with("seconds", seconds))
    })
}

/// The bytes of `max size verified: N bytes`.
fn verified(detail: &str) -> Option<u64> {
    let text = detail.strip_prefix("max size verified: ")?;
    text.split(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use pipeline::memory::{Memory, Rung};

    use super::{caps, verified};

    #[test]
    fn a_rung_is_forced_by_one_byte_less_than_the_one_above_takes() {
        let needs = [(90, 50), (90, 40), (70, 40), (60, 40), (60, 40)];
        let needs = needs.map(|(device, host)| Memory { device, host });
        let needs: Vec<_> = Rung::ALL.into_iter().zip(needs).collect();
        let max = u64::MAX;
        let wanted = [(max, max), (max, 49), (89, max), (69, max), (59, max)];
        for (rung, (device, host)) in Rung::ALL.into_iter().zip(wanted) {
            let found = caps(&needs, rung);
            assert_eq!((found.device_bytes, found.host_bytes), (device, host), "{rung}");
        }
    }

    #[test]
    fn the_size_is_read_from_the_note() {
        assert_eq!(verified("max size verified: 4096 bytes; no shape"), Some(4096));
        assert_eq!(verified("no shape"), None);
    }
}
