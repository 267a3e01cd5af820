//! Calibration of the gates: kernels and libraries of known exactness go through them.
//!
//! What is exact in fp32 must lie inside, and what rounds to TF32 outside of the class fp32 where
//! that shows. A row for each output, distribution and subject.

use std::sync::Arc;

use anyhow::Context;
use judge::{Calibrated, CancelFlag, Evaluation, Judge};
use pipeline::baseline::{BaselineId, MathMode};
use pipeline::check::OutputCheck;
use pipeline::inputs::Distribution;
use pipeline::report::{CaseReport, CaseStatus};
use pipeline::task::Task;
use pipeline::task::baselines::BaselineSource;
use pipeline::task::spec::{Case, Precision};

use super::{Bench, Found, Shipped};
use crate::embedded;

/// Cases that are looked at.
const CASES: [&str; 2] = ["ragged", "headline"];
/// The class whose gates are calibrated.
const CLASS: Precision = Precision::Fp32;

/// Whose outputs are looked at: the task's naive kernel, or a library.
#[derive(Clone, Debug, PartialEq)]
enum Whose {
    Naive,
    Library(BaselineId),
}

impl Whose {
    fn name(&self) -> String {
        match self {
            Whose::Naive => "naive".to_owned(),
            Whose::Library(baseline) => baseline.name(),
        }
    }

    fn is_strict(&self) -> bool {
        match self {
            Whose::Naive => true,
            Whose::Library(baseline) => baseline.math == MathMode::Strict,
        }
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    let judge = Arc::clone(&bench.judge);
    let seed = bench.seed;
    let cancel = CancelFlag::default();
    for (task, name, reply) in embedded::selftest_kernels() {
        if name != "naive" {
            continue;
        }
        let shipped = Shipped::new(&task, &reply)?;
        for case in CASES {
            for whose in all_of(&shipped.task)? {
                let look = || {
                    shipped.with_evaluation(&judge, &seed, |evaluation: &Evaluation<'_>| {
                        looked_at(&judge, evaluation, case, &whose, &cancel)
                    })
                };
                rows(bench, &shipped.task, case, &whose, &look)?;
            }
        }
    }
    bench.item("cuDNN", |_| {
        Ok(Found::not_available("cuDNN: none of the tasks' operators runs on it"))
    })
}

/// The subjects of a task: TF32 only where there are products that it changes.
fn all_of(task: &Task) -> anyhow::Result<Vec<Whose>> {
    let sources = task.spec.baselines.iter().filter_map(|table| table.source().ok());
    let is_product = sources.into_iter().any(|source| matches!(source, BaselineSource::Gemm));
    let mut names = vec!["eager-strict"];
    if is_product {
        names.extend(["eager-fast", "vendor-strict", "vendor-fast"]);
    }
    let mut all = vec![Whose::Naive];
    for name in names {
        all.push(Whose::Library(BaselineId::from_name(name).context("a name")?));
    }
    Ok(all)
}

fn looked_at(
    judge: &Judge,
    evaluation: &Evaluation<'_>,
    case: &str,
    whose: &Whose,
    cancel: &CancelFlag,
) -> anyhow::Result<Calibrated> {
    let cases = &evaluation.task.spec.cases;
    let case: &Case = cases.iter().find(|it| it.name == case).context("no such case")?;
    Ok(match whose {
        Whose::Naive => judge.calibrate_kernel(evaluation, case, cancel)?,
        Whose::Library(baseline) => {
            judge.calibrate_baseline(evaluation, case, baseline, CLASS, cancel)?
        }
    })
}

/// A row for each distribution and output; the window is taken at the first that is still missing.
fn rows(
    bench: &mut Bench<'_>,
    task: &Task,
    case: &str,
    whose: &Whose,
    look: &dyn Fn() -> anyhow::Result<Calibrated>,
) -> anyhow::Result<()> {
    let mut taken: Option<Calibrated> = None;
    for distribution in Distribution::search_pair(&task.spec.family) {
        for output in &task.spec.outputs {
            let of = format!("{} {case} {} {distribution:?}", task.spec.name, whose.name());
            bench.item(&format!("{of} {}", output.name), |_| {
                let calibrated = match &mut taken {
                    Some(calibrated) => calibrated,
                    missing => missing.insert(look()?),
                };
                let reports = match calibrated {
                    Ok(reports) => reports,
                    Err(why) => return Ok(Found::new(false).with("why", why.clone())),
                };
                let report = reports.iter().find(|report| report.distribution == distribution);
                let report = report.context("nothing was compared on this distribution")?;
                let check = report.checks.iter().find(|check| check.output == output.name);
                let check = check.context("this output was not compared")?;
                Ok(row(report, check, whose.is_strict()))
            })?;
        }
    }
    Ok(())
}

/// Strict arithmetic must be inside. TF32 must be outside on normal numbers, and may be inside on
/// small integers, where rounding does not show.
fn row(report: &CaseReport, check: &OutputCheck, strict: bool) -> Found {
    let inside = match &report.status {
        CaseStatus::Passed => check.failure.is_none(),
        CaseStatus::Failed { .. } | CaseStatus::NotRun => false,
    };
    let shows = report.distribution == Distribution::D1;
    let said = match &report.status {
        CaseStatus::Failed { reason, detail } => format!("{}: {detail}", reason.code()),
        CaseStatus::Passed | CaseStatus::NotRun => String::new(),
    };
    let passed = if strict { inside } else { check.failure.is_some() || !shows };
    Found::new(passed)
        .with("inside", if inside { "yes" } else { "no" })
        .with(
            "must be",
            if strict {
                "inside"
            } else if shows {
                "outside"
            } else {
                "either"
            },
        )
        .with("worst ratio", format!("{:.4}", check.worst_ratio))
        .with("norm error", format!("{:.3e}", check.norm_error))
        .with("worst part", format!("{:.3e}", check.worst_part_error))
        .with("limit", format!("{:.3e}", check.norm_limit))
        .with("elements", check.elements.to_string())
        .with("said", said)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pipeline::check::OutputCheck;
    use pipeline::inputs::Distribution;
    use pipeline::report::{CaseReport, CaseStatus};
    use pipeline::verdict::Reason;

    use super::super::Status;
    use super::{CASES, Whose, all_of, row};
    use crate::{embedded, wiring};

    #[test]
    fn every_shipped_task_has_its_cases_and_products_have_tf32_beside_them() {
        let mut products = 0;
        for (name, _, _) in embedded::selftest_kernels() {
            let task = wiring::load_task(&name).unwrap().task;
            for case in CASES {
                assert!(task.spec.cases.iter().any(|it| it.name == case), "{name} {case}");
            }
            assert!(task.module.is_some(), "{name} has no reference.py");
            let all = all_of(&task).unwrap();
            let strict = all.iter().filter(|whose| whose.is_strict()).count();
            assert!(all.contains(&Whose::Naive) && strict >= 2, "{name}");
            products += u32::from(strict < all.len());
        }
        assert_eq!(products, 2, "the two kernels of the product");
    }

    #[test]
    fn strict_ones_must_be_inside_and_tf32_outside_where_it_shows() {
        let check = |failure| OutputCheck {
            output: "y".to_owned(),
            elements: 1 << 20,
            compared: 1 << 20,
            wrong: 0,
            unwritten: 0,
            nonfinite: 0,
            first: Vec::new(),
            worst_ratio: 0.5,
            norm_error: 1e-6,
            norm_limit: 5e-5,
            worst_part_error: 2e-6,
            pattern: String::new(),
            failure,
        };
        let failed = || CaseStatus::Failed { reason: Reason::Precision, detail: "far".to_owned() };
        for (failure, distribution, strict, expected) in [
            (None, Distribution::D1, true, Status::Passed),
            (Some(Reason::Precision), Distribution::D1, true, Status::Failed),
            (Some(Reason::Precision), Distribution::D1, false, Status::Passed),
            (None, Distribution::D1, false, Status::Failed),
            (None, Distribution::D4, false, Status::Passed),
        ] {
            let report = CaseReport {
                case: "ragged".to_owned(),
                dims: BTreeMap::new(),
                distribution,
                status: failure.map_or(CaseStatus::Passed, |_| failed()),
                checks: Vec::new(),
                counters: None,
                findings: Vec::new(),
            };
            let found = row(&report, &check(failure), strict);
            assert_eq!(found.status, expected, "{failure:?} {distribution:?} {strict}");
            assert!(found.columns.iter().any(|(name, _)| name == "worst ratio"));
        }
    }
}
