//! `report`: a run in Markdown or JSON.

use pipeline::attempt::Attempt;
use pipeline::template::fence;
use serde_json::json;
use store::{RunSummary, Store};

use crate::commands::status::dollars;
use crate::outcome::Outcome;
use crate::settings::Places;
use crate::{selector, terminal};

/// Prints the report of a run.
pub(crate) async fn perform(
    places: &Places,
    selector: Option<&str>,
    json: bool,
) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let run = selector::resolve_run(&store, selector).await?;
    let summary = store.run_summary(&run).await?;
    let attempts = store.closed_attempts(&run, &summary.run.task_hash).await?;
    if json {
        terminal::line(&as_json(&summary, &attempts).to_string());
    } else {
        terminal::line(&as_markdown(&summary, &attempts));
    }
    Ok(Outcome::done())
}

fn as_markdown(summary: &RunSummary, attempts: &[Attempt]) -> String {
    let run = &summary.run;
    let mut lines = vec![
        format!("# {}", run.task_name),
        String::new(),
        format!("Run `{}`, {}. Device: {}.", run.id, state(summary), device(attempts)),
        "Scores are counts from the simulator: estimates, never times and no claim of speed."
            .to_owned(),
        String::new(),
        "| # | asked | from | verdict | detail or score |".to_owned(),
        "|--:|---|--:|---|---|".to_owned(),
    ];
    lines.extend(attempts.iter().map(row));
    lines.push(String::new());
    match summary.best_seq.and_then(|seq| attempts.iter().find(|attempt| attempt.seq == seq)) {
        None => lines.push("No attempt is correct.".to_owned()),
        Some(best) => {
            lines.push(format!("Best: #{}, {}.", best.seq, best.score().describe()));
            if let Some(code) = &best.code {
                // A kernel's comment must not be able to end its fence and go on as the report.
                lines.push(format!(
                    "\n{}\n\n{}",
                    fence(code.source.trim_end(), "cuda"),
                    fence(code.plan.trim(), "toml")
                ));
            }
        }
    }
    lines.push(format!(
        "\nTokens: {} in, {} out. Dollars: {} paid, {} booked for calls whose fate is unknown.",
        summary.usage.input_tokens,
        summary.usage.output_tokens,
        dollars(summary.settled.nusd),
        dollars(summary.lost.nusd)
    ));
    terminal::plain(&lines.join("\n"))
}

/// The device of the newest evaluation.
fn device(attempts: &[Attempt]) -> &str {
    let mut reports = attempts.iter().rev().filter_map(|attempt| attempt.report.as_ref());
    reports.next().map_or("none used yet", |report| report.device.as_str())
}

fn state(summary: &RunSummary) -> String {
    let reason = summary.run.reason.as_deref().unwrap_or("no reason yet");
    format!("{}: {reason}", summary.run.state.name())
}

fn row(attempt: &Attempt) -> String {
    let parent = attempt.parent.map_or_else(String::new, |seq| seq.to_string());
    let detail = if attempt.verdict.is_correct() {
        attempt.score().describe()
    } else {
        attempt.verdict.detail.lines().next().unwrap_or_default().replace('|', "\\|")
    };
    format!(
        "| {} | {} | {parent} | {} | {detail} |",
        attempt.seq,
        attempt.mode.name(),
        attempt.verdict
    )
}

fn as_json(summary: &RunSummary, attempts: &[Attempt]) -> serde_json::Value {
    let attempts: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            json!({
                "seq": attempt.seq,
                "mode": attempt.mode,
                "parent": attempt.parent,
                "verdict": attempt.verdict,
                "report": attempt.report,
            })
        })
        .collect();
    json!({
        "report": 1,
        "run": summary.run.id.to_string(),
        "task": summary.run.task_name,
        "state": summary.run.state.name(),
        "reason": summary.run.reason,
        "best": summary.best_seq,
        "input_tokens": summary.usage.input_tokens,
        "output_tokens": summary.usage.output_tokens,
        "settled_nusd": summary.settled.nusd,
        "lost_nusd": summary.lost.nusd,
        "attempts": attempts,
    })
}
