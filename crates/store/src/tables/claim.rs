//! Tables `claim` and `claim_check`: what is claimed, and who looked again.

use pipeline::acceptance::Claim;
use pipeline::digest::Digest;
use sqlx::SqliteConnection;

use super::{approval, artifact, of_json, of_name, to_json};
use crate::open::Work;
use crate::{
    AcceptanceId, AttemptId, CheckOutcome, CheckRow, ClaimId, ClaimRow, ClaimState, KernelClaim,
    NewCheck, Result, RunId,
};

/// Stores a claim; returns the hash of its artifact.
pub(crate) async fn insert(
    work: &mut Work,
    id: &ClaimId,
    acceptance: &AcceptanceId,
    claim: &Claim,
    chain_head: &str,
) -> Result<Digest> {
    let hash = artifact::put(work, to_json("the claim", claim)?.as_bytes()).await?;
    let query = "INSERT INTO claim
                 (id, acceptance_id, baseline, interval, baseline_set, claim, chain_head, state,
                  why, created_us, updated_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, 'claimed', '', $8, $8, $9)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(acceptance.as_str())
        .bind(claim.against.baseline.to_string())
        .bind(interval(claim)?)
        .bind(baseline_set(claim))
        .bind(hash.as_str())
        .bind(chain_head)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(hash)
}

/// The hash of what is claimed.
pub(crate) async fn hash(connection: &mut SqliteConnection, id: &ClaimId) -> Result<String> {
    let query = "SELECT claim FROM claim WHERE id = $1";
    Ok(sqlx::query_scalar(query).bind(id.as_str()).fetch_one(connection).await?)
}

/// The interval as its column says it.
pub(crate) fn interval(claim: &Claim) -> Result<String> {
    to_json("the interval", &claim.against.interval)
}

/// What the baselines were, as its column says it.
pub(crate) fn baseline_set(claim: &Claim) -> &'static str {
    if claim.over_framework { "framework" } else { "native" }
}

pub(crate) async fn set_state(
    work: &mut Work,
    id: &ClaimId,
    state: ClaimState,
    why: &str,
) -> Result<()> {
    let query = "UPDATE claim SET state = $2, why = $3, updated_us = $4 WHERE id = $1";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(state.name())
        .bind(why)
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    Ok(())
}

pub(crate) async fn insert_check(work: &mut Work, new: &NewCheck<'_>) -> Result<()> {
    let query = "INSERT INTO claim_check
                 (acceptance_id, claim_id, bundle, outcome, detail, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(query)
        .bind(new.acceptance.as_str())
        .bind(new.claim.map(ClaimId::as_str))
        .bind(new.bundle.map(Digest::as_str))
        .bind(new.outcome.name())
        .bind(new.detail)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    acceptance_id: String,
    run_id: String,
    attempt_id: String,
    task_hash: String,
    task_name: String,
    seq: u32,
    claim: String,
    chain_head: String,
    state: String,
    why: String,
    created_us: i64,
}

const SELECT: &str = "SELECT claim.*, attempt.run_id, attempt.id AS attempt_id,
                      attempt.task_hash, task.name AS task_name, attempt.seq
                      FROM claim JOIN acceptance ON acceptance.id = claim.acceptance_id
                      JOIN attempt ON attempt.id = acceptance.attempt_id
                      JOIN task ON task.hash = attempt.task_hash";

impl Stored {
    async fn row(self, connection: &mut SqliteConnection) -> Result<ClaimRow> {
        let id = ClaimId::from(self.id);
        Ok(ClaimRow {
            acceptance_id: AcceptanceId::from(self.acceptance_id),
            run_id: RunId::from(self.run_id),
            attempt_id: AttemptId::from(self.attempt_id),
            task_hash: Digest::from(self.task_hash),
            task_name: self.task_name,
            seq: self.seq,
            claim: of_json("a claim", &artifact::text(connection, &self.claim).await?)?,
            chain_head: Digest::from(self.chain_head),
            state: of_name("state", &self.state, ClaimState::from_name(&self.state))?,
            why: self.why,
            created_us: self.created_us,
            checks: checks(connection, &id).await?,
            approvals: approval::of_claim(connection, &id).await?,
            id,
        })
    }
}

/// Every claim whose id begins with `prefix`, newest first.
pub(crate) async fn with_prefix(
    connection: &mut SqliteConnection,
    prefix: &str,
) -> Result<Vec<ClaimRow>> {
    let query = format!("{SELECT} WHERE substr(claim.id, 1, length($1)) = $1");
    all(connection, &query, prefix).await
}

/// The claims of a run, newest first.
pub(crate) async fn of_run(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<ClaimRow>> {
    let query = format!("{SELECT} WHERE attempt.run_id = $1");
    all(connection, &query, run.as_str()).await
}

/// The claims of the kernels that a run has, newest first, whichever run made them.
pub(crate) async fn of_kernels(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<KernelClaim>> {
    // A ledger has few claims and many attempts: asked from the claims' side.
    let query = format!(
        "{SELECT} WHERE attempt.run_id = $1 OR EXISTS
             (SELECT 1 FROM evaluation JOIN attempt AS own ON own.id = evaluation.attempt_id
              WHERE evaluation.eval_key = acceptance.eval_key AND own.run_id = $1)"
    );
    let mut found = Vec::new();
    for claim in all(connection, &query, run.as_str()).await? {
        let query = "SELECT own.seq FROM acceptance
                     JOIN evaluation ON evaluation.eval_key = acceptance.eval_key
                     JOIN attempt AS own ON own.id = evaluation.attempt_id
                     WHERE acceptance.id = $1 AND own.run_id = $2
                     UNION
                     SELECT seq FROM attempt WHERE id = $3 AND run_id = $2 ORDER BY 1";
        let seqs = sqlx::query_scalar(query)
            .bind(claim.acceptance_id.as_str())
            .bind(run.as_str())
            .bind(claim.attempt_id.as_str())
            .fetch_all(&mut *connection)
            .await?;
        found.push(KernelClaim { claim, seqs });
    }
    Ok(found)
}

async fn all(connection: &mut SqliteConnection, query: &str, value: &str) -> Result<Vec<ClaimRow>> {
    let query = sqlx::AssertSqlSafe(format!("{query} ORDER BY claim.rowid DESC"));
    let stored: Vec<Stored> = sqlx::query_as(query).bind(value).fetch_all(&mut *connection).await?;
    let mut rows = Vec::new();
    for stored in stored {
        rows.push(stored.row(connection).await?);
    }
    Ok(rows)
}

#[derive(sqlx::FromRow)]
struct StoredCheck {
    acceptance_id: String,
    outcome: String,
    detail: String,
    created_us: i64,
}

async fn checks(connection: &mut SqliteConnection, id: &ClaimId) -> Result<Vec<CheckRow>> {
    let query = "SELECT * FROM claim_check WHERE claim_id = $1 ORDER BY rowid";
    let stored: Vec<StoredCheck> =
        sqlx::query_as(query).bind(id.as_str()).fetch_all(connection).await?;
    let row = |stored: StoredCheck| {
        let outcome = CheckOutcome::from_name(&stored.outcome);
        Ok(CheckRow {
            acceptance_id: AcceptanceId::from(stored.acceptance_id),
            outcome: of_name("outcome", &stored.outcome, outcome)?,
            detail: stored.detail,
            created_us: stored.created_us,
        })
    };
    stored.into_iter().map(row).collect()
}
