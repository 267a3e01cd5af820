//! Table `baseline`: pilots, which later acceptances use again.

use pipeline::acceptance::{Entry, Subject, WindowRecord};
use pipeline::digest::Digest;
use sqlx::SqliteConnection;

use super::{artifact, of_json, to_json};
use crate::open::Work;
use crate::{PilotKey, Result, RunId, framework};

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

#[derive(sqlx::FromRow)]
struct Stored {
    task_hash: String,
    case: String,
    baseline: String,
    device_model: String,
    framework: String,
    judge_hash: String,
    record: String,
}

/// A pilot of a run's tasks, in words, that is in no acceptance under its key.
pub(crate) async fn stray(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Option<String>> {
    let query = "SELECT * FROM baseline
                 WHERE task_hash IN (SELECT task_hash FROM attempt WHERE run_id = $1)";
    let kept: Vec<Stored> =
        sqlx::query_as(query).bind(run.as_str()).fetch_all(&mut *connection).await?;
    for stored in kept {
        if !was_made(connection, &stored).await? {
            let Stored { case, baseline, .. } = stored;
            return Ok(Some(format!("the pilot of {baseline} on `{case}` is in no acceptance")));
        }
    }
    Ok(None)
}

/// True when an acceptance under the key of a pilot made it; its entries stand in events.
async fn was_made(connection: &mut SqliteConnection, stored: &Stored) -> Result<bool> {
    let record: WindowRecord =
        of_json("a pilot", &artifact::text(connection, &stored.record).await?)?;
    let own_key = record.case == stored.case
        && matches!(&record.subject, Subject::Baseline(id) if id.to_string() == stored.baseline)
        && framework(&record.versions) == stored.framework;
    let entry = to_json("an entry", &Entry::Pilot(record))?;
    let query = "SELECT count(*) FROM acceptance_entry
                 JOIN acceptance ON acceptance.id = acceptance_id
                 JOIN attempt ON attempt.id = attempt_id
                 JOIN device ON device.id = acceptance.device_id
                 WHERE entry = $1 AND task_hash = $2 AND device.model = $3
                 AND acceptance.judge_hash = $4";
    let made: i64 = sqlx::query_scalar(query)
        .bind(Digest::of_bytes(entry.as_bytes()).as_str())
        .bind(&stored.task_hash)
        .bind(&stored.device_model)
        .bind(&stored.judge_hash)
        .fetch_one(connection)
        .await?;
    Ok(own_key && made > 0)
}
