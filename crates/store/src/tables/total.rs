//! Table `run_total`: the calls of a run summed by their state.
//!
//! Calls of closed attempts do not change any more: their sums are kept, and only the few of the
//! other attempts are counted each time. So a look at the books takes as long late in a night as
//! at its beginning.

use pipeline::price::Price;
use pipeline::transcript::Usage;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::{of_name, to_json, to_u64};
use crate::open::Work;
use crate::{AttemptId, CallState, Result, RunId};

/// The sums of a group of calls; `$2` is a price that nobody knows. `total` is exact up to nine
/// million dollars, and never fails where `sum` overflows.
const SUMS: &str = "count(*) AS calls,
    CAST(min(total(reserved_nusd), 9e18) AS INTEGER) AS reserved_nusd,
    sum(reserved_tokens) AS reserved_tokens,
    CAST(min(total(cost_nusd), 9e18) AS INTEGER) AS cost_nusd,
    coalesce(sum(cost_nusd IS NULL AND price_row = $2), 0) AS unpriced,
    sum(coalesce(json_extract(usage, '$.input_tokens'), 0)) AS input_tokens,
    sum(coalesce(json_extract(usage, '$.output_tokens'), 0)) AS output_tokens,
    sum(coalesce(json_extract(usage, '$.cached_input_tokens'), 0)) AS cached_input_tokens,
    sum(coalesce(json_extract(usage, '$.reasoning_tokens'), 0)) AS reasoning_tokens,
    sum(CASE WHEN usage IS NULL THEN reserved_tokens ELSE 0 END) AS uncounted_tokens,
    sum(drift) AS drifted";

/// The columns that hold them.
const COLUMNS: &str = "calls, reserved_nusd, reserved_tokens, cost_nusd, unpriced, input_tokens,
    output_tokens, cached_input_tokens, reasoning_tokens, uncounted_tokens, drifted";

/// Sums of the calls of a run in one state.
#[derive(sqlx::FromRow)]
pub(crate) struct CallSums {
    state: String,
    pub(crate) calls: i64,
    pub(crate) reserved_nusd: i64,
    pub(crate) reserved_tokens: i64,
    pub(crate) cost_nusd: i64,
    pub(crate) input_tokens: i64,
    pub(crate) output_tokens: i64,
    cached_input_tokens: i64,
    reasoning_tokens: i64,
    /// Calls whose price nobody knows.
    pub(crate) unpriced: i64,
    /// Tokens of the calls whose provider did not count, at their worst case.
    pub(crate) uncounted_tokens: i64,
    pub(crate) drifted: i64,
}

impl CallSums {
    pub(crate) fn state(&self) -> Result<CallState> {
        of_name("state of a call", &self.state, CallState::from_name(&self.state))
    }

    pub(crate) fn usage(&self) -> Result<Usage> {
        let tokens = |sum: i64| to_u64("a sum of tokens", sum);
        Ok(Usage {
            input_tokens: tokens(self.input_tokens)?,
            output_tokens: tokens(self.output_tokens)?,
            cached_input_tokens: tokens(self.cached_input_tokens)?,
            reasoning_tokens: tokens(self.reasoning_tokens)?,
            estimated: false,
        })
    }
}

/// The sums of a run's calls, by state.
pub(crate) async fn sums(connection: &mut SqliteConnection, run: &RunId) -> Result<Vec<CallSums>> {
    let sum = |column: &str| match column {
        "reserved_nusd" | "cost_nusd" => {
            format!("CAST(min(total({column}), 9e18) AS INTEGER) AS {column}")
        }
        _ => format!("sum({column}) AS {column}"),
    };
    let all = COLUMNS.split(',').map(|column| sum(column.trim())).collect::<Vec<_>>().join(", ");
    // `CROSS` keeps the order: first the few attempts that are not closed, which have an index.
    let query = format!(
        "SELECT state, {all} FROM (
             SELECT state, {COLUMNS} FROM run_total WHERE run_id = $1
             UNION ALL
             SELECT call.state, {SUMS} FROM attempt CROSS JOIN call ON call.attempt_id = attempt.id
             WHERE attempt.run_id = $1 AND attempt.state <> 'closed' GROUP BY call.state
         ) GROUP BY state"
    );
    let unknown = to_json("a price", &Price::Unknown)?;
    let query = sqlx::query_as(AssertSqlSafe(query)).bind(run.as_str()).bind(unknown);
    Ok(query.fetch_all(connection).await?)
}

/// Adds the calls of an attempt that is closed by the same write.
pub(crate) async fn add(work: &mut Work, run: &RunId, attempt: &AttemptId) -> Result<()> {
    let more = |column: &str| match column {
        "reserved_nusd" | "cost_nusd" => {
            format!("{column} = CAST(min({column} + 0.0 + excluded.{column}, 9e18) AS INTEGER)")
        }
        _ => format!("{column} = {column} + excluded.{column}"),
    };
    let more = COLUMNS.split(',').map(|column| more(column.trim())).collect::<Vec<_>>().join(", ");
    let query = format!(
        "INSERT INTO run_total (run_id, state, {COLUMNS}, origin)
         SELECT $1, state, {SUMS}, $4 FROM call WHERE attempt_id = $3 GROUP BY state
         ON CONFLICT (run_id, state) DO UPDATE SET {more}"
    );
    sqlx::query(AssertSqlSafe(query))
        .bind(run.as_str())
        .bind(to_json("a price", &Price::Unknown)?)
        .bind(attempt.as_str())
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// True where the sums that are kept are those of the calls.
pub(crate) async fn fit(connection: &mut SqliteConnection, run: &RunId) -> Result<bool> {
    let counted = format!(
        "SELECT call.state, {SUMS} FROM attempt JOIN call ON call.attempt_id = attempt.id
         WHERE attempt.run_id = $1 AND attempt.state = 'closed' GROUP BY call.state"
    );
    let kept = format!("SELECT state, {COLUMNS} FROM run_total WHERE run_id = $1");
    let query = super::difference(&counted, &kept);
    let unknown = to_json("a price", &Price::Unknown)?;
    let query = sqlx::query_scalar(AssertSqlSafe(query)).bind(run.as_str()).bind(unknown);
    let differ: i64 = query.fetch_one(connection).await?;
    Ok(differ == 0)
}
