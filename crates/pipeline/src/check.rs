//! Compares one output with the reference, element by element.
//!
//! Runs where the candidate never was. Fails closed: an element that was not compared, or whose
//! comparison is not plainly true, is wrong. Parts of a fixed size are compared by as many threads
//! as there are and added up in their order, so the result does not depend on the threads.

use std::ops::Range;

use half::{bf16, f16};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::block::{BLOCK, Block, finite};
use self::tally::{Element, Tally};
use crate::dtype::Dtype;
use crate::inputs::{NormGate, Poison};
use crate::limits::{CHECK_PART_ELEMENTS, ROUNDED_NORM_MAX, ROUNDED_RATIO_MAX};
use crate::task::spec::Compare;
use crate::verdict::Reason;

mod block;
mod tally;

/// One output to compare; all tensors are little-endian bytes of `elements` elements.
#[derive(Clone, Copy, Debug)]
pub struct Comparison<'a> {
    pub name: &'a str,
    pub dtype: Dtype,
    pub compare: Compare,
    /// Extents, outermost first.
    pub extents: &'a [u64],
    pub got: &'a [u8],
    /// f64 for float outputs, i64 for integer outputs.
    pub reference: &'a [u8],
    /// f64, in units of the accumulation unit; present for `Compare::Bound`.
    pub bound: Option<&'a [u8]>,
    pub accumulation_unit: f64,
    /// 0, or the factor by which no element's bound is less than the largest one: what a fast
    /// algorithm errs in one element depends on the others.
    pub shared_bound: f64,
    /// Limit of the norm-wise relative error (of the excess for 16-bit outputs).
    pub norm_limit: f64,
    /// Whether that limit holds; in outputs of few elements, errors within a share of the elements'
    /// own tolerances pass too.
    pub norm_gate: NormGate,
    pub flush_denormals: bool,
    pub poison: Poison,
}

/// What the comparison found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputCheck {
    pub output: String,
    pub elements: u64,
    /// Equal to `elements`, or the check failed.
    pub compared: u64,
    pub wrong: u64,
    /// Wrong elements that still hold the poison.
    pub unwritten: u64,
    /// Wrong elements where the reference or the output is not finite.
    pub nonfinite: u64,
    pub first: Vec<WrongElement>,
    /// Largest error over its tolerance; at most `f64::MAX`.
    pub worst_ratio: f64,
    /// Norm-wise relative error, or the excess for 16-bit outputs.
    pub norm_error: f64,
    /// The limit as it was applied.
    pub norm_limit: f64,
    /// The same error in the worst part of the output that is long enough to have one.
    #[serde(default)]
    pub worst_part_error: f64,
    /// Where the wrong elements lie, in words.
    pub pattern: String,
    /// `None` when the output passed.
    pub failure: Option<Reason>,
}

impl OutputCheck {
    /// True where what is wrong may be no more than operands that were rounded: to TF32 or to 16
    /// bits. A wrong element in a large output may look so too.
    #[must_use]
    pub fn is_like_rounding(&self) -> bool {
        self.failure == Some(Reason::Mismatch)
            && self.compared == self.elements
            && self.unwritten == 0
            && self.nonfinite == 0
            && self.norm_error <= ROUNDED_NORM_MAX
            && self.worst_ratio <= ROUNDED_RATIO_MAX
    }
}

/// A wrong element, as text: values may be NaN.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrongElement {
    pub index: Vec<u64>,
    pub got: String,
    pub want: String,
    /// The largest error that would have passed.
    pub tolerance: String,
}

impl Comparison<'_> {
    /// Compares every element.
    #[must_use]
    pub fn run(&self) -> OutputCheck {
        self.run_in_parts(CHECK_PART_ELEMENTS)
    }

    /// As a careless harness compares: no element is seen to be further away than
    /// `0.01 + 0.01 |want|`, which no NaN is, or the whole is right within a fifth by its norm.
    /// Only for tests that show what such a comparison lets through.
    #[must_use]
    pub fn run_carelessly(&self) -> OutputCheck {
        const NORM_MAX: f64 = 0.2;
        let pair = |index: usize| {
            let got = self.dtype.element_bits(self.got, index).map(|bits| self.dtype.decode(bits));
            let want = Dtype::F64.element_bits(self.reference, index);
            let want = want.map(|bits| match self.dtype.is_float() {
                true => f64::from_bits(bits),
                false => bits as i64 as f64,
            });
            got.zip(want)
        };
        let elements = usize::try_from(self.extents.iter().product::<u64>()).unwrap_or(usize::MAX);
        let mut far = false;
        let [mut apart, mut whole] = [0.0; 2];
        for index in 0..elements {
            let Some((got, want)) = pair(index) else { return self.run() };
            far |= (got - want).abs() > 0.01 + 0.01 * want.abs();
            apart += (got - want).powi(2);
            whole += want.powi(2);
        }
        let strict = self.run();
        let passes = !far || apart <= NORM_MAX.powi(2) * whole;
        OutputCheck { failure: strict.failure.filter(|_| !passes), ..strict }
    }

    /// Largest difference between the output and another run's on the same inputs, over the
    /// element's tolerance; at most `f64::MAX`, which is what a difference without a tolerance is.
    #[must_use]
    pub fn spread(&self, twin: &[u8]) -> f64 {
        let tolerance = self.tolerance();
        let of = |index: usize| -> Option<f64> {
            let ours = self.dtype.element_bits(self.got, index)?;
            let theirs = self.dtype.element_bits(twin, index)?;
            if ours == theirs {
                return Some(0.0);
            }
            let want = f64::from_bits(Dtype::F64.element_bits(self.reference, index)?);
            let bound = self.bound.filter(|_| self.bounded());
            let bound = bound.and_then(|bound| Dtype::F64.element_bits(bound, index));
            let allowed = bound.map_or(0.0, |bits| tolerance.of(want, f64::from_bits(bits)));
            let apart = (self.dtype.decode(ours) - self.dtype.decode(theirs)).abs() / allowed;
            // Two NaN, or an infinity that is not the other's.
            Some(if apart <= f64::MAX { apart } else { f64::MAX })
        };
        let elements = usize::try_from(self.extents.iter().product::<u64>()).unwrap_or(0);
        let ratios = (0..elements).into_par_iter().map(|index| of(index).unwrap_or(f64::MAX));
        ratios.reduce(|| 0.0, f64::max)
    }

    fn run_in_parts(&self, part_elements: usize) -> OutputCheck {
        let elements = self.extents.iter().product::<u64>();
        let present = self.present(elements);
        let tolerance = self.tolerance();
        let parts: Vec<Tally> = (0..present.div_ceil(part_elements))
            .into_par_iter()
            .map(|part| {
                let start = part * part_elements;
                self.part(tolerance, start..present.min(start.saturating_add(part_elements)))
            })
            .collect();
        let mut tally = Tally::default();
        for mut part in parts {
            part.note_part_error(self);
            tally.append(part);
        }
        tally.finish(self, elements)
    }

    /// How many of the elements all tensors have.
    fn present(&self, elements: u64) -> usize {
        let bounds = match (self.bounded(), self.bound) {
            (true, Some(bound)) => bound.len() / 8,
            (true, None) => 0,
            (false, _) => usize::MAX,
        };
        let got = (self.got.len() as u64).saturating_mul(8) / self.dtype.bits();
        let present = elements.min(got).min(self.reference.len() as u64 / 8);
        bounds.min(usize::try_from(present).unwrap_or(usize::MAX))
    }

    /// True where errors up to a tolerance pass.
    fn bounded(&self) -> bool {
        self.compare == Compare::Bound && self.dtype.is_float()
    }

    /// Compares the elements of a range that all tensors have.
    fn part(&self, tolerance: Tolerance, range: Range<usize>) -> Tally {
        match self.dtype {
            Dtype::F64 => self.floats(tolerance, range, f64::from_le_bytes, |value| value),
            Dtype::F32 => {
                let decode = |bytes| f64::from(f32::from_le_bytes(bytes));
                self.floats(tolerance, range, decode, |value| f64::from(value as f32))
            }
            Dtype::F16 => {
                let decode = |bytes| f16::from_le_bytes(bytes).to_f64();
                self.floats(tolerance, range, decode, |value| f16::from_f64(value).to_f64())
            }
            Dtype::Bf16 => {
                let decode = |bytes| bf16::from_le_bytes(bytes).to_f64();
                self.floats(tolerance, range, decode, |value| bf16::from_f64(value).to_f64())
            }
            Dtype::E4m3 | Dtype::E5m2 | Dtype::Ue8m0 => {
                let decode = |[byte]: [u8; 1]| self.dtype.decode(byte.into());
                self.floats(tolerance, range, decode, |value| self.rounded(value))
            }
            Dtype::I64 | Dtype::U64 => self.integers(range, u64::from_le_bytes),
            Dtype::I32 | Dtype::U32 => {
                self.integers(range, |bytes| u32::from_le_bytes(bytes).into())
            }
            Dtype::I16 | Dtype::U16 => {
                self.integers(range, |bytes| u16::from_le_bytes(bytes).into())
            }
            Dtype::I8 | Dtype::U8 | Dtype::Bool => self.integers(range, |[byte]| byte.into()),
            Dtype::Fp4e2m1 | Dtype::Int4 => self.nibbles(tolerance, range),
        }
    }

    /// A loop of its own for each type: what is fixed for the type is not asked per element.
    fn floats<const WIDTH: usize>(
        &self,
        tolerance: Tolerance,
        range: Range<usize>,
        decode: impl Fn([u8; WIDTH]) -> f64,
        round: impl Fn(f64) -> f64,
    ) -> Tally {
        let (mut tally, mut block) = (Tally::default(), Block::new());
        for first in range.clone().step_by(BLOCK) {
            let range = first..range.end.min(first + BLOCK);
            let want = elements(self.reference, &range);
            block.fill(elements(self.got, &range), want, &decode, &round);
            if let Some(bounds) = self.bound.filter(|_| self.bounded()) {
                block.allow(tolerance, elements(bounds, &range));
            }
            tally.add_block(self, first, &block);
        }
        tally
    }

    fn integers<const WIDTH: usize>(
        &self,
        range: Range<usize>,
        bits: impl Fn([u8; WIDTH]) -> u64,
    ) -> Tally {
        let got = elements::<WIDTH>(self.got, &range);
        let want = elements::<8>(self.reference, &range);
        let mut tally = Tally::default();
        for (index, (got, want)) in range.zip(got.iter().zip(want)) {
            let element = self.integer_element(bits(*got), u64::from_le_bytes(*want));
            tally.add(self, index, &element);
        }
        tally
    }

    fn nibbles(&self, tolerance: Tolerance, range: Range<usize>) -> Tally {
        let element = |index: usize| {
            let wide = |bytes| Dtype::F64.element_bits(bytes, index);
            let (got, want) = (self.dtype.element_bits(self.got, index)?, wide(self.reference)?);
            if !self.dtype.is_float() {
                return Some(self.integer_element(got, want));
            }
            let want = f64::from_bits(want);
            let bound = self.bound.filter(|_| self.bounded()).and_then(wide);
            let tolerance = bound.map_or(0.0, |it| tolerance.of(want, f64::from_bits(it)));
            let got = self.dtype.decode(got);
            Some(Element::float(got, want, self.rounded(want), tolerance))
        };
        let mut tally = Tally::default();
        for index in range {
            if let Some(element) = element(index) {
                tally.add(self, index, &element);
            }
        }
        tally
    }

    fn rounded(&self, value: f64) -> f64 {
        self.dtype.decode(self.dtype.encode(value))
    }

    fn integer_element(&self, got_bits: u64, want_bits: u64) -> Element {
        let want_narrow = want_bits & (u64::MAX >> (64 - self.dtype.bits()));
        let valid = self.dtype != Dtype::Bool || got_bits <= 1;
        let want = want_bits as i64 as f64;
        Element {
            got: self.dtype.decode(got_bits),
            want,
            rounded: want,
            tolerance: 0.0,
            passes: valid && got_bits == want_narrow,
        }
    }

    /// What no bound is less than; reads all bounds where they are shared.
    fn least_bound(&self) -> f64 {
        let Some(bounds) = self.bound.filter(|_| self.bounded() && self.shared_bound > 0.0) else {
            return 0.0;
        };
        let sizes = bounds.as_chunks().0.par_iter().map(|bytes| f64::from_le_bytes(*bytes));
        let largest = sizes.filter(|bound| finite(*bound)).reduce(|| 0.0, f64::max);
        self.shared_bound * largest
    }

    fn tolerance(&self) -> Tolerance {
        Tolerance {
            accumulation_unit: self.accumulation_unit,
            least_bound: self.least_bound(),
            rounding: 1.01 * self.dtype.unit_roundoff(),
            smallest: if self.flush_denormals {
                self.dtype.smallest_normal()
            } else {
                self.dtype.smallest_subnormal()
            },
        }
    }
}

/// What the tolerances of all elements share.
#[derive(Clone, Copy)]
struct Tolerance {
    accumulation_unit: f64,
    least_bound: f64,
    rounding: f64,
    smallest: f64,
}

impl Tolerance {
    fn of(self, want: f64, bound: f64) -> f64 {
        // A bound that is no size passes nothing: a comparison with NaN is false.
        let bound = if (bound >= 0.0) & finite(bound) { bound } else { f64::NAN };
        // Written so that NaN stays.
        let bound = if bound < self.least_bound { self.least_bound } else { bound };
        self.accumulation_unit * bound + self.rounding * want.abs() + self.smallest
    }
}

/// The elements of a range; none when the tensor ends before it.
fn elements<'a, const WIDTH: usize>(bytes: &'a [u8], range: &Range<usize>) -> &'a [[u8; WIDTH]] {
    bytes.as_chunks().0.get(range.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
