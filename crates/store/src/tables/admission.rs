//! Table `admission`: what tasks showed of themselves.

use pipeline::admission::Admission;
use sqlx::SqliteConnection;

use super::{artifact, of_json, to_json};
use crate::open::Work;
use crate::{AdmissionKey, Result};

/// Keeps a look at a task in place of an earlier one.
pub(crate) async fn put(
    work: &mut Work,
    key: &AdmissionKey<'_>,
    admission: &Admission,
) -> Result<()> {
    let json = to_json("an admission", admission)?;
    let hash = artifact::put(work, json.as_bytes()).await?;
    let query = "INSERT INTO admission
                 (task_hash, judge_hash, toolchain_id, tier, admission, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)
                 ON CONFLICT (task_hash, judge_hash, toolchain_id) DO UPDATE SET
                 tier = excluded.tier, admission = excluded.admission,
                 created_us = excluded.created_us, origin = excluded.origin";
    sqlx::query(query)
        .bind(key.task.as_str())
        .bind(key.judge_hash.as_str())
        .bind(key.toolchain_id)
        .bind(admission.tier().name())
        .bind(hash.as_str())
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// The newest look under a key.
pub(crate) async fn get(
    connection: &mut SqliteConnection,
    key: &AdmissionKey<'_>,
) -> Result<Option<Admission>> {
    let query = "SELECT admission FROM admission
                 WHERE task_hash = $1 AND judge_hash = $2 AND toolchain_id = $3";
    let hash: Option<String> = sqlx::query_scalar(query)
        .bind(key.task.as_str())
        .bind(key.judge_hash.as_str())
        .bind(key.toolchain_id)
        .fetch_optional(&mut *connection)
        .await?;
    match hash {
        Some(hash) => Ok(Some(of_json("an admission", &artifact::text(connection, &hash).await?)?)),
        None => Ok(None),
    }
}
