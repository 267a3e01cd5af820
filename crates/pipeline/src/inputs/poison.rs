//! What outputs and workspaces hold before a run, so that nothing right can be found there.

use serde::{Deserialize, Serialize};

use super::mix;
use crate::dtype::Dtype;

/// What outputs and workspaces hold before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Poison {
    /// All bits one: NaN for floats of 8 bits and more, -1 for integers.
    Ones,
    /// Nothing that could be told from an untouched buffer. Only with the first defence off.
    Zeros,
    /// Finite values between -1 and 1 (integers between -127 and 127) from this seed.
    Values(u64),
}

impl Poison {
    /// Bits of element `index` of a poisoned tensor.
    #[must_use]
    pub fn element_bits(self, dtype: Dtype, index: u64) -> u64 {
        let mask = u64::MAX >> (64 - dtype.bits());
        match self {
            Self::Ones => mask,
            Self::Zeros => 0,
            Self::Values(seed) => {
                let mixed = mix(seed ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let value = (mixed >> 40) as f64 / f64::from(1u32 << 23) - 1.0;
                let scale = if dtype.is_float() { 1.0 } else { 127.0 };
                dtype.encode(value * scale) & mask
            }
        }
    }

    /// Fills a tensor's bytes from element 0 on.
    pub fn fill(self, dtype: Dtype, out: &mut [u8]) {
        if self == Self::Ones {
            return out.fill(0xff);
        }
        if dtype.bits() == 4 {
            for (pair, byte) in (0u64..).zip(out) {
                let nibble = |index| self.element_bits(dtype, index) as u8;
                *byte = nibble(2 * pair) | nibble(2 * pair + 1) << 4;
            }
            return;
        }
        let width = (dtype.bits() / 8) as usize;
        for (index, element) in out.chunks_mut(width).enumerate() {
            let bits = self.element_bits(dtype, index as u64).to_le_bytes();
            element.copy_from_slice(&bits[..element.len()]);
        }
    }
}
