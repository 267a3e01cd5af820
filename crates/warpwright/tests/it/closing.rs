//! Claims within a run, as far as they show without a GPU: the simulator makes none and says so,
//! and `status` plans the end of a run on a card from its ledger.

use pipeline::attempt::Mode;
use pipeline::device_facts::DeviceFacts;
use pipeline::hardware::{HardwareSheet, SHEET_VERSION};
use pipeline::next_step::{Ask, SearchEnd};
use pipeline::prompt::Prompt;
use pipeline::task::Task;
use pipeline::verdict::Verdict;
use serde_json::{Value, json};
use store::{CallTarget, NewRun, NewTask, Reservation, RunId, RunKind, SettledReply, Store};

use crate::program::{Program, demo_replies};

const MINUTE_US: i64 = 60_000_000;

#[test]
fn the_simulator_makes_no_claims_and_says_so() {
    let program = Program::new();
    std::fs::write(program.path("warpwright.toml"), "[search]\naccept = true\n").unwrap();
    let model = program.transcript(&demo_replies()[5..]);
    let run = ["run", "softmax_rows", "--model", &model, "--attempts", "1", "--hours", "2"];
    for flags in [&[][..], &["--no-accept"]] {
        let ended = program.call(&[&run[..], flags].concat());
        assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
        assert!(!ended.stdout.contains("full protocol"), "{}", ended.stdout);
        let said = program.call(&["status", "@last", "--why", "--json"]);
        let json = said.closing();
        assert_eq!((&json["claims"], &json["set_aside"]), (&json!([]), &Value::Null));
        let lines = program.call(&["status", "@last", "--why"]).stdout;
        assert!(lines.contains("the simulator takes no times"), "{lines}");
        assert!(!program.call(&["status", "@last"]).stdout.contains("set aside"));
    }
    let refused = program.call(&["run", "softmax_rows", "--accept=yes", "--model", &model]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
}

/// A run of three tasks on a card that ends in so many minutes; two tasks have a kernel. Nobody
/// drives it, so `status` is all that there is to see of its plan.
async fn on_a_card(program: &Program, minutes: Option<i64>, accept: bool) -> RunId {
    let store = Store::open(&program.ledger()).await.unwrap();
    let last = store.resolve_run("@last").await.unwrap();
    let mut settings: Value =
        serde_json::from_str(&store.run(&last).await.unwrap().settings_json).unwrap();
    let end_us = minutes.map(|minutes| store.now_us() + minutes * MINUTE_US);
    settings["budget"]["deadline_us"] = json!(end_us);
    settings["search"]["accept"] = json!(accept);
    for (place, weight) in [1.0, 5.0, 3.0].iter().enumerate() {
        settings["operators"][place]["weight"] = json!(weight);
    }
    let mut tasks = Vec::new();
    for task in store.run(&last).await.unwrap().tasks {
        let files = store.task_files(&task.hash).await.unwrap();
        tasks.push((Task::from_files(&files).unwrap(), files));
    }
    let new_tasks: Vec<_> = tasks.iter().map(|(task, files)| NewTask::of(task, files)).collect();
    let facts = DeviceFacts { simulated: false, ..DeviceFacts::simulated_h200() };
    let sheet = HardwareSheet {
        version: SHEET_VERSION,
        uuid: "GPU-1".to_owned(),
        driver: "580.1".to_owned(),
        cuda_version: 13_000,
        facts: facts.clone(),
        ceilings: None,
    };
    let settings = settings.to_string();
    let new = NewRun {
        kind: RunKind::Auto,
        settings_json: &settings,
        secret_seeds_json: "\"00\"",
        judge_hash: "judge",
        toolchain_id: "nvrtc",
        prompts_hash: "prompts",
        tasks: &new_tasks,
        device: &facts,
        gpus: &[sheet],
    };
    let run = store.start_run(&new).await.unwrap();
    for (task, _) in &tasks[..2] {
        give_kernel(&store, &run, task).await;
    }
    store.close().await;
    run
}

async fn give_kernel(store: &Store, run: &RunId, task: &Task) {
    let ask = Ask { seq: 1, mode: Mode::First, parent: None, subset_notice: false };
    let prompt = Prompt { mode: ask.mode, messages: Vec::new() };
    let target = CallTarget { provider: "replay", model: "m", price_json: "\"Free\"" };
    let none = Reservation::default();
    let opened = store.open_attempt(run, &task.hash, &ask, &prompt, none, target).await;
    let id = opened.unwrap().id;
    store.mark_sent(&id).await.unwrap();
    let reply = SettledReply {
        text: "a kernel".to_owned(),
        usage: None,
        finish_reason: "stop".to_owned(),
        model: "m".to_owned(),
        latency_ms: 0,
        cost_nusd: None,
        drift: false,
        reasoning: String::new(),
        http_log: String::new(),
    };
    store.settle_reply(&id, &reply).await.unwrap();
    store.close_attempt(&id, &Verdict::correct()).await.unwrap();
}

#[test]
fn status_says_what_is_set_aside_and_who_ends_without_a_claim() {
    let program = Program::new();
    let model = program.transcript(&[]);
    let run = ["run", "gelu", "softmax_rows", "vector_add", "--model", &model, "--attempts", "1"];
    program.call(&run);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    // 60 s to measure each kernel, 195 s for a claim, the check of its task included: nothing was
    // seen on this card yet.
    for (minutes, accept, set_aside_ms, claims) in [
        (Some(600), true, 3 * (60_000 + 195_000), &["gelu", "softmax_rows", "vector_add"][..]),
        (Some(15), true, 3 * 60_000 + 195_000, &["softmax_rows"]),
        (Some(15), false, 3 * 60_000, &[]),
        (Some(5), true, 150_000, &[]),
        (None, true, 0, &["gelu", "softmax_rows", "vector_add"]),
    ] {
        let id = runtime.block_on(on_a_card(&program, minutes, accept));
        let case = format!("{minutes:?} {accept}");
        let json = program.call(&["status", "@last", "--why", "--json"]).closing();
        let aside = &json["set_aside"];
        let found = aside["set_aside_ms"].as_i64().unwrap();
        // Half of what is left is cut off by the time that this took.
        assert!(found <= set_aside_ms && found > set_aside_ms - 30_000, "{case}: {aside}");
        let operators = aside["operators"].as_array().unwrap();
        let planned: Vec<_> = operators
            .iter()
            .filter(|operator| operator["plan"]["fate"] == "claim")
            .map(|operator| operator["task"].as_str().unwrap())
            .collect();
        assert_eq!(planned, claims, "{case}");
        let lines = program.call(&["status", "@last", "--why"]).stdout;
        assert!(lines.contains("set aside "), "{case}: {lines}");
        let command = format!("`warpwright accept {id}:vector_add`");
        assert_eq!(lines.contains(&command), !claims.contains(&"vector_add"), "{case}: {lines}");
        assert_eq!(lines.contains("claims are off"), !accept, "{case}: {lines}");
    }
}

/// Of three tasks the third has no kernel: once nobody searches one, nothing is kept for it.
#[test]
fn nothing_is_set_aside_for_a_task_whose_search_is_over_without_a_kernel() {
    let program = Program::new();
    let model = program.transcript(&[]);
    let run = ["run", "gelu", "softmax_rows", "vector_add", "--model", &model, "--attempts", "1"];
    program.call(&run);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let aside_ms = || {
        let json = program.call(&["status", "@last", "--json"]).closing();
        json["set_aside"]["set_aside_ms"].as_i64().unwrap()
    };
    for by_a_person in [false, true] {
        let run = runtime.block_on(on_a_card(&program, Some(600), true));
        let each_ms = 60_000 + 195_000;
        assert_eq!(aside_ms(), 3 * each_ms);
        if by_a_person {
            let told = program.call(&["tell", "@last", "vector_add", "--stop"]);
            assert_eq!(told.code, Some(0), "{}", told.stderr);
        } else {
            runtime.block_on(async {
                let store = Store::open(&program.ledger()).await.unwrap();
                let task = store.run(&run).await.unwrap().tasks[2].hash.clone();
                store.note_search_ended(&run, &task, SearchEnd::Plateau).await.unwrap();
                store.close().await;
            });
        }
        assert_eq!(aside_ms(), 2 * each_ms, "{by_a_person}");
    }
}
