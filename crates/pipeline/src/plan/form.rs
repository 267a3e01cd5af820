//! The plan's TOML, field by field, before any rule is applied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::limits::{FAST_ALGORITHM_BOUND, FAST_ALGORITHM_NORM};
use crate::plan::capped_note;
use crate::task::spec::Precision;
use crate::toml_error::one_line;

/// The whole plan as written.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PlanForm {
    pub plan: i64,
    pub precision: Precision,
    #[serde(default)]
    pub algorithm: Algorithm,
    #[serde(default = "yes")]
    pub deterministic: bool,
    #[serde(default)]
    pub in_place: Vec<String>,
    #[serde(default)]
    pub domain: Vec<String>,
    #[serde(default)]
    pub constraints: Vec<String>,
    #[serde(default)]
    pub tunables: BTreeMap<String, Vec<i64>>,
    #[serde(default, rename = "workspace")]
    pub workspaces: Vec<WorkspaceForm>,
    #[serde(default, rename = "tensor_map")]
    pub tensor_maps: Vec<TensorMapForm>,
    #[serde(default)]
    pub prepare: Vec<StepForm>,
    #[serde(rename = "step", default)]
    pub steps: Vec<StepForm>,
    /// A diagnosis that is missing or out of list is `None`, never an error.
    #[serde(default, deserialize_with = "lenient_diagnosis")]
    pub diagnosis: Option<Diagnosis>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkspaceForm {
    pub name: String,
    pub dtype: Dtype,
    pub len: String,
    #[serde(default)]
    pub init: Initial,
    #[serde(default)]
    pub lifetime: Lifetime,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TensorMapForm {
    pub name: String,
    pub tensor: String,
    pub dims: Vec<String>,
    #[serde(default)]
    pub strides: Vec<String>,
    #[serde(rename = "box")]
    pub box_: Vec<String>,
    #[serde(default)]
    pub swizzle: Swizzle,
    #[serde(default)]
    pub oob: OutOfBounds,
}

/// A step: either a memset or a kernel; which one is checked later, for a better message.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepForm {
    pub memset: Option<String>,
    pub byte: Option<i64>,
    pub kernel: Option<String>,
    pub grid: Option<Vec<String>>,
    pub block: Option<Vec<String>>,
    pub cluster: Option<Vec<String>>,
    pub shared_bytes: Option<String>,
    pub cooperative: Option<bool>,
    pub pdl: Option<bool>,
    #[serde(default)]
    pub args: Vec<String>,
}

/// Declared algorithm; those with larger error constants must be named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    #[default]
    Direct,
    Winograd,
    Fft,
    Strassen,
}

impl Algorithm {
    /// The name, as in plans.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Winograd => "winograd",
            Self::Fft => "fft",
            Self::Strassen => "strassen",
        }
    }

    /// True where an operator of the family can be computed so.
    #[must_use]
    pub fn suits(self, family: &str) -> bool {
        match self {
            Self::Direct => true,
            Self::Winograd | Self::Fft => family == "conv",
            Self::Strassen => family == "gemm",
        }
    }

    /// Factor by which no element's bound is less than the largest one of its output: a fast
    /// algorithm adds and takes away what does not belong to the element. 0 for the direct one.
    #[must_use]
    pub fn shared_bound(self) -> f64 {
        match self {
            Self::Direct => 0.0,
            Self::Winograd | Self::Fft | Self::Strassen => FAST_ALGORITHM_BOUND,
        }
    }

    /// The norm-wise limit, given that of the direct algorithm.
    #[must_use]
    pub fn norm_limit(self, direct: f64) -> f64 {
        match self {
            Self::Direct => direct,
            Self::Winograd | Self::Fft | Self::Strassen => direct.max(FAST_ALGORITHM_NORM),
        }
    }
}

/// What a workspace holds before the first step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initial {
    /// Anything: the harness poisons it.
    #[default]
    None,
    Zero,
}

/// How long the content of a workspace lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Lifetime {
    #[default]
    Call,
    /// Written once by `prepare` steps.
    Prepared,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Swizzle {
    #[default]
    #[serde(rename = "none")]
    None,
    #[serde(rename = "32B")]
    Bytes32,
    #[serde(rename = "64B")]
    Bytes64,
    #[serde(rename = "128B")]
    Bytes128,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OutOfBounds {
    #[default]
    Zero,
    Nan,
}

/// The model's short diagnosis before it coded; recorded, never a reason to reject.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// `repair` or `optimise`.
    pub mode: String,
    /// The defect or bottleneck, from [`CAUSES`].
    pub cause: String,
    pub evidence: Vec<String>,
    pub change: String,
    pub expected_speedup: Option<f64>,
}

/// Words that a diagnosis may use for a defect or bottleneck.
pub const CAUSES: [&str; 9] = [
    "memory_bandwidth",
    "latency",
    "compute",
    "occupancy",
    "shared_conflicts",
    "launch",
    "tail",
    "sync",
    "other",
];

impl PlanForm {
    /// Reads the TOML.
    ///
    /// # Errors
    /// The parser's message with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| one_line(&error, text))
    }
}

impl StepForm {
    /// True when a field is set that only a kernel step has.
    #[must_use]
    pub fn has_kernel_fields(&self) -> bool {
        let optional = [&self.grid, &self.block, &self.cluster].iter().any(|field| field.is_some());
        let flags = self.cooperative.is_some() || self.pdl.is_some();
        optional || flags || self.shared_bytes.is_some() || !self.args.is_empty()
    }
}

fn yes() -> bool {
    true
}

fn lenient_diagnosis<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Diagnosis>, D::Error> {
    let value = toml::Value::deserialize(deserializer)?;
    Ok(value.as_table().and_then(diagnosis))
}

fn diagnosis(table: &toml::Table) -> Option<Diagnosis> {
    let text = |key: &str| table.get(key).and_then(toml::Value::as_str).map(capped_note);
    let mode = text("mode").filter(|mode| mode == "repair" || mode == "optimise")?;
    let cause = text("defect").or_else(|| text("bottleneck"))?;
    let evidence = table.get("evidence").and_then(toml::Value::as_array);
    let speedup = table.get("expected_speedup");
    CAUSES.contains(&cause.as_str()).then(|| Diagnosis {
        mode,
        cause,
        evidence: evidence.map_or_else(Vec::new, |items| {
            items.iter().filter_map(toml::Value::as_str).take(8).map(capped_note).collect()
        }),
        change: text("change").unwrap_or_default(),
        expected_speedup: speedup
            .and_then(|value| value.as_float().or_else(|| value.as_integer().map(|i| i as f64))),
    })
}
