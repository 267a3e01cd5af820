//! What the judge found on hidden cases: a second judgement beside the search's report.

use pipeline::attempt::State;
use pipeline::report::Stage;
use pipeline::verdict::Verdict;
use serde_json::json;

use crate::error::StoreError;
use crate::open::{Store, Work};
use crate::scrubbing;
use crate::steps::{check_verdict, verdict_body};
use crate::tables::{attempt, evaluation, event};
use crate::{AttemptId, JudgementRow, NewJudgement, Result};

impl Store {
    /// Stores what the judge found on hidden cases.
    ///
    /// # Errors
    /// `WrongState` unless the attempt was judged.
    pub async fn record_promotion(&self, id: &AttemptId, new: &NewJudgement<'_>) -> Result<()> {
        check_verdict(new.verdict)?;
        let mut work = self.write().await?;
        let bare = attempt::get(work.connection(), id).await?;
        let (seq, state) = (bare.ask.seq, bare.state);
        let wrong = || {
            let found = state.name().to_owned();
            StoreError::WrongState { seq, action: "promoted", found }
        };
        let judged = matches!(state, State::Judged | State::Closed);
        let variant = bare.variant_id.as_ref().filter(|_| judged).ok_or_else(wrong)?;
        let new =
            &NewJudgement { verdict: &scrubbing::verdict(&work.scrubber, new.verdict), ..*new };
        let report = evaluation::insert(&mut work, id, variant, new).await?;
        let body = json!({
            "attempt": id.as_str(), "seq": seq, "stage": new.stage.name(),
            "eval_key": new.eval_key, "verdict": verdict_body(new.verdict), "report": report,
            "from_cache": new.from_cache,
        });
        event::append(&mut work, &bare.run_id, "promoted", &body).await?;
        work.commit().await
    }

    /// What the judge found on hidden cases, where it looked.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn promotion(&self, id: &AttemptId) -> Result<Option<JudgementRow>> {
        evaluation::of_attempt(&mut *self.read().await?, id, Stage::Promote).await
    }
}

/// What an attempt ends with: the verdict of the promotion where there is one, else of the search,
/// as it is stored. Whoever stored it may have had other texts to hide than this process.
pub(crate) async fn last_verdict(
    work: &mut Work,
    id: &AttemptId,
    given: &Verdict,
) -> Result<Verdict> {
    let scrubbed = scrubbing::verdict(&work.scrubber, given);
    let last = match evaluation::of_attempt(work.connection(), id, Stage::Promote).await? {
        Some(promoted) => Some(promoted),
        None => evaluation::of_attempt(work.connection(), id, Stage::Search).await?,
    };
    match last.map(|last| last.verdict) {
        None => Ok(scrubbed),
        Some(last) if last == *given || last == scrubbed => Ok(last),
        Some(last) => {
            let why = format!("{given} is not the judge's {last}");
            Err(StoreError::Unstorable { what: "the verdict", why })
        }
    }
}
