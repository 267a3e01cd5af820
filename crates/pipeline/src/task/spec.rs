//! The form of `task.toml`, and the checks that need nothing but the file itself.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::device_facts::FACT_NAMES;
use crate::dtype::Dtype;
use crate::expression::{Expression, ExpressionError, RESERVED_WORDS};
use crate::hidden::{is_prime, tensor_bytes};
use crate::limits::{CASES_MAX, EXTENT_MAX, SIM_CASES_MAX, TASK_ITEMS_MAX, TENSOR_BYTES_MAX};
use crate::metamorphic::Metamorphic;
use crate::scope::Scope;
use crate::task::baselines::{self, CustomBaseline};

/// `task.toml`, as written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TaskSpec {
    /// Format version; 1.
    pub task: u32,
    pub name: String,
    pub family: String,
    /// One sentence for the prompt: what the operator computes.
    #[serde(default)]
    pub about: String,
    pub dims: Vec<String>,
    /// Admissible precision classes, strongest first.
    pub classes: Vec<Precision>,
    #[serde(default)]
    pub nonfinite: Nonfinite,
    #[serde(default)]
    pub may_overwrite: Vec<String>,
    #[serde(default)]
    pub flush_denormals: bool,
    #[serde(rename = "input")]
    pub inputs: Vec<Input>,
    #[serde(default, rename = "scalar")]
    pub scalars: Vec<Scalar>,
    #[serde(rename = "output")]
    pub outputs: Vec<Output>,
    pub gate: GateSpec,
    pub roofline: Roofline,
    #[serde(rename = "case")]
    pub cases: Vec<Case>,
    #[serde(default, rename = "mutant")]
    pub mutants: Vec<ProgramMutant>,
    #[serde(default, rename = "baseline")]
    pub baselines: Vec<CustomBaseline>,
    pub hidden: Hidden,
    /// Relations between calls on related inputs.
    #[serde(default)]
    pub metamorphic: Metamorphic,
}

/// A precision class: the weakest arithmetic used anywhere in a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    Exact,
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    Fp8,
    Int8,
}

/// What the task says about NaN and infinities in its inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nonfinite {
    #[default]
    Propagate,
    Unspecified,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<String>,
    pub role: Role,
}

/// What an input is for; it decides how its values are drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Role {
    Activation,
    /// Scaled by 1/√fan_in, an expression over dims.
    Weight(String),
    NormWeight,
    Bias,
    /// Integers in 0..bound.
    Index(String),
    /// Integers in 1..=bound.
    Lengths(String),
    Mask,
    Table,
    State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scalar {
    pub name: String,
    pub dtype: Dtype,
    pub value: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Output {
    pub name: String,
    pub dtype: Dtype,
    pub shape: Vec<String>,
    pub compare: Compare,
    #[serde(default)]
    pub updates: Option<String>,
}

/// How an output is compared with the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compare {
    /// Within the reference's error bound.
    Bound,
    /// Equal bits.
    Exact,
    /// Any index whose input value equals the maximum.
    IndexOfMax,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GateSpec {
    /// The accumulation length, an expression over dims.
    pub k: String,
    /// Norm-wise limit by class.
    #[serde(default)]
    pub nu: BTreeMap<Precision, f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Roofline {
    /// Compulsory bytes, an expression over dims.
    pub bytes: String,
    #[serde(default)]
    pub flops: BTreeMap<Precision, String>,
}

/// A public shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    pub name: String,
    pub dims: BTreeMap<String, i64>,
    pub weight: f64,
    pub on: Vec<Place>,
}

/// A wrong reference: `reference.cu` compiled with `-DWW_MUTANT=id`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProgramMutant {
    pub id: i64,
    pub name: String,
    /// The class that it is of: it passes where that class is admitted, and is told elsewhere.
    #[serde(default)]
    pub class: Option<Precision>,
}

/// Where a case runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Place {
    Gpu,
    Sim,
}

/// Ranges of hidden shapes by dimension; `sim` narrows them for the simulator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Hidden {
    pub bytes_max: u64,
    #[serde(default)]
    pub sim: BTreeMap<String, [i64; 2]>,
    #[serde(flatten)]
    pub ranges: BTreeMap<String, [i64; 2]>,
}

/// Why `task.toml` is not acceptable.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum SpecError {
    #[error("`task = {0}` is not a format this program reads; write `task = 1`")]
    Version(u32),
    #[error("name `{name}` of a {what} is not acceptable: {why}")]
    Name { what: &'static str, name: String, why: &'static str },
    #[error("the name `{0}` is used twice")]
    Duplicate(String),
    #[error("{0}")]
    Shape(String),
    #[error("{place}: {why}")]
    Expression { place: String, why: ExpressionError },
    #[error("case `{case}`: {why}")]
    Case { case: String, why: String },
    #[error("{0}")]
    Rule(String),
}

impl TaskSpec {
    /// Checks everything that the types alone do not say.
    ///
    /// # Errors
    /// The first violation, with the name of the item.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.task != 1 {
            return Err(SpecError::Version(self.task));
        }
        self.check_names()?;
        self.check_expressions()?;
        self.check_cases()?;
        self.check_rules()?;
        self.metamorphic.check(self)?;
        baselines::check(self).map_err(SpecError::Rule)
    }

    /// Names of the dimensions.
    #[must_use]
    pub fn dim_names(&self) -> BTreeSet<String> {
        self.dims.iter().cloned().collect()
    }

    /// The case that a claim is about.
    #[must_use]
    pub fn headline(&self) -> Option<&Case> {
        self.cases.iter().find(|case| case.name == "headline")
    }

    /// Elements of a tensor of this shape under `dims`.
    ///
    /// # Errors
    /// An extent that has no value, is below 1 or too large.
    pub fn elements(shape: &[String], dims: &BTreeMap<String, i64>) -> Result<u64, SpecError> {
        extents(shape, dims)?.into_iter().try_fold(1u64, |product, extent| {
            product
                .checked_mul(extent)
                .ok_or_else(|| SpecError::Shape(format!("{shape:?} overflows")))
        })
    }

    /// Bytes of a tensor under `dims`.
    ///
    /// # Errors
    /// As [`TaskSpec::elements`], or more than the largest tensor.
    pub fn tensor_bytes(
        dtype: Dtype,
        shape: &[String],
        dims: &BTreeMap<String, i64>,
    ) -> Result<u64, SpecError> {
        let bytes = dtype.bytes_for(Self::elements(shape, dims)?);
        bytes.filter(|bytes| *bytes <= TENSOR_BYTES_MAX).ok_or_else(|| {
            SpecError::Shape(format!(
                "a {dtype:?} tensor of shape {shape:?} is too large at {dims:?}"
            ))
        })
    }

    /// The norm-wise limit for a declared class. A checked task names one for each class wherever
    /// an output needs it; nothing passes a limit of 0.
    #[must_use]
    pub fn norm_limit(&self, class: Precision) -> f64 {
        self.gate.nu.get(&class).copied().unwrap_or(0.0)
    }

    /// Unit of the accumulated error under a declared class. Operands that are stored in 16 bits
    /// are exact, so the classes that round operands add nothing there.
    #[must_use]
    pub fn accumulation_unit(&self, class: Precision) -> f64 {
        let mut floats = self.inputs.iter().filter(|input| input.dtype.is_float());
        let stored_narrow = floats.all(|input| input.dtype.bits() <= 16);
        match class {
            Precision::Exact | Precision::Fp32 | Precision::Int8 => 2f64.powi(-24),
            Precision::Tf32 | Precision::Fp16 | Precision::Bf16 if stored_narrow => 2f64.powi(-24),
            Precision::Tf32 | Precision::Fp16 => 2f64.powi(-11),
            Precision::Bf16 => 2f64.powi(-8),
            Precision::Fp8 => 2f64.powi(-13),
        }
    }

    fn check_names(&self) -> Result<(), SpecError> {
        lower_case_name("task", &self.name)?;
        let tensors = self.inputs.iter().map(|input| ("input", &input.name));
        let scalars = self.scalars.iter().map(|scalar| ("scalar", &scalar.name));
        let outputs = self.outputs.iter().map(|output| ("output", &output.name));
        let dims = self.dims.iter().map(|dim| ("dimension", dim));
        let mut seen = BTreeSet::new();
        for (what, name) in dims.chain(tensors).chain(scalars).chain(outputs) {
            lower_case_name(what, name)?;
            if !seen.insert(name.clone()) {
                return Err(SpecError::Duplicate(name.clone()));
            }
        }
        let most = self.dims.len().max(self.inputs.len()).max(self.outputs.len());
        if most > TASK_ITEMS_MAX || self.scalars.len() > TASK_ITEMS_MAX {
            return Err(SpecError::Rule(format!("more than {TASK_ITEMS_MAX} items of one kind")));
        }
        Ok(())
    }

    fn check_expressions(&self) -> Result<(), SpecError> {
        let dims = self.dim_names();
        let check = |place: String, text: &str| {
            let parsed = Expression::parse(text, &dims);
            parsed.map(|_| ()).map_err(|why| SpecError::Expression { place, why })
        };
        for (name, shape) in self.shapes() {
            shape.iter().try_for_each(|extent| check(format!("shape of `{name}`"), extent))?;
        }
        for input in &self.inputs {
            if let Role::Weight(text) | Role::Index(text) | Role::Lengths(text) = &input.role {
                check(format!("role of `{}`", input.name), text)?;
            }
        }
        check("gate.k".to_owned(), &self.gate.k)?;
        check("roofline.bytes".to_owned(), &self.roofline.bytes)?;
        let mut flops = self.roofline.flops.values();
        flops.try_for_each(|text| check("roofline.flops".to_owned(), text))
    }

    fn shapes(&self) -> impl Iterator<Item = (&String, &Vec<String>)> {
        let inputs = self.inputs.iter().map(|input| (&input.name, &input.shape));
        inputs.chain(self.outputs.iter().map(|output| (&output.name, &output.shape)))
    }

    fn check_cases(&self) -> Result<(), SpecError> {
        if self.cases.len() > CASES_MAX {
            return Err(SpecError::Rule(format!("more than {CASES_MAX} cases")));
        }
        let mut seen = BTreeSet::new();
        for case in &self.cases {
            let failed = |why: String| SpecError::Case { case: case.name.clone(), why };
            if !seen.insert(&case.name) {
                return Err(SpecError::Duplicate(case.name.clone()));
            }
            if case.dims.keys().cloned().collect::<BTreeSet<_>>() != self.dim_names() {
                return Err(failed(format!("must give a value to each of {:?}", self.dims)));
            }
            if let Some((dim, _)) = case.dims.iter().find(|(_, v)| !(1..=EXTENT_MAX).contains(*v)) {
                return Err(failed(format!("`{dim}` must be in 1..={EXTENT_MAX}")));
            }
            if !(0.0..=1e12).contains(&case.weight) {
                return Err(failed("weight must be a number of at least 0".to_owned()));
            }
            let mut rooflines = self.roofline.flops.values().chain([&self.roofline.bytes]);
            let scope = Scope::of_dims(&case.dims);
            rooflines.try_for_each(|text| {
                let value =
                    Expression::parse(text, &self.dim_names()).and_then(|e| e.integer(&scope));
                value.map(|_| ()).map_err(|why| failed(format!("roofline: {why}")))
            })?;
            for input in &self.inputs {
                Self::tensor_bytes(input.dtype, &input.shape, &case.dims)?;
            }
            for output in &self.outputs {
                Self::tensor_bytes(output.dtype, &output.shape, &case.dims)?;
            }
        }
        Ok(())
    }

    fn check_rules(&self) -> Result<(), SpecError> {
        let on_sim = || self.cases.iter().filter(|case| case.on.contains(&Place::Sim));
        rule(self.headline().is_some(), "exactly one case must be named `headline`")?;
        rule(
            on_sim().any(|case| case.dims.values().all(|extent| *extent > 8 && is_prime(*extent))),
            "one case on `sim` must be ragged: every extent a prime above 8",
        )?;
        rule(
            on_sim().any(|case| case.dims.values().all(|extent| *extent <= 8)),
            "one case on `sim` must be tiny: every extent at most 8",
        )?;
        rule(on_sim().count() <= SIM_CASES_MAX, "at most 15 cases may run on `sim`")?;
        rule(!self.classes.is_empty(), "`classes` must name at least one precision class")?;
        rule(self.classes.is_sorted(), "`classes` must be strongest first")?;
        rule(!self.outputs.is_empty(), "a task needs at least one output")?;
        let names: BTreeSet<_> = self.inputs.iter().map(|input| &input.name).collect();
        rule(
            self.may_overwrite.iter().all(|name| names.contains(name)),
            "`may_overwrite` may only name inputs",
        )?;
        rule(
            self.scalars.iter().all(|scalar| matches!(scalar.dtype, Dtype::F32 | Dtype::F64)),
            "scalars must be f32 or f64",
        )?;
        self.check_gate_and_ranges()
    }

    fn check_gate_and_ranges(&self) -> Result<(), SpecError> {
        let dims = self.dim_names();
        let mut ranges = self.hidden.ranges.iter().chain(&self.hidden.sim);
        rule(
            ranges.all(|(dim, [low, high])| dims.contains(dim) && 1 <= *low && low <= high),
            "`hidden` must give [low, high] with 1 <= low <= high for dimensions only",
        )?;
        rule(
            dims.iter().all(|dim| self.hidden.ranges.contains_key(dim)),
            "`hidden` must give a range to every dimension",
        )?;
        let inside = |(dim, [low, high]): (&String, &[i64; 2])| {
            self.hidden.ranges.get(dim).is_some_and(|own| own[0] <= *low && *high <= own[1])
        };
        rule(self.hidden.sim.iter().all(inside), "`hidden.sim` must lie inside the ranges")?;
        let smallest = self.hidden.ranges.iter().map(|(dim, [low, _])| (dim.clone(), *low));
        let bytes = tensor_bytes(self, &smallest.collect());
        rule(
            bytes.is_none_or(|bytes| bytes <= self.hidden.bytes_max),
            "`hidden.bytes_max` must leave room for the smallest shape of the ranges",
        )?;
        let bound = |output: &Output| output.compare == Compare::Bound && output.dtype.is_float();
        let needed = self.outputs.iter().any(bound);
        rule(
            self.gate.nu.values().all(|nu| (1e-12..=1.0).contains(nu))
                && (!needed || self.classes.iter().all(|class| self.gate.nu.contains_key(class))),
            "`gate.nu` must give a limit in 1e-12..=1 to every class in `classes`",
        )?;
        let judged =
            |output: &Output| output.compare != Compare::IndexOfMax && output.updates.is_none();
        rule(
            self.outputs.iter().all(judged),
            "`compare = \"index_of_max\"` and `updates` are not judged by this version",
        )
    }
}

/// Extents of a shape under `dims`, outermost first.
///
/// # Errors
/// An extent without a value, below 1 or above the largest extent.
pub fn extents(shape: &[String], dims: &BTreeMap<String, i64>) -> Result<Vec<u64>, SpecError> {
    let names = dims.keys().cloned().collect();
    let scope = Scope::of_dims(dims);
    let extent = |text: &String| {
        let failed = |why| SpecError::Expression { place: format!("shape {shape:?}"), why };
        let value =
            Expression::parse(text, &names).and_then(|e| e.integer(&scope)).map_err(failed)?;
        u64::try_from(value).ok().filter(|_| (1..=EXTENT_MAX).contains(&value)).ok_or_else(|| {
            let range = format!("it must be in 1..={EXTENT_MAX}");
            SpecError::Shape(format!("extent `{text}` is {value} at {dims:?}; {range}"))
        })
    };
    shape.iter().map(extent).collect()
}

fn rule(holds: bool, why: &str) -> Result<(), SpecError> {
    if holds { Ok(()) } else { Err(SpecError::Rule(why.to_owned())) }
}

/// Whether a task may have this name.
///
/// # Errors
/// What a name may be made of.
pub fn check_task_name(name: &str) -> Result<(), SpecError> {
    lower_case_name("task", name)
}

fn lower_case_name(what: &'static str, name: &str) -> Result<(), SpecError> {
    let failed = |why| Err(SpecError::Name { what, name: name.to_owned(), why });
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    if name.len() > 64
        || !name.starts_with(|c: char| c.is_ascii_lowercase())
        || !name.chars().all(allowed)
    {
        return failed("write lower-case letters, digits and `_`, a letter first, at most 64");
    }
    if RESERVED_WORDS.contains(&name) || FACT_NAMES.contains(&name) {
        return failed("it has a meaning of its own in expressions");
    }
    Ok(())
}
