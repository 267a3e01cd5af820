//! How far a mutant is from the reference, over all that it was tried on.

use pipeline::admission::{MutantOutcome, MutantReport};
use pipeline::check::Comparison;
use pipeline::inputs::{Distribution, Poison};
use pipeline::task::Task;
use pipeline::task::spec::{Compare, Output, Precision, extents};

use super::mutants::Mutant;
use super::{Setting, broken, narrowed, reference_name};
use crate::cases::Tensors;
use crate::{Build, JudgeError};

/// A mutant with what was found so far.
pub(super) struct Tried {
    pub(super) mutant: Mutant,
    /// The class whose gate must tell it; `None` where it is expected to pass.
    gate: Option<Precision>,
    /// Of the reference that it is, where it is one.
    pub(super) build: Option<Build>,
    ratio: f64,
    place: String,
    seen: bool,
    differs: bool,
}

impl Tried {
    pub(super) fn new(task: &Task, mutant: Mutant) -> Self {
        let gate = mutant.gate(task);
        let (build, place) = (None, String::new());
        Self { mutant, gate, build, ratio: 0.0, place, seen: false, differs: false }
    }

    /// True while another trial could change what is known of it.
    pub(super) fn is_open(&self, distribution: Distribution) -> bool {
        let told = |gate| self.ratio >= self.mutant.ratio_min(gate);
        self.gate.is_some_and(|gate| !told(gate)) && self.mutant.goes_by(distribution)
    }

    /// The class whose gate it is held against.
    pub(super) fn class(&self) -> Precision {
        self.gate.unwrap_or(Precision::Fp32)
    }

    /// Compares the mutant's outputs as if a candidate had written them.
    pub(super) fn add(
        &mut self,
        task: &Task,
        setting: &Setting<'_>,
        values: &Tensors,
    ) -> Result<(), JudgeError> {
        let got = values.memfd.map()?;
        let expected = setting.expected.memfd.map()?;
        self.seen = true;
        for output in &task.spec.outputs {
            let slice = |map: &'_ [u8], tensors: &Tensors, name: &str| {
                let (offset, bytes) = tensors.places.get(name).copied().unwrap_or((0, 0));
                map[offset as usize..(offset + bytes) as usize].to_vec()
            };
            let reference = slice(&expected, &setting.expected, &reference_name(output));
            let wrong = narrowed(output.dtype, &slice(&got, values, &reference_name(output)));
            if wrong == narrowed(output.dtype, &reference) {
                continue;
            }
            self.differs = true;
            let bound = slice(&expected, &setting.expected, &format!("{}_bound", output.name));
            let ratio = ratio(task, setting, self.class(), output, &wrong, &reference, &bound)?;
            if ratio > self.ratio {
                self.ratio = ratio;
                self.place = format!("{}, {:?}", setting.case.name, setting.distribution);
            }
        }
        Ok(())
    }

    /// `None` for one that applied nowhere.
    pub(super) fn report(self) -> Option<MutantReport> {
        let idle = self.mutant.is_idle();
        // A copy may be what the operator is; any other answer without work may not.
        let right = idle && !matches!(self.mutant, Mutant::CopyOfInput(_));
        let outcome = match self.gate {
            None => MutantOutcome::Admitted,
            Some(_) if !self.seen => return None,
            Some(gate) if self.ratio >= self.mutant.ratio_min(gate) => MutantOutcome::Killed,
            Some(_) if self.differs || right => MutantOutcome::Survived,
            Some(_) => MutantOutcome::Equivalent,
        };
        let (name, ratio, place) = (self.mutant.name(), self.ratio, self.place);
        Some(MutantReport { name, idle, outcome, ratio, place })
    }
}

/// Error over tolerance, element-wise or norm-wise, whichever is larger.
fn ratio(
    task: &Task,
    setting: &Setting<'_>,
    class: Precision,
    output: &Output,
    wrong: &[u8],
    reference: &[u8],
    bound: &[u8],
) -> Result<f64, JudgeError> {
    let check = Comparison {
        name: &output.name,
        dtype: output.dtype,
        compare: output.compare,
        extents: &extents(&output.shape, &setting.case.dims)
            .map_err(|error| broken(task, &error))?,
        got: wrong,
        reference,
        bound: (output.compare == Compare::Bound).then_some(bound),
        accumulation_unit: task.spec.accumulation_unit(class),
        shared_bound: 0.0,
        norm_limit: task.spec.norm_limit(class),
        norm_gate: setting.distribution.norm_gate(),
        flush_denormals: task.spec.flush_denormals,
        poison: Poison::Ones,
    }
    .run();
    if check.nonfinite > 0 {
        return Ok(f64::MAX);
    }
    Ok(check.worst_ratio.max(check.norm_error / check.norm_limit).min(f64::MAX))
}
