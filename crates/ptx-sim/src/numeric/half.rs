//! Half and bfloat16 on bit patterns.

use super::round::{add_odd, integral};
use crate::program::ir::Rounding;

/// The NaN that NVIDIA GPUs return, in both formats.
pub(crate) const NAN: u16 = 0x7fff;

/// A 16-bit float format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Half,
    Bfloat,
}

impl Format {
    /// (stored mantissa bits, smallest normal exponent, bits of infinity)
    fn shape(self) -> (u32, i32, u16) {
        match self {
            Format::Half => (10, -14, 0x7c00),
            Format::Bfloat => (7, -126, 0x7f80),
        }
    }

    /// The exact value.
    pub(crate) fn widen(self, bits: u16) -> f64 {
        match self {
            Format::Half => half::f16::from_bits(bits).to_f64(),
            Format::Bfloat => f64::from(f32::from_bits(u32::from(bits) << 16)),
        }
    }

    /// Rounds a double (exact or rounded to odd).
    pub(crate) fn narrow(self, x: f64, rounding: Rounding) -> u16 {
        let (mantissa, exponent_min, infinity) = self.shape();
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        if x.is_nan() {
            return NAN;
        }
        if x.is_infinite() {
            return sign | infinity;
        }
        let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(exponent_min);
        if exponent > 300 {
            return sign | overflowed(infinity, sign != 0, rounding);
        }
        // Exact: both factors are powers of two within range.
        let steps = x * 2_f64.powi(mantissa as i32 - exponent);
        let rounded = integral(steps, rounding).abs() as u32;
        let bits = (((exponent - exponent_min) as u32) << mantissa) + rounded;
        if bits >= u32::from(infinity) {
            return sign | overflowed(infinity, sign != 0, rounding);
        }
        sign | bits as u16
    }
}

fn overflowed(infinity: u16, negative: bool, rounding: Rounding) -> u16 {
    let to_infinity = match rounding {
        Rounding::Nearest => true,
        Rounding::Zero => false,
        Rounding::Down => negative,
        Rounding::Up => !negative,
    };
    if to_infinity { infinity } else { infinity - 1 }
}

/// A bit pattern with every NaN made the one that the hardware gives.
pub(crate) fn canonical_bits(format: Format, bits: u16) -> u16 {
    if format.widen(bits).is_nan() { 0x7fff } else { bits }
}

#[inline(never)]
pub(crate) fn add(format: Format, a: u16, b: u16) -> u16 {
    format.narrow(add_odd(format.widen(a), format.widen(b)), Rounding::Nearest)
}

#[inline(never)]
pub(crate) fn mul(format: Format, a: u16, b: u16) -> u16 {
    format.narrow(format.widen(a) * format.widen(b), Rounding::Nearest)
}

#[inline(never)]
pub(crate) fn fma(format: Format, a: u16, b: u16, c: u16) -> u16 {
    let product = format.widen(a) * format.widen(b);
    format.narrow(add_odd(product, format.widen(c)), Rounding::Nearest)
}

/// Smaller or larger operand; NaN yields the other unless it propagates.
#[inline(never)]
pub(crate) fn extreme(format: Format, a: u16, b: u16, largest: bool, propagate: bool) -> u16 {
    let (x, y) = (format.widen(a), format.widen(b));
    if (x.is_nan() && y.is_nan()) || (propagate && (x.is_nan() || y.is_nan())) {
        return NAN;
    }
    let first = if largest {
        x > y || (x == y && a < b) || y.is_nan()
    } else {
        x < y || (x == y && a > b) || y.is_nan()
    };
    if first { a } else { b }
}

/// Clamps to [0, 1]; NaN becomes 0.
pub(crate) fn saturate(format: Format, bits: u16) -> u16 {
    let x = format.widen(bits);
    if x > 1.0 {
        format.narrow(1.0, Rounding::Nearest)
    } else if x > 0.0 {
        bits
    } else {
        0
    }
}

/// Negative values, -0 included, become +0; NaN stays.
pub(crate) fn relu(format: Format, bits: u16) -> u16 {
    if format.widen(bits).is_nan() || bits < 0x8000 { bits } else { 0 }
}
