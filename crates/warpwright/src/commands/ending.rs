//! How `demo`, `run` and `resume` end: what came out, where it is, and what can be done next.

use agent::RunEnd;
use pipeline::feedback::Feedback;
use pipeline::next_step::StopReason;
use pipeline::report::Report;
use pipeline::verdict::Verdict;
use store::{RunId, RunKind, RunSummary, Store};

use crate::claims::{measured, words};
use crate::commands::drive::attempt_line;
use crate::commands::status::{card_time_in_words, dollars};
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
    terminal::line(&format!("Spent:  {}", spent_in_words(&summary)));
    terminal::line(&format!("Ledger: {}", places.ledger.display()));
    terminal::line(&format!("Run:    {run}\n"));
    let newest = store.resolve_run("@last").await.ok();
    let named = name_of(&summary, newest.as_ref());
    print_next_steps(&summary, end, &named);
    Ok(with_details(outcome(end), places, &summary))
}

pub(crate) fn outcome(end: &RunEnd) -> Outcome {
    match end {
        RunEnd::Finished(StopReason::AttemptsSpent | StopReason::SearchesEnded)
        | RunEnd::InputEnded => Outcome::done(),
        RunEnd::Finished(
            StopReason::TokensSpent
            | StopReason::DollarsSpent
            | StopReason::TimeSpent
            | StopReason::GpuSecondsSpent,
        ) => Outcome::ended(Exit::BudgetEnded, end.describe()),
        RunEnd::Finished(StopReason::TasksStopped) => {
            Outcome::ended(Exit::Interrupted, end.describe())
        }
        RunEnd::Provider { class, .. } => {
            Outcome::ended(Exit::BudgetEnded, end.describe()).with("class", class.clone())
        }
        RunEnd::Interrupted => Outcome::ended(Exit::Interrupted, end.describe()),
    }
}

fn with_details(outcome: Outcome, places: &Places, summary: &RunSummary) -> Outcome {
    let tasks: Vec<_> = summary
        .tasks
        .iter()
        .map(|task| {
            serde_json::json!({
                "task": task.task.name, "attempts": task.closed, "best": task.best_seq,
            })
        })
        .collect();
    outcome
        .with("run", summary.run.id.to_string())
        .with("tasks", tasks)
        .with("attempts", summary.closed)
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
    let mut closed = Vec::new();
    for task in &run.tasks {
        closed.extend(store.closed_attempts(&run.id, &task.hash).await?);
    }
    let Some(attempt) = closed.first() else {
        return Ok(with_details(outcome(end), places, summary));
    };
    for fact in Feedback::of(attempt).facts {
        terminal::line(&format!("  {}", terminal::plain(&fact.text)));
    }
    let outcome = of_verdict(&attempt.verdict, attempt.report.as_ref())?;
    Ok(with_details(outcome, places, summary))
}

/// What a person's kernel ends in.
pub(crate) fn of_verdict(verdict: &Verdict, report: Option<&Report>) -> anyhow::Result<Outcome> {
    let outcome = if verdict.is_correct() {
        Outcome::done()
    } else {
        Outcome::ended(Exit::DidNotPass, format!("{verdict}: {}", verdict.detail))
    };
    let verdict = serde_json::to_value(verdict)?;
    Ok(outcome.with("verdict", verdict).with("report", serde_json::to_value(report)?))
}

/// The best kernel of each task; with one task, its source too.
async fn print_best(store: &Store, run: &RunId, summary: &RunSummary) -> anyhow::Result<()> {
    let many = summary.tasks.len() > 1;
    let claims = store.claims_of_kernels(run).await?;
    for task in &summary.tasks {
        let prefix = if many { format!("{}: ", task.task.name) } else { String::new() };
        let Some(seq) = task.best_seq else {
            terminal::line(&format!("{prefix}No attempt is correct yet."));
            continue;
        };
        let best = store.attempt_detail(run, &task.task.hash, seq).await?.attempt;
        let mut line = attempt_line(&best);
        if let Some(measured) = measured::in_words(store, &best.id).await? {
            line = format!("{line}; {measured}");
        }
        let of_best = claims.iter().find(|it| it.is_of(&task.task.hash, seq));
        if let Some(claim) = of_best {
            line = format!("{line}; claim {}", words::of_kernel(run, claim));
        }
        let line = terminal::one_line(&line);
        if many {
            terminal::line(&format!("{prefix}best {line}"));
            continue;
        }
        terminal::line(&format!("\nBest: {line}\n"));
        if let Some(candidate) = &best.candidate {
            terminal::line(&terminal::plain(&candidate.source));
            terminal::line(&terminal::plain(&candidate.plan_text));
        }
    }
    Ok(())
}

/// How a person names this run: the shortest way that is not another one.
fn name_of(summary: &RunSummary, newest: Option<&RunId>) -> String {
    if newest == Some(&summary.run.id) { "@last".to_owned() } else { summary.run.id.to_string() }
}

/// Tokens and dollars of a run, what is not certain included.
fn spent_in_words(summary: &RunSummary) -> String {
    let bookings = summary.bookings;
    let paid = bookings.settled.nusd.saturating_add(bookings.failed.nusd);
    let mut parts = vec![
        format!("{} dollars", dollars(paid)),
        format!("{} tokens in, {} out", summary.usage.input_tokens, summary.usage.output_tokens),
    ];
    if summary.card_time.evaluations > 0 {
        parts.push(card_time_in_words(summary.card_time));
    }
    if bookings.lost.calls > 0 {
        let (calls, nusd) = (bookings.lost.calls, dollars(bookings.lost.nusd));
        parts.push(format!("{calls} calls booked as lost at {nusd} dollars"));
    }
    if bookings.unpriced_calls > 0 {
        parts.push(format!("{} calls at an unknown price", bookings.unpriced_calls));
    }
    parts.join("; ")
}

fn print_next_steps(summary: &RunSummary, end: &RunEnd, named: &str) {
    let program = environment::program_name();
    let mut steps = Vec::new();
    if summary.closed > 0 {
        steps.push((
            format!("show {}", shown(summary, named)),
            "one attempt: prompt, reply, evidence",
        ));
        steps.push((format!("report {named}"), "the run as Markdown"));
    }
    steps.push(next_command(summary, end, named));
    terminal::line("Next:");
    for (command, what) in steps {
        terminal::line(&format!("  {program} {command:<34} {what}"));
    }
}

/// A selector of the most telling attempt.
fn shown(summary: &RunSummary, named: &str) -> String {
    match summary.tasks.as_slice() {
        [only] => format!("{named}:{}", only.best_seq.unwrap_or(only.closed)),
        several => {
            let best = several.iter().find(|task| task.best_seq.is_some());
            let task = best.or(several.first());
            let seq = task.map_or(1, |task| task.best_seq.unwrap_or(1));
            format!("{named}:{}:{seq}", task.map_or("TASK", |task| task.task.name.as_str()))
        }
    }
}

fn next_command(summary: &RunSummary, end: &RunEnd, named: &str) -> (String, &'static str) {
    let resume = |rest: &str| format!("resume {named}{rest}");
    if summary.run.kind == RunKind::Replay && *end == RunEnd::Finished(StopReason::AttemptsSpent) {
        return ("init".to_owned(), "settings for a model of your own, then `run`");
    }
    match end {
        RunEnd::Finished(StopReason::AttemptsSpent) | RunEnd::InputEnded => {
            let more = summary.closed + 10;
            (resume(&format!(" --attempts {more}")), "more attempts of this run")
        }
        RunEnd::Finished(StopReason::SearchesEnded) => {
            (resume(" --plateau 0"), "until the attempts are spent")
        }
        RunEnd::Finished(StopReason::TokensSpent) => (resume(" --tokens N"), "with more tokens"),
        RunEnd::Finished(StopReason::DollarsSpent) => {
            (resume(" --dollars USD"), "with more money, what is spent included")
        }
        RunEnd::Finished(StopReason::TimeSpent) => (resume(" --hours H"), "with more time"),
        RunEnd::Finished(StopReason::GpuSecondsSpent) => {
            (resume(" --gpu-seconds N"), "with more GPU-seconds, what is used included")
        }
        RunEnd::Finished(StopReason::TasksStopped) => {
            (format!("tell {named} TASK --resume"), "then `resume`: that task goes on")
        }
        RunEnd::Provider { class, .. } if class == "drift" => {
            (resume(" --allow-drift"), "take replies to other prompts")
        }
        RunEnd::Provider { class, .. } if class == "exhausted" => {
            (resume(" --model replay:FILE"), "with a longer transcript")
        }
        RunEnd::Provider { .. } | RunEnd::Interrupted => (resume(""), "go on where it stopped"),
    }
}
