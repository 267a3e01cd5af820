//! Tables `attempt` and `evaluation`, as much of them as the search policy needs: no reply, no
//! source and no report, so that many thousand attempts are read at once. Columns `best_seq` and
//! `folded_to` of `run_task`: the best of a task's first attempts, so that they need not be read.

use std::collections::BTreeMap;

use pipeline::attempt::{Attempt, Mode, best};
use pipeline::digest::Digest;
use pipeline::report::{Report, Score};
use pipeline::verdict::Kind;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::attempt::verdict_of;
use super::evaluation::Kept;
use super::{of_name, to_u32};
use crate::error::StoreError;
use crate::open::Work;
use crate::{Result, RunId};

#[derive(sqlx::FromRow)]
struct Stored {
    seq: i64,
    parent_seq: Option<i64>,
    mode: String,
    kind: Option<String>,
    reason: Option<String>,
    detail: Option<String>,
    #[sqlx(flatten)]
    searched: Kept,
    promoted: Option<String>,
    promoted_report: Option<String>,
}

impl Stored {
    async fn outline(self, connection: &mut SqliteConnection) -> Result<Attempt> {
        let kind = self.kind.ok_or_else(|| StoreError::damaged("a closed attempt has no kind"))?;
        let verdict = verdict_of(&kind, self.reason.as_deref(), self.detail)?;
        let score = match verdict.is_correct() {
            true => self.searched.score(connection).await?,
            false => Score::None,
        };
        let promoted = Kept::promoted(self.promoted, self.promoted_report);
        Ok(Attempt {
            seq: to_u32("an attempt's seq", self.seq)?,
            mode: of_name("mode", &self.mode, Mode::from_name(&self.mode))?,
            parent: self.parent_seq.map(|seq| to_u32("an attempt's parent", seq)).transpose()?,
            verdict,
            code: None,
            reply: String::new(),
            diagnostics: Vec::new(),
            report: Some(Report::of_score(score)),
            promotion: promoted.promotion(connection).await?,
        }
        .outline())
    }
}

/// Which closed attempts are read.
#[derive(Clone, Copy)]
pub(crate) enum Which {
    All,
    Correct,
    /// Those with a larger number, closed or not: the others are not among them.
    After(u32),
    One(u32),
}

/// The closed attempts of a run at one task in outline, by their seq.
pub(crate) async fn of_task(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
    which: Which,
) -> Result<Vec<Attempt>> {
    let (wanted, number) = match which {
        Which::All => ("attempt.seq > $3", 0),
        Which::Correct => ("attempt.kind = 'Correct' AND attempt.seq > $3", 0),
        Which::After(seq) => ("attempt.seq > $3", seq),
        Which::One(seq) => ("attempt.seq = $3", seq),
    };
    let query = format!(
        "SELECT attempt.seq, parent.seq AS parent_seq, attempt.mode, attempt.kind, attempt.reason,
             attempt.detail, search.score, search.promotion, search.report,
             promote.promotion AS promoted, promote.report AS promoted_report
         FROM attempt LEFT JOIN attempt AS parent ON parent.id = attempt.parent_id
         LEFT JOIN evaluation AS search
             ON search.attempt_id = attempt.id AND search.stage = 'search'
         LEFT JOIN evaluation AS promote
             ON promote.attempt_id = attempt.id AND promote.stage = 'promote'
         WHERE attempt.run_id = $1 AND attempt.task_hash = $2 AND attempt.state = 'closed'
             AND {wanted} ORDER BY attempt.seq"
    );
    let stored: Vec<Stored> = sqlx::query_as(AssertSqlSafe(query))
        .bind(run.as_str())
        .bind(task.as_str())
        .bind(number)
        .fetch_all(&mut *connection)
        .await?;
    let mut outlines = Vec::new();
    for stored in stored {
        outlines.push(stored.outline(connection).await?);
    }
    Ok(outlines)
}

/// How far the attempts at a task are folded into their best: its number, and up to which one.
type Folded = (Option<i64>, i64);

async fn folded(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
) -> Result<(Option<u32>, u32)> {
    let query = "SELECT best_seq, folded_to FROM run_task WHERE run_id = $1 AND task_hash = $2";
    let found: Option<Folded> = sqlx::query_as(query)
        .bind(run.as_str())
        .bind(task.as_str())
        .fetch_optional(connection)
        .await?;
    let (best, to) = found.unwrap_or_default();
    let best = best.map(|seq| to_u32("the best of a task", seq)).transpose()?;
    Ok((best, to_u32("a folded attempt", to)?))
}

/// The best of a run's closed attempts at a task, in outline.
pub(crate) async fn best_of(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
) -> Result<Option<Attempt>> {
    let (best_seq, to) = folded(connection, run, task).await?;
    let mut known = match best_seq {
        Some(seq) => of_task(connection, run, task, Which::One(seq)).await?,
        None => Vec::new(),
    };
    known.extend(of_task(connection, run, task, Which::After(to)).await?);
    Ok(best(&known).cloned())
}

/// Folds what is closed without a gap. The first of those that no other improves on is found from
/// left to right, so that the best of the first ones is all that the next ones need.
pub(crate) async fn fold(work: &mut Work, run: &RunId, task: &Digest) -> Result<()> {
    let (best_seq, to) = folded(work.connection(), run, task).await?;
    let later = of_task(work.connection(), run, task, Which::After(to)).await?;
    let whole: Vec<_> =
        (to + 1..).zip(later).take_while(|(seq, it)| *seq == it.seq).map(|(_, it)| it).collect();
    let Some(last) = whole.last().map(|attempt| attempt.seq) else { return Ok(()) };
    let best_seq = match best(&whole) {
        None => best_seq,
        Some(_) => {
            let mut known = match best_seq {
                Some(seq) => of_task(work.connection(), run, task, Which::One(seq)).await?,
                None => Vec::new(),
            };
            known.extend(whole);
            best(&known).map(|attempt| attempt.seq)
        }
    };
    let query = "UPDATE run_task SET best_seq = $3, folded_to = $4
                 WHERE run_id = $1 AND task_hash = $2";
    sqlx::query(query)
        .bind(run.as_str())
        .bind(task.as_str())
        .bind(best_seq)
        .bind(last)
        .execute(work.connection())
        .await?;
    Ok(())
}

/// The best of a run's closed attempts at each task, by their numbers.
pub(crate) async fn bests(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<BTreeMap<Digest, Option<u32>>> {
    let query = "SELECT task_hash, best_seq, EXISTS (
                     SELECT 1 FROM attempt WHERE attempt.run_id = run_task.run_id
                     AND attempt.task_hash = run_task.task_hash
                     AND attempt.seq > run_task.folded_to AND attempt.kind = 'Correct')
                 FROM run_task WHERE run_id = $1";
    let rows: Vec<(String, Option<i64>, bool)> =
        sqlx::query_as(query).bind(run.as_str()).fetch_all(&mut *connection).await?;
    let mut bests = BTreeMap::new();
    for (task, best_seq, more) in rows {
        let task = Digest::from(task);
        let best = match more {
            true => best_of(connection, run, &task).await?.map(|attempt| attempt.seq),
            false => best_seq.map(|seq| to_u32("the best of a task", seq)).transpose()?,
        };
        bests.insert(task, best);
    }
    Ok(bests)
}

/// True where what is folded is the best of what there is.
pub(crate) async fn fits(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
) -> Result<bool> {
    let (best_seq, to) = folded(connection, run, task).await?;
    if !is_whole(connection, run, task, to).await? {
        return Ok(false);
    }
    let mut attempts = of_task(connection, run, task, Which::Correct).await?;
    attempts.retain(|attempt| attempt.seq <= to);
    Ok(best(&attempts).map(|attempt| attempt.seq) == best_seq)
}

/// True where there are all attempts up to this one, and all are closed: what is folded of others
/// would keep a better one from being seen.
async fn is_whole(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
    to: u32,
) -> Result<bool> {
    let query = "SELECT count(*) FROM attempt
                 WHERE run_id = $1 AND task_hash = $2 AND seq <= $3 AND state = 'closed'";
    let closed: i64 = sqlx::query_scalar(query)
        .bind(run.as_str())
        .bind(task.as_str())
        .bind(to)
        .fetch_one(connection)
        .await?;
    Ok(closed == i64::from(to))
}

/// How the attempts of a run ended, by task: how many with each kind of verdict, and under `None`
/// how many have not.
pub(crate) async fn ends(
    connection: &mut SqliteConnection,
    run: &RunId,
) -> Result<Vec<(Digest, Option<Kind>, u32)>> {
    let query = "SELECT task_hash, kind, count(*) FROM attempt WHERE run_id = $1
                 GROUP BY task_hash, kind";
    let rows: Vec<(String, Option<String>, i64)> =
        sqlx::query_as(query).bind(run.as_str()).fetch_all(connection).await?;
    let end = |(task, kind, count): (String, Option<String>, i64)| {
        let kind = kind
            .map(|name| of_name("kind of verdict", &name, Kind::from_name(&name)))
            .transpose()?;
        Ok((Digest::from(task), kind, to_u32("a number of attempts", count)?))
    };
    rows.into_iter().map(end).collect()
}
