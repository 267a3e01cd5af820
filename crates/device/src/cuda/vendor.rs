//! The vendor's library on one device: dense matrix products, row by row.
//!
//! What it computes is what a caller asks for; nothing here times it. Start at [`Blas::open`].

use super::driver::blas::{Handle, Product, Types};
use super::driver::blas_lt::{Fp8Plan, Fp8Product};
use super::{CudaDevice, CudaError};
use crate::execute::{Buffer, DeviceError};

/// Types of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GemmTypes {
    /// fp32 without any rounding of operands.
    Fp32,
    /// fp32 operands rounded to TF32.
    Tf32,
    /// fp16 operands and result, summed in fp32.
    Fp16,
    /// bf16 operands and result, summed in fp32.
    Bf16,
    /// int8 operands, summed into an int32 result.
    Int8,
}

impl GemmTypes {
    /// Bytes of an element of the operands.
    pub(super) fn operand_bytes(self) -> u64 {
        match self {
            GemmTypes::Fp32 | GemmTypes::Tf32 => 4,
            GemmTypes::Fp16 | GemmTypes::Bf16 => 2,
            GemmTypes::Int8 => 1,
        }
    }

    /// Bytes of an element of the result.
    pub(super) fn result_bytes(self) -> u64 {
        match self {
            GemmTypes::Fp32 | GemmTypes::Tf32 | GemmTypes::Int8 => 4,
            GemmTypes::Fp16 | GemmTypes::Bf16 => 2,
        }
    }
}

/// `c[m, n] = a[m, k] · b[k, n]`, dense, row-major; `b` may be stored as `[n, k]`.
#[derive(Clone, Copy, Debug)]
pub struct Gemm {
    pub types: GemmTypes,
    pub a: Buffer,
    pub b: Buffer,
    pub c: Buffer,
    pub m: u64,
    pub n: u64,
    pub k: u64,
    pub b_transposed: bool,
}

/// cuBLAS on the stream of one device.
#[derive(Debug)]
pub struct Blas {
    handle: Handle,
}

impl Blas {
    /// Loads the library.
    ///
    /// # Errors
    /// [`CudaError::Unavailable`] where there is none that can be used.
    pub fn open(device: &CudaDevice) -> Result<Blas, CudaError> {
        let handle = Handle::new(device.primary(), device.stream());
        Ok(Blas { handle: handle.map_err(CudaError::Unavailable)? })
    }

    /// The library's version, such as 130002.
    ///
    /// # Errors
    /// Breakage only.
    pub fn version(&self) -> Result<i32, DeviceError> {
        self.handle.version().map_err(DeviceError::Failed)
    }

    /// Queues a product.
    ///
    /// # Errors
    /// Extents that the library cannot take or the buffers do not hold, or breakage.
    pub fn gemm(&self, gemm: &Gemm) -> Result<(), DeviceError> {
        let (operand, result) = (gemm.types.operand_bytes(), gemm.types.result_bytes());
        let (m, n, k) = (gemm.m, gemm.n, gemm.k);
        let all = [(gemm.a, m, k, operand), (gemm.b, k, n, operand), (gemm.c, m, n, result)];
        for (buffer, rows, columns, bytes) in all {
            let size = rows.checked_mul(columns).and_then(|count| count.checked_mul(bytes));
            buffer.check_range(0, size.unwrap_or(u64::MAX))?;
        }
        self.handle.queue(&product(gemm)?).map_err(DeviceError::Failed)
    }
}

/// A product of fp8 (e4m3) matrices into bf16, summed in fp32 as fast kernels do:
/// `c[m, n] = a[m, k] · bᵀ`, where `b` is stored as `[n, k]`. Planned once, for one device.
#[derive(Debug)]
pub struct Fp8Gemm {
    plan: Fp8Plan,
}

impl Fp8Gemm {
    /// Loads cublasLt and asks it for a plan; `workspace` is memory that it may use meanwhile.
    ///
    /// # Errors
    /// [`CudaError::Unavailable`] where there is no such library, or none that has such products on
    /// this GPU; buffers that are too small.
    pub fn plan(
        device: &CudaDevice,
        [a, b, c, workspace]: [Buffer; 4],
        [m, n, k]: [u32; 3],
    ) -> Result<Fp8Gemm, CudaError> {
        let failed =
            |error: DeviceError| CudaError::Failed { call: "fp8 product", code: error.to_string() };
        for (buffer, rows, columns, bytes) in [(a, m, k, 1), (b, n, k, 1), (c, m, n, 2)] {
            let size = u64::from(rows) * u64::from(columns) * bytes;
            buffer.check_range(0, size).map_err(failed)?;
        }
        // By columns it is the transposed product, as in `product` below.
        let product = Fp8Product {
            extents: [n, m, k],
            addresses: [b.address, a.address, c.address],
            workspace: (workspace.address, workspace.bytes as usize),
        };
        let plan = Fp8Plan::new(device.primary(), product).map_err(CudaError::Unavailable)?;
        Ok(Fp8Gemm { plan })
    }

    /// Queues the product on the device that it was planned for.
    ///
    /// # Errors
    /// What the library refuses, or breakage.
    pub fn queue(&self, device: &CudaDevice) -> Result<(), DeviceError> {
        self.plan.queue(device.stream()).map_err(DeviceError::Failed)
    }
}

/// The library stores matrices by columns: what it sees is the transposed product, `bᵀ · aᵀ`.
fn product(gemm: &Gemm) -> Result<Product, DeviceError> {
    let extent = |value: u64| {
        let too_large = || DeviceError::Failed(format!("an extent of {value} is too large"));
        i32::try_from(value).ok().filter(|value| *value > 0).ok_or_else(too_large)
    };
    let [m, n, k] = [extent(gemm.m)?, extent(gemm.n)?, extent(gemm.k)?];
    let types = match gemm.types {
        GemmTypes::Fp32 => Types::Fp32,
        GemmTypes::Tf32 => Types::Tf32,
        GemmTypes::Fp16 => Types::Fp16,
        GemmTypes::Bf16 => Types::Bf16,
        GemmTypes::Int8 => Types::Int8,
    };
    Ok(Product {
        types,
        transposed: [gemm.b_transposed, false],
        extents: [n, m, k],
        addresses: [gemm.b.address, gemm.a.address, gemm.c.address],
        strides: [if gemm.b_transposed { k } else { n }, k, n],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gemm(b_transposed: bool) -> Gemm {
        let buffer = |address| Buffer { address, bytes: 1 << 20 };
        let [a, b, c] = [1, 2, 3].map(buffer);
        Gemm { types: GemmTypes::Tf32, a, b, c, m: 5, n: 7, k: 3, b_transposed }
    }

    /// The element of a product by columns, as the library defines it.
    fn element(product: &Product, matrices: [&[i32]; 2], row: usize, column: usize) -> i32 {
        let at = |which: usize, row: usize, column: usize| {
            let stride = product.strides[which] as usize;
            let transposed = product.transposed[which];
            let (row, column) = if transposed { (column, row) } else { (row, column) };
            matrices[which][row + column * stride]
        };
        (0..product.extents[2] as usize).map(|k| at(0, row, k) * at(1, k, column)).sum()
    }

    #[test]
    fn a_product_by_columns_is_the_one_by_rows() {
        let a: Vec<i32> = (0..15).collect();
        let b: Vec<i32> = (0..21).map(|value| value * value % 11).collect();
        let b_of_columns: Vec<i32> = (0..21).map(|at| b[at % 3 * 7 + at / 3]).collect();
        for (transposed, stored) in [(false, &b), (true, &b_of_columns)] {
            let product = product(&gemm(transposed)).unwrap();
            assert_eq!((product.addresses, product.extents), ([2, 1, 3], [7, 5, 3]));
            for (i, j) in (0..5).flat_map(|i| (0..7).map(move |j| (i, j))) {
                let expected: i32 = (0..3).map(|k| a[i * 3 + k] * b[k * 7 + j]).sum();
                // Row i of c by rows is column i of what the library writes, with stride n.
                assert_eq!(element(&product, [stored, &a], j, i), expected, "{transposed} {i} {j}");
            }
        }
        assert!(super::product(&Gemm { k: 1 << 31, ..gemm(false) }).is_err());
    }
}
