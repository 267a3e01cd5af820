//! The probe child: what GPUs there are, whether one is healthy, and how fast it can be.

use device::cuda::{self, GpuInfo};
use device::execute::{Image, conformance};
use pipeline::device_facts::DeviceFacts;
use pipeline::hardware::{Ceilings, GemmRates, HardwareSheet, Rate, SHEET_VERSION};
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use sandbox::inside::Inside;
use sandbox::wire::{ProbeReport, ProbeRequest, Slice};

use crate::RunnerError;
use crate::bulk::Maps;
use crate::limits::CONFORMANCE_DEADLINE;
use crate::reach;

pub(crate) fn serve(inside: &mut Inside) -> Result<ProbeReport, RunnerError> {
    let request: ProbeRequest = inside.read_request()?;
    let maps = Maps::read(inside, slices(&request).into_iter())?;
    Ok(match &request {
        ProbeRequest::List => ProbeReport::Gpus(listed()?.iter().map(sheet).collect()),
        ProbeRequest::Health { harness } => ProbeReport::Health(health(maps.get(*harness)?)),
        ProbeRequest::Ceilings { harness } => {
            let context = only_gpu()?;
            let found = cuda::measure(&context, maps.get(*harness)?);
            let report = ProbeReport::Ceilings(Box::new(ceilings(&found.map_err(unavailable)?)));
            std::mem::forget(context);
            report
        }
        ProbeRequest::FreeMemory => {
            let context = only_gpu()?;
            let free = context.free_bytes().map_err(unavailable)?;
            std::mem::forget(context);
            ProbeReport::FreeMemory(free)
        }
        ProbeRequest::LeavePattern { bytes } => {
            cuda::leave_pattern(&only_gpu()?, *bytes).map_err(unavailable)?;
            ProbeReport::PatternLeft
        }
        ProbeRequest::ScanForPattern { bytes, harness } => {
            let words = cuda::scan_for_pattern(&only_gpu()?, *bytes, maps.get(*harness)?);
            ProbeReport::PatternFound(words.map_err(unavailable)?)
        }
        ProbeRequest::Conformance { test, ptx, cubin } => {
            let ptx = std::str::from_utf8(maps.get(*ptx)?)
                .map_err(|error| RunnerError::Request(format!("PTX: {error}")))?;
            ProbeReport::Conformance(conform(test, &Image { ptx, cubin: maps.get(*cubin)? })?)
        }
        ProbeRequest::Reach(targets) => {
            let context = targets.with_context.then(only_gpu).transpose()?;
            let report = ProbeReport::Reached(reach::tried(targets));
            std::mem::forget(context);
            report
        }
    })
}

fn slices(request: &ProbeRequest) -> Vec<Slice> {
    match request {
        ProbeRequest::List | ProbeRequest::FreeMemory => Vec::new(),
        ProbeRequest::Health { harness } | ProbeRequest::Ceilings { harness } => vec![*harness],
        ProbeRequest::LeavePattern { .. } | ProbeRequest::Reach(_) => Vec::new(),
        ProbeRequest::ScanForPattern { harness, .. } => vec![*harness],
        ProbeRequest::Conformance { ptx, cubin, .. } => vec![*ptx, *cubin],
    }
}

fn unavailable(error: cuda::CudaError) -> RunnerError {
    RunnerError::NotAvailable(error.to_string())
}

fn listed() -> Result<Vec<GpuInfo>, RunnerError> {
    cuda::list().map_err(unavailable)
}

/// The one GPU that the environment shows this process.
fn only_gpu() -> Result<std::rc::Rc<cuda::Context>, RunnerError> {
    cuda::Context::open(0).map_err(unavailable)
}

/// What is wrong with the GPU; whatever cannot be done on it counts.
fn health(harness: &[u8]) -> Option<String> {
    let context = match cuda::Context::open(0) {
        Ok(context) => context,
        Err(error) => return Some(error.to_string()),
    };
    let found = cuda::health(&context, harness).err();
    std::mem::forget(context);
    found
}

fn conform(test: &str, image: &Image<'_>) -> Result<Option<String>, RunnerError> {
    let context = only_gpu()?;
    let device = cuda::CudaDevice::new(&context, CONFORMANCE_DEADLINE, cuda::Placement::Upper)?;
    let failure = conformance::run(test, image, Box::new(device)).err();
    std::mem::forget(context);
    Ok(failure)
}

fn sheet(gpu: &GpuInfo) -> HardwareSheet {
    HardwareSheet {
        version: SHEET_VERSION,
        uuid: gpu.uuid.clone(),
        driver: gpu.driver.clone(),
        cuda_version: gpu.cuda_version,
        facts: facts(gpu),
        ceilings: None,
    }
}

/// Data moves twice in a clock of the memory.
const TRANSFERS_PER_CLOCK: f64 = 2.0;

fn facts(gpu: &GpuInfo) -> DeviceFacts {
    let bus_bytes = gpu.memory_bus_bits as f64 / 8.0;
    let lanes = (gpu.sm_count * fp32_lanes(gpu.compute)) as f64;
    DeviceFacts {
        model: gpu.name.clone(),
        arch: gpu.arch.clone(),
        simulated: false,
        sm_count: gpu.sm_count,
        warp_size: gpu.warp_size,
        max_threads_per_block: gpu.max_threads_per_block,
        max_threads_per_sm: gpu.max_threads_per_sm,
        shared_per_block: gpu.shared_per_block,
        shared_per_block_optin: gpu.shared_per_block_optin,
        shared_per_sm: gpu.shared_per_sm,
        registers_per_sm: gpu.registers_per_sm,
        l2_bytes: gpu.l2_bytes,
        memory_bytes: gpu.memory_bytes,
        bandwidth_bytes_per_s: TRANSFERS_PER_CLOCK * gpu.memory_clock_hz * bus_bytes,
        fp32_flops_per_s: 2.0 * lanes * gpu.clock_hz,
        clock_hz: gpu.clock_hz,
    }
}

/// fp32 lanes of one SM, from the CUDA programming guide's table of throughputs.
fn fp32_lanes(compute: (u32, u32)) -> i64 {
    match compute {
        (0..=7, _) | (8, 0) => 64,
        _ => 128,
    }
}

fn ceilings(found: &cuda::Ceilings) -> Ceilings {
    let rate = |rate: &cuda::Rate| Rate {
        median: rate.median,
        low: rate.low,
        high: rate.high,
        samples: rate.samples,
    };
    Ceilings {
        copy_bytes_per_s: rate(&found.copy_bytes_per_s),
        read_bytes_per_s: rate(&found.read_bytes_per_s),
        write_bytes_per_s: rate(&found.write_bytes_per_s),
        l2_read_bytes_per_s: rate(&found.l2_read_bytes_per_s),
        fp32_flops_per_s: rate(&found.fp32_flops_per_s),
        launch_ns: found.launch_ns,
        event_pair_ns: found.event_pair_ns,
        sm_clock_hz: found.sm_clock_hz,
        // The judge finds out, with two processes.
        memory_scrubbed: false,
        gemm: found.gemm.as_ref().map(|gemm| GemmRates {
            fp32: rate(&gemm.fp32),
            tf32: rate(&gemm.tf32),
            fp16: rate(&gemm.fp16),
            bf16: rate(&gemm.bf16),
            int8: gemm.int8.as_ref().map(rate).map_err(|why| capped(why, MESSAGE_BYTES_MAX)),
            fp8: gemm.fp8.as_ref().map(rate).map_err(|why| capped(why, MESSAGE_BYTES_MAX)),
        }),
    }
}
