//! The child's side of the protocol, with a program that uses it.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pipeline::confinement::Layer;
use sandbox::{
    CancelFlag, ChildKind, ChildLimits, ChildOutcome, ChildRun, ChildSpec, ConfinementSet, Memfd,
    TimeLimit, run_child,
};
use serde_json::{Value, json};

use crate::{CHILD, PATIENCE, limits, reported};

fn play(part: &str, bulk: &[&Memfd], limits: &ChildLimits) -> ChildRun {
    play_watched(part, bulk, limits, &[])
}

fn play_watched(
    part: &str,
    bulk: &[&Memfd],
    limits: &ChildLimits,
    watched_by: &[String],
) -> ChildRun {
    let bulk: Vec<_> = bulk.iter().map(|memory| memory.as_fd()).collect();
    let set = if watched_by.is_empty() {
        // To look around, and to write too long a file.
        let open = [PathBuf::from("/proc"), PathBuf::from(".")];
        ConfinementSet::of_child(ChildKind::Candidate, false).writing(open)
    } else {
        ConfinementSet::of_sanitizer().reading([CHILD.into()])
    };
    run_child(&ChildSpec {
        program: Path::new(CHILD),
        watched_by,
        kind: ChildKind::Candidate,
        request: json!({ "part": part }).to_string().as_bytes(),
        bulk: &bulk,
        limits,
        confinement: &set,
        keep_stderr: true,
        environment: &[("ONLY".to_owned(), "this".to_owned())],
        cancel: &CancelFlag::new(),
    })
    .unwrap()
}

#[test]
fn bulk_memory_goes_both_ways() {
    let mut input = Memfd::create("input", 1 << 20).unwrap();
    input.fill(1000, &[1, 2, 3]).unwrap();
    input.seal_write().unwrap();
    let output = Memfd::create("output", 8192).unwrap();
    let run = play("sum", &[&input, &output], &limits(PATIENCE));
    assert_eq!(reported(&run), "6");
    output.seal_write().unwrap();
    let map = output.map().unwrap();
    assert_eq!((map[0], map[8191]), (6, 6));
}

#[test]
fn who_watches_may_close_descriptors_and_end_before_the_child() {
    // It closes what it can, and starts the child from a process that is gone at once.
    let script = "i=3; while [ $i -lt 64 ]; do eval \"exec $i<&-\"; i=$((i + 1)); done
        ( \"$@\" & ) ; while [ ! -e done ]; do sleep 0.05; done";
    let words = ["/bin/bash", "-c", script, "watcher"].map(str::to_owned);
    let mut input = Memfd::create("input", 4096).unwrap();
    input.fill(0, &[1, 2, 3]).unwrap();
    input.seal_write().unwrap();
    let output = Memfd::create("output", 4096).unwrap();
    let run = play_watched("sum_then_tell", &[&input, &output], &limits(PATIENCE), &words);
    assert_eq!(reported(&run), "6");
    output.seal_write().unwrap();
    assert_eq!(output.map().unwrap()[0], 6);
}

#[test]
fn a_watched_child_says_what_it_lacks() {
    let words = ["/bin/sh", "-c", "\"$@\"; exit 86", "watcher"].map(str::to_owned);
    let run = play_watched("nothing", &[], &limits(PATIENCE), &words);
    assert_eq!(run.outcome, ChildOutcome::Crashed { signal: None, code: Some(86) });
    assert!(run.stderr_tail.contains("no device"), "{}", run.stderr_tail);
}

#[test]
fn a_child_sees_nothing_that_it_was_not_given() {
    let memory = Memfd::create("memory", 4096).unwrap();
    // As if a shell had left it open for us: this one does not close on exec.
    let _inherited = rustix::io::dup(memory.as_fd()).unwrap();
    let run = play("look", &[&memory], &limits(PATIENCE));
    let seen: Value = serde_json::from_str(reported(&run)).unwrap();
    assert_eq!(seen["environment"], json!(["ONLY=this"]));
    assert_eq!(seen["descriptors"], json!([0, 1, 2, 3, 4, 5]));
    let arguments = seen["arguments"].as_array().unwrap();
    assert_eq!(arguments[..2], [json!("__child"), json!("candidate")]);
    assert_eq!(seen["folder_entries"], json!(0));
    assert_eq!(seen["no_new_privileges"], json!(true));
    let folder = seen["folder"].as_str().unwrap();
    assert!(!Path::new(folder).exists(), "{folder} is left behind");
    let confinement = run.confinement.unwrap();
    assert!(confinement.level >= 1 && confinement.set == "candidate", "{confinement}");
    if confinement.has(Layer::Namespaces) {
        // The first process in there leads its session, and reaps what is left behind.
        assert_eq!((&seen["process"], &seen["group"]), (&json!(2), &json!(1)), "{seen}");
    } else {
        assert_eq!(seen["process"], seen["group"], "{seen}");
    }
}

#[test]
fn limits_hold_before_the_request_is_read() {
    let run = play("look", &[], &limits(PATIENCE));
    let seen: Value = serde_json::from_str(reported(&run)).unwrap();
    let text = seen["limits"].as_str().unwrap();
    for (name, soft) in [
        ("Max cpu time", "50"),
        ("Max data size", "1073741824"),
        ("Max file size", "1048576"),
        ("Max open files", "64"),
        ("Max core file size", "1"),
    ] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        let value = line[name.len()..].split_whitespace().next().unwrap();
        assert_eq!(value, soft, "{line}");
    }
}

#[test]
fn too_much_of_anything_ends_the_child() {
    let tight = ChildLimits { cpu_s: 1, data_bytes: 64 << 20, ..limits(PATIENCE) };
    assert_eq!(play("burn", &[], &tight).outcome, ChildOutcome::TimedOut(TimeLimit::Processor));
    let ChildOutcome::Crashed { .. } = play("allocate", &[], &tight).outcome else {
        panic!("an allocation beyond the limit must fail");
    };
    let big_file = play("write_file", &[], &tight).outcome;
    assert_eq!(big_file, ChildOutcome::Crashed { signal: Some(25), code: None });
}

#[test]
fn reasons_arrive_with_their_exit_codes() {
    let limits = limits(PATIENCE);
    let bug = play("bug", &[], &limits).outcome;
    assert_eq!(bug, ChildOutcome::OurBug("two and two".to_owned()));
    let none = play("nothing", &[], &limits).outcome;
    assert_eq!(none, ChildOutcome::NotAvailable("no device".to_owned()));
    let panicked = play("panic", &[], &limits);
    assert_eq!(panicked.outcome, ChildOutcome::Crashed { signal: None, code: Some(101) });
    assert!(panicked.stderr_tail.contains("as asked"), "{}", panicked.stderr_tail);
}

#[test]
fn a_request_of_another_form_is_refused() {
    let run = run_child(&ChildSpec {
        program: Path::new(CHILD),
        watched_by: &[],
        kind: ChildKind::Verify,
        request: br#"{"part": "sum", "more": 1}"#,
        bulk: &[],
        limits: &limits(Duration::from_secs(30)),
        confinement: &ConfinementSet::of_child(ChildKind::Verify, false),
        keep_stderr: false,
        environment: &[],
        cancel: &CancelFlag::new(),
    })
    .unwrap();
    let ChildOutcome::OurBug(reason) = run.outcome else { panic!("{run:?}") };
    assert!(reason.contains("unknown field `more`"), "{reason}");
    assert_eq!(run.stderr_tail, "");
}

#[test]
fn the_program_refuses_to_be_a_child_of_nobody() {
    let output = std::process::Command::new(CHILD).output().unwrap();
    assert_eq!(output.status.code(), Some(70));
    let output = std::process::Command::new(CHILD).args(["__child", "build"]).output().unwrap();
    assert_eq!(output.status.code(), Some(70));
}
