//! How a person points at a run, a task of it, or an attempt.

use store::{RunId, RunRow, RunTask, Store};

use crate::outcome::bad_input;

/// What a selector means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) run: RunId,
    pub(crate) what: What,
}

/// What of a run is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Run,
    Task(RunTask),
    Attempt(RunTask, u32),
}

/// Resolves `RUN`, `RUN:SEQ`, `RUN:best`, `RUN:TASK`, `RUN:TASK:SEQ`, `RUN:TASK:best` or
/// `TASK@best`; nothing means `@last`.
pub(crate) async fn resolve(store: &Store, selector: Option<&str>) -> anyhow::Result<Selected> {
    let selector = selector.unwrap_or("@last");
    if let Some(task) = selector.strip_suffix("@best") {
        return best_of_task(store, task).await;
    }
    let mut parts = selector.splitn(3, ':');
    let run = store.resolve_run(parts.next().unwrap_or_default()).await?;
    let row = store.run(&run).await?;
    let what = match (parts.next(), parts.next()) {
        (None, _) => What::Run,
        (Some(attempt), None) if is_attempt(attempt) => {
            attempt_of(store, &row, only_task(&row, attempt)?, attempt).await?
        }
        (Some(task), None) => What::Task(task_named(&row, task)?),
        (Some(task), Some(attempt)) => {
            attempt_of(store, &row, task_named(&row, task)?, attempt).await?
        }
    };
    Ok(Selected { run, what })
}

/// Resolves what points at a whole run: `RUN` or `TASK@best`; nothing means `@last`.
pub(crate) async fn resolve_run(store: &Store, selector: Option<&str>) -> anyhow::Result<RunId> {
    if let Some((run, rest)) = selector.and_then(|text| text.split_once(':')) {
        return Err(bad_input(format!(
            "this is about a whole run: write {run}; `show {run}:{rest}` shows a part of it"
        )));
    }
    Ok(resolve(store, selector).await?.run)
}

/// The best attempt of a run with one task.
pub(crate) async fn best_of_run(
    store: &Store,
    run: &RunId,
    task: &RunTask,
) -> anyhow::Result<Option<u32>> {
    let tasks = store.run_summary(run).await?.tasks;
    Ok(tasks.iter().find(|summary| summary.task == *task).and_then(|summary| summary.best_seq))
}

fn is_attempt(text: &str) -> bool {
    text == "best" || text.starts_with(|c: char| c.is_ascii_digit())
}

async fn attempt_of(
    store: &Store,
    row: &RunRow,
    task: RunTask,
    attempt: &str,
) -> anyhow::Result<What> {
    if attempt == "best" {
        let best = best_of_run(store, &row.id, &task).await?;
        let none =
            || bad_input(format!("run {} has no correct attempt at {} yet", row.id, task.name));
        let seq = best.ok_or_else(none)?;
        return Ok(What::Attempt(task, seq));
    }
    let wrong = || bad_input(format!("`{attempt}` is no attempt: write RUN:3 or RUN:best"));
    let seq = attempt.parse().map_err(|_| wrong())?;
    Ok(What::Attempt(task, seq))
}

fn only_task(row: &RunRow, attempt: &str) -> anyhow::Result<RunTask> {
    match row.tasks.as_slice() {
        [only] => Ok(only.clone()),
        several => Err(bad_input(format!(
            "run {} has {} tasks: write RUN:TASK:{attempt}, with one of {}",
            row.id,
            several.len(),
            names(several)
        ))),
    }
}

fn task_named(row: &RunRow, name: &str) -> anyhow::Result<RunTask> {
    let found = row.tasks.iter().find(|task| task.name == name);
    found.cloned().ok_or_else(|| {
        bad_input(format!(
            "run {} has no task `{name}`: it has {}; attempts are written RUN:3 or RUN:best",
            row.id,
            names(&row.tasks)
        ))
    })
}

fn names(tasks: &[RunTask]) -> String {
    tasks.iter().map(|task| task.name.as_str()).collect::<Vec<_>>().join(", ")
}

async fn best_of_task(store: &Store, name: &str) -> anyhow::Result<Selected> {
    for row in store.list_runs().await? {
        let Some(task) = row.tasks.iter().find(|task| task.name == name) else { continue };
        if let Some(seq) = best_of_run(store, &row.id, task).await? {
            return Ok(Selected { run: row.id, what: What::Attempt(task.clone(), seq) });
        }
    }
    Err(bad_input(format!("no run of a task `{name}` has a correct attempt")))
}
