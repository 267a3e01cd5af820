//! What a plan may refer to: buffers, scalars and dimensions of a task or of its reference.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::dtype::Dtype;
use crate::task::spec::{Compare, Precision, Role, TaskSpec};

/// The names that a plan can use, and the rules that go with them.
#[derive(Clone, Debug)]
pub struct Signature {
    /// The task's family of operators; `None` where it is not known.
    pub family: Option<String>,
    pub dims: BTreeSet<String>,
    pub buffers: BTreeMap<String, Buffer>,
    pub scalars: BTreeMap<String, (Dtype, f64)>,
    pub classes: Vec<Precision>,
    pub may_overwrite: BTreeSet<String>,
}

/// A tensor that the harness owns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Buffer {
    pub use_: BufferUse,
    pub dtype: Dtype,
    /// Extents, outermost first, expressions over dims.
    pub shape: Vec<String>,
    /// True for inputs that a `prepare` step may read.
    pub is_weight: bool,
}

/// Which way data flows through a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum BufferUse {
    Input,
    Output,
}

impl Signature {
    /// The signature of a candidate: the task's own inputs and outputs.
    #[must_use]
    pub fn of_candidate(spec: &TaskSpec) -> Self {
        let outputs = spec.outputs.iter().map(|output| {
            (output.name.clone(), buffer(BufferUse::Output, output.dtype, &output.shape))
        });
        Self::with_outputs(spec, outputs.collect(), spec.classes.clone())
    }

    /// The signature of the reference: for an output `y` it writes `y_ref`, and `y_bound` unless
    /// the comparison is exact.
    #[must_use]
    pub fn of_reference(spec: &TaskSpec) -> Self {
        let outputs = reference_outputs(spec)
            .into_iter()
            .map(|(name, dtype, shape)| (name, buffer(BufferUse::Output, dtype, &shape)));
        Self::with_outputs(spec, outputs.collect(), vec![Precision::Exact])
    }

    fn with_outputs(
        spec: &TaskSpec,
        outputs: Vec<(String, Buffer)>,
        classes: Vec<Precision>,
    ) -> Self {
        let inputs = spec.inputs.iter().map(|input| {
            let mut buffer = buffer(BufferUse::Input, input.dtype, &input.shape);
            buffer.is_weight =
                matches!(input.role, Role::Weight(_) | Role::NormWeight | Role::Bias | Role::Table);
            (input.name.clone(), buffer)
        });
        let scalars = spec.scalars.iter().map(|s| (s.name.clone(), (s.dtype, s.value)));
        Self {
            family: Some(spec.family.clone()),
            dims: spec.dim_names(),
            buffers: inputs.chain(outputs).collect(),
            scalars: scalars.collect(),
            classes,
            may_overwrite: spec.may_overwrite.iter().cloned().collect(),
        }
    }
}

/// Outputs of the reference in order: name, type, shape.
#[must_use]
pub fn reference_outputs(spec: &TaskSpec) -> Vec<(String, Dtype, Vec<String>)> {
    let mut outputs = Vec::new();
    for output in &spec.outputs {
        let value = if output.dtype.is_float() { Dtype::F64 } else { Dtype::I64 };
        outputs.push((format!("{}_ref", output.name), value, output.shape.clone()));
        if output.compare == Compare::Bound {
            outputs.push((format!("{}_bound", output.name), Dtype::F64, output.shape.clone()));
        }
    }
    outputs
}

fn buffer(use_: BufferUse, dtype: Dtype, shape: &[String]) -> Buffer {
    Buffer { use_, dtype, shape: shape.to_vec(), is_weight: false }
}
