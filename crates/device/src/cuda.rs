//! NVIDIA GPUs through the CUDA driver: what there is, one device, times, ceilings, state.
//!
//! The driver is loaded at run time; where there is none, everything here is
//! [`CudaError::Unavailable`]. A kernel that faults poisons its context for good and one that
//! never ends blocks it, so every candidate runs in a process of its own that its parent can kill.
//! Nothing here judges a result. Start at [`list`], then [`Context::open`] and [`CudaDevice::new`].

mod buffers;
mod ceilings;
mod device;
mod driver;
mod elf;
mod faults;
mod harness;
mod health;
mod info;
mod legality;
mod module;
mod nvml;
mod placement;
mod timer;
mod vendor;
mod workload;

use std::rc::Rc;
use std::sync::OnceLock;

use crate::execute::DeviceError;
use driver::{CallError, Code, Limit, Primary};

pub use ceilings::{Ceilings, Rate, measure};
pub use device::CudaDevice;
pub use harness::{HARNESS_ENTRIES, HARNESS_SOURCE};
pub use health::{health, leave_pattern, scan_for_pattern};
pub use info::{GpuInfo, list};
pub use nvml::{GpuState, energy_mj, state};
pub use placement::Placement;
pub use timer::{TimedSample, Timer};
pub use vendor::{Blas, Fp8Gemm, Gemm, GemmTypes};
pub use workload::{CLOCK_SERIES, ClockSeries, clock_series};

/// Why CUDA could not be used, or what it answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no usable driver, GPU or management library; a sentence.
    #[error("{0}")]
    Unavailable(String),
    /// A call failed; the code is the driver's own name for it.
    #[error("{call} failed: {code}")]
    Failed { call: &'static str, code: String },
}

impl From<CallError> for CudaError {
    fn from(error: CallError) -> Self {
        Self::Failed { call: error.call, code: format!("{:?}", error.code) }
    }
}

impl From<CudaError> for DeviceError {
    fn from(error: CudaError) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<CallError> for DeviceError {
    fn from(error: CallError) -> Self {
        CudaError::from(error).into()
    }
}

/// The primary context of one GPU, current on this thread, released when it and all that was made
/// with it are gone.
#[derive(Debug)]
pub struct Context {
    primary: Rc<Primary>,
    info: GpuInfo,
}

impl Context {
    /// Opens the GPU at `ordinal` and takes away what kernels could hide state in: the `printf`
    /// buffer and the heap shrink to their minimum, and nothing persists in L2.
    ///
    /// Modules load eagerly only if the process was started with `CUDA_MODULE_LOADING=EAGER`.
    ///
    /// # Errors
    /// No driver, no such GPU, a GPU that cannot be had, or another GPU than the first that this
    /// process opened.
    pub fn open(ordinal: u32) -> Result<Rc<Context>, CudaError> {
        let gpu = info::gpu(ordinal)?;
        let info = info::describe(gpu, ordinal)?;
        only(ordinal)?;
        let primary = Primary::retain(gpu)?;
        for (limit, value) in [
            (Limit::CU_LIMIT_PRINTF_FIFO_SIZE, 1),
            (Limit::CU_LIMIT_MALLOC_HEAP_SIZE, 1),
            (Limit::CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0),
        ] {
            match primary.set_limit(limit, value) {
                Err(error) if !is_unsupported(error.code) => return Err(error.into()),
                _ => {}
            }
        }
        Ok(Rc::new(Context { primary, info }))
    }

    /// What the GPU is.
    #[must_use]
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// Device memory that is free now, in bytes.
    ///
    /// # Errors
    /// A context that is broken.
    pub fn free_bytes(&self) -> Result<u64, CudaError> {
        Ok(self.primary.free_bytes()?)
    }
}

/// Refuses a second GPU: every owner relies on its own context being current on this thread.
fn only(ordinal: u32) -> Result<(), CudaError> {
    static FIRST: OnceLock<u32> = OnceLock::new();
    let first = *FIRST.get_or_init(|| ordinal);
    if first == ordinal {
        return Ok(());
    }
    let code = format!("this process uses GPU {first}, and one process uses one GPU");
    Err(CudaError::Failed { call: "Context::open", code })
}

fn is_unsupported(code: Code) -> bool {
    matches!(
        code,
        Code::CUDA_ERROR_UNSUPPORTED_LIMIT
            | Code::CUDA_ERROR_NOT_SUPPORTED
            | Code::CUDA_ERROR_INVALID_VALUE
    )
}

#[cfg(test)]
mod tests {
    use super::only;

    #[test]
    fn a_process_uses_one_gpu() {
        only(3).unwrap();
        only(3).unwrap();
        assert!(only(4).unwrap_err().to_string().contains("GPU 3"));
    }
}
