//! Table `danger`: programs that hung or faulted, remembered for ever.

use pipeline::digest::Digest;
use sqlx::SqliteConnection;

use crate::open::Work;
use crate::{DangerRow, Result};

/// Remembers `key`; the first word about it stays.
pub(crate) async fn put(work: &mut Work, key: &Digest, what: &str) -> Result<()> {
    let query = "INSERT INTO danger (key, what, first_seen, origin) VALUES ($1, $2, $3, $4)
                 ON CONFLICT (key) DO NOTHING";
    sqlx::query(query)
        .bind(key.as_str())
        .bind(what)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

pub(crate) async fn get(
    connection: &mut SqliteConnection,
    key: &Digest,
) -> Result<Option<DangerRow>> {
    let query = "SELECT what, first_seen FROM danger WHERE key = $1";
    let row: Option<(String, i64)> =
        sqlx::query_as(query).bind(key.as_str()).fetch_optional(connection).await?;
    Ok(row.map(|(what, first_seen_us)| DangerRow { key: key.clone(), what, first_seen_us }))
}
