//! Directed rounding through double precision with round-to-odd intermediates.
//!
//! A double that is rounded to odd keeps enough information to be rounded once more, in any
//! direction, to a format of at most 25 bits without a double-rounding error.

use crate::program::ir::Rounding;

/// `x + e` rounded to odd, where `e` is smaller than half a unit of `x`.
#[inline(always)]
pub(crate) fn to_odd(x: f64, e: f64) -> f64 {
    let bits = x.to_bits();
    let inexact_even = e != 0.0 && bits & 1 == 0 && x.is_finite();
    let away = (e > 0.0) == (x > 0.0);
    let adjusted = if away { bits.wrapping_add(1) } else { bits.wrapping_sub(1) };
    f64::from_bits(if inexact_even { adjusted } else { bits })
}

/// `a + b` rounded to odd; exact zeros and infinities as IEEE gives them.
#[inline(always)]
pub(crate) fn add_odd(a: f64, b: f64) -> f64 {
    let sum = a + b;
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    // Infinities make the error NaN, which compares as inexact; `to_odd` leaves them alone.
    to_odd(sum, error)
}

/// Rounds a double (exact or rounded to odd) to single.
#[inline(always)]
pub(crate) fn to_single(x: f64, rounding: Rounding) -> f32 {
    let nearest = x as f32;
    let back = f64::from(nearest);
    let up = || nearest.next_up();
    let down = || nearest.next_down();
    match rounding {
        Rounding::Nearest => nearest,
        Rounding::Zero if back.abs() > x.abs() => {
            if x > 0.0 {
                down()
            } else {
                up()
            }
        }
        Rounding::Down if back > x => down(),
        Rounding::Up if back < x => up(),
        Rounding::Zero | Rounding::Down | Rounding::Up => nearest,
    }
}

/// The sign of an exact zero sum under a rounding: minus only when rounding down.
#[inline(always)]
pub(crate) fn zero_sum(a: f64, b: f64, sum: f64, rounding: Rounding) -> f64 {
    let cancels = sum == 0.0 && a.is_sign_negative() != b.is_sign_negative();
    if cancels && rounding == Rounding::Down { -0.0 } else { sum }
}

/// Rounds to an integral value.
#[inline(always)]
pub(crate) fn integral(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => x.round_ties_even(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}
