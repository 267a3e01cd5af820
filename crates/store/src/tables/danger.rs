//! Table `danger`: programs that hung or faulted, remembered for ever.

use pipeline::digest::Digest;
use pipeline::verdict::{Reason, Verdict};
use sqlx::SqliteConnection;

use super::attempt::verdict_of;
use super::evaluation::optional_report;
use crate::open::Work;
use crate::{DangerRow, Result};

/// Remembers `key`; the first verdict stays. `report` is the artifact of the report.
pub(crate) async fn put(
    work: &mut Work,
    key: &Digest,
    verdict: &Verdict,
    report: Option<&Digest>,
) -> Result<()> {
    let query = "INSERT INTO danger (key, kind, reason, detail, report, first_seen, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (key) DO NOTHING";
    sqlx::query(query)
        .bind(key.as_str())
        .bind(verdict.kind.name())
        .bind(verdict.reason.map(Reason::code))
        .bind(&verdict.detail)
        .bind(report.map(Digest::as_str))
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

#[derive(sqlx::FromRow)]
struct Stored {
    kind: String,
    reason: Option<String>,
    detail: String,
    report: Option<String>,
    first_seen: i64,
}

pub(crate) async fn get(
    connection: &mut SqliteConnection,
    key: &Digest,
) -> Result<Option<DangerRow>> {
    let query = "SELECT kind, reason, detail, report, first_seen FROM danger WHERE key = $1";
    let stored: Option<Stored> =
        sqlx::query_as(query).bind(key.as_str()).fetch_optional(&mut *connection).await?;
    let Some(stored) = stored else { return Ok(None) };
    let report = optional_report(connection, stored.report.as_deref()).await?;
    Ok(Some(DangerRow {
        key: key.clone(),
        verdict: verdict_of(&stored.kind, stored.reason.as_deref(), Some(stored.detail))?,
        report,
        first_seen_us: stored.first_seen,
    }))
}
