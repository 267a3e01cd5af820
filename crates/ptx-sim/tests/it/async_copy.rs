//! `cp.async`: what has arrived when, what is read of a source, and what is refused.

use crate::fixtures::Bench;
use ptx_sim::{Outcome, Trap, TrapKind};

/// What shared memory holds before anything is written.
const OLD: u32 = u32::MAX;

/// A kernel of one thread: `%s` is 64 bytes of shared memory, `%in` and `%out` global, `%w` a word.
fn bench(body: &str, words: &[u32]) -> (Bench, u64) {
    let ptx = format!(
        ".version 9.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 in, \
         .param .u64 out) {{\n.shared .align 16 .b8 sh[64]; .reg .pred %p; .reg .b32 %s, %w, %n; \
         .reg .b64 %in, %out;\nld.param.u64 %in, [in]; ld.param.u64 %out, [out]; \
         mov.u32 %s, sh;\n{body}\nret; }}"
    );
    let mut bench = Bench::new(&ptx, "k", [1, 1, 1], [1, 1, 1]);
    bench.input("in", words);
    let out = bench.buffer("out", &[0_u32; 4]);
    (bench, out)
}

fn outputs(body: &str) -> Vec<u32> {
    let (mut bench, out) = bench(body, &[1, 2, 3, 4, 5, 6, 7, 8]);
    bench.complete();
    bench.read(out, 4)
}

/// Stores the word at a place of shared memory as an output.
fn show(from: u32, to: u32) -> String {
    format!("ld.shared.u32 %w, [%s+{from}]; st.global.u32 [%out+{}], %w;\n", 4 * to)
}

const COPY: &str = "cp.async.ca.shared.global [%s], [%in], 4;\n";
const COMMIT: &str = "cp.async.commit_group;\n";

#[test]
fn a_copy_arrives_when_it_is_waited_for_and_no_sooner() {
    let all = "cp.async.wait_all;\n";
    let none = "cp.async.wait_group 0;\n";
    let early = show(0, 0);
    let late = show(0, 1);
    for (body, want) in [
        (format!("{COPY}{COMMIT}{early}{none}{late}"), [OLD, 1, 0, 0]),
        (format!("{COPY}{early}{all}{late}"), [OLD, 1, 0, 0]),
        // What is in no group is not waited for by groups.
        (format!("{COPY}{none}{late}"), [0, OLD, 0, 0]),
        (format!("{COPY}{COMMIT}{late}"), [0, OLD, 0, 0]),
    ] {
        assert_eq!(outputs(&body), want, "{body}");
    }
}

#[test]
fn the_newest_groups_may_be_under_way() {
    let copy =
        |i: u32| format!("cp.async.ca.shared.global [%s+{0}], [%in+{0}], 4;\n{COMMIT}", 4 * i);
    let copies: String = (0..3).map(copy).collect();
    let shown: String = (0..3).map(|i| show(4 * i, i)).collect();
    for (newest, want) in [
        (0, [1, 2, 3, 0]),
        (1, [1, 2, OLD, 0]),
        (2, [1, OLD, OLD, 0]),
        (3, [OLD, OLD, OLD, 0]),
        (9, [OLD, OLD, OLD, 0]),
    ] {
        let body = format!("{copies}cp.async.wait_group {newest};\n{shown}");
        assert_eq!(outputs(&body), want, "{newest}");
    }
}

#[test]
fn what_is_not_read_becomes_zeros() {
    let shown: String = (0..4).map(|i| show(4 * i, i)).collect();
    let copy = |rest: &str| format!("{rest} cp.async.wait_all;\n{shown}");
    let issue = "cp.async.cg.shared.global.L2::128B [%s], [%in+16], 16";
    for (body, want) in [
        (format!("{issue};"), [5, 6, 7, 8]),
        (format!("mov.u32 %n, 8; {issue}, %n;"), [5, 6, 0, 0]),
        (format!("{issue}, 0;"), [0; 4]),
        (format!("setp.eq.u32 %p, %s, %s; {issue}, %p;"), [0; 4]),
        (format!("setp.ne.u32 %p, %s, %s; {issue}, %p;"), [5, 6, 7, 8]),
        (format!("setp.eq.u32 %p, %s, %s; @!%p {issue};"), [OLD; 4]),
    ] {
        assert_eq!(outputs(&copy(&body)), want, "{body}");
    }
    // Nothing is read, so nothing need be there.
    assert_eq!(outputs(&copy("cp.async.ca.shared.global [%s], [0], 16, 0;")), [0; 4]);
}

fn trap(body: &str) -> Trap {
    match bench(body, &[1, 2, 3, 4]).0.run().outcome {
        Outcome::Trapped(trap) => trap,
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn bad_addresses_are_found_where_the_copy_is_issued() {
    for (body, kind, buffer) in [
        ("cp.async.ca.shared.global [%s], [%in+8], 16;", TrapKind::Misaligned, Some("in")),
        ("cp.async.ca.shared.global [%s+8], [%in], 16;", TrapKind::Misaligned, Some("sh")),
        ("cp.async.ca.shared.global [%s+64], [%in], 4;", TrapKind::OutOfBounds, Some("sh")),
        ("cp.async.ca.shared.global [%s], [%in+1048576], 16;", TrapKind::OutOfBounds, Some("in")),
        (
            "cp.async.ca.shared.global [%s], [%in+1048576], 16, 8;",
            TrapKind::OutOfBounds,
            Some("in"),
        ),
    ] {
        let trap = trap(body);
        assert_eq!(
            (trap.kind, trap.site.buffer.as_deref()),
            (kind, buffer),
            "{body} {}",
            trap.message
        );
    }
}
