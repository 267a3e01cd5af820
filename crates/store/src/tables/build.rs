//! Table `build`: what the compiler made of a variant, one row for each attempt.

use pipeline::build::Diagnostic;
use pipeline::digest::Digest;
use serde_json::{Value, json};
use sqlx::SqliteConnection;

use super::{artifact, of_json, to_json};
use crate::open::Work;
use crate::{AttemptId, BuildRow, NewBuild, Result};

/// Hashes of what a build row refers to.
pub(crate) struct Parts {
    pub(crate) facts: Option<Digest>,
    pub(crate) diagnostics: Digest,
    pub(crate) log: Digest,
    pub(crate) ptx: Option<Digest>,
    pub(crate) cubin: Option<Digest>,
    /// What held the compiler, as JSON.
    pub(crate) confinement: Option<String>,
}

impl Parts {
    /// What the event of a build vouches for.
    pub(crate) fn body(&self, build: &Digest) -> Value {
        json!({
            "build": build, "facts": self.facts, "diagnostics": self.diagnostics, "log": self.log,
            "ptx": self.ptx, "cubin": self.cubin, "confinement": self.confinement,
        })
    }
}

pub(crate) async fn insert(
    work: &mut Work,
    attempt: &AttemptId,
    variant: &Digest,
    new: &NewBuild<'_>,
) -> Result<Parts> {
    let parts = put_parts(work, new).await?;
    let query = "INSERT INTO build
                 (attempt_id, id, variant_id, facts, diagnostics, log, ptx, cubin, verdict,
                  created_us, origin, confinement)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)";
    let verdict = new.verdict.map(|verdict| to_json("the verdict of a build", verdict));
    sqlx::query(query)
        .bind(attempt.as_str())
        .bind(new.id.as_str())
        .bind(variant.as_str())
        .bind(parts.facts.as_ref().map(Digest::as_str))
        .bind(parts.diagnostics.as_str())
        .bind(parts.log.as_str())
        .bind(parts.ptx.as_ref().map(Digest::as_str))
        .bind(parts.cubin.as_ref().map(Digest::as_str))
        .bind(verdict.transpose()?)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .bind(parts.confinement.as_deref())
        .execute(work.connection())
        .await?;
    Ok(parts)
}

async fn put_parts(work: &mut Work, new: &NewBuild<'_>) -> Result<Parts> {
    let facts = new.facts.map(|facts| to_json("the facts of a build", facts)).transpose()?;
    let diagnostics = to_json("diagnostics", &new.diagnostics.to_vec())?;
    let held = new.held.map(|held| to_json("what held a compiler", held)).transpose()?;
    Ok(Parts {
        facts: artifact::put_optional(work, facts.as_deref().map(str::as_bytes)).await?,
        diagnostics: artifact::put(work, diagnostics.as_bytes()).await?,
        log: artifact::put(work, new.log.as_bytes()).await?,
        ptx: artifact::put_optional(work, new.ptx).await?,
        cubin: artifact::put_optional(work, new.cubin).await?,
        confinement: held,
    })
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    facts: Option<String>,
    diagnostics: String,
    log: String,
    ptx: Option<String>,
    cubin: Option<String>,
    verdict: Option<String>,
    confinement: Option<String>,
}

/// The build of an attempt.
pub(crate) async fn of_attempt(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
) -> Result<Option<BuildRow>> {
    let query = "SELECT * FROM build WHERE attempt_id = $1";
    let stored: Option<Stored> =
        sqlx::query_as(query).bind(attempt.as_str()).fetch_optional(&mut *connection).await?;
    match stored {
        Some(stored) => stored.row(connection).await.map(Some),
        None => Ok(None),
    }
}

/// Only the diagnostics of an attempt's build.
pub(crate) async fn diagnostics(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
) -> Result<Vec<Diagnostic>> {
    let query = "SELECT diagnostics FROM build WHERE attempt_id = $1";
    let hash: Option<String> =
        sqlx::query_scalar(query).bind(attempt.as_str()).fetch_optional(&mut *connection).await?;
    match hash {
        Some(hash) => of_json("diagnostics", &artifact::text(connection, &hash).await?),
        None => Ok(Vec::new()),
    }
}

impl Stored {
    async fn row(self, connection: &mut SqliteConnection) -> Result<BuildRow> {
        let facts = artifact::optional_text(connection, self.facts.as_deref()).await?;
        let diagnostics = artifact::text(connection, &self.diagnostics).await?;
        Ok(BuildRow {
            id: Digest::from(self.id),
            facts: facts.map(|json| of_json("facts of a build", &json)).transpose()?,
            diagnostics: of_json("diagnostics", &diagnostics)?,
            log: artifact::text(connection, &self.log).await?,
            ptx: artifact::optional(connection, self.ptx.as_deref()).await?,
            cubin: artifact::optional(connection, self.cubin.as_deref()).await?,
            verdict: self
                .verdict
                .map(|json| of_json("the verdict of a build", &json))
                .transpose()?,
            held: self
                .confinement
                .map(|json| of_json("what held a compiler", &json))
                .transpose()?,
        })
    }
}
