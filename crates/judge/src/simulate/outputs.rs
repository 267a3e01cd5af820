//! The outputs of the runs side by side: never written, different, not finite.
//!
//! An element that holds each run's own garbage afterwards was never written.

use pipeline::dtype::Dtype;
use pipeline::inputs::Poison;
use sandbox::wire::Slice;
use sandbox::{Map, Memfd};
use serde::Serialize;

use super::{Content, FIRST, SECOND, Tensor};
use crate::JudgeError;
use crate::cases::Tensors;
use crate::limits::ELEMENTS_NAMED_MAX;
use crate::reference::EMPTY;

/// What one output, or updated buffer, holds after the runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SimulatedOutput {
    pub name: String,
    pub dtype: Dtype,
    pub elements: u64,
    pub never_written: u64,
    /// Indices of the first of them.
    pub first_never_written: Vec<u64>,
    /// Elements of the first run that are NaN, never written ones apart.
    pub nan: u64,
    pub infinite: u64,
    /// Elements whose value differs between runs; `None` when there are none.
    pub differences: Option<Differences>,
    /// Its bytes after the first run.
    #[serde(skip)]
    pub bytes: Vec<u8>,
}

/// Elements that come out otherwise in another run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Differences {
    pub count: u64,
    pub first: Vec<Difference>,
    pub cause: Cause,
    /// Largest difference in units of the larger magnitude; infinite for integers, and where one of
    /// the values is not finite.
    pub largest_relative: f64,
}

/// One of them: its index and its values in the first and in the second run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Difference {
    pub index: u64,
    pub values: [f64; 2],
}

/// What the difference comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// What outputs, workspaces and shared memory held before anything wrote them.
    Garbage,
    /// The order in which warps and blocks run.
    Order,
    /// Either or both: the run that would tell did not end.
    Unknown,
}

/// Room for the outputs of one run.
#[derive(Debug)]
pub(super) struct Outputs(Tensors);

/// Outputs of one run that can be read.
#[derive(Debug)]
pub(super) struct Mapped {
    map: Map,
    places: std::collections::BTreeMap<String, (u64, u64)>,
}

impl Outputs {
    pub(super) fn room(tensors: &[Tensor]) -> Result<Self, JudgeError> {
        let written = tensors.iter().filter(|t| !matches!(t.content, Content::Input(_)));
        let bytes = |tensor: &Tensor| tensor.dtype.bytes_for(tensor.elements).unwrap_or(0);
        let sizes = written.map(|tensor| (tensor.name.clone(), bytes(tensor)));
        Ok(Self(Tensors::room("outputs", sizes)?))
    }

    pub(super) fn memfd(&self) -> &Memfd {
        &self.0.memfd
    }

    pub(super) fn slice(&self, bulk: u32, name: &str) -> Slice {
        self.0.slice(bulk, name).unwrap_or(EMPTY)
    }

    /// Seals and maps it, once its child is reaped.
    pub(super) fn map(&self) -> Result<Mapped, JudgeError> {
        self.0.memfd.seal_write()?;
        Ok(Mapped { map: self.0.memfd.map()?, places: self.0.places.clone() })
    }
}

impl Mapped {
    fn bytes(&self, name: &str) -> &[u8] {
        let (offset, bytes) = self.places.get(name).copied().unwrap_or((0, 0));
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX));
        self.map.get(start..end).unwrap_or(&[])
    }
}

/// Buffers that kernels may write.
fn written(tensors: &[Tensor]) -> impl Iterator<Item = &Tensor> {
    tensors.iter().filter(|tensor| !matches!(tensor.content, Content::Input(_)))
}

/// One buffer in both runs.
struct Pair<'a> {
    dtype: Dtype,
    poisoned: bool,
    bytes: [&'a [u8]; 2],
}

impl<'a> Pair<'a> {
    fn new(tensor: &Tensor, first: &'a Mapped, second: &'a Mapped) -> Self {
        Self {
            dtype: tensor.dtype,
            poisoned: tensor.content == Content::Output,
            bytes: [first.bytes(&tensor.name), second.bytes(&tensor.name)],
        }
    }

    fn bits(&self, index: u64) -> [u64; 2] {
        self.bytes.map(|bytes| bits_at(self.dtype, bytes, index))
    }

    fn is_never_written(&self, index: u64, bits: [u64; 2]) -> bool {
        let garbage = |poison: Poison| poison.element_bits(self.dtype, index);
        self.poisoned && bits == [garbage(FIRST.poison), garbage(SECOND.poison)]
    }

    fn differs(&self, index: u64, bits: [u64; 2]) -> bool {
        differ(self.dtype, bits) && !self.is_never_written(index, bits)
    }
}

fn bits_at(dtype: Dtype, bytes: &[u8], index: u64) -> u64 {
    let index = usize::try_from(index).unwrap_or(usize::MAX);
    dtype.element_bits(bytes, index).unwrap_or(0)
}

/// NaNs are alike whatever their bits.
fn differ(dtype: Dtype, [a, b]: [u64; 2]) -> bool {
    let nan = |bits: u64| dtype.is_float() && dtype.decode(bits).is_nan();
    a != b && !(nan(a) && nan(b))
}

/// True when some element that was written differs between two runs.
pub(super) fn any_difference(tensors: &[Tensor], first: &Mapped, second: &Mapped) -> bool {
    written(tensors).any(|tensor| {
        let pair = Pair::new(tensor, first, second);
        pair.bytes[0] != pair.bytes[1]
            && (0..tensor.elements).any(|index| pair.differs(index, pair.bits(index)))
    })
}

/// Compares the runs; the third has the garbage of the second and the order of the first.
pub(super) fn compare(
    tensors: &[Tensor],
    first: &Mapped,
    second: &Mapped,
    third: Option<&Mapped>,
) -> Vec<SimulatedOutput> {
    let compared = |tensor: &Tensor| {
        let pair = Pair::new(tensor, first, second);
        let third = third.map(|third| third.bytes(&tensor.name));
        compare_one(tensor, &pair, third)
    };
    written(tensors).map(compared).collect()
}

fn compare_one(tensor: &Tensor, pair: &Pair<'_>, third: Option<&[u8]>) -> SimulatedOutput {
    let dtype = tensor.dtype;
    let mut output = SimulatedOutput {
        name: tensor.name.clone(),
        dtype,
        elements: tensor.elements,
        never_written: 0,
        first_never_written: Vec::new(),
        nan: 0,
        infinite: 0,
        differences: None,
        bytes: pair.bytes[0].to_vec(),
    };
    for index in 0..tensor.elements {
        let bits = pair.bits(index);
        if pair.is_never_written(index, bits) {
            output.never_written += 1;
            if output.first_never_written.len() < ELEMENTS_NAMED_MAX {
                output.first_never_written.push(index);
            }
            continue;
        }
        if dtype.is_float() {
            let value = dtype.decode(bits[0]);
            output.nan += u64::from(value.is_nan());
            output.infinite += u64::from(value.is_infinite());
        }
        if differ(dtype, bits) {
            let third = third.map(|bytes| bits_at(dtype, bytes, index));
            let differences = output.differences.get_or_insert_with(no_differences);
            differences.note(dtype, index, bits, third);
        }
    }
    output
}

fn no_differences() -> Differences {
    Differences { count: 0, first: Vec::new(), cause: Cause::Order, largest_relative: 0.0 }
}

impl Differences {
    fn note(&mut self, dtype: Dtype, index: u64, bits: [u64; 2], third: Option<u64>) {
        let values = bits.map(|bits| dtype.decode(bits));
        self.count += 1;
        if self.first.len() < ELEMENTS_NAMED_MAX {
            self.first.push(Difference { index, values });
        }
        self.largest_relative = self.largest_relative.max(relative(dtype, values));
        self.cause = match (third, self.cause) {
            (None, _) => Cause::Unknown,
            // Garbage is the worse cause: one element of it names the whole.
            (Some(third), _) if differ(dtype, [bits[0], third]) => Cause::Garbage,
            (Some(_), cause) => cause,
        };
    }
}

fn relative(dtype: Dtype, [a, b]: [f64; 2]) -> f64 {
    let size = a.abs().max(b.abs());
    if !dtype.is_float() || !size.is_finite() || a.is_nan() || b.is_nan() {
        return f64::INFINITY;
    }
    (a - b).abs() / size
}
