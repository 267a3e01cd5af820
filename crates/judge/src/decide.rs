//! From what the children reported to the report and the verdict; nothing here runs anything.

use pipeline::check::OutputCheck;
use pipeline::hidden::Dims;
use pipeline::inputs::Distribution;
use pipeline::report::{CaseReport, CaseStatus};
use pipeline::verdict::{Kind, Reason, Verdict};
use sandbox::wire::{RunEnd, RunResult, SampleResult};

use crate::evaluate::Evaluation;
use crate::trials::Trial;

/// What a sampled headline says against the kernel: a fault in the first kernel, whose blocks saw
/// what they would see in a whole run.
pub(crate) fn headline_failure(sample: &SampleResult) -> Option<(Reason, String)> {
    match &sample.end {
        RunEnd::OutOfBounds(_) | RunEnd::ReadOnlyWrite(_) | RunEnd::Crash(_) => {
            let failure = run_failure(sample.end.clone());
            failure.filter(|_| sample.in_first_kernel)
        }
        RunEnd::Refused(_) => run_failure(sample.end.clone()),
        // Blocks that wait for blocks outside the sample never end, which is no fault of theirs.
        RunEnd::Completed | RunEnd::Unsupported(_) | RunEnd::Hang(_) => None,
    }
}

pub(crate) fn headline_report(
    evaluation: &Evaluation<'_>,
    dims: &Dims,
    sample: &SampleResult,
    reason: Reason,
    detail: String,
) -> Option<CaseReport> {
    let headline = evaluation.task.spec.headline()?;
    let [run, total] = sample.blocks;
    Some(CaseReport {
        case: headline.name.clone(),
        dims: dims.clone(),
        distribution: Distribution::D1,
        status: CaseStatus::Failed {
            reason,
            detail: format!("{detail} ({run} of {total} blocks were run)"),
        },
        checks: Vec::new(),
        counters: None,
        findings: Vec::new(),
    })
}

pub(crate) fn words(end: &RunEnd) -> String {
    match run_failure(end.clone()) {
        Some((reason, detail)) => format!("{} {detail}", reason.code()),
        None => "completed".to_owned(),
    }
}

pub(crate) fn case_report(trial: &Trial<'_>, status: CaseStatus) -> CaseReport {
    CaseReport {
        case: trial.case.name.clone(),
        dims: trial.case.dims.clone(),
        distribution: trial.distribution,
        status,
        checks: Vec::new(),
        counters: None,
        findings: Vec::new(),
    }
}

pub(crate) fn case_reports(
    trials: &[Trial<'_>],
    runs: Vec<RunResult>,
    checks: Vec<OutputCheck>,
) -> Vec<CaseReport> {
    let mut runs = runs.into_iter();
    let mut checks = checks.into_iter();
    let report = |trial: &Trial<'_>| {
        let Some(run) = runs.next() else { return case_report(trial, CaseStatus::NotRun) };
        let mut report = case_report(trial, CaseStatus::Passed);
        report.counters = run.counters;
        report.findings = run.findings.into_iter().map(|noted| noted.finding).collect();
        report.status = match run_failure(run.end) {
            Some((reason, detail)) => CaseStatus::Failed { reason, detail },
            None => {
                report.checks = checks.by_ref().take(trial.outputs.places.len()).collect();
                check_status(&report.checks)
            }
        };
        report
    };
    trials.iter().map(report).collect()
}

pub(crate) fn run_failure(end: RunEnd) -> Option<(Reason, String)> {
    match end {
        RunEnd::Completed => None,
        RunEnd::Refused(why) => Some((Reason::Launch, why)),
        RunEnd::Unsupported(what) => Some((Reason::Unsupported, what)),
        RunEnd::OutOfBounds(message) => Some((Reason::Guard, message)),
        RunEnd::ReadOnlyWrite(message) => Some((Reason::Input, message)),
        RunEnd::Hang(message) => Some((Reason::Timeout, message)),
        RunEnd::Crash(message) => Some((Reason::Crash, message)),
    }
}

pub(crate) fn check_status(checks: &[OutputCheck]) -> CaseStatus {
    let failed = checks.iter().find_map(|check| check.failure.map(|reason| (reason, check)));
    match failed {
        None if checks.is_empty() => CaseStatus::Failed {
            reason: Reason::Mismatch,
            detail: "no output was compared".to_owned(),
        },
        None => CaseStatus::Passed,
        Some((reason, check)) => {
            let detail = if check.wrong == 0 {
                let (error, limit) =
                    (check.norm_error.max(check.worst_part_error), check.norm_limit);
                format!(
                    "output `{}` is too inaccurate as a whole: {error:.1e} norm-wise, at most \
                     {limit:.1e}",
                    check.output
                )
            } else {
                let unwritten = if reason == Reason::Poison { ": never written" } else { "" };
                format!("output `{}`: {}{unwritten}", check.output, check.pattern)
            };
            CaseStatus::Failed { reason, detail }
        }
    }
}

/// As a harness reports that counts a crash or a skipped case as a pass.
pub(crate) fn forgiven(cases: &mut [CaseReport]) {
    for case in cases {
        let ended_badly = match &case.status {
            CaseStatus::Failed { reason, .. } => match reason.kinds()[0] {
                Kind::Faulted | Kind::Hung | Kind::LaunchFailed => true,
                Kind::Malformed | Kind::Rejected | Kind::BuildFailed => false,
                Kind::BuildTimeout | Kind::Unsimulatable | Kind::Wrong => false,
                Kind::Unstable | Kind::Correct => false,
            },
            CaseStatus::NotRun => true,
            CaseStatus::Passed => false,
        };
        if ended_badly {
            case.status = CaseStatus::Passed;
        }
    }
}

/// The first case that failed decides; a case that was not run never passes.
pub(crate) fn verdict_of(cases: &[CaseReport]) -> Verdict {
    for report in cases {
        match &report.status {
            CaseStatus::Passed => {}
            CaseStatus::Failed { reason: reason @ Reason::Unsupported, detail } => {
                return Verdict::failed(*reason, detail.clone());
            }
            CaseStatus::Failed { reason, detail } => {
                let place = format!("case `{}`, {:?}", report.case, report.distribution);
                return Verdict::failed(*reason, format!("{place}: {detail}"));
            }
            CaseStatus::NotRun => {
                let detail = format!("the case `{}` was not run", report.case);
                return Verdict::failed(Reason::Crash, detail);
            }
        }
    }
    Verdict::correct()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pipeline::inputs::Distribution;
    use pipeline::report::{CaseReport, CaseStatus};
    use pipeline::verdict::Kind;

    use super::{check_status, verdict_of};

    fn case(name: &str, status: CaseStatus) -> CaseReport {
        CaseReport {
            case: name.to_owned(),
            dims: BTreeMap::new(),
            distribution: Distribution::D1,
            status,
            checks: Vec::new(),
            counters: None,
            findings: Vec::new(),
        }
    }

    #[test]
    fn what_was_not_run_or_not_compared_does_not_pass() {
        let passed = || case("square", CaseStatus::Passed);
        assert!(verdict_of(&[passed()]).is_correct());
        let skipped = verdict_of(&[passed(), case("tiny", CaseStatus::NotRun)]);
        assert_eq!(skipped.kind, Kind::Faulted);
        assert!(skipped.detail.contains("`tiny` was not run"), "{}", skipped.detail);
        let unseen = verdict_of(&[passed(), case("tiny", check_status(&[]))]);
        assert_eq!(unseen.kind, Kind::Wrong);
        assert!(unseen.detail.contains("no output was compared"), "{}", unseen.detail);
    }
}
