//! The state of a GPU as the management library tells it: processes, clocks, heat, power.
//!
//! Needs no CUDA context. What a GPU does not tell is zero, empty or none. Processes are listed
//! with the numbers of the process namespace of the machine, which a container may not share. Start
//! at [`state`].

use std::collections::BTreeMap;
use std::sync::OnceLock;

use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::struct_wrappers::device::ProcessInfo;
use nvml_wrapper::{Device, Nvml};
use serde::{Deserialize, Serialize};

use super::CudaError;
use crate::limits::PROCESSES_MAX;

/// Names of the reasons why clocks are not higher, in the words of NVML.
const REASONS: [(ThrottleReasons, &str); 9] = [
    (ThrottleReasons::GPU_IDLE, "gpu_idle"),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, "applications_clocks_setting"),
    (ThrottleReasons::SW_POWER_CAP, "sw_power_cap"),
    (ThrottleReasons::HW_SLOWDOWN, "hw_slowdown"),
    (ThrottleReasons::SYNC_BOOST, "sync_boost"),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, "sw_thermal_slowdown"),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, "hw_thermal_slowdown"),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, "hw_power_brake_slowdown"),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, "display_clock_setting"),
];

/// What a GPU does now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// Processes that compute or draw: process number and device memory in bytes, zero where not
    /// told. `None` where the driver does not say which there are.
    pub processes: Option<Vec<(u32, u64)>>,
    pub sm_clock_hz: f64,
    pub memory_clock_hz: f64,
    pub temperature_c: u32,
    pub power_w: f64,
    /// Reasons why clocks are not higher, such as `sw_power_cap`, `gpu_idle` among them.
    pub throttle: Vec<String>,
    /// Energy since the driver was loaded, in millijoules.
    pub energy_mj: Option<u64>,
}

/// Asks for the state of the GPU with this identifier, such as `GPU-…`.
///
/// # Errors
/// No management library, or no such GPU.
pub fn state(uuid: &str) -> Result<GpuState, CudaError> {
    let nvml = library()?;
    let device = nvml
        .device_by_uuid(uuid)
        .map_err(|error| CudaError::Unavailable(format!("NVML does not know {uuid}: {error}")))?;
    let megahertz = |clock| device.clock_info(clock).map_or(0.0, |value| f64::from(value) * 1e6);
    Ok(GpuState {
        processes: processes(&device),
        sm_clock_hz: megahertz(Clock::SM),
        memory_clock_hz: megahertz(Clock::Memory),
        temperature_c: device.temperature(TemperatureSensor::Gpu).unwrap_or(0),
        power_w: device.power_usage().map_or(0.0, |value| f64::from(value) / 1e3),
        throttle: device.current_throttle_reasons().map(names).unwrap_or_default(),
        energy_mj: device.total_energy_consumption().ok(),
    })
}

/// Energy that the GPU with this identifier has used since the driver was loaded, in millijoules;
/// `None` where it does not tell. Asks for nothing else, so that it can be asked often.
#[must_use]
pub fn energy_mj(uuid: &str) -> Option<u64> {
    library().ok()?.device_by_uuid(uuid).ok()?.total_energy_consumption().ok()
}

fn processes(device: &Device<'_>) -> Option<Vec<(u32, u64)>> {
    merged(device.running_compute_processes(), device.running_graphics_processes())
}

/// Every process once; `None` if one of the lists is not to be had. A GPU that cannot draw has no
/// list of processes that do.
fn merged(
    compute: Result<Vec<ProcessInfo>, NvmlError>,
    graphics: Result<Vec<ProcessInfo>, NvmlError>,
) -> Option<Vec<(u32, u64)>> {
    let graphics = match graphics {
        Err(NvmlError::NotSupported) => Vec::new(),
        graphics => graphics.ok()?,
    };
    let mut all = BTreeMap::new();
    for process in compute.ok()?.into_iter().chain(graphics) {
        let bytes = match process.used_gpu_memory {
            UsedGpuMemory::Used(bytes) => bytes,
            UsedGpuMemory::Unavailable => 0,
        };
        let most = all.entry(process.pid).or_insert(bytes);
        *most = bytes.max(*most);
    }
    Some(all.into_iter().take(PROCESSES_MAX).collect())
}

fn names(reasons: ThrottleReasons) -> Vec<String> {
    let set = REASONS.iter().filter(|(reason, _)| reasons.contains(*reason));
    set.map(|(_, name)| (*name).to_owned()).collect()
}

/// Version of the driver, such as `580.159.04`.
pub(super) fn driver_version() -> Option<String> {
    library().ok()?.sys_driver_version().ok()
}

/// The library, loaded once a process.
fn library() -> Result<&'static Nvml, CudaError> {
    static LIBRARY: OnceLock<Result<Nvml, String>> = OnceLock::new();
    let loaded = LIBRARY.get_or_init(|| Nvml::init().map_err(|error| error.to_string()));
    loaded.as_ref().map_err(|why| {
        CudaError::Unavailable(format!("the NVIDIA management library is not to be had: {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_have_names() {
        let reasons = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE;
        assert_eq!(names(reasons), ["gpu_idle", "sw_power_cap"]);
        assert_eq!(names(ThrottleReasons::empty()), Vec::<String>::new());
        let all = REASONS.iter().fold(ThrottleReasons::empty(), |all, (reason, _)| all | *reason);
        assert_eq!(all, ThrottleReasons::all());
    }

    #[test]
    fn a_list_that_is_not_told_is_not_empty() {
        let process = |pid, bytes| ProcessInfo {
            pid,
            used_gpu_memory: UsedGpuMemory::Used(bytes),
            gpu_instance_id: None,
            compute_instance_id: None,
        };
        let both = merged(Ok(vec![process(2, 5)]), Ok(vec![process(1, 3), process(2, 7)]));
        assert_eq!(both, Some(vec![(1, 3), (2, 7)]));
        assert_eq!(merged(Ok(Vec::new()), Err(NvmlError::NotSupported)), Some(Vec::new()));
        assert_eq!(merged(Ok(Vec::new()), Err(NvmlError::Unknown)), None);
        assert_eq!(merged(Err(NvmlError::NotSupported), Ok(Vec::new())), None);
    }

    #[test]
    fn without_the_library_a_sentence_says_so() {
        if let Err(error) = state("GPU-00000000-0000-0000-0000-000000000000") {
            assert!(error.to_string().contains("N"), "{error}");
            assert!(matches!(error, CudaError::Unavailable(_)));
        }
    }
}
