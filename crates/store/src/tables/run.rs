//! Tables `run` and `secret_seed`.

use pipeline::digest::Digest;
use sqlx::SqliteConnection;

use super::event::FIRST_PREV_HASH;
use super::{of_name, to_i64, to_u64};
use crate::error::StoreError;
use crate::open::Work;
use crate::{NewRun, NewTask, Result, RunId, RunKind, RunRow, RunState, RunTask};

pub(crate) async fn insert(
    work: &mut Work,
    id: &RunId,
    run: &NewRun<'_>,
    device_id: &str,
) -> Result<()> {
    let none = || StoreError::Unstorable { what: "a run", why: "it has no task".to_owned() };
    let first = run.tasks.first().ok_or_else(none)?;
    let query = "INSERT INTO run
                 (id, kind, settings, judge_hash, toolchain_id, prompts_hash, task_hash,
                  device_id, state, event_count, event_head, started_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 0, $10, $11, $12)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(run.kind.name())
        .bind(run.settings_json)
        .bind(run.judge_hash)
        .bind(run.toolchain_id)
        .bind(run.prompts_hash)
        .bind(first.hash.as_str())
        .bind(device_id)
        .bind(RunState::Running.name())
        .bind(FIRST_PREV_HASH)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Ties the tasks, which are stored already, to their run.
pub(crate) async fn insert_tasks(work: &mut Work, id: &RunId, tasks: &[NewTask<'_>]) -> Result<()> {
    for (position, task) in (0i64..).zip(tasks) {
        let query = "INSERT INTO run_task (run_id, position, task_hash, origin)
                     VALUES ($1, $2, $3, $4)";
        sqlx::query(query)
            .bind(id.as_str())
            .bind(position)
            .bind(task.hash.as_str())
            .bind(work.origin.to_string())
            .execute(work.connection())
            .await?;
    }
    Ok(())
}

/// Sets the state; a run that is not running gets an end and a reason.
pub(crate) async fn set_state(
    work: &mut Work,
    id: &RunId,
    state: RunState,
    reason: Option<&str>,
) -> Result<()> {
    let ended_us = (state != RunState::Running).then_some(work.now_us);
    let query = "UPDATE run SET state = $2, reason = $3, ended_us = $4 WHERE id = $1";
    let done = sqlx::query(query)
        .bind(id.as_str())
        .bind(state.name())
        .bind(reason)
        .bind(ended_us)
        .execute(work.connection())
        .await?;
    if done.rows_affected() == 1 { Ok(()) } else { Err(unknown(id.as_str())) }
}

pub(crate) async fn set_settings(work: &mut Work, id: &RunId, settings_json: &str) -> Result<()> {
    let query = "UPDATE run SET settings = $2 WHERE id = $1";
    sqlx::query(query).bind(id.as_str()).bind(settings_json).execute(work.connection()).await?;
    Ok(())
}

/// Number and hash of the last event.
pub(crate) async fn event_head(
    connection: &mut SqliteConnection,
    id: &RunId,
) -> Result<(u64, String)> {
    let query = "SELECT event_count, event_head FROM run WHERE id = $1";
    let row: Option<(i64, String)> =
        sqlx::query_as(query).bind(id.as_str()).fetch_optional(connection).await?;
    let (count, head) = row.ok_or_else(|| unknown(id.as_str()))?;
    Ok((to_u64("the number of events", count)?, head))
}

pub(crate) async fn set_event_head(
    work: &mut Work,
    id: &RunId,
    count: u64,
    hash: &Digest,
) -> Result<()> {
    let query = "UPDATE run SET event_count = $2, event_head = $3 WHERE id = $1";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(to_i64("the number of events", count)?)
        .bind(hash.as_str())
        .execute(work.connection())
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    kind: String,
    settings: String,
    judge_hash: String,
    toolchain_id: String,
    prompts_hash: String,
    device_id: String,
    state: String,
    reason: Option<String>,
    started_us: i64,
    ended_us: Option<i64>,
}

impl Stored {
    async fn row(self, connection: &mut SqliteConnection) -> Result<RunRow> {
        let tasks = tasks(connection, &self.id).await?;
        Ok(RunRow {
            tasks,
            kind: of_name("kind of run", &self.kind, RunKind::from_name(&self.kind))?,
            state: of_name("state of a run", &self.state, RunState::from_name(&self.state))?,
            id: RunId::from(self.id),
            settings_json: self.settings,
            judge_hash: self.judge_hash,
            toolchain_id: self.toolchain_id,
            prompts_hash: self.prompts_hash,
            device_id: self.device_id,
            reason: self.reason,
            started_us: self.started_us,
            ended_us: self.ended_us,
        })
    }
}

pub(crate) async fn get(connection: &mut SqliteConnection, id: &RunId) -> Result<RunRow> {
    let query = "SELECT * FROM run WHERE id = $1";
    let stored: Option<Stored> =
        sqlx::query_as(query).bind(id.as_str()).fetch_optional(&mut *connection).await?;
    stored.ok_or_else(|| unknown(id.as_str()))?.row(connection).await
}

/// Every run, newest first.
pub(crate) async fn list(connection: &mut SqliteConnection) -> Result<Vec<RunRow>> {
    let query = "SELECT * FROM run ORDER BY started_us DESC, rowid DESC";
    let stored: Vec<Stored> = sqlx::query_as(query).fetch_all(&mut *connection).await?;
    let mut rows = Vec::new();
    for run in stored {
        rows.push(run.row(connection).await?);
    }
    Ok(rows)
}

async fn tasks(connection: &mut SqliteConnection, run: &str) -> Result<Vec<RunTask>> {
    let query = "SELECT task.hash, task.name FROM run_task
                 JOIN task ON task.hash = run_task.task_hash
                 WHERE run_task.run_id = $1 ORDER BY run_task.position";
    let rows: Vec<(String, String)> = sqlx::query_as(query).bind(run).fetch_all(connection).await?;
    if rows.is_empty() {
        return Err(StoreError::damaged(format!("run {run} has no task")));
    }
    let task = |(hash, name)| RunTask { hash: Digest::from(hash), name };
    Ok(rows.into_iter().map(task).collect())
}

/// Ids that start with `prefix`.
pub(crate) async fn ids_with_prefix(
    connection: &mut SqliteConnection,
    prefix: &str,
) -> Result<Vec<RunId>> {
    let query = "SELECT id FROM run WHERE substr(id, 1, length($1)) = $1";
    let ids: Vec<String> = sqlx::query_scalar(query).bind(prefix).fetch_all(connection).await?;
    Ok(ids.into_iter().map(RunId::from).collect())
}

pub(crate) async fn newest(connection: &mut SqliteConnection) -> Result<Option<RunId>> {
    let query = "SELECT id FROM run ORDER BY started_us DESC, rowid DESC LIMIT 1";
    let id: Option<String> = sqlx::query_scalar(query).fetch_optional(connection).await?;
    Ok(id.map(RunId::from))
}

pub(crate) async fn insert_seeds(work: &mut Work, id: &RunId, seeds: &str) -> Result<()> {
    let query = "INSERT INTO secret_seed (run_id, seeds, created_us, origin)
                 VALUES ($1, $2, $3, $4)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(seeds)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

pub(crate) async fn seeds(connection: &mut SqliteConnection, id: &RunId) -> Result<Option<String>> {
    let query = "SELECT seeds FROM secret_seed WHERE run_id = $1";
    Ok(sqlx::query_scalar(query).bind(id.as_str()).fetch_optional(connection).await?)
}

pub(crate) fn unknown(selector: &str) -> StoreError {
    StoreError::UnknownRun { selector: selector.to_owned() }
}
