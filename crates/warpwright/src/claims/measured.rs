//! The end of a run on GPUs: its best kernels get a number beside a baseline.

use judge::{Judge, JudgeError};
use pipeline::comparison::Confidence;
use store::{AttemptId, Purpose, RunId, Store};

use crate::claims::carry::{Carried, Pace};
use crate::claims::subject::Subject;
use crate::claims::{Aim, Effort, take, words};
use crate::{selector, terminal};

/// Measures the best kernel of each task of a run, unless that was done before. What this machine
/// cannot measure is said, and no error.
pub(crate) async fn measure_best(
    store: &Store,
    judge: &Judge,
    run: &RunId,
    pace: &Pace,
) -> anyhow::Result<()> {
    if judge.config().gpus.is_none() {
        return Ok(());
    }
    for task in store.run(run).await?.tasks {
        let Some(seq) = selector::best_of_run(store, run, &task).await? else { continue };
        let attempt = store.attempt_detail(run, &task.hash, seq).await?.attempt;
        let known = in_words(store, &attempt.id).await?;
        if known.is_some() || pace.interrupt.was_requested() {
            continue;
        }
        let subject = Subject::of_attempt(store, judge, &attempt).await?;
        let purpose = Purpose::Measurement;
        let aim =
            Aim { attempt: &attempt.id, purpose, of_claim: None, weaknesses: &[], against: None };
        let effort = Effort { rounds_max: 1, confidence: Confidence::default() };
        let why = match take(store, judge, &subject, aim, effort, pace).await {
            Ok((_, Carried::Ended(conclusion, _))) if conclusion.measurement().is_some() => {
                continue;
            }
            Ok((_, Carried::Ended(conclusion, _))) => conclusion.cause.clone(),
            Ok((_, Carried::Deadline(left) | Carried::Interrupted(left))) => left,
            Err(error) => match error.downcast::<JudgeError>()? {
                JudgeError::NotAvailable(why) => why,
                other => return Err(other.into()),
            },
        };
        let name = &task.name;
        terminal::note(&format!("{name} #{seq} was not measured beside a baseline: {why}"));
    }
    Ok(())
}

/// The newest measurement of an attempt in words; `None` where there is none.
pub(crate) async fn in_words(store: &Store, attempt: &AttemptId) -> anyhow::Result<Option<String>> {
    let rows = store.acceptances_of_attempt(attempt).await?;
    let of_row = |row: &store::AcceptanceRow| match row.purpose {
        Purpose::Measurement => Some(words::measured(row.conclusion.as_ref()?)),
        Purpose::Claim | Purpose::Reproduction | Purpose::Recheck => None,
    };
    Ok(rows.iter().rev().find_map(of_row))
}
