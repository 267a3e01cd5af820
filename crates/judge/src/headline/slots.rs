//! Outputs of a window that were copied out and compared, which samples they vouch for, and what
//! the window says then.

use pipeline::check::OutputCheck;
use pipeline::report::{CaseStatus, Measured};
use pipeline::timing::Sample;
use pipeline::verdict::Reason;
use sandbox::wire::SlotContent;

use crate::decide::check_status;

/// What a verified window says of the time.
pub(crate) enum Ranked {
    Time(Measured),
    /// Less than the work takes at least.
    TooFast(Measured, String),
    Void(String),
}

/// Outputs that were copied out and compared.
pub(crate) struct CheckedSlot {
    pub(super) held: SlotContent,
    pub(super) checks: Vec<OutputCheck>,
    pub(super) is_what_was_timed: bool,
}

impl CheckedSlot {
    pub(super) fn status(&self) -> CaseStatus {
        match check_status(&self.checks) {
            CaseStatus::Passed if !self.is_what_was_timed => CaseStatus::Failed {
                reason: Reason::Mismatch,
                detail: "what was copied out is not what was hashed after timing".to_owned(),
            },
            other => other,
        }
    }

    pub(super) fn vouches_for(&self, sample: &Sample) -> bool {
        let same = self.held.content == sample.content && self.held.hash == sample.hash;
        same && matches!(self.status(), CaseStatus::Passed)
    }
}
