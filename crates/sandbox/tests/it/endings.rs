//! Every way in which a child may end.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use sandbox::{CancelFlag, ChildOutcome, STDERR_BYTES_MAX, SandboxError, TimeLimit, run_child};
use sandbox::{ChildKind, ChildSpec, ConfinementSet, MESSAGE_BYTES_MAX};

use crate::{CHILD, PATIENCE, limits, path_variable, reported, run_script, run_script_with};

#[test]
fn exits_and_signals_are_told_apart() {
    let cases = [
        ("crash", ChildOutcome::Crashed { signal: Some(11), code: None }),
        ("exit_3", ChildOutcome::Crashed { signal: None, code: Some(3) }),
        ("our_bug", ChildOutcome::OurBug("why".to_owned())),
        ("not_available", ChildOutcome::NotAvailable("no such device".to_owned())),
        ("silent", ChildOutcome::BadReport("it is missing".to_owned())),
        ("half", ChildOutcome::BadReport("it was cut short after 8 bytes".to_owned())),
        ("trailing", ChildOutcome::BadReport("more follows after it".to_owned())),
        ("read_nothing", ChildOutcome::Reported(b"{}".to_vec())),
    ];
    for (name, expected) in cases {
        assert_eq!(run_script(name, PATIENCE).outcome, expected, "{name}");
    }
}

#[test]
fn a_child_that_does_not_end_is_killed_at_its_deadline() {
    for name in ["hang", "ignore_term", "close_and_hang", "daemon_and_hang"] {
        let deadline = Duration::from_millis(400);
        let run = run_script(name, deadline);
        assert_eq!(run.outcome, ChildOutcome::TimedOut(TimeLimit::Wall), "{name}");
        assert!(run.wall >= deadline, "{name}: {:?}", run.wall);
        assert!(run.wall < Duration::from_secs(15), "{name}: {:?}", run.wall);
    }
}

#[test]
fn a_flood_is_cut_off_at_once() {
    for name in ["flood_zeros", "flood_length"] {
        let run = run_script(name, PATIENCE);
        assert_eq!(run.outcome, ChildOutcome::Flooded, "{name}");
        assert!(run.wall < PATIENCE / 2, "{name}: {:?}", run.wall);
    }
}

#[test]
fn a_process_left_in_the_group_is_killed() {
    let run = run_script("background", PATIENCE);
    let pid: u32 = reported(&run).parse().unwrap();
    let gone = || match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // Whoever adopts it may take a moment to reap it.
        Ok(stat) => stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']),
        Err(_) => true,
    };
    let until = Instant::now() + Duration::from_secs(10);
    while !gone() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(gone(), "process {pid} still runs");
}

#[test]
fn a_daemon_that_keeps_the_report_open_does_not_delay_us() {
    let run = run_script("daemon", PATIENCE);
    assert_eq!(reported(&run), "{}");
    assert!(run.wall < Duration::from_secs(15), "{:?}", run.wall);
}

#[test]
fn only_the_tail_of_the_error_output_is_kept() {
    let run = run_script("stderr", PATIENCE);
    assert_eq!(reported(&run), "{}");
    assert!(run.stderr_tail.ends_with("100000\nthe end\n"));
    assert!(run.stderr_tail.len() <= STDERR_BYTES_MAX);
    assert!(run.stderr_tail.len() > STDERR_BYTES_MAX / 2);
}

#[test]
fn a_long_request_reaches_a_slow_reader() {
    let request = vec![b' '; MESSAGE_BYTES_MAX];
    let run = run_script_with("slow_reader", PATIENCE, &request, &CancelFlag::new());
    assert_eq!(reported(&run), (MESSAGE_BYTES_MAX + 4).to_string());
    let run = run_script_with("read_nothing", PATIENCE, &request, &CancelFlag::new());
    assert_eq!(reported(&run), "{}");
}

#[test]
fn a_cancelled_child_ends() {
    let cancel = CancelFlag::new();
    let other = cancel.clone();
    let started = Instant::now();
    let waiter = std::thread::spawn(move || run_script_with("hang", PATIENCE, b"{}", &other));
    std::thread::sleep(Duration::from_millis(200));
    cancel.cancel();
    assert_eq!(waiter.join().unwrap().outcome, ChildOutcome::Cancelled);
    assert!(started.elapsed() < PATIENCE / 2);
    let at_once = run_script_with("hang", PATIENCE, b"{}", &cancel);
    assert_eq!(at_once.outcome, ChildOutcome::Cancelled);
}

#[test]
fn no_zombie_stays() {
    for name in ["silent", "crash", "background", "flood_length"] {
        run_script(name, PATIENCE);
    }
    run_script("hang", Duration::from_millis(100));
    // Other tests run children too: only one that stays a zombie is a fault.
    let first = zombies();
    std::thread::sleep(Duration::from_secs(2));
    let stayed: Vec<u32> = zombies().intersection(&first).copied().collect();
    assert!(stayed.is_empty(), "{stayed:?}");
}

fn zombies() -> HashSet<u32> {
    let me = std::process::id().to_string();
    let mut found = HashSet::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse() else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut words = rest.split(' ');
        if words.next() == Some("Z") && words.next() == Some(me.as_str()) {
            found.insert(pid);
        }
    }
    found
}

#[test]
fn what_the_caller_does_wrong_is_an_error() {
    let missing = "/nonexistent/program".as_ref();
    let spec = ChildSpec {
        program: missing,
        watched_by: &[],
        kind: ChildKind::Probe,
        request: b"{}",
        bulk: &[],
        limits: &limits(PATIENCE),
        confinement: &ConfinementSet::of_nothing(),
        keep_stderr: false,
        environment: &path_variable(),
        cancel: &CancelFlag::new(),
    };
    let error = run_child(&spec).unwrap_err();
    assert!(matches!(error, SandboxError::Start { .. }), "{error}");
    let long = vec![b' '; MESSAGE_BYTES_MAX + 1];
    let child = Path::new(CHILD);
    let error = run_child(&ChildSpec { program: child, request: &long, ..spec }).unwrap_err();
    assert!(matches!(error, SandboxError::TooLong { .. }), "{error}");
}
