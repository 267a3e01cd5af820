//! One kernel through the full protocol: what `accept` does by hand, and a run by itself.

use judge::Judge;
use pipeline::acceptance::Conclusion;
use pipeline::closing::Look;
use pipeline::closing::tries::{Came, Try, ended_within_a_day, stand_of};
use store::{AcceptanceRow, AttemptRow, Purpose, Store};

use crate::claims::carry::{Carried, Pace};
use crate::claims::subject::Subject;
use crate::claims::{Aim, Effort, take};
use crate::{admission, wiring};

/// How the wish to accept a kernel ended.
pub(crate) enum Accepted {
    /// The same program was accepted before, and that stands.
    Before(Box<Before>),
    Now(Box<AcceptanceRow>, Carried),
}

/// An acceptance that has ended.
pub(crate) struct Before {
    pub(crate) row: AcceptanceRow,
    /// Why it is not tried again where it came to nothing for noise.
    pub(crate) tries: Option<usize>,
}

impl Before {
    /// Why it came to no claim.
    pub(crate) fn cause(&self) -> String {
        let cause = self.row.conclusion.as_ref().map(|it| it.cause.clone()).unwrap_or_default();
        match self.tries {
            Some(tries) => format!("{cause}; tried {tries} times in a day"),
            None => cause,
        }
    }
}

/// Accepts the kernel of an attempt, or finds what is known of the same program.
pub(crate) async fn accept(
    store: &Store,
    judge: &Judge,
    attempt: &AttemptRow,
    named: &str,
    effort: Effort,
    pace: &Pace,
) -> anyhow::Result<Accepted> {
    let subject = Subject::of_attempt(store, judge, attempt).await?;
    let _lock = store.lock_program(&subject.eval_key, Purpose::Claim)?;
    if let Some(before) = before(store, &subject).await? {
        return Ok(Accepted::Before(Box::new(before)));
    }
    let loaded = wiring::parse_task(store.task_files(&attempt.task_hash).await?)?;
    let weaknesses = &admission::weaknesses(store, judge, &loaded).await?;
    let purpose = Purpose::Claim;
    let aim =
        Aim { attempt: &attempt.id, purpose, of_claim: None, weaknesses, against: None, named };
    let (row, carried) = take(store, judge, &subject, aim, effort, pace).await?;
    Ok(Accepted::Now(Box::new(row), carried))
}

/// What is known of this program already: a claim, a verdict, or too many tries.
async fn before(store: &Store, subject: &Subject) -> anyhow::Result<Option<Before>> {
    let rows = store.acceptances_of_key(&subject.eval_key).await?;
    let claims: Vec<_> = rows.into_iter().filter(|row| row.purpose == Purpose::Claim).collect();
    let of = |row: &AcceptanceRow| try_of(row.started_us, row.conclusion.as_ref());
    let (tries, now_us): (Vec<_>, _) = (claims.iter().map(of).collect(), store.now_us());
    let tried = match stand_of(&tries, now_us) {
        Look::Due | Look::Again => return Ok(None),
        Look::Noisy => Some(ended_within_a_day(&tries, now_us)),
        Look::Ended | Look::GivenUp => None,
    };
    let row = claims.into_iter().rev().find(|row| row.conclusion.is_some());
    Ok(row.map(|row| Before { row, tries: tried }))
}

/// An acceptance as the plan counts it.
pub(crate) fn try_of(started_us: i64, conclusion: Option<&Conclusion>) -> Try {
    let came = match conclusion {
        None => Came::Open,
        Some(conclusion) if conclusion.is_worth_another_try() => Came::Noisy,
        Some(_) => Came::Settled,
    };
    Try { started_us, came }
}
