//! Input data: the same bits on every device for the same seed.
//!
//! A ChaCha8 counter stream gives 16 bytes to each element, whatever its type, so that any part of
//! a tensor can be made alone. All arithmetic is exact or consists of single IEEE operations.
//! [`Distribution`] names what is drawn, `values` makes it, [`Poison`] is what outputs hold before.

mod distribution;
mod poison;
mod values;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use self::values::Spot;
use crate::digest::Digest;
use crate::dtype::Dtype;
use crate::task::spec::{Input, Role};

pub use distribution::{Distribution, NormGate};
pub use poison::Poison;

/// Version of this generator; part of every reference key.
pub const GENERATOR_VERSION: u32 = 5;
/// Elements of a row where nobody says how long one is.
const ROW_ELEMENTS: u64 = 64;
/// Words of 32 bits that one element takes from the stream.
const WORDS_PER_ELEMENT: u128 = 4;
/// Elements whose words are made at a time.
const WORDS_BLOCK: usize = 256;

/// A 256-bit secret from which all inputs of one case are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct MasterSeed(pub [u8; 32]);

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
    columns: u64,
}

/// How an element's value is made.
#[derive(Clone, Copy, Debug)]
enum Draw {
    Activation,
    /// value × scale + offset
    Weight {
        scale: f32,
        offset: f32,
    },
    /// Integers in low..=high.
    Integer([i64; 2]),
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
        let draw = match distribution == Distribution::Uniform {
            true => carelessly_drawn(input, parameter.max(1)),
            false => draw_of(input, parameter.max(1)),
        };
        let (seed, dtype) = (master.derive(&label).0, input.dtype);
        Self { seed, distribution, dtype, draw, columns: ROW_ELEMENTS }
    }

    /// Tells how long a row is, which some distributions go by.
    #[must_use]
    pub fn with_row(self, columns: u64) -> Self {
        Self { columns: columns.max(1), ..self }
    }

    /// Fills `out` with the elements from `first_element` on; `out` must hold whole elements, and
    /// `first_element` must be even for 4-bit types.
    pub fn fill(&self, first_element: u64, out: &mut [u8]) {
        let mut stream = ChaCha8Rng::from_seed(self.seed);
        stream.set_word_pos(u128::from(first_element) * WORDS_PER_ELEMENT);
        let distribution = self.distribution;
        let [a, b, ..] = self.seed.as_chunks::<8>().0 else { return };
        let secret = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        let columns = self.columns;
        let mut next = first_element;
        let mut spot = move || {
            let (row, column) = (next / columns, next % columns);
            next += 1;
            Spot { row, column, columns, secret }
        };
        match (self.draw, distribution) {
            (Draw::Integer(range), _) => self.fill_bits(&mut stream, out, |words| {
                self.dtype.encode_integer(values::integer(distribution, words, &spot(), range))
            }),
            // A loop of their own for those that are drawn by the gigabyte.
            (Draw::Activation, Distribution::D1) => {
                let spot = spot();
                self.fill_floats(&mut stream, out, |words| {
                    values::activation(Distribution::D1, words, &spot)
                });
            }
            (Draw::Activation, _) => self.fill_floats(&mut stream, out, |words| {
                values::activation(distribution, words, &spot())
            }),
            (Draw::Weight { scale, offset }, _) => self.fill_floats(&mut stream, out, |words| {
                values::weight(distribution, words, &spot()) * scale + offset
            }),
        }
    }

    fn fill_floats(
        &self,
        stream: &mut ChaCha8Rng,
        out: &mut [u8],
        mut value: impl FnMut(Words) -> f32,
    ) {
        match self.dtype {
            Dtype::F32 => fill_elements(stream, out, |words| value(words).to_le_bytes()),
            dtype => self.fill_bits(stream, out, |words| dtype.encode(f64::from(value(words)))),
        }
    }

    fn fill_bits(
        &self,
        stream: &mut ChaCha8Rng,
        out: &mut [u8],
        mut bits: impl FnMut(Words) -> u64,
    ) {
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
    mut element: impl FnMut(Words) -> [u8; WIDTH],
) {
    let mut bytes = [[0; 16]; WORDS_BLOCK];
    for block in out.as_chunks_mut().0.chunks_mut(WORDS_BLOCK) {
        stream.fill_bytes(bytes[..block.len()].as_flattened_mut());
        for (slot, bytes) in block.iter_mut().zip(&bytes) {
            *slot = element(words_of(bytes));
        }
    }
}

fn fill_nibbles(stream: &mut ChaCha8Rng, out: &mut [u8], mut bits: impl FnMut(Words) -> u64) {
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

fn draw_of(input: &Input, parameter: i64) -> Draw {
    match &input.role {
        Role::Index(_) => Draw::Integer([0, parameter - 1]),
        Role::Lengths(_) => Draw::Integer([1, parameter]),
        Role::Mask => Draw::Integer([0, 1]),
        Role::Activation | Role::Table | Role::State => match input.dtype.is_float() {
            true => Draw::Activation,
            false => plain(input.dtype),
        },
        Role::Weight(_) | Role::NormWeight | Role::Bias if !input.dtype.is_float() => {
            plain(input.dtype)
        }
        Role::Weight(_) => Draw::Weight { scale: 1.0 / (parameter as f32).sqrt(), offset: 0.0 },
        Role::NormWeight => Draw::Weight { scale: 0.3, offset: 1.0 },
        Role::Bias => Draw::Weight { scale: 0.3, offset: 0.0 },
    }
}

/// As careless harnesses draw: weights like everything else, layers as they were initialised.
fn carelessly_drawn(input: &Input, parameter: i64) -> Draw {
    match (&input.role, draw_of(input, parameter)) {
        (Role::Weight(_), Draw::Weight { .. }) => Draw::Weight { scale: 1.0, offset: 0.0 },
        (_, Draw::Weight { offset, .. }) => Draw::Weight { scale: 0.0, offset },
        (_, draw) => draw,
    }
}

fn plain(dtype: Dtype) -> Draw {
    Draw::Integer(match dtype {
        Dtype::Bool => [0, 1],
        Dtype::Int4 => [-8, 7],
        Dtype::U64 | Dtype::U32 | Dtype::U16 | Dtype::U8 => [0, 127],
        Dtype::I64 | Dtype::I32 | Dtype::I16 | Dtype::I8 => [-127, 127],
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16 => [-4, 4],
        Dtype::E4m3 | Dtype::E5m2 | Dtype::Fp4e2m1 | Dtype::Ue8m0 => [-4, 4],
    })
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

/// The finaliser of splitmix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

#[cfg(test)]
mod tests {
    use super::{Distribution, InputStream, MasterSeed, Poison, ROW_ELEMENTS};
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
    fn structured_distributions_have_their_structure() {
        let of = |distribution| draw(distribution, Dtype::F32, Role::Activation, 1);
        let rows = |distribution| {
            let values = of(distribution);
            let row = ROW_ELEMENTS as usize;
            values[..values.len() / row * row].chunks(row).map(<[f64]>::to_vec).collect::<Vec<_>>()
        };
        for (row, values) in rows(Distribution::D6).iter().enumerate() {
            let (mean, deviation) = moments(values);
            let offset = if row % 2 == 0 { 10.0 } else { -100.0 };
            assert!((mean - offset).abs() < 1.0 && (deviation - 1.0).abs() < 0.5, "{row} {mean}");
        }
        assert!((moments(&of(Distribution::D3Large)).1 / 64.0 - 1.0).abs() < 0.03);
        assert!((moments(&of(Distribution::D3Small)).1 / 1e-3 - 1.0).abs() < 0.03);
        assert!(rows(Distribution::D8).iter().all(|row| row.is_sorted()));
        let equal = |row: &&Vec<f64>| row.iter().all(|value| *value == row[0]);
        let sparse = rows(Distribution::D7);
        let zero = sparse.iter().filter(|row| equal(row) && row[0] == 0.0).count();
        let flat = sparse.iter().filter(|row| equal(row) && row[0] != 0.0).count();
        assert!(zero > 5 && flat > 5 && zero + flat < sparse.len() - 5, "{zero} {flat}");
        let special = of(Distribution::D9);
        assert!(special.iter().any(|v| v.is_nan()) && special.iter().any(|v| v.is_infinite()));
        assert!(special.iter().filter(|v| !v.is_finite()).count() < 60);
        let few: Vec<_> = rows(Distribution::D9).into_iter().take(4).collect();
        let odd = few.iter().flatten().filter(|v| !v.is_finite()).count();
        assert!(odd >= 2, "of NaN and the infinities, two at least in four rows: {odd}");
        let weights = draw(Distribution::D9, Dtype::F32, Role::Weight("n".to_owned()), 64);
        assert!(weights.iter().any(|v| v.is_nan()) && !weights.iter().any(|v| v.is_infinite()));
        let impulses = of(Distribution::D5);
        let zeros = impulses.iter().filter(|v| **v == 0.0).count();
        assert!((17_500..19_500).contains(&zeros), "{zeros}");
        assert!(of(Distribution::Uniform).iter().all(|v| (0.0..1.0).contains(v)));
        let index = draw(Distribution::D8, Dtype::I32, Role::Index("n".to_owned()), 100);
        let most = (0..100).map(|i| index.iter().filter(|v| **v == f64::from(i)).count()).max();
        assert!(most.unwrap() > 10_000 && index.contains(&0.0) && index.contains(&99.0));
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
