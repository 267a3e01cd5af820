//! Elements of a float output that are judged column by column, so that the compiler can use
//! vector instructions: no branch, one lane of sums for each place in a vector.

use super::Tolerance;
use super::tally::Element;

/// Elements of a block.
pub(super) const BLOCK: usize = 64;
/// Sums that are kept apart, so that one addition need not wait for another.
const LANES: usize = 8;

/// Columns of up to [`BLOCK`] elements; what is behind them passes and adds nothing.
pub(super) struct Block {
    len: usize,
    got: [f64; BLOCK],
    want: [f64; BLOCK],
    rounded: [f64; BLOCK],
    tolerance: [f64; BLOCK],
}

impl Block {
    pub(super) fn new() -> Self {
        let nothing = [0.0; BLOCK];
        Self { len: 0, got: nothing, want: nothing, rounded: nothing, tolerance: nothing }
    }

    /// Takes the elements of tensors of which each has the same number, at most [`BLOCK`].
    #[inline(always)]
    pub(super) fn fill<const WIDTH: usize>(
        &mut self,
        got: &[[u8; WIDTH]],
        want: &[[u8; 8]],
        decode: impl Fn([u8; WIDTH]) -> f64,
        round: impl Fn(f64) -> f64,
    ) {
        self.len = got.len().min(want.len()).min(BLOCK);
        if self.len < BLOCK {
            *self = Self { len: self.len, ..Self::new() };
        }
        for (slot, bytes) in self.got.iter_mut().zip(got) {
            *slot = decode(*bytes);
        }
        for (slot, bytes) in self.want.iter_mut().zip(want) {
            *slot = f64::from_le_bytes(*bytes);
        }
        for (slot, want) in self.rounded.iter_mut().zip(&self.want[..self.len]) {
            *slot = round(*want);
        }
    }

    /// Gives each element its tolerance, which is 0 until then.
    #[inline(always)]
    pub(super) fn allow(&mut self, tolerance: Tolerance, bounds: &[[u8; 8]]) {
        for ((slot, want), bound) in self.tolerance.iter_mut().zip(&self.want).zip(bounds) {
            *slot = tolerance.of(*want, f64::from_le_bytes(*bound));
        }
    }

    /// The elements one by one.
    pub(super) fn elements(&self) -> impl Iterator<Item = Element> {
        let element = |at: usize| {
            Element::float(self.got[at], self.want[at], self.rounded[at], self.tolerance[at])
        };
        (0..self.len).map(element)
    }
}

/// As `is_finite`, which the compiler makes of integer instructions.
#[inline(always)]
pub(super) fn finite(value: f64) -> bool {
    value.abs() <= f64::MAX
}

/// What every element adds to.
#[derive(Default)]
pub(super) struct Sums {
    compared: u64,
    worst_ratios: [f64; LANES],
    error_squares: [f64; LANES],
    rounding_squares: [f64; LANES],
    want_squares: [f64; LANES],
    tolerance_squares: [f64; LANES],
}

/// The same, added up.
pub(super) struct Totals {
    pub(super) compared: u64,
    pub(super) worst_ratio: f64,
    pub(super) error_squares: f64,
    pub(super) rounding_squares: f64,
    pub(super) want_squares: f64,
    pub(super) tolerance_squares: f64,
}

impl Sums {
    /// Adds a block; true when each of its elements is finite and passes.
    #[inline(always)]
    pub(super) fn add_block(&mut self, block: &Block) -> bool {
        self.compared += block.len as u64;
        let mut wrong = [false; LANES];
        for first in (0..BLOCK).step_by(LANES) {
            for (lane, wrong) in wrong.iter_mut().enumerate() {
                let at = first + lane;
                let (got, rounded) = (block.got[at], block.rounded[at]);
                let tolerance = block.tolerance[at];
                let exact = (tolerance == 0.0) | !finite(rounded);
                let want = if exact { rounded } else { block.want[at] };
                *wrong |= !self.add(lane, got, want, rounded, tolerance);
            }
        }
        !wrong.iter().any(|wrong| *wrong)
    }

    /// Adds one element; true when it is finite and within its tolerance.
    #[inline(always)]
    fn add(&mut self, lane: usize, got: f64, want: f64, rounded: f64, tolerance: f64) -> bool {
        let finite = finite(want) & finite(got);
        let only_finite = |value: f64| if finite { value } else { 0.0 };
        let error = only_finite((got - want).abs());
        let rounding = only_finite(rounded - want);
        let want = only_finite(want);
        self.error_squares[lane] += error * error;
        self.rounding_squares[lane] += rounding * rounding;
        self.want_squares[lane] += want * want;
        self.tolerance_squares[lane] += tolerance * tolerance;
        // Infinite for an error without a tolerance; NaN, which is no maximum, for 0 / 0.
        let ratio = error / tolerance;
        let worst = self.worst_ratios[lane];
        self.worst_ratios[lane] = if ratio > worst { ratio } else { worst };
        finite & (error <= tolerance)
    }

    pub(super) fn add_element(&mut self, element: &Element) {
        self.compared += 1;
        self.add(0, element.got, element.want, element.rounded, element.tolerance);
    }

    /// Adds the sums of the elements that follow.
    pub(super) fn append(&mut self, next: &Self) {
        self.compared += next.compared;
        let add = |sums: &mut [f64; LANES], next: &[f64; LANES]| {
            sums.iter_mut().zip(next).for_each(|(sum, next)| *sum += next);
        };
        add(&mut self.error_squares, &next.error_squares);
        add(&mut self.rounding_squares, &next.rounding_squares);
        add(&mut self.want_squares, &next.want_squares);
        add(&mut self.tolerance_squares, &next.tolerance_squares);
        for (worst, next) in self.worst_ratios.iter_mut().zip(next.worst_ratios) {
            *worst = worst.max(next);
        }
    }

    pub(super) fn totals(&self) -> Totals {
        Totals {
            compared: self.compared,
            worst_ratio: self.worst_ratios.into_iter().fold(0.0, f64::max).min(f64::MAX),
            error_squares: self.error_squares.iter().sum(),
            rounding_squares: self.rounding_squares.iter().sum(),
            want_squares: self.want_squares.iter().sum(),
            tolerance_squares: self.tolerance_squares.iter().sum(),
        }
    }
}
