//! What people do to a run, and to its ledger, that nobody should: each is noticed, said in one
//! line with the way out, and undone by that way.

use std::path::Path;
use std::process::Stdio;

use crate::crashes::faults::{check_error, with_mounts};
use crate::living::{always, detached, go, is_alive, ok, settings, status, until};
use crate::program::{Ended, Program};

/// A run of three attempts whose first is closed and whose second waits for its answer.
fn waiting(program: &Program) -> (String, u64) {
    let begun = detached(program, &["--attempts", "3"]);
    let (run, pid) = (begun["run"].as_str().unwrap(), begun["pid"].as_u64().unwrap());
    go(program);
    until("the first attempt is closed", || status(program)["tasks"][0]["closed"] == 1);
    until("the second question is sent", || status(program)["attempts"] == 2);
    (run.to_owned(), pid)
}

fn questions(program: &Program) -> usize {
    std::fs::read_to_string(program.path("asked")).unwrap_or_default().lines().count()
}

#[test]
fn a_ledger_that_is_taken_away_ends_its_run() {
    for (what, say) in [
        ("rm -f ledger.db", "it is not there any more"),
        ("cp ledger.db other; mv other ledger.db", "another file is in its place"),
        ("rm -f ledger.db-wal", "its -wal file was removed"),
    ] {
        let program = Program::new();
        settings(&program, "");
        let log = program.path("said");
        let mut child = program.command(env!("CARGO_BIN_EXE_warpwright"));
        child.args(["run", "vector_add", "--attempts", "5"]).stdout(Stdio::null());
        let mut child = child.stderr(std::fs::File::create(&log).unwrap()).spawn().unwrap();
        until("the first question is asked", || questions(&program) == 1);
        ok(program.in_shell(what, &[]));
        always(&program);
        let code = child.wait().unwrap().code();
        let stderr = std::fs::read_to_string(&log).unwrap();
        let ended = Ended { code, signal: None, stdout: String::new(), stderr };
        check_error(&ended, 7, &["ledger.db was removed or replaced", say, "put it back"]);
        assert_eq!(questions(&program), 1, "{what}: it asked on");
    }
}

/// A full disk is told apart by everyone who meets it, the run's next note included, and nothing
/// that it had is lost.
#[test]
fn a_full_disk_is_said_by_all_and_a_run_can_still_be_stopped() {
    let program = Program::new();
    settings(&program, "");
    let script = "set -e
        mkdir disk; mount -t tmpfs -o size=100m none disk
        export WARPWRIGHT_LEDGER=disk/ledger.db
        \"$1\" run vector_add --attempts 5 > out.txt 2> err.txt & run=$!
        i=0; until [ -e asked ]; do i=$((i+1)); test $i -lt 600; sleep 0.1; done
        mount -o remount,size=1m disk
        dd if=/dev/zero of=disk/fill bs=4k 2> /dev/null || true
        for what in 'tell @last --pause' 'stop @last --wait 0'; do
            \"$1\" $what > word.out 2> word.err && code=0 || code=$?
            cat word.out word.err >&2; echo \"code $code\"
        done
        touch go
        wait $run && code=0 || code=$?
        cat err.txt >&2; echo \"code $code\"
        rm disk/fill; mount -o remount,size=100m disk
        touch always
        \"$1\" resume
        rm -f ledger.db*; cp disk/ledger.db* .";
    let Some(ended) = with_mounts(&program, script, &[]) else { return };
    let said = format!("{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.code, Some(0), "{said}");
    let codes: Vec<_> = ended.stdout.lines().filter(|line| line.starts_with("code ")).collect();
    assert_eq!(codes, ["code 7", "code 0", "code 7"], "{said}");
    assert!(ended.stderr.contains("error: no space left for"), "{said}");
    assert!(ended.stderr.contains("is asked all the same, without a record"), "{said}");
    assert!(!said.contains("transaction depth"), "{said}");
    assert_eq!(ok(program.call(&["status", "--json", "@last"])).closing()["attempts"], 5);
    ok(program.call(&["ledger", "verify"]));
}

#[test]
fn what_a_run_is_told_while_it_is_not_on_holds_until_it_is_taken_back() {
    for word in ["--pause", "--stop"] {
        let program = Program::new();
        settings(&program, "");
        always(&program);
        ok(program.call(&["run", "vector_add", "--attempts", "1"]));
        ok(program.call(&["tell", "@last", word, "--by", "ada"]));
        for _ in 0..2 {
            let held = program.call(&["resume", "--attempts", "2"]);
            assert_eq!(held.code, Some(130), "{} {}", held.stdout, held.stderr);
            let what = format!("was told to {} by ada", &word[2..]);
            assert!(held.stdout.contains(&what), "{}", held.stdout);
            assert!(held.stdout.contains("--resume` takes that back"), "{}", held.stdout);
            assert_eq!(status(&program)["attempts"], 1);
        }
        ok(program.call(&["tell", "@last", "--resume"]));
        ok(program.call(&["resume", "--attempts", "2"]));
        assert_eq!(status(&program)["attempts"], 2);
    }
}

#[test]
fn resume_says_which_word_it_takes_back() {
    let program = Program::new();
    settings(&program, "");
    let (run, pid) = waiting(&program);
    ok(program.call(&["stop", &run, "--now"]));
    until("the process ends", || !is_alive(pid));
    always(&program);
    let resumed = ok(program.call(&["resume", &run]));
    let said = "the stop that this run was told while it was on ends here";
    assert!(resumed.stderr.contains(said), "{}", resumed.stderr);
}

/// Programs that hear of the end may take their time; the run is free.
#[test]
fn a_stopped_run_can_be_resumed_while_programs_are_told_of_its_end() {
    let program = Program::new();
    let script = program.path("slow.sh");
    std::fs::write(&script, "cat > /dev/null\nsleep 8\n").unwrap();
    settings(&program, &format!("notify = 'sh {}'", script.display()));
    let (run, pid) = waiting(&program);
    ok(program.call(&["stop", &run, "--now"]));
    assert!(is_alive(pid), "nothing was tested: its process is gone");
    always(&program);
    let resumed = program.call(&["resume", &run, "--notify", "true"]);
    assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
}

#[test]
fn a_process_that_is_suspended_is_said_to_be_so() {
    let program = Program::new();
    settings(&program, "");
    let (run, pid) = waiting(&program);
    let signal = |name: &str| {
        let sent = program.command("kill").args([name, &pid.to_string()]).status();
        assert!(sent.unwrap().success());
    };
    signal("-STOP");
    let ended = program.call(&["stop", &run, "--now", "--wait", "1"]);
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains(&format!("kill -CONT {pid}")), "{}", ended.stdout);
    assert!(!ended.stdout.contains("--now"), "{}", ended.stdout);
    // It stops after the step in hand, which ends with the answer.
    signal("-CONT");
    always(&program);
    until("the process ends", || !is_alive(pid));
    assert_eq!(status(&program)["state"], "stopped");
}

#[test]
fn who_follows_ends_as_the_run_did() {
    let program = Program::new();
    settings(&program, "");
    always(&program);
    ok(program.call(&["run", "vector_add", "--attempts", "1"]));
    ok(program.call(&["tell", "@last", "vector_add", "--stop"]));
    let resumed = program.call(&["resume", "--attempts", "2"]);
    let followed = program.call(&["status", "--follow", "@last"]);
    assert_eq!((resumed.code, followed.code), (Some(130), Some(130)), "{}", followed.stdout);
}

/// What is printed at the end works where operators have limits of their own.
#[test]
fn more_attempts_than_the_operators_own_are_shared_in_proportion() {
    let program = Program::new();
    settings(&program, "");
    always(&program);
    let text = "run = 1\n[[operator]]\ntask = 'vector_add'\nattempts = 1\n\
                [[operator]]\ntask = 'gelu'\nattempts = 2\n";
    std::fs::write(program.path("run.toml"), text).unwrap();
    let ran = ok(program.call(&["run", "run.toml"]));
    let advice = "resume @last --attempts 13";
    assert!(ran.stdout.contains(advice), "{}", ran.stdout);
    let refused = program.call(&["tell", "@last", "--add", "attempts=3"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("own `attempts` allow 3 together"), "{}", refused.stderr);
    ok(program.call(&["resume", "@last", "--attempts", "6"]));
    let found = status(&program);
    let counts: Vec<_> = found["tasks"].as_array().unwrap().iter().collect();
    assert_eq!((&counts[0]["attempts"], &counts[1]["attempts"]), (&2.into(), &4.into()));
}

#[test]
fn a_copy_is_never_written_over_a_file() {
    let program = Program::new();
    settings(&program, "");
    always(&program);
    ok(program.call(&["run", "vector_add", "--attempts", "1"]));
    std::fs::write(program.path("taken"), "mine").unwrap();
    let ended = program.call(&["ledger", "copy", "taken"]);
    check_error(&ended, 2, &["taken is there already", "name another file"]);
    assert_eq!(std::fs::read_to_string(program.path("taken")).unwrap(), "mine");
    for arguments in [&["ledger", "copy", "none/c.db"][..], &["report", "--html", "none/r.html"]] {
        let ended = program.call(arguments);
        check_error(&ended, 2, &["no folder", "none", "to write into; make it"]);
        assert!(!Path::new(&program.path("none")).exists());
    }
}

/// A text in the form of a key, which must never be seen again.
const SECRET: &str = "sk-proj-Zq3vT8nK2mW7xB4cY9dL6fH1";

#[test]
fn what_a_models_program_says_is_shown_without_secrets() {
    let program = Program::new();
    let script = program.path("fails.sh");
    std::fs::write(&script, format!("printf '\\033[31m{SECRET}' >&2\nexit 77\n")).unwrap();
    let text = format!(
        "default_model = 'failing'\n[model.failing]\nkind = 'command'\n\
         command = ['sh', '{}']\nprice = 'free'\n",
        script.display()
    );
    std::fs::write(program.path("warpwright.toml"), text).unwrap();
    for arguments in [&["run", "vector_add"][..], &["doctor", "--model", "failing"]] {
        let ended = program.call(arguments);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains("the model's program has no valid key"), "{said}");
        assert!(!said.contains(SECRET) && !said.contains('\u{1b}'), "{said}");
    }
}

#[test]
fn slips_in_files_and_flags_are_refused_in_plain_words() {
    let program = Program::new();
    settings(&program, "");
    always(&program);
    let run_file = |head: &str, operator: &str| {
        let text = format!("run = 1\n{head}\n[[operator]]\ntask = 'vector_add'\n{operator}\n");
        std::fs::write(program.path("run.toml"), text).unwrap();
        program.call(&["run", "run.toml"])
    };
    for (head, operator, part) in [
        ("", "weight = 1e9", "write at most 1000000"),
        ("", "classes = []", "`classes = []` admits nothing"),
        ("until = 07:30:00", "", "a time without quotes"),
        ("", "attempts = 1.5", "expected a whole number"),
    ] {
        let ended = run_file(head, operator);
        assert_eq!(ended.code, Some(2), "{head}{operator}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{head}{operator}: {}", ended.stderr);
    }
    let prices = ["--price", "slow=1/2", "--price", "slow=2/3"];
    let twice = program.call(&[&["run", "vector_add", "--model", "slow"][..], &prices].concat());
    check_error(&twice, 2, &["--price slow=...", "given twice"]);
    ok(program.call(&["run", "vector_add", "--attempts", "1"]));
    let twice = program.call(&["tell", "@last", "--add", "attempts=1,attempts=2"]);
    check_error(&twice, 2, &["attempts is there twice"]);
    let hint = program.call(&["tell", "@last", "--json", "--hint", &format!("use {SECRET}")]);
    assert!(hint.code == Some(0) && !hint.stdout.contains(SECRET), "{}", hint.stdout);
    let text = format!("[model.keyed]\nkind = 'openai'\nmodel = 'm'\nkey_env = '{SECRET}'\n");
    std::fs::write(program.path("warpwright.toml"), text).unwrap();
    let keyed = program.call(&["run", "vector_add", "--model", "keyed"]);
    check_error(&keyed, 2, &["`key_env` is the name of a variable"]);
    assert!(!keyed.stderr.contains(SECRET), "{}", keyed.stderr);
}
