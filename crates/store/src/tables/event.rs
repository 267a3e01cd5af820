//! Table `event`: the append-only log of a run, each row carrying the hash of the one before.

use pipeline::digest::Digest;
use pipeline::next_step::SearchEnd;
use serde_json::Value;
use sqlx::SqliteConnection;

use super::{run, to_i64};
use crate::limits::{EVENTS_AT_ONCE, EVENTS_LOOKED_AT};
use crate::open::Work;
use crate::{Chain, Result, RunId};

/// The `prev_hash` of a run's first event.
pub(crate) const FIRST_PREV_HASH: &str = "";

/// Kinds of the events that say whether a run waits for what its machine has too little of.
pub(crate) const PAUSED: &str = "paused";
pub(crate) const WENT_ON: &str = "went_on";

/// Appends one event.
pub(crate) async fn append(work: &mut Work, run: &RunId, kind: &str, body: &Value) -> Result<()> {
    let (count, prev_hash) = run::event_head(work.connection(), run).await?;
    let (seq, body) = (count + 1, body.to_string());
    let hash = hash_of(&prev_hash, run, seq, kind, &body);
    let query = "INSERT INTO event
                 (run_id, seq, prev_hash, hash, kind, body, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8)";
    sqlx::query(query)
        .bind(run.as_str())
        .bind(to_i64("an event's number", seq)?)
        .bind(prev_hash)
        .bind(hash.as_str())
        .bind(kind)
        .bind(body)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    run::set_event_head(work, run, seq, &hash).await
}

fn hash_of(prev_hash: &str, run: &RunId, seq: u64, kind: &str, body: &str) -> Digest {
    let seq = seq.to_string();
    let parts = [prev_hash, run.as_str(), &seq, kind, body].map(str::as_bytes);
    Digest::of_parts("event", &parts)
}

/// Follows the chain of a run from its first event to the head that the run names.
pub(crate) async fn verify(connection: &mut SqliteConnection, run: &RunId) -> Result<Chain> {
    let (count, head) = run::event_head(&mut *connection, run).await?;
    let (mut seq, mut last) = (0, FIRST_PREV_HASH.to_owned());
    loop {
        let rows = page(connection, run, seq).await?;
        if rows.is_empty() {
            break;
        }
        for row in rows {
            seq += 1;
            match row.follows(run, seq, &last) {
                Some(hash) => last = hash,
                None => return Ok(Chain::Broken { seq }),
            }
        }
    }
    if seq == count && last == head {
        Ok(Chain::Intact { events: seq, head: Digest::from(head) })
    } else {
        Ok(Chain::Broken { seq: seq.min(count) + 1 })
    }
}

/// How many GPUs the first event of a run names.
pub(crate) async fn gpus(connection: &mut SqliteConnection, run: &RunId) -> Result<i64> {
    let query = "SELECT json_array_length(body, '$.gpus') FROM event
                 WHERE run_id = $1 AND seq = 1";
    let found: Option<Option<i64>> =
        sqlx::query_scalar(query).bind(run.as_str()).fetch_optional(connection).await?;
    Ok(found.flatten().unwrap_or(0))
}

/// When the newest event of a kind was, among the newest of a run.
pub(crate) async fn newest(
    connection: &mut SqliteConnection,
    run: &RunId,
    kind: &str,
) -> Result<Option<i64>> {
    let (count, _) = run::event_head(&mut *connection, run).await?;
    let query = "SELECT created_us FROM event WHERE run_id = $1 AND seq > $2 AND kind = $3
                 ORDER BY seq DESC LIMIT 1";
    let first = to_i64("an event's number", count)?.saturating_sub(EVENTS_LOOKED_AT);
    let found = sqlx::query_scalar(query).bind(run.as_str()).bind(first).bind(kind);
    Ok(found.fetch_optional(connection).await?)
}

/// Kind and body of the next events after number `after`, in their order.
pub(crate) async fn bodies(
    connection: &mut SqliteConnection,
    run: &RunId,
    after: u64,
) -> Result<Vec<(String, String)>> {
    let rows = page(connection, run, after).await?;
    Ok(rows.into_iter().map(|row| (row.kind, row.body)).collect())
}

#[derive(sqlx::FromRow)]
struct EventRow {
    seq: i64,
    prev_hash: String,
    hash: String,
    kind: String,
    body: String,
}

impl EventRow {
    /// The row's hash, if it is number `seq` and follows `last`.
    fn follows(self, run: &RunId, seq: u64, last: &str) -> Option<String> {
        let right = u64::try_from(self.seq) == Ok(seq)
            && self.prev_hash == last
            && hash_of(last, run, seq, &self.kind, &self.body).as_str() == self.hash;
        right.then_some(self.hash)
    }
}

async fn page(connection: &mut SqliteConnection, run: &RunId, after: u64) -> Result<Vec<EventRow>> {
    let query = "SELECT seq, prev_hash, hash, kind, body FROM event
                 WHERE run_id = $1 ORDER BY seq LIMIT $2 OFFSET $3";
    let rows = sqlx::query_as(query)
        .bind(run.as_str())
        .bind(EVENTS_AT_ONCE)
        .bind(to_i64("an event's number", after)?)
        .fetch_all(connection)
        .await?;
    Ok(rows)
}

/// Position of the first thing that a run was told after the last event that it wrote while it was
/// on; what is done with its kernels afterwards (acceptances, claims, reviews) is none of those.
pub(crate) async fn first_unheard(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Option<u32>> {
    let query = "SELECT min(CAST(json_extract(body, '$.position') AS INTEGER)) FROM event
                 WHERE run_id = $1 AND kind = 'told' AND seq > (
                     SELECT coalesce(max(seq), 0) FROM event
                     WHERE run_id = $1 AND kind <> 'told' AND kind NOT LIKE 'acceptance%'
                         AND kind NOT LIKE 'claim%' AND kind NOT LIKE 'review%')";
    Ok(sqlx::query_scalar(query).bind(run.as_str()).fetch_one(connection).await?)
}

/// What was noted last of each task's search that has ended, in the order of the notes.
pub(crate) async fn search_ends(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(Digest, SearchEnd)>> {
    let query = "SELECT body FROM event WHERE run_id = $1 AND kind = 'search_ended' ORDER BY seq";
    let bodies: Vec<String> =
        sqlx::query_scalar(query).bind(run.as_str()).fetch_all(connection).await?;
    let mut ends: Vec<(Digest, SearchEnd)> = Vec::new();
    for body in bodies {
        let Noted { task, end } = super::of_json("the end of a search", &body)?;
        ends.retain(|(of, _)| *of != task);
        ends.push((task, end));
    }
    Ok(ends)
}

/// Tasks of a run whose search has ended, and that were asked about no more since then.
pub(crate) async fn searches_over(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<Digest>> {
    let query = "SELECT json_extract(body, '$.task'), max(created_us) FROM event
                 WHERE run_id = $1 AND kind = 'search_ended' GROUP BY 1";
    let noted: Vec<(String, i64)> =
        sqlx::query_as(query).bind(run.as_str()).fetch_all(&mut *connection).await?;
    let mut over = Vec::new();
    for (task, noted_us) in noted {
        let query = "SELECT created_us FROM attempt WHERE run_id = $1 AND task_hash = $2
                     ORDER BY seq DESC LIMIT 1";
        let asked_us: Option<i64> = sqlx::query_scalar(query)
            .bind(run.as_str())
            .bind(&task)
            .fetch_optional(&mut *connection)
            .await?;
        if asked_us.is_none_or(|asked_us| asked_us < noted_us) {
            over.push(Digest::from(task));
        }
    }
    Ok(over)
}

/// The end of a search, as its note has it.
#[derive(serde::Deserialize)]
struct Noted {
    task: Digest,
    end: SearchEnd,
}

/// The newest event of a run that says whether it waits: kind, body and time.
pub(crate) async fn newest_pause(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Option<(String, String, i64)>> {
    let query = "SELECT kind, body, created_us FROM event
                 WHERE run_id = $1 AND kind IN ('paused', 'went_on') ORDER BY seq DESC LIMIT 1";
    Ok(sqlx::query_as(query).bind(run.as_str()).fetch_optional(connection).await?)
}
