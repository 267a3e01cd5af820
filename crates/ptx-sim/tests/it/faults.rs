//! Wrong kernels: each must trap with the right kind, place and words.

use crate::fixtures::{Bench, variants};
use ptx_sim::{FindingKind, Outcome, TrapKind};

fn bench(kernel: &str, threads: u32) -> Bench {
    Bench::new(variants("faults").next().unwrap(), kernel, [1, 1, 1], [threads, 1, 1])
}

#[test]
fn one_past_the_end_reads_padding_and_traps_on_the_write() {
    let mut bench = bench("past_end", 128);
    bench.input("x", &[1_f32; 100]);
    bench.buffer("y", &[0_f32; 100]);
    bench.scalar(100_i32);
    let report = bench.run();
    let Outcome::Trapped(trap) = report.outcome else { panic!("no trap") };
    assert_eq!(trap.kind, TrapKind::PaddingWrite);
    assert_eq!(trap.site.buffer.as_deref(), Some("y"));
    assert_eq!(trap.site.offset, Some(400));
    assert_eq!((trap.site.warp, trap.site.lanes), (3, 1 << 4));
    assert_eq!(trap.site.size, 4);
    let source = trap.site.source.unwrap();
    assert!(source.file.ends_with("faults.cu") && source.line == 2, "{source}");
    assert!(trap.message.contains("0 bytes past the end of `y`"), "{}", trap.message);
    assert_eq!(report.findings.len(), 1);
    assert_eq!(report.findings[0].kind, FindingKind::PaddingRead);
    assert_eq!(report.findings[0].site.buffer.as_deref(), Some("x"));
}

#[test]
fn far_accesses_are_attributed_to_their_buffer() {
    for (at, offset) in [(1_i64 << 20, 4 << 20), (-3, -12)] {
        let mut bench = bench("far_read", 2);
        bench.input("x", &[1_f32; 64]);
        bench.buffer("y", &[0_f32; 64]);
        bench.scalar(at);
        let trap = bench.trap();
        assert_eq!(trap.kind, TrapKind::OutOfBounds);
        assert_eq!(trap.site.buffer.as_deref(), Some("x"));
        assert_eq!(trap.site.offset, Some(offset));
    }
}

#[test]
fn simple_faults() {
    let mut b = bench("misaligned", 1);
    b.input("x", &[0_u8; 64]);
    b.buffer("y", &[0_f32; 4]);
    let trap = b.trap();
    assert_eq!((trap.kind, trap.site.size), (TrapKind::Misaligned, 16));

    let mut b = bench("write_input", 4);
    b.input("x", &[0_f32; 4]);
    let trap = b.trap();
    assert_eq!((trap.kind, trap.site.lanes), (TrapKind::ReadOnlyWrite, 0xf));

    let mut b = bench("null_read", 1);
    b.scalar(0_u64);
    b.buffer("y", &[0_f32; 4]);
    let trap = b.trap();
    assert_eq!(trap.kind, TrapKind::Unallocated);
    assert!(trap.message.contains("null"), "{}", trap.message);

    let mut b = bench("traps", 32);
    let x: Vec<i32> = (0..32).collect();
    b.input("x", &x);
    let trap = b.trap();
    assert_eq!((trap.kind, trap.site.lanes), (TrapKind::TrapInstruction, 1 << 7));
}

#[test]
fn an_endless_loop_ends_with_the_budget() {
    let mut b = bench("endless", 32);
    b.budget = 10_000;
    b.buffer("x", &[0_i32]);
    let report = b.run();
    assert!(matches!(report.outcome, Outcome::Trapped(t) if t.kind == TrapKind::Budget));
    assert_eq!(report.warp_instructions_left, 0);
}

#[test]
fn barriers_that_cannot_complete() {
    let mut b = bench("lost_warp", 96);
    b.buffer("x", &[0_f32]);
    let trap = b.trap();
    assert_eq!(trap.kind, TrapKind::Deadlock);
    assert!(trap.message.contains("barrier 1"), "{}", trap.message);

    let mut b = bench("wait_elsewhere", 32);
    b.buffer("x", &[0_i32]);
    let trap = b.trap();
    assert_eq!(trap.kind, TrapKind::Collective);
    assert!(trap.message.contains("lanes 8-31"), "{}", trap.message);
}

#[test]
fn a_divergent_barrier_goes_on_with_a_finding() {
    let mut b = bench("divergent_barrier", 64);
    b.buffer("x", &[3_f32; 64]);
    let report = b.complete();
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::DivergentBarrier));
}

#[test]
fn shuffles_with_lanes_missing() {
    let mut b = bench("bad_shuffle", 32);
    b.budget = 100_000;
    b.buffer("x", &[0_i32; 64]);
    assert_eq!(b.trap().kind, TrapKind::Budget);

    let mut b = bench("half_shuffle", 32);
    b.buffer("x", &[0_i32; 32]);
    let report = b.complete();
    assert!(report.findings.iter().any(|f| f.kind == FindingKind::ShuffleFromInactiveLane));
}

#[test]
fn shared_memory_overrun() {
    let mut b = bench("shared_overrun", 32);
    b.buffer("y", &[0_f32; 32]);
    b.scalar(1_i32);
    let trap = b.trap();
    assert_eq!(trap.kind, TrapKind::OutOfBounds);
    assert_eq!(trap.site.lanes, 1 << 31);
}

#[test]
fn deep_recursion_overflows_the_stack() {
    let mut b = bench("deep", 1);
    b.buffer("x", &[0_i32; 64]);
    b.scalar(100_000_i32);
    assert_eq!(b.trap().kind, TrapKind::StackOverflow);
}

#[test]
fn illegal_launches_are_refused() {
    let refused = |b: &mut Bench| match b.run().outcome {
        Outcome::Refused(reason) => reason,
        other => panic!("{other:?}"),
    };
    let mut b = bench("traps", 32);
    assert!(refused(&mut b).contains("1 parameters"));
    b.scalar(0_u32);
    assert!(refused(&mut b).contains("8 bytes"));
    let mut b = bench("traps", 1025);
    b.scalar(0_u64);
    assert!(refused(&mut b).contains("1024"));
    let mut b = bench("traps", 32);
    b.scalar(0_u64);
    b.shared_bytes = 228 << 10;
    assert!(refused(&mut b).contains("shared memory"));
    b.shared_bytes = 0;
    b.grid = [0, 1, 1];
    assert!(refused(&mut b).contains("grid.x"));
}
