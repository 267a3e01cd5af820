//! Tables `card_time` and `task_card_time`: how long cards were held, and may be, for the
//! evaluations of a run, and what those that have ended took in all, for each task.
//!
//! What has ended does not change any more, so a decision counts only the few that have not.

use pipeline::report::Stage;
use sqlx::SqliteConnection;

use super::{to_i64, to_u64};
use crate::error::StoreError;
use crate::open::Work;
use crate::{AttemptId, CardHold, CardTime, Result, RunId};

/// Reserves time for an evaluation.
pub(crate) async fn insert(
    work: &mut Work,
    hold: &CardHold,
    attempt: &AttemptId,
    stage: Stage,
    reserved_us: u64,
) -> Result<()> {
    let query = "INSERT INTO card_time (id, attempt_id, stage, reserved_us, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6)";
    sqlx::query(query)
        .bind(hold.as_str())
        .bind(attempt.as_str())
        .bind(stage.name())
        .bind(to_i64("a reservation of a card", reserved_us)?)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Books what an evaluation took, once; gives the attempt that it is about.
pub(crate) async fn end(work: &mut Work, hold: &CardHold, used_us: u64) -> Result<AttemptId> {
    let query = "UPDATE card_time SET used_us = $2, ended_us = $3
                 WHERE id = $1 AND used_us IS NULL RETURNING attempt_id";
    let attempt: Option<String> = sqlx::query_scalar(query)
        .bind(hold.as_str())
        .bind(to_i64("time on a card", used_us)?)
        .bind(work.now_us)
        .fetch_optional(work.connection())
        .await?;
    let why = || format!("nothing is reserved under {hold}");
    let attempt = attempt
        .map(AttemptId::from)
        .ok_or_else(|| StoreError::Unstorable { what: "time on a card", why: why() })?;
    let query = "INSERT INTO task_card_time (run_id, task_hash, used_us, evaluations, origin)
                 SELECT run_id, task_hash, $2, 1, $3 FROM attempt WHERE id = $1
                 ON CONFLICT (run_id, task_hash) DO UPDATE
                     SET used_us = used_us + excluded.used_us, evaluations = evaluations + 1";
    sqlx::query(query)
        .bind(attempt.as_str())
        .bind(to_i64("time on a card", used_us)?)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(attempt)
}

/// True where the sums that are kept are those of the evaluations that have ended.
pub(crate) async fn fit(connection: &mut SqliteConnection, run: &RunId) -> Result<bool> {
    let counted = "SELECT task_hash, sum(used_us), count(*)
                   FROM card_time JOIN attempt ON attempt.id = attempt_id
                   WHERE run_id = $1 AND used_us IS NOT NULL GROUP BY task_hash";
    let kept = "SELECT task_hash, used_us, evaluations FROM task_card_time WHERE run_id = $1";
    super::same_rows(connection, run, counted, kept).await
}

#[derive(sqlx::FromRow)]
struct Sum {
    task_hash: String,
    used_us: i64,
    reserved_us: i64,
    evaluations: i64,
}

/// The time of each task of a run that had any, as sums.
pub(crate) async fn of_tasks(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(String, CardTime)>> {
    // `CROSS` keeps the order: first the few that have not ended, which have an index.
    let query = "SELECT task_hash, sum(used_us) AS used_us, sum(reserved_us) AS reserved_us,
                     sum(evaluations) AS evaluations
                 FROM (
                     SELECT task_hash, used_us, 0 AS reserved_us, evaluations
                     FROM task_card_time WHERE run_id = $1
                     UNION ALL
                     SELECT task_hash, 0, reserved_us, 1
                     FROM card_time INDEXED BY card_time_open
                     CROSS JOIN attempt ON attempt.id = attempt_id
                     WHERE used_us IS NULL AND run_id = $1
                 ) GROUP BY task_hash ORDER BY task_hash";
    let sums: Vec<Sum> = sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?;
    let row = |sum: Sum| {
        let time = CardTime {
            used_us: to_u64("time on cards", sum.used_us)?,
            reserved_us: to_u64("time on cards", sum.reserved_us)?,
            evaluations: to_u64("a number of evaluations", sum.evaluations)?,
        };
        Ok((sum.task_hash, time))
    };
    sums.into_iter().map(row).collect()
}

/// Time that evaluations took, and of how many attempts, over all runs on devices of a model.
pub(crate) async fn history(
    connection: &mut SqliteConnection,
    device_model: &str,
) -> Result<(u64, u64)> {
    let query = "SELECT coalesce(sum(used_us), 0), count(DISTINCT attempt_id) FROM card_time
                 JOIN attempt ON attempt.id = attempt_id JOIN run ON run.id = run_id
                 JOIN device ON device.id = run.device_id
                 WHERE device.model = $1 AND used_us IS NOT NULL";
    let (used_us, attempts): (i64, i64) =
        sqlx::query_as(query).bind(device_model).fetch_one(connection).await?;
    Ok((to_u64("time on cards", used_us)?, to_u64("a number of attempts", attempts)?))
}
