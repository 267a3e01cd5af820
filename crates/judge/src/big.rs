//! The big case: one run on plain data at a shape on which 32-bit arithmetic goes wrong, where the
//! task's ranges, the plan's domain and memory have one. Start at [`Judge::big_case`].

use std::sync::Arc;

use pipeline::acceptance::Found;
use pipeline::big_shape::{Beyond, draw_big, largest};
use pipeline::build::BuildFacts;
use pipeline::defence::Defence;
use pipeline::hardware::HardwareSheet;
use pipeline::hidden::Dims;
use pipeline::inputs::MasterSeed;
use pipeline::launch::ResolvedPlan;
use pipeline::memory::{CaseBytes, Memory, Rung, Wanted, words};
use pipeline::report::{CaseReport, CaseStatus};
use pipeline::task::spec::{Case, Place};
use pipeline::verdict::{Reason, Verdict};
use sandbox::CancelFlag;
use sandbox::wire::RunEnd;

use crate::cases::{CaseData, Tensors, drawn_inputs, output_sizes};
use crate::compared::{Compared, Declared, verify_items};
use crate::decide::{case_report, check_status, run_failure};
use crate::evaluate::Evaluation;
use crate::headline::Headline;
use crate::in_tiles::OUTPUTS_BULK;
use crate::limits::OVERDUE_RATIO;
use crate::trials::Trial;
use crate::{Judge, JudgeError};

/// What the big case came to.
pub(crate) enum Big {
    /// The case, with the bytes of its largest tensor.
    Passed(Box<CaseReport>, u64),
    Failed(Vec<CaseReport>, Verdict),
    /// It was not done in time, which so much work may need.
    Hung(String),
    /// There is none here, and why.
    Left(String),
}

impl Judge {
    /// Draws and runs the big case, preferably beyond the first of these limits.
    pub(crate) fn big_case(
        &self,
        evaluation: &Evaluation<'_>,
        beyond: &[Beyond],
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Big, JudgeError> {
        let Some(facts) = &evaluation.build.facts else {
            return Ok(Big::Left("there is no build".to_owned()));
        };
        let dims = match self.big_dims(evaluation, beyond, secret, cancel)? {
            Ok(dims) => dims,
            Err(why) => return Ok(Big::Left(why)),
        };
        let case = Case { name: "big".to_owned(), dims, weight: 0.0, on: vec![self.place()] };
        let plan = match self.plan_at(evaluation, facts, &case) {
            Ok(plan) => plan,
            Err(verdict) => return Ok(Big::Failed(Vec::new(), verdict)),
        };
        match self.big_trial(evaluation, facts, (&case, plan), secret, cancel) {
            // A machine that has not what it seemed to have says nothing against the candidate, nor
            // does a reference that is not made for so much.
            Err(JudgeError::NotAvailable(why) | JudgeError::Reference { why, .. }) => {
                Ok(Big::Left(why))
            }
            other => other,
        }
    }

    /// The big case of an acceptance, as one of its checks.
    pub(crate) fn big_shape(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Found, JudgeError> {
        let secret = MasterSeed(evaluation.seed.0).derive("accept/big");
        let beyond = [Beyond::Elements, Beyond::Bytes];
        let max = |bytes: u64| format!("max size verified: {bytes} bytes");
        Ok(match self.big_case(evaluation, &beyond, &secret, cancel)? {
            Big::Passed(_, bytes) => Found::Notes { detail: max(bytes) },
            Big::Failed(_, verdict) => Found::Fails {
                reason: verdict.reason.unwrap_or(Reason::Shape),
                detail: verdict.detail,
            },
            Big::Hung(detail) => Found::Audits { detail },
            Big::Left(why) => {
                let bytes = self.largest_public_tensor(evaluation, cancel)?;
                Found::Notes { detail: format!("{}; {why}", max(bytes)) }
            }
        })
    }

    /// The largest tensor of the public cases that are run or timed here, in bytes.
    fn largest_public_tensor(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<u64, JudgeError> {
        let task = evaluation.task;
        let inside = |case: &&Case| self.runs_here(case) && self.is_inside(evaluation, case);
        let run = task.spec.cases.iter().filter(inside);
        let bytes = |dims: &Dims| largest(&task.spec, dims, Beyond::Bytes).unwrap_or(0);
        let most = run.map(|case| bytes(&case.dims)).max().unwrap_or(0);
        let timed = task.spec.headline().filter(|_| self.config.gpus.is_some());
        let timed = timed.map(|case| self.fitted_case(task, case, cancel)).transpose()?;
        let timed = timed.and_then(Result::ok).map_or(0, |it| bytes(&it.case.dims));
        Ok(most.max(timed))
    }

    pub(crate) fn place(&self) -> Place {
        match self.config.gpus {
            Some(_) => Place::Gpu,
            None => Place::Sim,
        }
    }

    /// A shape for the big case; the inner error says why there is none.
    fn big_dims(
        &self,
        evaluation: &Evaluation<'_>,
        beyond: &[Beyond],
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Result<Dims, String>, JudgeError> {
        let limit = self.memory.caps.big_above;
        if !self.config.policy.has(Defence::F) {
            return Ok(Err("hidden shapes are off".to_owned()));
        }
        let spec = &evaluation.task.spec;
        let draw = |beyond: Beyond, admits: &dyn Fn(&Dims) -> bool| {
            draw_big(spec, self.place(), beyond, limit, secret, admits)
        };
        if beyond.iter().all(|beyond| draw(*beyond, &|_| true).is_none()) {
            return Ok(Err(format!("the task's ranges have no tensor beyond {limit} bytes")));
        }
        let free = self.free_memory(cancel)?;
        let admits =
            |dims: &Dims| self.admits(evaluation, dims) && self.big_fits(evaluation, dims, free);
        let found = beyond.iter().find_map(|beyond| draw(*beyond, &admits));
        Ok(found.ok_or_else(|| {
            let Memory { device, host } = free;
            format!(
                "no shape with a tensor beyond {limit} bytes is in the plan's domain and fits into \
                 {device} bytes of device memory and {host} of the host's"
            )
        }))
    }

    fn big_fits(&self, evaluation: &Evaluation<'_>, dims: &Dims, free: Memory) -> bool {
        let (task, grain) = (evaluation.task, self.grain());
        let Ok(bytes) = CaseBytes::of(&task.spec, dims, grain) else { return false };
        let Ok(reference) = self.reference_plan(task, dims) else { return false };
        let bytes = bytes.with_reference(&reference, grain);
        // What else is wrong with the plan there is the candidate's, and shows when it is run.
        let plan = self.resolve(evaluation, dims);
        let bytes = plan.map_or(bytes, |plan| bytes.with_plan(&plan, grain));
        let wanted = Wanted {
            contents: 1,
            kept_outputs: 1,
            kept_bytes_max: u64::MAX,
            window: None,
            ..self.wanted(0)
        };
        wanted.need(&bytes, Rung::ReferenceInTiles).fits(free)
    }

    fn big_trial(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        (case, plan): (&Case, ResolvedPlan),
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Big, JudgeError> {
        let task = evaluation.task;
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let (distribution, master) = (self.plain_distribution(), secret.derive("big"));
        let inputs = drawn_inputs(task, &case.dims, distribution, &master)?;
        let expected = Tensors::room("nothing", std::iter::empty())?;
        let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
        let outputs = Tensors::room("outputs", sizes.into_iter())?;
        let data = Arc::new(CaseData { inputs, expected });
        let trials = [Trial::on(case, distribution, plan, data, outputs)];
        let ran = self.run_candidate(evaluation, facts, &trials, &Headline::Left, cancel)?;
        let [trial] = &trials;
        // However it ended there, the card may have done it.
        if let Some(note) = ran.note {
            return Ok(Big::Left(note));
        }
        let end = match ran.report {
            Ok(report) => report.runs.into_iter().next().map(|run| run.end),
            Err((verdict, true)) => return Ok(failed(evaluation, trial, &verdict)),
            // It says more of the machine than of the candidate.
            Err((verdict, false)) => return Ok(Big::Left(verdict.detail)),
        };
        let status = match end {
            Some(RunEnd::Completed) => return self.big_compared(evaluation, trial, cancel),
            // A device may lack something.
            Some(RunEnd::Unsupported(why)) => return Ok(Big::Left(why)),
            Some(RunEnd::Hang(why)) if !self.is_overdue(evaluation, ran.gpu.as_ref(), case) => {
                return Ok(Big::Hung(format!("at {}: {why}", words(&case.dims))));
            }
            Some(end) => run_failure(end),
            None => None,
        };
        let (reason, detail) =
            status.unwrap_or_else(|| (Reason::Crash, "it was not run".to_owned()));
        Ok(failed(evaluation, trial, &Verdict::failed(reason, detail)))
    }

    /// True when the time that a launch has here is far more than all of a case can need.
    fn is_overdue(
        &self,
        evaluation: &Evaluation<'_>,
        sheet: Option<&HardwareSheet>,
        case: &Case,
    ) -> bool {
        let (Some(gpus), Some(sheet), Some(facts)) =
            (&self.config.gpus, sheet, &evaluation.build.facts)
        else {
            return false;
        };
        let class = evaluation.candidate.plan.precision;
        let floor = sheet.floor(&evaluation.task.spec, case, class, &facts.mma_types);
        floor.is_some_and(|floor| exceeds(gpus.launch_deadline_ms, floor.ns))
    }

    fn big_compared(
        &self,
        evaluation: &Evaluation<'_>,
        trial: &Trial<'_>,
        cancel: &CancelFlag,
    ) -> Result<Big, JudgeError> {
        let compared = Compared {
            case: trial.case,
            distribution: trial.distribution,
            outputs: (&trial.outputs, OUTPUTS_BULK),
            expected: (&trial.data.expected, OUTPUTS_BULK),
            poison: trial.poison,
            declared: Declared::of(&evaluation.candidate.plan),
        };
        let items = verify_items(evaluation, &compared)?;
        let tensors = (&trial.data.inputs, &trial.outputs.memfd);
        let dims = &trial.case.dims;
        let checks = self.verified_in_tiles(evaluation.task, dims, tensors, items, cancel)?.checks;
        Ok(match check_status(&checks) {
            CaseStatus::Failed { reason, detail } => {
                failed(evaluation, trial, &Verdict::failed(reason, detail))
            }
            status @ (CaseStatus::Passed | CaseStatus::NotRun) => {
                let bytes = largest(&evaluation.task.spec, dims, Beyond::Bytes).unwrap_or(0);
                let report = CaseReport { checks, ..case_report(trial, status) };
                Big::Passed(Box::new(report), bytes)
            }
        })
    }
}

/// True for a deadline of a launch that a kernel at its floor meets this often.
fn exceeds(deadline_ms: u64, floor_ns: f64) -> bool {
    floor_ns > 0.0 && deadline_ms as f64 * 1e6 >= OVERDUE_RATIO * floor_ns
}

/// However it fails there, it is the shape: the same data pass at smaller ones. Only an error of
/// the norm stays what it is.
fn failed(evaluation: &Evaluation<'_>, trial: &Trial<'_>, verdict: &Verdict) -> Big {
    let dims = &trial.case.dims;
    let bytes = largest(&evaluation.task.spec, dims, Beyond::Bytes).unwrap_or(0);
    let code = verdict.reason.map_or("", Reason::code);
    let detail =
        format!("at {}, where a tensor has {bytes} bytes: {code}: {}", words(dims), verdict.detail);
    let reason = match verdict.reason {
        Some(Reason::Precision) => Reason::Precision,
        Some(_) | None => Reason::Shape,
    };
    let status = CaseStatus::Failed { reason, detail: detail.clone() };
    Big::Failed(vec![case_report(trial, status)], Verdict::failed(reason, detail))
}

#[cfg(test)]
mod tests {
    use super::exceeds;

    #[test]
    fn a_hang_is_the_kernels_where_its_floor_is_far_below_the_deadline() {
        for (deadline_ms, floor_ns, expected) in [
            (2_000, 8e6, true),
            (2_000, 2e7, true),
            (2_000, 2.1e7, false),
            (60_000, 2.1e7, true),
            (2_000, 0.0, false),
        ] {
            assert_eq!(exceeds(deadline_ms, floor_ns), expected, "{deadline_ms} {floor_ns}");
        }
    }
}
