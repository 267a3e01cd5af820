//! The CUDA driver behind owner types: every raw call of this crate is in this folder.
//!
//! Nothing here decides anything; a call that fails is a [`CallError`] with the driver's own code.
//! The driver is loaded at run time, and [`ready`] must have succeeded before anything else, which
//! holds by construction: everything else starts from a [`Primary`].
#![allow(unsafe_code, reason = "calls into the CUDA driver")]

pub(super) mod blas;
pub(super) mod blas_lt;
mod launch;
mod memory;
mod stream;

use std::cell::Cell;
use std::ffi::CStr;
use std::rc::Rc;

use cudarc::driver::sys;
pub(super) use sys::{CUdevice_attribute as Attribute, CUlimit as Limit, CUresult as Code};

pub(super) use launch::{Function, Geometry, Module, encode_tensor_map};
pub(super) use memory::{Mapping, Pinned};
pub(super) use stream::{Event, Stream};

use super::CudaError;

/// The oldest driver that is used, as `cuDriverGetVersion` tells it.
const DRIVER_VERSION_MIN: i32 = 12_000;
/// Longest name of a GPU, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Every function that is called; one that is missing would end the process.
const SYMBOLS: [&CStr; 43] = [
    c"cuCtxResetPersistingL2Cache",
    c"cuCtxSetCurrent",
    c"cuCtxSetLimit",
    c"cuDeviceGet",
    c"cuDeviceGetAttribute",
    c"cuDeviceGetCount",
    c"cuDeviceGetName",
    c"cuDeviceGetUuid_v2",
    c"cuDevicePrimaryCtxRelease_v2",
    c"cuDevicePrimaryCtxRetain",
    c"cuDeviceTotalMem_v2",
    c"cuEventCreate",
    c"cuEventDestroy_v2",
    c"cuEventElapsedTime",
    c"cuEventRecord",
    c"cuFuncGetAttribute",
    c"cuFuncSetAttribute",
    c"cuLaunchKernelEx",
    c"cuMemAddressFree",
    c"cuMemAddressReserve",
    c"cuMemCreate",
    c"cuMemFreeHost",
    c"cuMemGetAllocationGranularity",
    c"cuMemGetInfo_v2",
    c"cuMemHostAlloc",
    c"cuMemHostGetDevicePointer_v2",
    c"cuMemMap",
    c"cuMemRelease",
    c"cuMemSetAccess",
    c"cuMemUnmap",
    c"cuMemcpyDtoDAsync_v2",
    c"cuMemcpyDtoHAsync_v2",
    c"cuMemcpyHtoDAsync_v2",
    c"cuMemsetD32Async",
    c"cuMemsetD8Async",
    c"cuModuleGetFunction",
    c"cuModuleLoadData",
    c"cuModuleUnload",
    c"cuStreamCreate",
    c"cuStreamDestroy_v2",
    c"cuStreamQuery",
    c"cuStreamSynchronize",
    c"cuTensorMapEncodeTiled",
];

/// A call that the driver answered with something other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CallError {
    pub(super) call: &'static str,
    pub(super) code: Code,
}

/// Success or the error of `call`.
fn check(call: &'static str, code: Code) -> Result<(), CallError> {
    if code == Code::CUDA_SUCCESS { Ok(()) } else { Err(CallError { call, code }) }
}

/// Loads and initialises the driver; gives its CUDA version, such as 13000.
pub(super) fn ready() -> Result<i32, CudaError> {
    let unavailable = |why: &str| CudaError::Unavailable(why.to_owned());
    // SAFETY: the call only tries to open libraries by name.
    if !unsafe { sys::is_culib_present() } {
        return Err(unavailable("no NVIDIA driver was found (libcuda.so.1)"));
    }
    if !has(c"cuInit") || !has(c"cuDriverGetVersion") {
        return Err(unavailable("libcuda.so.1 is no CUDA driver"));
    }
    let mut version = 0;
    // SAFETY: both functions exist, and `version` outlives the call.
    let codes = unsafe { (sys::cuDriverGetVersion(&mut version), sys::cuInit(0)) };
    check("cuDriverGetVersion", codes.0)?;
    match codes.1 {
        Code::CUDA_SUCCESS => {}
        Code::CUDA_ERROR_NO_DEVICE => return Err(unavailable("the NVIDIA driver shows no GPU")),
        Code::CUDA_ERROR_STUB_LIBRARY => {
            return Err(unavailable("libcuda.so.1 is a stub for linking, not a driver"));
        }
        code => return Err(unavailable(&format!("the NVIDIA driver does not start: {code:?}"))),
    }
    if version < DRIVER_VERSION_MIN {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        let why = format!("the NVIDIA driver is of CUDA {major}.{minor}; 12.0 is the oldest used");
        return Err(CudaError::Unavailable(why));
    }
    match SYMBOLS.iter().find(|name| !has(name)) {
        Some(name) => Err(CudaError::Unavailable(format!(
            "the NVIDIA driver lacks {}",
            name.to_string_lossy()
        ))),
        None => Ok(version),
    }
}

/// Whether the loaded driver has a function; only after the library was found.
fn has(name: &CStr) -> bool {
    // SAFETY: the symbol is only looked for, never called.
    unsafe { sys::culib().get::<*const ()>(name.to_bytes_with_nul()).is_ok() }
}

/// A GPU by its place in the driver's list; made after [`ready`] alone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gpu {
    device: sys::CUdevice,
}

/// How many GPUs there are; only after [`ready`].
pub(super) fn gpu_count() -> Result<u32, CallError> {
    let mut count = 0;
    // SAFETY: `count` outlives the call.
    check("cuDeviceGetCount", unsafe { sys::cuDeviceGetCount(&mut count) })?;
    Ok(u32::try_from(count).unwrap_or(0))
}

impl Gpu {
    /// The GPU at `ordinal`; only after [`ready`].
    pub(super) fn at(ordinal: u32) -> Result<Gpu, CallError> {
        let mut device = 0;
        let ordinal = i32::try_from(ordinal).unwrap_or(i32::MAX);
        // SAFETY: `device` outlives the call.
        check("cuDeviceGet", unsafe { sys::cuDeviceGet(&mut device, ordinal) })?;
        Ok(Gpu { device })
    }

    pub(super) fn attribute(self, attribute: Attribute) -> Result<i32, CallError> {
        let mut value = 0;
        // SAFETY: `value` outlives the call, and the device came from the driver.
        let code = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, self.device) };
        check("cuDeviceGetAttribute", code)?;
        Ok(value)
    }

    pub(super) fn name(self) -> Result<String, CallError> {
        let mut name = [0u8; NAME_BYTES_MAX];
        // SAFETY: the driver writes at most the given length, terminator included.
        let code = unsafe {
            sys::cuDeviceGetName(name.as_mut_ptr().cast(), NAME_BYTES_MAX as i32, self.device)
        };
        check("cuDeviceGetName", code)?;
        let text = CStr::from_bytes_until_nul(&name).unwrap_or(c"");
        Ok(text.to_string_lossy().into_owned())
    }

    pub(super) fn uuid(self) -> Result<[u8; 16], CallError> {
        let mut uuid = sys::CUuuid { bytes: [0; 16] };
        // SAFETY: `uuid` outlives the call, and the device came from the driver.
        check("cuDeviceGetUuid_v2", unsafe { sys::cuDeviceGetUuid_v2(&mut uuid, self.device) })?;
        Ok(uuid.bytes.map(|byte| byte as u8))
    }

    pub(super) fn memory_bytes(self) -> Result<u64, CallError> {
        let mut bytes = 0;
        // SAFETY: `bytes` outlives the call, and the device came from the driver.
        check("cuDeviceTotalMem_v2", unsafe { sys::cuDeviceTotalMem_v2(&mut bytes, self.device) })?;
        Ok(bytes as u64)
    }
}

/// The primary context of a GPU, current on the thread that made it, released on drop.
///
/// Not `Send`: the owners that hold it call into the driver on this very thread.
#[derive(Debug)]
pub(super) struct Primary {
    gpu: Gpu,
    context: sys::CUcontext,
    /// Set when a kernel did not end in time: freeing anything could wait for it for ever, or take
    /// memory away that it uses.
    abandoned: Cell<bool>,
}

impl Primary {
    pub(super) fn retain(gpu: Gpu) -> Result<Rc<Primary>, CallError> {
        let mut context = std::ptr::null_mut();
        // SAFETY: `context` outlives the call, and the device came from the driver.
        let code = unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, gpu.device) };
        check("cuDevicePrimaryCtxRetain", code)?;
        let primary = Primary { gpu, context, abandoned: Cell::new(false) };
        // SAFETY: the context was retained just now and is released by the drop of `primary`.
        check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(primary.context) })?;
        Ok(Rc::new(primary))
    }

    /// From now on nothing is given back to the driver; the end of the process does it.
    pub(super) fn abandon(&self) {
        self.abandoned.set(true);
    }

    /// Whether an owner must leave what it holds alone.
    pub(super) fn is_abandoned(&self) -> bool {
        self.abandoned.get()
    }

    pub(super) fn set_limit(&self, limit: Limit, value: usize) -> Result<(), CallError> {
        // SAFETY: the context is current on this thread.
        check("cuCtxSetLimit", unsafe { sys::cuCtxSetLimit(limit, value) })
    }

    pub(super) fn reset_persisting_l2(&self) -> Result<(), CallError> {
        // SAFETY: the context is current on this thread.
        check("cuCtxResetPersistingL2Cache", unsafe { sys::cuCtxResetPersistingL2Cache() })
    }

    /// Free device memory in bytes.
    pub(super) fn free_bytes(&self) -> Result<u64, CallError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both numbers outlive the call, and the context is current on this thread.
        check("cuMemGetInfo_v2", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }
}

impl Drop for Primary {
    fn drop(&mut self) {
        if !self.is_abandoned() {
            // SAFETY: it was retained once by `retain`, and every owner that uses it is gone.
            let _ = unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.gpu.device) };
        }
    }
}
