//! Rates of large matrix products of the vendor's libraries.

use super::super::{Blas, CudaDevice, CudaError, Fp8Gemm, Gemm, GemmTypes, Timer};
use super::{Bench, GemmRates, Rate, SAMPLES};
use crate::execute::{Buffer, Device, DeviceError};

/// Extents of the matrix product that is measured, and how often a slow one is.
const GEMM_EXTENT: u64 = 8192;
const GEMM_SAMPLES: u32 = 11;
/// Memory that cublasLt may use beside a product, in bytes.
const LT_WORKSPACE_BYTES: u64 = 64 << 20;
/// Size of the block of numbers that operands repeat, in bytes.
const NUMBERS_BYTES: usize = 4 << 20;

/// Four bytes of numbers from as many random ones: the exponent is made an ordinary one.
fn numbers(types: GemmTypes, random: u32) -> u32 {
    match types {
        GemmTypes::Fp32 | GemmTypes::Tf32 => random & 0x80ff_ffff | 0x3e00_0000,
        GemmTypes::Bf16 => random & 0x80ff_80ff | 0x3e00_3e00,
        GemmTypes::Fp16 => random & 0x87ff_87ff | 0x3000_3000,
        GemmTypes::Int8 => random,
    }
}

/// The same in fp8: four numbers of e4m3 with an ordinary exponent.
fn fp8_numbers(random: u32) -> u32 {
    random & 0x8787_8787 | 0x2828_2828
}

impl Bench {
    /// The rates of matrix products; `None` without the library.
    pub(super) fn gemm_rates(&mut self) -> Result<Option<GemmRates>, DeviceError> {
        let blas = match Blas::open(&self.device) {
            Ok(blas) => blas,
            Err(CudaError::Unavailable(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let mut rate = |types| self.gemm_rate(&blas, types);
        let [fp32, tf32] = [rate(GemmTypes::Fp32)?, rate(GemmTypes::Tf32)?];
        let [fp16, bf16] = [rate(GemmTypes::Fp16)?, rate(GemmTypes::Bf16)?];
        let int8 = rate(GemmTypes::Int8).map_err(|refused| refused.to_string());
        let fp8 = self.fp8_rate().map_err(|refused| refused.to_string());
        Ok(Some(GemmRates { fp32, tf32, fp16, bf16, int8, fp8 }))
    }

    /// The rate of one large product, on numbers of ordinary size: zeros would need less power.
    fn gemm_rate(&mut self, blas: &Blas, types: GemmTypes) -> Result<Rate, DeviceError> {
        let n = GEMM_EXTENT;
        let (operand, result) = (n * n * types.operand_bytes(), n * n * types.result_bytes());
        if 16 * self.quads < result.max(2 * operand) {
            return Ok(Rate::default());
        }
        let piece = |address, bytes| Buffer { address, bytes };
        let (a, b) = (piece(self.from, operand), piece(self.from + operand, operand));
        let c = piece(self.to, result);
        // Integers have fast kernels only for operands that lie along the sum.
        let b_transposed = types == GemmTypes::Int8;
        let gemm = Gemm { types, a, b, c, m: n, n, k: n, b_transposed };
        self.fill_with_numbers(&|random| numbers(types, random), 2 * operand)?;
        let samples = if types.operand_bytes() == 4 { GEMM_SAMPLES } else { SAMPLES };
        self.product_rate(samples, &|_| blas.gemm(&gemm))
    }

    /// The rate of one large product of fp8 matrices.
    fn fp8_rate(&mut self) -> Result<Rate, CudaError> {
        let n = GEMM_EXTENT;
        let (operand, result) = (n * n, 2 * n * n);
        if 16 * self.quads < (result + LT_WORKSPACE_BYTES).max(2 * operand) {
            return Err(CudaError::Unavailable("too little memory".to_owned()));
        }
        let failed =
            |error: DeviceError| CudaError::Failed { call: "fp8 product", code: error.to_string() };
        let buffers = [
            Buffer { address: self.from, bytes: operand },
            Buffer { address: self.from + operand, bytes: operand },
            Buffer { address: self.to, bytes: result },
            Buffer { address: self.to + result, bytes: LT_WORKSPACE_BYTES },
        ];
        let gemm = Fp8Gemm::plan(&self.device, buffers, [n as u32; 3])?;
        self.fill_with_numbers(&fp8_numbers, 2 * operand).map_err(failed)?;
        self.product_rate(SAMPLES, &|device| gemm.queue(device)).map_err(failed)
    }

    /// The rate of a product of the extents of all of them. The first call warms up, and is not
    /// behind a gate: there the library may refuse.
    fn product_rate(
        &mut self,
        samples: u32,
        queue: &dyn Fn(&CudaDevice) -> Result<(), DeviceError>,
    ) -> Result<Rate, DeviceError> {
        queue(&self.device)?;
        self.device.synchronise()?;
        let mut taken = Vec::new();
        for _ in 0..samples {
            let plan = |_: &mut Timer, device: &mut CudaDevice| queue(device);
            let sample = self.timer.gated(&mut self.device, plan)?;
            if !sample.gate_timed_out {
                taken.push(sample);
            }
        }
        Ok(Rate::of(2.0 * (GEMM_EXTENT as f64).powi(3), &self.net(&taken)))
    }

    /// Fills the start of a buffer with numbers between -1 and 1, a block of them again and again.
    fn fill_with_numbers(
        &mut self,
        numbers: &dyn Fn(u32) -> u32,
        bytes: u64,
    ) -> Result<(), DeviceError> {
        let mut block = Vec::new();
        let mut state = 0u64;
        while block.len() < NUMBERS_BYTES {
            state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            block.extend_from_slice(&numbers((state >> 32) as u32).to_le_bytes());
        }
        let buffer = Buffer { address: self.from, bytes: 16 * self.quads };
        for start in (0..bytes).step_by(NUMBERS_BYTES) {
            let length = NUMBERS_BYTES.min((bytes - start) as usize);
            self.device.upload(buffer, start, &block[..length])?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_are_numbers_of_ordinary_size() {
        for random in [0, 0x1234_5678, 0xffff_ffff, 0x8000_8000] {
            let wide = f32::from_bits(numbers(GemmTypes::Fp32, random));
            let narrow = f32::from_bits(numbers(GemmTypes::Bf16, random) << 16);
            let half = numbers(GemmTypes::Fp16, random) & 0x7fff;
            assert!((0.125..1.0).contains(&wide.abs()), "{wide}");
            assert!((0.125..1.0).contains(&narrow.abs()), "{narrow}");
            // Exponents 12 and 13 of a bias of 15.
            assert!((12..=13).contains(&(half >> 10)), "{half:x}");
            // Exponent 5 of a bias of 7, in each byte; its all-ones pattern would be no number.
            assert!(fp8_numbers(random).to_le_bytes().iter().all(|it| it >> 3 & 0xf == 5));
        }
    }
}
