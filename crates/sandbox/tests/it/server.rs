//! A fork server: what its windows may do, and that it comes back when it died.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use sandbox::{
    CancelFlag, ChildOutcome, ChildRun, ConfinementSet, ForkServer, Memfd, ServerSpec, TimeLimit,
    WindowCall,
};

use crate::{CHILD, PATIENCE, limits};

/// The interpreter itself, since wrappers of it need an environment.
fn python() -> PathBuf {
    told_by_python("sys.executable")
}

fn told_by_python(what: &str) -> PathBuf {
    let tell = format!("import sys; print({what}, end='')");
    let output = Command::new("python3").args(["-c", &tell]).output().unwrap();
    PathBuf::from(String::from_utf8(output.stdout).unwrap())
}

fn server(word: &str) -> ForkServer {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scripts/server.py");
    ForkServer::new(ServerSpec {
        launcher: PathBuf::from(CHILD),
        confinement: ConfinementSet::of_python()
            .reading([script.clone(), told_by_python("sys.base_prefix")]),
        program: python(),
        arguments: vec!["-I".to_owned(), script.to_str().unwrap().to_owned(), word.to_owned()],
        environment: Vec::new(),
        limits: limits(PATIENCE),
        start_deadline: if word == "slow" { Duration::from_millis(500) } else { PATIENCE },
    })
}

fn window_with(server: &ForkServer, part: &str, bulk: &[&Memfd], deadline: Duration) -> ChildRun {
    let request = format!("{{\"part\":\"{part}\"}}");
    let bulk: Vec<_> = bulk.iter().map(|memfd| memfd.as_fd()).collect();
    let cancel = CancelFlag::new();
    let call = WindowCall { request: request.as_bytes(), bulk: &bulk, deadline, cancel: &cancel };
    server.window(&call).unwrap()
}

fn window(server: &ForkServer, part: &str) -> ChildOutcome {
    window_with(server, part, &[], PATIENCE).outcome
}

fn echoed(server: &ForkServer) -> serde_json::Value {
    let mut memfd = Memfd::create("text", 5).unwrap();
    memfd.fill(0, b"hello").unwrap();
    match window_with(server, "echo", &[&memfd], PATIENCE).outcome {
        ChildOutcome::Reported(report) => serde_json::from_slice(&report).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_window_is_a_child_of_its_own_with_its_memories() {
    let server = server("word");
    let ready = server.ready(&CancelFlag::new()).unwrap().unwrap();
    assert_eq!(ready, "{\"version\":7}");
    let (first, second) = (echoed(&server), echoed(&server));
    assert_eq!(first["text"], "hello");
    assert_eq!(first["argv"][0], "word");
    assert_ne!(first["pid"], second["pid"]);
    let memfd = Memfd::create("room", 7).unwrap();
    let run = window_with(&server, "write", &[&memfd], PATIENCE);
    assert_eq!(run.outcome, ChildOutcome::Reported(b"{}".to_vec()));
    memfd.seal_write().unwrap();
    assert_eq!(&*memfd.map().unwrap(), b"written");
}

#[test]
fn a_server_outlives_the_thread_that_started_it() {
    let server = server("");
    std::thread::scope(|scope| {
        scope.spawn(|| server.ready(&CancelFlag::new()).unwrap().unwrap());
    });
    let first = echoed(&server)["server"].clone();
    // An end that came with the thread's would have come by now.
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(echoed(&server)["server"], first);
}

#[test]
fn ends_are_told_apart_and_the_server_goes_on() {
    let server = server("");
    for (part, expected) in [
        ("crash", ChildOutcome::Crashed { signal: Some(11), code: None }),
        ("exit", ChildOutcome::Crashed { signal: None, code: Some(3) }),
        ("our_bug", ChildOutcome::OurBug("why".to_owned())),
        ("silent", ChildOutcome::BadReport("it is missing".to_owned())),
        ("flood", ChildOutcome::Flooded),
        ("refuse", ChildOutcome::OurBug("not now".to_owned())),
    ] {
        assert_eq!(window(&server, part), expected, "{part}");
    }
    assert_eq!(echoed(&server)["text"], "hello");
}

#[test]
fn a_window_that_hangs_is_killed_and_one_that_is_cancelled_too() {
    let server = server("");
    let run = window_with(&server, "hang", &[], Duration::from_millis(300));
    assert_eq!(run.outcome, ChildOutcome::TimedOut(TimeLimit::Wall));
    assert!(run.wall >= Duration::from_millis(300) && run.wall < PATIENCE / 2, "{:?}", run.wall);
    let cancel = CancelFlag::new();
    let (request, deadline) = (&br#"{"part":"hang"}"#[..], PATIENCE);
    let call = WindowCall { request, bulk: &[], deadline, cancel: &cancel };
    let run = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(200));
            cancel.cancel();
        });
        server.window(&call).unwrap()
    });
    assert_eq!(run.outcome, ChildOutcome::Cancelled);
    assert_eq!(echoed(&server)["text"], "hello");
}

#[test]
fn two_windows_run_at_once() {
    let server = server("");
    echoed(&server);
    let hang = || window_with(&server, "hang", &[], Duration::from_secs(3)).outcome;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let both = [scope.spawn(hang), scope.spawn(hang)];
        for each in both {
            assert_eq!(each.join().unwrap(), ChildOutcome::TimedOut(TimeLimit::Wall));
        }
    });
    assert!(started.elapsed() < Duration::from_millis(5_900), "{:?}", started.elapsed());
}

#[test]
fn a_server_that_died_is_started_again_once() {
    let server = server("");
    match window(&server, "kill_server") {
        ChildOutcome::OurBug(why) => assert!(why.contains("died under it"), "{why}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(echoed(&server)["text"], "hello");
    let mute = crate::server::server("mute");
    match window(&mute, "echo") {
        ChildOutcome::OurBug(why) => assert!(why.contains("died twice"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_server_that_is_not_to_be_had_says_why() {
    for (word, part) in
        [("absent", "no torch"), ("dead", "ended before"), ("slow", "was not ready after")]
    {
        match window(&server(word), "echo") {
            ChildOutcome::NotAvailable(why) => assert!(why.contains(part), "{word}: {why}"),
            other => panic!("{word}: {other:?}"),
        }
    }
}

#[test]
fn nothing_is_left_when_the_server_is_dropped() {
    let server = server("");
    let seen = echoed(&server);
    let exists = |name: &str| Path::new("/proc").join(seen[name].to_string()).exists();
    assert!(!exists("pid"), "the window is reaped");
    assert!(exists("server"));
    drop(server);
    assert!(!exists("server"));
}
