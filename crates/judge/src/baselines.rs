//! Baselines: which there are here, and one window of each.

use pipeline::acceptance::{Timed, WindowRecord};
use pipeline::baseline::BaselineId;
use pipeline::task::spec::Case;
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::headline::WindowKind;
use crate::{Judge, JudgeError};

impl Judge {
    /// The baselines that this machine can time for a task.
    pub(crate) fn baselines_here(
        &self,
        _evaluation: &Evaluation<'_>,
        _cancel: &CancelFlag,
    ) -> Result<Vec<BaselineId>, JudgeError> {
        Ok(Vec::new())
    }

    /// Times a baseline at a case, its outputs gated like a candidate's.
    pub(crate) fn time_baseline(
        &self,
        _evaluation: &Evaluation<'_>,
        _case: &Case,
        baseline: &BaselineId,
        _kind: WindowKind,
        record: &mut WindowRecord,
        _cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        record.timed = Timed::NotAvailable(format!("{baseline} is not there"));
        Ok(())
    }
}
