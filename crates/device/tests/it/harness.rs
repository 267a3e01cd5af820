//! The harness's kernels, run on the simulator: what they compute must be what the host computes.

use device::content_hash::hash_bytes;
use device::cuda::{HARNESS_ENTRIES, HARNESS_SOURCE};
use device::execute::{Access, Buffer, Device, Image, KernelLaunch, LaunchEnd, LoadEnd};
use device::sim::SimDevice;

use crate::compile;

const BUDGET: u64 = 100_000_000;
/// The simulator knows no clocks; all entries but the gate and the clock's yardstick run on it.
const SIMULATED: [&str; 7] =
    ["ww_empty", "ww_write", "ww_read", "ww_copy", "ww_hash", "ww_scan", "ww_scrub"];

struct Bench {
    device: SimDevice,
}

impl Bench {
    fn new() -> Bench {
        let compiled = compile(HARNESS_SOURCE, &HARNESS_ENTRIES);
        let output = compiled.output.unwrap_or_else(|| panic!("{}", compiled.log));
        let image = Image { ptx: &output.ptx, cubin: &output.cubin };
        let mut device = SimDevice::new("sm_90a", BUDGET).unwrap();
        assert_eq!(device.load(&image, &SIMULATED).unwrap(), LoadEnd::Loaded);
        Bench { device }
    }

    fn buffer(&mut self, bytes: &[u8]) -> Buffer {
        let buffer = self.device.allocate("buffer", bytes.len() as u64, Access::ReadWrite).unwrap();
        self.device.upload(buffer, 0, bytes).unwrap();
        buffer
    }

    fn launch(&mut self, entry: &str, blocks: u32, threads: u32, shared: u32, args: &[Vec<u8>]) {
        let launched = self.device.launch(&KernelLaunch {
            entry,
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: [1, 1, 1],
            shared_bytes: shared,
            cooperative: false,
            pdl: false,
            args,
            shared_poison: 0xff,
            reversed: false,
            sampled_blocks: None,
        });
        assert_eq!(launched.unwrap().end, LaunchEnd::Completed, "{entry}");
    }

    fn bytes(&self, buffer: Buffer) -> Vec<u8> {
        let mut bytes = vec![0; buffer.bytes as usize];
        self.device.download(buffer, &mut bytes).unwrap();
        bytes
    }
}

fn long(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn word(value: u32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// Bytes that differ from place to place.
fn noise(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn the_hash_is_the_same_on_both_sides() {
    let mut bench = Bench::new();
    let key = [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210];
    for len in (0..=100).chain([(1 << 20) + 3]) {
        let bytes = noise(len);
        let from = bench.buffer(&bytes);
        let sums = bench.buffer(&[0; 16]);
        let args =
            [long(from.address), long(len as u64), long(key[0]), long(key[1]), long(sums.address)];
        let blocks = if len > 100 { 7 } else { 1 + len as u32 % 3 };
        bench.launch("ww_hash", blocks, 256, 0, &args);
        assert_eq!(words(&bench.bytes(sums)), hash_bytes(key, &bytes), "{len} bytes");
    }
}

#[test]
fn memory_kernels_touch_every_quad_once() {
    let mut bench = Bench::new();
    for (quads, blocks) in [(1u64, 1), (1023, 1), (1024, 2), (1025, 2), (5000, 3)] {
        let source = noise(16 * quads as usize);
        let from = bench.buffer(&source);
        let to = bench.buffer(&vec![0; source.len()]);
        let args = [long(to.address), long(from.address), long(quads)];
        bench.launch("ww_copy", blocks, 256, 0, &args);
        assert_eq!(bench.bytes(to), source, "{quads} quads");
        let args = [long(to.address), long(quads), word(0x0403_0201)];
        bench.launch("ww_write", blocks, 256, 0, &args);
        assert!(bench.bytes(to).chunks(4).all(|word| word == [1, 2, 3, 4]), "{quads} quads");
    }
}

#[test]
fn reading_sums_every_quad_of_every_pass() {
    let mut bench = Bench::new();
    let mut source = vec![0; 16 * 1500];
    source[16 * 1499] = 7;
    let from = bench.buffer(&source);
    // The thread of the last quad reads another one, and adds the pass for each.
    let sum = 2 * 7 + 2;
    for (never, expected) in [(sum, sum), (99, 0)] {
        let sink = bench.buffer(&[0; 4]);
        let args = [long(from.address), long(1500), word(2), word(never), long(sink.address)];
        bench.launch("ww_read", 3, 256, 0, &args);
        let found = u32::from_le_bytes(bench.bytes(sink).try_into().unwrap());
        assert_eq!(found, expected);
    }
}

#[test]
fn the_scan_counts_words() {
    let mut bench = Bench::new();
    let pattern = 0x7761_7270u32;
    let source: Vec<u8> =
        (0..1000u32).flat_map(|i| if i % 3 == 0 { pattern } else { i }.to_le_bytes()).collect();
    let from = bench.buffer(&source);
    let count = bench.buffer(&[0; 8]);
    let args = [long(from.address), long(1000), word(pattern), long(count.address)];
    bench.launch("ww_scan", 2, 256, 0, &args);
    assert_eq!(words(&bench.bytes(count)), [334]);
}

#[test]
fn the_scrub_fills_all_the_shared_memory_it_is_given() {
    let mut bench = Bench::new();
    let sink = bench.buffer(&[0; 4]);
    let shared = 227 << 10;
    let args = [word(0xa5a5_a5a5), word(shared / 4), long(sink.address)];
    bench.launch("ww_scrub", 2, 1024, shared, &args);
    assert_eq!(bench.bytes(sink), [0; 4]);
    bench.launch("ww_empty", 1, 1, 0, &[]);
}
