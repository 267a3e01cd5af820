//! How a person points at a run or an attempt.

use store::{RunId, Store};

use crate::outcome::bad_input;

/// What a selector means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) run: RunId,
    /// The attempt, where one is named.
    pub(crate) seq: Option<u32>,
}

/// Resolves `RUN`, `RUN:SEQ`, `RUN:best` or `TASK@best`; nothing means `@last`.
pub(crate) async fn resolve(store: &Store, selector: Option<&str>) -> anyhow::Result<Selected> {
    let selector = selector.unwrap_or("@last");
    if let Some(task) = selector.strip_suffix("@best") {
        return best_of_task(store, task).await;
    }
    let (run, attempt) = match selector.split_once(':') {
        Some((run, attempt)) => (run, Some(attempt)),
        None => (selector, None),
    };
    let run = store.resolve_run(run).await?;
    let seq =
        match attempt {
            None => None,
            Some("best") => Some(best_of_run(store, &run).await?),
            Some(text) => Some(text.parse().map_err(|_| {
                bad_input(format!("`{text}` is no attempt: write RUN:3 or RUN:best"))
            })?),
        };
    Ok(Selected { run, seq })
}

/// Resolves what points at a whole run: `RUN` or `TASK@best`; nothing means `@last`.
pub(crate) async fn resolve_run(store: &Store, selector: Option<&str>) -> anyhow::Result<RunId> {
    if let Some((run, attempt)) = selector.and_then(|text| text.split_once(':')) {
        return Err(bad_input(format!(
            "this is about a whole run: write {run}; `show {run}:{attempt}` shows one attempt"
        )));
    }
    Ok(resolve(store, selector).await?.run)
}

async fn best_of_run(store: &Store, run: &RunId) -> anyhow::Result<u32> {
    let best = store.run_summary(run).await?.best_seq;
    best.ok_or_else(|| bad_input(format!("run {run} has no correct attempt yet")))
}

async fn best_of_task(store: &Store, task: &str) -> anyhow::Result<Selected> {
    for row in store.list_runs().await?.into_iter().filter(|row| row.task_name == task) {
        if let Some(seq) = store.run_summary(&row.id).await?.best_seq {
            return Ok(Selected { run: row.id, seq: Some(seq) });
        }
    }
    Err(bad_input(format!("no run of a task `{task}` has a correct attempt")))
}
