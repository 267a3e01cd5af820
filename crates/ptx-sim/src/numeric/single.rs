//! Single precision on bit patterns.

use super::round::{add_odd, to_odd, to_single, zero_sum};
use crate::program::ir::Rounding;

/// The NaN that NVIDIA GPUs return.
pub(crate) const NAN: u32 = 0x7fff_ffff;

#[inline(always)]
pub(crate) fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

/// A bit pattern with every NaN made the one that the hardware gives.
#[inline(always)]
pub(crate) fn canonical_bits(bits: u32) -> u32 {
    canonical(f32::from_bits(bits))
}

/// Bits of a result, NaNs made canonical.
#[inline(always)]
pub(crate) fn canonical(x: f32) -> u32 {
    if x.is_nan() { NAN } else { x.to_bits() }
}

/// Subnormals to zero of the same sign.
#[inline(always)]
pub(crate) fn flush(bits: u32) -> u32 {
    if bits & 0x7f80_0000 == 0 { bits & 0x8000_0000 } else { bits }
}

/// Clamps to [0, 1]; NaN becomes 0.
#[inline(always)]
pub(crate) fn saturate(bits: u32) -> u32 {
    let x = f(bits);
    if x > 1.0 {
        0x3f80_0000
    } else if x > 0.0 {
        bits
    } else {
        0
    }
}

/// Fused multiply-add without hardware: exact product in double, sum rounded to odd.
#[inline(always)]
pub(crate) fn fma_soft(a: u32, b: u32, c: u32) -> u32 {
    canonical(add_odd(f64::from(f(a)) * f64::from(f(b)), f64::from(f(c))) as f32)
}

/// Fused multiply-add with hardware; only fast where the caller enables the feature.
#[inline(always)]
pub(crate) fn fma_hard(a: u32, b: u32, c: u32) -> u32 {
    canonical(f(a).mul_add(f(b), f(c)))
}

#[inline(never)]
pub(crate) fn fma_directed(a: u32, b: u32, c: u32, rounding: Rounding) -> u32 {
    let (product, addend) = (f64::from(f(a)) * f64::from(f(b)), f64::from(f(c)));
    let sum = zero_sum(product, addend, add_odd(product, addend), rounding);
    canonical(to_single(sum, rounding))
}

#[inline(never)]
pub(crate) fn add_directed(a: u32, b: u32, rounding: Rounding) -> u32 {
    let (a, b) = (f64::from(f(a)), f64::from(f(b)));
    canonical(to_single(zero_sum(a, b, add_odd(a, b), rounding), rounding))
}

#[inline(never)]
pub(crate) fn mul_directed(a: u32, b: u32, rounding: Rounding) -> u32 {
    canonical(to_single(f64::from(f(a)) * f64::from(f(b)), rounding))
}

#[inline(never)]
pub(crate) fn div_directed(a: u32, b: u32, rounding: Rounding) -> u32 {
    let (a, b) = (f64::from(f(a)), f64::from(f(b)));
    let quotient = a / b;
    if !quotient.is_finite() || b.is_infinite() {
        return canonical(quotient as f32);
    }
    let remainder = (-quotient).mul_add(b, a);
    canonical(to_single(to_odd(quotient, remainder * b.signum()), rounding))
}

#[inline(never)]
pub(crate) fn sqrt_directed(a: u32, rounding: Rounding) -> u32 {
    let a = f64::from(f(a));
    let root = a.sqrt();
    if !root.is_finite() {
        return canonical(root as f32);
    }
    let remainder = (-root).mul_add(root, a);
    canonical(to_single(to_odd(root, remainder), rounding))
}

/// `div.approx`: zero for divisors beyond 2^126, as documented.
#[inline(always)]
pub(crate) fn div_approx(a: u32, b: u32) -> u32 {
    let magnitude = b & 0x7fff_ffff;
    // Divisors above 2^126 have no approximate reciprocal: the quotient vanishes.
    let huge = magnitude > 0x7e80_0000 && magnitude < 0x7f80_0000;
    match (huge, f(a).is_finite()) {
        (true, true) => (a ^ b) & 0x8000_0000,
        (true, false) => canonical(f32::NAN),
        (false, _) => canonical(f(a) / f(b)),
    }
}

/// Smaller operand; a NaN yields the other one, -0 is below +0.
#[inline(always)]
pub(crate) fn min(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let first = x < y || (x == y && a > b) || y.is_nan();
    canonical(f(if first { a } else { b }))
}

/// Larger operand; a NaN yields the other one, +0 is above -0.
#[inline(always)]
pub(crate) fn max(a: u32, b: u32) -> u32 {
    let (x, y) = (f(a), f(b));
    let first = x > y || (x == y && a < b) || y.is_nan();
    canonical(f(if first { a } else { b }))
}

/// `2^x` in double, correctly rounded to single but for rare ties within 2^-50.
#[inline(always)]
pub(crate) fn ex2(bits: u32) -> u32 {
    let x = f64::from(f(bits)).clamp(-400.0, 400.0);
    let whole = x.round_ties_even();
    let t = (x - whole) * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for n in [13.0, 12.0, 11.0, 10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0] {
        sum = 1.0 + sum * t * (1.0 / n);
    }
    // Adding 2^52 * 1.5 leaves the integer in the low bits.
    let biased = (whole + 6_755_399_441_055_744.0).to_bits().wrapping_add(1023) << 52;
    let result = (sum * f64::from_bits(biased)) as f32;
    if f(bits).is_nan() { NAN } else { result.to_bits() }
}

/// `log2 x` through the series of the inverse hyperbolic tangent.
#[inline(always)]
pub(crate) fn lg2(bits: u32) -> u32 {
    let x = f(bits);
    let wide = f64::from(x).to_bits();
    let exponent = ((wide >> 52) & 0x7ff) as i32 - 1023;
    let mantissa = f64::from_bits(wide & 0x000f_ffff_ffff_ffff | 0x3ff0_0000_0000_0000);
    let high = mantissa > std::f64::consts::SQRT_2;
    let m = if high { mantissa * 0.5 } else { mantissa };
    let e = f64::from(exponent + i32::from(high));
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for n in [21.0, 19.0, 17.0, 15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0, 1.0] {
        sum = sum * square + 1.0 / n;
    }
    let result = (e + 2.0 * s * sum * std::f64::consts::LOG2_E) as f32;
    if x.is_nan() || x < 0.0 {
        NAN
    } else if x == 0.0 {
        0xff80_0000
    } else if x == f32::INFINITY {
        0x7f80_0000
    } else {
        result.to_bits()
    }
}

#[inline(always)]
pub(crate) fn rsqrt(bits: u32) -> u32 {
    let x = f64::from(f(bits));
    // The root of -0 is -0, whose reciprocal is the documented -infinity.
    canonical((1.0 / x.sqrt()) as f32)
}

#[inline(never)]
pub(crate) fn sin(bits: u32) -> u32 {
    canonical(f64::from(f(bits)).sin() as f32)
}

#[inline(never)]
pub(crate) fn cos(bits: u32) -> u32 {
    canonical(f64::from(f(bits)).cos() as f32)
}

#[inline(never)]
pub(crate) fn tanh(bits: u32) -> u32 {
    canonical(f64::from(f(bits)).tanh() as f32)
}

/// `testp` by index: finite, infinite, number, notanumber, normal, subnormal.
#[inline(never)]
pub(crate) fn test_property(x: f32, property: u16) -> bool {
    match property {
        0 => x.is_finite(),
        1 => x.is_infinite(),
        2 => !x.is_nan(),
        3 => x.is_nan(),
        4 => x.is_normal(),
        _ => x.is_subnormal(),
    }
}
