//! Compares one output with the reference, element by element.
//!
//! Runs where the candidate never was. Fails closed: an element that was not compared, or whose
//! comparison is not plainly true, is wrong.

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::inputs::Poison;
use crate::limits::WRONG_ELEMENTS_MAX;
use crate::task::spec::Compare;
use crate::verdict::Reason;

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
    /// Limit of the norm-wise relative error (of the excess for 16-bit outputs).
    pub norm_limit: f64,
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
    pub norm_limit: f64,
    /// Where the wrong elements lie, in words.
    pub pattern: String,
    /// `None` when the output passed.
    pub failure: Option<Reason>,
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
        let mut state = State::default();
        let elements = self.extents.iter().product::<u64>();
        for index in 0..elements {
            match self.element(index) {
                Some(element) => state.add(self, index, &element),
                None => break,
            }
        }
        state.finish(self, elements)
    }

    fn element(&self, index: u64) -> Option<Element> {
        let at = usize::try_from(index).ok()?;
        let got_bits = self.dtype.element_bits(self.got, at)?;
        let want_bits = Dtype::F64.element_bits(self.reference, at)?;
        if !self.dtype.is_float() {
            return Some(self.integer_element(got_bits, want_bits));
        }
        let got = self.dtype.decode(got_bits);
        let want = f64::from_bits(want_bits);
        let tolerance = match self.compare {
            Compare::Bound => {
                self.tolerance(want, f64::from_bits(Dtype::F64.element_bits(self.bound?, at)?))
            }
            Compare::Exact | Compare::IndexOfMax => 0.0,
        };
        let rounded = self.dtype.decode(self.dtype.encode(want));
        // Beyond the type's range the right answer is what rounding gives: an infinity.
        let want = if tolerance == 0.0 || !rounded.is_finite() { rounded } else { want };
        let passes = if want.is_finite() && got.is_finite() {
            (got - want).abs() <= tolerance
        } else {
            got == want || got.is_nan() && want.is_nan()
        };
        Some(Element { got_bits, got, want, tolerance, passes })
    }

    fn integer_element(&self, got_bits: u64, want_bits: u64) -> Element {
        let want_narrow = want_bits & (u64::MAX >> (64 - self.dtype.bits()));
        let valid = self.dtype != Dtype::Bool || got_bits <= 1;
        Element {
            got_bits,
            got: self.dtype.decode(got_bits),
            want: want_bits as i64 as f64,
            tolerance: 0.0,
            passes: valid && got_bits == want_narrow,
        }
    }

    fn tolerance(&self, want: f64, bound: f64) -> f64 {
        let smallest = if self.flush_denormals {
            self.dtype.smallest_normal()
        } else {
            self.dtype.smallest_subnormal()
        };
        // A bound that is no size passes nothing: a comparison with NaN is false.
        let bound = if bound.is_finite() && bound >= 0.0 { bound } else { f64::NAN };
        self.accumulation_unit * bound + 1.01 * self.dtype.unit_roundoff() * want.abs() + smallest
    }

    fn multi_index(&self, mut index: u64) -> Vec<u64> {
        let mut parts: Vec<u64> = Vec::with_capacity(self.extents.len());
        for extent in self.extents.iter().rev() {
            parts.push(index % extent.max(&1));
            index /= extent.max(&1);
        }
        parts.reverse();
        parts
    }
}

struct Element {
    got_bits: u64,
    got: f64,
    want: f64,
    tolerance: f64,
    passes: bool,
}

/// Running sums over the elements.
#[derive(Default)]
struct State {
    compared: u64,
    wrong: u64,
    unwritten: u64,
    nonfinite: u64,
    first: Vec<WrongElement>,
    worst_ratio: f64,
    error_squares: f64,
    rounding_squares: f64,
    want_squares: f64,
    span: Option<WrongSpan>,
}

/// Bounding box of the wrong elements over (row, column), column being the last dimension.
struct WrongSpan {
    rows: [u64; 2],
    columns: [u64; 2],
    last_row: u64,
    row_count: u64,
}

impl State {
    fn add(&mut self, comparison: &Comparison<'_>, index: u64, element: &Element) {
        self.compared += 1;
        if element.want.is_finite() && element.got.is_finite() {
            let error = (element.got - element.want).abs();
            let rounded = comparison.dtype.decode(comparison.dtype.encode(element.want));
            self.error_squares += error * error;
            self.rounding_squares += (rounded - element.want).powi(2);
            self.want_squares += element.want * element.want;
            self.worst_ratio = self.worst_ratio.max(ratio(error, element.tolerance));
        }
        if !element.passes {
            self.add_wrong(comparison, index, element);
        }
    }

    fn add_wrong(&mut self, comparison: &Comparison<'_>, index: u64, element: &Element) {
        self.wrong += 1;
        let poison = comparison.poison.element_bits(comparison.dtype, index);
        self.unwritten += u64::from(element.got_bits == poison);
        self.nonfinite += u64::from(!element.got.is_finite() || !element.want.is_finite());
        if self.first.len() < WRONG_ELEMENTS_MAX {
            self.first.push(WrongElement {
                index: comparison.multi_index(index),
                got: number(element.got),
                want: number(element.want),
                tolerance: number(element.tolerance),
            });
        }
        let columns = comparison.extents.last().copied().unwrap_or(1).max(1);
        let (row, column) = (index / columns, index % columns);
        match &mut self.span {
            None => {
                let (rows, columns) = ([row; 2], [column; 2]);
                self.span = Some(WrongSpan { rows, columns, last_row: row, row_count: 1 });
            }
            Some(span) => span.add(row, column),
        }
    }

    fn finish(self, comparison: &Comparison<'_>, elements: u64) -> OutputCheck {
        let narrow = comparison.dtype.bits() <= 16 && comparison.dtype.is_float();
        let rounding = if narrow { self.rounding_squares } else { 0.0 };
        let norm_error = if self.want_squares > 0.0 {
            ((self.error_squares - rounding).max(0.0) / self.want_squares).sqrt()
        } else {
            0.0
        };
        let bounded = comparison.compare == Compare::Bound && comparison.dtype.is_float();
        let norm_holds = norm_error <= comparison.norm_limit;
        let norm_fails = bounded && !norm_holds;
        let pattern = self
            .span
            .as_ref()
            .map_or_else(String::new, |span| span.describe(comparison.extents, self.wrong));
        let failure = self.failure(elements, norm_fails);
        OutputCheck {
            output: comparison.name.to_owned(),
            elements,
            compared: self.compared,
            wrong: self.wrong,
            unwritten: self.unwritten,
            nonfinite: self.nonfinite,
            first: self.first,
            worst_ratio: self.worst_ratio.min(f64::MAX),
            norm_error: norm_error.min(f64::MAX),
            norm_limit: comparison.norm_limit,
            pattern,
            failure,
        }
    }

    fn failure(&self, elements: u64, norm_fails: bool) -> Option<Reason> {
        if self.compared != elements || elements == 0 {
            return Some(Reason::Mismatch);
        }
        if self.wrong == 0 {
            return norm_fails.then_some(Reason::Precision);
        }
        if self.unwritten == self.wrong {
            return Some(Reason::Poison);
        }
        Some(if self.nonfinite == self.wrong { Reason::Nonfinite } else { Reason::Mismatch })
    }
}

impl WrongSpan {
    fn add(&mut self, row: u64, column: u64) {
        self.rows = [self.rows[0].min(row), self.rows[1].max(row)];
        self.columns = [self.columns[0].min(column), self.columns[1].max(column)];
        self.row_count += u64::from(row != self.last_row);
        self.last_row = row;
    }

    fn describe(&self, extents: &[u64], wrong: u64) -> String {
        let columns = extents.last().copied().unwrap_or(1).max(1);
        let elements = extents.iter().product::<u64>();
        let rows = elements / columns;
        let share = format!("{wrong} of {elements} elements {} wrong", verb(wrong));
        let [first, last] = self.columns;
        if rows == 1 {
            return format!("{share}, from index {first} to {last}");
        }
        let column_text = if self.columns == [0, columns - 1] {
            "over the whole last dimension".to_owned()
        } else {
            format!("only in columns {first} to {last} of {columns}")
        };
        let [top, bottom] = self.rows;
        format!("{share}, in {} of {rows} rows ({top} to {bottom}), {column_text}", self.row_count)
    }
}

fn verb(count: u64) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

fn ratio(error: f64, tolerance: f64) -> f64 {
    match (error == 0.0, tolerance == 0.0) {
        (true, _) => 0.0,
        (false, true) => f64::MAX,
        (false, false) => error / tolerance,
    }
}

fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-4 || value.abs() >= 1e7) {
        format!("{value:.6e}")
    } else {
        format!("{value}")
    }
}

#[cfg(test)]
mod tests;
