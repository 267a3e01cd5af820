//! What the lanes of a warp do with matrices: products, transposition, 8×8 loads and stores.
//!
//! Products are exact and added up in double precision, then rounded once: towards zero to
//! single, as tensor cores cut, to nearest to half. A tensor core cuts each product too, to a few
//! bits below the largest; so results agree with it to the last bits only, not bit for bit.

use super::engine::{Engine, Fault, Place};
use super::frame::{FULL, Frame, LANES, Longs, Words};
use super::memory::{Private, get, put};
use super::traffic;
use crate::numeric::fp8::Fp8;
use crate::numeric::half::Format;
use crate::numeric::round::to_single;
use crate::numeric::{double, single};
use crate::program::ir::{Number, Rounding, Slot};
use crate::program::ir_matrix::{Fragment, FragmentAccess, MatrixAccess, Mma, Spread};

/// Rows of a matrix that lanes hold, and columns of an 8×8 one.
const GROUP: usize = 8;
/// Bytes of a row of an 8×8 matrix.
const ROW_BYTES: u64 = 16;

/// Where element `e` of a lane lies in an operand whose columns are read in order: its row among 16
/// (or 8) and its column. Registers alternate between the rows of 0 to 7 and of 8 to 15.
fn place(e: usize, packed: usize, lane: usize, tall: bool) -> (usize, usize) {
    let (register, within) = (e / packed, e % packed);
    let (group, thread) = (lane / 4, lane % 4);
    let (lower, block) = if tall { (register % 2, register / 2) } else { (0, register) };
    (group + GROUP * lower, (block * 4 + thread) * packed + within)
}

/// Where element `e` of a lane lies in C and D: pairs of columns, rows 8 apart.
fn place_of_total(e: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + GROUP * (e / 2), lane % 4 * 2 + e % 2)
}

/// Where element `e` of a lane lies by rows, where `wmma` leaves it open.
fn open_place(e: usize, of: &Fragment, lane: usize, elements: usize) -> usize {
    let (register, within) = (e / of.packed(), e % of.packed());
    ((register * LANES + lane) * of.packed() + within) % elements
}

/// D = A·B + C.
pub(super) fn multiply(frame: &mut Frame, op: &Mma) {
    let (tall, open) = (op.m > GROUP, op.spread == Spread::Open);
    let a = gathered(frame, &op.a, op.m * op.k, |e, lane| {
        let (row, column) = place(e, op.a.packed(), lane, tall);
        if open { open_place(e, &op.a, lane, op.m * op.k) } else { row * op.k + column }
    });
    // By columns of B, which lanes hold as if they were rows.
    let b = gathered(frame, &op.b, op.n * op.k, |e, lane| {
        let (column, row) = place(e, op.b.packed(), lane, false);
        let index = open_place(e, &op.b, lane, op.n * op.k);
        if open { index % op.n * op.k + index / op.n } else { column * op.k + row }
    });
    let at = |of: &Fragment, e, lane| {
        let (row, column) = place_of_total(e, lane);
        if open { open_place(e, of, lane, op.m * op.n) } else { row * op.n + column }
    };
    let mut total = gathered(frame, &op.c, op.m * op.n, |e, lane| at(&op.c, e, lane));
    for (i, sum) in total.iter_mut().enumerate() {
        let (row, column) = (i / op.n * op.k, i % op.n * op.k);
        let terms = a[row..row + op.k].iter().zip(&b[column..column + op.k]);
        *sum = match op.d.number {
            Number::F64 => terms.fold(*sum, |sum, (x, y)| x.mul_add(*y, sum)),
            _ => terms.fold(*sum, |sum, (x, y)| sum + x * y),
        };
    }
    scattered(frame, &op.d, op.saturates, |e, lane| total[at(&op.d, e, lane)]);
}

/// The elements of a matrix in one row after the other, by the place of each.
fn gathered(
    frame: &Frame,
    from: &Fragment,
    elements: usize,
    at: impl Fn(usize, usize) -> usize,
) -> Vec<f64> {
    let mut values = vec![0.0; elements];
    let (packed, bits) = (from.packed(), from.number.bits());
    for (register, reg) in from.regs.iter().enumerate() {
        for (lane, word) in frame.any(*reg).into_iter().enumerate() {
            for within in 0..packed {
                let element = word >> (within as u32 * bits % 64);
                values[at(register * packed + within, lane)] = read(from.number, element);
            }
        }
    }
    values
}

fn scattered(
    frame: &mut Frame,
    to: &Fragment,
    saturates: bool,
    value: impl Fn(usize, usize) -> f64,
) {
    let (packed, bits) = (to.packed(), to.number.bits());
    for (register, reg) in to.regs.iter().enumerate() {
        let mut words = [0; LANES];
        for (lane, word) in words.iter_mut().enumerate() {
            for within in 0..packed {
                let x = value(register * packed + within, lane);
                *word |= written(to.number, x, saturates) << (within as u32 * bits % 64);
            }
        }
        frame.set_any(*reg, &words, FULL);
    }
}

/// An element of these low bits. What a format does not reach is not looked at.
fn read(number: Number, bits: u64) -> f64 {
    match number {
        Number::F16 => Format::Half.widen(bits as u16),
        Number::Bf16 => Format::Bfloat.widen(bits as u16),
        Number::E4m3 => Fp8::E4m3.widen(bits as u8),
        Number::E5m2 => Fp8::E5m2.widen(bits as u8),
        Number::F32 => f32::from_bits(bits as u32).into(),
        Number::Tf32 => f32::from_bits(bits as u32 & !0x1fff).into(),
        Number::F64 => f64::from_bits(bits),
        Number::S8 => f64::from(bits as i8),
        Number::U8 => f64::from(bits as u8),
        Number::S16 => f64::from(bits as i16),
        Number::U16 => f64::from(bits as u16),
        Number::S32 | Number::S64 => f64::from(bits as i32),
        Number::U32 | Number::U64 => f64::from(bits as u32),
    }
}

/// The bits of a sum, in the formats that D has.
fn written(number: Number, x: f64, saturates: bool) -> u64 {
    match number {
        Number::F16 => Format::Half.narrow(x, Rounding::Nearest).into(),
        Number::F64 => double::canonical(x),
        Number::S32 if saturates => u64::from(x as i32 as u32),
        // Sums of products of bytes are far below what a double holds exactly.
        Number::S32 => u64::from(x as i64 as u32),
        _ => single::canonical(to_single(x, Rounding::Zero)).into(),
    }
}

/// `movmatrix`: a lane holds two neighbours of a row before, and of a column after.
pub(super) fn transpose(frame: &mut Frame, d: Slot, a: Slot) {
    let values = transposed(frame.word(a));
    frame.set_word(d, &values, FULL);
}

fn transposed(words: &Words) -> Words {
    std::array::from_fn(|lane| {
        let element = |within: usize| {
            let (row, column) = (lane % 4 * 2 + within, lane / 4);
            words[row * 4 + column / 2] >> (column % 2 * 16) & 0xffff
        };
        element(0) | element(1) << 16
    })
}

/// Where element `e` of each lane lies in memory.
fn element_addresses(frame: &Frame, op: &FragmentAccess, e: usize) -> Longs {
    let base = frame.addresses(op.element.base, op.element.offset);
    let stride = frame.word(op.stride);
    std::array::from_fn(|lane| {
        let index = open_place(e, &op.fragment, lane, op.rows * op.columns);
        let (row, column) = (index / op.columns, index % op.columns);
        let (far, near) = if op.by_rows { (row, column) } else { (column, row) };
        let element = far as u64 * u64::from(stride[lane]) + near as u64;
        base[lane].wrapping_add(element * u64::from(op.element.bytes))
    })
}

impl Engine<'_> {
    /// `wmma.load` and `wmma.store`, element by element.
    pub(super) fn access_fragment(
        &mut self,
        frame: &mut Frame,
        private: &mut Private<'_>,
        op: &FragmentAccess,
        place: Place,
    ) -> Result<(), Fault> {
        let (packed, bits) = (op.fragment.packed(), op.fragment.number.bits());
        for (register, reg) in op.fragment.regs.iter().enumerate() {
            let mut words = frame.any(*reg);
            for within in 0..packed {
                let addresses = element_addresses(frame, op, register * packed + within);
                let shift = within as u32 * bits % 64;
                let mask = u64::MAX >> (64 - bits) << shift;
                if op.is_store {
                    frame.set_any(op.scratch, &words.map(|w| w >> shift), FULL);
                    self.store_at(frame, private, &op.element, addresses, FULL)?;
                } else {
                    self.load_at(frame, private, &op.element, addresses, FULL, place)?;
                    for (word, element) in words.iter_mut().zip(frame.any(op.scratch)) {
                        *word = *word & !mask | element << shift & mask;
                    }
                }
            }
            if !op.is_store {
                frame.set_any(*reg, &words, FULL);
            }
        }
        Ok(())
    }

    /// `ldmatrix` and `stmatrix`.
    pub(super) fn access_matrices(
        &mut self,
        frame: &mut Frame,
        shared: &mut [u8],
        op: &MatrixAccess,
    ) -> Result<(), Fault> {
        let addresses = frame.addresses(op.base, op.offset);
        let named = FULL >> (LANES - GROUP * op.regs.len());
        self.check_shared(&addresses, named, shared.len() as u64, ROW_BYTES, op.is_store)?;
        for (matrix, slot) in op.regs.iter().enumerate() {
            // A lane's word lies in row lane / 4, at one of its four words.
            let at = |lane: usize| addresses[matrix * GROUP + lane / 4] + (lane % 4 * 4) as u64;
            if op.is_store {
                let words = *frame.word(*slot);
                let words = if op.transposed { transposed(&words) } else { words };
                for (lane, word) in words.into_iter().enumerate() {
                    put(shared, at(lane), 4, word.into());
                }
            } else {
                let words = std::array::from_fn(|lane| get(shared, at(lane), 4) as u32);
                let words = if op.transposed { transposed(&words) } else { words };
                frame.set_word(*slot, &words, FULL);
            }
        }
        self.counters.shared_requests += 1;
        self.counters.shared_wavefronts += traffic::wavefronts(&addresses, named, ROW_BYTES);
        Ok(())
    }
}
