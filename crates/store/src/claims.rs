//! Claims after they were made: read, looked at again, confirmed, withdrawn; and what a person
//! decides.

use pipeline::acceptance::Claim;
use serde_json::json;

use crate::acceptances::make_claim;
use crate::error::StoreError;
use crate::open::{Store, Work};
use crate::tables::{acceptance, approval, claim, event, review, run};
use crate::{
    AcceptanceId, ClaimId, ClaimRow, ClaimState, Decision, KernelClaim, NewCheck, Result,
    ReviewRow, Ruling, RunId,
};

impl Store {
    /// Every claim, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn claims(&self) -> Result<Vec<ClaimRow>> {
        claim::with_prefix(&mut *self.read().await?, "").await
    }

    /// The claims that a run made, newest first; see [`Store::claims_of_kernels`].
    ///
    /// # Errors
    /// Those of reading.
    pub async fn claims_of_run(&self, run: &RunId) -> Result<Vec<ClaimRow>> {
        claim::of_run(&mut *self.read().await?, run).await
    }

    /// The claims of the kernels that a run has, newest first: those that it made, and those that
    /// other runs made of equal programs.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn claims_of_kernels(&self, run: &RunId) -> Result<Vec<KernelClaim>> {
        claim::of_kernels(&mut *self.read().await?, run).await
    }

    /// The claim with this id, or with an id that begins so.
    ///
    /// # Errors
    /// No claim, or more than one.
    pub async fn claim(&self, selector: &str) -> Result<ClaimRow> {
        let mut found = claim::with_prefix(&mut *self.read().await?, selector).await?;
        let unknown = || StoreError::UnknownClaim { selector: selector.to_owned() };
        if selector.is_empty() {
            return Err(unknown());
        }
        if found.len() > 1 {
            return Err(StoreError::ambiguous(selector, &named(&found)));
        }
        found.pop().ok_or_else(unknown)
    }

    /// The claim with an id that begins so, where a run may be meant as well; `None` where no
    /// claim's does.
    ///
    /// # Errors
    /// More than one claim, or a claim and a run: neither is guessed.
    pub async fn claim_unless_run(&self, selector: &str) -> Result<Option<ClaimRow>> {
        let mut tx = self.read().await?;
        let mut claims = claim::with_prefix(&mut tx, selector).await?;
        if selector.is_empty() || claims.is_empty() {
            return Ok(None);
        }
        let runs = run::ids_with_prefix(&mut tx, selector).await?;
        if claims.len() + runs.len() > 1 {
            let mut found = named(&claims);
            found.extend(runs.iter().map(|id| format!("run {id}")));
            return Err(StoreError::ambiguous(selector, &found));
        }
        Ok(claims.pop())
    }

    /// Stores a look at a claim again, and what becomes of the claim.
    ///
    /// # Errors
    /// Those of writing.
    pub async fn record_check(&self, new: &NewCheck<'_>) -> Result<()> {
        let mut work = self.write().await?;
        let looked = acceptance::get(work.connection(), new.acceptance).await?;
        claim::insert_check(&mut work, new).await?;
        let body = json!({
            "acceptance": new.acceptance.as_str(), "claim": new.claim.map(ClaimId::as_str),
            "bundle": new.bundle, "outcome": new.outcome.name(), "detail": new.detail,
        });
        event::append(&mut work, &looked.run_id, "claim_checked", &body).await?;
        if let (Some(id), Some(state)) = (new.claim, new.becomes) {
            let mut rows = claim::with_prefix(work.connection(), id.as_str()).await?;
            let unknown = || StoreError::UnknownClaim { selector: id.to_string() };
            let row = rows.pop().ok_or_else(unknown)?;
            claim::set_state(&mut work, id, state, new.detail).await?;
            let body = json!({
                "claim": id.as_str(), "state": state.name(), "why": new.detail,
                "acceptance": new.acceptance.as_str(),
            });
            event::append(&mut work, &row.run_id, "claim_changed", &body).await?;
        }
        work.commit().await
    }

    /// Everything that waits for a person or waited, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn reviews(&self) -> Result<Vec<ReviewRow>> {
        review::all(&mut *self.read().await?).await
    }

    /// Stores what a person decided about something suspect, and the claim that follows from it,
    /// which counts as reviewed.
    ///
    /// # Errors
    /// Nothing that waits under this id.
    pub async fn decide_review(
        &self,
        id: &AcceptanceId,
        decision: Decision,
        ruling: Ruling<'_>,
        claimed: Option<&Claim>,
    ) -> Result<Option<ClaimId>> {
        let mut work = self.write().await?;
        let row = acceptance::get(work.connection(), id).await?;
        if !review::decide(&mut work, id, decision, ruling).await? {
            let what = format!("nothing of acceptance {id} waits for a decision");
            return Err(StoreError::NotWaiting { what });
        }
        let body = json!({
            "acceptance": id.as_str(), "decision": decision.name(), "note": ruling.reason,
            "reviewer": ruling.reviewer, "decided_us": work.now_us,
        });
        event::append(&mut work, &row.run_id, "review_decided", &body).await?;
        let made = match claimed {
            Some(claimed) => {
                let made = make_claim(&mut work, &row, claimed).await?;
                approve(&mut work, &row.run_id, &made, decision, ruling).await?;
                Some(made)
            }
            None => None,
        };
        work.commit().await?;
        Ok(made)
    }

    /// Stores what a person decided about a claim; the last decision stands.
    ///
    /// # Errors
    /// An unknown claim; `NotWaiting` for one that was withdrawn, or that is decided so already.
    pub async fn review_claim(
        &self,
        id: &ClaimId,
        decision: Decision,
        ruling: Ruling<'_>,
    ) -> Result<()> {
        let mut work = self.write().await?;
        let mut rows = claim::with_prefix(work.connection(), id.as_str()).await?;
        let unknown = || StoreError::UnknownClaim { selector: id.to_string() };
        let row = rows.pop().ok_or_else(unknown)?;
        let same = row.approvals.last().is_some_and(|last| last.decision == decision);
        if row.state == ClaimState::Withdrawn || same {
            let state = if same { decision.name() } else { row.state.name() };
            return Err(StoreError::NotWaiting { what: format!("claim {id} is {state}") });
        }
        approve(&mut work, &row.run_id, &row.id, decision, ruling).await?;
        work.commit().await
    }
}

/// Appends a decision about a claim with its event, which says what claim it was made about.
async fn approve(
    work: &mut Work,
    run: &RunId,
    claim: &ClaimId,
    decision: Decision,
    ruling: Ruling<'_>,
) -> Result<()> {
    let position = approval::insert(work, claim, decision, ruling).await?;
    let body = json!({
        "claim": claim.as_str(), "position": position, "decision": decision.name(),
        "hash": claim::hash(work.connection(), claim).await?,
        "reason": ruling.reason, "reviewer": ruling.reviewer, "decided_us": work.now_us,
    });
    event::append(work, run, "claim_reviewed", &body).await
}

/// Claims as an error lists them.
fn named(claims: &[ClaimRow]) -> Vec<String> {
    let of = |row: &ClaimRow| format!("claim {} of {} #{}", row.id, row.task_name, row.seq);
    claims.iter().map(of).collect()
}
