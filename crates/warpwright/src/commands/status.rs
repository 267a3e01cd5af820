//! `status`: the runs, or where one stands.

use store::{RunRow, RunState, RunSummary, Store};

use crate::limits::RUNS_LISTED_MAX;
use crate::outcome::Outcome;
use crate::settings::Places;
use crate::{selector, terminal};

/// Lists the runs, or shows one.
pub(crate) async fn perform(places: &Places, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    match selector {
        None => list(&store).await?,
        Some(_) => {
            let run = selector::resolve_run(&store, selector).await?;
            show(&store, &store.run_summary(&run).await?);
        }
    }
    Ok(Outcome::done())
}

async fn list(store: &Store) -> anyhow::Result<()> {
    let runs = store.list_runs().await?;
    if runs.is_empty() {
        terminal::line("no runs yet; try `warpwright demo`");
    }
    for run in runs.iter().take(RUNS_LISTED_MAX) {
        let reason = run.reason.as_deref().unwrap_or_default();
        terminal::line(&terminal::one_line(&format!(
            "{}  {:<9} {:<16} {reason}",
            run.id,
            state(store, run),
            run.task_name
        )));
    }
    if runs.len() > RUNS_LISTED_MAX {
        terminal::line(&format!("and {} older ones", runs.len() - RUNS_LISTED_MAX));
    }
    Ok(())
}

/// The state in a word; a run that nobody drives any more is not running.
fn state(store: &Store, run: &RunRow) -> &'static str {
    match run.state {
        RunState::Running if store.lock_run(&run.id).is_ok() => "died",
        other => other.name(),
    }
}

fn show(store: &Store, summary: &RunSummary) {
    let run = &summary.run;
    terminal::line(&format!("run       {}", run.id));
    terminal::line(&format!("task      {}", run.task_name));
    let reason = run.reason.as_deref().map_or_else(String::new, |reason| format!(" ({reason})"));
    let state = state(store, run);
    let hint = if state == "died" { "; `resume` goes on from its last step" } else { "" };
    terminal::line(&format!("state     {state}{reason}{hint}"));
    let kinds = summary.verdicts.iter();
    let mut verdicts: Vec<_> =
        kinds.map(|(kind, count)| format!("{} {count}", kind.name())).collect();
    if summary.attempts > summary.closed {
        verdicts.push(format!("in hand {}", summary.attempts - summary.closed));
    }
    terminal::line(&format!("attempts  {} ({})", summary.attempts, verdicts.join(", ")));
    let best = summary.best_seq.map_or_else(|| "none".to_owned(), |seq| format!("#{seq}"));
    terminal::line(&format!("best      {best}"));
    terminal::line(&format!(
        "tokens    {} in, {} out",
        summary.usage.input_tokens, summary.usage.output_tokens
    ));
    terminal::line(&format!(
        "booked    {} settled, {} reserved, {} lost (US dollars); {} calls failed, {} drifted",
        dollars(summary.settled.nusd),
        dollars(summary.reserved.nusd),
        dollars(summary.lost.nusd),
        summary.failed_calls,
        summary.drifted
    ));
}

/// Nano-dollars as dollars.
pub(crate) fn dollars(nusd: i64) -> String {
    format!("{}.{:04}", nusd / 1_000_000_000, nusd % 1_000_000_000 / 100_000)
}
