//! The value of one element from its 16 random bytes and its place.

use super::{Distribution, Words, mix};

/// Mean of a sum of eight `u16`.
const SUM_MEAN: i32 = 262_140;
/// One over the standard deviation of that sum.
const SUM_SCALE: f32 = 1.0 / 53_509.99;
/// Offsets of D6 in standard deviations, for even and odd rows: a maximum that starts at zero is
/// wrong in rows that lie below it.
const OFFSETS: [f32; 2] = [10.0, -100.0];
/// What D9 puts among ordinary values; small shapes show the first of them.
const SPECIALS: [f32; 8] =
    [f32::NAN, f32::INFINITY, 1e-40, f32::NEG_INFINITY, -1e-45, 0.0, -0.0, 1.0];

/// Where an element is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spot {
    pub(super) row: u64,
    pub(super) column: u64,
    /// Elements of a row.
    pub(super) columns: u64,
    /// Secret of the tensor: what is decided for a whole row follows from it.
    pub(super) secret: u64,
}

impl Spot {
    /// A number that all elements of the row share.
    fn of_row(&self) -> u64 {
        mix(self.secret ^ mix(self.row))
    }
}

/// An activation.
pub(super) fn activation(distribution: Distribution, words: Words, spot: &Spot) -> f32 {
    match distribution {
        Distribution::D1 => normal(words),
        Distribution::D2 => wide(words),
        Distribution::D3Small => normal(words) * 1e-3,
        Distribution::D3Large => normal(words) * 64.0,
        Distribution::D4 => small(words),
        Distribution::D5 => impulse(words, spot),
        Distribution::D6 => normal(words) + OFFSETS[(spot.row % 2) as usize],
        Distribution::D7 => sparse(words, spot),
        Distribution::D8 => spot.column as f32 / spot.columns as f32 * 4.0 - 2.0,
        Distribution::D9 => special(words, spot),
        Distribution::Uniform => (words[0] >> 8) as f32 / 16_777_216.0,
    }
}

/// A weight, before its own scale and offset.
pub(super) fn weight(distribution: Distribution, words: Words, spot: &Spot) -> f32 {
    match distribution {
        Distribution::D2 => wide(words),
        Distribution::D4 => small(words),
        Distribution::D9 => missing(words, spot),
        Distribution::Uniform => (words[0] >> 8) as f32 / 16_777_216.0,
        Distribution::D1 | Distribution::D3Small | Distribution::D3Large => normal(words),
        Distribution::D5 | Distribution::D6 | Distribution::D7 => normal(words),
        Distribution::D8 => normal(words),
    }
}

/// An index, length or mask in low..=high.
pub(super) fn integer(
    distribution: Distribution,
    words: Words,
    spot: &Spot,
    [low, high]: [i64; 2],
) -> i64 {
    let span = (high - low + 1) as u128;
    let uniform = low + ((u128::from(words[0]) * span) >> 32) as i64;
    if distribution != Distribution::D8 {
        return uniform;
    }
    match words[1] % 8 {
        // Nearly all are the same one; the rest go to the ends.
        0 => low,
        1 => high,
        2 => uniform,
        _ => low + ((u128::from(spot.secret as u32) * span) >> 32) as i64,
    }
}

fn normal(words: Words) -> f32 {
    centred_sum(words) as f32 * SUM_SCALE
}

fn wide(words: Words) -> f32 {
    // log2 of a lognormal with σ = 2 has deviation 2.885; integer arithmetic only.
    let exponent = (centred_sum(words) * 2_885).div_euclid(53_510 * 1_000).clamp(-12, 8);
    let mantissa = words[0].wrapping_mul(0x9e37_79b1) >> 9;
    let sign = words[3].wrapping_mul(0x85eb_ca6b) & 0x8000_0000;
    f32::from_bits(sign | ((exponent + 127) as u32) << 23 | mantissa)
}

fn small(words: Words) -> f32 {
    ((u64::from(words[0]) * 9) >> 32) as f32 - 4.0
}

fn impulse(words: Words, spot: &Spot) -> f32 {
    if words[0].is_multiple_of(16) { (spot.column % 15) as f32 - 7.0 } else { 0.0 }
}

fn sparse(words: Words, spot: &Spot) -> f32 {
    let row = spot.of_row();
    match row % 4 {
        0 => 0.0,
        1 => ((row >> 8) % 1024) as f32 / 256.0 - 2.0,
        _ if words[0].is_multiple_of(10) => normal(words),
        _ => 0.0,
    }
}

/// One special value in each of the first rows, then in every fourth row or so, so that most
/// outputs stay finite.
fn special(words: Words, spot: &Spot) -> f32 {
    let kinds = SPECIALS.len() as u64;
    let of_row = spot.of_row();
    let chosen = spot.row < kinds || of_row.is_multiple_of(4);
    if !chosen || spot.column != (of_row >> 8) % spot.columns {
        return normal(words);
    }
    // Which comes first is the tensor's secret: a single row shows any of the first four.
    let turn = spot.row + spot.secret % 4;
    SPECIALS[(if spot.row < kinds { turn } else { of_row >> 3 } % kinds) as usize]
}

/// A NaN in one of the first rows and then here and there. Nothing else: what is infinite would
/// meet denormals of an activation, which a class that rounds operands takes for zero, rightly.
fn missing(words: Words, spot: &Spot) -> f32 {
    let of_row = spot.of_row();
    let chosen = spot.row == spot.secret % 4 || of_row.is_multiple_of(64);
    if chosen && spot.column == (of_row >> 8) % spot.columns { f32::NAN } else { normal(words) }
}

/// A sum of eight `u16` about its mean.
fn centred_sum(words: Words) -> i32 {
    let halves = words.iter().map(|word| (word & 0xffff) + (word >> 16));
    halves.sum::<u32>() as i32 - SUM_MEAN
}
