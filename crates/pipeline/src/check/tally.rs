//! What is added up over the elements of one output, and what follows from the sums.

use super::block::Totals;
use super::block::{Block, Sums};
use super::{Comparison, OutputCheck, WrongElement};
use crate::inputs::NormGate;
use crate::limits::{NORM_ELEMENTS_MIN, NORM_TOLERANCE_SHARE, WRONG_ELEMENTS_MAX};
use crate::verdict::Reason;

/// One compared element.
pub(super) struct Element {
    pub(super) got: f64,
    pub(super) want: f64,
    /// `want` in the output's type.
    pub(super) rounded: f64,
    pub(super) tolerance: f64,
    pub(super) passes: bool,
}

impl Element {
    /// `rounded` is the exact value `want` in the output's type.
    #[inline]
    pub(super) fn float(got: f64, want: f64, rounded: f64, tolerance: f64) -> Self {
        // Beyond the type's range the right answer is what rounding gives: an infinity.
        let want = if tolerance == 0.0 || !rounded.is_finite() { rounded } else { want };
        let passes = if want.is_finite() && got.is_finite() {
            (got - want).abs() <= tolerance
        } else {
            got == want || got.is_nan() && want.is_nan()
        };
        Self { got, want, rounded, tolerance, passes }
    }
}

/// Running sums over the elements.
#[derive(Default)]
pub(super) struct Tally {
    sums: Sums,
    wrong: u64,
    unwritten: u64,
    nonfinite: u64,
    first: Vec<WrongElement>,
    span: Option<WrongSpan>,
    /// Norm-wise error of the worst part.
    worst_part_error: f64,
}

/// Bounding box of the wrong elements over (row, column), column being the last dimension.
struct WrongSpan {
    rows: [u64; 2],
    columns: [u64; 2],
    last_row: u64,
    row_count: u64,
}

impl Tally {
    /// Adds the element at `index`; elements come in the order of their indices.
    pub(super) fn add(&mut self, comparison: &Comparison<'_>, index: usize, element: &Element) {
        self.sums.add_element(element);
        if !element.passes {
            self.add_wrong(comparison, index, element);
        }
    }

    /// Adds the elements from `first` on.
    #[inline]
    pub(super) fn add_block(&mut self, comparison: &Comparison<'_>, first: usize, block: &Block) {
        if !self.sums.add_block(block) {
            self.look_for_wrong(comparison, first, block);
        }
    }

    #[cold]
    fn look_for_wrong(&mut self, comparison: &Comparison<'_>, first: usize, block: &Block) {
        for (index, element) in (first..).zip(block.elements()) {
            if !element.passes {
                self.add_wrong(comparison, index, &element);
            }
        }
    }

    /// Adds the tally of the elements that follow.
    pub(super) fn append(&mut self, next: Self) {
        self.sums.append(&next.sums);
        self.wrong += next.wrong;
        self.unwritten += next.unwritten;
        self.nonfinite += next.nonfinite;
        self.worst_part_error = self.worst_part_error.max(next.worst_part_error);
        let room = WRONG_ELEMENTS_MAX.saturating_sub(self.first.len());
        self.first.extend(next.first.into_iter().take(room));
        self.span = match (self.span.take(), next.span) {
            (Some(span), Some(next)) => Some(span.joined(&next)),
            (span, next) => span.or(next),
        };
    }

    fn add_wrong(&mut self, comparison: &Comparison<'_>, at: usize, element: &Element) {
        self.wrong += 1;
        let (dtype, index) = (comparison.dtype, at as u64);
        let poison = comparison.poison.element_bits(dtype, index);
        self.unwritten += u64::from(dtype.element_bits(comparison.got, at) == Some(poison));
        self.nonfinite += u64::from(!element.got.is_finite() || !element.want.is_finite());
        if self.first.len() < WRONG_ELEMENTS_MAX {
            self.first.push(WrongElement {
                index: multi_index(index, comparison.extents),
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

    /// Notes the norm-wise error of what was added so far, as that of a part: what is wrong in one
    /// block must not vanish in the norm of a large output.
    pub(super) fn note_part_error(&mut self, comparison: &Comparison<'_>) {
        let totals = self.sums.totals();
        if comparison.norm_gate == NormGate::Class && totals.compared >= NORM_ELEMENTS_MIN {
            self.worst_part_error = norm_error(comparison, &totals);
        }
    }

    pub(super) fn finish(self, comparison: &Comparison<'_>, elements: u64) -> OutputCheck {
        let totals = self.sums.totals();
        let norm_error = norm_error(comparison, &totals);
        let norm_limit = norm_limit(comparison, &totals);
        // Written so that a NaN is no pass.
        let norm_holds = norm_error <= norm_limit && self.worst_part_error <= comparison.norm_limit;
        let norm_fails = comparison.bounded() && !norm_holds;
        let pattern = self
            .span
            .as_ref()
            .map_or_else(String::new, |span| span.describe(comparison.extents, self.wrong));
        let failure = self.failure(totals.compared == elements && elements > 0, norm_fails);
        OutputCheck {
            output: comparison.name.to_owned(),
            elements,
            compared: totals.compared,
            wrong: self.wrong,
            unwritten: self.unwritten,
            nonfinite: self.nonfinite,
            first: self.first,
            worst_ratio: totals.worst_ratio,
            norm_error: norm_error.min(f64::MAX),
            norm_limit,
            worst_part_error: self.worst_part_error.min(f64::MAX),
            pattern,
            failure,
        }
    }

    fn failure(&self, complete: bool, norm_fails: bool) -> Option<Reason> {
        if !complete {
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

/// Norm-wise error; the excess over rounding alone for 16-bit outputs.
fn norm_error(comparison: &Comparison<'_>, totals: &Totals) -> f64 {
    let narrow = comparison.dtype.bits() <= 16 && comparison.dtype.is_float();
    let rounding = if narrow { totals.rounding_squares } else { 0.0 };
    if totals.want_squares > 0.0 {
        ((totals.error_squares - rounding).max(0.0) / totals.want_squares).sqrt()
    } else {
        0.0
    }
}

/// The limit of the norm-wise error for what was added up.
fn norm_limit(comparison: &Comparison<'_>, totals: &Totals) -> f64 {
    let share = match comparison.norm_gate {
        NormGate::Class if totals.compared >= NORM_ELEMENTS_MIN => return comparison.norm_limit,
        NormGate::Class | NormGate::Share => NORM_TOLERANCE_SHARE,
        NormGate::Elements => 1.0,
    };
    if totals.want_squares == 0.0 {
        return comparison.norm_limit;
    }
    let tolerance = (totals.tolerance_squares / totals.want_squares).sqrt();
    comparison.norm_limit.max((share * tolerance).min(f64::MAX))
}

impl WrongSpan {
    fn add(&mut self, row: u64, column: u64) {
        self.rows = [self.rows[0].min(row), self.rows[1].max(row)];
        self.columns = [self.columns[0].min(column), self.columns[1].max(column)];
        self.row_count += u64::from(row != self.last_row);
        self.last_row = row;
    }

    /// This span and the one of the elements that follow.
    fn joined(&self, next: &Self) -> Self {
        let same_row = u64::from(self.last_row == next.rows[0]);
        Self {
            rows: [self.rows[0], next.rows[1]],
            columns: [self.columns[0].min(next.columns[0]), self.columns[1].max(next.columns[1])],
            last_row: next.last_row,
            row_count: self.row_count + next.row_count - same_row,
        }
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

fn multi_index(mut index: u64, extents: &[u64]) -> Vec<u64> {
    let mut parts: Vec<u64> = Vec::with_capacity(extents.len());
    for extent in extents.iter().rev() {
        parts.push(index % extent.max(&1));
        index /= extent.max(&1);
    }
    parts.reverse();
    parts
}

fn number(value: f64) -> String {
    if value != 0.0 && (value.abs() < 1e-4 || value.abs() >= 1e7) {
        format!("{value:.6e}")
    } else {
        format!("{value}")
    }
}
