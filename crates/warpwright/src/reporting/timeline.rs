//! When models, judge and cards were busy, as a few lanes of columns.
//!
//! Calls have a begin and an end in the ledger. Of an evaluation the end is stored, and how long
//! the part on a card took is in its report; where in the evaluation that was follows from the
//! parts after it.

use std::collections::BTreeMap;

use pipeline::lanes::{Span, columns};
use pipeline::report::Report;
use serde::Serialize;
use store::Chronicle;

use crate::limits::{LANE_COLUMNS, LANES_MAX};

/// The part of an evaluation's cost in which it holds a card.
const ON_CARD: &str = "process";

/// The lanes of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Timeline {
    pub(crate) from_us: i64,
    pub(crate) to_us: i64,
    pub(crate) lanes: Vec<Lane>,
    /// Lanes that are left out since there are too many.
    pub(crate) left_out: usize,
    /// Calls without a known end, which are in no lane.
    pub(crate) calls_without_end: usize,
}

/// One thing that is busy or not.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Lane {
    pub(crate) name: String,
    /// What a column's height is.
    pub(crate) what: &'static str,
    /// Lengths of all spans together, in seconds.
    pub(crate) busy_s: f64,
    /// The largest column.
    pub(crate) peak: f64,
    /// The mean number of spans that were open in each part of the time.
    pub(crate) columns: Vec<f64>,
}

/// What is known of a judgement's place: the report, for its device and what its parts took.
pub(crate) type ReportOf<'a> = &'a dyn Fn(&store::Judged) -> Option<&'a Report>;

/// The spans of each lane, by its place, its name and what a column's height is.
#[derive(Default)]
struct Lanes(BTreeMap<(u8, String), (&'static str, Vec<Span>)>);

impl Lanes {
    fn add(&mut self, order: u8, name: String, what: &'static str, span: Span) {
        self.0.entry((order, name)).or_insert_with(|| (what, Vec::new())).1.push(span);
    }

    fn add_judged(&mut self, judged: &store::Judged, report: Option<&Report>) {
        let place = report.map_or("a device", |report| match &report.gpu {
            Some(gpu) => gpu.uuid.as_str(),
            None => report.device.as_str(),
        });
        if judged.promotes {
            let what = "kernels held against the best, from the search's verdict to the stored \
                        one, waits included";
            return self.add(2, format!("promoting on {place}"), what, judged.span);
        }
        let what = "evaluations in hand, from the stored build to the stored verdict, waits \
                    included";
        self.add(1, format!("judging on {place}"), what, judged.span);
        if let (Some(gpu), Some(span)) = (
            report.and_then(|report| report.gpu.as_ref()),
            report.and_then(|report| on_card(report, judged.span)),
        ) {
            let what = "share of the time in which an evaluation of the search held the card, by \
                        its report";
            self.add(3, format!("card {}", gpu.uuid), what, span);
        }
    }
}

/// Draws what a run did; `None` where nothing began and ended.
pub(crate) fn timeline(
    chronicle: &Chronicle,
    report_of: ReportOf<'_>,
    run: Span,
) -> Option<Timeline> {
    let mut lanes = Lanes::default();
    for call in &chronicle.calls {
        if let Some(span) = call.span() {
            let name = format!("model {} {}", call.provider, call.model);
            lanes.add(0, name, "calls under way, from sent to answered or failed", span);
        }
    }
    for judged in &chronicle.judged {
        lanes.add_judged(judged, report_of(judged));
    }
    for accepted in &chronicle.accepted {
        let what = "steps of acceptances, each from the one before; a pause between two calls of \
                    `accept` counts as a step";
        lanes.add(4, format!("acceptances on {}", accepted.card), what, accepted.span);
    }
    let Lanes(lanes) = lanes;
    let all = lanes.values().flat_map(|(_, spans)| spans.iter().copied());
    let around = Span::around(all)?;
    let window = Span::around([around, run]).unwrap_or(around);
    let left_out = lanes.len().saturating_sub(LANES_MAX);
    let lanes = lanes.into_iter().take(LANES_MAX);
    let lanes = lanes.map(|((_, name), (what, spans))| lane(name, what, &spans, window)).collect();
    let calls_without_end = chronicle.calls.iter().filter(|call| call.span().is_none()).count();
    let Span { from_us, to_us } = window;
    Some(Timeline { from_us, to_us, lanes, left_out, calls_without_end })
}

fn lane(name: String, what: &'static str, spans: &[Span], window: Span) -> Lane {
    let columns = columns(spans, window, LANE_COLUMNS);
    let busy_s = spans.iter().map(|span| span.length_us() as f64 / 1e6).sum();
    let peak = columns.iter().copied().fold(0.0, f64::max);
    Lane { name, what, busy_s, peak, columns }
}

/// When an evaluation held its card: so long as its report says, so long before its end as the
/// parts after that took.
fn on_card(report: &Report, judged: Span) -> Option<Span> {
    let cost = &report.gpu.as_ref()?.cost;
    let at = cost.iter().rposition(|part| part.part == ON_CARD)?;
    let us = |ms: f64| (1e3 * ms.clamp(0.0, 1e12)) as i64;
    let after: i64 = cost[at + 1..].iter().map(|part| us(part.ms)).sum();
    let to_us = judged.to_us.saturating_sub(after).max(judged.from_us);
    let from_us = to_us.saturating_sub(us(cost[at].ms)).max(judged.from_us);
    Some(Span { from_us, to_us })
}

impl Timeline {
    /// What is not drawn, a line each.
    pub(crate) fn remarks(&self) -> Vec<String> {
        let calls = match self.calls_without_end {
            0 => None,
            calls => Some(format!(
                "{calls} calls are in no lane: they are not over, or lost, and nobody knows when \
                 they ended."
            )),
        };
        let lanes = match self.left_out {
            0 => None,
            lanes => Some(format!("{lanes} lanes are left out.")),
        };
        calls.into_iter().chain(lanes).collect()
    }
}

impl Lane {
    /// The columns as a line of text, two in each character.
    pub(crate) fn blocks(&self) -> String {
        const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let peak = self.peak.max(f64::MIN_POSITIVE);
        let of = |pair: &[f64]| {
            let mean = pair.iter().sum::<f64>() / pair.len().max(1) as f64;
            // Whatever is not nothing is seen.
            let level = (8.0 * mean / peak).ceil().clamp(0.0, 8.0) as usize;
            BLOCKS[level]
        };
        self.columns.chunks(2).map(of).collect()
    }

    /// The columns as an area, in a box that is as wide as there are columns and 100 high.
    pub(crate) fn area(&self) -> String {
        let peak = self.peak.max(f64::MIN_POSITIVE);
        let mut path = "M0 100".to_owned();
        for (at, column) in self.columns.iter().enumerate() {
            path.push_str(&format!("V{:.1}H{}", 100.0 - 100.0 * column / peak, at + 1));
        }
        path + "V100Z"
    }
}

#[cfg(test)]
mod tests {
    use pipeline::lanes::Span;
    use pipeline::report::{GpuRecord, PartCost, Report, Score, Stage};

    use super::{Lane, on_card};

    fn report(parts: &[(&str, f64)]) -> Report {
        let cost = parts.iter().map(|(part, ms)| PartCost { part: (*part).to_owned(), ms: *ms });
        Report {
            stage: Stage::Search,
            device: "H200".to_owned(),
            kernels: Vec::new(),
            cases: Vec::new(),
            score: Score::None,
            notes: Vec::new(),
            gpu: Some(GpuRecord {
                uuid: "GPU-1".to_owned(),
                driver: "580.1".to_owned(),
                before: None,
                after: None,
                cold: Vec::new(),
                warm: Vec::new(),
                cost: cost.collect(),
                memory: None,
            }),
            promotion: None,
            ended: None,
            confinement: None,
            held: Vec::new(),
        }
    }

    #[test]
    fn a_card_was_held_as_long_as_the_report_says_and_never_outside_the_evaluation() {
        let judged = Span { from_us: 1_000_000, to_us: 1_100_000 };
        let span = |from_us, to_us| Some(Span { from_us, to_us });
        for (parts, expected) in [
            (
                &[("wait for the GPU", 9.0), ("process", 30.0), ("compare", 20.0)][..],
                span(1_050_000, 1_080_000),
            ),
            (&[("process", 30.0)], span(1_070_000, 1_100_000)),
            (&[("process", 300.0), ("compare", 20.0)], span(1_000_000, 1_080_000)),
            (&[("process", 30.0), ("compare", 900.0)], span(1_000_000, 1_000_000)),
            (&[("compare", 20.0)], None),
        ] {
            assert_eq!(on_card(&report(parts), judged), expected, "{parts:?}");
        }
        assert_eq!(on_card(&Report { gpu: None, ..report(&[("process", 1.0)]) }, judged), None);
    }

    #[test]
    fn lanes_are_drawn_from_their_columns() {
        let lane = |columns: &[f64]| Lane {
            name: String::new(),
            what: "",
            busy_s: 0.0,
            peak: columns.iter().copied().fold(0.0, f64::max),
            columns: columns.to_vec(),
        };
        assert_eq!(lane(&[2.0, 0.0, 0.0, 0.0, 0.01, 0.0]).blocks(), "▄ ▁");
        assert_eq!(lane(&[2.0, 1.0]).area(), "M0 100V0.0H1V50.0H2V100Z");
        assert_eq!(lane(&[0.0, 0.0]).area(), "M0 100V100.0H1V100.0H2V100Z");
    }
}
