//! Relations between the outputs of calls on related inputs: they hold whatever the reference says.
//!
//! A task states under `[metamorphic]` which of them hold for it. [`relations`] lists them,
//! [`changed_input`] makes the inputs of the calls that each needs, [`predicted`] says from the
//! outputs of other calls what an output must be, [`is_exact`] how exactly. Nothing here runs
//! anything.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::hidden::Dims;
use crate::inputs::MasterSeed;
use crate::limits::TASK_ITEMS_MAX;
use crate::task::spec::{Precision, SpecError, TaskSpec};

/// Power of two that inputs are scaled by: less than what D3 scales, so that nothing overflows.
const SCALE: f64 = 8.0;

/// `[metamorphic]`, as written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Metamorphic {
    /// Dimensions along which every output element depends on inputs at its own index only.
    pub rows: Vec<String>,
    /// Groups of inputs: a factor on all inputs of a group is a factor on every float output, and
    /// changes no other output.
    pub scales: Vec<Vec<String>>,
    /// Groups of inputs that the outputs are linear in, by sums and products alone: they are exact
    /// for small integers.
    pub linear: Vec<Vec<String>>,
}

/// A relation between calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Relation {
    /// Inputs permuted along a dimension give outputs permuted alike.
    Permuted { dim: String },
    /// The two parts along a dimension give the two parts of the outputs.
    Split { dim: String },
    /// Scaled inputs give scaled outputs.
    Scaled { inputs: Vec<String> },
    /// The outputs for a sum are the sums of the outputs.
    Added { inputs: Vec<String> },
}

/// How one call of a relation differs from the call on the inputs as they were drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Change<'a> {
    /// New index to old index along a dimension.
    Order {
        dim: &'a str,
        order: &'a [usize],
    },
    /// The indices from..to along a dimension.
    Part {
        dim: &'a str,
        from: usize,
        to: usize,
    },
    Scale {
        inputs: &'a [String],
    },
    /// Other values for these inputs: those of a second draw.
    Other {
        inputs: &'a [String],
    },
    /// The sum of both draws.
    Sum {
        inputs: &'a [String],
    },
}

/// A tensor by its element type, extents and bytes.
#[derive(Clone, Copy, Debug)]
pub struct Array<'a> {
    pub dtype: Dtype,
    pub extents: &'a [u64],
    pub bytes: &'a [u8],
}

impl Metamorphic {
    /// Checks the table against the rest of the task.
    ///
    /// # Errors
    /// A name that is none, a dimension that not every output has, an input that is no float.
    pub fn check(&self, spec: &TaskSpec) -> Result<(), SpecError> {
        let rule = |holds: bool, why: String| match holds {
            true => Ok(()),
            false => Err(SpecError::Rule(format!("`metamorphic`: {why}"))),
        };
        let most = TASK_ITEMS_MAX;
        rule(relations(self).len() <= most, format!("states more than {most} relations"))?;
        for dim in &self.rows {
            rule(spec.dims.contains(dim), format!("`{dim}` is no dimension"))?;
            for output in &spec.outputs {
                let why = format!("`{}` needs `{dim}` as one of its extents", output.name);
                rule(axis(&output.shape, dim).is_some(), why)?;
            }
            let inputs = spec.inputs.iter().map(|it| (it.dtype, &it.name, &it.shape));
            let outputs = spec.outputs.iter().map(|it| (it.dtype, &it.name, &it.shape));
            for (dtype, name, shape) in inputs.chain(outputs) {
                let named = shape.iter().filter(|extent| names(extent, dim)).count();
                let whole = shape.iter().filter(|extent| *extent == dim).count();
                let why = format!("`{name}` must have `{dim}` as one extent or not at all");
                rule(named == whole && whole <= 1, why)?;
                let why = format!("`{name}` has more than one element in a byte");
                rule(whole == 0 || dtype.bits() >= 8, why)?;
            }
        }
        for input in self.scales.iter().chain(&self.linear).flatten() {
            let found = spec.inputs.iter().find(|it| it.name == *input);
            let float = found.is_some_and(|it| it.dtype.is_float() && it.dtype.bits() >= 8);
            rule(float, format!("`{input}` is no input of floats"))?;
        }
        let all = self.scales.iter().chain(&self.linear);
        rule(all.into_iter().all(|group| !group.is_empty()), "a group is empty".to_owned())
    }

    /// True when sums in the outputs are exact for small integers.
    #[must_use]
    pub fn is_linear(&self) -> bool {
        !self.linear.is_empty()
    }
}

/// Every relation that a task states. What is linear can be scaled too.
#[must_use]
pub fn relations(stated: &Metamorphic) -> Vec<Relation> {
    let rows = || stated.rows.iter().cloned();
    let scaled = stated.scales.iter().chain(&stated.linear).cloned();
    let mut relations: Vec<_> = rows().map(|dim| Relation::Permuted { dim }).collect();
    relations.extend(scaled.map(|inputs| Relation::Scaled { inputs }));
    relations.extend(stated.linear.iter().cloned().map(|inputs| Relation::Added { inputs }));
    relations.extend(rows().map(|dim| Relation::Split { dim }));
    relations
}

impl Relation {
    /// Which relation it is, in a few words.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Self::Permuted { dim } => format!("permuted along `{dim}`"),
            Self::Split { dim } => format!("split along `{dim}`"),
            Self::Scaled { inputs } => format!("scaled by {inputs:?}"),
            Self::Added { inputs } => format!("added over {inputs:?}"),
        }
    }

    /// How a kernel breaks it, in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Permuted { dim } => {
                format!("with `{dim}` permuted, outputs are not permuted alike")
            }
            Self::Split { dim } => {
                format!("two parts along `{dim}` give other values than the whole")
            }
            Self::Scaled { inputs } => {
                format!("{inputs:?} times {SCALE} does not scale the outputs alike")
            }
            Self::Added { inputs } => format!("it is not linear in {inputs:?}"),
        }
    }
}

/// A permutation of 0..count, never the one that changes nothing: new index to old index.
#[must_use]
pub fn order(count: usize, seed: &MasterSeed) -> Vec<usize> {
    let mut random = ChaCha8Rng::from_seed(seed.derive("order").0);
    let mut order: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        order.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
    if order.is_sorted() && count > 1 {
        order.rotate_left(1);
    }
    order
}

/// The extent of a dimension where a split is in the middle, and the dims of both parts.
#[must_use]
pub fn split(dims: &Dims, dim: &str) -> Option<(usize, [Dims; 2])> {
    let whole = *dims.get(dim)?;
    // Not in the middle, so that the parts differ.
    let first = (whole * 2).div_euclid(5).max(1);
    let part = |extent: i64| {
        let mut part = dims.clone();
        part.insert(dim.to_owned(), extent);
        part
    };
    (whole > first).then(|| (first as usize, [part(first), part(whole - first)]))
}

/// The bytes of an input under a change; `other` is the second draw of the same tensor.
///
/// `shape` is the tensor's shape as the task writes it.
#[must_use]
pub fn changed_input(
    name: &str,
    shape: &[String],
    input: Array<'_>,
    other: &[u8],
    change: &Change<'_>,
) -> Vec<u8> {
    let own = || input.bytes.to_vec();
    let has = |inputs: &[String]| inputs.iter().any(|it| it == name);
    match change {
        Change::Order { dim, order } => {
            axis(shape, dim).map_or_else(own, |axis| reordered(input, axis, order))
        }
        Change::Part { dim, from, to } => {
            let indices: Vec<usize> = (*from..*to).collect();
            axis(shape, dim).map_or_else(own, |axis| reordered(input, axis, &indices))
        }
        Change::Scale { inputs } if has(inputs) => {
            mapped(input.dtype, input.bytes, |it| SCALE * it)
        }
        Change::Other { inputs } if has(inputs) => other.to_vec(),
        Change::Sum { inputs } if has(inputs) => added(input.dtype, input.bytes, other),
        Change::Scale { .. } | Change::Other { .. } | Change::Sum { .. } => own(),
    }
}

/// What an output of the last call of a relation must be, from the outputs of the calls before:
/// the call on the inputs as drawn, and for [`Relation::Added`] that on the other ones. For
/// [`Relation::Split`] the last call is the whole, and the ones before are its parts.
#[must_use]
pub fn predicted(
    relation: &Relation,
    shape: &[String],
    order: &[usize],
    before: &[Array<'_>],
) -> Option<Vec<u8>> {
    let [first, rest @ ..] = before else { return None };
    match relation {
        Relation::Permuted { dim } => Some(reordered(*first, axis(shape, dim)?, order)),
        Relation::Split { dim } => {
            let second = rest.first()?;
            Some(joined(first, second, axis(shape, dim)?))
        }
        Relation::Scaled { .. } if first.dtype.is_float() => {
            Some(mapped(first.dtype, first.bytes, |it| SCALE * it))
        }
        Relation::Scaled { .. } => Some(first.bytes.to_vec()),
        Relation::Added { .. } if first.dtype.is_float() => {
            Some(added(first.dtype, first.bytes, rest.first()?.bytes))
        }
        Relation::Added { .. } => None,
    }
}

/// What was predicted, with the bits that were got wherever the value is the same: the sign of a
/// zero is no difference.
#[must_use]
pub fn with_bits_of(dtype: Dtype, mut predicted: Vec<u8>, got: &[u8]) -> Vec<u8> {
    if !dtype.is_float() || dtype.bits() < 8 {
        return predicted;
    }
    let width = (dtype.bits() / 8) as usize;
    let value = |element: &[u8]| dtype.decode(dtype.element_bits(element, 0).unwrap_or(0));
    for (must, got) in predicted.chunks_exact_mut(width).zip(got.chunks_exact(width)) {
        if value(must) == value(got) {
            must.copy_from_slice(got);
        }
    }
    predicted
}

/// True where a relation must hold without any difference: sums of small integers are exact in any
/// order, and a power of two changes no rounding of a program that repeats itself.
#[must_use]
pub fn is_exact(
    relation: &Relation,
    spec: &TaskSpec,
    precision: Precision,
    (direct, deterministic, narrow): (bool, bool, bool),
) -> bool {
    let wide = |dtype: Dtype| !dtype.is_float() || dtype.bits() >= 32;
    let inputs = spec.inputs.iter().map(|it| it.dtype);
    let all_wide = inputs.chain(spec.outputs.iter().map(|it| it.dtype)).all(wide);
    let plain = direct && precision <= Precision::Tf32 && all_wide;
    match relation {
        Relation::Permuted { .. } | Relation::Split { .. } | Relation::Added { .. } => {
            plain && spec.metamorphic.is_linear()
        }
        Relation::Scaled { .. } => plain && deterministic && !narrow,
    }
}

/// Which axis of a shape is the dimension.
fn axis(shape: &[String], dim: &str) -> Option<usize> {
    shape.iter().position(|extent| extent == dim)
}

/// True where an expression names the dimension.
fn names(expression: &str, dim: &str) -> bool {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == dim)
}

/// Bytes of one index of an axis, and of the whole axis.
fn strides(array: &Array<'_>, axis: usize) -> (usize, usize) {
    let inner: u64 = array.extents[axis + 1..].iter().product();
    let index_bytes = (inner * array.dtype.bits() / 8) as usize;
    (index_bytes, index_bytes * array.extents[axis] as usize)
}

/// The tensor with these indices of an axis, in this order.
fn reordered(array: Array<'_>, axis: usize, indices: &[usize]) -> Vec<u8> {
    let (index_bytes, axis_bytes) = strides(&array, axis);
    let outer = array.bytes.chunks_exact(axis_bytes.max(1));
    outer
        .flat_map(|slab| {
            indices
                .iter()
                .filter_map(move |index| slab.get(index * index_bytes..(index + 1) * index_bytes))
        })
        .flatten()
        .copied()
        .collect()
}

/// Two tensors one after the other along an axis.
fn joined(first: &Array<'_>, second: &Array<'_>, axis: usize) -> Vec<u8> {
    let (_, first_bytes) = strides(first, axis);
    let (_, second_bytes) = strides(second, axis);
    let firsts = first.bytes.chunks_exact(first_bytes.max(1));
    let pairs = firsts.zip(second.bytes.chunks_exact(second_bytes.max(1)));
    pairs.flat_map(|(a, b)| a.iter().chain(b)).copied().collect()
}

fn mapped(dtype: Dtype, bytes: &[u8], value: impl Fn(f64) -> f64) -> Vec<u8> {
    let width = (dtype.bits() / 8).max(1) as usize;
    let elements = bytes.chunks_exact(width).map(|element| {
        let bits = dtype.element_bits(element, 0).unwrap_or(0);
        dtype.encode(value(dtype.decode(bits)))
    });
    elements.flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
}

fn added(dtype: Dtype, a: &[u8], b: &[u8]) -> Vec<u8> {
    let width = (dtype.bits() / 8).max(1) as usize;
    let value = |element| dtype.decode(dtype.element_bits(element, 0).unwrap_or(0));
    let pairs = a.chunks_exact(width).zip(b.chunks_exact(width));
    let sums = pairs.map(|(a, b)| dtype.encode(value(a) + value(b)));
    sums.flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
}

#[cfg(test)]
mod tests;
