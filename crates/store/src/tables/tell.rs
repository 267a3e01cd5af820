//! Table `tell`: what people told a run while it was on, oldest first.

use pipeline::digest::Digest;
use pipeline::tell::{Said, TellRow};
use sqlx::SqliteConnection;

use super::{of_json, to_json, to_u32};
use crate::open::Work;
use crate::{Result, RunId};

/// Appends a row; returns its position.
pub(crate) async fn insert(
    work: &mut Work,
    run: &RunId,
    task: Option<&Digest>,
    said: &Said,
    teller: &str,
) -> Result<u32> {
    let query = "SELECT count(*) FROM tell WHERE run_id = $1";
    let count: i64 =
        sqlx::query_scalar(query).bind(run.as_str()).fetch_one(work.connection()).await?;
    let position = to_u32("what a run was told", count)?;
    let query = "INSERT INTO tell (run_id, position, task_hash, said, teller, told_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7)";
    sqlx::query(query)
        .bind(run.as_str())
        .bind(count)
        .bind(task.map(Digest::as_str))
        .bind(to_json("what a run is told", said)?)
        .bind(teller)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(position)
}

#[derive(sqlx::FromRow)]
struct Stored {
    position: i64,
    task_hash: Option<String>,
    said: String,
    teller: String,
    told_us: i64,
}

/// What a run was told from a position on, oldest first.
pub(crate) async fn of_run(
    connection: &mut SqliteConnection,
    run: &RunId,
    from: u32,
) -> Result<Vec<TellRow>> {
    let query = "SELECT position, task_hash, said, teller, told_us FROM tell
                 WHERE run_id = $1 AND position >= $2 ORDER BY position";
    let stored: Vec<Stored> =
        sqlx::query_as(query).bind(run.as_str()).bind(from).fetch_all(connection).await?;
    let row = |stored: Stored| {
        Ok(TellRow {
            position: to_u32("the position of what was told", stored.position)?,
            task: stored.task_hash.map(Digest::from),
            said: of_json("what a run was told", &stored.said)?,
            teller: stored.teller,
            told_us: stored.told_us,
        })
    };
    stored.into_iter().map(row).collect()
}
