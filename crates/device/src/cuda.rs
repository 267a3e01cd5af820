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

use std::rc::Rc;

use crate::execute::DeviceError;
use driver::{CallError, Code, Limit, Primary};

pub use ceilings::{Ceilings, Rate, measure};
pub use device::{Breach, CudaDevice};
pub use harness::{HARNESS_ENTRIES, HARNESS_SOURCE};
pub use health::{health, leave_pattern, scan_for_pattern};
pub use info::{GpuInfo, list};
pub use nvml::{GpuState, state};
pub use placement::Placement;
pub use timer::{TimedSample, Timer};

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
    /// No driver, no such GPU, or a GPU that cannot be had.
    pub fn open(ordinal: u32) -> Result<Rc<Context>, CudaError> {
        let gpu = info::gpu(ordinal)?;
        let info = info::describe(gpu, ordinal)?;
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

fn is_unsupported(code: Code) -> bool {
    matches!(
        code,
        Code::CUDA_ERROR_UNSUPPORTED_LIMIT
            | Code::CUDA_ERROR_NOT_SUPPORTED
            | Code::CUDA_ERROR_INVALID_VALUE
    )
}
