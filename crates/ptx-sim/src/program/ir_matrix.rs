//! Matrix instructions as decoded: fragments of matrices in the registers of a warp.

use super::ir::{Base, MemoryAccess, Number, Reg, Slot};

/// `mma` and `wmma.mma`: D = A·B + C, each matrix spread over the 32 lanes.
#[derive(Debug, Clone)]
pub(crate) struct Mma {
    pub(crate) spread: Spread,
    pub(crate) m: usize,
    pub(crate) n: usize,
    pub(crate) k: usize,
    pub(crate) a: Fragment,
    pub(crate) b: Fragment,
    pub(crate) c: Fragment,
    pub(crate) d: Fragment,
    /// Integer results clamp instead of wrapping.
    pub(crate) saturates: bool,
}

/// Which elements a lane holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spread {
    /// As PTX says for `mma`.
    Documented,
    /// As `wmma` leaves open: by rows, register by register; a format may repeat them.
    Open,
}

/// One matrix: its element format and each lane's registers.
#[derive(Debug, Clone)]
pub(crate) struct Fragment {
    pub(crate) number: Number,
    pub(crate) regs: Vec<Reg>,
}

impl Fragment {
    /// Elements in one register.
    pub(crate) fn packed(&self) -> usize {
        packed(self.number)
    }
}

/// Elements of a format in one register: doubles have 64 bits, all others share 32.
pub(crate) fn packed(number: Number) -> usize {
    (32 / number.bits() as usize).max(1)
}

/// `wmma.load` and `wmma.store`: a matrix between memory and registers, spread [`Spread::Open`].
#[derive(Debug, Clone)]
pub(crate) struct FragmentAccess {
    pub(crate) fragment: Fragment,
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    /// In memory rows lie one after the other, else columns.
    pub(crate) by_rows: bool,
    /// Elements from one row (or column) to the next.
    pub(crate) stride: Slot,
    /// The access of one element, through a register of its own.
    pub(crate) element: MemoryAccess,
    pub(crate) scratch: Reg,
    pub(crate) is_store: bool,
}

/// `ldmatrix` and `stmatrix`: 8×8 matrices of 16-bit elements between shared memory and registers.
/// Lanes 8·i to 8·i + 7 name the rows of matrix i.
#[derive(Debug, Clone)]
pub(crate) struct MatrixAccess {
    pub(crate) base: Base,
    pub(crate) offset: i64,
    /// One register for each matrix.
    pub(crate) regs: Vec<Slot>,
    pub(crate) transposed: bool,
    pub(crate) is_store: bool,
}
