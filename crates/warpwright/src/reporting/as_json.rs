//! The report for a script.

use pipeline::attempt::Attempt;
use pipeline::standing::{COLUMNS, FAST_P, MEDIAN, Standing, WHOLE};
use serde_json::{Value, json};

use crate::reporting::{RunReport, TaskPart};

/// The whole report.
pub(crate) fn as_json(report: &RunReport) -> anyhow::Result<Value> {
    let summary = &report.summary;
    let tasks: Vec<_> = report.parts.iter().map(task_json).collect();
    let counts = |rows: &[(String, usize)]| {
        rows.iter().map(|(name, count)| json!({ "name": name, "count": count })).collect::<Vec<_>>()
    };
    Ok(json!({
        "report": 2,
        "run": summary.run.id.to_string(),
        "state": summary.run.state.name(),
        "reason": summary.run.reason,
        "input_tokens": summary.usage.input_tokens,
        "output_tokens": summary.usage.output_tokens,
        "settled_nusd": summary.bookings.settled.nusd,
        "failed_nusd": summary.bookings.failed.nusd,
        "reserved_nusd": summary.bookings.reserved.nusd,
        "lost_nusd": summary.bookings.lost.nusd,
        "unpriced_calls": summary.bookings.unpriced_calls,
        "gpu_used_us": summary.card_time.used_us,
        "gpu_reserved_us": summary.card_time.reserved_us,
        "prices": report.prices,
        "tasks": tasks,
        "numbers": serde_json::to_value(&report.board)?,
        "definitions": [FAST_P, COLUMNS, MEDIAN, WHOLE],
        "weighted": report.weighted,
        "spent": {
            "by_model": serde_json::to_value(&report.books.by_model)?,
            "by_task": serde_json::to_value(&report.books.by_task)?,
        },
        "failures": {
            "candidates": counts(&report.books.candidates),
            "providers": counts(&report.books.providers),
        },
        "timeline": serde_json::to_value(&report.timeline)?,
    }))
}

fn task_json(part: &TaskPart) -> Value {
    let (standing, factor) = match part.standing {
        Standing::Nothing => ("nothing", None),
        Standing::Correct => ("correct", None),
        Standing::Measured(factor) => ("measured", Some(factor)),
        Standing::Claimed { low, .. } => ("claimed", Some(low)),
    };
    json!({
        "task": part.summary.task.name,
        "best": part.summary.best_seq,
        "attempts": part.attempts.iter().map(attempt_json).collect::<Vec<_>>(),
        "measured": part.measured,
        "search_end": part.search_end,
        "claims": part.claims.iter().map(|claim| &claim.json).collect::<Vec<_>>(),
        "share": part.share,
        "standing": standing,
        "factor": factor,
        "why": part.advice.why,
        "command": part.advice.command,
    })
}

fn attempt_json(attempt: &Attempt) -> Value {
    json!({
        "seq": attempt.seq,
        "mode": attempt.mode,
        "parent": attempt.parent,
        "verdict": attempt.verdict,
        "report": attempt.report,
    })
}
