//! Whether a claim may go out where `require_review` says that a person decides.

use store::{ApprovalRow, ClaimRow, Decision, RunId, Store, StoreError};

use crate::settings::Places;

/// Where a person decides, what they decided must be what the run's log says they did.
///
/// # Errors
/// A row that somebody else wrote or changed.
pub(crate) async fn hold_to_log(places: &Places, store: &Store, run: &RunId) -> anyhow::Result<()> {
    if !places.require_review {
        return Ok(());
    }
    match store.verify_run(run).await? {
        Ok(_) => Ok(()),
        Err(misfit) => {
            let ledger = format!("ledger {}", store.path().display());
            let what = format!("run {run} is not as its log says, so nothing of it goes out: ");
            Err(StoreError::Damaged { ledger, what: what + &misfit.what }.into())
        }
    }
}

/// Why a claim may not go out, with the way out.
pub(crate) fn withheld(places: &Places, claim: &ClaimRow) -> Option<String> {
    if !places.require_review || claim.is_approved() {
        return None;
    }
    let id = &claim.id;
    let state = match claim.approvals.last() {
        Some(decision) => format!("was {}", in_words(decision)),
        None => "waits for a person (require_review)".to_owned(),
    };
    Some(format!("claim {id} {state}: `review approve {id} --reason TEXT` lets it out"))
}

/// A decision with its name and reason.
pub(crate) fn in_words(row: &ApprovalRow) -> String {
    let what = match row.decision {
        Decision::Accepted => "approved",
        Decision::Rejected => "rejected",
    };
    format!("{what} by {}: {}", row.reviewer, row.reason)
}
