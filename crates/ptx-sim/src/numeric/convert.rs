//! `cvt` between any two formats, one lane at a time.

use super::fp8::Fp8;
use super::half::{self, Format};
use super::round::{integral, to_single};
use super::{double, single};
use crate::program::ir::{Convert, Number, Pairing, Rounding};

/// A value between source and destination format.
#[derive(Debug, Clone, Copy)]
enum Value {
    Integer(i128),
    Float(f64),
}

/// Converts the bits of one lane. The result is in the low bits; integer results narrower than
/// the destination register are extended to 64 bits by their own signedness.
pub(crate) fn convert(op: &Convert, bits: u64, low: u64) -> u64 {
    let (high, low) = match op.pairing {
        Pairing::One => return convert_one(op, bits),
        Pairing::Sources(_) => (bits, low),
        Pairing::Packed => (bits >> op.from.bits(), bits),
    };
    let one = |bits: u64| to_number(op, read(op.from, bits, op.ftz));
    let width = op.to.bits();
    one(high) << width | one(low) & ((1 << width) - 1)
}

fn convert_one(op: &Convert, bits: u64) -> u64 {
    if op.from == op.to && op.from.is_float() && !op.integral && !op.sat && !op.relu {
        return same_format(op, bits);
    }
    to_number(op, read(op.from, bits, op.ftz))
}

fn same_format(op: &Convert, bits: u64) -> u64 {
    match op.from {
        Number::F32 if op.ftz => u64::from(single::flush(bits as u32)),
        _ => bits,
    }
}

fn read(from: Number, bits: u64, ftz: bool) -> Value {
    match from {
        Number::U8 => Value::Integer(i128::from(bits as u8)),
        Number::S8 => Value::Integer(i128::from(bits as i8)),
        Number::U16 => Value::Integer(i128::from(bits as u16)),
        Number::S16 => Value::Integer(i128::from(bits as i16)),
        Number::U32 => Value::Integer(i128::from(bits as u32)),
        Number::S32 => Value::Integer(i128::from(bits as i32)),
        Number::U64 => Value::Integer(i128::from(bits)),
        Number::S64 => Value::Integer(i128::from(bits as i64)),
        Number::F16 => Value::Float(Format::Half.widen(bits as u16)),
        Number::Bf16 => Value::Float(Format::Bfloat.widen(bits as u16)),
        Number::F32 | Number::Tf32 => {
            let bits = if ftz { single::flush(bits as u32) } else { bits as u32 };
            Value::Float(f64::from(f32::from_bits(bits)))
        }
        Number::F64 => Value::Float(f64::from_bits(bits)),
        Number::E4m3 => Value::Float(Fp8::E4m3.widen(bits as u8)),
        Number::E5m2 => Value::Float(Fp8::E5m2.widen(bits as u8)),
    }
}

fn to_number(op: &Convert, value: Value) -> u64 {
    match (op.to.is_float(), value) {
        (false, Value::Integer(value)) => integer_to_integer(op, value),
        (false, Value::Float(value)) => float_to_integer(op, value),
        (true, Value::Float(value)) => {
            let value = if op.integral { integral(value, op.rounding) } else { value };
            let rounding = if op.integral { Rounding::Nearest } else { op.rounding };
            to_float(op, value, rounding)
        }
        (true, Value::Integer(value)) => integer_to_float(op, value),
    }
}

/// Smallest and largest value of an integer format.
fn range(number: Number) -> (i128, i128) {
    let bits = number.bits();
    if number.is_signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

/// Cuts to the format, then extends to 64 bits by its signedness.
fn wrap(number: Number, value: i128) -> u64 {
    match number.bits() {
        8 if number.is_signed() => value as i8 as u64,
        8 => u64::from(value as u8),
        16 if number.is_signed() => value as i16 as u64,
        16 => u64::from(value as u16),
        32 if number.is_signed() => value as i32 as u64,
        32 => u64::from(value as u32),
        _ => value as u64,
    }
}

fn integer_to_integer(op: &Convert, value: i128) -> u64 {
    let (low, high) = range(op.to);
    wrap(op.to, if op.sat { value.clamp(low, high) } else { value })
}

/// Always saturates. NaN gives 0, but the pattern with only the top bit set for 64-bit results
/// and double sources.
fn float_to_integer(op: &Convert, value: f64) -> u64 {
    if value.is_nan() {
        let odd = op.to.bits() == 64 || (op.from == Number::F64 && op.to.bits() == 32);
        return if odd { wrap(op.to, 1 << (op.to.bits() - 1)) } else { 0 };
    }
    let (low, high) = range(op.to);
    // The float-to-int cast of Rust saturates at the bounds of 128 bits.
    wrap(op.to, (integral(value, op.rounding) as i128).clamp(low, high))
}

/// Rounds a double-exact value. Values from single or double sources only need one rounding.
fn to_float(op: &Convert, value: f64, rounding: Rounding) -> u64 {
    match op.to {
        Number::F64 => {
            let bits = double::canonical(value);
            if op.sat { saturate_double(value) } else { bits }
        }
        Number::F32 => {
            let bits = single::canonical(to_single(value, rounding));
            let bits = if op.ftz { single::flush(bits) } else { bits };
            u64::from(if op.sat { single::saturate(bits) } else { bits })
        }
        Number::Tf32 => u64::from(to_tf32(op, value)),
        Number::E4m3 => u64::from(to_fp8(op, Fp8::E4m3, value)),
        Number::E5m2 => u64::from(to_fp8(op, Fp8::E5m2, value)),
        Number::F16 => u64::from(to_half(op, Format::Half, value, rounding)),
        Number::Bf16 => u64::from(to_half(op, Format::Bfloat, value, rounding)),
        Number::U8
        | Number::S8
        | Number::U16
        | Number::S16
        | Number::U32
        | Number::S32
        | Number::U64
        | Number::S64 => 0,
    }
}

fn to_fp8(op: &Convert, format: Fp8, value: f64) -> u8 {
    let bits = format.narrow(value);
    if op.relu && bits & 0x80 != 0 { 0 } else { bits }
}

fn to_half(op: &Convert, format: Format, value: f64, rounding: Rounding) -> u16 {
    let bits = format.narrow(value, rounding);
    let bits = if op.sat { half::saturate(format, bits) } else { bits };
    if op.relu { half::relu(format, bits) } else { bits }
}

fn saturate_double(value: f64) -> u64 {
    if value > 1.0 {
        1_f64.to_bits()
    } else if value > 0.0 {
        value.to_bits()
    } else {
        0
    }
}

/// Ten mantissa bits in a single's place.
fn to_tf32(op: &Convert, value: f64) -> u32 {
    let bits = (value as f32).to_bits();
    if value.is_nan() {
        return single::NAN;
    }
    if op.relu && bits >> 31 == 1 {
        return 0;
    }
    let half = match (op.away, op.rounding) {
        (true, _) => 1 << 12,
        (false, Rounding::Nearest) => (1 << 12) - 1 + (bits >> 13 & 1),
        (false, _) => 0,
    };
    let magnitude = bits & 0x7fff_ffff;
    let rounded = if magnitude >= 0x7f80_0000 { magnitude } else { magnitude + half };
    bits & 0x8000_0000 | rounded & !0x1fff
}

fn integer_to_float(op: &Convert, value: i128) -> u64 {
    let nearest = value as f64;
    let back = nearest as i128;
    let error = if back == value {
        0.0
    } else if back < value {
        1.0
    } else {
        -1.0
    };
    match op.to {
        Number::F64 => {
            let directed = match op.rounding {
                Rounding::Nearest => nearest,
                Rounding::Zero if nearest > 0.0 && error < 0.0 => nearest.next_down(),
                Rounding::Zero if nearest < 0.0 && error > 0.0 => nearest.next_up(),
                Rounding::Down if error < 0.0 => nearest.next_down(),
                Rounding::Up if error > 0.0 => nearest.next_up(),
                Rounding::Zero | Rounding::Down | Rounding::Up => nearest,
            };
            directed.to_bits()
        }
        _ => to_float(op, super::round::to_odd(nearest, error), op.rounding),
    }
}
