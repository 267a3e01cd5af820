//! A child that has left itself a folder of headers opens and finds nothing else, by each layer
//! that is for it.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use libc::{EACCES, ENOENT, ENOTDIR, EPERM};
use pipeline::confinement::Layer;
use sandbox::{CancelFlag, ChildKind, ChildSpec, ConfinementSet, run_child};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{PATIENCE, limits, reported};

const ESCAPE: &str = env!("CARGO_BIN_EXE_sandbox-test-escape");

/// A folder that a child may read, with a file that is no header, and headers below.
fn outside() -> TempDir {
    let outside = tempfile::tempdir().unwrap();
    fs::set_permissions(outside.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let headers = outside.path().join("headers");
    fs::create_dir_all(headers.join("folder")).unwrap();
    fs::write(outside.path().join("ledger.db"), "secret").unwrap();
    fs::write(headers.join("a.h"), "header").unwrap();
    symlink("../ledger.db", headers.join("link")).unwrap();
    outside
}

/// What the child reports under these layers; `None` where this machine lacks one of them.
fn attempts(outside: &Path, layers: &[Layer]) -> Option<Value> {
    let set = ConfinementSet::of_child(ChildKind::Build, false).only(layers);
    let request = json!({
        "part": "headers",
        "open_file": outside.join("ledger.db"),
        "headers": outside.join("headers"),
        "private_file": "",
        "victim": 0,
        "tcp_port": 0,
        "udp_port": 0,
        "abstract_name": "",
        "socket_path": "",
        "shared_memory": 0,
    });
    let run = run_child(&ChildSpec {
        program: Path::new(ESCAPE),
        watched_by: &[],
        kind: ChildKind::Build,
        request: request.to_string().as_bytes(),
        bulk: &[],
        limits: &limits(PATIENCE),
        confinement: &set.reading([outside.to_owned()]),
        keep_stderr: true,
        environment: &[],
        cancel: &CancelFlag::new(),
    })
    .unwrap();
    let found = serde_json::from_str(reported(&run)).unwrap();
    let held = run.confinement.unwrap();
    layers.iter().all(|layer| held.has(*layer)).then_some(found)
}

#[test]
fn behind_the_gate_there_are_headers_and_nothing_else() {
    let outside = outside();
    let layers = [Layer::Identity, Layer::Rlimits, Layer::Landlock, Layer::Namespaces];
    for with in 0..=layers.len() {
        let held: Vec<_> = layers[..with].iter().copied().chain([Layer::Seccomp]).collect();
        let Some(found) = attempts(outside.path(), &held) else {
            eprintln!("not available here: one of {held:?}");
            continue;
        };
        // Only code of the compiler's own process gets past it.
        let past = if held.contains(&Layer::Landlock) { EACCES } else { 0 };
        let expected = json!({
            "named": true,
            "text": "header",
            "length": 6,
            "header_by_path": ENOENT,
            "file": ENOENT,
            "absent": ENOENT,
            "climbing": ENOENT,
            "climbing_within": 0,
            "link": ENOENT,
            "found": ENOENT,
            "looked_at": ENOENT,
            "header_looked_at": 0,
            "folder_looked_at": 0,
            "past_the_gate": past,
            "written": EACCES,
            "more_rules": EPERM,
            "more_filters": EPERM,
        });
        assert_eq!(found, expected, "{held:?}");
    }
}

#[test]
fn without_a_filter_landlock_closes_all_but_the_headers() {
    let outside = outside();
    let Some(found) = attempts(outside.path(), &[Layer::Landlock]) else {
        return eprintln!("not available here: Landlock");
    };
    for (name, error) in [("header_by_path", 0), ("file", EACCES), ("past_the_gate", EACCES)] {
        assert_eq!(found[name], error, "{name}");
    }
    // Names stay what they are, and a file that is closed is still there.
    assert_eq!((&found["named"], &found["found"]), (&json!(false), &json!(0)));
}

#[test]
fn without_either_the_attempts_work() {
    let outside = outside();
    let found = attempts(outside.path(), &[]).unwrap();
    for name in ["header_by_path", "file", "found", "looked_at", "past_the_gate", "more_rules"] {
        assert_eq!(found[name], 0, "{name} shows nothing");
    }
    assert_eq!(found["absent"], ENOTDIR);
}
