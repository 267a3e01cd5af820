//! The two 8-bit floats of deep learning on bit patterns.
//!
//! Into them PTX only rounds to nearest and saturates (`.rn.satfinite`); out of them is exact.

use super::round::integral;
use crate::program::ir::Rounding;

/// What becomes of a NaN, in both formats.
const NAN: u8 = 0x7f;

/// An 8-bit float format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fp8 {
    /// Four bits of exponent, three of mantissa; no infinity, one NaN of each sign.
    E4m3,
    /// The upper byte of a half.
    E5m2,
}

impl Fp8 {
    /// (stored mantissa bits, smallest normal exponent, bits of the largest finite value)
    fn shape(self) -> (u32, i32, u8) {
        match self {
            Fp8::E4m3 => (3, -6, 0x7e),
            Fp8::E5m2 => (2, -14, 0x7b),
        }
    }

    /// The exact value.
    pub(crate) fn widen(self, bits: u8) -> f64 {
        let (mantissa_bits, exponent_min, largest) = self.shape();
        let magnitude = bits & 0x7f;
        let sign = if bits & 0x80 == 0 { 1.0 } else { -1.0 };
        if magnitude > largest {
            let infinite = self == Fp8::E5m2 && magnitude == largest + 1;
            return if infinite { sign * f64::INFINITY } else { f64::NAN };
        }
        let (exponent, mantissa) =
            (magnitude >> mantissa_bits, magnitude & ((1 << mantissa_bits) - 1));
        let implicit = if exponent == 0 { 0 } else { 1 << mantissa_bits };
        let scale = exponent_min - mantissa_bits as i32 + i32::from(exponent.max(1)) - 1;
        sign * f64::from(mantissa + implicit) * 2_f64.powi(scale)
    }

    /// Rounds to nearest even; what is too large, infinities too, becomes the largest finite value.
    pub(crate) fn narrow(self, x: f64) -> u8 {
        if x.is_nan() {
            return NAN;
        }
        let (mantissa_bits, exponent_min, largest) = self.shape();
        let sign = if x.is_sign_negative() { 0x80 } else { 0 };
        // One binade above the format is as good as infinity.
        let exponent = ((x.to_bits() >> 52 & 0x7ff) as i32 - 1023).clamp(exponent_min, 16);
        // Exact: both factors are powers of two within range.
        let steps = x.clamp(-1e6, 1e6) * 2_f64.powi(mantissa_bits as i32 - exponent);
        let rounded = integral(steps, Rounding::Nearest).abs() as u32;
        let bits = (((exponent - exponent_min) as u32) << mantissa_bits) + rounded;
        sign | bits.min(u32::from(largest)) as u8
    }
}
