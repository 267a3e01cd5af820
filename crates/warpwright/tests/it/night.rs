//! A night nobody watches: many tasks and calls at once, a server that fails in every way, a cap
//! that is spent nearly to the end and never crossed, models that go away and come back.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use llm::conformance::{Asked, HttpScript, Play};
use pipeline::transcript::Usage;
use serde_json::{Value, json};

use crate::program::{Ended, Program};

/// A reply that is judged without compiler: the calls are what this is about.
const NO_FENCE: &str = "I would rather not.";
/// Dollars per million tokens.
const PRICE: &str = "{ input = 1.0, output = 10.0 }";
/// Tasks and attempts at each, here and with `WARPWRIGHT_FULL_TESTS=1`.
const SIZE: [u64; 2] = [12, 20];
const FULL_SIZE: [u64; 2] = [200, 20];

fn size() -> [u64; 2] {
    if std::env::var_os("WARPWRIGHT_FULL_TESTS").is_some() { FULL_SIZE } else { SIZE }
}

/// A server section of the settings file.
pub(crate) fn section(name: &str, server: &HttpScript, more: &str) -> String {
    format!(
        "[model.{name}]\nkind = 'openai'\nmodel = '{name}'\nbase_url = '{}'\nprice = {PRICE}\n\
         idle_timeout_s = 1\nfirst_byte_timeout_s = 1\nconnect_timeout_s = 1\n{more}\n",
        server.base_url()
    )
}

pub(crate) fn write_settings(program: &Program, sections: &[String]) {
    std::fs::write(program.path("warpwright.toml"), sections.concat()).unwrap();
}

/// Task folders that differ in nothing but their names, and the run file that lists them.
pub(crate) fn write_run(program: &Program, tasks: u64, more: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/vector_add");
    let mut text = format!("run = 1\n{more}\n");
    for index in 0..tasks {
        let name = format!("task_{index}");
        let folder = program.path(&name);
        for part in ["", "wrong", "baseline"] {
            std::fs::create_dir_all(folder.join(part)).unwrap();
            for entry in source.join(part).read_dir().unwrap() {
                let path = entry.unwrap().path();
                if path.is_file() {
                    let to = folder.join(part).join(path.file_name().unwrap());
                    std::fs::copy(&path, to).unwrap();
                }
            }
        }
        let file = folder.join("task.toml");
        let toml = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, toml.replace("\"vector_add\"", &format!("\"{name}\""))).unwrap();
        text.push_str(&format!("[[operator]]\ntask = \"{name}\"\n"));
    }
    std::fs::write(program.path("run.toml"), text).unwrap();
    program.path("run.toml").to_str().unwrap().to_owned()
}

fn status(program: &Program) -> Value {
    program.call(&["status", "@last", "--json"]).closing()
}

fn passed(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
}

/// What the server knows.
#[derive(Default)]
struct Far {
    asked: AtomicU64,
    /// Answers that it charges for, whether they arrive or not.
    charged: AtomicU64,
    tokens: AtomicU64,
    /// When nothing works any more, and for how long.
    outage: OnceLock<Instant>,
}

/// The question from which on nothing works, and for how long.
const OUTAGE_FROM: u64 = 60;
const OUTAGE: Duration = Duration::from_secs(8);

/// One of the ways in which a night goes wrong: of a hundred questions ten are limited, five meet
/// a broken server, two are answered into silence and one with garbage; for a while nothing works.
fn night(far: &Far) -> Play {
    let number = far.asked.fetch_add(1, Ordering::SeqCst);
    let is_out = |begun: &Instant| begun.elapsed() < OUTAGE;
    if number >= OUTAGE_FROM && is_out(far.outage.get_or_init(Instant::now)) {
        return Play::response(503, &[], "{}");
    }
    // A permutation of 0..100, so that each hundred has its share in an odd order.
    match number * 37 % 100 {
        0..10 => Play::response(429, &[("retry-after", "0")], "{}"),
        10..15 => Play::response(500, &[], "{}"),
        kind => {
            far.charged.fetch_add(1, Ordering::SeqCst);
            match kind {
                15..17 => Play::close().hold(),
                17 => Play::response(200, &[], "<html>"),
                _ => {
                    let usage = Usage::of(1_000, 100 + number % 50);
                    far.tokens
                        .fetch_add(usage.input_tokens + usage.output_tokens, Ordering::SeqCst);
                    Play::stream(&[NO_FENCE], Some(usage))
                }
            }
        }
    }
}

#[test]
fn a_night_of_faults_ends_with_every_attempt_and_equal_books() {
    let program = Program::new();
    let [tasks, attempts] = size();
    let far = Arc::new(Far::default());
    let seen = Arc::clone(&far);
    let server = HttpScript::respond(move |_| night(&seen)).unwrap();
    write_settings(&program, &[section("served", &server, "output_tokens_max = 5000")]);
    let run = write_run(&program, tasks, "[search]\nplateau = 0");
    let total = (tasks * attempts).to_string();
    let arguments = ["run", &run, "--model", "served", "--attempts", &total, "--dollars", "500"];
    let ended = program.call(&arguments);
    passed(&ended);
    let (status, charged) = (status(&program), far.charged.load(Ordering::SeqCst));
    assert_eq!(status["attempts"], tasks * attempts);
    for task in status["tasks"].as_array().unwrap() {
        // Where nothing is gained none is preferred; what is under way makes small differences.
        let made = task["attempts"].as_u64().unwrap();
        assert!(made.abs_diff(attempts) <= 8, "{made} of {attempts}");
    }
    let tokens =
        status["input_tokens"].as_u64().unwrap() + status["output_tokens"].as_u64().unwrap();
    assert_eq!(tokens, far.tokens.load(Ordering::SeqCst));
    let report = program.run_report();
    let closed = report["tasks"].as_array().unwrap().iter().flat_map(|task| {
        task["attempts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|attempt| attempt["verdict"]["kind"].clone())
    });
    assert!(closed.into_iter().all(|kind| kind == "Malformed"), "no fault is an attempt's failure");
    let calls = status["calls"].clone();
    let count = |state: &str| calls[state].as_u64().unwrap();
    assert_eq!(count("settled"), tasks * attempts);
    assert_eq!(count("settled") + count("lost"), charged, "{calls}");
    assert_eq!(count("reserved"), 0);
    assert!(ended.stdout.contains("served is not asked for"), "the outage was noticed");
    assert!(ended.stdout.contains("served answers again"));
    assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
}

#[test]
fn nearly_all_of_a_cap_is_spent_and_no_token_more() {
    let program = Program::new();
    let cap = 3_000_000;
    let most = Arc::new(Mutex::new((0_u64, 0_u64)));
    let seen = Arc::clone(&most);
    let answer = move |_: &Asked| {
        let mut seen = seen.lock().unwrap();
        seen.0 += 2_000 + 12_000;
        seen.1 += 1;
        Play::stream(&[NO_FENCE], Some(Usage::of(2_000, 12_000))).wait(20)
    };
    let server = HttpScript::respond(answer).unwrap();
    write_settings(&program, &[section("served", &server, "output_tokens_max = 64000")]);
    let run = write_run(&program, 4, "[search]\nplateau = 0\nin_flight = 8");
    let cap_text = cap.to_string();
    let more = ["--attempts", "9999", "--tokens", &cap_text];
    let ended = program.call(&[&["run", &run, "--model", "served"], &more[..]].concat());
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("the token limit leaves no room"), "{}", ended.stdout);
    let (charged, calls) = *most.lock().unwrap();
    assert!(charged <= cap && charged * 100 >= cap * 97, "{charged} in {calls} calls");
    let status = status(&program);
    let used = status["input_tokens"].as_u64().unwrap() + status["output_tokens"].as_u64().unwrap();
    assert_eq!(used, charged);
    let rest = format!("rest      {} tokens, too little for another call", cap - charged);
    let shown = program.call(&["status", "@last"]).stdout;
    assert!(shown.contains(&rest), "{shown}");
}

#[test]
fn another_model_answers_while_one_is_down() {
    let program = Program::new();
    let down = HttpScript::respond(|_| Play::response(401, &[], "{}")).unwrap();
    let up = HttpScript::respond(|_| Play::stream(&[NO_FENCE], Some(Usage::of(10, 10)))).unwrap();
    let sections = [
        "[search]\nmodel_order = 'first'\nin_flight = 1\n".to_owned(),
        section("dear", &down, ""),
        section("cheap", &up, "calls_at_once = 2"),
    ];
    write_settings(&program, &sections);
    let models = ["--model", "dear", "--model", "cheap"];
    let ended = program.call(&[&["run", "vector_add", "--attempts", "3"], &models[..]].concat());
    passed(&ended);
    assert!(ended.stdout.contains("dear is not asked any more"), "{}", ended.stdout);
    assert_eq!((down.count(), up.count()), (1, 3));
    let shown = program.call(&["show", "@last:1", "--json"]).closing();
    let asked: Vec<_> = shown["calls"].as_array().unwrap().iter().map(|it| &it["model"]).collect();
    assert_eq!(asked, ["dear", "cheap"]);
}

#[test]
fn models_that_the_ledger_could_not_tell_apart_are_refused() {
    let program = Program::new();
    let server = HttpScript::respond(|_| Play::response(500, &[], "{}")).unwrap();
    let named = |name: &str, more: &str| {
        let text = section(name, &server, more);
        text.replacen(&format!("model = '{name}'"), "model = 'm'", 1)
    };
    let batch = "lane = 'batch'";
    write_settings(
        &program,
        &[named("one", ""), named("warm", "temperature = 1.0"), named("later", batch)],
    );
    for pair in [["one", "warm"], ["one", "later"], ["later", "one"], ["one", "one"]] {
        let models = ["--model", pair[0], "--model", pair[1], "--attempts", "2"];
        let ended = program.call(&[&["run", "vector_add"][..], &models].concat());
        assert_eq!(ended.code, Some(2), "{pair:?} {}", ended.stderr);
        assert!(ended.stderr.contains("are both `m` of"), "{pair:?} {}", ended.stderr);
    }
    assert_eq!(server.count(), 0);
}

#[test]
fn each_kind_of_question_goes_to_a_model_that_is_for_it() {
    let program = Program::new();
    let answer = |_: &Asked| Play::stream(&[NO_FENCE], Some(Usage::of(10, 10)));
    let servers = [(); 2].map(|()| HttpScript::respond(answer).unwrap());
    let sections = [
        section("starter", &servers[0], "modes = ['first']"),
        section("mender", &servers[1], "modes = ['repair', 'optimise']"),
    ];
    write_settings(&program, &sections);
    let one = ["run", "vector_add", "--attempts", "4", "--in-flight", "1", "--model"];
    let refused = program.call(&[&one[..], &["starter"]].concat());
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("no model of this run is for `repair`"), "{}", refused.stderr);
    let ended = program.call(&[&one[..], &["starter", "--model", "mender"]].concat());
    passed(&ended);
    assert_eq!(servers.map(|server| server.count()), [1, 3]);
}

#[test]
fn a_refused_prompt_ends_its_task_and_not_the_run() {
    let program = Program::new();
    let server = HttpScript::respond(|asked| match asked.prompt().contains("`task_1`") {
        true => Play::response(400, &[], "{\"error\":{\"message\":\"flagged\"}}"),
        false => Play::stream(&[NO_FENCE], Some(Usage::of(10, 10))),
    })
    .unwrap();
    write_settings(&program, &[section("served", &server, "")]);
    let run = write_run(&program, 2, "[search]\nplateau = 3\nin_flight = 1");
    let ended = program.call(&["run", &run, "--model", "served"]);
    passed(&ended);
    assert!(ended.stdout.contains("task_1 search ended: the model refuses"), "{}", ended.stdout);
    assert!(ended.stdout.contains("task_0 search ended: its last attempts"), "{}", ended.stdout);
    assert!(ended.stdout.contains("the search of every task has ended"), "{}", ended.stdout);
    let status = status(&program);
    let made: Vec<_> = status["tasks"].as_array().unwrap().iter().map(|it| &it["closed"]).collect();
    assert_eq!(made, [&json!(3), &json!(0)]);
    let log = program.call(&["resume", "--plateau", "0", "--attempts", "5"]);
    assert_eq!(log.code, Some(0), "{} {}", log.stdout, log.stderr);
}

#[test]
fn status_says_which_task_asks_next_and_why() {
    let program = Program::new();
    let answer = |_: &Asked| Play::stream(&[NO_FENCE], Some(Usage::of(10, 10)));
    let server = HttpScript::respond(answer).unwrap();
    // What is expected to gain most goes first where not all can go at once.
    write_settings(&program, &[section("served", &server, "calls_at_once = 1")]);
    let run = write_run(&program, 2, "[search]\nplateau = 0\n[budget]\nattempts = 11");
    let text = std::fs::read_to_string(&run).unwrap();
    std::fs::write(&run, text.replace("\"task_1\"", "\"task_1\"\nweight = 9.0")).unwrap();
    passed(&program.call(&["run", &run, "--model", "served"]));
    let ended = program.call(&["status", "@last", "--why", "--json"]);
    passed(&ended);
    let why = ended.closing()["why"].clone();
    let row = |index: usize, field: &str| why[index]["standing"][field].clone();
    assert_eq!((&why[0]["task"], &why[1]["task"]), (&json!("task_1"), &json!("task_0")), "{why}");
    assert_eq!((row(0, "weight"), row(0, "attempts")), (json!(9.0), json!(7)), "{why}");
    assert_eq!((row(1, "weight"), row(1, "attempts")), (json!(1.0), json!(4)), "{why}");
    assert!(ended.stdout.contains("7 attempts, 0 under way; 1.00 x 9 / 14.0"), "{}", ended.stdout);
}

#[test]
fn a_new_run_starts_from_the_best_of_the_ledger_unless_it_is_fresh() {
    let program = Program::new();
    let right = format!("{}/../../examples/replies/vector_add.1.md", env!("CARGO_MANIFEST_DIR"));
    let right = std::fs::read_to_string(right).unwrap();
    let answer = move |_: &Asked| Play::stream(&[&right], Some(Usage::of(10, 10)));
    let server = HttpScript::respond(answer).unwrap();
    write_settings(&program, &[section("served", &server, "")]);
    let arguments = ["run", "vector_add", "--model", "served", "--attempts", "1"];
    let first = program.call(&arguments);
    passed(&first);
    assert!(!first.stderr.contains("starts from the best"), "{}", first.stderr);
    for (more, starts, asked) in [(&["--fresh"][..], false, 2), (&[][..], true, 2)] {
        let ended = program.call(&[&arguments[..], more].concat());
        passed(&ended);
        assert_eq!(
            ended.stderr.contains("vector_add starts from the best"),
            starts,
            "{}",
            ended.stderr
        );
        assert_eq!(server.count(), asked);
        let report = program.report();
        assert_eq!(report["best"], 1, "{report}");
        let shown = program.call(&["show", "@last:1", "--json"]).closing();
        let provider = if starts { "ledger" } else { "openai" };
        assert_eq!(shown["calls"][0]["provider"], provider, "{shown}");
    }
}
