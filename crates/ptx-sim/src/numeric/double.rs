//! Double precision on bit patterns.

use crate::program::ir::Rounding;

/// NaN results are made one pattern, so that they do not depend on the host's operand order.
pub(crate) const NAN: u64 = 0x7fff_ffff_ffff_ffff;

#[inline(always)]
pub(crate) fn f(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Bits of a result, NaNs made canonical.
#[inline(always)]
pub(crate) fn canonical(x: f64) -> u64 {
    if x.is_nan() { NAN } else { x.to_bits() }
}

/// Moves a nearest result one step if the exact value lies on the other side of it.
fn direct(nearest: f64, error_sign: f64, rounding: Rounding) -> f64 {
    let (below, above) = (error_sign < 0.0, error_sign > 0.0);
    match rounding {
        Rounding::Nearest => nearest,
        Rounding::Zero if nearest > 0.0 && below => nearest.next_down(),
        Rounding::Zero if nearest < 0.0 && above => nearest.next_up(),
        Rounding::Zero => nearest,
        Rounding::Down => {
            if below {
                nearest.next_down()
            } else {
                nearest
            }
        }
        Rounding::Up => {
            if above {
                nearest.next_up()
            } else {
                nearest
            }
        }
    }
}

/// A result that overflowed from finite operands, under a rounding.
fn overflow(sign_negative: bool, rounding: Rounding) -> f64 {
    let to_infinity = match rounding {
        Rounding::Nearest => true,
        Rounding::Zero => false,
        Rounding::Down => sign_negative,
        Rounding::Up => !sign_negative,
    };
    let magnitude = if to_infinity { f64::INFINITY } else { f64::MAX };
    if sign_negative { -magnitude } else { magnitude }
}

#[inline(never)]
pub(crate) fn add_directed(a: u64, b: u64, rounding: Rounding) -> u64 {
    let (a, b) = (f(a), f(b));
    let sum = a + b;
    if !sum.is_finite() {
        let overflowed = a.is_finite() && b.is_finite();
        return canonical(if overflowed { overflow(sum < 0.0, rounding) } else { sum });
    }
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    canonical(super::round::zero_sum(a, b, direct(sum, error, rounding), rounding))
}

/// Fused multiply-add; also multiplication, with a zero of the product's sign as addend.
/// Exact through integers of 128 bits; alignment beyond that becomes a sticky bit.
#[inline(never)]
pub(crate) fn fma_directed(a: u64, b: u64, c: u64, rounding: Rounding) -> u64 {
    let nearest = f(a).mul_add(f(b), f(c));
    if nearest.is_nan() || !f(a).is_finite() || !f(b).is_finite() || !f(c).is_finite() {
        return canonical(nearest);
    }
    if !nearest.is_finite() {
        return canonical(overflow(nearest < 0.0, rounding));
    }
    let order = exact_order(a, b, c, nearest);
    let product_sign = (a ^ b) >> 63;
    if nearest == 0.0 && order == 0.0 {
        let cancels = product_sign != c >> 63;
        let down = rounding == Rounding::Down;
        return canonical(if cancels { if down { -0.0 } else { 0.0 } } else { nearest });
    }
    let away_from_zero = nearest == 0.0;
    if away_from_zero {
        return canonical(match rounding {
            Rounding::Down if order < 0.0 => -f64::from_bits(1),
            Rounding::Up if order > 0.0 => f64::from_bits(1),
            _ => nearest,
        });
    }
    canonical(direct(nearest, order, rounding))
}

#[inline(never)]
pub(crate) fn mul_directed(a: u64, b: u64, rounding: Rounding) -> u64 {
    fma_directed(a, b, (a ^ b) & (1 << 63), rounding)
}

/// Sign of `a * b + c - r`, exactly.
fn exact_order(a: u64, b: u64, c: u64, r: f64) -> f64 {
    let mut sum = Wide::default();
    let (ma, ea) = split(a);
    let (mb, eb) = split(b);
    let (mc, ec) = split(c);
    let (mr, er) = split(r.to_bits());
    sum.add(u128::from(ma) * u128::from(mb), ea + eb, (a ^ b) >> 63 == 1);
    sum.add(u128::from(mc), ec, c >> 63 == 1);
    sum.add(u128::from(mr), er, r.is_sign_positive());
    sum.sign()
}

/// Mantissa and exponent of the lowest bit.
fn split(bits: u64) -> (u64, i32) {
    let exponent = (bits >> 52 & 0x7ff) as i32;
    let fraction = bits & 0x000f_ffff_ffff_ffff;
    if exponent == 0 { (fraction, -1074) } else { (fraction | 1 << 52, exponent - 1075) }
}

/// A fixed-point number that holds every product of two doubles exactly.
#[derive(Debug)]
struct Wide {
    /// Two's complement, least significant first; bit 0 has weight 2^-2148.
    limbs: [u64; 68],
}

impl Default for Wide {
    fn default() -> Wide {
        Wide { limbs: [0; 68] }
    }
}

impl Wide {
    fn add(&mut self, mantissa: u128, exponent: i32, negative: bool) {
        let at = (exponent + 2148).max(0) as usize;
        let (limb, shift) = (at / 64, at % 64);
        let low = mantissa << shift;
        let high = if shift == 0 { 0 } else { (mantissa >> (128 - shift)) as u64 };
        let parts = [low as u64, (low >> 64) as u64, high];
        let mut carry = 0_i128;
        for (index, place) in self.limbs.iter_mut().enumerate().skip(limb) {
            let part = i128::from(parts.get(index - limb).copied().unwrap_or(0));
            let sum = i128::from(*place) + if negative { -part } else { part } + carry;
            *place = sum as u64;
            carry = sum >> 64;
        }
    }

    fn sign(&self) -> f64 {
        let negative = self.limbs[67] >> 63 == 1;
        let zero = self.limbs.iter().all(|l| *l == 0);
        if zero {
            0.0
        } else if negative {
            -1.0
        } else {
            1.0
        }
    }
}

#[inline(never)]
pub(crate) fn div_directed(a: u64, b: u64, rounding: Rounding) -> u64 {
    let (a, b) = (f(a), f(b));
    let quotient = a / b;
    if !quotient.is_finite() {
        let overflowed = a.is_finite() && b.is_finite() && b != 0.0;
        return canonical(if overflowed { overflow(quotient < 0.0, rounding) } else { quotient });
    }
    if b.is_infinite() {
        return canonical(quotient);
    }
    let order = exact_order((-quotient).to_bits(), b.to_bits(), a.to_bits(), 0.0);
    canonical(direct(quotient, order * b.signum(), rounding))
}

#[inline(never)]
pub(crate) fn sqrt_directed(a: u64, rounding: Rounding) -> u64 {
    let root = f(a).sqrt();
    if !root.is_finite() {
        return canonical(root);
    }
    let order = exact_order((-root).to_bits(), root.to_bits(), a, 0.0);
    canonical(direct(root, order, rounding))
}

#[inline(always)]
pub(crate) fn min(a: u64, b: u64) -> u64 {
    let (x, y) = (f(a), f(b));
    let first = x < y || (x == y && a > b) || y.is_nan();
    canonical(f(if first { a } else { b }))
}

#[inline(always)]
pub(crate) fn max(a: u64, b: u64) -> u64 {
    let (x, y) = (f(a), f(b));
    let first = x > y || (x == y && a < b) || y.is_nan();
    canonical(f(if first { a } else { b }))
}

/// What an approximate function sees of its operand: the high word, subnormals flushed.
pub(crate) fn head(a: u64) -> u64 {
    flush(a & 0xffff_ffff_0000_0000)
}

/// `rcp.approx.ftz.f64` and `rsqrt.approx.ftz.f64`: the high word only, subnormals flushed.
#[inline(never)]
pub(crate) fn high_word(x: f64) -> u64 {
    let bits = canonical(x);
    let flushed = if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits };
    if x.is_nan() { bits } else { flushed & 0xffff_ffff_0000_0000 }
}

/// Subnormals to zero.
#[inline(never)]
pub(crate) fn flush(bits: u64) -> u64 {
    if bits & 0x7ff0_0000_0000_0000 == 0 { bits & 1 << 63 } else { bits }
}

/// `testp` by index: finite, infinite, number, notanumber, normal, subnormal.
#[inline(never)]
pub(crate) fn test_property(x: f64, property: u16) -> bool {
    match property {
        0 => x.is_finite(),
        1 => x.is_infinite(),
        2 => !x.is_nan(),
        3 => x.is_nan(),
        4 => x.is_normal(),
        _ => x.is_subnormal(),
    }
}
