//! Table `approval`: what people decided about claims, oldest first.

use sqlx::SqliteConnection;

use super::{of_name, to_u32};
use crate::open::Work;
use crate::{ApprovalRow, ClaimId, Decision, Result, Ruling};

/// Appends a decision; returns its position.
pub(crate) async fn insert(
    work: &mut Work,
    claim: &ClaimId,
    decision: Decision,
    ruling: Ruling<'_>,
) -> Result<u32> {
    let query = "SELECT count(*) FROM approval WHERE claim_id = $1";
    let count: i64 =
        sqlx::query_scalar(query).bind(claim.as_str()).fetch_one(work.connection()).await?;
    let query = "INSERT INTO approval
                 (claim_id, position, decision, reason, reviewer, decided_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(query)
        .bind(claim.as_str())
        .bind(count)
        .bind(decision.name())
        .bind(ruling.reason)
        .bind(ruling.reviewer)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    to_u32("the decisions about a claim", count)
}

#[derive(sqlx::FromRow)]
struct Stored {
    decision: String,
    reason: String,
    reviewer: String,
    decided_us: i64,
}

/// The decisions about a claim, oldest first.
pub(crate) async fn of_claim(
    connection: &mut SqliteConnection,
    claim: &ClaimId,
) -> Result<Vec<ApprovalRow>> {
    let query = "SELECT decision, reason, reviewer, decided_us FROM approval
                 WHERE claim_id = $1 ORDER BY position";
    let stored: Vec<Stored> =
        sqlx::query_as(query).bind(claim.as_str()).fetch_all(connection).await?;
    let row = |stored: Stored| {
        let decision = Decision::from_name(&stored.decision);
        Ok(ApprovalRow {
            decision: of_name("decision", &stored.decision, decision)?,
            reason: stored.reason,
            reviewer: stored.reviewer,
            decided_us: stored.decided_us,
        })
    };
    stored.into_iter().map(row).collect()
}
