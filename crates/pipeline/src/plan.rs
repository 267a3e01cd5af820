//! The launch plan: the declarative host side of a candidate.
//!
//! [`form`] is the TOML as written; [`Plan`] is the same after every check that needs no shape.
//! What needs a shape is in [`crate::launch`]. Every error says how to mend the plan.

pub mod form;
mod identity;
mod names;
pub mod single;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::device_facts::FACT_NAMES;
use crate::dtype::Dtype;
use crate::expression::{Expression, ExpressionError, RESERVED_WORDS};
use crate::limits::{
    ARGS_MAX, CONDITIONS_MAX, DIAGNOSIS_CHARS_MAX, PLAN_BYTES_MAX, STEPS_MAX, TENSOR_MAPS_MAX,
    TUNABLE_POINTS_MAX, TUNABLE_VALUES_MAX, TUNABLES_MAX, WORKSPACES_MAX,
};
use crate::task::signature::{BufferUse, Signature};
use crate::task::spec::Precision;
use form::{Algorithm, Diagnosis, Initial, Lifetime, OutOfBounds, PlanForm, StepForm, Swizzle};
use identity::Identity;
use names::{check_kernel_name, check_own_name, check_tunable};

/// A checked plan. Expressions name only what they may; names are unique; caps hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    pub precision: Precision,
    pub algorithm: Algorithm,
    pub deterministic: bool,
    pub in_place: Vec<String>,
    pub domain: Vec<Expression>,
    pub constraints: Vec<Expression>,
    pub tunables: BTreeMap<String, Vec<i64>>,
    pub workspaces: Vec<Workspace>,
    pub tensor_maps: Vec<TensorMap>,
    pub prepare: Vec<Step>,
    pub steps: Vec<Step>,
    #[serde(skip)]
    pub diagnosis: Option<Diagnosis>,
    #[serde(skip)]
    identity: Identity,
}

/// Scratch memory that the harness provides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Workspace {
    pub name: String,
    pub dtype: Dtype,
    pub len: Expression,
    pub init: Initial,
    pub lifetime: Lifetime,
}

/// A TMA descriptor that the harness encodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TensorMap {
    pub name: String,
    pub tensor: String,
    pub dims: Vec<Expression>,
    pub strides: Vec<Expression>,
    pub box_: Vec<Expression>,
    pub swizzle: Swizzle,
    pub oob: OutOfBounds,
}

/// One thing the harness does on the stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Step {
    Memset { buffer: String, byte: u8 },
    Kernel(Box<KernelStep>),
}

/// A kernel launch with expressions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelStep {
    /// A C++ name expression, without blanks at its ends.
    pub kernel: String,
    pub grid: [Expression; 3],
    pub block: [Expression; 3],
    pub cluster: [Expression; 3],
    pub shared_bytes: Expression,
    pub cooperative: bool,
    pub pdl: bool,
    pub args: Vec<Arg>,
}

/// What is passed for one kernel parameter.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Arg {
    /// The device pointer of an input, output or workspace.
    Buffer(String),
    TensorMap(String),
    /// A float scalar of the task.
    Scalar(String),
    Integer(Expression),
}

/// Why a plan is not acceptable: `Malformed/PLAN`, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("the plan is {0} bytes; at most {PLAN_BYTES_MAX} are read")]
    TooLong(usize),
    #[error("the plan is not valid TOML of the plan format: {0}")]
    Toml(String),
    #[error("`plan = {0}` is not a format this program reads; write `plan = 1`")]
    Version(i64),
    #[error("the plan has {got} {what}; at most {most} are allowed")]
    TooMany { what: &'static str, got: usize, most: usize },
    #[error("the plan has no [[step]] with a kernel; add one")]
    NoKernel,
    #[error("{place}: {why}")]
    Expression { place: String, why: ExpressionError },
    #[error("{place}: {why}")]
    Rule { place: String, why: String },
}

impl Plan {
    /// Parses and checks a plan against what it may refer to.
    ///
    /// # Errors
    /// The first violation, with its place in the plan and the way out.
    pub fn parse(text: &str, signature: &Signature) -> Result<Self, PlanError> {
        if text.len() > PLAN_BYTES_MAX {
            return Err(PlanError::TooLong(text.len()));
        }
        let form = PlanForm::parse(text).map_err(PlanError::Toml)?;
        if form.plan != 1 {
            return Err(PlanError::Version(form.plan));
        }
        check_counts(&form)?;
        Checker::new(signature, &form)?.plan(form)
    }

    /// The default values of the tunables: the first of each.
    #[must_use]
    pub fn default_tunables(&self) -> BTreeMap<String, i64> {
        self.tunables.iter().map(|(name, values)| (name.clone(), values[0])).collect()
    }

    /// Kernel steps of `prepare` and `steps`, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &KernelStep> {
        self.prepare.iter().chain(&self.steps).filter_map(|step| match step {
            Step::Kernel(kernel) => Some(kernel.as_ref()),
            Step::Memset { .. } => None,
        })
    }

    /// Distinct name expressions of the kernels, in order of first use.
    #[must_use]
    pub fn kernel_names(&self) -> Vec<String> {
        let mut seen = BTreeSet::new();
        let names = self.kernels().map(|step| step.kernel.clone());
        names.filter(|name| seen.insert(name.clone())).collect()
    }
}

fn check_counts(form: &PlanForm) -> Result<(), PlanError> {
    let lengths = form.tunables.values().map(Vec::len);
    let points = lengths.fold(1usize, usize::saturating_mul);
    let values = form.tunables.values().map(Vec::len).max().unwrap_or(0);
    for (what, got, most) in [
        ("steps", form.steps.len() + form.prepare.len(), STEPS_MAX),
        ("workspaces", form.workspaces.len(), WORKSPACES_MAX),
        ("tensor maps", form.tensor_maps.len(), TENSOR_MAPS_MAX),
        ("domain conditions", form.domain.len(), CONDITIONS_MAX),
        ("constraints", form.constraints.len(), CONDITIONS_MAX),
        ("tunables", form.tunables.len(), TUNABLES_MAX),
        ("values of one tunable", values, TUNABLE_VALUES_MAX),
        ("tunable points", points, TUNABLE_POINTS_MAX),
    ] {
        if got > most {
            return Err(PlanError::TooMany { what, got, most });
        }
    }
    Ok(())
}

/// Carries the sets of names while a form is turned into a plan.
struct Checker<'a> {
    signature: &'a Signature,
    workspaces: BTreeSet<String>,
    prepared: BTreeSet<String>,
    /// Tensor by map.
    maps: BTreeMap<String, String>,
    /// Dims, tunables and device facts.
    names: BTreeSet<String>,
}

impl<'a> Checker<'a> {
    fn new(signature: &'a Signature, form: &PlanForm) -> Result<Self, PlanError> {
        let mut taken: BTreeSet<String> = signature.buffers.keys().cloned().collect();
        taken.extend(signature.scalars.keys().chain(&signature.dims).cloned());
        taken.extend(FACT_NAMES.iter().chain(&RESERVED_WORDS).map(|name| (*name).to_owned()));
        let workspaces = form.workspaces.iter().map(|w| ("workspace", &w.name));
        let maps = form.tensor_maps.iter().map(|m| ("tensor map", &m.name));
        for (what, name) in workspaces.chain(maps) {
            check_own_name(what, name)?;
            if !taken.insert(name.clone()) {
                return Err(rule(format!("{what} `{name}`"), "the name is taken; choose another"));
            }
        }
        let mut names: BTreeSet<String> = signature.dims.clone();
        names.extend(FACT_NAMES.iter().map(|name| (*name).to_owned()));
        for (name, values) in &form.tunables {
            check_tunable(name, values)?;
            names.insert(name.clone());
        }
        let prepared = form.workspaces.iter().filter(|w| w.lifetime == Lifetime::Prepared);
        Ok(Self {
            signature,
            workspaces: form.workspaces.iter().map(|w| w.name.clone()).collect(),
            prepared: prepared.map(|w| w.name.clone()).collect(),
            maps: form.tensor_maps.iter().map(|m| (m.name.clone(), m.tensor.clone())).collect(),
            names,
        })
    }

    fn plan(&self, form: PlanForm) -> Result<Plan, PlanError> {
        let precision = self.precision(form.precision)?;
        self.check_in_place(&form.in_place)?;
        let dims = &self.signature.dims;
        let workspaces = form.workspaces.iter().map(|w| self.workspace(w));
        let plan = Plan {
            precision,
            algorithm: self.algorithm(form.algorithm)?,
            deterministic: form.deterministic,
            domain: parse_all("domain", &form.domain, dims)?,
            constraints: parse_all("constraints", &form.constraints, &self.names)?,
            workspaces: workspaces.collect::<Result<_, _>>()?,
            tensor_maps: form.tensor_maps.iter().map(|m| self.map(m)).collect::<Result<_, _>>()?,
            prepare: self.steps("prepare", &form.prepare)?,
            steps: self.steps("step", &form.steps)?,
            in_place: form.in_place,
            tunables: form.tunables,
            diagnosis: form.diagnosis,
            identity: Identity::default(),
        };
        self.check_prepared(&plan.prepare)?;
        let kernel = |step: &Step| matches!(step, Step::Kernel(_));
        if plan.steps.iter().any(kernel) { plan.identified() } else { Err(PlanError::NoKernel) }
    }

    /// A workspace that outlives a call must get its content from `prepare`, not from calls.
    fn check_prepared(&self, prepare: &[Step]) -> Result<(), PlanError> {
        let names = |step: &Step, name: &str| match step {
            Step::Memset { buffer, .. } => buffer == name,
            Step::Kernel(kernel) => kernel.args.iter().any(|arg| match arg {
                Arg::Buffer(buffer) => buffer == name,
                Arg::TensorMap(map) => self.maps.get(map).is_some_and(|tensor| tensor == name),
                Arg::Scalar(_) | Arg::Integer(_) => false,
            }),
        };
        match self.prepared.iter().find(|name| !prepare.iter().any(|step| names(step, name))) {
            None => Ok(()),
            Some(name) => Err(rule(
                format!("workspace `{name}`"),
                "its lifetime is `prepared`, but no [[prepare]] step writes it",
            )),
        }
    }

    fn precision(&self, declared: Precision) -> Result<Precision, PlanError> {
        if self.signature.classes.contains(&declared) {
            return Ok(declared);
        }
        let admitted: Vec<_> = self.signature.classes.iter().map(|class| class.name()).collect();
        Err(rule(
            "precision",
            format!(
                "`{}` is not admitted here; the task admits {}",
                declared.name(),
                admitted.join(", ")
            ),
        ))
    }

    fn algorithm(&self, declared: Algorithm) -> Result<Algorithm, PlanError> {
        let unsuited = self.signature.family.as_ref().filter(|family| !declared.suits(family));
        let Some(family) = unsuited else { return Ok(declared) };
        let name = declared.name();
        let why = format!("no `{family}` is computed by `{name}`; write \"direct\"");
        Err(rule("algorithm", why))
    }

    fn check_in_place(&self, names: &[String]) -> Result<(), PlanError> {
        let allowed = &self.signature.may_overwrite;
        let Some(name) = names.iter().find(|name| !allowed.contains(*name)) else { return Ok(()) };
        let listed = allowed.iter().cloned().reduce(|all, name| format!("{all}, {name}"));
        let listed = listed.as_deref().unwrap_or("none");
        let why = format!("`{name}` may not be overwritten; the task allows {listed}");
        Err(rule("in_place", why))
    }

    fn workspace(&self, form: &form::WorkspaceForm) -> Result<Workspace, PlanError> {
        let place = format!("workspace `{}`, len", form.name);
        Ok(Workspace {
            name: form.name.clone(),
            dtype: form.dtype,
            len: parse(&place, &form.len, &self.names)?,
            init: form.init,
            lifetime: form.lifetime,
        })
    }

    fn map(&self, form: &form::TensorMapForm) -> Result<TensorMap, PlanError> {
        let place = format!("tensor_map `{}`", form.name);
        let known = self.signature.buffers.contains_key(&form.tensor)
            || self.workspaces.contains(&form.tensor);
        if !known {
            return Err(rule(place, format!("`{}` is no tensor or workspace", form.tensor)));
        }
        let rank = form.dims.len();
        if !(1..=5).contains(&rank) || form.strides.len() + 1 != rank || form.box_.len() != rank {
            let why = "needs 1 to 5 dims, as many box entries, and one stride fewer";
            return Err(rule(place, why));
        }
        Ok(TensorMap {
            name: form.name.clone(),
            tensor: form.tensor.clone(),
            dims: parse_all(&place, &form.dims, &self.names)?,
            strides: parse_all(&place, &form.strides, &self.names)?,
            box_: parse_all(&place, &form.box_, &self.names)?,
            swizzle: form.swizzle,
            oob: form.oob,
        })
    }

    fn steps(&self, what: &str, forms: &[StepForm]) -> Result<Vec<Step>, PlanError> {
        let place = |i: usize| format!("{what} {}", i + 1);
        let follows_kernel = |i: usize| i > 0 && forms[i - 1].kernel.is_some();
        let mut dependent = (0..forms.len()).filter(|i| forms[*i].pdl == Some(true));
        if let Some(i) = dependent.find(|i| !follows_kernel(*i)) {
            return Err(rule(place(i), "`pdl` needs a kernel step right before it"));
        }
        let numbered = forms.iter().enumerate();
        numbered.map(|(i, form)| self.step(&place(i), what, form)).collect()
    }

    fn step(&self, place: &str, what: &str, form: &StepForm) -> Result<Step, PlanError> {
        match (&form.memset, &form.kernel) {
            (Some(buffer), None) if what == "prepare" && !self.prepared.contains(buffer) => {
                Err(rule(place, format!("prepare writes only prepared workspaces, not `{buffer}`")))
            }
            (Some(buffer), None) if what == "step" && self.prepared.contains(buffer) => {
                Err(rule(place, format!("`{buffer}` is prepared: only [[prepare]] steps write it")))
            }
            (Some(buffer), None) => self.memset(place, buffer, form),
            (None, Some(kernel)) => self.kernel(place, kernel, form, what == "prepare"),
            _ => Err(rule(place, "needs either `kernel = \"name\"` or `memset = \"buffer\"`")),
        }
    }

    fn memset(&self, place: &str, buffer: &str, form: &StepForm) -> Result<Step, PlanError> {
        let output =
            self.signature.buffers.get(buffer).is_some_and(|b| b.use_ == BufferUse::Output);
        if !output && !self.workspaces.contains(buffer) {
            return Err(rule(place, format!("memset of `{buffer}`: only outputs and workspaces")));
        }
        if form.has_kernel_fields() {
            return Err(rule(place, "a memset step has only `memset` and `byte`"));
        }
        let byte = form.byte.unwrap_or(0);
        let byte = u8::try_from(byte).map_err(|_| rule(place, "`byte` must be in 0..=255"))?;
        Ok(Step::Memset { buffer: buffer.to_owned(), byte })
    }

    fn kernel(
        &self,
        place: &str,
        kernel: &str,
        form: &StepForm,
        prepare: bool,
    ) -> Result<Step, PlanError> {
        let kernel = kernel.trim();
        check_kernel_name(place, kernel)?;
        let place = format!("{place} (`{kernel}`)");
        if form.byte.is_some() {
            return Err(rule(place, "`byte` belongs to a memset step"));
        }
        if form.args.len() > ARGS_MAX {
            return Err(PlanError::TooMany {
                what: "arguments",
                got: form.args.len(),
                most: ARGS_MAX,
            });
        }
        let grid = form.grid.as_ref().ok_or_else(|| rule(&place, "`grid` is missing"))?;
        let block = form.block.as_ref().ok_or_else(|| rule(&place, "`block` is missing"))?;
        let one = vec!["1".to_owned(); 3];
        let args = form.args.iter().enumerate();
        Ok(Step::Kernel(Box::new(KernelStep {
            kernel: kernel.to_owned(),
            grid: self.triple(&format!("{place}, grid"), grid)?,
            block: self.triple(&format!("{place}, block"), block)?,
            cluster: self
                .triple(&format!("{place}, cluster"), form.cluster.as_ref().unwrap_or(&one))?,
            shared_bytes: parse(
                &format!("{place}, shared_bytes"),
                form.shared_bytes.as_deref().unwrap_or("0"),
                &self.names,
            )?,
            cooperative: form.cooperative.unwrap_or(false),
            pdl: form.pdl.unwrap_or(false),
            args: args
                .map(|(i, arg)| self.arg(&format!("{place}, argument {}", i + 1), arg, prepare))
                .collect::<Result<_, _>>()?,
        })))
    }

    fn triple(&self, place: &str, texts: &[String]) -> Result<[Expression; 3], PlanError> {
        if texts.is_empty() || texts.len() > 3 {
            return Err(rule(place, "needs one to three expressions: [x, y, z]"));
        }
        let text = |axis: usize| texts.get(axis).map_or("1", String::as_str);
        let parse = |axis: usize| parse(place, text(axis), &self.names);
        Ok([parse(0)?, parse(1)?, parse(2)?])
    }

    fn arg(&self, place: &str, text: &str, prepare: bool) -> Result<Arg, PlanError> {
        if let Some(buffer) = self.signature.buffers.get(text) {
            if prepare && !buffer.is_weight {
                return Err(rule(place, format!("prepare may not touch `{text}`, only weights")));
            }
            return Ok(Arg::Buffer(text.to_owned()));
        }
        if self.workspaces.contains(text) {
            if prepare && !self.prepared.contains(text) {
                return Err(rule(
                    place,
                    format!("prepare writes only prepared workspaces, not `{text}`"),
                ));
            }
            return Ok(Arg::Buffer(text.to_owned()));
        }
        if let Some(tensor) = self.maps.get(text) {
            // What prepare may not touch, it may not touch through a map either.
            self.arg(place, tensor, prepare)?;
            return Ok(Arg::TensorMap(text.to_owned()));
        }
        if self.signature.scalars.contains_key(text) {
            return Ok(Arg::Scalar(text.to_owned()));
        }
        parse(place, text, &self.names).map(Arg::Integer).map_err(|error| self.unknown_arg(error))
    }

    fn unknown_arg(&self, error: PlanError) -> PlanError {
        let PlanError::Expression { place, why: ExpressionError::UnknownName { name, known, .. } } =
            error
        else {
            return error;
        };
        let buffers: Vec<_> =
            self.signature.buffers.keys().chain(&self.workspaces).cloned().collect();
        let scalars: Vec<_> = self.signature.scalars.keys().cloned().collect();
        let why = format!(
            "`{name}` is unknown; buffers are {}; scalars are {}; integers may use {known}",
            listed(&buffers),
            listed(&scalars),
        );
        PlanError::Rule { place, why }
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

fn rule(place: impl Into<String>, why: impl Into<String>) -> PlanError {
    PlanError::Rule { place: place.into(), why: why.into() }
}

fn parse(place: &str, text: &str, names: &BTreeSet<String>) -> Result<Expression, PlanError> {
    Expression::parse(text, names)
        .map_err(|why| PlanError::Expression { place: place.to_owned(), why })
}

fn parse_all(
    place: &str,
    texts: &[String],
    names: &BTreeSet<String>,
) -> Result<Vec<Expression>, PlanError> {
    texts.iter().map(|text| parse(place, text, names)).collect()
}

/// The characters of a diagnosis note that are kept.
#[must_use]
pub fn capped_note(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(DIAGNOSIS_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
