//! The simulator as a device: the conformance suite, what only it can tell, and the reference's
//! helpers.

use device::execute::conformance::{ENTRIES, SOURCE, failures};
use device::execute::{Access, Device, Fault, Image, KernelLaunch, LaunchEnd, Launched, LoadEnd};
use device::sim::SimDevice;

use crate::compile;

const BUDGET: u64 = 1_000_000;

struct Module {
    ptx: String,
    cubin: Vec<u8>,
}

fn module(source: &str, names: &[&str]) -> Module {
    let compiled = compile(source, names);
    let image = compiled.output.unwrap_or_else(|| panic!("{}", compiled.log));
    Module { ptx: image.ptx, cubin: image.cubin }
}

impl Module {
    fn image(&self) -> Image<'_> {
        Image { ptx: &self.ptx, cubin: &self.cubin }
    }
}

#[test]
fn the_simulator_conforms() {
    let module = module(SOURCE, &ENTRIES);
    let found = failures(&module.image(), &mut || Ok(Box::new(SimDevice::new("sm_90a", BUDGET)?)));
    assert_eq!(found, Vec::<String>::new());
}

/// Runs `kernel(float* y)` with one thread a block on a buffer of 64 floats.
fn run(source: &str, access: Access, grid: u32, sampled: Option<&[u64]>) -> (Launched, Vec<u8>) {
    let module = module(source, &["kernel"]);
    let mut device = SimDevice::new("sm_90a", BUDGET).unwrap();
    assert_eq!(device.load(&module.image(), &["kernel"]).unwrap(), LoadEnd::Loaded);
    let y = device.allocate("y", 256, access).unwrap();
    device.fill(y, 0).unwrap();
    let launched = device
        .launch(&KernelLaunch {
            entry: "kernel",
            grid: [grid, 1, 1],
            block: [1, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: 0,
            cooperative: false,
            pdl: false,
            args: &[y.address.to_le_bytes().to_vec()],
            shared_poison: 0xff,
            reversed: false,
            sampled_blocks: sampled,
        })
        .unwrap();
    let mut bytes = vec![0; 256];
    device.download(y, &mut bytes).unwrap();
    (launched, bytes)
}

#[test]
fn only_a_simulator_can_tell() {
    let write = "extern \"C\" __global__ void kernel(float* y) { y[blockIdx.x] = 1.0f; }";
    let endless = "extern \"C\" __global__ void kernel(volatile float* y) { while (y[0] == 0) {} }";
    let shared = "extern \"C\" __global__ void kernel(unsigned* y) {
        __shared__ volatile unsigned word; y[0] = word; }";
    let fault = |source, access| match run(source, access, 1, None).0.end {
        LaunchEnd::Faulted { fault, message, .. } => (fault, message),
        other => panic!("{other:?}"),
    };
    let (kind, message) = fault(write, Access::ReadOnly);
    assert_eq!(kind, Fault::ReadOnlyWrite);
    assert!(message.contains("`y`") && message.contains("kernel.cu:1"), "{message}");
    assert_eq!(fault(endless, Access::ReadWrite).0, Fault::Hang);
    let (launched, bytes) = run(shared, Access::ReadWrite, 1, None);
    assert_eq!(launched.end, LaunchEnd::Completed);
    assert_eq!(bytes[..4], [0xff; 4], "shared memory was not poisoned");
    let (sampled, bytes) = run(write, Access::ReadWrite, 8, Some(&[0, 7]));
    assert_eq!(sampled.counters.unwrap().blocks, 2);
    let written: Vec<_> = (0..8).filter(|i| bytes[4 * i + 3] != 0).collect();
    assert_eq!(written, [0, 7]);
}

#[test]
fn what_it_lacks_is_named() {
    let source = "extern \"C\" __global__ void kernel(float* y) {
        asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");
        y[0] = 1.0f;
    }";
    let module = module(source, &["kernel"]);
    let mut device = SimDevice::new("sm_90a", BUDGET).unwrap();
    match device.load(&module.image(), &["kernel"]).unwrap() {
        LoadEnd::Unsupported { what, .. } => {
            assert!(what.contains("wgmma.fence.sync.aligned"), "{what}")
        }
        LoadEnd::Loaded => panic!("wgmma was accepted"),
    }
}

#[test]
fn the_references_helpers_load_and_sum_exactly() {
    let source = "#include \"reference.cuh\"
    #include <cuda_fp16.h>
    #include <cuda_bf16.h>
    extern \"C\" __global__ void kernel(float* out) {
        double* y = reinterpret_cast<double*>(out);
        const float f[2] = {1.5f, -2.0f};
        const double d[2] = {0.1, 0.2};
        const __half h[2] = {__float2half(0.333251953125f), __float2half(-4.0f)};
        const __nv_bfloat16 b[1] = {__float2bfloat16(3.140625f)};
        const signed char c[1] = {-7};
        const long long l[1] = {1LL << 40};
        y[0] = ww_load(f, 1); y[1] = ww_load(d, 0); y[2] = ww_load(h, 0); y[3] = ww_load(b, 0);
        y[4] = ww_load(c, 0); y[5] = ww_load(l, 0);
        ww_sum sum;
        sum.add(1e16);
        for (int i = 0; i < 1000; ++i) sum.add(1.0);
        sum.add(-1e16);
        y[6] = sum.value();
        ww_sum equal;
        float plain = 0.0f;
        for (int i = 0; i < 60000; ++i) { equal.add(1.99609375); plain += 1.99609375f; }
        y[7] = fabs(plain - equal.value());
        y[8] = 4.0 * sqrt(60000.0) * equal.value() * 0x1p-24;
        y[9] = equal.path * 0x1p-24;
    }";
    let (launched, bytes) = run(source, Access::ReadWrite, 1, None);
    assert_eq!(launched.end, LaunchEnd::Completed);
    let value = |i: usize| f64::from_le_bytes(bytes[8 * i..8 * i + 8].try_into().unwrap());
    let values: Vec<f64> = (0..7).map(value).collect();
    assert_eq!(values, [-2.0, 0.1, 0.333251953125, 3.140625, -7.0, (1u64 << 40) as f64, 1000.0]);
    // What a plain fp32 sum of equal terms loses is more than random roundings would.
    let [lost, random, path] = [7, 8, 9].map(value);
    assert!(random < lost && lost <= path, "{random} {lost} {path}");
}
