//! One operator: dimensions, tensors, reference, cases, tolerances and its known-bad kernels.
//!
//! A task is a folder of texts; [`Task::from_files`] takes them as a map, so that nothing here
//! touches a disk. [`spec`] is the form of `task.toml`, [`signature`] what a plan may refer to,
//! [`golden`] the independent case that the reference must reproduce.

pub mod baselines;
pub mod golden;
mod kinds;
pub mod signature;
pub mod spec;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::digest::Digest;
use crate::plan::{Plan, PlanError};
use crate::toml_error::one_line;
use crate::verdict::{Kind, Reason};
use baselines::{BaselineSource, CustomBaseline};
use golden::Golden;
use signature::Signature;
use spec::{Case, Place, SpecError, TaskSpec};

/// The operator as a PyTorch module.
const MODULE_FILE: &str = "reference.py";

/// A task whose files were read and found consistent.
#[derive(Clone, Debug)]
pub struct Task {
    /// Hash of every file of the task, names included.
    pub hash: Digest,
    pub spec: TaskSpec,
    pub reference: Reference,
    pub golden: Golden,
    pub wrong: Vec<WrongKernel>,
    /// Text of `reference.py`: the operator as a PyTorch module.
    pub module: Option<String>,
    /// Kernels that the task names as baselines.
    pub kernels: Vec<BaselineKernel>,
}

/// The fp64 kernel that defines the right answer, and its error bound.
#[derive(Clone, Debug)]
pub struct Reference {
    pub source: String,
    pub plan: Plan,
}

/// A kernel that the judge must reject, with what it must say.
#[derive(Clone, Debug)]
pub struct WrongKernel {
    pub name: String,
    pub source: String,
    /// The plan text, without the `[expect]` table.
    pub plan: String,
    pub expect: Expectation,
}

/// A kernel that a candidate is compared with.
#[derive(Clone, Debug)]
pub struct BaselineKernel {
    pub name: String,
    pub source: String,
    pub plan: Plan,
}

/// The verdict that a wrong kernel must get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    pub kind: Kind,
    pub reason: Reason,
    /// The case that must show it, where one is named.
    pub case: Option<String>,
}

/// Why a task folder is not a task.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    #[error("task file `{0}` is missing")]
    MissingFile(String),
    #[error("task file `{0}` is not one that a task may have; remove or rename it")]
    UnknownFile(String),
    #[error("task file `{0}` is not UTF-8 text")]
    NotText(String),
    #[error("task file `{file}`: {why}")]
    Toml { file: String, why: String },
    #[error("task file `task.toml`: {0}")]
    Spec(#[from] SpecError),
    #[error("task file `{file}`: {why}")]
    Plan { file: String, why: PlanError },
    #[error("task file `golden.json`: {0}")]
    Golden(String),
    #[error("task file `{file}`: {why}")]
    Expect { file: String, why: String },
}

impl Task {
    /// Reads a task from its files: path inside the folder → bytes.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn from_files(files: &BTreeMap<String, Vec<u8>>) -> Result<Self, TaskError> {
        check_file_names(files)?;
        let spec: TaskSpec = parse_toml("task.toml", text(files, "task.toml")?)?;
        spec.check()?;
        let reference = Reference {
            source: text(files, "reference.cu")?.to_owned(),
            plan: Plan::parse(text(files, "reference.toml")?, &Signature::of_reference(&spec))
                .map_err(|why| TaskError::Plan { file: "reference.toml".to_owned(), why })?,
        };
        let golden =
            Golden::parse(text(files, "golden.json")?, &spec).map_err(TaskError::Golden)?;
        let wrong = wrong_kernels(files)?;
        let module = files.contains_key(MODULE_FILE).then(|| text(files, MODULE_FILE));
        let module = module.transpose()?.map(str::to_owned);
        let kernels = baseline_kernels(files, &spec)?;
        let hash = hash_files(files);
        Ok(Self { hash, spec, reference, golden, wrong, module, kernels })
    }

    /// The public cases that run at `place`.
    pub fn cases(&self, place: Place) -> impl Iterator<Item = &Case> {
        self.spec.cases.iter().filter(move |case| case.on.contains(&place))
    }

    /// What a candidate's plan may refer to.
    #[must_use]
    pub fn signature(&self) -> Signature {
        Signature::of_candidate(&self.spec)
    }
}

fn hash_files(files: &BTreeMap<String, Vec<u8>>) -> Digest {
    let parts: Vec<&[u8]> =
        files.iter().flat_map(|(name, bytes)| [name.as_bytes(), bytes.as_slice()]).collect();
    Digest::of_parts("task", &parts)
}

fn check_file_names(files: &BTreeMap<String, Vec<u8>>) -> Result<(), TaskError> {
    const KNOWN: [&str; 7] = [
        "task.toml",
        "reference.cu",
        "reference.toml",
        "golden.json",
        "golden.py",
        MODULE_FILE,
        "README.md",
    ];
    for name in files.keys() {
        let is_kernel = |folder: &str| {
            name.strip_prefix(folder).is_some_and(|rest| {
                !rest.contains('/') && (rest.ends_with(".cu") || rest.ends_with(".toml"))
            })
        };
        if !is_kernel("wrong/") && !is_kernel("baseline/") && !KNOWN.contains(&name.as_str()) {
            return Err(TaskError::UnknownFile(name.clone()));
        }
    }
    Ok(())
}

fn text<'a>(files: &'a BTreeMap<String, Vec<u8>>, name: &str) -> Result<&'a str, TaskError> {
    let bytes = files.get(name).ok_or_else(|| TaskError::MissingFile(name.to_owned()))?;
    std::str::from_utf8(bytes).map_err(|_| TaskError::NotText(name.to_owned()))
}

fn parse_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, TaskError> {
    toml::from_str(text)
        .map_err(|error| TaskError::Toml { file: file.to_owned(), why: one_line(&error, text) })
}

/// The kernels that `[[baseline]]` tables name, in their order.
fn baseline_kernels(
    files: &BTreeMap<String, Vec<u8>>,
    spec: &TaskSpec,
) -> Result<Vec<BaselineKernel>, TaskError> {
    let signature = Signature::of_candidate(spec);
    let kernel = |baseline: &CustomBaseline| {
        let BaselineSource::Kernel(stem) = baseline.source().ok()? else { return None };
        let read = || {
            let (code, plan) = (format!("{stem}.cu"), format!("{stem}.toml"));
            let source = text(files, &code)?.to_owned();
            let parsed = Plan::parse(text(files, &plan)?, &signature);
            let plan = parsed.map_err(|why| TaskError::Plan { file: plan, why })?;
            Ok(BaselineKernel { name: baseline.name.clone(), source, plan })
        };
        Some(read())
    };
    spec.baselines.iter().filter_map(kernel).collect()
}

fn wrong_kernels(files: &BTreeMap<String, Vec<u8>>) -> Result<Vec<WrongKernel>, TaskError> {
    let names = files.keys().filter_map(|path| path.strip_prefix("wrong/")?.strip_suffix(".cu"));
    names.map(|name| wrong_kernel(files, name)).collect()
}

fn wrong_kernel(files: &BTreeMap<String, Vec<u8>>, name: &str) -> Result<WrongKernel, TaskError> {
    let source = text(files, &format!("wrong/{name}.cu"))?.to_owned();
    let file = format!("wrong/{name}.toml");
    let mut table: toml::Table = parse_toml(&file, text(files, &file)?)?;
    let expect = table.remove("expect").ok_or_else(|| TaskError::Expect {
        file: file.clone(),
        why: "has no [expect] table with kind and reason".to_owned(),
    })?;
    let expect =
        expectation(&expect).map_err(|why| TaskError::Expect { file: file.clone(), why })?;
    let plan = toml::to_string(&table)
        .map_err(|why| TaskError::Toml { file: file.clone(), why: why.to_string() })?;
    Ok(WrongKernel { name: name.to_owned(), source, plan, expect })
}

fn expectation(value: &toml::Value) -> Result<Expectation, String> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Raw {
        kind: String,
        reason: String,
        case: Option<String>,
    }
    let raw = Raw::deserialize(value.clone()).map_err(|error| error.to_string())?;
    let kind = Kind::from_name(&raw.kind).ok_or(format!("unknown kind `{}`", raw.kind))?;
    let reason =
        Reason::from_code(&raw.reason).ok_or(format!("unknown reason `{}`", raw.reason))?;
    if kind == Kind::BuildFailed {
        return Err("a wrong kernel that merely fails to build proves nothing".to_owned());
    }
    if !reason.kinds().contains(&kind) {
        return Err(format!("{} never carries {}", raw.kind, raw.reason));
    }
    Ok(Expectation { kind, reason, case: raw.case })
}

#[cfg(test)]
pub(crate) mod tests;
