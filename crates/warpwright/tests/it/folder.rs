//! Judging elsewhere: a run and a worker with nothing but a folder between them.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{self, Program, SEED, cache, demo_replies};

/// Far more than any of this takes; only a hang meets it.
const HANG: Duration = Duration::from_secs(120);

fn spawn(program: &Program, arguments: &[&str]) -> Child {
    spawn_with(program, arguments, &[])
}

fn spawn_with(program: &Program, arguments: &[&str], environment: &[(&str, &str)]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(arguments)
        .current_dir(program.path("."))
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", program.path("."))
        .env("WARPWRIGHT_CACHE", cache())
        // The same on every machine.
        .env("WARPWRIGHT_DEVICE", "sim")
        .env("WARPWRIGHT_LEDGER", program.ledger())
        .envs(environment.iter().copied())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn wait(child: &mut Child) -> Option<i32> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        assert!(start.elapsed() < HANG, "it hangs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The report without what is new in every run.
fn comparable(program: &Program) -> Value {
    program::comparable(program.run_report())
}

/// Lets workers that die at `point` have the folder until one of them has ended or died.
fn dying_worker(program: &Program, folder: &str, point: &str) {
    let arguments = ["worker", "--folder", folder, "--deadline", "60"];
    let ended = program.call_with(&arguments, &[("WARPWRIGHT_KILL_AT", point)]);
    assert_eq!(ended.signal, Some(9), "{point}: {} {}", ended.stdout, ended.stderr);
}

/// Each boundary of the run where a job may wait, and each of the worker.
#[test]
fn a_kill_at_any_boundary_of_either_side_changes_nothing() {
    let local = local_run();
    for (run_dies, worker_dies) in [
        ("built:3", "taken"),
        ("built:3", "answered"),
        ("judged:3", "taken"),
        ("judged:3", "answered"),
        ("closed:3", "answered"),
    ] {
        let program = Program::new();
        let model = program.transcript(&demo_replies());
        let folder = program.path("exchange");
        let folder = folder.to_str().unwrap();
        let evaluator = format!("folder:{folder}");
        let mut arguments = vec!["run", "softmax_rows", "--model", &model, "--attempts", "6"];
        arguments.extend(["--seed", SEED, "--evaluator", &evaluator]);
        let mut run = spawn_with(&program, &arguments, &[("WARPWRIGHT_KILL_AT", run_dies)]);
        if run_dies != "built:3" {
            dying_worker(&program, folder, worker_dies);
        }
        let mut worker = spawn(&program, &["worker", "--folder", folder]);
        assert_eq!(wait(&mut run), None, "{run_dies} was not reached");
        if run_dies == "built:3" {
            worker.kill().unwrap();
            worker.wait().unwrap();
            run = spawn(&program, &["resume"]);
            dying_worker(&program, folder, worker_dies);
            worker = spawn(&program, &["worker", "--folder", folder]);
        } else {
            run = spawn(&program, &["resume"]);
        }
        assert_eq!(wait(&mut run), Some(0), "{run_dies} {worker_dies}");
        worker.kill().unwrap();
        worker.wait().unwrap();
        assert_eq!(comparable(&program), local, "{run_dies} {worker_dies}");
    }
}

fn local_run() -> Value {
    let program = Program::new();
    let model = program.transcript(&demo_replies());
    let arguments = ["run", "softmax_rows", "--model", &model, "--attempts", "6", "--seed", SEED];
    let ended = program.call(&arguments);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    comparable(&program)
}

#[test]
fn verdicts_are_those_of_a_local_run_whatever_is_killed_and_when() {
    let local = local_run();
    // Worker and run are each killed after ever longer times, and started again.
    for pause_ms in [30, 150, 400, 900] {
        let program = Program::new();
        let model = program.transcript(&demo_replies());
        let folder = program.path("exchange");
        let folder = folder.to_str().unwrap();
        let evaluator = format!("folder:{folder}");
        let mut arguments = vec!["run", "softmax_rows", "--model", &model, "--attempts", "6"];
        arguments.extend(["--seed", SEED, "--evaluator", &evaluator]);
        let mut run = spawn(&program, &arguments);
        let mut worker = spawn(&program, &["worker", "--folder", folder]);
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(pause_ms));
            worker.kill().unwrap();
            worker.wait().unwrap();
            worker = spawn(&program, &["worker", "--folder", folder]);
        }
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(pause_ms));
            run.kill().unwrap();
            run.wait().unwrap();
            let restart = if program.ledger().exists() { &["resume"][..] } else { &arguments };
            run = spawn(&program, restart);
        }
        let mut code = wait(&mut run);
        // A kill before the run was stored leaves nothing to resume.
        if code == Some(2) {
            code = program.call(&arguments).code;
        }
        worker.kill().unwrap();
        worker.wait().unwrap();
        assert_eq!(code, Some(0), "{pause_ms}");
        assert_eq!(comparable(&program), local, "{pause_ms}");
        assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    }
}

#[test]
fn a_worker_drains_what_waits_and_an_interrupted_run_takes_the_results() {
    let program = Program::new();
    let model = program.transcript(&demo_replies());
    let folder = program.path("exchange");
    let folder = folder.to_str().unwrap();
    let empty = program.call(&["worker", "--folder", folder, "--drain", "--json"]);
    assert_eq!(empty.code, Some(0), "{}", empty.stderr);
    let evaluator = format!("folder:{folder}");
    let arguments =
        ["run", "softmax_rows", "--model", &model, "--attempts", "3", "--evaluator", &evaluator];
    let mut run = spawn(&program, &arguments);
    let start = Instant::now();
    let jobs = || std::fs::read_dir(program.path("exchange/jobs")).map_or(0, Iterator::count);
    while jobs() == 0 {
        assert!(start.elapsed() < HANG, "no job came");
        std::thread::sleep(Duration::from_millis(20));
    }
    // Nobody judges: Ctrl-C ends the wait, for the job is found again.
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&run),
        rustix::process::Signal::INT,
    )
    .unwrap();
    assert_eq!(wait(&mut run), Some(130));
    let drained = program.call(&["worker", "--folder", folder, "--drain"]);
    assert_eq!(drained.code, Some(0), "{}", drained.stderr);
    assert!(drained.stdout.contains("softmax_rows Wrong/MISMATCH"), "{}", drained.stdout);
    assert_eq!(jobs(), 0);
    let resumed = program.call(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert_eq!(program.verdicts().len(), 3);
    let deadline = program.call(&["worker", "--folder", folder, "--deadline", "1"]);
    assert_eq!(deadline.code, Some(5), "{}", deadline.stderr);
}

#[test]
fn a_worker_that_cannot_judge_ends_the_run_in_words_and_resumable() {
    let program = Program::new();
    let model = program.transcript(&demo_replies()[2..3]);
    let file = program.path("file");
    std::fs::write(&file, "x").unwrap();
    let evaluator = format!("folder:{}", file.display());
    let arguments = ["run", "softmax_rows", "--model", &model, "--evaluator", &evaluator];
    let ended = program.call(&arguments);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("file/jobs"), "{}", ended.stderr);
    let wrong = program.call(&["run", "softmax_rows", "--model", &model, "--evaluator", "cloud"]);
    assert!(wrong.stderr.contains("write local or folder:DIR"), "{}", wrong.stderr);
}
