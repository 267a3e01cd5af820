//! Tables `candidate` and `variant`: source and plan, and the values of the tunables.

use std::collections::BTreeMap;

use pipeline::digest::Digest;
use sqlx::SqliteConnection;

use super::{artifact, of_json, to_json};
use crate::error::StoreError;
use crate::open::Work;
use crate::{NewCandidate, Result};

/// What an attempt refers to after its reply was parsed.
pub(crate) struct Stored {
    pub(crate) variant: Digest,
    pub(crate) source: Digest,
    pub(crate) plan: Digest,
}

/// Stores candidate and variant unless they are there already.
pub(crate) async fn put(work: &mut Work, new: &NewCandidate<'_>) -> Result<Stored> {
    let source = artifact::put(work, new.source.as_bytes()).await?;
    let plan = artifact::put(work, new.plan_text.as_bytes()).await?;
    let query = "INSERT INTO candidate (id, source, plan, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING";
    sqlx::query(query)
        .bind(new.id.as_str())
        .bind(source.as_str())
        .bind(plan.as_str())
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    let variant = put_variant(work, new.id, new.tunables).await?;
    Ok(Stored { variant, source, plan })
}

async fn put_variant(
    work: &mut Work,
    candidate: &Digest,
    tunables: &BTreeMap<String, i64>,
) -> Result<Digest> {
    let values = to_json("the values of the tunables", tunables)?;
    let parts = [candidate.as_str().as_bytes(), values.as_bytes()];
    let id = Digest::of_parts("variant", &parts);
    let query = r#"INSERT INTO variant (id, candidate_id, "values", created_us, origin)
                   VALUES ($1, $2, $3, $4, $5) ON CONFLICT (id) DO NOTHING"#;
    sqlx::query(query)
        .bind(id.as_str())
        .bind(candidate.as_str())
        .bind(values)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(id)
}

/// The source of a candidate.
pub(crate) async fn source(connection: &mut SqliteConnection, id: &Digest) -> Result<String> {
    let query = "SELECT source FROM candidate WHERE id = $1";
    let hash: Option<String> =
        sqlx::query_scalar(query).bind(id.as_str()).fetch_optional(&mut *connection).await?;
    let hash = hash.ok_or_else(|| StoreError::damaged(format!("candidate {id} is missing")))?;
    artifact::text(connection, &hash).await
}

/// The values of the tunables of a variant.
pub(crate) async fn tunables(
    connection: &mut SqliteConnection,
    variant: &Digest,
) -> Result<BTreeMap<String, i64>> {
    let query = r#"SELECT "values" FROM variant WHERE id = $1"#;
    let json: Option<String> =
        sqlx::query_scalar(query).bind(variant.as_str()).fetch_optional(connection).await?;
    let json = json.ok_or_else(|| StoreError::damaged(format!("variant {variant} is missing")))?;
    of_json("the values of the tunables", &json)
}
