//! Table `task_money`: what counts against each task of a run, in nano-dollars.
//!
//! As with the sums of a run ([`super::total`]), calls of closed attempts are kept as a sum and
//! only those of the few others are counted each time.

use sqlx::{AssertSqlSafe, SqliteConnection};

use crate::open::Work;
use crate::{AttemptId, Result, RunId};

/// Paid, or the worst case while that is not known.
const MONEY: &str = "CAST(min(total(CASE WHEN call.state IN ('settled', 'failed')
    THEN cost_nusd ELSE reserved_nusd END), 9e18) AS INTEGER)";

/// The money of each task of a run that has a call.
pub(crate) async fn of_tasks(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(String, i64)>> {
    // `CROSS` keeps the order: first the few attempts that are not closed, which have an index.
    let query = format!(
        "SELECT task_hash, CAST(min(total(nusd), 9e18) AS INTEGER) FROM (
             SELECT task_hash, nusd FROM task_money WHERE run_id = $1
             UNION ALL
             SELECT task_hash, {MONEY} AS nusd
             FROM attempt CROSS JOIN call ON call.attempt_id = attempt.id
             WHERE attempt.run_id = $1 AND attempt.state <> 'closed' GROUP BY task_hash
         ) GROUP BY task_hash ORDER BY task_hash"
    );
    Ok(sqlx::query_as(AssertSqlSafe(query)).bind(run.as_str()).fetch_all(connection).await?)
}

/// Adds the calls of an attempt that is closed by the same write.
pub(crate) async fn add(work: &mut Work, attempt: &AttemptId) -> Result<()> {
    let query = format!(
        "INSERT INTO task_money (run_id, task_hash, nusd, origin)
         SELECT run_id, task_hash, {MONEY}, $2
         FROM attempt JOIN call ON call.attempt_id = attempt.id
         WHERE attempt.id = $1 GROUP BY run_id, task_hash
         ON CONFLICT (run_id, task_hash) DO UPDATE
             SET nusd = CAST(min(nusd + 0.0 + excluded.nusd, 9e18) AS INTEGER)"
    );
    sqlx::query(AssertSqlSafe(query))
        .bind(attempt.as_str())
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// True where the sums that are kept are those of the calls.
pub(crate) async fn fit(connection: &mut SqliteConnection, run: &RunId) -> Result<bool> {
    let counted = format!(
        "SELECT task_hash, {MONEY} FROM attempt JOIN call ON call.attempt_id = attempt.id
         WHERE attempt.run_id = $1 AND attempt.state = 'closed' GROUP BY task_hash"
    );
    let kept = "SELECT task_hash, nusd FROM task_money WHERE run_id = $1";
    super::same_rows(connection, run, &counted, kept).await
}
