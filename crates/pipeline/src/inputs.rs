//! Input data: the same bits on every device for the same seed.
//!
//! A ChaCha8 counter stream gives 16 bytes to each element, whatever its type, so that any part of
//! a tensor can be made alone. All arithmetic is exact or one IEEE operation.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::task::spec::{Input, Role};

/// Version of this generator; part of every reference key.
pub const GENERATOR_VERSION: u32 = 1;
/// Mean of a sum of eight `u16`.
const SUM_MEAN: i32 = 262_140;
/// One over the standard deviation of that sum.
const SUM_SCALE: f32 = 1.0 / 53_509.99;
/// Words of 32 bits that one element takes from the stream.
const WORDS_PER_ELEMENT: u128 = 4;
/// Elements whose words are made at a time.
const WORDS_BLOCK: usize = 256;

/// A 256-bit secret from which all inputs of one case are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MasterSeed(pub [u8; 32]);

/// A distribution of inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Distribution {
    /// Normal; weights scaled by 1/√fan_in; norm weights 1 + 0.3·N; biases 0.3·N.
    D1,
    /// Wide dynamic range: sign × 2^e × (1 + m/2^23), e like a lognormal of σ = 2, clipped.
    D2,
    /// Small integers -4..=4: linear operators must be bit-exact.
    D4,
}

impl Distribution {
    /// What the model is told of it.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::D1 => "D1: normal, mean 0, deviation 1",
            Self::D2 => "D2: wide range, signs mixed, magnitudes from 2^-12 to 2^8",
            Self::D4 => "D4: small integers from -4 to 4",
        }
    }

    /// The two distributions of the search stage for a family of operators.
    #[must_use]
    pub fn search_pair(family: &str) -> [Self; 2] {
        match family {
            "gemm" | "conv" | "sum" | "scan" | "linear" => [Self::D1, Self::D4],
            _ => [Self::D1, Self::D2],
        }
    }
}

impl MasterSeed {
    /// The seed's digest: names it in caches and records without telling it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of_parts("master-seed", &[&self.0])
    }

    /// A seed derived from this one for another use.
    #[must_use]
    pub fn derive(&self, label: &str) -> Self {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        hasher.update(label.as_bytes());
        Self(*hasher.finalize().as_bytes())
    }
}

/// Draws the elements of one input tensor.
#[derive(Clone, Debug)]
pub struct InputStream {
    seed: [u8; 32],
    distribution: Distribution,
    dtype: Dtype,
    draw: Draw,
}

/// How an element's value is made from its 16 bytes.
#[derive(Clone, Copy, Debug)]
enum Draw {
    /// value × scale + offset
    Float { scale: f32, offset: f32 },
    /// Uniform integers in low..=high.
    Integer { low: i64, high: i64 },
}

impl InputStream {
    /// `parameter` is the value of the role's expression: fan-in or bound; 1 for other roles.
    #[must_use]
    pub fn new(
        master: &MasterSeed,
        distribution: Distribution,
        input: &Input,
        parameter: i64,
    ) -> Self {
        let label = format!("{distribution:?}/{}", input.name);
        let draw = draw_of(input, parameter.max(1));
        Self { seed: master.derive(&label).0, distribution, dtype: input.dtype, draw }
    }

    /// Fills `out` with the elements from `first_element` on; `out` must hold whole elements, and
    /// `first_element` must be even for 4-bit types.
    pub fn fill(&self, first_element: u64, out: &mut [u8]) {
        let mut stream = ChaCha8Rng::from_seed(self.seed);
        stream.set_word_pos(u128::from(first_element) * WORDS_PER_ELEMENT);
        match (self.draw, self.distribution) {
            (Draw::Integer { low, high }, _) => {
                let span = (high - low + 1) as u128;
                let offset = |word| ((u128::from(word) * span) >> 32) as i64;
                self.fill_bits(&mut stream, out, |words| {
                    self.dtype.encode_integer(low + offset(words[0]))
                });
            }
            (Draw::Float { scale, offset }, Distribution::D1) => {
                let value = |words| centred_sum(words) as f32 * SUM_SCALE * scale + offset;
                self.fill_floats(&mut stream, out, value);
            }
            (Draw::Float { scale, offset }, Distribution::D2) => {
                self.fill_floats(&mut stream, out, |words| wide_value(words) * scale + offset);
            }
            (Draw::Float { scale, offset }, Distribution::D4) => {
                self.fill_floats(&mut stream, out, |words| small_value(words) * scale + offset);
            }
        }
    }

    fn fill_floats(&self, stream: &mut ChaCha8Rng, out: &mut [u8], value: impl Fn(Words) -> f32) {
        match self.dtype {
            Dtype::F32 => fill_elements(stream, out, |words| value(words).to_le_bytes()),
            dtype => self.fill_bits(stream, out, |words| dtype.encode(f64::from(value(words)))),
        }
    }

    fn fill_bits(&self, stream: &mut ChaCha8Rng, out: &mut [u8], bits: impl Fn(Words) -> u64) {
        match self.dtype.bits() {
            64 => fill_elements(stream, out, |words| bits(words).to_le_bytes()),
            32 => fill_elements(stream, out, |words| (bits(words) as u32).to_le_bytes()),
            16 => fill_elements(stream, out, |words| (bits(words) as u16).to_le_bytes()),
            8 => fill_elements(stream, out, |words| [bits(words) as u8]),
            _ => fill_nibbles(stream, out, bits),
        }
    }
}

/// The words of one element.
type Words = [u32; 4];

/// A loop of its own for each type and distribution, over words that are made many at a time.
fn fill_elements<const WIDTH: usize>(
    stream: &mut ChaCha8Rng,
    out: &mut [u8],
    element: impl Fn(Words) -> [u8; WIDTH],
) {
    let mut bytes = [[0; 16]; WORDS_BLOCK];
    for block in out.as_chunks_mut().0.chunks_mut(WORDS_BLOCK) {
        stream.fill_bytes(bytes[..block.len()].as_flattened_mut());
        for (slot, bytes) in block.iter_mut().zip(&bytes) {
            *slot = element(words_of(bytes));
        }
    }
}

fn fill_nibbles(stream: &mut ChaCha8Rng, out: &mut [u8], bits: impl Fn(Words) -> u64) {
    let mut pair = [[0; 16]; 2];
    for byte in out {
        stream.fill_bytes(pair.as_flattened_mut());
        let [low, high] = [bits(words_of(&pair[0])) & 15, bits(words_of(&pair[1])) & 15];
        *byte = (low | high << 4) as u8;
    }
}

fn words_of(bytes: &[u8; 16]) -> Words {
    let word = |at: usize| {
        u32::from_le_bytes([bytes[4 * at], bytes[4 * at + 1], bytes[4 * at + 2], bytes[4 * at + 3]])
    };
    [word(0), word(1), word(2), word(3)]
}

fn wide_value(words: Words) -> f32 {
    // log2 of a lognormal with σ = 2 has deviation 2.885; integer arithmetic only.
    let exponent = (centred_sum(words) * 2_885).div_euclid(53_510 * 1_000).clamp(-12, 8);
    let mantissa = words[0].wrapping_mul(0x9e37_79b1) >> 9;
    let sign = words[3].wrapping_mul(0x85eb_ca6b) & 0x8000_0000;
    f32::from_bits(sign | ((exponent + 127) as u32) << 23 | mantissa)
}

fn small_value(words: Words) -> f32 {
    ((u64::from(words[0]) * 9) >> 32) as f32 - 4.0
}

/// A sum of eight `u16` about its mean.
fn centred_sum(words: Words) -> i32 {
    let halves = words.iter().map(|word| (word & 0xffff) + (word >> 16));
    halves.sum::<u32>() as i32 - SUM_MEAN
}

fn draw_of(input: &Input, parameter: i64) -> Draw {
    match &input.role {
        Role::Index(_) => Draw::Integer { low: 0, high: parameter - 1 },
        Role::Lengths(_) => Draw::Integer { low: 1, high: parameter },
        Role::Mask => Draw::Integer { low: 0, high: 1 },
        Role::Activation | Role::Weight(_) | Role::NormWeight | Role::Bias => {
            if input.dtype.is_float() {
                float_draw(&input.role, parameter)
            } else {
                plain(input.dtype)
            }
        }
        Role::Table | Role::State => {
            if input.dtype.is_float() {
                float_draw(&input.role, parameter)
            } else {
                plain(input.dtype)
            }
        }
    }
}

fn float_draw(role: &Role, parameter: i64) -> Draw {
    match role {
        Role::Weight(_) => Draw::Float { scale: 1.0 / (parameter as f32).sqrt(), offset: 0.0 },
        Role::NormWeight => Draw::Float { scale: 0.3, offset: 1.0 },
        Role::Bias => Draw::Float { scale: 0.3, offset: 0.0 },
        Role::Activation | Role::Table | Role::State => Draw::Float { scale: 1.0, offset: 0.0 },
        Role::Index(_) | Role::Lengths(_) | Role::Mask => Draw::Float { scale: 1.0, offset: 0.0 },
    }
}

fn plain(dtype: Dtype) -> Draw {
    match dtype {
        Dtype::Bool => Draw::Integer { low: 0, high: 1 },
        Dtype::Int4 => Draw::Integer { low: -8, high: 7 },
        Dtype::U64 | Dtype::U32 | Dtype::U16 | Dtype::U8 => Draw::Integer { low: 0, high: 127 },
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 => Draw::Integer { low: -127, high: 127 },
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16 => Draw::Integer { low: -4, high: 4 },
        Dtype::E4m3 | Dtype::E5m2 | Dtype::Fp4e2m1 | Dtype::Ue8m0 => {
            Draw::Integer { low: -4, high: 4 }
        }
    }
}

impl Dtype {
    /// Bits of an integer value; floats get the nearest value.
    fn encode_integer(self, value: i64) -> u64 {
        match self {
            Self::I64 | Self::U64 => value as u64,
            Self::F64 | Self::F32 | Self::F16 | Self::Bf16 => self.encode(value as f64),
            Self::E4m3 | Self::E5m2 | Self::Fp4e2m1 | Self::Ue8m0 => self.encode(value as f64),
            Self::I32 | Self::I16 | Self::I8 | Self::U32 | Self::U16 => self.encode(value as f64),
            Self::U8 | Self::Bool | Self::Int4 => self.encode(value as f64),
        }
    }
}

/// What outputs and workspaces hold before a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Poison {
    /// All bits one: NaN for floats of 8 bits and more, -1 for integers.
    Ones,
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

/// The finaliser of splitmix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Distribution, InputStream, MasterSeed, Poison};
    use crate::dtype::Dtype;
    use crate::task::spec::{Input, Role};

    fn input(dtype: Dtype, role: Role) -> Input {
        Input { name: "x".to_owned(), dtype, shape: vec!["n".to_owned()], role }
    }

    fn draw(distribution: Distribution, dtype: Dtype, role: Role, parameter: i64) -> Vec<f64> {
        let stream =
            InputStream::new(&MasterSeed([7; 32]), distribution, &input(dtype, role), parameter);
        let mut bytes = vec![0; 20_000 * dtype.bits() as usize / 8];
        stream.fill(0, &mut bytes);
        (0..20_000).map(|i| dtype.decode(dtype.element_bits(&bytes, i).unwrap())).collect()
    }

    fn moments(values: &[f64]) -> (f64, f64) {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn distributions_have_their_moments() {
        for (role, parameter, mean, deviation) in [
            (Role::Activation, 1, 0.0, 1.0),
            (Role::Weight("n".to_owned()), 100, 0.0, 0.1),
            (Role::NormWeight, 1, 1.0, 0.3),
            (Role::Bias, 1, 0.0, 0.3),
        ] {
            let (m, d) = moments(&draw(Distribution::D1, Dtype::F32, role, parameter));
            assert!((m - mean).abs() < 0.03 && (d / deviation - 1.0).abs() < 0.03, "{m} {d}");
        }
        let wide = draw(Distribution::D2, Dtype::F32, Role::Activation, 1);
        assert!(wide.iter().all(|v| v.is_finite() && (2f64.powi(-12)..512.0).contains(&v.abs())));
        assert!(wide.iter().any(|v| *v > 100.0) && wide.iter().any(|v| *v < -100.0));
        let small = draw(Distribution::D4, Dtype::F16, Role::Activation, 1);
        assert!(small.iter().all(|v| v.fract() == 0.0 && v.abs() <= 4.0));
        let index = draw(Distribution::D2, Dtype::I32, Role::Index("n".to_owned()), 17);
        assert!(index.iter().all(|v| (0.0..17.0).contains(v)) && index.contains(&16.0));
    }

    /// What is timed is the first of a pair: never small integers, which draw less power.
    #[test]
    fn every_family_is_timed_on_normal_data() {
        for family in ["gemm", "conv", "sum", "scan", "linear", "softmax", "norm", "elementwise"] {
            assert_eq!(Distribution::search_pair(family)[0], Distribution::D1, "{family}");
        }
        let timed = draw(Distribution::D1, Dtype::F32, Role::Activation, 1);
        assert!(timed.iter().filter(|value| value.fract() != 0.0).count() > 19_000);
    }

    #[test]
    fn any_part_can_be_made_alone_and_bits_never_change() {
        let stream = InputStream::new(
            &MasterSeed([1; 32]),
            Distribution::D1,
            &input(Dtype::F32, Role::Activation),
            1,
        );
        let mut whole = vec![0; 4096];
        stream.fill(0, &mut whole);
        let mut part = vec![0; 400];
        stream.fill(100, &mut part);
        assert_eq!(part, whole[400..800]);
        let digest = blake3::hash(&whole).to_hex();
        assert_eq!(&digest[..32], "4e73166e04dded74ec5ed20f37c61028");
    }

    #[test]
    fn poison_is_recognised_element_by_element() {
        for dtype in [Dtype::F32, Dtype::F16, Dtype::I64, Dtype::U8, Dtype::Int4, Dtype::Fp4e2m1] {
            let mut bytes = vec![0; 64];
            Poison::Values(9).fill(dtype, &mut bytes);
            for index in 0..64 * 8 / dtype.bits() {
                let bits = dtype.element_bits(&bytes, index as usize).unwrap();
                assert_eq!(bits, Poison::Values(9).element_bits(dtype, index));
                assert!(dtype.decode(bits).is_finite());
            }
        }
    }
}
