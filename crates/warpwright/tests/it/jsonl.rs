//! `evaluate` of many kernels: records as they come, one run, the cache, kills and Ctrl-C.

use std::io::{BufRead, BufReader, Lines, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program::{Program, cache, demo_replies};

/// The program as a co-process.
struct CoProcess {
    child: Child,
    input: Option<ChildStdin>,
    output: Lines<BufReader<ChildStdout>>,
}

impl CoProcess {
    fn start(program: &Program, jobs: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_warpwright"))
            .args(["evaluate", "softmax_rows", "--jsonl", "-", "--jobs", jobs])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", program.path("."))
            .env("WARPWRIGHT_CACHE", cache())
            // The same on every machine.
            .env("WARPWRIGHT_DEVICE", "sim")
            .env("WARPWRIGHT_LEDGER", program.ledger())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { input: child.stdin.take(), child, output }
    }

    fn give(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    fn record(&mut self) -> Value {
        serde_json::from_str(&self.output.next().unwrap().unwrap()).unwrap()
    }

    /// The records that are left, and the exit code.
    fn rest(mut self) -> (Vec<Value>, Option<i32>) {
        let records = self.output.map(|line| serde_json::from_str(&line.unwrap()).unwrap());
        (records.collect(), self.child.wait().unwrap().code())
    }
}

fn reply(id: &str, reply: &str) -> String {
    json!({ "id": id, "reply": reply }).to_string()
}

#[test]
fn a_record_comes_while_the_input_is_open() {
    let program = Program::new();
    let replies = demo_replies();
    let mut process = CoProcess::start(&program, "2");
    process.give(&reply("first", &replies[0]));
    let first = process.record();
    assert_eq!(
        (&first["id"], &first["line"], &first["seq"]),
        (&json!("first"), &json!(1), &json!(1))
    );
    assert_eq!((&first["exit"], &first["verdict"]["reason"]), (&json!(3), &json!("REPLY")));
    assert_eq!((&first["task"], &first["report"]), (&json!("softmax_rows"), &Value::Null));
    process.give("\nhello");
    let bad = process.record();
    assert_eq!(
        (&bad["exit"], &bad["kind"], &bad["line"]),
        (&json!(2), &json!("bad-input"), &json!(3))
    );
    assert!(bad["reason"].as_str().unwrap().starts_with("no JSON"), "{bad}");
    assert_eq!(bad["run"], first["run"]);
    // Twice at the same time, a program that must not run twice: the second waits for the first.
    process.give(&reply("harmful", &replies[3]));
    process.give(&reply("harmful again", &replies[3]));
    let harmful = [process.record(), process.record()];
    assert_eq!(harmful[0]["verdict"], harmful[1]["verdict"]);
    let mut cached = harmful.map(|record| record["from_cache"].as_bool().unwrap());
    cached.sort_unstable();
    assert_eq!(cached, [false, true]);
    let fences = pipeline::reply::fences(&replies[5]).unwrap();
    process.give(&json!({ "source": fences.source, "plan": fences.plan }).to_string());
    let right = process.record();
    assert_eq!(
        (&right["exit"], &right["kind"], right.get("id")),
        (&json!(0), &json!("done"), None)
    );
    assert_eq!(right["report"]["cases"].as_array().unwrap().len(), 6);
    process.input = None;
    let (rest, code) = process.rest();
    assert_eq!((rest.len(), code), (1, Some(2)));
    let summary = &rest[0]["summary"];
    let verdicts = json!({ "Correct": 1, "Faulted": 2, "Malformed": 1 });
    assert_eq!(*summary, json!({ "judged": 4, "correct": 1, "bad": 1, "verdicts": verdicts }));
    assert_eq!((&rest[0]["exit"], &rest[0]["run"]), (&json!(2), &first["run"]));
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    assert_eq!(program.verdicts().len(), 4);
    assert!(program.call(&["status"]).stdout.contains("finished"));
}

#[test]
fn the_exit_code_says_what_the_worst_line_was() {
    let program = Program::new();
    let replies = demo_replies();
    let (wrong, right) = (program.path("wrong.md"), program.path("right.md"));
    std::fs::write(&wrong, &replies[0]).unwrap();
    std::fs::write(&right, &replies[5]).unwrap();
    let path = |path| json!({ "path": path }).to_string();
    let lines = [path(&right), path(&wrong), "{}".to_owned()];
    for (chosen, code, counts) in [
        (vec![], 0, [0, 0, 0]),
        (vec![0], 0, [1, 1, 0]),
        (vec![0, 1, 0], 3, [3, 2, 0]),
        (vec![1, 2], 2, [1, 0, 1]),
    ] {
        let file = program.path("kernels.jsonl");
        let text: Vec<_> = chosen.iter().map(|index: &usize| lines[*index].as_str()).collect();
        std::fs::write(&file, text.join("\n")).unwrap();
        let ended = program.call(&["evaluate", "softmax_rows", "--jsonl", file.to_str().unwrap()]);
        assert_eq!(ended.code, Some(code), "{chosen:?}: {}", ended.stderr);
        assert_eq!(ended.stdout.lines().count(), chosen.len() + 1, "{}", ended.stdout);
        let summary = ended.closing()["summary"].clone();
        let found = ["judged", "correct", "bad"].map(|count| summary[count].as_i64().unwrap());
        assert_eq!(found, counts, "{chosen:?}");
    }
    let [wrong, right] = [&wrong, &right].map(|path| path.to_str().unwrap());
    let ended = program.call(&["evaluate", "softmax_rows", wrong, right, "/absent", "--json"]);
    assert_eq!((ended.code, ended.closing()["summary"]["judged"].as_i64()), (Some(2), Some(2)));
    let ended = program.call(&["evaluate", "softmax_rows", right, wrong]);
    assert_eq!(ended.code, Some(3), "{}", ended.stderr);
    for part in ["right.md: #", "estimate (no GPU)", "wrong.md: #", "1 of 2 are correct; run "] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
}

#[test]
fn what_was_asked_for_wrongly_is_named_before_a_run_is_stored() {
    let program = Program::new();
    for (arguments, part) in [
        (vec!["evaluate", "softmax_rows"], "CANDIDATE"),
        (vec!["evaluate", "softmax_rows", "a.md", "--jsonl", "-"], "cannot be used with"),
        (vec!["evaluate", "softmax_rows", "--jsonl", "/absent"], "/absent"),
        (vec!["evaluate", "absent", "--jsonl", "-"], "no task `absent`"),
        (vec!["evaluate", "softmax_rows", "a.md", "b.md", "--jobs", "0"], "--jobs"),
        (vec!["evaluate", "softmax_rows", "--jsonl", "-", "--seed", "7"], "64 hexadecimal digits"),
    ] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    assert!(!program.ledger().exists(), "bad input made a ledger");
}

#[test]
fn a_kill_leaves_the_ledger_whole_and_resume_says_where_the_lines_are() {
    let program = Program::new();
    let replies = demo_replies();
    let file = program.path("kernels.jsonl");
    let lines: Vec<_> = [5, 0, 3].map(|index: usize| reply("k", &replies[index])).into();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let arguments = ["evaluate", "softmax_rows", "--jsonl", file.to_str().unwrap(), "--jobs", "2"];
    let killed = program.call_with(&arguments, &[("WARPWRIGHT_KILL_AT", "judged:1")]);
    assert_eq!(killed.signal, Some(9), "{}", killed.stderr);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    let status = program.call(&["status", "@last"]).stdout;
    assert!(status.contains("died"), "{status}");
    let resumed = program.call(&["resume"]);
    assert_eq!(resumed.code, Some(2), "{}", resumed.stdout);
    assert!(resumed.stderr.contains("lines of standard input"), "{}", resumed.stderr);
    let again = program.call(&arguments);
    assert_eq!(again.code, Some(3), "{}", again.stderr);
    let records = again.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let right = records.clone().find(|record| record["line"] == 1).unwrap();
    assert_eq!((&right["from_cache"], &right["exit"]), (&json!(true), &json!(0)));
    assert_eq!(records.count(), 4);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn ctrl_c_finishes_what_is_in_hand() {
    let program = Program::new();
    let mut process = CoProcess::start(&program, "1");
    process.give(&reply("first", &demo_replies()[0]));
    assert_eq!(process.record()["id"], "first");
    process.give(&reply("second", &demo_replies()[5]));
    process.give(&reply("third", &demo_replies()[5]));
    // The second is in hand once the ledger has it; the third may be, where this takes long.
    while !program.call(&["show", "@last:2"]).stdout.contains("#2") {}
    kill_process(Pid::from_child(&process.child), Signal::INT).unwrap();
    let (mut rest, code) = process.rest();
    assert_eq!(code, Some(130), "{rest:?}");
    let summary = rest.pop().unwrap();
    assert_eq!(summary["kind"], "interrupted");
    assert_eq!(summary["summary"]["judged"], rest.len() + 1);
    assert!(matches!(rest.len(), 1 | 2), "{rest:?}");
    for (record, id) in rest.iter().zip(["second", "third"]) {
        assert_eq!((&record["id"], &record["exit"]), (&json!(id), &json!(0)));
    }
    assert_eq!(program.verdicts().len(), rest.len() + 1);
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    assert!(program.call(&["status"]).stdout.contains("stopped"));
}
