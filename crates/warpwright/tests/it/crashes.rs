//! kill -9 right after each durable state, then `resume`: nothing lost, repeated or asked twice.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::program::{Program, SEED, demo_replies};

/// States that an attempt of the demo reaches: malformed, not compiling, wrong, correct.
const BOUNDARIES: [&str; 18] = [
    "asked:1",
    "sent:1",
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
    Disturbed { report: program.report(), asked: asked.lines().map(str::to_owned).collect() }
}

/// The report without what is new in every run.
fn comparable(report: &Value) -> Value {
    let mut report = report.clone();
    report.as_object_mut().unwrap().remove("run");
    report
}

#[test]
fn a_kill_at_any_boundary_changes_nothing() {
    let undisturbed = run(None);
    assert_eq!(undisturbed.asked.len(), 6);
    for at in BOUNDARIES {
        let disturbed = run(Some(at));
        assert_eq!(comparable(&disturbed.report), comparable(&undisturbed.report), "{at}");
        let distinct: BTreeSet<_> = disturbed.asked.iter().collect();
        assert_eq!((disturbed.asked.len(), distinct.len()), (6, 6), "{at}: {:?}", disturbed.asked);
    }
}
