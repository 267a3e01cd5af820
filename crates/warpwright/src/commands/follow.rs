//! `status --follow`: shows a run as it goes on, from the ledger alone, until it ends.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pipeline::next_step::StopReason;
use pipeline::tell::{Leave, Told};
use store::{RunId, RunRow, RunState, RunSummary, Store};

use crate::claims::words;
use crate::commands::drive::attempt_line;
use crate::commands::status::{self, limits_in_words};
use crate::limits::{FOLLOW_DEAD_LOOKS, FOLLOW_POLL_MS};
use crate::outcome::{Exit, Outcome};
use crate::settings::{Places, RunSettings};
use crate::{selector, terminal};

/// What was shown so far.
#[derive(Default)]
struct Shown {
    /// Per task, its attempts up to this one are shown.
    closed: BTreeMap<String, u32>,
    tells: usize,
    claims: BTreeSet<String>,
}

/// Follows a run to its end, and ends as it does.
pub(crate) async fn perform(places: &Places, selector: Option<&str>) -> anyhow::Result<Outcome> {
    let store = Store::open_read_only(&places.ledger).await?;
    let run = selector::resolve_run(&store, selector).await?;
    let mut shown = Shown::default();
    let mut dead_looks = 0;
    loop {
        let row = store.run(&run).await?;
        let dead = row.state == RunState::Running && store.driver_of(&run)?.is_none();
        dead_looks = if dead { dead_looks + 1 } else { 0 };
        // Read after the state, so that nothing is missed at the end.
        let summary = store.run_summary(&run).await?;
        show_news(&store, &run, &summary, &mut shown).await?;
        if row.state != RunState::Running || dead_looks >= FOLLOW_DEAD_LOOKS {
            terminal::set_live(Vec::new());
            return Ok(end(&row, &summary));
        }
        if places.live {
            terminal::set_live(vec![live_line(&store, &summary).await?]);
        }
        if terminal::reader_is_gone() {
            return Ok(Outcome::done());
        }
        tokio::time::sleep(Duration::from_millis(FOLLOW_POLL_MS)).await;
    }
}

async fn show_news(
    store: &Store,
    run: &RunId,
    summary: &RunSummary,
    shown: &mut Shown,
) -> anyhow::Result<()> {
    for task in &summary.tasks {
        let last = shown.closed.entry(task.task.hash.to_string()).or_insert(0);
        while *last < task.attempts {
            let detail = store.attempt_detail(run, &task.task.hash, *last + 1).await?;
            if detail.attempt.verdict.is_none() {
                break;
            }
            let line = format!("{} {}", task.task.name, attempt_line(&detail.attempt));
            terminal::line(&terminal::one_line(&line));
            *last += 1;
        }
    }
    let tells = store.tells(run).await?;
    for line in super::tell::lines(&tells[shown.tells.min(tells.len())..], &summary.run) {
        terminal::line(&line);
    }
    shown.tells = tells.len();
    // The newest comes first.
    for claim in store.claims_of_kernels(run).await?.iter().rev() {
        if shown.claims.insert(claim.claim.id.to_string()) {
            terminal::line(&format!("claim     {}", words::of_kernel(run, claim)));
        }
    }
    Ok(())
}

/// Where the run stands, in one line that fits the window.
async fn live_line(store: &Store, summary: &RunSummary) -> anyhow::Result<String> {
    let told = Told::of(&store.tells(&summary.run.id).await?);
    let state = match told.leave_of_run() {
        Leave::Go => "on",
        Leave::Paused => "paused",
        Leave::Stopped => "stopping",
    };
    let settings = serde_json::from_str::<RunSettings>(&summary.run.settings_json);
    let limits = settings.map_or_else(
        |_| String::new(),
        |settings| {
            let budget = told.budget(settings.budget);
            limits_in_words(&budget, (summary.bookings.total(), summary.card_time), store.now_us())
        },
    );
    let attempts = status::attempts_in_words(summary);
    let line = terminal::one_line(&format!("{state}: {attempts} of {limits}"));
    let width = terminal::size().cols.saturating_sub(1);
    Ok(line.chars().take(width).collect())
}

/// Whether a run ended because people stopped it, or all of its tasks.
fn by_people(reason: &str) -> bool {
    [agent::INTERRUPTED, StopReason::TasksStopped.describe()].contains(&reason)
}

fn end(row: &RunRow, summary: &RunSummary) -> Outcome {
    let reason = row.reason.clone().unwrap_or_default();
    let (exit, state) = match row.state {
        RunState::Running => (Exit::OurError, "died"),
        RunState::Finished => (Exit::Done, row.state.name()),
        RunState::Stopped if by_people(&reason) => (Exit::Interrupted, row.state.name()),
        RunState::Stopped => (Exit::BudgetEnded, row.state.name()),
        RunState::Failed => (Exit::OurError, row.state.name()),
    };
    let why = match row.state {
        RunState::Running => "its process is gone; `resume` goes on from its last step".to_owned(),
        RunState::Finished | RunState::Stopped | RunState::Failed => reason,
    };
    terminal::line(&format!("Ended: {state}: {why}"));
    let reason = if exit == Exit::Done { String::new() } else { why };
    Outcome::ended(exit, reason)
        .with("run", row.id.to_string())
        .with("state", state)
        .with("attempts", summary.attempts)
}
