//! `report`: a run in Markdown or JSON.

use pipeline::attempt::Attempt;
use pipeline::report::Score;
use pipeline::template::fence;
use serde_json::{Value, json};
use store::{ClaimRow, RunSummary, Store, TaskSummary};

use crate::claims::{approval, measured, words};
use crate::commands::status::dollars;
use crate::outcome::Outcome;
use crate::settings::Places;
use crate::{selector, terminal};

/// A task of the run with its closed attempts.
struct TaskPart<'a> {
    summary: &'a TaskSummary,
    attempts: Vec<Attempt>,
    claims: Vec<ShownClaim>,
    /// How the best stands beside a baseline, in words.
    measured: Option<String>,
}

/// A claim as it may be printed: in words and as JSON.
struct ShownClaim {
    words: String,
    json: Value,
}

/// Prints the report of a run.
pub(crate) async fn perform(
    places: &Places,
    selector: Option<&str>,
    json: bool,
) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let run = selector::resolve_run(&store, selector).await?;
    approval::hold_to_log(places, &store, &run).await?;
    let summary = store.run_summary(&run).await?;
    let mut parts = Vec::new();
    for task in &summary.tasks {
        let attempts = store.closed_attempts(&run, &task.task.hash).await?;
        let mut claims = store.claims_of_run(&run).await?;
        claims.retain(|claim| claim.task_hash == task.task.hash);
        let measured = match task.best_seq {
            Some(seq) => {
                let best = store.attempt_detail(&run, &task.task.hash, seq).await?.attempt;
                measured::in_words(&store, &best.id).await?
            }
            None => None,
        };
        let claims = claims.iter().map(|claim| shown(places, claim)).collect();
        parts.push(TaskPart { summary: task, attempts, claims, measured });
    }
    if json {
        terminal::json(&as_json(&summary, &parts));
    } else {
        terminal::line(&as_markdown(&summary, &parts));
    }
    Ok(Outcome::done())
}

/// One that waits for a person shows no number.
fn shown(places: &Places, claim: &ClaimRow) -> ShownClaim {
    match approval::withheld(places, claim) {
        Some(why) => ShownClaim {
            json: json!({
                "claim": claim.id.to_string(), "task": claim.task_name, "seq": claim.seq,
                "withheld": why,
            }),
            words: why,
        },
        None => ShownClaim { words: words::of_row(claim), json: words::as_json(claim) },
    }
}

fn as_markdown(summary: &RunSummary, parts: &[TaskPart<'_>]) -> String {
    let run = &summary.run;
    let mut lines = vec![
        format!("# {}", run.tasks_in_words()),
        String::new(),
        format!("Run `{}`, {}. Device: {}.", run.id, state(summary), device(parts)),
        scores_in_words(parts).to_owned(),
    ];
    if parts.len() > 1 {
        lines.push("\n| task | attempts | correct | best |\n|---|--:|--:|---|".to_owned());
        lines.extend(parts.iter().map(overview_row));
    }
    for part in parts {
        if parts.len() > 1 {
            lines.push(format!("\n## {}", part.summary.task.name));
        }
        lines.extend(task_lines(part));
    }
    let bookings = summary.bookings;
    let unpriced = match bookings.unpriced_calls {
        0 => String::new(),
        calls => format!(" {calls} calls at an unknown price are not among them."),
    };
    lines.push(format!(
        "\nTokens: {} in, {} out. Dollars: {} paid, {} reserved, {} booked for calls whose fate is \
         unknown.{unpriced}",
        summary.usage.input_tokens,
        summary.usage.output_tokens,
        dollars(bookings.settled.nusd.saturating_add(bookings.failed.nusd)),
        dollars(bookings.reserved.nusd),
        dollars(bookings.lost.nusd)
    ));
    terminal::plain(&lines.join("\n"))
}

/// What the scores of a run mean, and what they do not.
fn scores_in_words(parts: &[TaskPart<'_>]) -> &'static str {
    let mut attempts = parts.iter().flat_map(|part| &part.attempts);
    if attempts.any(|attempt| matches!(attempt.score(), Score::Measured(_))) {
        "Times are those of the search stage, with a cold cache: they rank, and claim no speed-up."
    } else {
        "Scores are counts from the simulator: estimates, never times and no claim of speed."
    }
}

fn overview_row(part: &TaskPart<'_>) -> String {
    let correct = part.attempts.iter().filter(|attempt| attempt.verdict.is_correct()).count();
    let best = part.best().map_or_else(
        || "none".to_owned(),
        |best| format!("#{}, {}", best.seq, cell(&scored(best))),
    );
    format!("| {} | {} | {correct} | {best} |", part.summary.task.name, part.attempts.len())
}

fn task_lines(part: &TaskPart<'_>) -> Vec<String> {
    let mut lines = vec![
        "\n| # | asked | from | verdict | detail or score |\n|--:|---|--:|---|---|".to_owned(),
    ];
    lines.extend(part.attempts.iter().map(row));
    lines.push(String::new());
    if !part.claims.is_empty() {
        let claims = part.claims.iter().map(|claim| format!("- {}", cell(&claim.words)));
        lines.push("Claims:\n".to_owned());
        lines.extend(claims);
        lines.push(String::new());
    }
    let Some(best) = part.best() else {
        lines.push("No attempt is correct.".to_owned());
        return lines;
    };
    let measured = part.measured.as_ref().map(|text| format!("; {text}")).unwrap_or_default();
    lines.push(format!("Best: #{}, {}{measured}.", best.seq, scored(best)));
    if let Some(code) = &best.code {
        // A kernel's comment must not be able to end its fence and go on as the report.
        lines.push(format!(
            "\n{}\n\n{}",
            fence(code.source.trim_end(), "cuda"),
            fence(code.plan.trim(), "toml")
        ));
    }
    lines
}

impl TaskPart<'_> {
    fn best(&self) -> Option<&Attempt> {
        let seq = self.summary.best_seq?;
        self.attempts.iter().find(|attempt| attempt.seq == seq)
    }
}

/// The device of the newest evaluation.
fn device<'a>(parts: &'a [TaskPart<'_>]) -> &'a str {
    let attempts = parts.iter().rev().flat_map(|part| part.attempts.iter().rev());
    let mut reports = attempts.filter_map(|attempt| attempt.report.as_ref());
    reports.next().map_or("none used yet", |report| report.device.as_str())
}

fn state(summary: &RunSummary) -> String {
    let reason = summary.run.reason.as_deref().unwrap_or("no reason yet");
    format!("{}: {reason}", summary.run.state.name())
}

fn row(attempt: &Attempt) -> String {
    let parent = attempt.parent.map_or_else(String::new, |seq| seq.to_string());
    let detail = if attempt.verdict.is_correct() {
        cell(&scored(attempt))
    } else {
        cell(attempt.verdict.detail.lines().next().unwrap_or_default())
    };
    format!(
        "| {} | {} | {parent} | {} | {detail} |",
        attempt.seq,
        attempt.mode.name(),
        attempt.verdict
    )
}

/// The score of a correct attempt, or why it has none.
fn scored(attempt: &Attempt) -> String {
    let notes = attempt.report.as_ref().map(|report| report.notes.join("; ")).unwrap_or_default();
    match attempt.score() {
        Score::None if !notes.is_empty() => format!("{}: {notes}", Score::None.describe()),
        score @ (Score::None | Score::Estimated(_) | Score::Measured(_)) => words::score(score),
    }
}

/// Text that a model or compiler wrote, as it stands in a table of a page that renders HTML.
fn cell(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('|', "\\|")
}

fn as_json(summary: &RunSummary, parts: &[TaskPart<'_>]) -> Value {
    let tasks: Vec<_> = parts
        .iter()
        .map(|part| {
            json!({
                "task": part.summary.task.name,
                "best": part.summary.best_seq,
                "attempts": part.attempts.iter().map(attempt_json).collect::<Vec<_>>(),
                "measured": part.measured,
                "claims": part.claims.iter().map(|claim| &claim.json).collect::<Vec<_>>(),
            })
        })
        .collect();
    json!({
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
        "tasks": tasks,
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
