//! Table `attempt`: one trip along the pipeline; `state` is the state machine.

use pipeline::attempt::{Mode, State};
use pipeline::digest::Digest;
use pipeline::next_step::Ask;
use pipeline::verdict::{Kind, Reason, Verdict};
use sqlx::SqliteConnection;

use super::{of_name, outline, task_money, to_u32, total};
use crate::error::StoreError;
use crate::open::Work;
use crate::{AttemptId, Result, RunId};

/// The row itself, without what other tables hold about the attempt.
#[derive(Clone)]
pub(crate) struct Bare {
    pub(crate) id: AttemptId,
    pub(crate) run_id: RunId,
    pub(crate) task_hash: Digest,
    pub(crate) ask: Ask,
    pub(crate) prompt_hash: Digest,
    pub(crate) state: State,
    pub(crate) verdict: Option<Verdict>,
    pub(crate) candidate_id: Option<Digest>,
    pub(crate) variant_id: Option<Digest>,
    /// Artifact of the plan text.
    pub(crate) plan: Option<String>,
    pub(crate) created_us: i64,
    pub(crate) updated_us: i64,
}

#[derive(sqlx::FromRow)]
struct Stored {
    id: String,
    run_id: String,
    task_hash: String,
    seq: i64,
    parent_seq: Option<i64>,
    mode: String,
    subset_notice: bool,
    prompt_hash: String,
    state: String,
    kind: Option<String>,
    reason: Option<String>,
    detail: Option<String>,
    candidate_id: Option<String>,
    variant_id: Option<String>,
    plan: Option<String>,
    created_us: i64,
    updated_us: i64,
}

impl Stored {
    fn bare(self) -> Result<Bare> {
        let parent = self.parent_seq.map(|seq| to_u32("an attempt's parent", seq)).transpose()?;
        let verdict = match self.kind {
            Some(kind) => Some(verdict_of(&kind, self.reason.as_deref(), self.detail)?),
            None => None,
        };
        Ok(Bare {
            id: AttemptId::from(self.id),
            run_id: RunId::from(self.run_id),
            task_hash: Digest::from(self.task_hash),
            ask: Ask {
                seq: to_u32("an attempt's seq", self.seq)?,
                mode: of_name("mode", &self.mode, Mode::from_name(&self.mode))?,
                parent,
                subset_notice: self.subset_notice,
            },
            prompt_hash: Digest::from(self.prompt_hash),
            state: of_name("state of an attempt", &self.state, State::from_name(&self.state))?,
            verdict,
            candidate_id: self.candidate_id.map(Digest::from),
            variant_id: self.variant_id.map(Digest::from),
            plan: self.plan,
            created_us: self.created_us,
            updated_us: self.updated_us,
        })
    }
}

/// A verdict from its three columns.
pub(crate) fn verdict_of(
    kind: &str,
    reason: Option<&str>,
    detail: Option<String>,
) -> Result<Verdict> {
    let reason = match reason {
        Some(code) => Some(of_name("reason", code, Reason::from_code(code))?),
        None => None,
    };
    let kind = of_name("kind of verdict", kind, Kind::from_name(kind))?;
    let detail = detail.ok_or_else(|| StoreError::damaged("a verdict has no detail"))?;
    Ok(Verdict { kind, reason, detail })
}

/// An attempt to write in state `asked`.
pub(crate) struct NewAttempt<'a> {
    pub(crate) id: &'a AttemptId,
    pub(crate) run: &'a RunId,
    pub(crate) task: &'a Digest,
    pub(crate) ask: &'a Ask,
    pub(crate) prompt_hash: &'a Digest,
}

pub(crate) async fn insert(work: &mut Work, new: &NewAttempt<'_>) -> Result<()> {
    let parent_id = match new.ask.parent {
        Some(seq) => Some(id_of_seq(work.connection(), new.run, new.task, seq).await?),
        None => None,
    };
    let query = "INSERT INTO attempt
                 (id, run_id, task_hash, seq, parent_id, mode, subset_notice, prompt_hash, state,
                  created_us, updated_us, origin)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $10, $11)";
    sqlx::query(query)
        .bind(new.id.as_str())
        .bind(new.run.as_str())
        .bind(new.task.as_str())
        .bind(new.ask.seq)
        .bind(parent_id.as_ref().map(AttemptId::as_str))
        .bind(new.ask.mode.name())
        .bind(new.ask.subset_notice)
        .bind(new.prompt_hash.as_str())
        .bind(State::Asked.name())
        .bind(work.now_us)
        .bind(work.origin.to_string())
        .execute(work.connection())
        .await?;
    Ok(())
}

const SELECT: &str = "SELECT attempt.*, parent.seq AS parent_seq FROM attempt
                      LEFT JOIN attempt AS parent ON parent.id = attempt.parent_id";

/// The attempt with this id.
pub(crate) async fn get(connection: &mut SqliteConnection, id: &AttemptId) -> Result<Bare> {
    let query = format!("{SELECT} WHERE attempt.id = $1");
    let stored: Option<Stored> = sqlx::query_as(sqlx::AssertSqlSafe(query))
        .bind(id.as_str())
        .fetch_optional(connection)
        .await?;
    stored.ok_or_else(|| StoreError::UnknownAttempt { attempt: id.to_string() })?.bare()
}

/// The attempts of a run at one task, by their seq.
pub(crate) async fn of_task(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
) -> Result<Vec<Bare>> {
    let query = format!(
        "{SELECT} WHERE attempt.run_id = $1 AND attempt.task_hash = $2 ORDER BY attempt.seq"
    );
    let stored: Vec<Stored> = sqlx::query_as(sqlx::AssertSqlSafe(query))
        .bind(run.as_str())
        .bind(task.as_str())
        .fetch_all(connection)
        .await?;
    stored.into_iter().map(Stored::bare).collect()
}

/// The attempts of a run that are not closed, oldest first.
pub(crate) async fn in_hand(connection: &mut SqliteConnection, run: &RunId) -> Result<Vec<Bare>> {
    let query = format!(
        "{SELECT} WHERE attempt.run_id = $1 AND attempt.state <> 'closed' ORDER BY attempt.rowid"
    );
    let stored: Vec<Stored> =
        sqlx::query_as(sqlx::AssertSqlSafe(query)).bind(run.as_str()).fetch_all(connection).await?;
    stored.into_iter().map(Stored::bare).collect()
}

/// Id of the attempt with this number.
pub(crate) async fn id_of_seq(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
    seq: u32,
) -> Result<AttemptId> {
    let query = "SELECT id FROM attempt WHERE run_id = $1 AND task_hash = $2 AND seq = $3";
    let id: Option<String> = sqlx::query_scalar(query)
        .bind(run.as_str())
        .bind(task.as_str())
        .bind(seq)
        .fetch_optional(connection)
        .await?;
    let unknown = || StoreError::UnknownAttempt { attempt: format!("{seq} of run {run}") };
    id.map(AttemptId::from).ok_or_else(unknown)
}

pub(crate) async fn refuse_repeated(
    work: &mut Work,
    run: &RunId,
    task: &Digest,
    seq: u32,
) -> Result<()> {
    match id_of_seq(work.connection(), run, task, seq).await {
        Err(StoreError::UnknownAttempt { .. }) => Ok(()),
        Err(other) => Err(other),
        Ok(id) => {
            let found = get(work.connection(), &id).await?.state.name().to_owned();
            Err(StoreError::WrongState { seq, action: "opened", found })
        }
    }
}

pub(crate) async fn set_state(work: &mut Work, id: &AttemptId, state: State) -> Result<()> {
    let query = "UPDATE attempt SET state = $2, updated_us = $3 WHERE id = $1";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(state.name())
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Ties an attempt to its candidate; `plan` is the artifact of the plan text.
pub(crate) async fn set_candidate(
    work: &mut Work,
    id: &AttemptId,
    candidate: &Digest,
    variant: &Digest,
    plan: &Digest,
) -> Result<()> {
    let query = "UPDATE attempt SET candidate_id = $2, variant_id = $3, plan = $4 WHERE id = $1";
    sqlx::query(query)
        .bind(id.as_str())
        .bind(candidate.as_str())
        .bind(variant.as_str())
        .bind(plan.as_str())
        .execute(work.connection())
        .await?;
    Ok(())
}

/// Closes an attempt with its verdict, and counts it among what is kept of closed ones.
pub(crate) async fn close(work: &mut Work, attempt: &Bare, verdict: &Verdict) -> Result<()> {
    let query = "UPDATE attempt SET state = $2, kind = $3, reason = $4, detail = $5,
                 updated_us = $6 WHERE id = $1";
    sqlx::query(query)
        .bind(attempt.id.as_str())
        .bind(State::Closed.name())
        .bind(verdict.kind.name())
        .bind(verdict.reason.map(Reason::code))
        .bind(&verdict.detail)
        .bind(work.now_us)
        .execute(work.connection())
        .await?;
    total::add(work, &attempt.run_id, &attempt.id).await?;
    task_money::add(work, &attempt.id).await?;
    outline::fold(work, &attempt.run_id, &attempt.task_hash).await
}
