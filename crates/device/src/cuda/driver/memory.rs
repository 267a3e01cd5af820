//! Device memory with unmapped pages on both sides, pinned host memory, and copies.
//!
//! Device addresses are numbers to the host: a wrong one is an error of the driver or a fault of
//! the device, never host memory gone wrong, so taking them is safe.

use std::ptr::{self, NonNull};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys;

use super::{CallError, Primary, Stream, check};

/// Unmapped bytes on each side of a mapping, at least.
const GUARD_BYTES: usize = 2 << 20;
const DEVICE_MAP: u32 = sys::CU_MEMHOSTALLOC_DEVICEMAP;

fn properties(primary: &Primary) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(primary),
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

fn location(primary: &Primary) -> sys::CUmemLocation {
    sys::CUmemLocation {
        type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
        id: primary.gpu.device,
    }
}

impl Primary {
    /// Size that mappings are a multiple of, in bytes.
    pub(in crate::cuda) fn granularity(&self) -> Result<u64, CallError> {
        let mut bytes = 0;
        let properties = properties(self);
        let option = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        // SAFETY: both structures outlive the call.
        let code = unsafe { sys::cuMemGetAllocationGranularity(&mut bytes, &properties, option) };
        check("cuMemGetAllocationGranularity", code)?;
        Ok(bytes as u64)
    }
}

/// Addresses that nothing else is mapped at.
#[derive(Debug)]
struct Reservation {
    start: u64,
    bytes: usize,
    primary: Rc<Primary>,
}

impl Reservation {
    fn new(primary: &Rc<Primary>, bytes: usize) -> Result<Reservation, CallError> {
        let mut start = 0;
        // SAFETY: `start` outlives the call; no address is asked for.
        let code = unsafe { sys::cuMemAddressReserve(&mut start, bytes, 0, 0, 0) };
        check("cuMemAddressReserve", code)?;
        Ok(Reservation { start, bytes, primary: Rc::clone(primary) })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if !self.primary.is_abandoned() {
            // SAFETY: the range was reserved by `new`, and its mapping is gone.
            let _ = unsafe { sys::cuMemAddressFree(self.start, self.bytes) };
        }
    }
}

/// Device memory whose neighbours on both sides are unmapped.
#[derive(Debug)]
pub(in crate::cuda) struct Mapping {
    start: u64,
    bytes: usize,
    /// Freed after the mapping: fields drop behind the type's own `drop`.
    reservation: Reservation,
}

impl Mapping {
    /// Maps `bytes`, a multiple of the granularity.
    pub(in crate::cuda) fn new(primary: &Rc<Primary>, bytes: u64) -> Result<Mapping, CallError> {
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let guard = GUARD_BYTES.max(primary.granularity()? as usize);
        let reservation = Reservation::new(primary, bytes.saturating_add(2 * guard))?;
        let start = reservation.start + guard as u64;
        map(primary, start, bytes)?;
        let mapping = Mapping { start, bytes, reservation };
        let access = sys::CUmemAccessDesc {
            location: location(primary),
            flags: sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: the range is mapped, and `access` outlives the call.
        check("cuMemSetAccess", unsafe { sys::cuMemSetAccess(start, bytes, &access, 1) })?;
        Ok(mapping)
    }

    /// Address of the first byte.
    pub(in crate::cuda) fn start(&self) -> u64 {
        self.start
    }

    /// Size in bytes.
    pub(in crate::cuda) fn bytes(&self) -> u64 {
        self.bytes as u64
    }
}

/// Makes physical memory and maps it; the mapping alone keeps it.
fn map(primary: &Primary, start: u64, bytes: usize) -> Result<(), CallError> {
    let mut handle = 0;
    // SAFETY: `handle` and the properties outlive the call.
    let code = unsafe { sys::cuMemCreate(&mut handle, bytes, &properties(primary), 0) };
    check("cuMemCreate", code)?;
    // SAFETY: the range is reserved and has the size of the memory.
    let mapped = check("cuMemMap", unsafe { sys::cuMemMap(start, bytes, 0, handle, 0) });
    // SAFETY: the handle is not used afterwards; a mapping keeps the memory.
    let released = check("cuMemRelease", unsafe { sys::cuMemRelease(handle) });
    mapped.and(released)
}

impl Drop for Mapping {
    fn drop(&mut self) {
        if !self.reservation.primary.is_abandoned() {
            // SAFETY: the range was mapped by `new`.
            let _ = unsafe { sys::cuMemUnmap(self.start, self.bytes) };
        }
    }
}

/// Words of host memory that kernels can read and write.
#[derive(Debug)]
pub(in crate::cuda) struct Pinned {
    words: NonNull<AtomicU64>,
    len: usize,
    address: u64,
    primary: Rc<Primary>,
}

impl Pinned {
    /// `len` words of 8 bytes, all zero.
    pub(in crate::cuda) fn new(primary: &Rc<Primary>, len: usize) -> Result<Pinned, CallError> {
        let mut host = ptr::null_mut();
        // SAFETY: `host` outlives the call, and the context is current on this thread.
        let code = unsafe { sys::cuMemHostAlloc(&mut host, 8 * len, DEVICE_MAP) };
        check("cuMemHostAlloc", code)?;
        let out_of_memory =
            CallError { call: "cuMemHostAlloc", code: super::Code::CUDA_ERROR_OUT_OF_MEMORY };
        let words = NonNull::new(host.cast::<AtomicU64>()).ok_or(out_of_memory)?;
        // SAFETY: the driver gave `8 * len` bytes, aligned to a page.
        unsafe { words.write_bytes(0, len) };
        let mut pinned = Pinned { words, len, address: 0, primary: Rc::clone(primary) };
        // SAFETY: the memory was allocated as mapped; the address outlives the call.
        let code = unsafe { sys::cuMemHostGetDevicePointer_v2(&mut pinned.address, host, 0) };
        check("cuMemHostGetDevicePointer_v2", code)?;
        Ok(pinned)
    }

    /// Where a kernel finds the first word.
    pub(in crate::cuda) fn address(&self) -> u64 {
        self.address
    }

    fn words(&self) -> &[AtomicU64] {
        // SAFETY: `len` words were allocated and zeroed, and atomics may be shared with a device.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr(), self.len) }
    }

    /// A word, zero behind the end.
    pub(in crate::cuda) fn load(&self, index: usize) -> u64 {
        self.words().get(index).map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Sets a word, nothing behind the end.
    pub(in crate::cuda) fn store(&self, index: usize, value: u64) {
        if let Some(word) = self.words().get(index) {
            word.store(value, Ordering::Release);
        }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if !self.primary.is_abandoned() {
            // SAFETY: the memory came from `cuMemHostAlloc`, and the host does not use it
            // afterwards. Nor does a kernel: the owner, `Timer`, has let its gates pass and seen
            // its stream idle or faulted, or else has abandoned the context.
            let _ = unsafe { sys::cuMemFreeHost(self.words.as_ptr().cast()) };
        }
    }
}

impl Stream {
    /// Sets `bytes` bytes at `address`; queued.
    pub(in crate::cuda) fn fill(
        &self,
        address: u64,
        byte: u8,
        bytes: u64,
    ) -> Result<(), CallError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the stream is alive; the address is the device's.
        let code = unsafe { sys::cuMemsetD8Async(address, byte, bytes as usize, self.raw) };
        check("cuMemsetD8Async", code)
    }

    /// Sets `words` words of 4 bytes at `address`; queued.
    pub(in crate::cuda) fn fill_words(
        &self,
        address: u64,
        word: u32,
        words: u64,
    ) -> Result<(), CallError> {
        if words == 0 {
            return Ok(());
        }
        // SAFETY: the stream is alive; the address is the device's.
        let code = unsafe { sys::cuMemsetD32Async(address, word, words as usize, self.raw) };
        check("cuMemsetD32Async", code)
    }

    /// Copies inside the device; queued.
    pub(in crate::cuda) fn copy(&self, to: u64, from: u64, bytes: u64) -> Result<(), CallError> {
        if bytes == 0 {
            return Ok(());
        }
        // SAFETY: the stream is alive; both addresses are the device's.
        let code = unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes as usize, self.raw) };
        check("cuMemcpyDtoDAsync_v2", code)
    }

    /// Copies to the device; `bytes` may be changed at once afterwards.
    pub(in crate::cuda) fn upload(&self, to: u64, bytes: &[u8]) -> Result<(), CallError> {
        if bytes.is_empty() {
            return Ok(());
        }
        let source = bytes.as_ptr().cast();
        // SAFETY: the source has that many bytes, and from pageable memory the driver has taken
        // them when the call returns.
        let code = unsafe { sys::cuMemcpyHtoDAsync_v2(to, source, bytes.len(), self.raw) };
        check("cuMemcpyHtoDAsync_v2", code)
    }

    /// Copies from the device and has ended when it returns.
    pub(in crate::cuda) fn download(&self, out: &mut [u8], from: u64) -> Result<(), CallError> {
        if out.is_empty() {
            return Ok(());
        }
        let target = out.as_mut_ptr().cast();
        // SAFETY: the target has that many bytes and outlives the wait below.
        let code = unsafe { sys::cuMemcpyDtoHAsync_v2(target, from, out.len(), self.raw) };
        let copied = check("cuMemcpyDtoHAsync_v2", code);
        // SAFETY: the stream is alive.
        let waited = check("cuStreamSynchronize", unsafe { sys::cuStreamSynchronize(self.raw) });
        copied.and(waited)
    }
}
