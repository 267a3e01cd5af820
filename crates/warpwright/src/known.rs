//! The kernels that a new run starts from: of each task the best that this ledger has for the same
//! device. They are judged again like any other, so an old judge's word counts for nothing.

use agent::Known;
use pipeline::attempt::Attempt;
use pipeline::reply;
use store::{RunRow, Store};

use crate::claims::words;
use crate::limits::RUNS_SEARCHED_MAX;
use crate::terminal;
use crate::wiring::LoadedTask;

/// One for each task, in their order; tells of each.
pub(crate) async fn of_ledger(
    store: &Store,
    tasks: &[LoadedTask],
    device_model: &str,
) -> anyhow::Result<Vec<Option<Known>>> {
    let mut runs = Vec::new();
    for run in store.list_runs().await? {
        if runs.len() < RUNS_SEARCHED_MAX
            && store.device_model(&run.device_id).await? == device_model
        {
            runs.push(run);
        }
    }
    let mut known = Vec::new();
    for loaded in tasks {
        known.push(of_task(store, &runs, loaded).await?);
    }
    Ok(known)
}

async fn of_task(
    store: &Store,
    runs: &[RunRow],
    loaded: &LoadedTask,
) -> anyhow::Result<Option<Known>> {
    let (hash, name) = (&loaded.task.hash, &loaded.task.spec.name);
    let mut found: Option<(Attempt, &RunRow)> = None;
    for run in runs.iter().filter(|run| run.tasks.iter().any(|task| task.hash == *hash)) {
        let Some(of_run) = store.best_outline(&run.id, hash).await? else { continue };
        let is_better = |(other, _): &(Attempt, _)| of_run.score().improves_on(other.score());
        if found.as_ref().is_none_or(is_better) {
            found = Some((of_run, run));
        }
    }
    let Some((outline, run)) = found else { return Ok(None) };
    let attempt = store.closed_attempt_of(&run.id, hash, outline.seq).await?;
    let origin = format!("{}:{name}:{}", run.id, attempt.seq);
    let Some(code) = &attempt.code else { return Ok(None) };
    let score = words::score(attempt.score());
    terminal::note(&format!(
        "{name} starts from the best of this ledger, {origin} ({score}); --fresh begins without it"
    ));
    Ok(Some(Known { origin, reply: reply::compose(&code.source, &code.plan) }))
}
