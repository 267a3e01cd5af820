//! How `demo`, `run` and `resume` end: what came out, where it is, and what can be done next.

use agent::RunEnd;
use pipeline::feedback::Feedback;
use pipeline::next_step::StopReason;
use store::{RunId, RunKind, RunSummary, Store};

use crate::commands::drive::attempt_line;
use crate::environment;
use crate::outcome::{Exit, Outcome};
use crate::settings::Places;
use crate::terminal;

/// Prints the end of a run and gives the outcome of the command.
pub(crate) async fn print(
    places: &Places,
    store: &Store,
    run: &RunId,
    end: &RunEnd,
) -> anyhow::Result<Outcome> {
    let summary = store.run_summary(run).await?;
    if summary.run.kind == RunKind::Manual {
        return print_verdict(places, store, &summary, end).await;
    }
    terminal::line(&format!("\nEnded: {}.", end.describe()));
    print_best(store, run, &summary).await?;
    terminal::line(&format!("Ledger: {}", places.ledger.display()));
    terminal::line(&format!("Run:    {run}\n"));
    print_next_steps(&summary, end);
    Ok(with_details(outcome(end), places, &summary))
}

fn outcome(end: &RunEnd) -> Outcome {
    match end {
        RunEnd::Finished(StopReason::AttemptsSpent) => Outcome::done(),
        RunEnd::Provider { .. } => Outcome::ended(Exit::BudgetEnded, end.describe()),
        RunEnd::Interrupted => Outcome::ended(Exit::Interrupted, end.describe()),
    }
}

fn with_details(outcome: Outcome, places: &Places, summary: &RunSummary) -> Outcome {
    outcome
        .with("run", summary.run.id.to_string())
        .with("task", summary.run.task_name.clone())
        .with("attempts", summary.closed)
        .with("best", summary.best_seq)
        .with("ledger", places.ledger.display().to_string())
}

/// The end of an evaluation: the evidence, and an exit code that says whether the kernel passed.
async fn print_verdict(
    places: &Places,
    store: &Store,
    summary: &RunSummary,
    end: &RunEnd,
) -> anyhow::Result<Outcome> {
    let run = &summary.run;
    let closed = store.closed_attempts(&run.id, &run.task_hash).await?;
    let Some(attempt) = closed.first() else {
        return Ok(with_details(outcome(end), places, summary));
    };
    for fact in Feedback::of(attempt).facts {
        terminal::line(&format!("  {}", terminal::plain(&fact.text)));
    }
    let verdict = attempt.verdict.to_string();
    let outcome = if attempt.verdict.is_correct() {
        Outcome::done()
    } else {
        Outcome::ended(Exit::DidNotPass, format!("{verdict}: {}", attempt.verdict.detail))
    };
    let verdict_json = serde_json::to_value(&attempt.verdict)?;
    let report = serde_json::to_value(&attempt.report)?;
    let outcome = outcome.with("verdict", verdict_json).with("report", report);
    Ok(with_details(outcome, places, summary))
}

async fn print_best(store: &Store, run: &RunId, summary: &RunSummary) -> anyhow::Result<()> {
    let Some(seq) = summary.best_seq else {
        terminal::line("No attempt is correct yet.");
        return Ok(());
    };
    let best = store.attempt_detail(run, seq).await?.attempt;
    terminal::line(&format!("\nBest: {}\n", terminal::one_line(&attempt_line(&best))));
    if let Some(candidate) = &best.candidate {
        terminal::line(&terminal::plain(&candidate.source));
        terminal::line(&terminal::plain(&candidate.plan_text));
    }
    Ok(())
}

fn print_next_steps(summary: &RunSummary, end: &RunEnd) {
    let program = environment::program_name();
    let mut steps = Vec::new();
    if summary.closed > 0 {
        let seq = summary.best_seq.unwrap_or(summary.closed);
        steps.push((format!("show @last:{seq}"), "one attempt: prompt, reply, build, evidence"));
        steps.push(("report @last".to_owned(), "the run as Markdown"));
    }
    steps.push(match end {
        RunEnd::Finished(_) => {
            let more = summary.closed + 10;
            (format!("resume @last --attempts {more}"), "more attempts of this run")
        }
        RunEnd::Provider { class, .. } if class == "drift" => {
            ("resume @last --allow-drift".to_owned(), "take replies to other prompts")
        }
        RunEnd::Provider { class, .. } if class == "exhausted" => {
            ("resume @last --model replay:FILE".to_owned(), "with a longer transcript")
        }
        RunEnd::Provider { .. } | RunEnd::Interrupted => {
            ("resume @last".to_owned(), "go on where it stopped")
        }
    });
    terminal::line("Next:");
    for (command, what) in steps {
        terminal::line(&format!("  {program} {command:<34} {what}"));
    }
}
