//! Admission: a task proves that its tolerance tells right from wrong.
//!
//! Mutants are wrong answers made without a candidate: changed arrays, references on changed
//! inputs, references compiled with `-DWW_MUTANT=k`. Each must differ from the reference by at
//! least ten times the tolerance on at least one distribution (the single element that is off by
//! two tolerances must merely be found), or equal it, which proves nothing.

mod changes;

use std::collections::BTreeMap;

use pipeline::check::Comparison;
use pipeline::dtype::Dtype;
use pipeline::inputs::{Distribution, Poison};
use pipeline::task::Task;
use pipeline::task::spec::{Case, Compare, Output, Place, Precision, Role, extents};
use sandbox::CancelFlag;
use serde::Serialize;

use crate::cases::{Tensors, drawn_inputs};
use crate::{Judge, JudgeError, RunSeed};
use changes::{changed_inputs, changed_outputs};

/// A mutant must exceed the tolerance by this factor somewhere.
pub const RATIO_MIN: f64 = 10.0;

/// How one mutant fared, over all simulated cases and distributions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MutantReport {
    pub name: String,
    pub outcome: MutantOutcome,
    /// Largest error over its tolerance; at most `f64::MAX`.
    pub ratio: f64,
    /// Where it was largest: case and distribution.
    pub place: String,
}

/// What a mutant says about the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MutantOutcome {
    /// It differs enough to be told.
    Killed,
    /// It gives what the reference gives, bit for bit: it proves nothing.
    Equivalent,
    /// It is wrong and would pass: the task is weak.
    Survived,
}

/// A wrong answer.
#[derive(Clone, Debug)]
enum Mutant {
    Zeros,
    Mean,
    CopyOfInput(String),
    RolledByOne,
    LastElementUnwritten,
    LastColumnUnwritten,
    LastRowUnwritten,
    Transposed,
    OneElementOff,
    PreviousOutput,
    IndependentInput(String),
    ConstantInput(String, f64),
    RoundedInputs(Rounding),
    Program(i64, String),
}

/// What a careless kernel rounds its operands to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rounding {
    /// Eight bits of exponent and ten of mantissa.
    Tf32,
    F16,
    Bf16,
}

/// Running maximum of a mutant's ratio.
#[derive(Default)]
struct Tally {
    ratio: f64,
    place: String,
    /// True until some value differed.
    equivalent: bool,
    seen: bool,
}

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
    /// Tries every mutant of a task on every simulated case.
    ///
    /// # Errors
    /// A reference that does not build or run here.
    pub fn try_mutants(
        &self,
        task: &Task,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Vec<MutantReport>, JudgeError> {
        let mutants = mutants_of(task);
        let mut tallies: Vec<Tally> = mutants.iter().map(|_| Tally::default()).collect();
        for case in task.cases(Place::Sim) {
            for distribution in Distribution::search_pair(&task.spec.family) {
                let setting = self.setting(task, case, distribution, seed, cancel)?;
                for (mutant, tally) in mutants.iter().zip(&mut tallies) {
                    if let Some(values) = self.values_of(task, mutant, &setting, cancel)? {
                        tally.add(task, &setting, &values)?;
                    }
                }
            }
        }
        let pairs = mutants.iter().zip(tallies).filter(|(_, tally)| tally.seen);
        Ok(pairs.map(|(mutant, tally)| tally.report(mutant)).collect())
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
        mutant: &Mutant,
        setting: &Setting<'_>,
        cancel: &CancelFlag,
    ) -> Result<Option<Tensors>, JudgeError> {
        let dims = &setting.case.dims;
        match mutant {
            Mutant::Program(id, _) => {
                let defines = BTreeMap::from([("WW_MUTANT".to_owned(), *id)]);
                self.mutated_reference(task, dims, &setting.inputs, &defines, cancel).map(Some)
            }
            Mutant::PreviousOutput => {
                self.expected_outputs(task, dims, &setting.other_inputs, cancel).map(Some)
            }
            Mutant::IndependentInput(_) | Mutant::ConstantInput(..) | Mutant::RoundedInputs(_) => {
                match changed_inputs(task, mutant, setting)? {
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
            | Mutant::Transposed
            | Mutant::OneElementOff => changed_outputs(task, mutant, setting),
        }
    }
}

fn mutants_of(task: &Task) -> Vec<Mutant> {
    let mut mutants = vec![
        Mutant::Zeros,
        Mutant::Mean,
        Mutant::RolledByOne,
        Mutant::LastElementUnwritten,
        Mutant::LastColumnUnwritten,
        Mutant::LastRowUnwritten,
        Mutant::Transposed,
        Mutant::OneElementOff,
        Mutant::PreviousOutput,
    ];
    for input in &task.spec.inputs {
        mutants.push(Mutant::CopyOfInput(input.name.clone()));
        mutants.push(Mutant::IndependentInput(input.name.clone()));
        match input.role {
            Role::NormWeight => mutants.push(Mutant::ConstantInput(input.name.clone(), 1.0)),
            Role::Bias => mutants.push(Mutant::ConstantInput(input.name.clone(), 0.0)),
            Role::Activation | Role::Weight(_) | Role::Index(_) | Role::Lengths(_) => {}
            Role::Mask | Role::Table | Role::State => {}
        }
    }
    mutants.extend([Rounding::Tf32, Rounding::F16, Rounding::Bf16].map(Mutant::RoundedInputs));
    let programs = task.spec.mutants.iter();
    mutants.extend(programs.map(|mutant| Mutant::Program(mutant.id, mutant.name.clone())));
    mutants
}

impl Mutant {
    fn name(&self) -> String {
        match self {
            Self::Zeros => "zeros".to_owned(),
            Self::Mean => "mean of the tensor".to_owned(),
            Self::CopyOfInput(input) => format!("copy of `{input}`"),
            Self::RolledByOne => "rolled by one".to_owned(),
            Self::LastElementUnwritten => "last element unwritten".to_owned(),
            Self::LastColumnUnwritten => "last column unwritten".to_owned(),
            Self::LastRowUnwritten => "last row unwritten".to_owned(),
            Self::Transposed => "transposed".to_owned(),
            Self::OneElementOff => "one element off by 2 tolerances".to_owned(),
            Self::PreviousOutput => "the previous call's output".to_owned(),
            Self::IndependentInput(input) => format!("other values of `{input}`"),
            Self::ConstantInput(input, value) => format!("`{input}` = {value}"),
            Self::RoundedInputs(to) => format!("inputs rounded to {to:?}").to_lowercase(),
            Self::Program(id, name) => format!("reference mutant {id}: {name}"),
        }
    }

    /// The ratio from which the mutant counts as told apart.
    fn ratio_min(&self) -> f64 {
        if matches!(self, Self::OneElementOff) { 1.0 } else { RATIO_MIN }
    }
}

impl Tally {
    /// Compares the mutant's outputs as if a candidate had written them.
    fn add(
        &mut self,
        task: &Task,
        setting: &Setting<'_>,
        values: &Tensors,
    ) -> Result<(), JudgeError> {
        let got = values.memfd.map()?;
        let expected = setting.expected.memfd.map()?;
        let first = !self.seen;
        self.seen = true;
        for output in &task.spec.outputs {
            let slice = |map: &'_ [u8], tensors: &Tensors, name: &str| {
                let (offset, bytes) = tensors.places.get(name).copied().unwrap_or((0, 0));
                map[offset as usize..(offset + bytes) as usize].to_vec()
            };
            let reference = slice(&expected, &setting.expected, &reference_name(output));
            let wrong = slice(&got, values, &reference_name(output));
            let equal = wrong == reference;
            self.equivalent = if first { equal } else { self.equivalent && equal };
            let bound = slice(&expected, &setting.expected, &format!("{}_bound", output.name));
            let ratio =
                if equal { 0.0 } else { ratio(task, setting, output, &wrong, &reference, &bound)? };
            if ratio > self.ratio {
                self.ratio = ratio;
                self.place = format!("{}, {:?}", setting.case.name, setting.distribution);
            }
        }
        Ok(())
    }

    fn report(self, mutant: &Mutant) -> MutantReport {
        let outcome = if self.equivalent {
            MutantOutcome::Equivalent
        } else if self.ratio >= mutant.ratio_min() {
            MutantOutcome::Killed
        } else {
            MutantOutcome::Survived
        };
        MutantReport { name: mutant.name(), outcome, ratio: self.ratio, place: self.place }
    }
}

fn reference_name(output: &Output) -> String {
    format!("{}_ref", output.name)
}

/// Error over tolerance, element-wise or norm-wise, whichever is larger.
fn ratio(
    task: &Task,
    setting: &Setting<'_>,
    output: &Output,
    wrong: &[u8],
    reference: &[u8],
    bound: &[u8],
) -> Result<f64, JudgeError> {
    let class = task.spec.classes.first().copied().unwrap_or(Precision::Fp32);
    let norm_limit = task.spec.norm_limit(class);
    let got = narrowed(output.dtype, wrong);
    let check = Comparison {
        name: &output.name,
        dtype: output.dtype,
        compare: output.compare,
        extents: &extents(&output.shape, &setting.case.dims)
            .map_err(|error| broken(task, &error))?,
        got: &got,
        reference,
        bound: (output.compare == Compare::Bound).then_some(bound),
        accumulation_unit: task.spec.accumulation_unit(class),
        shared_bound: 0.0,
        norm_limit,
        norm_binds: setting.distribution.tells_classes(),
        flush_denormals: task.spec.flush_denormals,
        poison: Poison::Ones,
    }
    .run();
    if check.nonfinite > 0 {
        return Ok(f64::MAX);
    }
    Ok(check.worst_ratio.max(check.norm_error / check.norm_limit).min(f64::MAX))
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
