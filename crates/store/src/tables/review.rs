//! Table `review`: what a person has to look at, and what they decided.

use sqlx::SqliteConnection;

use super::of_name;
use crate::open::Work;
use crate::{AcceptanceId, Decision, Result, ReviewRow, Ruling, RunId};

pub(crate) async fn insert(
    work: &mut Work,
    acceptance: &AcceptanceId,
    suspicion: &str,
    detail: &str,
) -> Result<()> {
    let query = "INSERT INTO review (acceptance_id, suspicion, detail, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5)";
    sqlx::query(query)
        .bind(acceptance.as_str())
        .bind(suspicion)
        .bind(detail)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Stores what was decided; false when there was nothing to decide.
pub(crate) async fn decide(
    work: &mut Work,
    acceptance: &AcceptanceId,
    decision: Decision,
    ruling: Ruling<'_>,
) -> Result<bool> {
    let query = "UPDATE review SET decision = $2, note = $3, decided_us = $4, reviewer = $5
                 WHERE acceptance_id = $1 AND decision IS NULL";
    let done = sqlx::query(query)
        .bind(acceptance.as_str())
        .bind(decision.name())
        .bind(ruling.reason)
        .bind(work.now_us)
        .bind(ruling.reviewer)
        .execute(work.connection())
        .await?;
    Ok(done.rows_affected() == 1)
}

#[derive(sqlx::FromRow)]
struct Stored {
    acceptance_id: String,
    run_id: String,
    task_name: String,
    seq: u32,
    suspicion: String,
    detail: String,
    decision: Option<String>,
    note: Option<String>,
    reviewer: Option<String>,
    decided_us: Option<i64>,
    created_us: i64,
}

impl Stored {
    fn row(self) -> Result<ReviewRow> {
        let decision = match &self.decision {
            Some(name) => Some(of_name("decision", name, Decision::from_name(name))?),
            None => None,
        };
        Ok(ReviewRow {
            acceptance_id: AcceptanceId::from(self.acceptance_id),
            run_id: RunId::from(self.run_id),
            task_name: self.task_name,
            seq: self.seq,
            suspicion: self.suspicion,
            detail: self.detail,
            decision,
            note: self.note,
            reviewer: self.reviewer,
            decided_us: self.decided_us,
            created_us: self.created_us,
        })
    }
}

/// Everything that waited or waits for a person, newest first.
pub(crate) async fn all(connection: &mut SqliteConnection) -> Result<Vec<ReviewRow>> {
    let query = "SELECT review.*, attempt.run_id, task.name AS task_name, attempt.seq
                 FROM review JOIN acceptance ON acceptance.id = review.acceptance_id
                 JOIN attempt ON attempt.id = acceptance.attempt_id
                 JOIN task ON task.hash = attempt.task_hash ORDER BY review.rowid DESC";
    let stored: Vec<Stored> = sqlx::query_as(query).fetch_all(connection).await?;
    stored.into_iter().map(Stored::row).collect()
}
