//! Tables `acceptance`, `acceptance_seed` and `acceptance_entry`: full protocols, step by step.

use pipeline::acceptance::{Conclusion, Entry, Protocol};
use pipeline::digest::Digest;
use pipeline::verdict::Reason;
use sqlx::SqliteConnection;

use super::{artifact, of_json, of_name, to_json, to_u32, window};
use crate::error::StoreError;
use crate::limits::ACCEPTANCE_TIMES_MAX;
use crate::open::Work;
use crate::{
    AcceptanceId, AcceptanceRow, AcceptanceTimes, AttemptId, ClaimId, KernelLook, NewAcceptance,
    Purpose, Result, RunId,
};

/// Stores a new acceptance with its seed; returns the hash of its protocol.
pub(crate) async fn insert(
    work: &mut Work,
    id: &AcceptanceId,
    variant: &Digest,
    device_id: &str,
    new: &NewAcceptance<'_>,
) -> Result<Digest> {
    let protocol = to_json("the protocol", new.protocol)?;
    let protocol = artifact::put(work, protocol.as_bytes()).await?;
    let query = "INSERT INTO acceptance
                 (id, attempt_id, variant_id, eval_key, purpose, of_claim, protocol, judge_hash,
                  toolchain_id, device_id, process, state, started_us, origin, ptx_hash,
                  cubin_hash)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 'running', $12, $13, $14,
                     $15)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(new.attempt.as_str())
        .bind(variant.as_str())
        .bind(new.eval_key.as_str())
        .bind(new.purpose.name())
        .bind(new.of_claim.map(ClaimId::as_str))
        .bind(protocol.as_str())
        .bind(new.judge_hash)
        .bind(new.toolchain_id)
        .bind(device_id)
        .bind(new.process)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .bind(new.ptx_hash)
        .bind(new.cubin_hash)
        .execute(work.connection())
        .await?;
    let query = "INSERT INTO acceptance_seed (acceptance_id, seed, created_us, origin)
                 VALUES ($1, $2, $3, $4)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(new.seed)
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(protocol)
}

/// Stores entry number `position`, a window also as its own row; returns the entry's hash.
pub(crate) async fn insert_entry(
    work: &mut Work,
    id: &AcceptanceId,
    position: u32,
    entry: &Entry,
) -> Result<Digest> {
    let json = to_json("an entry", entry)?;
    let hash = artifact::put(work, json.as_bytes()).await?;
    let query = "INSERT INTO acceptance_entry
                 (acceptance_id, position, kind, entry, created_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6)";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(position)
        .bind(kind_of(entry))
        .bind(hash.as_str())
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    match entry {
        Entry::Window(record) => window::insert(work, id, position, record).await?,
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } | Entry::Pilot(_) => {}
    }
    Ok(hash)
}

/// What an entry is, in a word.
pub(crate) fn kind_of(entry: &Entry) -> &'static str {
    match entry {
        Entry::Rebuilt { .. } => "rebuilt",
        Entry::Trials(_) => "trials",
        Entry::Checked { .. } => "checked",
        Entry::Pilot(_) => "pilot",
        Entry::Window(_) => "window",
    }
}

/// Stores the end; returns the hash of the conclusion.
pub(crate) async fn end(
    work: &mut Work,
    id: &AcceptanceId,
    conclusion: &Conclusion,
) -> Result<Digest> {
    let json = to_json("the conclusion", conclusion)?;
    let hash = artifact::put(work, json.as_bytes()).await?;
    let query = "UPDATE acceptance SET state = 'ended', kind = $2, reason = $3, conclusion = $4,
                 ended_us = $5 WHERE id = $1";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(conclusion.verdict.kind.name())
        .bind(conclusion.verdict.reason.map(Reason::code))
        .bind(hash.as_str())
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    Ok(hash)
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    run_id: String,
    attempt_id: String,
    purpose: String,
    of_claim: Option<String>,
    protocol: String,
    eval_key: String,
    ptx_hash: String,
    cubin_hash: String,
    judge_hash: String,
    toolchain_id: String,
    device_model: String,
    process: String,
    conclusion: Option<String>,
    started_us: i64,
    ended_us: Option<i64>,
}

const SELECT: &str = "SELECT acceptance.*, attempt.run_id, device.model AS device_model
                      FROM acceptance JOIN attempt ON attempt.id = acceptance.attempt_id
                      JOIN device ON device.id = acceptance.device_id";

impl Stored {
    async fn row(self, connection: &mut SqliteConnection) -> Result<AcceptanceRow> {
        let protocol: Protocol =
            of_json("a protocol", &artifact::text(connection, &self.protocol).await?)?;
        let conclusion = conclusion(connection, self.conclusion.as_deref()).await?;
        Ok(AcceptanceRow {
            id: AcceptanceId::from(self.id),
            run_id: RunId::from(self.run_id),
            attempt_id: AttemptId::from(self.attempt_id),
            purpose: of_name("purpose", &self.purpose, Purpose::from_name(&self.purpose))?,
            of_claim: self.of_claim.map(ClaimId::from),
            protocol,
            eval_key: Digest::from(self.eval_key),
            ptx_hash: self.ptx_hash,
            cubin_hash: self.cubin_hash,
            judge_hash: self.judge_hash,
            toolchain_id: self.toolchain_id,
            device_model: self.device_model,
            process: self.process,
            conclusion,
            started_us: self.started_us,
            ended_us: self.ended_us,
        })
    }
}

/// The acceptance with this id.
pub(crate) async fn get(
    connection: &mut SqliteConnection,
    id: &AcceptanceId,
) -> Result<AcceptanceRow> {
    let query = format!("{SELECT} WHERE acceptance.id = $1");
    let stored: Option<Stored> = sqlx::query_as(sqlx::AssertSqlSafe(query))
        .bind(id.as_str())
        .fetch_optional(&mut *connection)
        .await?;
    let unknown = || StoreError::UnknownClaim { selector: id.to_string() };
    stored.ok_or_else(unknown)?.row(connection).await
}

/// The acceptances of a program, oldest first.
pub(crate) async fn of_key(
    connection: &mut SqliteConnection,
    key: &Digest,
) -> Result<Vec<AcceptanceRow>> {
    let query = format!("{SELECT} WHERE acceptance.eval_key = $1 ORDER BY acceptance.rowid");
    let stored: Vec<Stored> = sqlx::query_as(sqlx::AssertSqlSafe(query))
        .bind(key.as_str())
        .fetch_all(&mut *connection)
        .await?;
    let mut rows = Vec::new();
    for stored in stored {
        rows.push(stored.row(connection).await?);
    }
    Ok(rows)
}

#[derive(sqlx::FromRow)]
struct StoredTimes {
    attempt_id: String,
    task_hash: String,
    purpose: String,
    started_us: i64,
    ended_us: Option<i64>,
    /// Times of the steps, separated by spaces.
    steps: Option<String>,
}

const SELECT_TIMES: &str =
    "SELECT attempt_id, attempt.task_hash, purpose, acceptance.started_us, acceptance.ended_us,
         (SELECT group_concat(created_us, ' ') FROM
             (SELECT created_us FROM acceptance_entry WHERE acceptance_id = acceptance.id
              ORDER BY position)) AS steps
     FROM acceptance JOIN attempt ON attempt.id = attempt_id
     JOIN device ON device.id = acceptance.device_id";

/// The acceptances of a run in short, oldest first.
pub(crate) async fn times_of_run(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<AcceptanceTimes>> {
    let query = format!("{SELECT_TIMES} WHERE attempt.run_id = $1 ORDER BY acceptance.rowid");
    let stored: Vec<StoredTimes> = sqlx::query_as(sqlx::AssertSqlSafe(query))
        .bind(run.as_str())
        .fetch_all(&mut *connection)
        .await?;
    stored.into_iter().map(StoredTimes::row).collect()
}

#[derive(sqlx::FromRow)]
struct StoredLook {
    id: String,
    run_id: String,
    attempt_id: String,
    seq: u32,
    purpose: String,
    started_us: i64,
    conclusion: Option<String>,
}

/// The acceptances of an attempt's kernel, oldest first: those of equal programs are too.
pub(crate) async fn looks_at(
    connection: &mut SqliteConnection,
    attempt: &AttemptId,
) -> Result<Vec<KernelLook>> {
    let query = "SELECT acceptance.id, attempt.run_id, attempt_id, attempt.seq, purpose,
                     acceptance.started_us, conclusion
                 FROM acceptance JOIN attempt ON attempt.id = attempt_id
                 WHERE attempt_id = $1 OR acceptance.eval_key IN
                     (SELECT eval_key FROM evaluation WHERE evaluation.attempt_id = $1
                      AND eval_key IS NOT NULL)
                 ORDER BY acceptance.rowid";
    let stored: Vec<StoredLook> =
        sqlx::query_as(query).bind(attempt.as_str()).fetch_all(&mut *connection).await?;
    let mut looks = Vec::new();
    for it in stored {
        looks.push(KernelLook {
            id: AcceptanceId::from(it.id),
            run_id: RunId::from(it.run_id),
            attempt_id: AttemptId::from(it.attempt_id),
            seq: it.seq,
            purpose: of_name("purpose", &it.purpose, Purpose::from_name(&it.purpose))?,
            started_us: it.started_us,
            conclusion: conclusion(connection, it.conclusion.as_deref()).await?,
        });
    }
    Ok(looks)
}

async fn conclusion(
    connection: &mut SqliteConnection,
    hash: Option<&str>,
) -> Result<Option<Conclusion>> {
    let Some(hash) = hash else { return Ok(None) };
    Ok(Some(of_json("a conclusion", &artifact::text(connection, hash).await?)?))
}

/// The newest acceptances on a model of card that came to times, newest first.
pub(crate) async fn times_on(
    connection: &mut SqliteConnection,
    device_model: &str,
) -> Result<Vec<AcceptanceTimes>> {
    let mut rows = Vec::new();
    for purpose in [Purpose::Claim, Purpose::Measurement] {
        // One that was rejected on its way says nothing of how long the whole takes.
        let query = format!(
            "{SELECT_TIMES} WHERE device.model = $1 AND purpose = $2
             AND acceptance.state = 'ended' AND acceptance.kind = 'Correct'
             ORDER BY acceptance.rowid DESC LIMIT $3"
        );
        let stored: Vec<StoredTimes> = sqlx::query_as(sqlx::AssertSqlSafe(query))
            .bind(device_model)
            .bind(purpose.name())
            .bind(ACCEPTANCE_TIMES_MAX)
            .fetch_all(&mut *connection)
            .await?;
        for stored in stored {
            rows.push(stored.row()?);
        }
    }
    Ok(rows)
}

impl StoredTimes {
    fn row(self) -> Result<AcceptanceTimes> {
        let steps = self.steps.unwrap_or_default();
        let steps = steps.split_whitespace().map(str::parse::<i64>);
        let mut times_us = vec![self.started_us];
        for step in steps {
            let no_time = |_| StoreError::damaged("a time of an acceptance is none".to_owned());
            times_us.push(step.map_err(no_time)?);
        }
        times_us.extend(self.ended_us);
        Ok(AcceptanceTimes {
            attempt_id: AttemptId::from(self.attempt_id),
            task_hash: Digest::from(self.task_hash),
            purpose: of_name("purpose", &self.purpose, Purpose::from_name(&self.purpose))?,
            ended: self.ended_us.is_some(),
            times_us,
        })
    }
}

/// How many entries an acceptance has.
pub(crate) async fn entry_count(
    connection: &mut SqliteConnection,
    id: &AcceptanceId,
) -> Result<u32> {
    let query = "SELECT count(*) FROM acceptance_entry WHERE acceptance_id = $1";
    let count = sqlx::query_scalar(query).bind(id.as_str()).fetch_one(connection).await?;
    to_u32("a number of entries", count)
}

/// The entries of an acceptance, in their order.
pub(crate) async fn entries(
    connection: &mut SqliteConnection,
    id: &AcceptanceId,
) -> Result<Vec<Entry>> {
    let query = "SELECT entry FROM acceptance_entry WHERE acceptance_id = $1 ORDER BY position";
    let hashes: Vec<String> =
        sqlx::query_scalar(query).bind(id.as_str()).fetch_all(&mut *connection).await?;
    let mut entries = Vec::new();
    for hash in hashes {
        entries.push(of_json("an entry", &artifact::text(connection, &hash).await?)?);
    }
    Ok(entries)
}

/// The secret that an acceptance drew its inputs from.
pub(crate) async fn seed(connection: &mut SqliteConnection, id: &AcceptanceId) -> Result<String> {
    let query = "SELECT seed FROM acceptance_seed WHERE acceptance_id = $1";
    let seed: Option<String> =
        sqlx::query_scalar(query).bind(id.as_str()).fetch_optional(connection).await?;
    seed.ok_or_else(|| StoreError::damaged(format!("acceptance {id} has no seed")))
}
