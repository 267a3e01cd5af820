//! One window of timing in a process of its own, as promote and accept take them.

use pipeline::acceptance::Timed;
use pipeline::comparison::{Compared, Confidence, Suspicion, compare};
use pipeline::limits::ROUNDS_MAX;
use pipeline::report::{CaseReport, CaseStatus, GpuRecord, PartCost};
use pipeline::task::spec::Case;
use pipeline::verdict::Verdict;
use sandbox::CancelFlag;

use crate::decide::verdict_of;
use crate::evaluate::{Evaluation, note_window, record};
use crate::headline::{Headline, Ranked, WindowKind};
use crate::limits::PAIR_GAP;
use crate::on_card::wait_unless_cancelled;
use crate::{Judge, JudgeError};

/// What a window of the candidate came to.
pub(crate) struct TimedWindow {
    pub(crate) timed: Timed,
    pub(crate) gpu: Option<GpuRecord>,
    /// Of one call in millijoules, where it was counted.
    pub(crate) energy_mj: Option<f64>,
    /// What the comparison found on each content; empty where nothing ran.
    pub(crate) cases: Vec<CaseReport>,
}

/// What two kernels' rounds gave.
#[derive(Clone, Debug, PartialEq)]
pub struct Paired {
    /// Log of the other's time over the candidate's, by round.
    pub logs: Vec<f64>,
    /// Why the others are void.
    pub void: Vec<String>,
}

impl Paired {
    /// What the rounds say.
    #[must_use]
    pub fn compared(&self) -> Compared {
        compare(&self.logs, self.void.len() as u32, ROUNDS_MAX, Confidence::P95)
    }
}

impl TimedWindow {
    fn void(why: &str) -> Self {
        Self::untold(Timed::Void(why.to_owned()), None)
    }

    fn untold(timed: Timed, gpu: Option<GpuRecord>) -> Self {
        Self { timed, gpu, energy_mj: None, cases: Vec::new() }
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

    /// Compares two kernels on the headline shape in rounds of four windows, as an acceptance
    /// compares with a baseline, with short warm-ups: for tests of the comparison itself.
    ///
    /// # Errors
    /// No GPU, or breakage.
    pub fn compare_kernels(
        &self,
        evaluation: &Evaluation<'_>,
        other: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Paired, JudgeError> {
        let case = evaluation.task.spec.headline();
        let case = case.ok_or_else(|| JudgeError::NotAvailable("no headline".to_owned()))?;
        let mut paired = Paired { logs: Vec::new(), void: Vec::new() };
        loop {
            let void = paired.void.len() as u32;
            let compared = compare(&paired.logs, void, ROUNDS_MAX, Confidence::P95);
            if compared != Compared::MoreRounds {
                return Ok(paired);
            }
            match self.round(evaluation, other, case, cancel)? {
                Ok(log) => paired.logs.push(log),
                Err(why) => paired.void.push(why),
            }
        }
    }

    /// The log ratio of one round, or why it is void.
    fn round(
        &self,
        evaluation: &Evaluation<'_>,
        other: &Evaluation<'_>,
        case: &Case,
        cancel: &CancelFlag,
    ) -> Result<Result<f64, String>, JudgeError> {
        let mut logs = [0.0; 2];
        for (side, subject) in [(0, evaluation), (1, other), (1, other), (0, evaluation)] {
            wait_unless_cancelled(PAIR_GAP, cancel)?;
            let window = self.time_window(subject, case, WindowKind::Paired, cancel)?;
            match &window.timed {
                Timed::Measured { cold, .. } => logs[side] += 0.5 * cold.median_ns.ln(),
                Timed::Void(why) | Timed::NotAvailable(why) => return Ok(Err(why.clone())),
                Timed::Failed(verdict) => {
                    let why = format!("{verdict}: {}", verdict.detail);
                    return Err(JudgeError::Child { child: "candidate", why });
                }
            }
        }
        Ok(Ok(logs[1] - logs[0]))
    }

    /// Times a candidate at one case, every output verified.
    pub(crate) fn time_window(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        kind: WindowKind,
        cancel: &CancelFlag,
    ) -> Result<TimedWindow, JudgeError> {
        let (Some(_), Some(facts)) = (&self.config.gpus, &evaluation.build.facts) else {
            return Err(JudgeError::NotAvailable("no GPU, so no times".to_owned()));
        };
        let headline = self.timed_case(evaluation, case, kind, cancel)?;
        let timed = match &headline {
            Headline::Timed(timed) => timed,
            Headline::Untimed(why) => return Ok(TimedWindow::void(why)),
            Headline::Counted(_) | Headline::Left => return Ok(TimedWindow::void("not timed")),
        };
        let ran = self.run_candidate(evaluation, facts, &[], &headline, cancel)?;
        let mut gpu = ran.gpu.as_ref().map(|sheet| record(sheet, ran.cost));
        let report = match ran.report {
            Ok(report) => report,
            Err((verdict, _)) => {
                return Ok(TimedWindow::untold(Timed::Failed(verdict), gpu));
            }
        };
        let Some(window) = &report.window else {
            let timed = Timed::Void("it was not timed".to_owned());
            return Ok(TimedWindow::untold(timed, gpu));
        };
        let mut checks = self.verify(evaluation, &[], &headline, &report, cancel)?;
        let of_window = checks.split_off_window(&[], &report);
        let (cases, ranked) = timed.judged(evaluation, ran.gpu.as_ref(), window, of_window);
        let failed = cases.iter().any(|case| case.status != CaseStatus::Passed);
        let (verdict, energy_mj) = (verdict_of(&cases), window.energy_mj);
        if let (Some(gpu), Some(window)) = (&mut gpu, report.window) {
            gpu.cost.extend::<Vec<PartCost>>(report.cost);
            note_window(gpu, window, timed.fitted());
        }
        let timed = if failed { failed_window(verdict) } else { timed_of(ranked) };
        Ok(TimedWindow { timed, gpu, energy_mj, cases })
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
