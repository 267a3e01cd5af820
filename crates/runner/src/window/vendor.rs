//! The vendor's library, or the driver's copy, in the place of a plan.

use device::cuda::{Blas, CudaError, Gemm, GemmTypes};
use pipeline::baseline::gemm::{GemmCall, GemmMath};
use sandbox::wire::RunEnd;

use super::{Ended, Running};
use crate::RunnerError;

impl Running<'_> {
    /// Loads the library; a machine without it cannot time this.
    pub(super) fn open_vendor(&mut self) -> Result<Ended, RunnerError> {
        match Blas::open(&self.device) {
            Ok(blas) => self.blas = Some(blas),
            Err(CudaError::Unavailable(why)) => return Ok(Some(RunEnd::Unsupported(why))),
            Err(error) => return Err(RunnerError::Device(error.into())),
        }
        Ok(None)
    }

    /// Queues a product on the buffers of a set.
    pub(super) fn queue_gemm(&mut self, call: &GemmCall, set: u32) -> Result<Ended, RunnerError> {
        let bound = &self.set(set)?.bound;
        let gemm = Gemm {
            types: types(call.math),
            a: bound.buffer(&call.a)?,
            b: bound.buffer(&call.b)?,
            c: bound.buffer(&call.c)?,
            m: call.m,
            n: call.n,
            k: call.k,
            b_transposed: call.b_transposed,
        };
        let blas = self.blas.as_ref();
        let blas = blas.ok_or_else(|| RunnerError::Request("no library is loaded".to_owned()))?;
        blas.gemm(&gemm)?;
        Ok(None)
    }

    /// Queues the driver's own copy between two tensors of a set.
    pub(super) fn queue_copy(
        &mut self,
        from: &str,
        to: &str,
        set: u32,
    ) -> Result<Ended, RunnerError> {
        let bound = &self.set(set)?.bound;
        let (from, to) = (bound.buffer(from)?, bound.buffer(to)?);
        self.device.copy_async(to, from)?;
        Ok(None)
    }
}

fn types(math: GemmMath) -> GemmTypes {
    match math {
        GemmMath::Fp32 => GemmTypes::Fp32,
        GemmMath::Tf32 => GemmTypes::Tf32,
        GemmMath::Fp16 => GemmTypes::Fp16,
        GemmMath::Bf16 => GemmTypes::Bf16,
    }
}
