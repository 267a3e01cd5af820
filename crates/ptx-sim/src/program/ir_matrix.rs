//! Matrix instructions as decoded: fragments of matrices in the registers of a warp.

use super::ir::{Base, Number, Reg, Slot};

/// `mma`: D = A·B + C, each matrix spread over the 32 lanes.
#[derive(Debug, Clone)]
pub(crate) struct Mma {
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
