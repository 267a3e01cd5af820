//! The wrong answers that a task is tried with.

use pipeline::admission::RATIO_MIN;
use pipeline::inputs::Distribution;
use pipeline::task::Task;
use pipeline::task::spec::{Precision, Role};

/// A wrong answer.
#[derive(Clone, Debug)]
pub(super) enum Mutant {
    Zeros,
    Mean,
    CopyOfInput(String),
    PreviousOutput,
    RolledByOne,
    Transposed,
    LastElementUnwritten,
    LastColumnUnwritten,
    LastRowUnwritten,
    LastTileUnwritten,
    OneElementOff,
    IndependentInput(String),
    ConstantInput(String, f64),
    RoundedInputs(Rounding),
    /// Id, name and class of the task's own.
    Program(i64, String, Option<Precision>),
}

/// What a careless kernel rounds its operands to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rounding {
    /// Eight bits of exponent and ten of mantissa.
    Tf32,
    F16,
    Bf16,
}

pub(super) fn mutants_of(task: &Task) -> Vec<Mutant> {
    let mut mutants = vec![
        Mutant::Zeros,
        Mutant::Mean,
        Mutant::PreviousOutput,
        Mutant::RolledByOne,
        Mutant::Transposed,
        Mutant::LastElementUnwritten,
        Mutant::LastColumnUnwritten,
        Mutant::LastRowUnwritten,
        Mutant::LastTileUnwritten,
        Mutant::OneElementOff,
    ];
    for input in &task.spec.inputs {
        let name = || input.name.clone();
        mutants.push(Mutant::CopyOfInput(name()));
        mutants.push(Mutant::IndependentInput(name()));
        match input.role {
            Role::NormWeight | Role::Weight(_) => mutants.push(Mutant::ConstantInput(name(), 1.0)),
            Role::Bias => mutants.push(Mutant::ConstantInput(name(), 0.0)),
            Role::Activation | Role::Index(_) | Role::Lengths(_) => {}
            Role::Mask | Role::Table | Role::State => {}
        }
    }
    mutants.extend([Rounding::Tf32, Rounding::F16, Rounding::Bf16].map(Mutant::RoundedInputs));
    let own = task.spec.mutants.iter();
    mutants.extend(own.map(|it| Mutant::Program(it.id, it.name.clone(), it.class)));
    mutants
}

impl Mutant {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Zeros => "zeros".to_owned(),
            Self::Mean => "mean of the tensor".to_owned(),
            Self::CopyOfInput(input) => format!("copy of `{input}`"),
            Self::PreviousOutput => "the previous call's output".to_owned(),
            Self::RolledByOne => "rolled by one".to_owned(),
            Self::Transposed => "transposed".to_owned(),
            Self::LastElementUnwritten => "last element unwritten".to_owned(),
            Self::LastColumnUnwritten => "last column unwritten".to_owned(),
            Self::LastRowUnwritten => "last row unwritten".to_owned(),
            Self::LastTileUnwritten => "last tile unwritten".to_owned(),
            Self::OneElementOff => "one element off by 2 tolerances".to_owned(),
            Self::IndependentInput(input) => format!("other values of `{input}`"),
            Self::ConstantInput(input, value) => format!("`{input}` = {value}"),
            Self::RoundedInputs(to) => format!("inputs rounded to {to:?}").to_lowercase(),
            Self::Program(id, name, _) => format!("reference mutant {id}: {name}"),
        }
    }

    /// True for answers that are made without looking at any input.
    pub(super) fn is_idle(&self) -> bool {
        match self {
            Self::Zeros | Self::Mean | Self::CopyOfInput(_) | Self::PreviousOutput => true,
            Self::RolledByOne | Self::Transposed | Self::OneElementOff => false,
            Self::LastElementUnwritten | Self::LastColumnUnwritten => false,
            Self::LastRowUnwritten | Self::LastTileUnwritten => false,
            Self::IndependentInput(_) | Self::ConstantInput(..) => false,
            Self::RoundedInputs(_) | Self::Program(..) => false,
        }
    }

    /// The ratio from which the mutant counts as told apart. The classes that round operands are
    /// less than ten times apart, so that there it only has to be found.
    pub(super) fn ratio_min(&self, gate: Precision) -> f64 {
        let near = self.class().is_some() && gate >= Precision::Tf32;
        if near || matches!(self, Self::OneElementOff) { 1.0 } else { RATIO_MIN }
    }

    /// The class whose gate must tell it: the weakest that the task admits, of those that are
    /// stronger than its own. `None` where it is within a class that the task admits.
    pub(super) fn gate(&self, task: &Task) -> Option<Precision> {
        let admitted = task.spec.classes.iter().copied();
        let own = self.class();
        admitted.filter(|class| own.is_none_or(|own| *class < own)).max()
    }

    /// The distributions that it is tried on besides those that all are.
    pub(super) fn goes_by(&self, distribution: Distribution) -> bool {
        // One NaN tells everything apart that puts no NaN in its place; only the task's own
        // mutants may differ in nothing else.
        distribution != Distribution::D9 || matches!(self, Self::Program(..))
    }

    fn class(&self) -> Option<Precision> {
        match self {
            // Both keep ten bits.
            Self::RoundedInputs(Rounding::Tf32 | Rounding::F16) => Some(Precision::Tf32),
            Self::RoundedInputs(Rounding::Bf16) => Some(Precision::Bf16),
            Self::Program(_, _, class) => *class,
            Self::Zeros | Self::Mean | Self::CopyOfInput(_) | Self::PreviousOutput => None,
            Self::RolledByOne | Self::Transposed | Self::OneElementOff => None,
            Self::LastElementUnwritten | Self::LastColumnUnwritten => None,
            Self::LastRowUnwritten | Self::LastTileUnwritten => None,
            Self::IndependentInput(_) | Self::ConstantInput(..) => None,
        }
    }
}
