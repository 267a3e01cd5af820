//! The suite that every device must pass: the same kernels, the same ends, the same bytes.
//!
//! A device gets compiled images and answers; what it must answer is here. Ends that only a
//! simulator can tell (a write to a read-only buffer, a budget) are tested beside it.

use super::{Access, Buffer, Device, DeviceError, Fault, Image, KernelLaunch, LaunchEnd, LoadEnd};

/// The kernels of the suite, one module; compile them for the device's architecture.
pub const SOURCE: &str = r#"
extern "C" __global__ void saxpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void block_sum(const float* x, float* y) {
    extern __shared__ float part[];
    part[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = part[0];
}
extern "C" __global__ void far_read(const float* x, float* y) { y[0] = x[1 << 24]; }
extern "C" __global__ void stop(float* y) { y[0] = 1.0f; __trap(); }
extern "C" __global__ void misaligned(float* y) {
    *reinterpret_cast<float4*>(y + 1) = make_float4(1, 2, 3, 4);
}
__device__ int calls = 40;
extern "C" __global__ void count(int* y) { y[0] = ++calls; }
"#;

/// Entries of [`SOURCE`].
pub const ENTRIES: [&str; 6] = ["saxpy", "block_sum", "far_read", "stop", "misaligned", "count"];

/// Runs the suite on devices that `make` gives, and returns what went wrong, one line each.
pub fn failures(
    image: &Image<'_>,
    make: &mut dyn FnMut() -> Result<Box<dyn Device>, DeviceError>,
) -> Vec<String> {
    let tests: [(&str, Test); 9] = [
        ("copies", copies),
        ("saxpy", saxpy),
        ("shared memory", block_sum),
        ("far read", far_read),
        ("misaligned store", misaligned),
        ("trap", trap),
        ("illegal launches", illegal_launches),
        ("fresh variables", fresh_variables),
        ("order of calls", order_of_calls),
    ];
    let run = |(name, test): &(&str, Test)| {
        let result =
            make().map_err(|error| error.to_string()).and_then(|device| test(device, image));
        result.err().map(|why| format!("{name}: {why}"))
    };
    tests.iter().filter_map(run).collect()
}

type Test = fn(Box<dyn Device>, &Image<'_>) -> Result<(), String>;

fn copies(mut device: Box<dyn Device>, _: &Image<'_>) -> Result<(), String> {
    let buffer = allocate(&mut *device, 16)?;
    ok(device.fill(buffer, 7))?;
    ok(device.upload(buffer, 4, &[1, 2, 3]))?;
    let mut bytes = [0; 16];
    ok(device.download(buffer, &mut bytes))?;
    equal(&bytes[..8], &[7, 7, 7, 7, 1, 2, 3, 7])?;
    for (offset, bytes) in [(14, 3), (u64::MAX, 1)] {
        let end = device.upload(buffer, offset, &vec![0; bytes]);
        if !matches!(end, Err(DeviceError::Range { .. })) {
            return Err(format!("a copy outside the buffer gave {end:?}"));
        }
    }
    Ok(())
}

fn saxpy(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let x = floats(&mut *device, &[1.0, 2.0, 3.0, 4.0, 5.0])?;
    let y = floats(&mut *device, &[10.0; 5])?;
    let args = [bytes(2.0f32.to_bits().into(), 4), pointer(x), pointer(y), bytes(5, 4)];
    completed(launch(&mut *device, "saxpy", [2, 1, 1], [4, 1, 1], 0, &args)?)?;
    equal(&read(&*device, y, 5)?, &[12.0, 14.0, 16.0, 18.0, 20.0])
}

fn block_sum(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let values: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let x = floats(&mut *device, &values)?;
    let y = floats(&mut *device, &[0.0; 2])?;
    let args = [pointer(x), pointer(y)];
    completed(launch(&mut *device, "block_sum", [2, 1, 1], [64, 1, 1], 256, &args)?)?;
    equal(&read(&*device, y, 2)?, &[2016.0, 6112.0])
}

fn far_read(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let x = floats(&mut *device, &[0.0; 8])?;
    let args = [pointer(x), pointer(x)];
    let end = launch(&mut *device, "far_read", [1, 1, 1], [1, 1, 1], 0, &args)?;
    match end {
        LaunchEnd::Faulted { fault: Fault::OutOfBounds, .. } => Ok(()),
        other => Err(format!("a read far outside gave {other:?}")),
    }
}

fn illegal_launches(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = floats(&mut *device, &[0.0; 8])?;
    for (grid, block, shared_bytes) in
        [([1, 1, 1], [2048, 1, 1], 0), ([1, 1, 1], [1, 1, 1], 1 << 20), ([0, 1, 1], [1, 1, 1], 0)]
    {
        match launch(&mut *device, "count", grid, block, shared_bytes, &[pointer(y)])? {
            LaunchEnd::Refused(_) => {}
            other => return Err(format!("{grid:?} {block:?} {shared_bytes} gave {other:?}")),
        }
    }
    equal(&read(&*device, y, 1)?, &[0.0])
}

fn fresh_variables(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    let y = floats(&mut *device, &[0.0])?;
    for _ in 0..2 {
        load(&mut *device, image)?;
        for expected in [41u32, 42] {
            let end = launch(&mut *device, "count", [1, 1, 1], [1, 1, 1], 0, &[pointer(y)])?;
            completed(end)?;
            equal(&[read(&*device, y, 1)?[0].to_bits()], &[expected])?;
        }
    }
    Ok(())
}

fn order_of_calls(mut device: Box<dyn Device>, _: &Image<'_>) -> Result<(), String> {
    let early = device.launch(&KernelLaunch {
        entry: "stop",
        grid: [1, 1, 1],
        block: [1, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: 0,
        cooperative: false,
        pdl: false,
        args: &[],
        shared_poison: 0,
        reversed: false,
        sampled_blocks: None,
    });
    if !matches!(early, Err(DeviceError::NotLoaded)) {
        return Err(format!("a launch before loading gave {early:?}"));
    }
    Ok(())
}

fn misaligned(device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    crashes(device, image, "misaligned")
}

fn trap(device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    crashes(device, image, "stop")
}

fn crashes(mut device: Box<dyn Device>, image: &Image<'_>, entry: &str) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = floats(&mut *device, &[0.0; 8])?;
    match launch(&mut *device, entry, [1, 1, 1], [1, 1, 1], 0, &[pointer(y)])? {
        LaunchEnd::Faulted { fault: Fault::Crash, .. } => Ok(()),
        other => Err(format!("it gave {other:?}")),
    }
}

fn load(device: &mut dyn Device, image: &Image<'_>) -> Result<(), String> {
    match ok(device.load(image, &ENTRIES))? {
        LoadEnd::Loaded => Ok(()),
        LoadEnd::Unsupported { what, .. } => Err(format!("the module is not supported: {what}")),
    }
}

fn launch(
    device: &mut dyn Device,
    entry: &str,
    grid: [u32; 3],
    block: [u32; 3],
    shared_bytes: u32,
    args: &[Vec<u8>],
) -> Result<LaunchEnd, String> {
    let launched = device.launch(&KernelLaunch {
        entry,
        grid,
        block,
        cluster: [1, 1, 1],
        shared_bytes,
        cooperative: false,
        pdl: false,
        args,
        shared_poison: 0xff,
        reversed: false,
        sampled_blocks: None,
    });
    ok(launched).map(|launched| launched.end)
}

fn completed(end: LaunchEnd) -> Result<(), String> {
    if end == LaunchEnd::Completed { Ok(()) } else { Err(format!("it ended as {end:?}")) }
}

fn allocate(device: &mut dyn Device, bytes: u64) -> Result<Buffer, String> {
    ok(device.allocate("buffer", bytes, Access::ReadWrite))
}

fn floats(device: &mut dyn Device, values: &[f32]) -> Result<Buffer, String> {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let buffer = allocate(device, bytes.len() as u64)?;
    ok(device.upload(buffer, 0, &bytes))?;
    Ok(buffer)
}

fn read(device: &dyn Device, buffer: Buffer, len: usize) -> Result<Vec<f32>, String> {
    let mut bytes = vec![0; 4 * len];
    ok(device.download(buffer, &mut bytes))?;
    let words = bytes.chunks_exact(4);
    Ok(words.map(|word| f32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

fn pointer(buffer: Buffer) -> Vec<u8> {
    bytes(buffer.address, 8)
}

fn bytes(value: u64, width: usize) -> Vec<u8> {
    value.to_le_bytes()[..width].to_vec()
}

fn ok<T>(result: Result<T, DeviceError>) -> Result<T, String> {
    result.map_err(|error| error.to_string())
}

fn equal<T: PartialEq + std::fmt::Debug>(got: &[T], want: &[T]) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("got {got:?}, want {want:?}")) }
}
