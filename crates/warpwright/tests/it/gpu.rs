//! What the program says of GPUs where it sees none, and that what its self-test ships is sound.

use std::path::Path;

use pipeline::gate::gate;
use pipeline::reply;
use pipeline::task::Task;
use pipeline::verdict::{Kind, Reason};

use crate::program::{Program, demo_replies};
use crate::task_files::{evaluate, judge, task};

/// No GPU, also on a machine that has one.
const NONE: [(&str, &str); 1] = [("CUDA_VISIBLE_DEVICES", "")];

#[test]
fn a_gpu_that_is_not_there_is_refused_with_its_own_exit_code() {
    let program = Program::new();
    let kernel = program.path("kernel.md");
    std::fs::write(&kernel, &demo_replies()[5]).unwrap();
    let kernel = kernel.display().to_string();
    for arguments in [
        vec!["hardware", "show"],
        vec!["hardware", "probe", "--device", "cuda"],
        vec!["selftest", "gpu", "--device", "cuda:all"],
        vec!["evaluate", "softmax_rows", &kernel, "--device", "cuda:1"],
        vec!["task", "check", "vector_add", "--device", "cuda"],
        vec!["worker", "--folder", "jobs", "--drain", "--device", "cuda:GPU-1"],
    ] {
        let ended = program.call_with(&[&arguments[..], &["--json"]].concat(), &NONE);
        assert_eq!(ended.code, Some(4), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains("not available here"), "{arguments:?}: {}", ended.stderr);
        assert_eq!(ended.closing()["kind"], "not-available", "{arguments:?}");
    }
    assert!(!program.ledger().exists(), "nothing was begun");
}

#[test]
fn without_a_gpu_the_default_is_the_simulator() {
    let program = Program::new();
    let kernel = program.path("kernel.md");
    std::fs::write(&kernel, &demo_replies()[5]).unwrap();
    let words = ["evaluate", "softmax_rows", kernel.to_str().unwrap(), "--device", "auto"];
    let ended = program.call_with(&words, &NONE);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("estimate (no GPU)"), "{}", ended.stdout);
    let doctor = program.call_with(&["doctor", "--device", "auto"], &NONE);
    assert_eq!(doctor.code, Some(0), "{}", doctor.stdout);
    assert!(doctor.stdout.contains("kernels run on the simulator"), "{}", doctor.stdout);
}

#[test]
fn devices_and_parts_that_do_not_exist_are_named() {
    let program = Program::new();
    let settings = program.path("other.toml");
    std::fs::write(&settings, "[judge]\ndevice = \"gpu\"\n").unwrap();
    let settings = settings.display().to_string();
    for (arguments, part) in [
        (vec!["demo", "--device", "gpu"], "write auto, sim, cuda, cuda:N, cuda:all"),
        (vec!["demo", "--device", "cuda:-1"], "cuda:GPU-UUID"),
        (vec!["selftest", "gpu", "--only", "clocks"], "no part `clocks`: there are hardware,"),
        (vec!["selftest", "gpu", "--device", "sim"], "--device says `sim`"),
    ] {
        let ended = program.call(&arguments);
        assert!(ended.code == Some(2) || ended.code == Some(4), "{arguments:?}");
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    let ended = program.call(&["demo", "--settings", &settings]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("device `gpu`: write auto"), "{}", ended.stderr);
}

/// Name, and text, of each reply below a folder of the self-test.
fn shipped(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("selftest").join(folder);
    let entries = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let reply = |path: std::path::PathBuf| {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        path.is_file().then(|| (name, std::fs::read_to_string(&path).unwrap()))
    };
    let mut found: Vec<_> = entries.filter_map(reply).collect();
    found.sort();
    found
}

fn head_line(reply: &str, key: &str) -> Option<String> {
    reply.lines().find_map(|line| line.strip_prefix(key)).map(|rest| rest.trim().to_owned())
}

/// Builds and evaluates a reply on the simulator.
fn judged(task: &Task, text: &str) -> String {
    let judge = judge();
    match reply::candidate(text, &task.signature()) {
        Ok(candidate) => {
            let tunables = candidate.plan.default_tunables();
            let cancel = judge::CancelFlag::default();
            let build = judge.build(task, &candidate, &tunables, &cancel).unwrap();
            if let Some(facts) = &build.facts {
                assert!(gate(facts, &candidate.plan, task).is_empty(), "the static gate");
            }
            match build.verdict {
                Some(verdict) => verdict.to_string(),
                None => evaluate(&judge, task, &candidate, 0).verdict.to_string(),
            }
        }
        Err(malformed) => malformed.verdict().to_string(),
    }
}

#[test]
fn the_self_tests_kernels_are_correct_at_every_simulated_case() {
    let tasks =
        ["gelu", "layer_norm", "matmul_f32", "reduce_sum_rows", "softmax_rows", "vector_add"];
    for name in tasks {
        let kernels = shipped(&format!("kernels/{name}"));
        let names: Vec<&str> = kernels.iter().map(|(kernel, _)| kernel.as_str()).collect();
        assert_eq!(names, ["good", "naive"], "{name}");
        for (kernel, text) in &kernels {
            assert_eq!(judged(&task(name), text), "Correct", "{name} {kernel}");
        }
    }
}

#[test]
fn the_self_tests_kernels_for_the_sanitizers_are_built() {
    for (name, text) in &shipped("sanitizer") {
        let verdict = judged(&task("vector_add"), text);
        let built = !["Malformed", "Rejected", "Build"].iter().any(|it| verdict.starts_with(it));
        assert!(built, "{name}: {verdict}");
    }
}

#[test]
fn the_self_tests_features_are_correct_or_beyond_the_simulator() {
    let features = shipped("features");
    assert!(features.len() >= 10, "{}", features.len());
    for (name, text) in &features {
        assert_eq!(head_line(text, "expect:").as_deref(), Some("Correct"), "{name}");
        let expected = head_line(text, "expect-simulator:");
        let task = task(&head_line(text, "task:").unwrap());
        assert_eq!(judged(&task, text), expected.as_deref().unwrap_or("Correct"), "{name}");
    }
}

#[test]
fn every_hostile_reply_says_what_a_gpu_must_answer() {
    let hostile = shipped("hostile");
    assert!(hostile.len() >= 20, "{}", hostile.len());
    for (name, text) in &hostile {
        assert!(head_line(text, "task:").is_some(), "{name}");
        for verdict in head_line(text, "expect:").unwrap().split(" or ") {
            let (kind, reason) = verdict.split_once('/').unwrap_or((verdict, ""));
            assert!(Kind::from_name(kind).is_some(), "{name}: {verdict}");
            assert!(reason.is_empty() || Reason::from_code(reason).is_some(), "{name}: {verdict}");
        }
    }
}
