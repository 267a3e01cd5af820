//! Table `meta`: which schema, which ledger.

use std::sync::Arc;

use sqlx::SqliteConnection;

use crate::Result;
use crate::error::StoreError;

/// Refuses a ledger that a newer program has changed; false for a file without our tables.
pub(crate) async fn is_known(connection: &mut SqliteConnection, known: i64) -> Result<bool> {
    let query = "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'meta'";
    let exists: i64 = sqlx::query_scalar(query).fetch_one(&mut *connection).await?;
    if exists == 0 {
        return Ok(false);
    }
    let found: Option<i64> =
        sqlx::query_scalar("SELECT max(schema) FROM meta").fetch_one(connection).await?;
    match found {
        Some(found) if found > known => {
            Err(StoreError::NewerSchema { ledger: String::new(), found, known })
        }
        Some(_) | None => Ok(true),
    }
}

/// The version of the schema; 0 before there is one.
pub(crate) async fn schema(connection: &mut SqliteConnection) -> Result<i64> {
    let found: Option<i64> =
        sqlx::query_scalar("SELECT max(schema) FROM meta").fetch_one(connection).await?;
    Ok(found.unwrap_or(0))
}

/// Refuses a database that is not ours: it has tables, and none of them is a ledger's.
pub(crate) async fn refuse_foreign(connection: &mut SqliteConnection) -> Result<()> {
    let query = "SELECT count(*) FROM sqlite_master WHERE type = 'table'
                 AND substr(name, 1, 7) <> 'sqlite_' AND substr(name, 1, 5) <> '_sqlx'";
    let tables: i64 = sqlx::query_scalar(query).fetch_one(connection).await?;
    match tables {
        0 => Ok(()),
        _ => Err(StoreError::damaged("it is a database, but not a ledger")),
    }
}

/// Writes the row of a new ledger or the new schema of an old one; returns the ledger's id.
pub(crate) async fn ensure(
    connection: &mut SqliteConnection,
    schema: i64,
    new_id: &str,
    now_us: i64,
) -> Result<Arc<str>> {
    let insert = "INSERT INTO meta (schema, ledger_id, created_us)
                  SELECT $1, $2, $3 WHERE NOT EXISTS (SELECT 1 FROM meta)";
    sqlx::query(insert).bind(schema).bind(new_id).bind(now_us).execute(&mut *connection).await?;
    let update = "UPDATE meta SET schema = $1 WHERE schema < $1";
    sqlx::query(update).bind(schema).execute(&mut *connection).await?;
    ledger_id(connection).await
}

pub(crate) async fn ledger_id(connection: &mut SqliteConnection) -> Result<Arc<str>> {
    let query = "SELECT ledger_id FROM meta LIMIT 1";
    let id: Option<String> = sqlx::query_scalar(query).fetch_optional(connection).await?;
    let id = id.ok_or_else(|| StoreError::Unfinished { ledger: String::new() })?;
    Ok(id.into())
}

pub(crate) async fn check_pages(connection: &mut SqliteConnection) -> Result<()> {
    let finding: String =
        sqlx::query_scalar("PRAGMA integrity_check(1)").fetch_one(connection).await?;
    if finding == "ok" { Ok(()) } else { Err(StoreError::damaged(finding)) }
}

/// Refuses rows whose owner is gone, as events are whose run was taken out.
pub(crate) async fn check_owners(connection: &mut SqliteConnection) -> Result<()> {
    let query = "SELECT \"table\", parent, count(*) FROM pragma_foreign_key_check
                 GROUP BY 1, 2 ORDER BY \"table\" <> 'event', 1, 2 LIMIT 1";
    let orphans: Option<(String, String, i64)> =
        sqlx::query_as(query).fetch_optional(connection).await?;
    match orphans {
        None => Ok(()),
        Some((table, owner, count)) => Err(StoreError::damaged(format!(
            "{count} rows of `{table}` belong to a row of `{owner}` that is not there"
        ))),
    }
}
