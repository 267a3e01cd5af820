//! Living with a run: in the background, followed, told things, stopped, and events that reach a
//! program. The model is a mailbox or a program of the test, so that a run waits when it must.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Ended, Program};

/// Far more than any of this takes; only a hang meets it.
const HANG: Duration = Duration::from_secs(120);

/// A model that answers once the file `go` is there, which the answer takes away, or `always`.
pub(crate) fn settings(program: &Program, more: &str) {
    let script = program.path("answer.sh");
    // Bounded, so that a failed test leaves nobody behind.
    let text = "cat > /dev/null\necho >> \"$HOME/asked\"\nleft=4000\n\
                while ! rm \"$HOME/go\" 2>/dev/null; do\n  \
                [ -e \"$HOME/always\" ] && break\n  left=$((left - 1))\n  \
                [ $left -gt 0 ] || exit 1\n  sleep 0.05\ndone\n\
                echo 'I would rather not.'\n";
    std::fs::write(&script, text).unwrap();
    let text = format!(
        "default_model = 'slow'\n{more}\n[search]\nin_flight = 1\n[model.slow]\n\
         kind = 'command'\ncalls_at_once = 1\n\
         command = ['sh', '{}']\nprice = {{ input = 1.0, output = 10.0 }}\n\
         output_tokens_max = 4000\n",
        script.display()
    );
    std::fs::write(program.path("warpwright.toml"), text).unwrap();
}

pub(crate) fn go(program: &Program) {
    std::fs::write(program.path("go"), "").unwrap();
}

pub(crate) fn always(program: &Program) {
    std::fs::write(program.path("always"), "").unwrap();
}

pub(crate) fn ok(ended: Ended) -> Ended {
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    ended
}

pub(crate) fn status(program: &Program) -> Value {
    ok(program.call(&["status", "@last", "--json"])).closing()
}

pub(crate) fn until(what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < HANG, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Starts a run in the background, which waits for its first answer.
pub(crate) fn detached(program: &Program, more: &[&str]) -> Value {
    let arguments = [&["run", "vector_add", "--detach", "--json"], more].concat();
    ok(program.call(&arguments)).closing()
}

pub(crate) fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_run_goes_on_in_the_background_and_a_hang_up_does_not_end_it() {
    let program = Program::new();
    settings(&program, "");
    let begun = detached(&program, &["--attempts", "2"]);
    let (run, pid) = (begun["run"].as_str().unwrap(), begun["pid"].as_u64().unwrap());
    let log = Path::new(begun["log"].as_str().unwrap());
    assert!(log.to_str().unwrap().ends_with(&format!("ledger.db.{run}.log")), "{log:?}");
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(std::fs::metadata(log).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(status(&program)["state"], "running");
    // Its session is its own.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    assert_eq!(fields[3], pid.to_string(), "{stat}");
    let hung_up = std::process::Command::new("kill").args(["-HUP", &pid.to_string()]).status();
    assert!(hung_up.unwrap().success());
    std::thread::sleep(Duration::from_millis(300));
    assert!(is_alive(pid), "a hang-up ended it");
    always(&program);
    let followed = ok(program.call(&["status", "--follow", run, "--json"]));
    assert!(followed.stdout.contains("vector_add #1 "), "{}", followed.stdout);
    assert!(followed.stdout.contains("vector_add #2 "), "{}", followed.stdout);
    assert_eq!(followed.closing()["state"], "finished");
    until("the process ends", || !is_alive(pid));
    let text = std::fs::read_to_string(log).unwrap();
    assert!(
        text.contains("#2 ") && text.contains("Ended: the attempt limit was reached"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text}");
    assert_eq!(ok(program.call(&["ledger", "verify"])).code, Some(0));
}

#[test]
fn a_run_that_does_not_begin_says_why_with_its_code_and_leaves_no_log() {
    let program = Program::new();
    settings(&program, "");
    for (arguments, code, part) in [
        (vec!["run", "absent", "--detach"], 2, "no task `absent`"),
        (vec!["run", "vector_add", "--detach", "--model", "none"], 2, "no model `none`"),
        (vec!["run", "vector_add", "--detach", "--toolchain", "/absent"], 4, "/absent"),
        (
            vec!["run", "vector_add", "--detach", "--notify", "/absent/x"],
            2,
            "no program `/absent/x`",
        ),
    ] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(code), "{arguments:?}: {} {}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
        let names = std::fs::read_dir(program.path(".")).unwrap().map(|it| it.unwrap().file_name());
        let logs: Vec<_> = names.filter(|name| name.to_string_lossy().contains(".log")).collect();
        assert!(logs.is_empty(), "{logs:?}");
    }
    let ended = program.call(&["run", "absent", "--detach", "--json"]);
    assert_eq!(ended.closing()["exit"], 2);
    assert!(ended.closing()["reason"].as_str().unwrap().contains("no task `absent`"));
}

#[test]
fn a_run_stops_when_it_is_asked_to_and_goes_on_when_it_is_resumed() {
    for now in [false, true] {
        let program = Program::new();
        settings(&program, "");
        let begun = detached(&program, &["--attempts", "3"]);
        let (run, pid) = (begun["run"].as_str().unwrap(), begun["pid"].as_u64().unwrap());
        go(&program);
        until("the first attempt is closed", || status(&program)["tasks"][0]["closed"] == 1);
        let ended = if now {
            ok(program.call(&["stop", run, "--now", "--by", "ada"]))
        } else {
            // The question in hand waits for its reply.
            let waits = program.call(&["stop", run, "--wait", "1", "--by", "ada"]);
            assert_eq!(waits.code, Some(5), "{} {}", waits.stdout, waits.stderr);
            assert!(waits.stdout.contains("still finishes its step"), "{}", waits.stdout);
            go(&program);
            ok(program.call(&["stop", run, "--by", "ada"]))
        };
        assert!(ended.stdout.contains("stopped"), "{}", ended.stdout);
        until("the process ends", || !is_alive(pid));
        let found = status(&program);
        assert_eq!(found["state"], "stopped");
        assert!(found["told"].as_array().unwrap().iter().all(|row| row["by"] == "ada"));
        let again = ok(program.call(&["stop", run]));
        assert!(again.stdout.contains("is not on"), "{}", again.stdout);
        let followed = program.call(&["status", "--follow", run]);
        assert_eq!(followed.code, Some(130), "{}", followed.stdout);
        always(&program);
        ok(program.call(&["resume"]));
        let found = status(&program);
        assert_eq!((&found["state"], &found["attempts"]), (&"finished".into(), &3.into()));
        // The word that took the stop back is in the record.
        assert_eq!(found["told"].as_array().unwrap().last().unwrap()["said"], "resume");
        ok(program.call(&["ledger", "verify"]));
    }
}

#[test]
fn a_paused_run_waits_and_a_paused_task_lets_others_go_on() {
    let program = Program::new();
    settings(&program, "");
    let arguments = ["run", "vector_add", "gelu", "--attempts", "4", "--detach", "--json"];
    let begun = ok(program.call(&arguments)).closing();
    let run = begun["run"].as_str().unwrap();
    ok(program.call(&["tell", run, "vector_add", "--stop"]));
    ok(program.call(&["tell", run, "--pause"]));
    go(&program);
    until("the attempt in hand is closed", || status(&program)["tasks"][0]["closed"] == 1);
    always(&program);
    std::thread::sleep(Duration::from_millis(1_500));
    let paused = ok(program.call(&["status", run]));
    assert!(paused.stdout.contains("paused: `tell --resume`"), "{}", paused.stdout);
    assert_eq!(status(&program)["attempts"], 1);
    ok(program.call(&["tell", run, "--resume"]));
    let followed = ok(program.call(&["status", "--follow", run]));
    assert!(followed.stdout.contains("gelu #3 "), "{}", followed.stdout);
    let found = status(&program);
    let counts: Vec<_> = found["tasks"].as_array().unwrap().iter().collect();
    assert_eq!((&counts[0]["attempts"], &counts[1]["attempts"]), (&1.into(), &3.into()));
}

#[test]
fn a_hint_is_shown_once_as_data_and_kept() {
    let program = Program::new();
    settings(&program, "");
    let begun = detached(&program, &["--attempts", "3"]);
    let run = begun["run"].as_str().unwrap();
    let hint = "```\nuse float4 loads";
    ok(program.call(&["tell", run, "vector_add", "--hint", hint, "--weight", "3", "--by", "ada"]));
    always(&program);
    ok(program.call(&["status", "--follow", run]));
    let prompt = |seq: u32| ok(program.call(&["show", &format!("{run}:{seq}")])).stdout;
    let second = prompt(2);
    assert!(second.contains("# Suggested by a person"), "{second}");
    assert!(second.contains("````text\n```\nuse float4 loads\n````"), "{second}");
    assert!(second.contains("hint by ada: ``` use float4 loads"), "{second}");
    for seq in [1, 3] {
        assert!(!prompt(seq).contains("# Suggested by a person"), "{seq}");
    }
    let told = status(&program)["told"].clone();
    let said: Vec<_> = told.as_array().unwrap().iter().map(|row| &row["said"]).collect();
    assert_eq!(said[0]["weight"], 3.0);
    assert_eq!(said[1]["hint"], hint);
    assert_eq!(said[2]["shown"]["seq"], 2);
    assert!(ok(program.call(&["status", run])).stdout.contains("by ada: vector_add: weight 3"));
    ok(program.call(&["ledger", "verify"]));
}

/// Three attempts cost more than the first limit, and no call crosses the raised one.
#[test]
fn what_is_added_raises_the_cap_and_stays_until_a_new_one_is_named() {
    let program = Program::new();
    settings(&program, "");
    // The worst case of a call is some 0.06 dollars: two fit, not three.
    let begun = detached(&program, &["--attempts", "4", "--dollars", "0.13"]);
    let run = begun["run"].as_str().unwrap();
    ok(program.call(&["tell", run, "--add", "usd=0.07,attempts=1"]));
    let status_text = ok(program.call(&["status", run])).stdout;
    assert!(status_text.contains("5 attempts"), "{status_text}");
    assert!(status_text.contains("of 0.2000 dollars"), "{status_text}");
    always(&program);
    let followed = program.call(&["status", "--follow", run]);
    assert_eq!(followed.code, Some(5), "{}", followed.stdout);
    assert!(followed.stdout.contains("the dollar limit leaves no room"), "{}", followed.stdout);
    let found = status(&program);
    let booked: i64 = ["settled_nusd", "failed_nusd", "reserved_nusd", "lost_nusd"]
        .map(|field| found[field].as_i64().unwrap())
        .iter()
        .sum();
    assert!(booked <= 200_000_000, "{found}");
    assert!(booked > 130_000_000, "{found}");
    let attempts = found["attempts"].as_u64().unwrap();
    // The added money holds for a resumed run too: there is still none left.
    let resumed = program.call(&["resume", run]);
    assert_eq!(resumed.code, Some(5), "{} {}", resumed.stdout, resumed.stderr);
    assert_eq!(status(&program)["attempts"].as_u64().unwrap(), attempts);
    // A cap that `resume` names is the whole of it.
    let resumed = program.call(&["resume", run, "--dollars", "0.21"]);
    assert_eq!(resumed.code, Some(5), "{} {}", resumed.stdout, resumed.stderr);
    let text = ok(program.call(&["status", run])).stdout;
    assert!(text.contains("of 0.2100 dollars"), "{text}");
    ok(program.call(&["ledger", "verify"]));
}

#[test]
fn what_cannot_be_told_is_refused_with_the_way_out() {
    let program = Program::new();
    settings(&program, "");
    always(&program);
    ok(program.call(&["run", "vector_add", "--attempts", "1"]));
    let long = "x".repeat(3_000);
    for (arguments, part) in [
        (vec!["tell", "@last"], "required"),
        (vec!["tell", "@last", "gelu", "--pause"], "no task `gelu`: it has vector_add"),
        (vec!["tell", "@last", "--weight", "2"], "about one task"),
        (vec!["tell", "@last", "vector_add", "--weight", "0"], "more than 0"),
        (vec!["tell", "@last", "--add", "usd=5"], "no limit of dollars to add to"),
        (vec!["tell", "@last", "vector_add", "--add", "attempts=5"], "leave the task out"),
        (vec!["tell", "@last", "--hint", &long], "1 to 2000 bytes"),
        (vec!["tell", "@last", "--pause", "--stop"], "cannot be used with"),
        (vec!["tell", "nothing", "--pause"], "nothing"),
    ] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {} {}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments:?}: {}", ended.stderr);
    }
    assert_eq!(status(&program)["told"], Value::Array(Vec::new()));
    // What is told to a run that is not on holds when it goes on.
    let told = ok(program.call(&["tell", "@last", "--add", "attempts=2"]));
    assert!(told.stdout.contains("from its next `resume` on"), "{}", told.stdout);
    ok(program.call(&["resume"]));
    assert_eq!(status(&program)["attempts"], 3);
}

#[test]
fn events_reach_a_program_and_its_failure_is_one_note() {
    for (exit, notes) in [(0, 0), (7, 1)] {
        let program = Program::new();
        let (script, heard) = (program.path("hear.sh"), program.path("heard"));
        let text =
            format!("cat >> {}\nenv >> {}.env\nexit {exit}\n", heard.display(), heard.display());
        std::fs::write(&script, text).unwrap();
        settings(&program, &format!("notify = 'sh {}'", script.display()));
        always(&program);
        let secret = [("MY_API_KEY", "sk-do-not-show-me")];
        let ended = program.call_with(&["run", "vector_add", "--attempts", "2"], &secret);
        assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
        assert_eq!(ended.stderr.matches("the notify program ended with").count(), notes);
        let text = std::fs::read_to_string(&heard).unwrap();
        let events: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let shares: Vec<_> = events.iter().filter(|it| it["event"] == "cap_share").collect();
        let percents: Vec<_> = shares.iter().map(|it| it["percent"].as_u64().unwrap()).collect();
        assert_eq!(percents, [50, 100], "{text}");
        assert!(shares.iter().all(|it| it["cap"] == "attempts"), "{text}");
        let last = events.iter().find(|it| it["event"] == "finished").unwrap();
        assert_eq!(last["state"], "finished");
        assert_eq!(last["run"], status(&program)["run"]);
        let environment = std::fs::read_to_string(program.path("heard.env")).unwrap();
        assert!(!environment.contains("sk-do-not-show-me"), "{environment}");
    }
}
