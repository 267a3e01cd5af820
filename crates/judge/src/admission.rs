//! Admission: a task proves that its tolerance tells right from wrong.
//!
//! Mutants are wrong answers made without a candidate: changed arrays, references on changed
//! inputs, references compiled with `-DWW_MUTANT=k`. Each must differ from the reference by at
//! least ten times the tolerance on at least one distribution (the single element that is off by
//! two tolerances must merely be found), or equal it, which proves nothing. The relations that the
//! task states must hold for its reference. What follows from all of them is in
//! `pipeline::admission`.

mod changes;
mod mutants;
mod stated;
mod tally;

use std::collections::BTreeMap;

use pipeline::admission::MutantReport;
use pipeline::dtype::Dtype;
use pipeline::hidden::tensor_bytes;
use pipeline::inputs::Distribution;
use pipeline::task::Task;
use pipeline::task::spec::{Case, Output, Place};
use sandbox::CancelFlag;

use crate::cases::{Tensors, drawn_inputs};
use crate::{Judge, JudgeError, RunSeed};
use changes::{changed_inputs, changed_outputs};
use mutants::{Mutant, mutants_of};
use tally::Tried;

/// One case under one distribution, with what the reference says.
struct Setting<'a> {
    case: &'a Case,
    distribution: Distribution,
    inputs: Tensors,
    expected: Tensors,
    /// The same shape with other inputs.
    other_inputs: Tensors,
}

impl Judge {
    /// Tries every mutant of a task until it is told, on the simulated cases under every
    /// distribution that says something: how each fared, and where the reference is not finite,
    /// so that nothing is told there.
    ///
    /// # Errors
    /// A reference that does not build or run here.
    pub fn try_mutants(
        &self,
        task: &Task,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<(Vec<MutantReport>, Vec<String>), JudgeError> {
        let mutants = mutants_of(task).into_iter();
        let mut tried: Vec<Tried> = mutants.map(|mutant| Tried::new(task, mutant)).collect();
        let mut silent = Vec::new();
        for (case, distribution) in settings_of(task) {
            if !tried.iter().any(|it| it.is_open(distribution)) {
                continue;
            }
            let setting = self.setting(task, case, distribution, seed, cancel)?;
            if distribution != Distribution::D9 && !is_finite(task, &setting.expected)? {
                silent.push(format!("{}, {distribution:?}", case.name));
                continue;
            }
            for it in tried.iter_mut().filter(|it| it.is_open(distribution)) {
                if let Some(values) = self.values_of(task, it, &setting, cancel)? {
                    it.add(task, &setting, &values)?;
                }
            }
        }
        Ok((tried.into_iter().filter_map(Tried::report).collect(), silent))
    }

    fn setting<'a>(
        &self,
        task: &Task,
        case: &'a Case,
        distribution: Distribution,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Setting<'a>, JudgeError> {
        let draw =
            |index| drawn_inputs(task, &case.dims, distribution, &seed.master(&case.name, index));
        let (inputs, other_inputs) = (draw(0)?, draw(1)?);
        let expected = self.expected_outputs(task, &case.dims, &inputs, cancel)?;
        Ok(Setting { case, distribution, inputs, expected, other_inputs })
    }

    /// Exact values of each output under a mutant; `None` where the mutant does not apply.
    fn values_of(
        &self,
        task: &Task,
        tried: &mut Tried,
        setting: &Setting<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<Tensors>, JudgeError> {
        let dims = &setting.case.dims;
        match &tried.mutant {
            Mutant::Program(id, ..) => {
                let build = match tried.build.take() {
                    Some(build) => build,
                    None => {
                        let defines = BTreeMap::from([("WW_MUTANT".to_owned(), *id)]);
                        self.mutated_build(task, &defines, cancel)?
                    }
                };
                let values = self.run_reference(task, &build, dims, &setting.inputs, cancel)?;
                tried.build = Some(build);
                Ok(Some(values))
            }
            Mutant::PreviousOutput => {
                self.expected_outputs(task, dims, &setting.other_inputs, cancel).map(Some)
            }
            Mutant::IndependentInput(_) | Mutant::ConstantInput(..) | Mutant::RoundedInputs(_) => {
                match changed_inputs(task, &tried.mutant, setting)? {
                    Some(inputs) => self.expected_outputs(task, dims, &inputs, cancel).map(Some),
                    None => Ok(None),
                }
            }
            Mutant::Zeros
            | Mutant::Mean
            | Mutant::CopyOfInput(_)
            | Mutant::RolledByOne
            | Mutant::LastElementUnwritten
            | Mutant::LastColumnUnwritten
            | Mutant::LastRowUnwritten
            | Mutant::LastTileUnwritten
            | Mutant::Transposed
            | Mutant::OneElementOff => changed_outputs(task, &tried.mutant, tried.class(), setting),
        }
    }
}

/// The distributions of the search stage on every simulated case, where nearly all mutants are
/// told; then the others, for what is left, on all but the largest.
fn settings_of(task: &Task) -> Vec<(&Case, Distribution)> {
    let size = |case: &&Case| tensor_bytes(&task.spec, &case.dims);
    let mut cases: Vec<&Case> = task.cases(Place::Sim).collect();
    cases.sort_by_key(size);
    cases.reverse();
    let pair = Distribution::search_pair(&task.spec.family);
    let others = Distribution::others(&task.spec).into_iter().filter(|it| !pair.contains(it));
    let smaller = if cases.len() > 1 { &cases[1..] } else { &cases[..] };
    let mut settings = Vec::new();
    for distribution in pair {
        settings.extend(cases.iter().map(|case| (*case, distribution)));
    }
    for distribution in others {
        settings.extend(smaller.iter().map(|case| (*case, distribution)));
    }
    settings
}

/// True where every value fits the output's type.
fn is_finite(task: &Task, expected: &Tensors) -> Result<bool, JudgeError> {
    let map = expected.memfd.map()?;
    let mut floats = task.spec.outputs.iter().filter(|output| output.dtype.is_float());
    Ok(floats.all(|output| {
        let place = expected.places.get(&reference_name(output)).copied();
        let (offset, bytes) = place.unwrap_or((0, 0));
        let words = map[offset as usize..(offset + bytes) as usize].chunks_exact(8);
        let mut values = words.map(|word| Dtype::F64.element_bits(word, 0).map(f64::from_bits));
        values.all(|value| {
            value.is_some_and(|it| output.dtype.decode(output.dtype.encode(it)).is_finite())
        })
    }))
}

fn reference_name(output: &Output) -> String {
    format!("{}_ref", output.name)
}

/// f64 (or i64) values as the output type holds them.
pub(crate) fn narrowed(dtype: Dtype, values: &[u8]) -> Vec<u8> {
    let width = (dtype.bits() / 8).max(1) as usize;
    let elements = values.chunks_exact(8).map(|word| {
        let bits = Dtype::F64.element_bits(word, 0).unwrap_or(0);
        if dtype.is_float() { dtype.encode(f64::from_bits(bits)) } else { bits }
    });
    elements.flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
}

fn broken(task: &Task, error: &dyn std::fmt::Display) -> JudgeError {
    JudgeError::Reference { task: task.spec.name.clone(), why: error.to_string() }
}
