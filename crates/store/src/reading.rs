//! What is read back: the attempt in hand, the history of a search, numbers for people.

use pipeline::attempt::{Attempt, Code, Mode, State};
use pipeline::digest::Digest;
use pipeline::estimate::CallHistory;
use pipeline::prompt::Prompt;
use pipeline::report::Stage;
use pipeline::verdict::Kind;
use sqlx::SqliteConnection;

use crate::error::StoreError;
use crate::open::Store;
use crate::tables::attempt::Bare;
use crate::tables::outline::Which;
use crate::tables::total::CallSums;
use crate::tables::{
    answered, artifact, attempt, build, call, candidate, card_time, evaluation, outline, run,
    task_money, to_u64, total,
};
use crate::{
    AttemptDetail, AttemptId, AttemptRow, Booking, Bookings, CallState, CandidateRow, CardTime,
    Result, RunId, RunSummary, TaskSummary,
};

/// So many attempts at a task ended with a kind of verdict, or have not ended.
type End = (Digest, Option<Kind>, u32);

impl Store {
    /// The oldest attempt of a run that is not closed, with everything stored so far.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn attempt_in_hand(&self, run: &RunId) -> Result<Option<AttemptRow>> {
        Ok(self.attempts_in_hand(run).await?.into_iter().next())
    }

    /// The attempts of a run that are not closed, oldest first, with everything stored so far.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn attempts_in_hand(&self, run: &RunId) -> Result<Vec<AttemptRow>> {
        let mut tx = self.read().await?;
        let mut rows = Vec::new();
        for bare in attempt::in_hand(&mut tx, run).await? {
            rows.push(full_row(&mut tx, bare).await?);
        }
        Ok(rows)
    }

    /// The attempt with this id, with everything stored so far.
    ///
    /// # Errors
    /// An unknown attempt.
    pub async fn attempt(&self, id: &AttemptId) -> Result<AttemptRow> {
        attempt_row(&mut *self.read().await?, id).await
    }

    /// An attempt as it is now. What was read of it before is taken over: what is stored of an
    /// attempt is only added to, its call and its state apart.
    ///
    /// # Errors
    /// An unknown attempt.
    pub async fn attempt_again(&self, known: &AttemptRow) -> Result<AttemptRow> {
        let mut tx = self.read().await?;
        let bare = attempt::get(&mut tx, &known.id).await?;
        row_beside(&mut tx, bare, Some(known)).await
    }

    /// The closed attempts of one task of a run, oldest first, as the search policy wants them.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn closed_attempts(&self, run: &RunId, task: &Digest) -> Result<Vec<Attempt>> {
        let mut tx = self.read().await?;
        let mut closed = Vec::new();
        for bare in attempt::of_task(&mut tx, run, task).await? {
            if bare.state == State::Closed {
                closed.push(closed_attempt(&mut tx, bare).await?);
            }
        }
        Ok(closed)
    }

    /// The same in outline: what the policy and a digest need, without the long texts.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn outlines(&self, run: &RunId, task: &Digest) -> Result<Vec<Attempt>> {
        outline::of_task(&mut *self.read().await?, run, task, Which::All).await
    }

    /// The best of the closed attempts of one task of a run, in outline.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn best_outline(&self, run: &RunId, task: &Digest) -> Result<Option<Attempt>> {
        outline::best_of(&mut *self.read().await?, run, task).await
    }

    /// Closed attempt `seq` of one task of a run, as a prompt shows it.
    ///
    /// # Errors
    /// An unknown attempt, and one that is not closed.
    pub async fn closed_attempt_of(&self, run: &RunId, task: &Digest, seq: u32) -> Result<Attempt> {
        let mut tx = self.read().await?;
        let id = attempt::id_of_seq(&mut tx, run, task, seq).await?;
        let bare = attempt::get(&mut tx, &id).await?;
        closed_attempt(&mut tx, bare).await
    }

    /// A closed attempt, as the search policy wants it.
    ///
    /// # Errors
    /// An unknown attempt, and one that is not closed.
    pub async fn closed_attempt(&self, id: &AttemptId) -> Result<Attempt> {
        let mut tx = self.read().await?;
        let bare = attempt::get(&mut tx, id).await?;
        closed_attempt(&mut tx, bare).await
    }

    /// How long the model's answers of a run were, oldest first: the mode, the tokens, and why the
    /// answer ended.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn completions(&self, run: &RunId) -> Result<Vec<(Mode, u64, String)>> {
        answered::completions(&mut *self.read().await?, run).await
    }

    /// What the answered calls of a model were like, over all runs.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn call_history(&self, provider: &str, model: &str) -> Result<CallHistory> {
        answered::history(&mut *self.read().await?, provider, model).await
    }

    /// Everything about attempt `seq` of one task of a run, for people.
    ///
    /// # Errors
    /// An unknown run or attempt.
    pub async fn attempt_detail(
        &self,
        run: &RunId,
        task: &Digest,
        seq: u32,
    ) -> Result<AttemptDetail> {
        let mut tx = self.read().await?;
        run::get(&mut tx, run).await?;
        let id = attempt::id_of_seq(&mut tx, run, task, seq).await?;
        let attempt = attempt_row(&mut tx, &id).await?;
        let calls = call::all(&mut tx, &id).await?;
        Ok(AttemptDetail { attempt, calls: calls.into_iter().map(|call| call.row).collect() })
    }

    /// What the calls of a run cost, or may cost.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn bookings(&self, id: &RunId) -> Result<Bookings> {
        let sums = total::sums(&mut *self.read().await?, id).await?;
        bookings(&sums)
    }

    /// What the calls of each task of a run cost, or may cost, in nano-dollars; a task without a
    /// call is left out.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn spent_of_tasks(&self, run: &RunId) -> Result<Vec<(Digest, i64)>> {
        let rows = task_money::of_tasks(&mut *self.read().await?, run).await?;
        Ok(rows.into_iter().map(|(task, nusd)| (Digest::from(task), nusd)).collect())
    }

    /// A run in numbers.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn run_summary(&self, id: &RunId) -> Result<RunSummary> {
        let mut tx = self.read().await?;
        let run = run::get(&mut tx, id).await?;
        let ends = outline::ends(&mut tx, id).await?;
        let bests = outline::bests(&mut tx, id).await?;
        let sums = total::sums(&mut tx, id).await?;
        let settled = settled(&sums)?;
        let mut summary = RunSummary {
            tasks: Vec::new(),
            attempts: count_of(&ends, |_| true),
            closed: count_of(&ends, |kind| kind.is_some()),
            verdicts: verdict_counts(&ends),
            usage: settled.map(CallSums::usage).transpose()?.unwrap_or_default(),
            bookings: bookings(&sums)?,
            card_time: CardTime::default(),
            drifted: settled.map_or(Ok(0), |sums| to_u64("a number of calls", sums.drifted))?,
            run,
        };
        for (_, time) in card_time::of_tasks(&mut tx, id).await? {
            summary.card_time = summary.card_time.plus(time);
        }
        for task in summary.run.tasks.clone() {
            let of_task: Vec<_> =
                ends.iter().filter(|(of, ..)| *of == task.hash).cloned().collect();
            summary.tasks.push(TaskSummary {
                attempts: count_of(&of_task, |_| true),
                closed: count_of(&of_task, |kind| kind.is_some()),
                best_seq: bests.get(&task.hash).copied().flatten(),
                task,
            });
        }
        Ok(summary)
    }
}

/// How many attempts ended so.
fn count_of(ends: &[End], counts: impl Fn(Option<Kind>) -> bool) -> u32 {
    ends.iter().filter(|(_, kind, _)| counts(*kind)).map(|(.., count)| count).sum()
}

/// An attempt with what every table holds about it.
pub(crate) async fn attempt_row(
    connection: &mut SqliteConnection,
    id: &AttemptId,
) -> Result<AttemptRow> {
    let bare = attempt::get(connection, id).await?;
    full_row(connection, bare).await
}

async fn full_row(connection: &mut SqliteConnection, bare: Bare) -> Result<AttemptRow> {
    row_beside(connection, bare, None).await
}

/// The row with what of it is known, and the rest as it is stored.
async fn row_beside(
    connection: &mut SqliteConnection,
    bare: Bare,
    known: Option<&AttemptRow>,
) -> Result<AttemptRow> {
    let call = call::newest(connection, &bare.id).await?;
    // Each try of an attempt asks the same.
    let messages = match known {
        Some(known) => known.prompt.messages.clone(),
        None => call::messages(connection, &call.row.id).await?,
    };
    let of_call = known.filter(|known| known.call.id == call.row.id);
    let reply = match of_call.and_then(|known| known.reply.clone()) {
        Some(reply) => Some(reply),
        None => call::reply(connection, &call).await?,
    };
    let candidate = match known.and_then(|known| known.candidate.clone()) {
        Some(candidate) => Some(candidate),
        None => candidate_row(connection, &bare).await?,
    };
    let build = match known.and_then(|known| known.build.clone()) {
        Some(build) => Some(build),
        None if candidate.is_some() => build::of_attempt(connection, &bare.id).await?,
        None => None,
    };
    let judgement = match known.and_then(|known| known.judgement.clone()) {
        Some(judgement) => Some(judgement),
        None if build.is_some() => {
            evaluation::of_attempt(connection, &bare.id, Stage::Search).await?
        }
        None => None,
    };
    Ok(AttemptRow {
        prompt: Prompt { mode: bare.ask.mode, messages },
        reply,
        call: call.row,
        candidate,
        build,
        judgement,
        id: bare.id,
        run_id: bare.run_id,
        task_hash: bare.task_hash,
        ask: bare.ask,
        state: bare.state,
        prompt_hash: bare.prompt_hash,
        verdict: bare.verdict,
        created_us: bare.created_us,
        updated_us: bare.updated_us,
    })
}

async fn candidate_row(
    connection: &mut SqliteConnection,
    bare: &Bare,
) -> Result<Option<CandidateRow>> {
    let (id, variant, plan) = match (&bare.candidate_id, &bare.variant_id, &bare.plan) {
        (Some(id), Some(variant), Some(plan)) => (id, variant, plan),
        (None, None, None) => return Ok(None),
        _ => {
            return Err(StoreError::damaged(format!("attempt {} has half a candidate", bare.id)));
        }
    };
    Ok(Some(CandidateRow {
        id: id.clone(),
        source: candidate::source(connection, id).await?,
        plan_text: artifact::text(connection, plan).await?,
        tunables: candidate::tunables(connection, variant).await?,
    }))
}

async fn closed_attempt(connection: &mut SqliteConnection, bare: Bare) -> Result<Attempt> {
    let call = call::newest(connection, &bare.id).await?;
    let reply = call::reply(connection, &call).await?;
    let candidate = candidate_row(connection, &bare).await?;
    let judgement = evaluation::of_attempt(connection, &bare.id, Stage::Search).await?;
    let promoted = evaluation::of_attempt(connection, &bare.id, Stage::Promote).await?;
    let lacks = |what| StoreError::damaged(format!("closed attempt {} has no {what}", bare.id));
    Ok(Attempt {
        seq: bare.ask.seq,
        mode: bare.ask.mode,
        parent: bare.ask.parent,
        verdict: bare.verdict.clone().ok_or_else(|| lacks("verdict"))?,
        code: candidate.map(|row| Code { source: row.source, plan: row.plan_text }),
        reply: reply.ok_or_else(|| lacks("reply"))?.text,
        diagnostics: build::diagnostics(connection, &bare.id).await?,
        report: judgement.and_then(|row| row.report),
        promotion: promoted.and_then(|row| row.report?.promotion),
    })
}

fn verdict_counts(ends: &[End]) -> Vec<(Kind, u32)> {
    let counts = Kind::ALL.into_iter().map(|kind| (kind, count_of(ends, |of| of == Some(kind))));
    counts.filter(|(_, count)| *count > 0).collect()
}

fn settled(sums: &[CallSums]) -> Result<Option<&CallSums>> {
    for sum in sums {
        if sum.state()? == CallState::Settled {
            return Ok(Some(sum));
        }
    }
    Ok(None)
}

fn bookings(sums: &[CallSums]) -> Result<Bookings> {
    let mut bookings = Bookings::default();
    for sum in sums {
        let calls = to_u64("a number of calls", sum.calls)?;
        let tokens = |tokens: i64| to_u64("a sum of tokens", tokens);
        let worst =
            Booking { calls, tokens: tokens(sum.reserved_tokens)?, nusd: sum.reserved_nusd };
        let counted = tokens(sum.input_tokens)? + tokens(sum.output_tokens)?;
        let paid = Booking { calls, tokens: counted, nusd: sum.cost_nusd };
        let unpriced = to_u64("a number of calls", sum.unpriced)?;
        match sum.state()? {
            CallState::Settled | CallState::Lost | CallState::Sent => {
                bookings.unpriced_calls += unpriced;
            }
            CallState::Reserved | CallState::Failed => {}
        }
        match sum.state()? {
            CallState::Reserved | CallState::Sent => {
                bookings.reserved.calls += worst.calls;
                bookings.reserved.tokens += worst.tokens;
                bookings.reserved.nusd = bookings.reserved.nusd.saturating_add(worst.nusd);
            }
            CallState::Settled => {
                let tokens = paid.tokens + tokens(sum.uncounted_tokens)?;
                bookings.settled = Booking { tokens, ..paid };
            }
            CallState::Failed => bookings.failed = paid,
            CallState::Lost => bookings.lost = worst,
        }
    }
    Ok(bookings)
}
