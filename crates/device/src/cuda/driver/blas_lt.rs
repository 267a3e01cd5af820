//! cublasLt: products of fp8 operands, which cuBLAS itself does not have.

use std::ffi::{CStr, c_void};
use std::rc::Rc;

use cudarc::cublas::sys::cublasOperation_t as Operation;
use cudarc::cublaslt::{result, sys};

use super::blas::Refusal;
use super::{Primary, Stream};

/// Every function that is called; one that is missing would end the process.
const SYMBOLS: [&CStr; 13] = [
    c"cublasLtCreate",
    c"cublasLtDestroy",
    c"cublasLtMatmul",
    c"cublasLtMatmulAlgoGetHeuristic",
    c"cublasLtMatmulDescCreate",
    c"cublasLtMatmulDescDestroy",
    c"cublasLtMatmulDescSetAttribute",
    c"cublasLtMatmulPreferenceCreate",
    c"cublasLtMatmulPreferenceDestroy",
    c"cublasLtMatmulPreferenceSetAttribute",
    c"cublasLtMatrixLayoutCreate",
    c"cublasLtMatrixLayoutDestroy",
    c"cublasLtMatrixLayoutSetAttribute",
];

/// A product of fp8 (e4m3) matrices into bf16, stored by columns:
/// `c[m, n] = a[k, m]ᵀ · b[k, n]`, the only form that the library has for them.
#[derive(Clone, Copy, Debug)]
pub(in crate::cuda) struct Fp8Product {
    pub(in crate::cuda) extents: [u32; 3],
    /// Addresses of a, b and c, which hold as much as the extents say.
    pub(in crate::cuda) addresses: [u64; 3],
    /// Address and bytes of memory that the library may use meanwhile.
    pub(in crate::cuda) workspace: (u64, usize),
}

/// The library's plan of one product.
#[derive(Debug)]
pub(in crate::cuda) struct Fp8Plan {
    handle: sys::cublasLtHandle_t,
    description: sys::cublasLtMatmulDesc_t,
    /// Of a, b and c.
    layouts: Vec<sys::cublasLtMatrixLayout_t>,
    algorithm: sys::cublasLtMatmulAlgo_t,
    product: Fp8Product,
    /// The context outlives the plan.
    primary: Rc<Primary>,
}

impl Fp8Plan {
    /// Loads the library and asks it how it would do a product.
    pub(in crate::cuda) fn new(
        primary: &Rc<Primary>,
        product: Fp8Product,
    ) -> Result<Fp8Plan, Refusal> {
        // SAFETY: the call only tries to open libraries by name.
        if !unsafe { sys::is_culib_present() } {
            return Err("cublasLt was not found (libcublasLt.so)".to_owned());
        }
        if let Some(name) = SYMBOLS.iter().find(|name| !has(name)) {
            return Err(format!("cublasLt lacks {}", name.to_string_lossy()));
        }
        let handle = result::create_handle().map_err(|error| refused("cublasLtCreate", error))?;
        let compute = sys::cublasComputeType_t::CUBLAS_COMPUTE_32F;
        let description = result::create_matmul_desc(compute, sys::cudaDataType::CUDA_R_32F)
            .map_err(|error| refused("cublasLtMatmulDescCreate", error))?;
        let mut plan = Fp8Plan {
            handle,
            description,
            layouts: Vec::new(),
            algorithm: sys::cublasLtMatmulAlgo_t { data: [0; 8] },
            product,
            primary: Rc::clone(primary),
        };
        plan.describe()?;
        plan.algorithm = plan.chosen()?;
        Ok(plan)
    }

    fn describe(&mut self) -> Result<(), Refusal> {
        use sys::cublasLtMatmulDescAttributes_t as Attribute;
        let transposed = Operation::CUBLAS_OP_T as i32;
        // Sums of fewer bits now and then, as fast kernels have them.
        let fast = 1i8;
        let attributes = [
            (Attribute::CUBLASLT_MATMUL_DESC_TRANSA, (&raw const transposed).cast(), 4),
            (Attribute::CUBLASLT_MATMUL_DESC_FAST_ACCUM, (&raw const fast).cast::<c_void>(), 1),
        ];
        for (attribute, value, bytes) in attributes {
            // SAFETY: the description is alive, and the value has so many bytes and is only read.
            unsafe { result::set_matmul_desc_attribute(self.description, attribute, value, bytes) }
                .map_err(|error| refused("cublasLtMatmulDescSetAttribute", error))?;
        }
        let [m, n, k] = self.product.extents;
        let (fp8, bf16) = (sys::cudaDataType::CUDA_R_8F_E4M3, sys::cudaDataType::CUDA_R_16BF);
        for (kind, rows, columns) in [(fp8, k, m), (fp8, k, n), (bf16, m, n)] {
            let layout =
                result::create_matrix_layout(kind, rows.into(), columns.into(), rows.into());
            let layout = layout.map_err(|error| refused("cublasLtMatrixLayoutCreate", error))?;
            self.layouts.push(layout);
        }
        Ok(())
    }

    fn chosen(&self) -> Result<sys::cublasLtMatmulAlgo_t, Refusal> {
        let preference = result::create_matmul_pref()
            .map_err(|error| refused("cublasLtMatmulPreferenceCreate", error))?;
        let bytes = self.product.workspace.1;
        let attribute =
            sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
        let [a, b, c] = self.layouts[..] else { return Err("three layouts are made".to_owned()) };
        // SAFETY: everything was made above and is alive, the value has the size that is given and
        // is only read, and the preference is not used after it is destroyed.
        let found = unsafe {
            let value = (&raw const bytes).cast();
            let set = result::set_matmul_pref_attribute(preference, attribute, value, 8);
            let (handle, description) = (self.handle, self.description);
            let found = set.and_then(|()| {
                result::get_matmul_algo_heuristic(handle, description, a, b, c, c, preference)
            });
            let _ = result::destroy_matmul_pref(preference);
            found
        };
        let found = found.map_err(|error| refused("cublasLtMatmulAlgoGetHeuristic", error))?;
        Ok(found.algo)
    }

    /// Queues the product on a stream.
    pub(in crate::cuda) fn queue(&self, stream: &Stream) -> Result<(), Refusal> {
        let (one, zero) = (1f32, 0f32);
        let [at_a, at_b, at_c] = self.product.addresses;
        let (workspace, workspace_bytes) = self.product.workspace;
        let [a, b, c] = self.layouts[..] else { return Err("three layouts are made".to_owned()) };
        // SAFETY: the addresses hold what the extents say, by the contract of `Fp8Product`; plan
        // and stream are alive, and factors are on the host and read before the call returns.
        let done = unsafe {
            result::matmul(
                self.handle,
                self.description,
                (&raw const one).cast(),
                (&raw const zero).cast(),
                at_a as *const _,
                a,
                at_b as *const _,
                b,
                at_c as *const _,
                c,
                at_c as *mut _,
                c,
                &raw const self.algorithm,
                workspace as *mut _,
                workspace_bytes,
                stream.raw.cast(),
            )
        };
        done.map_err(|error| refused("cublasLtMatmul", error))
    }
}

impl Drop for Fp8Plan {
    fn drop(&mut self) {
        if self.primary.is_abandoned() {
            return;
        }
        for layout in self.layouts.drain(..) {
            // SAFETY: it is alive and not used afterwards; so are the two below.
            let _ = unsafe { result::destroy_matrix_layout(layout) };
        }
        // SAFETY: as above.
        let _ = unsafe { result::destroy_matmul_desc(self.description) };
        // SAFETY: as above.
        let _ = unsafe { result::destroy_handle(self.handle) };
    }
}

/// Whether the loaded library has a function; only after it was found.
fn has(name: &CStr) -> bool {
    // SAFETY: the symbol is only looked for, never called.
    unsafe { sys::culib().get::<*const ()>(name.to_bytes_with_nul()).is_ok() }
}

fn refused(call: &str, error: result::CublasError) -> Refusal {
    format!("{call} failed: {:?}", error.0)
}
