//! The SQL, one file for each table or pair of tables that belong together.
//!
//! Functions that write take a [`crate::open::Work`]; functions that read take a connection.

pub(crate) mod acceptance;
pub(crate) mod admission;
pub(crate) mod answered;
pub(crate) mod approval;
pub(crate) mod artifact;
pub(crate) mod attempt;
pub(crate) mod baseline;
pub(crate) mod build;
pub(crate) mod call;
pub(crate) mod candidate;
pub(crate) mod card_time;
pub(crate) mod claim;
pub(crate) mod danger;
pub(crate) mod evaluation;
pub(crate) mod event;
pub(crate) mod mark;
pub(crate) mod meta;
pub(crate) mod outline;
pub(crate) mod review;
pub(crate) mod run;
pub(crate) mod survey_time;
pub(crate) mod task;
pub(crate) mod task_money;
pub(crate) mod tell;
pub(crate) mod total;
pub(crate) mod window;

use serde::Serialize;
use serde::de::DeserializeOwned;
use sqlx::SqliteConnection;

use crate::Result;
use crate::error::StoreError;

/// A value as JSON that is known to read back as the same value.
pub(crate) fn to_json<T>(what: &'static str, value: &T) -> Result<String>
where
    T: Serialize + DeserializeOwned + PartialEq,
{
    let unstorable = |why: String| StoreError::Unstorable { what, why };
    let json = serde_json::to_string(value).map_err(|error| unstorable(error.to_string()))?;
    match serde_json::from_str::<T>(&json) {
        Ok(back) if back == *value => Ok(json),
        Ok(_) => Err(unstorable("a number in it is not finite".to_owned())),
        Err(error) => Err(unstorable(error.to_string())),
    }
}

pub(crate) fn of_json<T: DeserializeOwned>(what: &str, json: &str) -> Result<T> {
    serde_json::from_str(json)
        .map_err(|error| StoreError::damaged(format!("{what} does not read back: {error}")))
}

/// The value that a stored name stands for.
pub(crate) fn of_name<T>(what: &str, name: &str, value: Option<T>) -> Result<T> {
    value.ok_or_else(|| StoreError::damaged(format!("{what} `{name}` is unknown")))
}

pub(crate) fn to_i64(what: &'static str, value: u64) -> Result<i64> {
    i64::try_from(value)
        .map_err(|_| StoreError::Unstorable { what, why: format!("{value} is too large") })
}

pub(crate) fn to_u64(what: &str, value: i64) -> Result<u64> {
    u64::try_from(value).map_err(|_| StoreError::damaged(format!("{what} is negative: {value}")))
}

pub(crate) fn to_u32(what: &str, value: i64) -> Result<u32> {
    u32::try_from(value).map_err(|_| StoreError::damaged(format!("{what} is no count: {value}")))
}

/// How many rows two queries do not share.
fn difference(counted: &str, kept: &str) -> String {
    format!(
        "SELECT (SELECT count(*) FROM (SELECT * FROM ({counted}) EXCEPT {kept}))
              + (SELECT count(*) FROM ({kept} EXCEPT SELECT * FROM ({counted})))"
    )
}

/// True where two queries about a run find the same rows.
async fn same_rows(
    connection: &mut SqliteConnection,
    run: &crate::RunId,
    counted: &str,
    kept: &str,
) -> Result<bool> {
    let query = sqlx::AssertSqlSafe(difference(counted, kept));
    let differ: i64 = sqlx::query_scalar(query).bind(run.as_str()).fetch_one(connection).await?;
    Ok(differ == 0)
}
