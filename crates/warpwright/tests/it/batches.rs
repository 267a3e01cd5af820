//! The batch lane end to end: a scripted server, the real program, the money in the ledger.

use std::sync::Arc;

use llm::conformance::{BatchRules, BatchScript, Begin, HttpScript, Line, Play};
use pipeline::transcript::Usage;
use serde_json::{Value, json};

use crate::program::Program;
use crate::server::{call, settings};

const KEY: &str = "sk-do-not-show-me";
const USAGE: Usage = Usage::of(1_000, 100);
/// An answer of [`USAGE`] costs 0.002 dollars at once, and half of it in a batch.
const AT_ONCE_NUSD: i64 = 2_000_000;
const IN_BATCH_NUSD: i64 = 1_000_000;
const NO_FENCE: &str = "I would rather not.";
const LANE: &str =
    "lane = 'batch'\nbatch_price = 0.5\nbatch_collect_s = 0.05\nbatch_poll_s = 0.05\n";

fn start(rules: BatchRules) -> (Arc<BatchScript>, HttpScript) {
    let script = Arc::new(BatchScript::new(rules));
    let player = script.clone();
    (script, HttpScript::respond(move |asked| player.play(asked)).unwrap())
}

fn rules() -> BatchRules {
    BatchRules {
        answer: Box::new(|_, _| Line::Chat { text: NO_FENCE.to_owned(), usage: USAGE }),
        chat: Box::new(|asked| Play::answer(asked, NO_FENCE, Some(USAGE))),
        ..BatchRules::default()
    }
}

fn status(program: &Program) -> Value {
    program.call(&["status", "@last", "--json"]).closing()
}

fn calls(program: &Program, seq: u32) -> Vec<Value> {
    let shown = program.call(&["show", &format!("@last:{seq}"), "--json"]).closing();
    shown["calls"].as_array().unwrap().clone()
}

#[test]
fn a_run_is_answered_by_batches_at_their_price() {
    let program = Program::new();
    let (script, server) = start(rules());
    settings(&program, &server, LANE);
    let ended = call(&program, &["run", "vector_add", "--attempts", "2", "--dollars", "1"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    assert_eq!(status(&program)["settled_nusd"], 2 * IN_BATCH_NUSD);
    assert_eq!((script.batches().len(), script.runs().len()), (2, 2));
    // Half of what the same call would have reserved at once.
    let reserved = calls(&program, 1)[0]["reserved_nusd"].as_i64().unwrap();
    let other = Program::new();
    settings(&other, &server, "");
    call(&other, &["run", "vector_add", "--attempts", "1", "--dollars", "1"]);
    let at_once = calls(&other, 1)[0]["reserved_nusd"].as_i64().unwrap();
    assert!(at_once == 2 * reserved || at_once == 2 * reserved - 1, "{at_once} {reserved}");
    assert_eq!(status(&other)["settled_nusd"], AT_ONCE_NUSD);
}

/// What is charged is settled or lost, each once, whenever the program dies; what an earlier
/// process handed over is found and never run twice.
#[test]
fn nothing_is_run_twice_whenever_the_program_dies() {
    for at in ["asked:1", "sent:1", "submitted:1", "ticketed:1", "replied:1", "asked:2"] {
        let program = Program::new();
        let (script, server) = start(rules());
        settings(&program, &server, LANE);
        let arguments = ["run", "vector_add", "--attempts", "2", "--dollars", "1"];
        let environment = [("SERVED_KEY", KEY), ("WARPWRIGHT_KILL_AT", at)];
        let ended = program.call_with(&arguments, &environment);
        assert_eq!(ended.signal, Some(9), "{at}: {} {}", ended.stdout, ended.stderr);
        let resumed = call(&program, &["resume"]);
        assert_eq!(resumed.code, Some(0), "{at}: {} {}", resumed.stdout, resumed.stderr);
        let found = status(&program);
        assert_eq!(found["settled_nusd"], 2 * IN_BATCH_NUSD, "{at}: {found}");
        assert_eq!(found["lost_nusd"], 0, "{at}: {found}");
        assert!(script.runs().values().all(|runs| *runs == 1), "{at}: {:?}", script.runs());
        assert_eq!(script.runs().len(), 2, "{at}");
        assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    }
}

/// A process that is killed while its batch is on: the next one waits for the same batch.
#[test]
fn a_batch_that_is_on_is_taken_up_by_the_next_process() {
    let program = Program::new();
    let slow = BatchRules { looks: Some(40), ..rules() };
    let (script, server) = start(slow);
    settings(&program, &server, LANE);
    let more = ["run", "vector_add", "--attempts", "1", "--dollars", "1", "--detach", "--json"];
    let begun = call(&program, &more).closing();
    let pid = begun["pid"].as_u64().unwrap().to_string();
    while script.batches().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    // The id of the batch is known once the answer to its beginning is read.
    std::thread::sleep(std::time::Duration::from_millis(200));
    std::process::Command::new("kill").args(["-9", &pid]).status().unwrap();
    let resumed = call(&program, &["resume"]);
    assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
    assert_eq!(script.batches().len(), 1);
    assert_eq!(script.runs().into_values().collect::<Vec<_>>(), [1]);
    let found = status(&program);
    assert_eq!((&found["settled_nusd"], &found["lost_nusd"]), (&IN_BATCH_NUSD.into(), &0.into()));
}

#[test]
fn what_a_batch_does_not_answer_in_time_is_asked_at_once_and_each_is_booked_once() {
    for (name, change, in_batch) in [
        ("cancelled late", BatchRules { looks: None, ..rules() }, false),
        ("answered meanwhile", BatchRules { looks: None, run_before_cancel: 1, ..rules() }, true),
        (
            "expired",
            BatchRules { end: "expired", answer: Box::new(|_, _| Line::NotRun), ..rules() },
            false,
        ),
    ] {
        let program = Program::new();
        let (script, server) = start(change);
        settings(&program, &server, &format!("{LANE}batch_deadline_minutes = 0.001\n"));
        let ended = call(&program, &["run", "vector_add", "--attempts", "1", "--dollars", "1"]);
        assert_eq!(ended.code, Some(0), "{name}: {} {}", ended.stdout, ended.stderr);
        let found = status(&program);
        let wanted = if in_batch { IN_BATCH_NUSD } else { AT_ONCE_NUSD };
        assert_eq!(found["settled_nusd"], wanted, "{name}: {found}");
        assert_eq!((&found["lost_nusd"], &found["failed_nusd"]), (&0.into(), &0.into()), "{name}");
        let calls = calls(&program, 1);
        let states: Vec<_> = calls.iter().map(|call| call["state"].as_str().unwrap()).collect();
        let lanes: Vec<_> = calls.iter().map(|call| call["provider"].as_str().unwrap()).collect();
        if in_batch {
            assert_eq!((states, lanes), (vec!["settled"], vec!["openai-batch"]), "{name}");
        } else {
            assert_eq!(states, ["failed", "settled"], "{name}");
            assert_eq!(lanes, ["openai-batch", "openai"], "{name}");
        }
        assert_eq!(script.runs().len(), usize::from(in_batch), "{name}");
    }
}

#[test]
fn failures_of_a_batch_are_asked_again_with_the_right_money_booked() {
    let limited = json!({"error": {"message": "slow down", "code": 429}});
    let count = std::sync::atomic::AtomicU32::new(0);
    let first_fails = move |_: &str, _: &Value| {
        if count.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 0 {
            return Line::Status { status: 429, body: limited.clone() };
        }
        Line::Chat { text: NO_FENCE.to_owned(), usage: USAGE }
    };
    for (name, change, failed) in [
        ("a line", BatchRules { answer: Box::new(first_fails), ..rules() }, 1),
        ("its beginning is not told", BatchRules { begin: Begin::Untold, ..rules() }, 0),
    ] {
        let program = Program::new();
        let (script, server) = start(change);
        settings(&program, &server, LANE);
        let ended = call(&program, &["run", "vector_add", "--attempts", "1", "--dollars", "1"]);
        assert_eq!(ended.code, Some(0), "{name}: {} {}", ended.stdout, ended.stderr);
        let states: Vec<_> =
            calls(&program, 1).iter().map(|it| it["state"].as_str().unwrap().to_owned()).collect();
        assert_eq!(states.iter().filter(|state| *state == "failed").count(), failed, "{name}");
        let found = status(&program);
        assert_eq!(found["settled_nusd"], IN_BATCH_NUSD, "{name}");
        assert_eq!(found["lost_nusd"], 0, "{name}");
        assert_eq!(script.runs().len(), 1, "{name}");
    }
}
