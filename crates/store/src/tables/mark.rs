//! When things happened in a run: marks from its events, and what they are about. No table is of
//! its own.

use sqlx::SqliteConnection;

use super::{of_json, of_name, to_u32, to_u64};
use crate::rows::CallState;
use crate::{AttemptId, BookedCall, CallId, Reservation, Result, RunId};

/// One event that begins or ends something.
#[derive(Debug, sqlx::FromRow)]
pub(crate) struct Mark {
    pub(crate) kind: String,
    pub(crate) call: Option<String>,
    pub(crate) attempt: Option<String>,
    pub(crate) acceptance: Option<String>,
    pub(crate) from_cache: bool,
    pub(crate) created_us: i64,
}

/// The marks of a run, oldest first.
pub(crate) async fn of_run(connection: &mut SqliteConnection, run: &RunId) -> Result<Vec<Mark>> {
    let query = "SELECT kind, json_extract(body, '$.call') AS call,
                     json_extract(body, '$.attempt') AS attempt,
                     json_extract(body, '$.acceptance') AS acceptance,
                     coalesce(json_extract(body, '$.from_cache'), 0) AS from_cache, created_us
                 FROM event WHERE run_id = $1 AND kind IN
                     ('sent', 'replied', 'call_failed', 'call_lost', 'built', 'judged', 'promoted',
                      'run_reopened', 'acceptance_started', 'acceptance_entry')
                 ORDER BY seq";
    Ok(sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?)
}

/// Which attempt of which task an id is: id, task, seq.
pub(crate) async fn attempts(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(String, String, i64)>> {
    let query = "SELECT id, task_hash, seq FROM attempt WHERE run_id = $1";
    Ok(sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?)
}

/// The card of each acceptance of a run: id and card.
pub(crate) async fn cards(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(String, String)>> {
    let query = "SELECT acceptance.id, coalesce(device.uuid, device.model) FROM acceptance
                 JOIN attempt ON attempt.id = attempt_id
                 JOIN device ON device.id = acceptance.device_id WHERE run_id = $1";
    Ok(sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?)
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    attempt_id: String,
    task_hash: String,
    provider: String,
    model: String,
    state: String,
    reserved_nusd: i64,
    reserved_tokens: i64,
    usage: Option<String>,
    cost_nusd: Option<i64>,
    error_class: Option<String>,
}

/// Every call of a run, oldest first, without its times.
pub(crate) async fn calls(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(CallId, BookedCall)>> {
    let query = "SELECT call.id AS id, attempt_id, task_hash, provider, model, call.state AS state,
                     reserved_nusd, reserved_tokens, usage, cost_nusd, error_class
                 FROM call JOIN attempt ON attempt.id = attempt_id
                 WHERE run_id = $1 ORDER BY call.created_us, call.id";
    let rows: Vec<Stored> = sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?;
    rows.into_iter().map(booked).collect()
}

fn booked(row: Stored) -> Result<(CallId, BookedCall)> {
    let usage = row.usage.as_deref().map(|json| of_json("usage of a call", json)).transpose()?;
    let call = BookedCall {
        attempt: AttemptId::from(row.attempt_id),
        task: row.task_hash.into(),
        provider: row.provider,
        model: row.model,
        state: of_name("state of a call", &row.state, CallState::from_name(&row.state))?,
        reservation: Reservation {
            tokens: to_u64("a reservation", row.reserved_tokens)?,
            nusd: row.reserved_nusd,
        },
        usage,
        cost_nusd: row.cost_nusd,
        error_class: row.error_class,
        sent_us: None,
        ended_us: None,
    };
    Ok((CallId::from(row.id), call))
}

/// An attempt's number as it is used elsewhere.
pub(crate) fn number(seq: i64) -> Result<u32> {
    to_u32("an attempt's number", seq)
}
