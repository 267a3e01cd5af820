//! The survey for a person, and for a script.

use pipeline::report::microseconds;
use pipeline::survey::Survey;
use serde_json::{Value, json};

use crate::commands::status::dollars;
use crate::survey::Operator;
use crate::terminal;

/// What stands where nothing is known.
const UNKNOWN: &str = "n/a";

/// The lines of a survey.
pub(crate) fn lines(operators: &[Operator<'_>], survey: &Survey) -> Vec<String> {
    let rows: Vec<[String; 9]> = operators.iter().map(cells).collect();
    let titles = [
        "operator",
        "share",
        "strongest baseline",
        "µs",
        "x floor",
        "whole",
        "attempts",
        "dollars",
        "advice",
    ]
    .map(str::to_owned);
    let widths: [usize; 9] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&titles]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    let mut lines = vec![line(&titles, widths)];
    lines.extend(rows.iter().map(|row| line(row, widths)));
    lines.push(String::new());
    for operator in operators {
        lines.extend(remarks(operator));
    }
    if let Some(gain) = survey.gain_of_whole {
        lines.push(format!(
            "the listed operators together become at most {gain:.3} times as fast, if each that is \
             worth spending on reaches its roofline (Amdahl)"
        ));
    }
    lines
}

/// The first, third and last columns are words, the others numbers.
fn line(cells: &[String; 9], widths: [usize; 9]) -> String {
    let cells = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| match column {
        0 | 2 | 8 => format!("{cell:<width$}"),
        _ => format!("{cell:>width$}"),
    });
    cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
}

fn cells(operator: &Operator<'_>) -> [String; 9] {
    let row = operator.row;
    let or_unknown = |text: Option<String>| text.unwrap_or_else(|| UNKNOWN.to_owned());
    let strongest = row.strongest.as_ref();
    [
        terminal::one_line(operator.listed.name()),
        or_unknown(row.share.map(|share| format!("{:.1} %", 100.0 * share))),
        or_unknown(strongest.map(|(baseline, _)| baseline.to_string())),
        or_unknown(strongest.map(|(_, ns)| microseconds(*ns))),
        or_unknown(row.distance.map(|distance| format!("{distance:.2}"))),
        or_unknown(row.gain_of_whole.map(|gain| format!("{gain:.3}"))),
        row.allotment.attempts.to_string(),
        or_unknown(operator.nusd().map(dollars)),
        row.advice.name().to_owned(),
    ]
}

/// Why an operator is left out, what a weak task leaves open, which baselines have no time.
fn remarks(operator: &Operator<'_>) -> Vec<String> {
    let name = operator.listed.name();
    let mut lines = Vec::new();
    if let Some(why) = operator.row.advice.reason() {
        lines.push(format!("{} {name}: {why}", operator.row.advice.name()));
    }
    let found = &operator.looked.found;
    let weaknesses = found.admission.as_ref().map_or(&[][..], Vec::as_slice);
    lines.extend(weaknesses.iter().map(|it| format!("weak task {name}: {it}")));
    if operator.row.strongest.is_some() {
        lines.extend(missing(operator).iter().map(|it| format!("not timed for {name}: {it}")));
    }
    lines.iter().map(|line| terminal::one_line(line)).collect()
}

fn missing<'a>(operator: &Operator<'a>) -> &'a [String] {
    match &operator.looked.found.times {
        pipeline::survey::Times::NotAvailable(_) => &[],
        pipeline::survey::Times::Taken { missing, .. } => missing,
    }
}

/// One operator for scripts.
pub(crate) fn as_json(operator: &Operator<'_>) -> Value {
    let Operator { listed, looked, row } = operator;
    let strongest = row.strongest.as_ref();
    let floor_ns = match &looked.found.times {
        pipeline::survey::Times::Taken { floor_ns: Ok(floor_ns), .. } => Some(*floor_ns),
        pipeline::survey::Times::Taken { .. } => None,
        pipeline::survey::Times::NotAvailable(_) => None,
    };
    json!({
        "operator": listed.name(),
        "task": listed.section.task,
        "tier": looked.tier.map(|tier| tier.name()),
        "weaknesses": looked.found.admission.as_ref().ok(),
        "share": row.share,
        "baseline": strongest.map(|(baseline, _)| baseline.name()),
        "baseline_ns": strongest.map(|(_, ns)| ns),
        "floor_ns": floor_ns,
        "distance": row.distance,
        "gain_of_whole": row.gain_of_whole,
        "attempts": row.allotment.attempts,
        "nusd": operator.nusd(),
        "advice": row.advice.name(),
        "reason": row.advice.reason(),
        "not_timed": missing(operator),
        "admitted_now": looked.admitted_now,
        "timed_now": looked.timed_now,
    })
}
