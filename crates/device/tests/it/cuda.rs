//! A GPU, where there is one: the conformance suite and the harness. Elsewhere these tests say that
//! they were skipped.
//!
//! A fault spoils the context of its process, so each conformance test runs in a process of its
//! own: this very binary, told by [`TEST_VARIABLE`] which one.

use std::process::Command;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use device::content_hash::hash_bytes;
use device::cuda::{
    Context, CudaDevice, HARNESS_ENTRIES, HARNESS_SOURCE, Placement, Timer, health, leave_pattern,
    list, measure, scan_for_pattern, state,
};
use device::execute::conformance::{ENTRIES, SOURCE, TESTS, run};
use device::execute::{
    Access, Breach, Device, Fault, Image, KernelLaunch, LaunchEnd, LoadEnd, TensorMap,
    TensorMapElement, TensorMapEnd, TensorSwizzle,
};

use crate::compile_for;

const TEST_VARIABLE: &str = "WARPWRIGHT_CONFORMANCE_TEST";
const HANG: &str = "a kernel without an end";
const HANG_SEEN: &str = "the hang was seen";
const DEADLINE: Duration = Duration::from_secs(5);

/// One test has the GPU at a time: what one does in the driver would hold up another's gate.
fn context() -> Option<(Rc<Context>, MutexGuard<'static, ()>)> {
    static GPU: Mutex<()> = Mutex::new(());
    match list() {
        Ok(_) => {
            let guard = GPU.lock().unwrap_or_else(PoisonError::into_inner);
            Some((Context::open(0).unwrap(), guard))
        }
        Err(why) => {
            eprintln!("skipped: {why}");
            None
        }
    }
}

struct Code {
    ptx: String,
    cubin: Vec<u8>,
}

fn code(context: &Context, source: &str, names: &[&str]) -> Code {
    let compiled = compile_for(&context.info().arch, source, names, &[]);
    let output = compiled.output.unwrap_or_else(|| panic!("{}", compiled.log));
    Code { ptx: output.ptx, cubin: output.cubin }
}

impl Code {
    fn image(&self) -> Image<'_> {
        Image { ptx: &self.ptx, cubin: &self.cubin }
    }
}

#[test]
fn the_gpu_conforms() {
    let Some((_, _gpu)) = context() else { return };
    let program = std::env::current_exe().unwrap();
    for name in TESTS.iter().chain(&[HANG]) {
        let output = Command::new(&program)
            .args(["--exact", "cuda::one_test_of_a_process", "--nocapture"])
            .env(TEST_VARIABLE, name)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        let passed = output.status.success() || (*name == HANG && text.contains(HANG_SEEN));
        assert!(passed, "{name}: {text}");
    }
}

#[test]
fn one_test_of_a_process() {
    let Ok(name) = std::env::var(TEST_VARIABLE) else { return };
    let (context, _gpu) = context().unwrap();
    if name == HANG {
        return hang(&context);
    }
    let code = code(&context, SOURCE, &ENTRIES);
    for placement in [Placement::Lower, Placement::Upper] {
        let device = CudaDevice::new(&context, DEADLINE, placement).unwrap();
        run(&name, &code.image(), Box::new(device)).unwrap();
        if TESTS.iter().rev().take(3).any(|faulting| *faulting == name) {
            break;
        }
    }
}

/// Ends the process at once: after a hang the driver waits at an orderly end.
fn hang(context: &Rc<Context>) {
    let source = "extern \"C\" __global__ void kernel(volatile int* y) { while (y[0] == 0) {} }";
    let code = code(context, source, &["kernel"]);
    let deadline = Duration::from_millis(300);
    let mut device = CudaDevice::new(context, deadline, Placement::Lower).unwrap();
    device.load(&code.image(), &["kernel"]).unwrap();
    let y = device.allocate("y", 4, Access::ReadWrite).unwrap();
    device.fill(y, 0).unwrap();
    let args = [y.address.to_le_bytes().to_vec()];
    let end = device.launch(&launch("kernel", 1, &args)).unwrap().end;
    let hung = matches!(end, LaunchEnd::Faulted { fault: Fault::Hang, .. });
    assert!(hung, "{end:?}");
    drop(device);
    eprintln!("{HANG_SEEN}");
    Command::new("kill").args(["-9", &std::process::id().to_string()]).status().unwrap();
}

fn launch<'a>(entry: &'a str, threads: u32, args: &'a [Vec<u8>]) -> KernelLaunch<'a> {
    KernelLaunch {
        entry,
        grid: [1, 1, 1],
        block: [threads, 1, 1],
        cluster: [1, 1, 1],
        shared_bytes: 0,
        cooperative: false,
        pdl: false,
        args,
        shared_poison: 0,
        reversed: false,
        sampled_blocks: None,
    }
}

#[test]
fn writes_around_a_buffer_are_found() {
    let Some((context, _gpu)) = context() else { return };
    let source = "extern \"C\" __global__ void kernel(char* y) { y[100] = 1; y[101] = 2; }";
    let code = code(&context, source, &["kernel"]);
    for placement in [Placement::Lower, Placement::Upper] {
        let mut device = CudaDevice::new(&context, DEADLINE, placement).unwrap();
        assert_eq!(device.load(&code.image(), &["kernel"]).unwrap(), LoadEnd::Loaded);
        let y = device.allocate("y", 100, Access::ReadWrite).unwrap();
        assert_eq!(device.breaches().unwrap(), []);
        let args = [y.address.to_le_bytes().to_vec()];
        let end = device.launch(&launch("kernel", 1, &args)).unwrap().end;
        assert_eq!(end, LaunchEnd::Completed);
        let breach = Breach { buffer: "y".to_owned(), offset: 100, bytes: 2 };
        assert_eq!(device.breaches().unwrap(), [breach]);
    }
}

#[test]
fn the_timer_times_and_hashes() {
    let Some((context, _gpu)) = context() else { return };
    let harness = code(&context, HARNESS_SOURCE, &HARNESS_ENTRIES);
    let mut device = CudaDevice::new(&context, DEADLINE, Placement::Upper).unwrap();
    let mut timer = Timer::new(&mut device, &context, &harness.cubin).unwrap();
    let bytes: Vec<u8> = (0..100_003u32).map(|i| (i * 7) as u8).collect();
    let from = device.allocate("from", bytes.len() as u64, Access::ReadWrite).unwrap();
    let to = device.allocate("to", bytes.len() as u64, Access::ReadWrite).unwrap();
    device.upload(from, 0, &bytes).unwrap();
    timer.spin_clock(&mut device, 50).unwrap();
    timer.flush(&mut device).unwrap();
    timer.scrub_shared(&mut device, 0xa5).unwrap();
    timer.close_gate(&mut device).unwrap();
    timer.start(&mut device).unwrap();
    device.copy_async(to, from).unwrap();
    timer.stop(&mut device).unwrap();
    for buffer in [from, to] {
        timer.hash(&mut device, buffer, buffer.bytes, [3, 5]).unwrap();
    }
    timer.open_gate().unwrap();
    assert_eq!(device.synchronise().unwrap(), LaunchEnd::Completed);
    assert_eq!(timer.hashes().unwrap(), [hash_bytes([3, 5], &bytes); 2]);
    assert_eq!(timer.hashes().unwrap(), Vec::<[u64; 2]>::new());
    let sample = timer.sample().unwrap();
    eprintln!("{sample:?}, pair {} ns", timer.event_overhead_ns(&mut device, 51, true).unwrap());
    assert!(!sample.gate_timed_out && sample.elapsed_ns > 0);
    assert!((0.3e9..4e9).contains(&sample.sm_clock_hz), "{sample:?}");
    timer.close_gate(&mut device).unwrap();
    assert_eq!(device.synchronise().unwrap(), LaunchEnd::Completed);
    timer.start(&mut device).unwrap();
    timer.stop(&mut device).unwrap();
    device.synchronise().unwrap();
    assert!(timer.sample().unwrap().gate_timed_out);
}

#[test]
fn the_gpu_is_described_and_healthy() {
    let Some((context, _gpu)) = context() else { return };
    let harness = code(&context, HARNESS_SOURCE, &HARNESS_ENTRIES);
    eprintln!("{:?}\n{:?}", context.info(), state(&context.info().uuid));
    health(&context, &harness.cubin).unwrap();
    let ceilings = measure(&context, &harness.cubin).unwrap();
    eprintln!("{ceilings:#?}");
    assert!(ceilings.copy_bytes_per_s.median > 1e10);
    assert!(ceilings.l2_read_bytes_per_s.median > ceilings.read_bytes_per_s.median);
    assert_eq!(scan_for_pattern(&context, 256 << 20, &harness.cubin).unwrap(), 0);
    let free = context.free_bytes().unwrap();
    let covered = leave_pattern(&context, u64::MAX).unwrap();
    eprintln!("the pattern covered {covered} of {free} free bytes");
    assert!(covered >= free / 2 - (1 << 30) && covered <= free);
}

#[test]
fn tensor_maps_are_encoded_or_refused() {
    let Some((context, _gpu)) = context() else { return };
    let mut device = CudaDevice::new(&context, DEADLINE, Placement::Upper).unwrap();
    let buffer = device.allocate("x", 64 * 256, Access::ReadOnly).unwrap();
    let map = TensorMap {
        buffer,
        element: TensorMapElement::F32,
        dims: &[64, 64],
        strides: &[256],
        box_dims: &[32, 16],
        swizzle: TensorSwizzle::B128,
        oob_nan: false,
    };
    match device.encode_tensor_map(&map).unwrap() {
        TensorMapEnd::Encoded(bytes) => assert!(bytes.iter().any(|byte| *byte != 0)),
        TensorMapEnd::Unsupported(_) => assert!(context.info().compute.0 < 9),
        TensorMapEnd::Refused(why) => panic!("{why}"),
    }
}
