//! One window of timing in a process of its own, as promote and accept take them.

use pipeline::acceptance::Timed;
use pipeline::comparison::Suspicion;
use pipeline::report::{CaseStatus, GpuRecord, PartCost};
use pipeline::task::spec::Case;
use pipeline::verdict::Verdict;
use sandbox::CancelFlag;

use crate::decide::verdict_of;
use crate::evaluate::{Evaluation, note_window, record};
use crate::headline::{Headline, Ranked, WindowKind};
use crate::{Judge, JudgeError};

/// What a window of the candidate came to.
pub(crate) struct TimedWindow {
    pub(crate) timed: Timed,
    pub(crate) gpu: Option<GpuRecord>,
}

impl TimedWindow {
    fn void(why: &str) -> Self {
        Self { timed: Timed::Void(why.to_owned()), gpu: None }
    }

    pub(crate) fn median_ns(&self) -> Option<f64> {
        match &self.timed {
            Timed::Measured { cold, .. } => Some(cold.median_ns),
            Timed::Void(_) | Timed::Failed(_) | Timed::NotAvailable(_) => None,
        }
    }
}

impl Judge {
    /// How many times as fast as the incumbent the candidate is on the headline shape, over four
    /// windows in the order candidate, incumbent, incumbent, candidate. `None` without a GPU, or
    /// when a window gave no time: then nothing is known against the candidate.
    pub(crate) fn time_beside(
        &self,
        evaluation: &Evaluation<'_>,
        incumbent: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<f64>, JudgeError> {
        let Some(case) = evaluation.task.spec.headline() else { return Ok(None) };
        if self.config.gpus.is_none() {
            return Ok(None);
        }
        // The same contents for both.
        let incumbent = Evaluation { seed: evaluation.seed, index: evaluation.index, ..*incumbent };
        let mut logs = [0.0; 2];
        for (side, subject) in [(0, evaluation), (1, &incumbent), (1, &incumbent), (0, evaluation)]
        {
            let window = self.time_window(subject, case, WindowKind::Search, cancel)?;
            let Some(median_ns) = window.median_ns() else { return Ok(None) };
            logs[side] += 0.5 * median_ns.ln();
        }
        Ok(Some((logs[1] - logs[0]).exp()))
    }

    /// Times a candidate at one case, every output verified.
    pub(crate) fn time_window(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        kind: WindowKind,
        cancel: &CancelFlag,
    ) -> Result<TimedWindow, JudgeError> {
        let (Some(gpus), Some(facts)) = (&self.config.gpus, &evaluation.build.facts) else {
            return Err(JudgeError::NotAvailable("no GPU, so no times".to_owned()));
        };
        let headline = self.timed_case(evaluation, case, gpus, kind, cancel)?;
        let timed = match &headline {
            Headline::Timed(timed) => timed,
            Headline::Untimed(why) => return Ok(TimedWindow::void(why)),
            Headline::Counted(_) | Headline::Left => return Ok(TimedWindow::void("not timed")),
        };
        let ran = self.run_candidate(evaluation, facts, &[], &headline, cancel)?;
        let mut gpu = ran.gpu.as_ref().map(|sheet| record(sheet, ran.cost));
        let report = match ran.report {
            Ok(report) => report,
            Err((verdict, _)) => return Ok(TimedWindow { timed: Timed::Failed(verdict), gpu }),
        };
        let Some(window) = &report.window else {
            return Ok(TimedWindow { timed: Timed::Void("it was not timed".to_owned()), gpu });
        };
        let mut checks = self.verify(evaluation, &[], &headline, &report, cancel)?;
        let of_window = checks.split_off_window(&[], &report);
        let (cases, ranked) = timed.judged(evaluation, ran.gpu.as_ref(), window, of_window);
        let failed = cases.iter().any(|case| case.status != CaseStatus::Passed);
        let verdict = verdict_of(&cases);
        if let (Some(gpu), Some(window)) = (&mut gpu, report.window) {
            gpu.cost.extend::<Vec<PartCost>>(report.cost);
            note_window(gpu, window);
        }
        let timed = if failed { failed_window(verdict) } else { timed_of(ranked) };
        Ok(TimedWindow { timed, gpu })
    }
}

fn failed_window(verdict: Verdict) -> Timed {
    match verdict.reason {
        // The machine's lack, not the candidate's.
        Some(pipeline::verdict::Reason::Unsupported) => Timed::NotAvailable(verdict.detail),
        _ => Timed::Failed(verdict),
    }
}

fn timed_of(ranked: Ranked) -> Timed {
    match ranked {
        Ranked::Time(measured) => {
            Timed::Measured { cold: measured.cold, warm: measured.warm, suspicion: None }
        }
        Ranked::TooFast(measured, why) => Timed::Measured {
            cold: measured.cold,
            warm: measured.warm,
            suspicion: Some((Suspicion::Physics, why)),
        },
        Ranked::Void(why) => Timed::Void(why),
    }
}
