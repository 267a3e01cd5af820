//! Tables `attempt` and `evaluation`, as much of them as the search policy needs: no reply, no
//! source and no report, so that many thousand attempts are read at once.

use pipeline::attempt::{Attempt, Mode};
use pipeline::digest::Digest;
use pipeline::report::{Report, Score};
use pipeline::verdict::Kind;
use sqlx::{AssertSqlSafe, SqliteConnection};

use super::attempt::verdict_of;
use super::evaluation::Kept;
use super::{of_name, to_u32};
use crate::error::StoreError;
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

/// The closed attempts of a run at one task in outline, by their seq; those that ended with one
/// kind of verdict, or all.
pub(crate) async fn of_task(
    connection: &mut SqliteConnection,
    run: &RunId,
    task: &Digest,
    kind: Option<Kind>,
) -> Result<Vec<Attempt>> {
    let wanted = if kind.is_some() { "attempt.kind = $3" } else { "attempt.state = 'closed'" };
    let query = format!(
        "SELECT attempt.seq, parent.seq AS parent_seq, attempt.mode, attempt.kind, attempt.reason,
             attempt.detail, search.score, search.promotion, search.report,
             promote.promotion AS promoted, promote.report AS promoted_report
         FROM attempt LEFT JOIN attempt AS parent ON parent.id = attempt.parent_id
         LEFT JOIN evaluation AS search
             ON search.attempt_id = attempt.id AND search.stage = 'search'
         LEFT JOIN evaluation AS promote
             ON promote.attempt_id = attempt.id AND promote.stage = 'promote'
         WHERE attempt.run_id = $1 AND attempt.task_hash = $2 AND {wanted} ORDER BY attempt.seq"
    );
    let mut query =
        sqlx::query_as::<_, Stored>(AssertSqlSafe(query)).bind(run.as_str()).bind(task.as_str());
    if let Some(kind) = kind {
        query = query.bind(kind.name());
    }
    let mut outlines = Vec::new();
    for stored in query.fetch_all(&mut *connection).await? {
        outlines.push(stored.outline(connection).await?);
    }
    Ok(outlines)
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
