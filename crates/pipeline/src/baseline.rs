//! What a kernel is compared with, and which of them count for which precision class.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::task::spec::Precision;

/// What computes a baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BaselineKind {
    /// The task's `reference.py`, called as it is.
    Eager,
    /// The same through `torch.compile`.
    Compile,
    /// The same with `mode="max-autotune-no-cudagraphs"`.
    MaxAutotune,
    /// NVIDIA's library for the operator.
    Vendor,
    /// One that the task names.
    Custom(String),
    /// A plain kernel, where there is nothing better: never a claim over a framework.
    Naive,
}

/// Whether a baseline may compute in less than the task's own precision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MathMode {
    Strict,
    /// TF32 and reduced-precision reductions allowed.
    Fast,
}

/// One baseline.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineId {
    pub kind: BaselineKind,
    pub math: MathMode,
}

impl BaselineId {
    /// True when a kernel of this class has to beat it. One that may compute more coarsely than the
    /// kernel is shown and does not count.
    #[must_use]
    pub fn admissible_for(&self, class: Precision) -> bool {
        match self.math {
            MathMode::Strict => true,
            MathMode::Fast => class > Precision::Fp32,
        }
    }

    /// True for what a framework or a library runs, false for kernels of ours.
    #[must_use]
    pub fn is_framework(&self) -> bool {
        match self.kind {
            BaselineKind::Eager | BaselineKind::Compile | BaselineKind::MaxAutotune => true,
            BaselineKind::Vendor => true,
            BaselineKind::Custom(_) | BaselineKind::Naive => false,
        }
    }
}

impl fmt::Display for BaselineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            BaselineKind::Eager => "eager",
            BaselineKind::Compile => "torch.compile",
            BaselineKind::MaxAutotune => "torch.compile max-autotune",
            BaselineKind::Vendor => "vendor library",
            BaselineKind::Custom(name) => name,
            BaselineKind::Naive => "naive kernel",
        };
        let math = match self.math {
            MathMode::Strict => "strict",
            MathMode::Fast => "fast math",
        };
        write!(f, "{kind} ({math})")
    }
}
