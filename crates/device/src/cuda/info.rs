//! What GPUs there are and what each is; attributes only, no context is made.
//!
//! Start at [`list`].

use serde::{Deserialize, Serialize};

use super::driver::{Attribute, CallError, Gpu, gpu_count, ready};
use super::{CudaError, nvml};

/// Where the kernel module tells the driver's version.
const MODULE_VERSION: &str = "/sys/module/nvidia/version";

/// One GPU as the driver describes it; sizes in bytes, clocks in hertz.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuInfo {
    /// Place in the driver's list, which `CUDA_VISIBLE_DEVICES` changes.
    pub ordinal: u32,
    /// Such as `GPU-01234567-89ab-cdef-0123-456789abcdef`; `MIG-…` for a part of a GPU.
    pub uuid: String,
    pub name: String,
    /// Compute capability, major and minor.
    pub compute: (u32, u32),
    /// Real architecture for the compiler, such as `sm_90a` or `sm_80`.
    pub arch: String,
    /// Version of the driver, such as `580.159.04`; `unknown` where nothing tells it.
    pub driver: String,
    /// CUDA version of the driver, such as 13000.
    pub cuda_version: i32,
    pub sm_count: i64,
    pub warp_size: i64,
    pub max_threads_per_block: i64,
    pub max_threads_per_sm: i64,
    pub shared_per_block: i64,
    pub shared_per_block_optin: i64,
    pub shared_per_sm: i64,
    /// Registers of 32 bits.
    pub registers_per_sm: i64,
    pub l2_bytes: i64,
    pub memory_bytes: i64,
    /// Highest SM clock.
    pub clock_hz: f64,
    /// Highest memory clock.
    pub memory_clock_hz: f64,
    pub memory_bus_bits: i64,
    pub cooperative_launch: bool,
    /// Whether this is a part of a GPU, as far as it shows.
    pub mig: bool,
}

/// Every GPU that the driver shows to this process.
///
/// # Errors
/// No driver, one that is too old, or one that shows no GPU.
pub fn list() -> Result<Vec<GpuInfo>, CudaError> {
    ready()?;
    (0..gpu_count()?).map(|ordinal| describe(Gpu::at(ordinal)?, ordinal)).collect()
}

/// The GPU at `ordinal`, with the driver made ready.
pub(super) fn gpu(ordinal: u32) -> Result<Gpu, CudaError> {
    ready()?;
    let count = gpu_count()?;
    if ordinal >= count {
        let why = format!("there is no GPU {ordinal}; the driver shows {count}");
        return Err(CudaError::Unavailable(why));
    }
    Ok(Gpu::at(ordinal)?)
}

pub(super) fn describe(gpu: Gpu, ordinal: u32) -> Result<GpuInfo, CudaError> {
    use Attribute as A;
    let number = |attribute| gpu.attribute(attribute).map(i64::from);
    let kilohertz = |attribute| number(attribute).map(|value| value as f64 * 1e3);
    let compute = compute(gpu)?;
    let name = gpu.name()?;
    let mig = name.contains(" MIG ");
    Ok(GpuInfo {
        ordinal,
        uuid: uuid_text(if mig { "MIG" } else { "GPU" }, gpu.uuid()?),
        compute,
        arch: arch(compute),
        driver: driver_version(),
        cuda_version: ready()?,
        sm_count: number(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
        warp_size: number(A::CU_DEVICE_ATTRIBUTE_WARP_SIZE)?,
        max_threads_per_block: number(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        max_threads_per_sm: number(A::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
        shared_per_block: number(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)?,
        shared_per_block_optin: number(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        shared_per_sm: number(A::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
        registers_per_sm: number(A::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
        l2_bytes: number(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        memory_bytes: i64::try_from(gpu.memory_bytes()?).unwrap_or(i64::MAX),
        clock_hz: kilohertz(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
        memory_clock_hz: kilohertz(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        memory_bus_bits: number(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
        cooperative_launch: number(A::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH)? != 0,
        mig,
        name,
    })
}

fn compute(gpu: Gpu) -> Result<(u32, u32), CallError> {
    let part = |attribute| gpu.attribute(attribute).map(|value| u32::try_from(value).unwrap_or(0));
    Ok((
        part(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        part(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    ))
}

/// The compiler's name of an architecture, with everything that this very one can do.
fn arch((major, minor): (u32, u32)) -> String {
    format!("sm_{major}{minor}{}", if major >= 9 { "a" } else { "" })
}

fn uuid_text(kind: &str, uuid: [u8; 16]) -> String {
    let hex = |range: std::ops::Range<usize>| -> String {
        uuid[range].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    let parts = [hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16)];
    format!("{kind}-{}", parts.join("-"))
}

/// From the kernel module, which costs nothing, else from the management library.
fn driver_version() -> String {
    let module = std::fs::read_to_string(MODULE_VERSION).ok();
    let module = module.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    module.or_else(nvml::driver_version).unwrap_or_else(|| "unknown".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_driver_a_sentence_says_so() {
        match list() {
            Ok(gpus) => assert!(gpus.iter().all(|gpu| gpu.uuid.len() == 40), "{gpus:?}"),
            Err(CudaError::Unavailable(why)) => {
                assert!(why.contains("NVIDIA") || why.contains("libcuda"), "{why}");
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn names_are_those_that_others_use() {
        assert_eq!(arch((9, 0)), "sm_90a");
        assert_eq!(arch((8, 0)), "sm_80");
        assert_eq!(arch((12, 0)), "sm_120a");
        let uuid = std::array::from_fn(|index| 0x11 * index as u8);
        assert_eq!(uuid_text("GPU", uuid), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
