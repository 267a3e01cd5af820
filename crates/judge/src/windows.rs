//! One window of timing in a process of its own, as promote and accept take them.

use pipeline::acceptance::Timed;
use pipeline::comparison::{Compared, Confidence, Suspicion, compare};
use pipeline::limits::ROUNDS_MAX;
use pipeline::report::{CaseReport, CaseStatus, GpuRecord, PartCost};
use pipeline::task::spec::Case;
use pipeline::verdict::{Reason, Verdict};
use sandbox::CancelFlag;

use crate::baselines::timed_baseline;
use crate::decide::verdict_of;
use crate::evaluate::{Evaluation, note_window, record};
use crate::headline::{Headline, Ranked, WindowKind};
use crate::limits::PAIR_GAP;
use crate::on_card::wait_unless_cancelled;
use crate::{Judge, JudgeError};

/// What a window of the candidate came to.
pub(crate) struct TimedWindow {
    pub(crate) timed: Timed,
    /// What the clock says whatever was computed: a baseline counts also where it is not exact.
    pub(crate) by_clock: Timed,
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
        let by_clock = timed.clone();
        Self { timed, by_clock, gpu, energy_mj: None, cases: Vec::new() }
    }

    pub(crate) fn median_ns(&self) -> Option<f64> {
        match &self.timed {
            Timed::Measured { cold, .. } => Some(cold.median_ns),
            Timed::Void(_) | Timed::Failed(_) | Timed::NotAvailable(_) => None,
        }
    }
}

/// What a candidate beside another kernel came to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Beside {
    /// So many times as fast as the other.
    Ratio(f64),
    /// Its outputs were wrong in a window, or it did not end there.
    Failed(Verdict),
    /// It takes less time than the work can take.
    TooFast(String),
    /// A window gave no time for a reason that is not the candidate's, or there is no GPU.
    Unknown,
}

impl Judge {
    /// How the candidate does beside the incumbent on the headline shape, over four windows in the
    /// order candidate, incumbent, incumbent, candidate.
    pub(crate) fn time_beside(
        &self,
        evaluation: &Evaluation<'_>,
        incumbent: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Beside, JudgeError> {
        let Some(case) = evaluation.task.spec.headline() else { return Ok(Beside::Unknown) };
        if self.config.gpus.is_none() {
            return Ok(Beside::Unknown);
        }
        // The same contents for both.
        let incumbent = Evaluation { seed: evaluation.seed, index: evaluation.index, ..*incumbent };
        let mut logs = [0.0; 2];
        for (side, subject) in [(0, evaluation), (1, &incumbent), (1, &incumbent), (0, evaluation)]
        {
            let window = self.time_window(subject, case, WindowKind::Search, cancel)?;
            match time_or_end(window.timed, side == 0) {
                Ok(median_ns) => logs[side] += 0.5 * median_ns.ln(),
                Err(end) => return Ok(end),
            }
        }
        Ok(Beside::Ratio((logs[1] - logs[0]).exp()))
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
            Err((verdict, repeatable)) => {
                let timed = failed_window(verdict, repeatable && ran.repeatable);
                return Ok(TimedWindow::untold(timed, gpu));
            }
        };
        let Some(window) = &report.window else {
            let timed = Timed::Void("it was not timed".to_owned());
            return Ok(TimedWindow::untold(timed, gpu));
        };
        let mut checks = self.verify(evaluation, &[], &headline, &report, cancel)?;
        let of_window = checks.split_off_window(&[], &report);
        let by_clock = timed_baseline(timed, window);
        let (cases, ranked) = timed.judged(evaluation, ran.gpu.as_ref(), window, of_window);
        let failed = cases.iter().any(|case| case.status != CaseStatus::Passed);
        let (verdict, energy_mj) = (verdict_of(&cases), window.energy_mj);
        if let (Some(gpu), Some(window)) = (&mut gpu, report.window) {
            gpu.cost.extend::<Vec<PartCost>>(report.cost);
            note_window(gpu, window, timed.fitted());
        }
        let timed = if failed { failed_window(verdict, ran.repeatable) } else { timed_of(ranked) };
        Ok(TimedWindow { timed, by_clock, gpu, energy_mj, cases })
    }
}

/// A window of a candidate that failed; one that may end otherwise tomorrow is no verdict.
fn failed_window(verdict: Verdict, repeatable: bool) -> Timed {
    match verdict.reason {
        _ if !repeatable => Timed::Void(format!("{verdict}: {}", verdict.detail)),
        // The machine's lack, not the candidate's.
        Some(Reason::Unsupported) => Timed::NotAvailable(verdict.detail),
        Some(_) | None => Timed::Failed(verdict),
    }
}

/// The median of a window beside another kernel, or what the window ends the comparison with.
fn time_or_end(timed: Timed, is_candidate: bool) -> Result<f64, Beside> {
    match timed {
        Timed::Measured { suspicion: Some((_, why)), .. } if is_candidate => {
            Err(Beside::TooFast(why))
        }
        Timed::Measured { cold, .. } => Ok(cold.median_ns),
        Timed::Failed(verdict) if is_candidate => Err(Beside::Failed(verdict)),
        Timed::Failed(_) | Timed::Void(_) | Timed::NotAvailable(_) => Err(Beside::Unknown),
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

#[cfg(test)]
mod tests {
    use pipeline::acceptance::Timed;
    use pipeline::comparison::Suspicion;
    use pipeline::timing::Spread;
    use pipeline::verdict::{Reason, Verdict};

    use super::{Beside, failed_window, time_or_end};

    fn measured(suspicion: Option<(Suspicion, String)>) -> Timed {
        let cold = Spread { median_ns: 5e4, p10_ns: 5e4, p90_ns: 5e4, samples: 30, dropped: 0 };
        Timed::Measured { cold, warm: None, suspicion }
    }

    #[test]
    fn only_what_the_kernel_does_again_is_held_against_it() {
        let wrong = || Verdict::failed(Reason::Mismatch, "call 10");
        let lacking = || Verdict::failed(Reason::Unsupported, "no room");
        assert_eq!(failed_window(wrong(), true), Timed::Failed(wrong()));
        assert_eq!(failed_window(lacking(), true), Timed::NotAvailable("no room".to_owned()));
        for verdict in [wrong(), lacking(), Verdict::failed(Reason::Timeout, "60 s")] {
            assert!(matches!(failed_window(verdict, false), Timed::Void(_)));
        }
    }

    #[test]
    fn a_window_beside_the_incumbent_says_what_it_saw() {
        let wrong = Verdict::failed(Reason::Mismatch, "off");
        let fast = || measured(Some((Suspicion::Physics, "1 ns".to_owned())));
        for (timed, of_candidate, of_incumbent) in [
            (measured(None), Ok(5e4), Ok(5e4)),
            (fast(), Err(Beside::TooFast("1 ns".to_owned())), Ok(5e4)),
            (Timed::Failed(wrong.clone()), Err(Beside::Failed(wrong)), Err(Beside::Unknown)),
            (Timed::Void("a fan".to_owned()), Err(Beside::Unknown), Err(Beside::Unknown)),
            (Timed::NotAvailable(String::new()), Err(Beside::Unknown), Err(Beside::Unknown)),
        ] {
            assert_eq!(time_or_end(timed.clone(), true), of_candidate, "{timed:?}");
            assert_eq!(time_or_end(timed.clone(), false), of_incumbent, "{timed:?}");
        }
    }
}
