//! Tensor maps: what a kernel's bulk tensor copies need to know of a tensor, and the documented
//! limits, checked without a device.
//!
//! The encoding itself is the device's. Start at [`TensorMap`] and [`TensorMap::flaw`].

use super::Buffer;

/// Most dimensions of a map.
const RANK_MAX: usize = 5;
/// Longest side of a box, in elements.
const BOX_SIDE_MAX: u32 = 256;
/// Longest dimension, in elements.
const DIM_MAX: u64 = 1 << 32;
/// Strides are below this many bytes.
const STRIDE_END: u64 = 1 << 40;
/// Alignment of the address, of every stride and of the inner side of a box, in bytes.
const ALIGNMENT: u64 = 16;

/// A tensor in a buffer, and the box of it that one copy moves.
#[derive(Clone, Copy, Debug)]
pub struct TensorMap<'a> {
    pub buffer: Buffer,
    pub element: TensorMapElement,
    /// Extents in elements, innermost first.
    pub dims: &'a [u64],
    /// Distances in bytes of dimensions 1 and up.
    pub strides: &'a [u64],
    /// Sides of the box in elements, innermost first.
    pub box_dims: &'a [u32],
    pub swizzle: TensorSwizzle,
    /// Reads outside of the tensor give NaN instead of zero; only for floats.
    pub oob_nan: bool,
}

/// Element types of tensor maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMapElement {
    U8,
    U16,
    U32,
    I32,
    U64,
    I64,
    F16,
    F32,
    F64,
    Bf16,
}

/// How 16-byte pieces of a box are permuted in shared memory; the span in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorSwizzle {
    None,
    B32,
    B64,
    B128,
}

/// What encoding gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TensorMapEnd {
    Encoded(Box<[u8; 128]>),
    /// The map breaks a limit; says which.
    Refused(String),
    /// This device has no tensor maps.
    Unsupported(String),
}

impl TensorMapElement {
    /// Size of one element in bytes.
    #[must_use]
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }

    fn is_float(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::Bf16)
    }
}

impl TensorSwizzle {
    /// Longest inner side of a box in bytes; `None` is bound by the box alone.
    fn span(self) -> Option<u64> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

impl TensorMap<'_> {
    /// The first documented limit that this map breaks, as a sentence.
    #[must_use]
    pub fn flaw(&self) -> Option<String> {
        let checks = [Self::rank_flaw, Self::extent_flaw, Self::stride_flaw, Self::box_flaw];
        checks.iter().find_map(|check| check(self)).or_else(|| self.place_flaw())
    }

    fn rank_flaw(&self) -> Option<String> {
        let rank = self.dims.len();
        if !(1..=RANK_MAX).contains(&rank) {
            return Some(format!("a tensor map has 1 to {RANK_MAX} dimensions, not {rank}"));
        }
        if self.strides.len() + 1 != rank || self.box_dims.len() != rank {
            let (strides, sides) = (self.strides.len(), self.box_dims.len());
            return Some(format!(
                "a tensor map of {rank} dimensions needs {} strides and {rank} box sides, not \
                 {strides} and {sides}",
                rank - 1
            ));
        }
        (self.oob_nan && !self.element.is_float()).then(|| {
            format!("{:?} elements have no NaN to read outside of the tensor", self.element)
        })
    }

    fn extent_flaw(&self) -> Option<String> {
        let wrong = self.dims.iter().position(|dim| !(1..=DIM_MAX).contains(dim))?;
        let dim = self.dims[wrong];
        Some(format!("dimension {wrong} of a tensor map is {dim}, not within 1 to {DIM_MAX}"))
    }

    fn stride_flaw(&self) -> Option<String> {
        let mut inner = self.dims[0].saturating_mul(self.element.bytes());
        for (index, &stride) in self.strides.iter().enumerate() {
            let dimension = index + 1;
            if stride == 0 || !stride.is_multiple_of(ALIGNMENT) || stride >= STRIDE_END {
                return Some(format!(
                    "the stride of dimension {dimension} is {stride} bytes; it must be a multiple \
                     of {ALIGNMENT} from {ALIGNMENT} to below 2^40"
                ));
            }
            if stride < inner {
                return Some(format!(
                    "the stride of dimension {dimension} is {stride} bytes, but the dimension \
                     inside of it spans {inner}"
                ));
            }
            inner = stride.saturating_mul(self.dims[dimension]);
        }
        None
    }

    fn box_flaw(&self) -> Option<String> {
        if let Some(wrong) =
            self.box_dims.iter().position(|side| !(1..=BOX_SIDE_MAX).contains(side))
        {
            let side = self.box_dims[wrong];
            return Some(format!(
                "side {wrong} of the box is {side}, not within 1 to {BOX_SIDE_MAX}"
            ));
        }
        let inner = u64::from(self.box_dims[0]) * self.element.bytes();
        if !inner.is_multiple_of(ALIGNMENT) {
            return Some(format!(
                "the inner side of the box is {inner} bytes, not a multiple of {ALIGNMENT}"
            ));
        }
        let span = self.swizzle.span()?;
        (inner > span).then(|| {
            format!(
                "the inner side of the box is {inner} bytes; this swizzle allows at most {span}"
            )
        })
    }

    fn place_flaw(&self) -> Option<String> {
        if !self.buffer.address.is_multiple_of(ALIGNMENT) {
            return Some(format!("the tensor's address is not a multiple of {ALIGNMENT}"));
        }
        let (needed, has) = (self.span_bytes(), self.buffer.bytes);
        (needed > has).then(|| format!("the map spans {needed} bytes, but the tensor has {has}"))
    }

    /// Bytes from the first to behind the last element.
    fn span_bytes(&self) -> u64 {
        let outer = self.strides.iter().zip(&self.dims[1..]);
        let outer = outer.map(|(stride, dim)| stride.saturating_mul(dim - 1));
        let inner = self.dims[0].saturating_mul(self.element.bytes());
        outer.fold(inner, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map<'a>(dims: &'a [u64], strides: &'a [u64], box_dims: &'a [u32]) -> TensorMap<'a> {
        TensorMap {
            buffer: Buffer { address: 256, bytes: 1 << 20 },
            element: TensorMapElement::F32,
            dims,
            strides,
            box_dims,
            swizzle: TensorSwizzle::None,
            oob_nan: false,
        }
    }

    #[test]
    fn sound_maps_have_no_flaw() {
        for map in [
            map(&[64], &[], &[64]),
            map(&[64, 32], &[256], &[32, 8]),
            TensorMap {
                swizzle: TensorSwizzle::B128,
                oob_nan: true,
                ..map(&[64, 3], &[512], &[32, 1])
            },
            map(&[4, 2, 2, 2, 2], &[16, 32, 64, 128], &[4, 1, 1, 1, 1]),
        ] {
            assert_eq!(map.flaw(), None, "{map:?}");
        }
    }

    #[test]
    fn each_limit_is_a_sentence() {
        let base = map(&[64, 32], &[256], &[32, 8]);
        let odd = Buffer { address: 8, bytes: 1 << 20 };
        let small = Buffer { address: 0, bytes: 32 * 256 - 1 };
        let rows: [(TensorMap<'_>, &str); 13] = [
            (map(&[], &[], &[]), "1 to 5 dimensions, not 0"),
            (map(&[1; 6], &[16; 5], &[1; 6]), "1 to 5 dimensions, not 6"),
            (map(&[64, 32], &[], &[32, 8]), "needs 1 strides and 2 box sides, not 0 and 2"),
            (map(&[64, 0], &[256], &[32, 8]), "dimension 1 of a tensor map is 0"),
            (map(&[64, 32], &[260], &[32, 8]), "is 260 bytes; it must be a multiple of 16"),
            (map(&[64, 32], &[240], &[32, 8]), "but the dimension inside of it spans 256"),
            (map(&[512, 32], &[2048], &[257, 8]), "side 0 of the box is 257"),
            (map(&[64, 32], &[256], &[33, 8]), "132 bytes, not a multiple of 16"),
            (
                TensorMap { swizzle: TensorSwizzle::B64, ..base },
                "128 bytes; this swizzle allows at most 64",
            ),
            (TensorMap { buffer: odd, ..base }, "address is not a multiple of 16"),
            (TensorMap { buffer: small, ..base }, "spans 8192 bytes, but the tensor has 8191"),
            (TensorMap { element: TensorMapElement::I32, oob_nan: true, ..base }, "have no NaN"),
            (map(&[64, 32], &[1 << 40], &[32, 8]), "below 2^40"),
        ];
        for (map, expected) in rows {
            let flaw = map.flaw().unwrap_or_default();
            assert!(flaw.contains(expected), "{flaw:?} lacks {expected:?}");
        }
    }
}
