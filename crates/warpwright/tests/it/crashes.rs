//! kill -9 at each boundary, then `resume`: nothing lost, repeated or asked twice. Signals that ask
//! a run to stop.

pub(crate) mod faults;
mod kills;
mod night;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{Program, SEED, cache, comparable, demo_replies};

/// Boundaries that an attempt of the demo passes: malformed, not compiling, wrong, correct.
const BOUNDARIES: [&str; 22] = [
    "asked:1",
    "sent:1",
    "submitted:1",
    "ticketed:1",
    "replied:1",
    "closed:1",
    "parsed:2",
    "built:2",
    "closed:2",
    "judged:3",
    "closed:3",
    "built:4",
    "judged:4",
    "asked:5",
    "sent:5",
    "submitted:5",
    "ticketed:5",
    "replied:5",
    "parsed:5",
    "built:5",
    "judged:5",
    "closed:6",
];

struct Disturbed {
    report: Value,
    /// Lines of the model's journal: one for each question.
    asked: Vec<String>,
}

fn run(kill_at: Option<&str>) -> Disturbed {
    let program = Program::new();
    let model = program.transcript(&demo_replies());
    let journal = program.path("journal.jsonl");
    let journal_text = journal.to_str().unwrap();
    let mut environment = vec![("WARPWRIGHT_REPLAY_JOURNAL", journal_text)];
    environment.extend(kill_at.map(|at| ("WARPWRIGHT_KILL_AT", at)));
    let arguments = ["run", "softmax_rows", "--model", &model, "--attempts", "6", "--seed", SEED];
    let ended = program.call_with(&arguments, &environment);
    match kill_at {
        None => assert_eq!(ended.code, Some(0), "{}", ended.stderr),
        Some(at) => {
            assert_eq!(ended.signal, Some(9), "{at}: {} {}", ended.stdout, ended.stderr);
            let resumed = program.call_with(&["resume"], &environment[..1]);
            assert_eq!(resumed.code, Some(0), "{at}: {} {}", resumed.stdout, resumed.stderr);
        }
    }
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0), "{kill_at:?}");
    let status = program.call(&["status", "@last"]).stdout;
    assert!(status.contains("0.0000 lost") && status.contains("600 in, 60 out"), "{status}");
    let asked = std::fs::read_to_string(&journal).unwrap();
    let report = comparable(program.run_report());
    Disturbed { report, asked: asked.lines().map(str::to_owned).collect() }
}

#[test]
fn a_kill_at_any_boundary_changes_nothing() {
    let undisturbed = run(None);
    assert_eq!(undisturbed.asked.len(), 6);
    for at in BOUNDARIES {
        let disturbed = run(Some(at));
        assert_eq!(disturbed.report, undisturbed.report, "{at}");
        // Killed before its ticket was stored, a question is handed over again under the same id.
        let again = usize::from(at.starts_with("submitted"));
        let distinct: BTreeSet<_> = disturbed.asked.iter().collect();
        let found = (disturbed.asked.len(), distinct.len());
        assert_eq!(found, (6 + again, 6), "{at}: {:?}", disturbed.asked);
    }
}

/// Starts a run of the demo's replies.
fn start(program: &Program) -> Child {
    let model = program.transcript(&demo_replies());
    Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(["run", "softmax_rows", "--model", &model, "--attempts", "6"])
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", program.path("."))
        .env("WARPWRIGHT_CACHE", cache())
        // The same on every machine.
        .env("WARPWRIGHT_DEVICE", "sim")
        .env("WARPWRIGHT_LEDGER", program.ledger())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_signal_stops_after_the_step_in_hand_and_says_so() {
    for signal in [Signal::INT, Signal::TERM] {
        let program = Program::new();
        let mut child = start(&program);
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with("#1 ")), "{signal:?}");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let rest: Vec<_> = lines.map(Result::unwrap).collect();
        let mut told = String::new();
        child.stderr.take().unwrap().read_to_string(&mut told).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{signal:?}: {rest:?} {told}");
        assert!(told.contains("after the step in hand"), "{told}");
        let status = program.call(&["status", "@last"]).stdout;
        assert!(status.contains("stopped (interrupted)"), "{status}");
        let resumed = program.call(&["resume"]);
        assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
        assert_eq!(program.verdicts().len(), 6);
        assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    }
}
