//! Tables `evaluation` and `case_result`: what the judge found.

use pipeline::digest::Digest;
use pipeline::promotion::Promotion;
use pipeline::report::{CaseReport, CaseStatus, Report, Score, Stage};
use pipeline::verdict::{Reason, Verdict};
use serde_json::json;
use sqlx::SqliteConnection;

use super::attempt::verdict_of;
use super::{artifact, of_json, of_name, to_json};
use crate::error::StoreError;
use crate::open::Work;
use crate::scrubbing;
use crate::{AttemptId, JudgementRow, NewJudgement, Result};

/// Stores a judgement with its cases; returns the hash of the report.
pub(crate) async fn insert(
    work: &mut Work,
    attempt: &AttemptId,
    variant: &Digest,
    new: &NewJudgement<'_>,
) -> Result<Option<Digest>> {
    let clean = |report| scrubbing::value(&work.scrubber, "the report", report);
    let stored = new.report.map(clean).transpose()?;
    let report = stored.as_ref().map(|report| to_json("the report", report)).transpose()?;
    let report = artifact::put_optional(work, report.as_deref().map(str::as_bytes)).await?;
    let of = stored.as_ref();
    let score = of.map(|report| to_json("a score", &report.score)).transpose()?;
    let promotion = of.map(|report| to_json("a promotion", &report.promotion)).transpose()?;
    let id = work.new_id();
    let query = "INSERT INTO evaluation
                 (id, attempt_id, variant_id, eval_key, stage, device_id, kind, reason, detail,
                  report, from_cache, created_us, origin, score, promotion, toolchain_id)
                 SELECT $1, $2, $3, $4, $5, run.device_id, $6, $7, $8, $9, $10, $11, $12, $13, $14,
                     run.toolchain_id
                 FROM attempt JOIN run ON run.id = attempt.run_id WHERE attempt.id = $2";
    sqlx::query(query)
        .bind(&id)
        .bind(attempt.as_str())
        .bind(variant.as_str())
        .bind(new.eval_key.map(Digest::as_str))
        .bind(new.stage.name())
        .bind(new.verdict.kind.name())
        .bind(new.verdict.reason.map(Reason::code))
        .bind(&new.verdict.detail)
        .bind(report.as_ref().map(Digest::as_str))
        .bind(new.from_cache)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .bind(score)
        .bind(promotion)
        .execute(work.connection())
        .await?;
    for (position, case) in (0..).zip(stored.iter().flat_map(|report| &report.cases)) {
        insert_case(work, &id, position, case).await?;
    }
    Ok(report)
}

async fn insert_case(work: &mut Work, id: &str, position: u32, case: &CaseReport) -> Result<()> {
    let gates: Vec<_> = case
        .checks
        .iter()
        .map(|check| {
            json!({
                "output": check.output, "wrong": check.wrong, "worst_ratio": check.worst_ratio,
                "norm_error": check.norm_error, "failure": check.failure.map(Reason::code),
            })
        })
        .collect();
    let worst = case.checks.iter().map(|check| check.worst_ratio).reduce(f64::max);
    let status = match &case.status {
        CaseStatus::Passed => "passed",
        CaseStatus::Failed { .. } => "failed",
        CaseStatus::NotRun => "not_run",
    };
    let query = r#"INSERT INTO case_result
                   (evaluation_id, position, "case", distribution, hidden, status, gates, worst,
                    origin)
                   VALUES ($1, $2, $3, $4, 0, $5, $6, $7, $8)"#;
    sqlx::query(query)
        .bind(id)
        .bind(position)
        .bind(&case.case)
        .bind(to_json("a distribution", &case.distribution)?)
        .bind(status)
        .bind(serde_json::Value::from(gates).to_string())
        .bind(worst)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Stored {
    eval_key: Option<String>,
    stage: String,
    kind: String,
    reason: Option<String>,
    detail: String,
    report: Option<String>,
    from_cache: bool,
}

impl Stored {
    fn verdict(&self) -> Result<Verdict> {
        verdict_of(&self.kind, self.reason.as_deref(), Some(self.detail.clone()))
    }
}

/// The judgement of an attempt at one stage.
pub(crate) async fn of_attempt(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
    stage: Stage,
) -> Result<Option<JudgementRow>> {
    let query = "SELECT * FROM evaluation WHERE attempt_id = $1";
    let rows: Vec<Stored> =
        sqlx::query_as(query).bind(attempt.as_str()).fetch_all(&mut *connection).await?;
    let mut stored = None;
    for row in rows {
        let known = Stage::ALL.into_iter().find(|known| known.name() == row.stage);
        if of_name("stage", &row.stage, known)? == stage {
            stored = Some(row);
        }
    }
    let Some(stored) = stored else { return Ok(None) };
    let report = optional_report(connection, stored.report.as_deref()).await?;
    Ok(Some(JudgementRow {
        stage,
        verdict: stored.verdict()?,
        eval_key: stored.eval_key.map(Digest::from),
        report,
        from_cache: stored.from_cache,
    }))
}

/// The report in an artifact.
async fn report_of(connection: &mut SqliteConnection, hash: &str) -> Result<Report> {
    of_json("report", &artifact::text(connection, hash).await?)
}

/// The report stored under a hash, where there is one.
pub(crate) async fn optional_report(
    connection: &mut SqliteConnection,
    hash: Option<&str>,
) -> Result<Option<Report>> {
    match hash {
        Some(hash) => Ok(Some(report_of(connection, hash).await?)),
        None => Ok(None),
    }
}

/// The first verdict of a stage under this key that has a report and whose program this toolchain
/// built.
pub(crate) async fn of_key(
    connection: &mut SqliteConnection,
    key: &Digest,
    toolchain_id: &str,
    stage: Stage,
) -> Result<Option<(Verdict, Report)>> {
    let query = "SELECT * FROM evaluation
                 WHERE eval_key = $1 AND toolchain_id = $2 AND stage = $3 AND report IS NOT NULL
                 ORDER BY rowid DESC LIMIT 1";
    let stored: Option<Stored> = sqlx::query_as(query)
        .bind(key.as_str())
        .bind(toolchain_id)
        .bind(stage.name())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(stored) = stored else { return Ok(None) };
    let hash = stored.report.as_deref();
    let hash = hash.ok_or_else(|| StoreError::damaged(format!("evaluation {key}")))?;
    let report = report_of(connection, hash).await?;
    Ok(Some((stored.verdict()?, report)))
}

/// What the policy needs of a report: kept beside it, or read from it in rows of older programs.
#[derive(sqlx::FromRow)]
pub(crate) struct Kept {
    score: Option<String>,
    promotion: Option<String>,
    report: Option<String>,
}

impl Kept {
    /// What is kept of a promote.
    pub(crate) fn promoted(promotion: Option<String>, report: Option<String>) -> Self {
        Self { score: None, promotion, report }
    }

    pub(crate) async fn score(&self, connection: &mut SqliteConnection) -> Result<Score> {
        match (&self.score, &self.report) {
            (Some(json), _) => of_json("a score", json),
            (None, Some(report)) => Ok(report_of(connection, report).await?.score),
            (None, None) => Ok(Score::None),
        }
    }

    pub(crate) async fn promotion(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Option<Promotion>> {
        match (&self.promotion, &self.report) {
            (Some(json), _) => of_json("a promotion", json),
            (None, Some(report)) => Ok(report_of(connection, report).await?.promotion),
            (None, None) => Ok(None),
        }
    }
}

/// True where what is kept beside the report of an evaluation is what the report says.
pub(crate) async fn fits(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
    stage: &str,
) -> Result<bool> {
    let query = "SELECT score, promotion, report FROM evaluation
                 WHERE attempt_id = $1 AND stage = $2";
    let kept: Option<Kept> = sqlx::query_as(query)
        .bind(attempt.as_str())
        .bind(stage)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(kept) = kept else { return Ok(false) };
    let stated = Kept { score: None, promotion: None, report: kept.report.clone() };
    Ok(kept.score(connection).await? == stated.score(connection).await?
        && kept.promotion(connection).await? == stated.promotion(connection).await?)
}
