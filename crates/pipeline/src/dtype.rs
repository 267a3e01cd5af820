//! Element types of tensors: width, rounding unit, and decoding of bit patterns to `f64`.
//!
//! Tensors travel as bit patterns in little-endian bytes; only this file knows what they mean.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// An element type. Names in files are the lower-case variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    F64,
    F32,
    F16,
    Bf16,
    E4m3,
    E5m2,
    I64,
    I32,
    I16,
    I8,
    U64,
    U32,
    U16,
    U8,
    /// One byte, 0 or 1.
    Bool,
    /// Two's complement, two per byte, even index in the low nibble.
    Int4,
    /// FP4 E2M1, packed like `Int4`.
    Fp4e2m1,
    /// An exponent-only scale, 2^(bits - 127).
    Ue8m0,
}

impl Dtype {
    /// Width of one element in bits.
    #[must_use]
    pub fn bits(self) -> u64 {
        match self {
            Self::F64 | Self::I64 | Self::U64 => 64,
            Self::F32 | Self::I32 | Self::U32 => 32,
            Self::F16 | Self::Bf16 | Self::I16 | Self::U16 => 16,
            Self::E4m3 | Self::E5m2 | Self::I8 | Self::U8 | Self::Bool | Self::Ue8m0 => 8,
            Self::Int4 | Self::Fp4e2m1 => 4,
        }
    }

    /// Bytes of `len` elements; `None` on overflow or half a byte.
    #[must_use]
    pub fn bytes_for(self, len: u64) -> Option<u64> {
        let bits = len.checked_mul(self.bits())?;
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// True for types that can hold a fraction.
    #[must_use]
    pub fn is_float(self) -> bool {
        match self {
            Self::F64 | Self::F32 | Self::F16 | Self::Bf16 => true,
            Self::E4m3 | Self::E5m2 | Self::Fp4e2m1 | Self::Ue8m0 => true,
            Self::I64 | Self::I32 | Self::I16 | Self::I8 => false,
            Self::U64 | Self::U32 | Self::U16 | Self::U8 | Self::Bool | Self::Int4 => false,
        }
    }

    /// Unit roundoff of the type as an output; 0 for integers.
    #[must_use]
    pub fn unit_roundoff(self) -> f64 {
        match self {
            Self::F64 => 2f64.powi(-53),
            Self::F32 => 2f64.powi(-24),
            Self::F16 => 2f64.powi(-11),
            Self::Bf16 => 2f64.powi(-8),
            Self::E4m3 => 2f64.powi(-4),
            Self::E5m2 => 2f64.powi(-3),
            Self::Fp4e2m1 => 2f64.powi(-2),
            Self::Ue8m0 => 0.5,
            Self::I64 | Self::I32 | Self::I16 | Self::I8 => 0.0,
            Self::U64 | Self::U32 | Self::U16 | Self::U8 | Self::Bool | Self::Int4 => 0.0,
        }
    }

    /// Smallest positive value, subnormals included; 0 for integers.
    #[must_use]
    pub fn smallest_subnormal(self) -> f64 {
        match self {
            Self::F64 => f64::from_bits(1),
            Self::F32 => 2f64.powi(-149),
            Self::F16 => 2f64.powi(-24),
            Self::Bf16 => 2f64.powi(-133),
            Self::E4m3 => 2f64.powi(-9),
            Self::E5m2 => 2f64.powi(-16),
            Self::Fp4e2m1 => 0.5,
            Self::Ue8m0 => 2f64.powi(-127),
            Self::I64 | Self::I32 | Self::I16 | Self::I8 => 0.0,
            Self::U64 | Self::U32 | Self::U16 | Self::U8 | Self::Bool | Self::Int4 => 0.0,
        }
    }

    /// Smallest positive normal value; 0 for integers.
    #[must_use]
    pub fn smallest_normal(self) -> f64 {
        match self {
            Self::F64 => f64::MIN_POSITIVE,
            Self::F32 | Self::Bf16 => 2f64.powi(-126),
            Self::F16 | Self::E5m2 => 2f64.powi(-14),
            Self::E4m3 => 2f64.powi(-6),
            Self::Fp4e2m1 => 1.0,
            Self::Ue8m0 => 2f64.powi(-127),
            Self::I64 | Self::I32 | Self::I16 | Self::I8 => 0.0,
            Self::U64 | Self::U32 | Self::U16 | Self::U8 | Self::Bool | Self::Int4 => 0.0,
        }
    }

    /// Bits of element `index` of a tensor in `bytes`; `None` past its end.
    #[must_use]
    pub fn element_bits(self, bytes: &[u8], index: usize) -> Option<u64> {
        if self.bits() == 4 {
            let byte = *bytes.get(index / 2)?;
            return Some(u64::from(if index.is_multiple_of(2) { byte & 15 } else { byte >> 4 }));
        }
        let width = self.bits() as usize / 8;
        let start = index.checked_mul(width)?;
        let slice = bytes.get(start..start.checked_add(width)?)?;
        Some(slice.iter().rev().fold(0, |bits, byte| (bits << 8) | u64::from(*byte)))
    }

    /// Value of a bit pattern. 64-bit integers beyond 2^53 are rounded: compare those as bits.
    #[must_use]
    pub fn decode(self, bits: u64) -> f64 {
        match self {
            Self::F64 => f64::from_bits(bits),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            Self::F16 => f16::from_bits(bits as u16).to_f64(),
            Self::Bf16 => bf16::from_bits(bits as u16).to_f64(),
            Self::E4m3 => decode_small(bits as u8, 4, 3, SmallKind::NanOnly),
            Self::E5m2 => decode_small(bits as u8, 5, 2, SmallKind::Ieee),
            Self::Fp4e2m1 => {
                decode_small((bits as u8 & 7) | ((bits as u8 & 8) << 4), 2, 1, SmallKind::Finite)
            }
            Self::Ue8m0 if bits as u8 == 255 => f64::NAN,
            Self::Ue8m0 => 2f64.powi(i32::from(bits as u8) - 127),
            Self::I64 => bits as i64 as f64,
            Self::I32 => f64::from(bits as u32 as i32),
            Self::I16 => f64::from(bits as u16 as i16),
            Self::I8 => f64::from(bits as u8 as i8),
            Self::U64 => bits as f64,
            Self::U32 => f64::from(bits as u32),
            Self::U16 => f64::from(bits as u16),
            Self::U8 | Self::Bool => f64::from(bits as u8),
            Self::Int4 => f64::from(((bits as u8) << 4) as i8 >> 4),
        }
    }

    /// Bits of the value nearest to `value` (ties to even); integers saturate.
    #[must_use]
    pub fn encode(self, value: f64) -> u64 {
        match self {
            Self::F64 => value.to_bits(),
            Self::F32 => u64::from((value as f32).to_bits()),
            Self::F16 => u64::from(f16::from_f64(value).to_bits()),
            Self::Bf16 => u64::from(bf16::from_f64(value).to_bits()),
            Self::E4m3 | Self::E5m2 | Self::Ue8m0 => self.nearest_code(value, 256),
            Self::Fp4e2m1 => self.nearest_code(value, 16),
            Self::I64 => value as i64 as u64,
            Self::I32 => u64::from(value as i32 as u32),
            Self::I16 => u64::from(value as i16 as u16),
            Self::I8 => u64::from(value as i8 as u8),
            Self::U64 => value as u64,
            Self::U32 => u64::from(value as u32),
            Self::U16 => u64::from(value as u16),
            Self::U8 => u64::from(value as u8),
            Self::Bool => u64::from(value != 0.0),
            Self::Int4 => (value.clamp(-8.0, 7.0) as i8 as u8 & 15).into(),
        }
    }

    fn nearest_code(self, value: f64, codes: u64) -> u64 {
        let distance = |code: u64| (self.decode(code) - value).abs();
        (0..codes)
            .filter(|code| self.decode(*code).is_finite())
            .min_by(|a, b| distance(*a).total_cmp(&distance(*b)).then((a & 1).cmp(&(b & 1))))
            .unwrap_or(0)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SmallKind {
    /// All-ones exponent holds infinities and NaN.
    Ieee,
    /// Only the all-ones pattern is NaN.
    NanOnly,
    /// Every pattern is a number.
    Finite,
}

fn decode_small(code: u8, exponent_bits: u32, mantissa_bits: u32, kind: SmallKind) -> f64 {
    let sign = if code & 0x80 != 0 { -1.0 } else { 1.0 };
    let mantissa = code & ((1 << mantissa_bits) - 1);
    let exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1);
    let top = (1 << exponent_bits) - 1;
    if kind == SmallKind::Ieee && exponent == top {
        return if mantissa == 0 { sign * f64::INFINITY } else { f64::NAN };
    }
    if kind == SmallKind::NanOnly && code & 0x7f == 0x7f {
        return f64::NAN;
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    let scale = 2f64.powi(-(mantissa_bits as i32));
    if exponent == 0 {
        return sign * f64::from(mantissa) * scale * 2f64.powi(1 - bias);
    }
    sign * (1.0 + f64::from(mantissa) * scale) * 2f64.powi(i32::from(exponent) - bias)
}

#[cfg(test)]
mod tests {
    use super::Dtype;

    #[test]
    fn decodes_the_edges_of_the_small_formats() {
        for (dtype, bits, value) in [
            (Dtype::E4m3, 0x7e, 448.0),
            (Dtype::E4m3, 0x01, 2f64.powi(-9)),
            (Dtype::E5m2, 0x7b, 57344.0),
            (Dtype::E5m2, 0x7c, f64::INFINITY),
            (Dtype::Fp4e2m1, 0x7, 6.0),
            (Dtype::Fp4e2m1, 0xf, -6.0),
            (Dtype::Fp4e2m1, 0x1, 0.5),
            (Dtype::Ue8m0, 127, 1.0),
            (Dtype::Int4, 0x8, -8.0),
            (Dtype::Bf16, 0x3f80, 1.0),
            (Dtype::I16, 0xffff, -1.0),
        ] {
            assert_eq!(dtype.decode(bits), value, "{dtype:?} {bits:#x}");
        }
        assert!(Dtype::E4m3.decode(0xff).is_nan());
    }

    #[test]
    fn every_finite_code_encodes_to_itself() {
        for (dtype, codes) in
            [(Dtype::E4m3, 256), (Dtype::E5m2, 256), (Dtype::Fp4e2m1, 16), (Dtype::Int4, 16)]
        {
            for code in 0..codes {
                let value = dtype.decode(code);
                if value.is_finite() && value != 0.0 {
                    assert_eq!(dtype.encode(value), code, "{dtype:?} {code:#x}");
                }
            }
        }
    }

    #[test]
    fn packed_nibbles_are_read_low_first() {
        assert_eq!(Dtype::Int4.element_bits(&[0x21], 0), Some(1));
        assert_eq!(Dtype::Int4.element_bits(&[0x21], 1), Some(2));
        assert_eq!(Dtype::Int4.bytes_for(3), None);
        assert_eq!(Dtype::F32.element_bits(&[0, 0, 0x80, 0x3f], 0), Some(0x3f80_0000));
        assert_eq!(Dtype::F32.element_bits(&[0, 0, 0x80], 0), None);
    }
}
