//! Baselines in an acceptance: which there are here, and one window of each, gated like a
//! candidate's. One that fails the gate is shown with its error and still counts.

use pipeline::acceptance::{BaselineError, Timed, WindowRecord};
use pipeline::baseline::gemm::GemmCall;
use pipeline::baseline::{BaselineId, BaselineKind, MathMode, torch_flags, void_reason};
use pipeline::candidate::Candidate;
use pipeline::hardware::HardwareSheet;
use pipeline::report::{CaseReport, CaseStatus};
use pipeline::task::Task;
use pipeline::task::baselines::BaselineSource;
use pipeline::task::spec::{Case, Precision};
use pipeline::timing::summary;
use sandbox::CancelFlag;
use sandbox::wire::{RunEnd, WindowResult, WindowSubject};

use crate::baseline::timed::Ground;
use crate::children::ChildEnd;
use crate::compared::Declared;
use crate::decide::words;
use crate::evaluate::{Evaluation, note_window, record};
use crate::gpu::sealed;
use crate::headline::{Headline, TimedHeadline, WindowKind, disturbance};
use crate::limits::BASELINE_DEADLINE;
use crate::windows::TimedWindow;
use crate::{Judge, JudgeError};

/// What performing a baseline's window gave.
pub(crate) struct Performed {
    /// Why there is none, where there is none.
    pub(crate) window: Result<WindowResult, String>,
    sheet: Option<HardwareSheet>,
}

impl Judge {
    /// The baselines that this machine can time for a task. A plain kernel enters only where
    /// nothing better does.
    pub(crate) fn baselines_here(
        &self,
        task: &Task,
        cancel: &CancelFlag,
    ) -> Result<Vec<BaselineId>, JudgeError> {
        let mut found = Vec::new();
        if task.module.is_some() && self.has_python(cancel)? {
            found.extend(BaselineId::all_of_torch());
        }
        for table in &task.spec.baselines {
            let kind = BaselineKind::Custom(table.name.clone());
            let math = MathMode::Strict;
            match table.source() {
                Ok(BaselineSource::Gemm) => {
                    let modes = [MathMode::Strict, MathMode::Fast];
                    let kind = BaselineKind::Vendor;
                    found.extend(modes.map(|math| BaselineId { kind: kind.clone(), math }));
                }
                Ok(BaselineSource::Python { .. }) if self.has_python(cancel)? => {
                    found.push(BaselineId { kind, math });
                }
                Ok(BaselineSource::Kernel(_)) if table.name != NAIVE => {
                    found.push(BaselineId { kind, math });
                }
                Ok(BaselineSource::Kernel(_) | BaselineSource::Python { .. }) | Err(_) => {}
            }
        }
        if found.is_empty() && kernel_of(task, NAIVE).is_some() {
            found.push(BaselineId { kind: BaselineKind::Naive, math: MathMode::Strict });
        }
        Ok(found)
    }

    fn has_python(&self, cancel: &CancelFlag) -> Result<bool, JudgeError> {
        match self.python_versions(cancel) {
            Ok(_) => Ok(true),
            Err(JudgeError::NotAvailable(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Times a baseline at a case; what came of it goes into the record.
    pub(crate) fn record_baseline(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        baseline: &BaselineId,
        kind: WindowKind,
        window: &mut WindowRecord,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        if let Some(kernel) = own_kernel(evaluation.task, &baseline.kind) {
            return self.record_kernel(evaluation, case, &kernel, kind, window, cancel);
        }
        if self.config.gpus.is_none() {
            window.timed = Timed::NotAvailable("no GPU".to_owned());
            return Ok(());
        }
        let headline = self.timed_case(evaluation, case, kind, cancel)?;
        let Headline::Timed(timed) = &headline else {
            window.timed = Timed::NotAvailable("its tensors are too large here".to_owned());
            return Ok(());
        };
        let ground = timed.ground(evaluation.task);
        let performed = match baseline.kind {
            BaselineKind::Vendor => self.perform_vendor(&ground, baseline, cancel),
            BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => {
                self.perform_python(&ground, baseline, window, cancel)
            }
            BaselineKind::Custom(_) | BaselineKind::Naive => {
                self.perform_python(&ground, baseline, window, cancel)
            }
        };
        match performed {
            Ok(performed) => {
                self.conclude_baseline(evaluation, timed, baseline, performed, window, cancel)
            }
            Err(JudgeError::NotAvailable(why)) => {
                window.timed = Timed::NotAvailable(why);
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// A kernel that the task names, along the candidate's own path.
    fn record_kernel(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        kernel: &Candidate,
        kind: WindowKind,
        window: &mut WindowRecord,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        let tunables = kernel.plan.default_tunables();
        let build = self.build(evaluation.task, kernel, &tunables, cancel)?;
        if let Some(verdict) = &build.verdict {
            window.timed = Timed::NotAvailable(format!("{verdict}: {}", verdict.detail));
            return Ok(());
        }
        let own =
            Evaluation { candidate: kernel, tunables: &tunables, build: &build, ..*evaluation };
        let found = self.time_window(&own, case, kind, cancel)?;
        window.error = error_of(&found);
        (window.gpu, window.energy_mj) = (found.gpu, found.energy_mj);
        window.timed = match found.timed {
            Timed::Failed(_) => found.by_clock,
            other => other,
        };
        Ok(())
    }

    pub(crate) fn perform_vendor(
        &self,
        ground: &Ground<'_>,
        baseline: &BaselineId,
        cancel: &CancelFlag,
    ) -> Result<Performed, JudgeError> {
        let gemm = GemmCall::of_task(&ground.task.spec, &ground.case.dims, baseline.math);
        let gemm = match gemm {
            Ok(gemm) => gemm,
            Err(why) => return Err(JudgeError::NotAvailable(why)),
        };
        let (window, sheet) = self.native_window(ground, WindowSubject::Gemm(gemm), cancel)?;
        Ok(Performed { window, sheet })
    }

    pub(crate) fn perform_python(
        &self,
        ground: &Ground<'_>,
        baseline: &BaselineId,
        window: &mut WindowRecord,
        cancel: &CancelFlag,
    ) -> Result<Performed, JudgeError> {
        let text = ground.task.module.as_deref().unwrap_or_default();
        let module = sealed("module", text.as_bytes())?;
        let request = ground.request(baseline, ground.task.module.is_some());
        let request = request.map_err(JudgeError::NotAvailable)?;
        let mut bulk = ground.bulk();
        bulk.push(&module);
        let lease = self.lease(cancel)?;
        let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
        let end = self.baseline_window(request, &bulk, &lease, BASELINE_DEADLINE, cancel)?;
        if !matches!(end, ChildEnd::Reported(_)) {
            self.check_health(&lease, cancel)?;
        }
        let sheet = Some(lease.sheet.clone());
        let window = match end {
            ChildEnd::Reported(report) => {
                let wanted = torch_flags(baseline.math);
                let void = void_reason(&wanted, &report.flags_before, &report.flags_after);
                window.flags_before = report.flags_before.into_iter().collect();
                window.flags_after = report.flags_after.into_iter().collect();
                window.versions = report.versions.into_iter().collect();
                void.map_or(Ok(report.window), Err)
            }
            // A framework that does not come to its end here would not the next time either.
            ChildEnd::TimedOut(_) => {
                let why = format!("it was not done after {BASELINE_DEADLINE:?}");
                return Err(JudgeError::NotAvailable(why));
            }
            ChildEnd::Crashed(why) | ChildEnd::Broken(why) | ChildEnd::Killed(why) => {
                return Err(JudgeError::NotAvailable(why));
            }
        };
        Ok(Performed { window, sheet })
    }

    /// Compares what a baseline computed, and takes its time whatever that says.
    fn conclude_baseline(
        &self,
        evaluation: &Evaluation<'_>,
        timed: &TimedHeadline<'_>,
        baseline: &BaselineId,
        performed: Performed,
        into: &mut WindowRecord,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        let window = match performed.window {
            Ok(window) => window,
            Err(why) => {
                into.timed = Timed::Void(why);
                return Ok(());
            }
        };
        into.timed = timed_baseline(timed, &window);
        into.energy_mj = window.energy_mj;
        if window.end == RunEnd::Completed {
            let class = class_of(evaluation.task, baseline);
            into.error = self.baseline_error(evaluation, timed, &window, class, cancel)?;
        }
        into.gpu = performed.sheet.as_ref().map(|sheet| record(sheet, Vec::new()));
        if let Some(gpu) = &mut into.gpu {
            note_window(gpu, window, timed.fitted());
        }
        Ok(())
    }

    fn baseline_error(
        &self,
        evaluation: &Evaluation<'_>,
        timed: &TimedHeadline<'_>,
        window: &WindowResult,
        class: Precision,
        cancel: &CancelFlag,
    ) -> Result<Option<BaselineError>, JudgeError> {
        timed.seal()?;
        let declared = Declared::direct(class);
        let checks = self.window_checks(evaluation, timed, window, declared, cancel)?;
        let worst = checks.checks.iter().map(|check| check.norm_error).reduce(f64::max);
        let slots = timed.slots_of(evaluation, window, checks);
        let reports = [timed.content_report(0, &slots), timed.content_report(1, &slots)];
        let failed = failure_of(&reports);
        Ok(worst.map(|norm_error| BaselineError {
            norm_error,
            passes: failed.is_none(),
            detail: failed.unwrap_or_default(),
        }))
    }
}

/// The name under which a task has its plain kernel.
const NAIVE: &str = "naive";

/// The kernel of the task that is this baseline; `None` for what others perform.
pub(crate) fn own_kernel(task: &Task, kind: &BaselineKind) -> Option<Candidate> {
    match kind {
        BaselineKind::Naive => kernel_of(task, NAIVE),
        BaselineKind::Custom(name) => kernel_of(task, name),
        BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => None,
        BaselineKind::Vendor => None,
    }
}

fn kernel_of(task: &Task, name: &str) -> Option<Candidate> {
    let kernel = task.kernels.iter().find(|kernel| kernel.name == name)?;
    Some(Candidate::new(&kernel.source, "", kernel.plan.clone()))
}

/// How exact a task's own kernel was in a window; `None` where nothing was compared.
fn error_of(window: &TimedWindow) -> Option<BaselineError> {
    let checks = window.cases.iter().flat_map(|case| &case.checks);
    let norm_error = checks.map(|check| check.norm_error).reduce(f64::max)?;
    let failed = failure_of(&window.cases);
    Some(BaselineError { norm_error, passes: failed.is_none(), detail: failed.unwrap_or_default() })
}

fn failure_of(reports: &[CaseReport]) -> Option<String> {
    reports.iter().find_map(|report| match &report.status {
        CaseStatus::Failed { reason, detail } => Some(format!("{}: {detail}", reason.code())),
        CaseStatus::Passed | CaseStatus::NotRun => None,
    })
}

/// The class whose limits a baseline is held against.
fn class_of(task: &Task, baseline: &BaselineId) -> Precision {
    let classes = &task.spec.classes;
    let class = match baseline.math {
        MathMode::Strict => classes.first(),
        MathMode::Fast => classes.last(),
    };
    class.copied().unwrap_or(Precision::Fp32)
}

/// What a baseline's window says, whatever it computed.
pub(crate) fn timed_baseline(timed: &TimedHeadline<'_>, window: &WindowResult) -> Timed {
    if window.end != RunEnd::Completed {
        return Timed::NotAvailable(words(&window.end));
    }
    let states = [window.before.as_ref(), window.after.as_ref()];
    if let Some(why) = disturbance(states) {
        return Timed::Void(why);
    }
    let pair_ns = window.event_pair_ns as u64;
    match summary(&window.cold, timed.samples_min(), pair_ns) {
        Ok(cold) => {
            let warm = summary(&window.warm, 1, pair_ns).ok();
            Timed::Measured { cold, warm, suspicion: None }
        }
        Err(why) => Timed::Void(why.to_string()),
    }
}
