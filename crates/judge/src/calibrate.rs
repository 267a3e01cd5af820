//! How exact kernels and libraries are, held against the gates of a precision class.
//!
//! They go through the very windows of an acceptance and the very comparison; only the class may
//! be another one, to see whether its gates tell classes apart. No candidate is decided about here.

use pipeline::acceptance::{Subject, Timed, WindowRecord};
use pipeline::baseline::{BaselineId, BaselineKind};
use pipeline::report::CaseReport;
use pipeline::task::spec::{Case, Precision};
use sandbox::CancelFlag;
use sandbox::wire::RunEnd;

use crate::compared::Declared;
use crate::decide::words;
use crate::evaluate::Evaluation;
use crate::headline::{Headline, WindowKind};
use crate::{Judge, JudgeError};

/// The cases of a window, one for each content, or why there are none.
pub type Calibrated = Result<Vec<CaseReport>, String>;

impl Judge {
    /// What the gates say of a kernel's outputs at a case, in the class that its plan declares.
    ///
    /// # Errors
    /// No GPU, or breakage.
    pub fn calibrate_kernel(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        cancel: &CancelFlag,
    ) -> Result<Calibrated, JudgeError> {
        let window = self.time_window(evaluation, case, WindowKind::Search, cancel)?;
        Ok(match (window.cases, window.timed) {
            (cases, _) if !cases.is_empty() => Ok(cases),
            (_, Timed::Void(why) | Timed::NotAvailable(why)) => Err(why),
            (_, Timed::Failed(verdict)) => Err(format!("{verdict}: {}", verdict.detail)),
            (_, Timed::Measured { .. }) => Err("nothing was compared".to_owned()),
        })
    }

    /// What the gates of a class say of a baseline's outputs at a case. `evaluation` is of any
    /// kernel of the task.
    ///
    /// # Errors
    /// No GPU, no such library, or breakage.
    pub fn calibrate_baseline(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        baseline: &BaselineId,
        class: Precision,
        cancel: &CancelFlag,
    ) -> Result<Calibrated, JudgeError> {
        if self.config.gpus.is_none() {
            return Err(JudgeError::NotAvailable("no GPU".to_owned()));
        }
        let headline = self.timed_case(evaluation, case, WindowKind::Search, cancel)?;
        let timed = match &headline {
            Headline::Timed(timed) => timed,
            Headline::Untimed(why) => return Ok(Err(why.clone())),
            Headline::Counted(_) | Headline::Left => return Ok(Err("it is not timed".to_owned())),
        };
        let ground = timed.ground(evaluation.task);
        let performed = match baseline.kind {
            BaselineKind::Vendor => self.perform_vendor(&ground, baseline, cancel)?,
            BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => {
                let subject = Subject::Baseline(baseline.clone());
                let mut record = WindowRecord::begun(&case.name, subject, 0, 0);
                self.perform_python(&ground, baseline, &mut record, cancel)?
            }
            BaselineKind::Custom(_) | BaselineKind::Naive => {
                return Ok(Err("it is a kernel of the task".to_owned()));
            }
        };
        let window = match performed.window {
            Ok(window) if window.end == RunEnd::Completed => window,
            Ok(window) => return Ok(Err(words(&window.end))),
            Err(why) => return Ok(Err(why)),
        };
        timed.seal()?;
        let declared = Declared::direct(class);
        let checks = self.window_checks(evaluation, timed, &window, declared, cancel)?;
        let slots = timed.slots_of(evaluation, &window, checks);
        Ok(Ok(vec![timed.content_report(0, &slots), timed.content_report(1, &slots)]))
    }
}
