//! What a kernel is compared with: which baselines there are, their numerics, and when a window of
//! one is void.
//!
//! A [`BaselineId`] names one baseline under one math mode; it says nothing about who performs it.
//! The flags of a framework are plain words here, set by whoever performs the baseline, read back
//! by it and compared by [`void_reason`]. [`gemm`] is the call that a vendor's library serves.

pub mod gemm;

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::limits::BASELINE_NAME_CHARS_MAX;
use crate::task::spec::Precision;

/// Settings of a framework by their names in it, as text.
pub type Flags = BTreeMap<String, String>;

/// What a variable of the environment that is not set reads as.
pub const UNSET: &str = "(unset)";

/// Variables that change what a framework computes or how fast. All are recorded; those that
/// [`torch_flags`] names must not be set.
pub const ENVIRONMENT: [&str; 7] = [
    "NVIDIA_TF32_OVERRIDE",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "CUBLAS_WORKSPACE_CONFIG",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_MODULE_LOADING",
    "PYTORCH_CUDA_ALLOC_CONF",
    "TORCHINDUCTOR_COMPILE_THREADS",
];

/// What computes a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// PyTorch, operator by operator.
    Eager,
    /// `torch.compile`.
    Compile,
    /// `torch.compile` that tries many kernels, without graphs, which would copy inputs.
    MaxAutotune,
    /// The GPU vendor's library.
    Vendor,
    /// One that the task names.
    Custom(String),
    /// The task's own plain kernel.
    Naive,
}

/// Whether a framework may round what it multiplies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MathMode {
    /// fp32 stays fp32.
    Strict,
    /// TF32 and sums in 16 bits are allowed.
    Fast,
}

/// One baseline; as text, its stable name, such as `max-autotune-strict`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BaselineId {
    pub kind: BaselineKind,
    pub math: MathMode,
}

impl BaselineId {
    /// Every baseline that PyTorch performs.
    #[must_use]
    pub fn all_of_torch() -> Vec<Self> {
        let kinds = [BaselineKind::Eager, BaselineKind::Compile, BaselineKind::MaxAutotune];
        let modes = [MathMode::Strict, MathMode::Fast];
        kinds
            .into_iter()
            .flat_map(|kind| modes.map(|math| Self { kind: kind.clone(), math }))
            .collect()
    }

    /// The name in files and records: letters, digits, `-` and `_`.
    #[must_use]
    pub fn name(&self) -> String {
        let math = match self.math {
            MathMode::Strict => "strict",
            MathMode::Fast => "fast",
        };
        match &self.kind {
            BaselineKind::Eager => format!("eager-{math}"),
            BaselineKind::Compile => format!("compile-{math}"),
            BaselineKind::MaxAutotune => format!("max-autotune-{math}"),
            BaselineKind::Vendor => format!("vendor-{math}"),
            BaselineKind::Custom(name) => format!("custom-{name}-{math}"),
            BaselineKind::Naive => format!("naive-{math}"),
        }
    }

    /// The baseline of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let (kind, math) = name.rsplit_once('-')?;
        let math = match math {
            "strict" => MathMode::Strict,
            "fast" => MathMode::Fast,
            _ => return None,
        };
        let kind = match kind {
            "eager" => BaselineKind::Eager,
            "compile" => BaselineKind::Compile,
            "max-autotune" => BaselineKind::MaxAutotune,
            "vendor" => BaselineKind::Vendor,
            "naive" => BaselineKind::Naive,
            other => {
                let custom = other.strip_prefix("custom-")?;
                is_custom_name(custom).then(|| BaselineKind::Custom(custom.to_owned()))?
            }
        };
        Some(Self { kind, math })
    }

    /// Whether a claim about a kernel of this class must stand against it. One that computes in
    /// fp32 competes with every class, one that may round only with classes that round as well.
    #[must_use]
    pub fn admissible_for(&self, class: Precision) -> bool {
        match self.math {
            MathMode::Strict => true,
            MathMode::Fast => class > Precision::Fp32,
        }
    }

    /// True where the claim against it is one against a framework or a vendor's library, not only
    /// against a plain kernel.
    #[must_use]
    pub fn is_framework(&self) -> bool {
        match self.kind {
            BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => true,
            BaselineKind::Vendor => true,
            BaselineKind::Custom(_) | BaselineKind::Naive => false,
        }
    }
}

/// Words for people.
impl fmt::Display for BaselineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            BaselineKind::Eager => f.write_str("PyTorch eager")?,
            BaselineKind::Compile => f.write_str("torch.compile")?,
            BaselineKind::MaxAutotune => f.write_str("torch.compile max-autotune")?,
            BaselineKind::Vendor => f.write_str("cuBLAS")?,
            BaselineKind::Custom(name) => write!(f, "the task's baseline `{name}`")?,
            BaselineKind::Naive => f.write_str("the task's naive kernel")?,
        }
        match self.math {
            MathMode::Strict => Ok(()),
            MathMode::Fast => f.write_str(" with TF32 allowed"),
        }
    }
}

impl From<BaselineId> for String {
    fn from(id: BaselineId) -> Self {
        id.name()
    }
}

impl TryFrom<String> for BaselineId {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::from_name(&name).ok_or_else(|| format!("no baseline is called `{name}`"))
    }
}

/// Whether a task may give this name to a baseline of its own.
#[must_use]
pub fn is_custom_name(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.len() <= BASELINE_NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(allowed)
}

/// The flags that PyTorch runs under in a math mode.
#[must_use]
pub fn torch_flags(math: MathMode) -> Flags {
    let (rounds, precision) = match math {
        MathMode::Strict => ("False", "highest"),
        MathMode::Fast => ("True", "high"),
    };
    let flags = [
        ("float32_matmul_precision", precision),
        ("matmul.allow_tf32", rounds),
        ("cudnn.allow_tf32", rounds),
        ("matmul.allow_fp16_reduced_precision_reduction", rounds),
        ("matmul.allow_bf16_reduced_precision_reduction", rounds),
        // What tries its own algorithms is the stronger rival.
        ("cudnn.benchmark", "True"),
        ("cudnn.deterministic", "False"),
        ("NVIDIA_TF32_OVERRIDE", UNSET),
        ("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", UNSET),
        ("CUDA_LAUNCH_BLOCKING", UNSET),
    ];
    flags.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// Why a window is void: a flag that was not what it was set to, before the window or after it.
#[must_use]
pub fn void_reason(wanted: &Flags, before: &Flags, after: &Flags) -> Option<String> {
    let missing = "nothing";
    let value = |flags: &Flags, name: &str| flags.get(name).cloned();
    for (name, expected) in wanted {
        for (when, found) in [("before", value(before, name)), ("after", value(after, name))] {
            if found.as_ref() != Some(expected) {
                let found = found.as_deref().unwrap_or(missing);
                return Some(format!(
                    "`{name}` was set to {expected} and read {found} {when} the window"
                ));
            }
        }
    }
    let names = before.keys().chain(after.keys());
    let changed = names.into_iter().find(|name| before.get(*name) != after.get(*name))?;
    let [was, is] = [before, after].map(|flags| value(flags, changed));
    let [was, is] = [was, is].map(|it| it.unwrap_or_else(|| missing.to_owned()));
    Some(format!("`{changed}` changed from {was} to {is} during the window"))
}

#[cfg(test)]
mod tests {
    use super::{BaselineId, BaselineKind, Flags, MathMode, torch_flags, void_reason};
    use crate::task::spec::Precision;

    fn all() -> Vec<BaselineId> {
        let native = [
            BaselineKind::Vendor,
            BaselineKind::Naive,
            BaselineKind::Custom("my_kernel2".to_owned()),
        ];
        let native = native.map(|kind| BaselineId { kind, math: MathMode::Strict });
        BaselineId::all_of_torch().into_iter().chain(native).collect()
    }

    #[test]
    fn names_are_stable_and_lead_back() {
        let names: Vec<String> = all().iter().map(BaselineId::name).collect();
        let expected = [
            "eager-strict",
            "eager-fast",
            "compile-strict",
            "compile-fast",
            "max-autotune-strict",
            "max-autotune-fast",
            "vendor-strict",
            "naive-strict",
            "custom-my_kernel2-strict",
        ];
        assert_eq!(names, expected);
        for id in all() {
            assert_eq!(BaselineId::from_name(&id.name()), Some(id.clone()));
            let text = serde_json::to_string(&id).unwrap();
            assert_eq!(serde_json::from_str::<BaselineId>(&text).unwrap(), id);
        }
        for bad in ["eager", "eager-loose", "graph-strict", "custom--strict", "custom-A-fast"] {
            assert_eq!(BaselineId::from_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn what_rounds_competes_only_with_what_rounds() {
        for id in all() {
            let exact = [Precision::Exact, Precision::Fp32].map(|it| id.admissible_for(it));
            assert_eq!(exact, [id.math == MathMode::Strict; 2], "{id}");
            let weaker = [Precision::Tf32, Precision::Fp16, Precision::Bf16, Precision::Fp8];
            assert!(weaker.into_iter().all(|class| id.admissible_for(class)), "{id}");
        }
    }

    #[test]
    fn a_flag_that_is_not_what_it_was_set_to_voids_the_window() {
        let strict = torch_flags(MathMode::Strict);
        let fast = torch_flags(MathMode::Fast);
        assert_eq!(strict.len(), fast.len());
        assert_eq!(void_reason(&strict, &strict, &strict), None);
        for (name, value) in &strict {
            let mut other = strict.clone();
            other.insert(name.clone(), format!("not {value}"));
            for (before, after, when) in [(&other, &strict, "before"), (&strict, &other, "after")] {
                let why = void_reason(&strict, before, after).unwrap();
                assert!(why.contains(name) && why.contains(when), "{why}");
            }
        }
        let why = void_reason(&fast, &strict, &fast).unwrap();
        assert!(why.contains("was set to"), "{why}");
        let why = void_reason(&strict, &Flags::new(), &strict).unwrap();
        assert!(why.contains("read nothing before"), "{why}");
    }

    #[test]
    fn what_nobody_set_must_at_least_stay() {
        let wanted = torch_flags(MathMode::Strict);
        let with = |value: &str| {
            let mut flags = wanted.clone();
            flags.insert("CUBLAS_WORKSPACE_CONFIG".to_owned(), value.to_owned());
            flags
        };
        assert_eq!(void_reason(&wanted, &with("x"), &with("x")), None);
        let why = void_reason(&wanted, &with("x"), &with("y")).unwrap();
        assert_eq!(why, "`CUBLAS_WORKSPACE_CONFIG` changed from x to y during the window");
        let why = void_reason(&wanted, &wanted, &with("y")).unwrap();
        assert!(why.contains("from nothing to y"), "{why}");
    }
}
