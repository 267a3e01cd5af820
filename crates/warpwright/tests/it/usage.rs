//! Bad input of any kind: a clear error that names the thing and the way out, and its exit code.

use crate::program::{Program, SEED, demo_replies, entry};

#[test]
fn bad_input_is_named_with_the_way_out() {
    let program = Program::new();
    let not_a_transcript = program.path("notes.txt");
    std::fs::write(&not_a_transcript, "hello").unwrap();
    let notes = format!("replay:{}", not_a_transcript.display());
    let empty = program.path("empty");
    std::fs::create_dir(&empty).unwrap();
    for (arguments, code, part) in [
        (vec!["run", "absent", "--model", "replay:x"], 2, "no task `absent`: built in are "),
        (vec!["run", "softmax_rows", "--model", "gpt"], 2, "or write openai:MODEL"),
        (vec!["run", "softmax_rows", "--model", "replay:/absent"], 2, "/absent"),
        (vec!["run", "softmax_rows", "--model", &notes], 2, "transcript"),
        (vec!["run", "softmax_rows", "--model", "replay:x", "--attempts", "0"], 2, "--attempts"),
        (
            vec![
                "run",
                "softmax_rows",
                "--model",
                "replay:x",
                "--prompts",
                empty.to_str().unwrap(),
            ],
            2,
            "`system.md` is missing",
        ),
        (vec!["run", "softmax_rows"], 2, "--model"),
        (vec!["resume"], 2, "does not exist"),
        (vec!["status"], 2, "does not exist"),
        (vec!["fly"], 2, "unrecognized subcommand"),
        (vec!["demo", "--toolchain", "/absent"], 4, "/absent"),
    ] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    assert!(!program.ledger().exists(), "bad input made a ledger");
}

#[test]
fn what_is_no_bundle_is_said_to_be_none() {
    let program = Program::new();
    let packed = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    for bytes in [
        b"__global__ void k() {}".to_vec(),
        Vec::new(),
        tar_of_a_folder(),
        packed(b"no archive"),
        packed(&tar_of_a_folder()),
    ] {
        std::fs::write(program.path("file"), &bytes).unwrap();
        let ended = program.call(&["reproduce", "file"]);
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        let words = "file: refused: it is not a bundle of `export`: ";
        assert!(ended.stderr.contains(words), "{}", ended.stderr);
    }
}

/// As `tar -c .` makes it.
fn tar_of_a_folder() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("kernel.cu"), "int x;").unwrap();
    let mut archive = tar::Builder::new(Vec::new());
    archive.append_dir_all("./", folder.path()).unwrap();
    archive.into_inner().unwrap()
}

#[test]
fn a_usage_error_is_whole_in_the_closing_line() {
    for (arguments, reason) in [
        (
            &["evaluate"][..],
            "the following required arguments were not provided: <TASK> <CANDIDATE>...",
        ),
        (&["fly"], "unrecognized subcommand 'fly'"),
    ] {
        let ended = Program::new().call(&[arguments, &["--json"]].concat());
        assert_eq!(ended.code, Some(2), "{}", ended.stderr);
        assert_eq!(ended.closing()["reason"], reason);
    }
}

#[test]
fn a_transcript_that_ends_stops_the_run_and_a_longer_one_resumes_it() {
    let program = Program::new();
    let replies = demo_replies();
    let model = program.transcript(&replies[..2]);
    let ended =
        program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "3", "--json"]);
    assert_eq!(ended.code, Some(5), "{}", ended.stderr);
    assert!(ended.closing()["reason"].as_str().unwrap().contains("exhausted"), "{}", ended.stdout);
    assert_eq!(program.verdicts().len(), 2);
    program.transcript(&replies[..3]);
    let resumed = program.call(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{}", resumed.stderr);
    assert_eq!(program.verdicts().len(), 3);
}

#[test]
fn changed_settings_outlive_a_kill_and_are_in_the_log() {
    let program = Program::new();
    let nonsense = |seq| entry(seq, "no fences");
    let model = program.transcript_of(&[nonsense(1)]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let events = || program.call(&["ledger", "verify"]).stdout;
    // run_started, asked, sent, ticket_stored, replied, closed, run_finished: none reopened.
    assert!(events().contains(": 7 events, intact"), "{}", events());
    let longer = program.path("longer.jsonl");
    let entries: Vec<_> = (1..=3).map(nonsense).collect();
    std::fs::write(&longer, pipeline::transcript::write(&entries)).unwrap();
    let longer = format!("replay:{}", longer.display());
    let arguments = ["resume", "--attempts", "3", "--model", &longer];
    let killed = program.call_with(&arguments, &[("WARPWRIGHT_KILL_AT", "closed:2")]);
    assert_eq!(killed.signal, Some(9), "{}", killed.stderr);
    // run_reopened, settings_changed, and the second attempt.
    assert!(events().contains(": 14 events, intact"), "{}", events());
    let resumed = program.call(&["resume"]);
    assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
    assert_eq!(program.verdicts().len(), 3);
    assert!(events().contains(": 21 events, intact"), "{}", events());
    let refused = program.call(&["resume", "--attempts", "9", "--model", "replay:/absent"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(program.call(&["resume"]).stdout.contains("is finished"));
    assert!(events().contains(": 21 events, intact"), "{}", events());
}

#[test]
fn a_providers_failures_are_asked_again_and_never_count_as_attempts() {
    let program = Program::new();
    let right = demo_replies().pop().unwrap();
    let failing =
        pipeline::transcript::Entry { error: Some("503 overloaded".to_owned()), ..entry(1, "") };
    let model = program.transcript_of(&[failing.clone(), failing, entry(1, &right)]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "1"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("asking again"), "{}", ended.stdout);
    assert_eq!(program.verdicts(), ["Correct "]);
    assert!(program.call(&["status", "@last"]).stdout.contains("2 calls failed"));
}

#[test]
fn strict_replay_refuses_a_reply_to_another_prompt() {
    let program = Program::new();
    let mut drifted = entry(1, &demo_replies()[0]);
    drifted.prompt_hash = "0".repeat(64);
    let model = program.transcript_of(&[drifted]);
    let arguments = ["run", "softmax_rows", "--model", &model, "--attempts", "1"];
    assert_eq!(program.call(&arguments).code, Some(0));
    assert!(program.call(&["status", "@last"]).stdout.contains("1 drifted"));
    let strict: Vec<_> = arguments.iter().copied().chain(["--strict-replay"]).collect();
    let ended = program.call(&strict);
    assert_eq!(ended.code, Some(5), "{}", ended.stdout);
    assert!(ended.stdout.contains("drift"), "{}", ended.stdout);
}

#[test]
fn a_second_process_cannot_drive_the_same_run() {
    let program = Program::new();
    let model = program.transcript(&demo_replies()[..1]);
    program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "2"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let held = runtime.block_on(async {
        let store = store::Store::open(&program.ledger()).await.unwrap();
        let run = store.resolve_run("@last").await.unwrap();
        (store.lock_run(&run).unwrap(), store)
    });
    let ended = program.call(&["resume"]);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    assert!(ended.stderr.contains("is driven by process"), "{}", ended.stderr);
    drop(held);
}

#[test]
fn what_is_about_a_run_takes_no_attempt() {
    let program = Program::new();
    let model = program.transcript(&demo_replies()[..1]);
    program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "1"]);
    for arguments in [vec!["status", "@last:1"], vec!["report", "@last:1"]] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("`show @last:1` shows a part of it"), "{}", ended.stderr);
    }
    assert_eq!(program.call(&["status", "@last"]).code, Some(0));
}

#[test]
fn a_damaged_ledger_is_refused_and_left_alone() {
    let program = Program::new();
    std::fs::write(program.ledger(), vec![7; 8192]).unwrap();
    let ended = program.call(&["status"]);
    assert_eq!(ended.code, Some(7), "{}", ended.stderr);
    assert_eq!(std::fs::read(program.ledger()).unwrap(), vec![7; 8192]);
}

/// A run that was killed while it made the ledger left nothing to go on with, and no damage.
#[test]
fn an_unfinished_ledger_has_no_run_and_is_completed() {
    let program = Program::new();
    let model = program.transcript(&demo_replies());
    std::fs::write(program.ledger(), "").unwrap();
    let ended = program.call(&["resume"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("start a run to complete it"), "{}", ended.stderr);
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", "1", "--seed", SEED];
    let ended = program.call(&run);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn the_program_describes_itself() {
    let program = Program::new();
    for (arguments, parts) in [
        (vec!["--version"], vec!["warpwright 0.", "commit ", "judge "]),
        (vec!["--help"], vec!["Exit codes:", "demo", "doctor", "--ledger"]),
        (vec!["completions", "bash"], vec!["_warpwright()"]),
        (vec!["man"], vec![".TH warpwright"]),
        (vec!["toolchain", "list"], vec!["NVRTC 13.0.88"]),
        (
            vec!["doctor"],
            vec![
                "ok  compile and simulate in children: 36 golden values agree",
                "GPU: none: the device is `sim`",
                "PyTorch: ",
                "cuBLAS: ",
                "ncu: ",
                "compute-sanitizer: ",
            ],
        ),
        (vec!["selftest", "gpu", "--help"], vec!["calibration, sanitizer, null", "simulator: cat"]),
        (vec!["task", "check", "--help"], vec!["a task is refused", "reference.py"]),
    ] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {} {}", ended.stdout, ended.stderr);
        // Where a line of help is broken is no matter.
        let said = ended.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            let found = said.contains(part) || ended.stdout.contains(part);
            assert!(found, "{arguments:?}: {part} not in {}", ended.stdout);
        }
    }
}

#[test]
fn what_the_doctor_finds_is_in_its_closing_line() {
    let ended = Program::new().call(&["doctor", "--json"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let closing = ended.closing();
    let findings = closing["findings"].as_array().unwrap();
    for (what, states) in [
        ("CUDA compiler", &["ok"][..]),
        ("GPU", &["remark"]),
        ("PyTorch", &["ok", "remark"]),
        ("cuBLAS", &["ok", "remark"]),
        ("ncu", &["ok", "remark"]),
        ("compute-sanitizer", &["ok", "remark"]),
    ] {
        let found = findings.iter().find(|it| it["what"] == what);
        let state = found.and_then(|it| it["state"].as_str()).unwrap_or_default();
        assert!(states.contains(&state), "{what}: {closing}");
    }
}

/// A person's kernel takes the same path as a model's, from a reply or a folder, with exit codes.
#[test]
fn evaluate_judges_one_kernel() {
    let program = Program::new();
    let replies = demo_replies();
    let (wrong, right) = (program.path("wrong.md"), program.path("right.md"));
    std::fs::write(&wrong, &replies[2]).unwrap();
    std::fs::write(&right, &replies[5]).unwrap();
    let folder = program.path("candidate");
    std::fs::create_dir(&folder).unwrap();
    let fences = pipeline::reply::fences(&replies[5]).unwrap();
    std::fs::write(folder.join("kernel.cu"), fences.source).unwrap();
    std::fs::write(folder.join("plan.toml"), fences.plan).unwrap();
    for (candidate, code, kind, part) in [
        (&wrong, 3, "did-not-pass", "case `ragged`"),
        (&right, 0, "done", "estimate (no GPU)"),
        (&folder, 0, "done", "registers"),
    ] {
        let path = candidate.to_str().unwrap();
        let ended = program.call(&["evaluate", "softmax_rows", path, "--json"]);
        assert_eq!(ended.code, Some(code), "{}", ended.stderr);
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
        let closing = ended.closing();
        assert_eq!(closing["kind"], kind);
        let verdict = closing["verdict"]["kind"].as_str().unwrap();
        assert_eq!(verdict == "Correct", code == 0);
        assert_eq!(closing["report"]["cases"].as_array().unwrap().len(), 6);
    }
    let listed = program.call(&["status", "--json"]);
    for part in ["wrong.md; ", "right.md; ", "1 (Wrong 1); ", " Correct; "] {
        assert!(listed.stdout.contains(part), "{part}: {}", listed.stdout);
    }
    let closing = listed.closing();
    assert_eq!(closing["runs"][0]["verdicts"]["Correct"], 1, "{closing}");
    let (once, again) = (&["show", "@last:1", "--out", "best"], "exists already; name another");
    assert_eq!(program.call(once).code, Some(0));
    let ended = program.call(once);
    assert!(ended.code == Some(2) && ended.stderr.contains(again), "{}", ended.stderr);
    let absent = program.call(&["evaluate", "softmax_rows", "/absent.md"]);
    assert_eq!(absent.code, Some(2), "{}", absent.stderr);
    assert!(absent.stderr.contains("/absent.md"), "{}", absent.stderr);
}
