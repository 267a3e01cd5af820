//! Table `baseline`: pilots, which later acceptances use again.

use pipeline::acceptance::WindowRecord;
use sqlx::SqliteConnection;

use super::{artifact, of_json, to_json};
use crate::open::Work;
use crate::{PilotKey, Result};

/// Keeps a pilot; the first one under its key stays.
pub(crate) async fn put(work: &mut Work, key: &PilotKey<'_>, record: &WindowRecord) -> Result<()> {
    let json = to_json("a pilot", record)?;
    let hash = artifact::put(work, json.as_bytes()).await?;
    let query = r#"INSERT INTO baseline
                   (task_hash, "case", baseline, device_model, framework, judge_hash, record,
                    created_us, origin)
                   VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT DO NOTHING"#;
    sqlx::query(query)
        .bind(key.task.as_str())
        .bind(key.case)
        .bind(key.baseline.to_string())
        .bind(key.device_model)
        .bind(key.framework)
        .bind(key.judge_hash)
        .bind(hash.as_str())
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// The pilot under a key.
pub(crate) async fn get(
    connection: &mut SqliteConnection,
    key: &PilotKey<'_>,
) -> Result<Option<WindowRecord>> {
    let query = r#"SELECT record FROM baseline WHERE task_hash = $1 AND "case" = $2
                   AND baseline = $3 AND device_model = $4 AND framework = $5
                   AND judge_hash = $6"#;
    let hash: Option<String> = sqlx::query_scalar(query)
        .bind(key.task.as_str())
        .bind(key.case)
        .bind(key.baseline.to_string())
        .bind(key.device_model)
        .bind(key.framework)
        .bind(key.judge_hash)
        .fetch_optional(&mut *connection)
        .await?;
    match hash {
        Some(hash) => Ok(Some(of_json("a pilot", &artifact::text(connection, &hash).await?)?)),
        None => Ok(None),
    }
}
