//! cuBLAS: a handle on one stream, and matrix products.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::rc::Rc;

use cudarc::cublas::sys;

use super::{Primary, Stream};

/// Every function that is called; one that is missing would end the process.
const SYMBOLS: [&CStr; 5] = [
    c"cublasCreate_v2",
    c"cublasDestroy_v2",
    c"cublasGemmEx",
    c"cublasGetVersion_v2",
    c"cublasSetStream_v2",
];

/// Types of a product: of the operands and the result, and what it is computed in.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) enum Types {
    Fp32,
    Tf32,
    Fp16,
    Bf16,
    /// int8 operands, int32 result and factors.
    Int8,
}

/// A product of matrices stored by columns: `c[m, n] = op(a)[m, k] · op(b)[k, n]`.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Product {
    pub(in crate::cuda) types: Types,
    pub(in crate::cuda) transposed: [bool; 2],
    pub(in crate::cuda) extents: [i32; 3],
    /// Addresses of a, b and c, which hold as much as the extents say.
    pub(in crate::cuda) addresses: [u64; 3],
    pub(in crate::cuda) strides: [i32; 3],
}

/// The library on one stream.
#[derive(Debug)]
pub(in crate::cuda) struct Handle {
    raw: sys::cublasHandle_t,
    /// The context outlives the handle.
    primary: Rc<Primary>,
}

/// What the library answered in place of success.
pub(in crate::cuda) type Refusal = String;

impl Handle {
    /// Loads the library and makes a handle on a stream.
    pub(in crate::cuda) fn new(primary: &Rc<Primary>, stream: &Stream) -> Result<Handle, Refusal> {
        // SAFETY: the call only tries to open libraries by name.
        if !unsafe { sys::is_culib_present() } {
            return Err("cuBLAS was not found (libcublas.so)".to_owned());
        }
        if let Some(name) = SYMBOLS.iter().find(|name| !has(name)) {
            return Err(format!("cuBLAS lacks {}", name.to_string_lossy()));
        }
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` outlives the call, and the context is current on this thread.
        check("cublasCreate_v2", unsafe { sys::cublasCreate_v2(&mut raw) })?;
        let handle = Handle { raw, primary: Rc::clone(primary) };
        // SAFETY: both were made just now or before, and the stream is of the same context.
        check("cublasSetStream_v2", unsafe {
            sys::cublasSetStream_v2(handle.raw, stream.raw.cast())
        })?;
        Ok(handle)
    }

    /// The library's version, such as 130002.
    pub(in crate::cuda) fn version(&self) -> Result<i32, Refusal> {
        let mut version = 0;
        // SAFETY: `version` outlives the call.
        let code = unsafe { sys::cublasGetVersion_v2(self.raw, &mut version) };
        check("cublasGetVersion_v2", code)?;
        Ok(version)
    }

    /// Queues a product.
    pub(in crate::cuda) fn queue(&self, product: &Product) -> Result<(), Refusal> {
        let (data, result, compute) = data_types(product.types);
        let operation = |transposed| match transposed {
            true => sys::cublasOperation_t::CUBLAS_OP_T,
            false => sys::cublasOperation_t::CUBLAS_OP_N,
        };
        let ([m, n, k], [a, b, c]) = (product.extents, product.addresses);
        let [a_stride, b_stride, c_stride] = product.strides;
        let (one, zero, whole_one, whole_zero) = (1f32, 0f32, 1i32, 0i32);
        let [one, zero]: [*const c_void; 2] = match product.types {
            Types::Int8 => [(&raw const whole_one).cast(), (&raw const whole_zero).cast()],
            Types::Fp32 | Types::Tf32 | Types::Fp16 | Types::Bf16 => {
                [(&raw const one).cast(), (&raw const zero).cast()]
            }
        };
        // SAFETY: the addresses hold what the extents say, by the contract of `Product`; factors
        // are of the compute type, on the host, and read before the call returns.
        let code = unsafe {
            sys::cublasGemmEx(
                self.raw,
                operation(product.transposed[0]),
                operation(product.transposed[1]),
                m,
                n,
                k,
                one,
                a as *const _,
                data,
                a_stride,
                b as *const _,
                data,
                b_stride,
                zero,
                c as *mut _,
                result,
                c_stride,
                compute,
                sys::cublasGemmAlgo_t::CUBLAS_GEMM_DFALT,
            )
        };
        check("cublasGemmEx", code)
    }
}

/// Types of the operands, of the result, and of what is computed.
fn data_types(
    types: Types,
) -> (sys::cudaDataType_t, sys::cudaDataType_t, sys::cublasComputeType_t) {
    use sys::cublasComputeType_t as Compute;
    use sys::cudaDataType_t as Data;
    let same = |data, compute| (data, data, compute);
    match types {
        Types::Fp32 => same(Data::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F),
        Types::Tf32 => same(Data::CUDA_R_32F, Compute::CUBLAS_COMPUTE_32F_FAST_TF32),
        Types::Fp16 => same(Data::CUDA_R_16F, Compute::CUBLAS_COMPUTE_32F),
        Types::Bf16 => same(Data::CUDA_R_16BF, Compute::CUBLAS_COMPUTE_32F),
        Types::Int8 => (Data::CUDA_R_8I, Data::CUDA_R_32I, Compute::CUBLAS_COMPUTE_32I),
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.primary.is_abandoned() {
            // SAFETY: the handle is alive and not used afterwards.
            let _ = unsafe { sys::cublasDestroy_v2(self.raw) };
        }
    }
}

/// Whether the loaded library has a function; only after it was found.
fn has(name: &CStr) -> bool {
    // SAFETY: the symbol is only looked for, never called.
    unsafe { sys::culib().get::<*const ()>(name.to_bytes_with_nul()).is_ok() }
}

fn check(call: &str, code: sys::cublasStatus_t) -> Result<(), Refusal> {
    match code {
        sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS => Ok(()),
        code => Err(format!("{call} failed: {code:?}")),
    }
}
