//! The headline on the simulator: counts from a sample of its blocks, and an estimate from them.

use pipeline::defence::Defence;
use pipeline::expression::Expression;
use pipeline::hidden::Dims;
use pipeline::memory::Fitted;
use pipeline::plan::form::Algorithm;
use pipeline::report::{Counters, Estimate, Score};
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::spec::Precision;
use sandbox::CancelFlag;
use sandbox::wire::{RunEnd, SampleCase, SampleInput, SampleResult};

use super::Concluded;
use crate::cases::{input_sizes, output_sizes, role_parameter};
use crate::decide::{headline_failure, headline_report, words};
use crate::evaluate::Evaluation;
use crate::limits::{BYTES_SHARE_MIN, FLOPS_SHARE_MIN, PRODUCT_SHARE_MIN};
use crate::{Judge, JudgeError};

/// The headline case, ready to be counted.
pub(crate) struct CountedHeadline {
    pub(crate) sample: SampleCase,
    /// The shape that is counted: what fits into the simulator's memory.
    pub(crate) fitted: Fitted,
}

impl Judge {
    /// The headline case for counting; `None` where the simulator cannot hold it.
    pub(super) fn counted_case(
        &self,
        evaluation: &Evaluation<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<CountedHeadline>, JudgeError> {
        let Some(case) = evaluation.task.spec.headline() else { return Ok(None) };
        let Ok(found) = self.fitted_case(evaluation.task, case, cancel)? else { return Ok(None) };
        let sample = self.sample_case(evaluation, &found.fitted.dims);
        Ok(sample.map(|sample| CountedHeadline { sample, fitted: found.fitted }))
    }

    fn sample_case(&self, evaluation: &Evaluation<'_>, dims: &Dims) -> Option<SampleCase> {
        let spec = &evaluation.task.spec;
        let sizes = input_sizes(spec, dims).ok()?;
        let inputs = spec.inputs.iter().zip(sizes).map(|(input, (_, bytes))| {
            let parameter = role_parameter(input, dims).ok()?;
            let writable = evaluation.candidate.plan.in_place.contains(&input.name);
            Some(SampleInput { input: input.clone(), parameter, bytes, writable })
        });
        Some(SampleCase {
            plan: self.resolve(evaluation, dims).ok()?,
            inputs: inputs.collect::<Option<_>>()?,
            outputs: output_sizes(spec, dims).ok()?,
        })
    }

    /// What a counted headline means: a fault, an estimate, or a note why there is none. A kernel
    /// that moves or computes less than the task needs did not do the work, and is not ranked.
    pub(crate) fn counted(
        &self,
        evaluation: &Evaluation<'_>,
        counted: &CountedHeadline,
        sample: &SampleResult,
    ) -> Concluded {
        let mut concluded = Concluded::default();
        let dims = &counted.fitted.dims;
        concluded.notes.extend(counted.fitted.describe("headline counted"));
        // A sample has no room behind its buffers, which a judge without guards would give.
        let guarded = self.config.policy.has(Defence::D);
        if let Some((reason, detail)) = headline_failure(sample).filter(|_| guarded) {
            concluded.cases.extend(headline_report(evaluation, dims, sample, reason, detail));
        } else if sample.end != RunEnd::Completed {
            let end = words(&sample.end);
            let note = format!("the headline shape could not be counted here: {end}");
            concluded.notes.push(note);
        } else if let Some(missing) = missing_work(evaluation, dims, &sample.counters)
            .filter(|_| self.config.policy.has(Defence::G))
        {
            concluded.notes.push(format!("the headline shape is not ranked: {missing}"));
        } else {
            let device = &self.config.device;
            let estimate = Estimate::new(&sample.counters, device, sample.blocks);
            concluded.score = Score::Estimated(estimate);
        }
        concluded
    }
}

/// What a counted headline lacks of the task's own roofline, in words.
fn missing_work(evaluation: &Evaluation<'_>, dims: &Dims, counters: &Counters) -> Option<String> {
    let roofline = &evaluation.task.spec.roofline;
    let plan = &evaluation.candidate.plan;
    let bytes = value_at(evaluation.task, dims, &roofline.bytes);
    if counters.requested_bytes < BYTES_SHARE_MIN * bytes {
        let moved = counters.requested_bytes;
        return Some(format!(
            "the kernel moves {moved:.3e} bytes there, the task needs {bytes:.3e}"
        ));
    }
    // Other algorithms and classes may well execute fewer fp32 operations.
    let direct = plan.algorithm == Algorithm::Direct && plan.precision == Precision::Fp32;
    let flops = roofline.flops.get(&Precision::Fp32).filter(|_| direct);
    let flops = flops.map_or(0.0, |flops| value_at(evaluation.task, dims, flops));
    // Functions such as `exp` are counted roughly; sums and products are not.
    let products = ["gemm", "conv"].contains(&evaluation.task.spec.family.as_str());
    let share = if products { PRODUCT_SHARE_MIN } else { FLOPS_SHARE_MIN };
    if counters.fp32_flops < share * flops {
        let done = counters.fp32_flops;
        return Some(format!(
            "the kernel does {done:.3e} operations there, the task needs {flops:.3e}"
        ));
    }
    None
}

/// Value of a roofline expression at a shape. A checked task has one for every case.
fn value_at(task: &Task, dims: &Dims, text: &str) -> f64 {
    let parsed = Expression::parse(text, &task.spec.dim_names());
    let value = parsed.and_then(|parsed| parsed.integer(&Scope::of_dims(dims)));
    value.map_or(f64::INFINITY, |value| value as f64)
}
