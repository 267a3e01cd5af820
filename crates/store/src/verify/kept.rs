//! What is kept beside the rows that it follows from, so that it need not be found each time: here
//! it is counted again.

use serde_json::Value;
use sqlx::SqliteConnection;

use super::damage;
use crate::tables::{card_time, evaluation, outline, run, task_money, total};
use crate::{AttemptId, Result, RunId};

/// What is kept of a report beside it is what the report says.
pub(super) async fn changed_score(
    connection: &mut SqliteConnection,
    body: &Value,
) -> Result<Option<String>> {
    let attempt = AttemptId::from(body["attempt"].as_str().unwrap_or_default().to_owned());
    let stage = body["stage"].as_str().unwrap_or_default();
    let fits = match evaluation::fits(connection, &attempt, stage).await {
        Ok(fits) => fits,
        Err(error) => return damage(error).map(Some),
    };
    Ok((!fits).then(|| format!("the score of attempt {attempt} is not what its report says")))
}

/// The best of each task, and the sums of the run's calls.
pub(super) async fn changed_sums(
    connection: &mut SqliteConnection,
    id: &RunId,
) -> Result<Option<String>> {
    for task in run::get(connection, id).await?.tasks {
        match outline::fits(connection, id, &task.hash).await {
            Ok(true) => {}
            Ok(false) => {
                let what = format!("the best attempt at {} is not the one that is kept", task.name);
                return Ok(Some(what));
            }
            Err(error) => return damage(error).map(Some),
        }
    }
    let fit = total::fit(connection, id).await?;
    Ok((!fit).then(|| format!("the sums of the calls of run {id} are not those of its calls")))
}

/// What counts against each task: money, and time on cards.
pub(super) async fn changed_task_sums(
    connection: &mut SqliteConnection,
    id: &RunId,
) -> Result<Option<String>> {
    for (fit, what) in [
        (task_money::fit(connection, id).await?, "money"),
        (card_time::fit(connection, id).await?, "time on cards"),
    ] {
        if !fit {
            return Ok(Some(format!(
                "the {what} of each task of run {id} is not what it adds up to"
            )));
        }
    }
    Ok(None)
}
