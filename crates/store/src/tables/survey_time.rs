//! Table `survey_time`: how fast baselines were when a survey looked.

use pipeline::digest::Digest;
use pipeline::timing::Spread;
use sqlx::SqliteConnection;

use super::{of_json, to_json};
use crate::open::Work;
use crate::{Result, SurveyKey};

/// Keeps a time; the first one under its key stays.
pub(crate) async fn put(work: &mut Work, key: &SurveyKey<'_>, spread: &Spread) -> Result<()> {
    let json = to_json("a time of a survey", spread)?;
    let query = "INSERT INTO survey_time
                 (task_hash, baseline, device_model, driver, framework, judge_hash, toolchain_id,
                  spread, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING";
    sqlx::query(query)
        .bind(key.task.as_str())
        .bind(key.baseline.name())
        .bind(key.device_model)
        .bind(key.driver)
        .bind(key.framework)
        .bind(key.judge_hash)
        .bind(key.toolchain_id)
        .bind(json)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// The time under a key.
pub(crate) async fn get(
    connection: &mut SqliteConnection,
    key: &SurveyKey<'_>,
) -> Result<Option<Spread>> {
    let query = "SELECT spread FROM survey_time WHERE task_hash = $1 AND baseline = $2
                 AND device_model = $3 AND driver = $4 AND framework = $5 AND judge_hash = $6
                 AND toolchain_id = $7";
    let json: Option<String> = sqlx::query_scalar(query)
        .bind(key.task.as_str())
        .bind(key.baseline.name())
        .bind(key.device_model)
        .bind(key.driver)
        .bind(key.framework)
        .bind(key.judge_hash)
        .bind(key.toolchain_id)
        .fetch_optional(connection)
        .await?;
    json.map(|json| of_json("a time of a survey", &json)).transpose()
}

/// Names and medians of a task's baselines under a device's model, a judge and a toolchain, of each
/// baseline the newest.
pub(crate) async fn of_task(
    connection: &mut SqliteConnection,
    task: &Digest,
    [device_model, judge_hash, toolchain_id]: [&str; 3],
) -> Result<Vec<(String, f64)>> {
    let query = "SELECT baseline, spread FROM survey_time WHERE task_hash = $1
                 AND device_model = $2 AND judge_hash = $3 AND toolchain_id = $4
                 ORDER BY created_us";
    let rows: Vec<(String, String)> = sqlx::query_as(query)
        .bind(task.as_str())
        .bind(device_model)
        .bind(judge_hash)
        .bind(toolchain_id)
        .fetch_all(connection)
        .await?;
    let mut newest = std::collections::BTreeMap::new();
    for (baseline, json) in rows {
        let spread: Spread = of_json("a time of a survey", &json)?;
        newest.insert(baseline, spread.median_ns);
    }
    Ok(newest.into_iter().collect())
}
