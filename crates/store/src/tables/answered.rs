//! What answered calls were like: table `call`, read for limits and estimates.

use pipeline::attempt::Mode;
use pipeline::estimate::CallHistory;
use pipeline::transcript::Usage;
use sqlx::SqliteConnection;

use super::{of_json, of_name, to_u64};
use crate::{Result, RunId};

/// Mode, output tokens and finish reason of the settled calls of a run that were counted, oldest
/// first.
pub(crate) async fn completions(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(Mode, u64, String)>> {
    let query = "SELECT attempt.mode, call.usage, call.finish_reason FROM call
                 JOIN attempt ON attempt.id = call.attempt_id
                 WHERE attempt.run_id = $1 AND call.state = 'settled' AND call.usage IS NOT NULL
                 ORDER BY call.updated_us, call.rowid";
    let rows: Vec<(String, String, Option<String>)> =
        sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?;
    let mut completions = Vec::new();
    for (mode, usage, finish_reason) in rows {
        let usage: Usage = of_json("usage of a call", &usage)?;
        let mode = of_name("mode", &mode, Mode::from_name(&mode))?;
        // What was there already is no answer of a model's.
        if usage.output_tokens > 0 {
            completions.push((mode, usage.output_tokens, finish_reason.unwrap_or_default()));
        }
    }
    Ok(completions)
}

/// What the answered calls of a model were like, over all runs.
pub(crate) async fn history(
    connection: &mut SqliteConnection,
    provider: &str,
    model: &str,
) -> Result<CallHistory> {
    let query = "SELECT count(*),
                 coalesce(sum(json_extract(usage, '$.input_tokens')), 0),
                 coalesce(sum(json_extract(usage, '$.output_tokens')), 0),
                 coalesce(sum(latency_ms), 0)
                 FROM call WHERE provider = $1 AND model = $2
                 AND state = 'settled' AND usage IS NOT NULL";
    let (calls, input, output, latency): (i64, i64, i64, i64) =
        sqlx::query_as(query).bind(provider).bind(model).fetch_one(connection).await?;
    Ok(CallHistory {
        calls: to_u64("a number of calls", calls)?,
        input_tokens: to_u64("tokens", input)?,
        output_tokens: to_u64("tokens", output)?,
        latency_ms: to_u64("a latency", latency)?,
    })
}
