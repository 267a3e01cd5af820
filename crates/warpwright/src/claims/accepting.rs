//! One kernel through the full protocol: what `accept` does by hand, and a run by itself.

use judge::Judge;
use pipeline::acceptance::Conclusion;
use store::{AcceptanceRow, AttemptRow, Purpose, Store};

use crate::claims::carry::{Carried, Pace};
use crate::claims::subject::Subject;
use crate::claims::{Aim, Effort, take};
use crate::{admission, wiring};

/// Acceptances of one program in a day: the best of many tries would be luck.
const TRIES_A_DAY_MAX: usize = 2;
const DAY_US: i64 = 86_400_000_000;

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
    let ended = |row: &AcceptanceRow| row.purpose == Purpose::Claim && row.conclusion.is_some();
    let mut ended: Vec<_> = rows.into_iter().filter(ended).collect();
    let today = ended.iter().filter(|row| row.started_us > store.now_us() - DAY_US).count();
    let Some(row) = ended.pop() else { return Ok(None) };
    let noisy = row.conclusion.as_ref().is_some_and(Conclusion::is_worth_another_try);
    if noisy && today < TRIES_A_DAY_MAX {
        return Ok(None);
    }
    Ok(Some(Before { row, tries: noisy.then_some(today) }))
}
