//! The suite that every device must pass: the same kernels, the same ends, the same bytes.
//!
//! A device gets compiled images and answers; what it must answer is here. Ends that only a
//! simulator can tell (a write to a read-only buffer, a budget) are tested beside it. A fault can
//! spoil a device for its whole process, so each test can run alone: [`TESTS`] and [`run`].

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
extern "C" __global__ void far_read(const float* x, float* y) { y[0] = x[1 << 19]; }
extern "C" __global__ void stop(float* y) { y[0] = 1.0f; __trap(); }
extern "C" __global__ void misaligned(float* y) {
    *reinterpret_cast<float4*>(y + 1) = make_float4(1, 2, 3, 4);
}
__device__ int calls = 40;
extern "C" __global__ void count(int* y) { y[0] = ++calls; }
extern "C" __global__ void append(int* y, int digit) { y[0] = 10 * y[0] + digit; }
extern "C" __global__ void reverse_shared(int* y, int n) {
    extern __shared__ int words[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) words[n - 1 - i] = i;
    __syncthreads();
    if (threadIdx.x == 0) { y[0] = words[0]; y[1] = words[n - 1]; y[2] = words[n / 4]; }
}
extern "C" __global__ void meet(int* arrived, int* y) {
    if (threadIdx.x != 0) return;
    y[blockIdx.x] = blockIdx.x + 1;
    __threadfence();
    atomicAdd(arrived, 1);
    while (*(volatile int*)arrived < gridDim.x) {}
    __threadfence();
    y[gridDim.x + blockIdx.x] = *(volatile int*)(y + (blockIdx.x + 1) % gridDim.x);
}
extern "C" __global__ void widths(signed char a, short b, int c, long long d, float e, double f,
                                  double* y) {
    y[0] = a; y[1] = b; y[2] = c; y[3] = (double)d; y[4] = e; y[5] = f;
}
struct Words { int word[16]; };
extern "C" __global__ void structure(Words words, int* y) {
    int sum = 0;
    for (int i = 0; i < 16; ++i) sum = 3 * sum + words.word[i];
    y[0] = sum;
}
"#;

/// Entries of [`SOURCE`].
pub const ENTRIES: [&str; 11] = [
    "saxpy",
    "block_sum",
    "far_read",
    "stop",
    "misaligned",
    "count",
    "append",
    "reverse_shared",
    "meet",
    "widths",
    "structure",
];

const SUITE: [(&str, Test); 15] = [
    ("copies", copies),
    ("saxpy", saxpy),
    ("shared memory", block_sum),
    ("much shared memory", much_shared_memory),
    ("co-operative launch", meet),
    ("argument widths", argument_widths),
    ("structure by value", structure_by_value),
    ("order of launches", order_of_launches),
    ("wrong arguments", wrong_arguments),
    ("illegal launches", illegal_launches),
    ("fresh variables", fresh_variables),
    ("order of calls", order_of_calls),
    ("far read", far_read),
    ("misaligned store", misaligned),
    ("trap", trap),
];

/// Names of the tests; those that fault are last.
pub const TESTS: [&str; SUITE.len()] = {
    let mut names = [""; SUITE.len()];
    let mut index = 0;
    while index < names.len() {
        names[index] = SUITE[index].0;
        index += 1;
    }
    names
};

/// Runs one test on a fresh device.
///
/// # Errors
/// What went wrong, or that there is no such test.
pub fn run(name: &str, image: &Image<'_>, device: Box<dyn Device>) -> Result<(), String> {
    match SUITE.iter().find(|(known, _)| *known == name) {
        Some((_, test)) => test(device, image),
        None => Err("there is no such test".to_owned()),
    }
}

/// Runs the suite on devices that `make` gives, and returns what went wrong, one line each.
pub fn failures(
    image: &Image<'_>,
    make: &mut dyn FnMut() -> Result<Box<dyn Device>, DeviceError>,
) -> Vec<String> {
    let run = |name: &&str| {
        let result =
            make().map_err(|error| error.to_string()).and_then(|device| run(name, image, device));
        result.err().map(|why| format!("{name}: {why}"))
    };
    TESTS.iter().filter_map(run).collect()
}

type Test = fn(Box<dyn Device>, &Image<'_>) -> Result<(), String>;

fn copies(mut device: Box<dyn Device>, _: &Image<'_>) -> Result<(), String> {
    let buffer = allocate(&mut *device, 16)?;
    ok(device.fill(buffer, 7))?;
    ok(device.upload(buffer, 4, &[1, 2, 3]))?;
    let mut bytes = [0; 16];
    ok(device.download(buffer, &mut bytes))?;
    equal(&bytes[..8], &[7, 7, 7, 7, 1, 2, 3, 7])?;
    ok(device.download_part(buffer, 5, &mut bytes[..3]))?;
    equal(&bytes[..4], &[2, 3, 7, 7])?;
    for (offset, bytes) in [(14, 3), (u64::MAX, 1)] {
        let out = device.download_part(buffer, offset, &mut vec![0; bytes]);
        for end in [device.upload(buffer, offset, &vec![0; bytes]), out] {
            if !matches!(end, Err(DeviceError::Range { .. })) {
                return Err(format!("a copy outside the buffer gave {end:?}"));
            }
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

fn much_shared_memory(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = floats(&mut *device, &[0.0; 3])?;
    let words = 25 << 10;
    let args = [pointer(y), bytes(words, 4)];
    let end =
        launch(&mut *device, "reverse_shared", [2, 1, 1], [64, 1, 1], 4 * words as u32, &args)?;
    completed(end)?;
    equal(&integers(&*device, y, 3)?, &[25_599, 0, 19_199])
}

/// Blocks that wait for each other: only a co-operative launch may do that.
fn meet(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let arrived = floats(&mut *device, &[0.0])?;
    let y = floats(&mut *device, &[0.0; 8])?;
    let args = [pointer(arrived), pointer(y)];
    let shape = KernelLaunch { cooperative: true, ..shape("meet", [4, 1, 1], [32, 1, 1], &args) };
    completed(ok(device.launch(&shape))?.end)?;
    equal(&integers(&*device, y, 8)?, &[1, 2, 3, 4, 2, 3, 4, 1])
}

fn argument_widths(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = allocate(&mut *device, 48)?;
    let args = [
        bytes(-5i64 as u64, 1),
        bytes(-300i64 as u64, 2),
        bytes(-70_000i64 as u64, 4),
        bytes(-(1i64 << 40) as u64, 8),
        bytes(0.5f32.to_bits().into(), 4),
        bytes(0.25f64.to_bits(), 8),
        pointer(y),
    ];
    completed(launch(&mut *device, "widths", [1, 1, 1], [1, 1, 1], 0, &args)?)?;
    let mut out = [0; 48];
    ok(device.download(y, &mut out))?;
    let expected = [-5.0, -300.0, -70_000.0, -(2f64.powi(40)), 0.5, 0.25];
    equal(&out, expected.map(f64::to_le_bytes).as_flattened())
}

fn structure_by_value(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = floats(&mut *device, &[0.0])?;
    let words: Vec<u8> = (1..=16i32).flat_map(i32::to_le_bytes).collect();
    let args = [words, pointer(y)];
    completed(launch(&mut *device, "structure", [1, 1, 1], [1, 1, 1], 0, &args)?)?;
    equal(&integers(&*device, y, 1)?, &[(1..=16).fold(0, |sum, word| 3 * sum + word)])
}

fn order_of_launches(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = floats(&mut *device, &[0.0])?;
    for digit in 1..=5 {
        let args = [pointer(y), bytes(digit, 4)];
        completed(launch(&mut *device, "append", [1, 1, 1], [1, 1, 1], 0, &args)?)?;
    }
    equal(&integers(&*device, y, 1)?, &[12_345])
}

fn wrong_arguments(mut device: Box<dyn Device>, image: &Image<'_>) -> Result<(), String> {
    load(&mut *device, image)?;
    let y = floats(&mut *device, &[0.0])?;
    let wrong = [vec![], vec![bytes(y.address, 4)], vec![pointer(y), bytes(0, 4)]];
    for args in wrong {
        match launch(&mut *device, "count", [1, 1, 1], [1, 1, 1], 0, &args)? {
            LaunchEnd::Refused(_) => {}
            other => return Err(format!("arguments {args:?} gave {other:?}")),
        }
    }
    equal(&integers(&*device, y, 1)?, &[0])
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
    let early = device.launch(&shape("stop", [1, 1, 1], [1, 1, 1], &[]));
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
    let launch = KernelLaunch { shared_bytes, ..shape(entry, grid, block, args) };
    ok(device.launch(&launch)).map(|launched| launched.end)
}

fn shape<'a>(
    entry: &'a str,
    grid: [u32; 3],
    block: [u32; 3],
    args: &'a [Vec<u8>],
) -> KernelLaunch<'a> {
    KernelLaunch {
        entry,
        grid,
        block,
        cluster: [1, 1, 1],
        shared_bytes: 0,
        cooperative: false,
        pdl: false,
        args,
        shared_poison: 0xff,
        reversed: false,
        sampled_blocks: None,
    }
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

fn integers(device: &dyn Device, buffer: Buffer, len: usize) -> Result<Vec<i32>, String> {
    let words = read(device, buffer, len)?;
    Ok(words.into_iter().map(|word| word.to_bits() as i32).collect())
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
