//! Whether a claim may go out where `require_review` says that a person decides.

use store::{ApprovalRow, ClaimRow, Decision};

use crate::settings::Places;

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
