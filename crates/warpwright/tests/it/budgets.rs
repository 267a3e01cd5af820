//! What steers and caps a run beside attempts and tokens: allotments of operators, GPU-seconds,
//! targets, prices with their day, tasks that a person stops.

use llm::conformance::{Asked, HttpScript, Play};
use pipeline::transcript::Usage;
use serde_json::{Value, json};

use crate::night::{section, write_run, write_settings};
use crate::program::{Ended, Program};

/// A reply that is judged without compiler.
const NO_FENCE: &str = "I would rather not.";

fn server() -> HttpScript {
    let answer = |_: &Asked| Play::stream(&[NO_FENCE], Some(Usage::of(1_000, 900)));
    HttpScript::respond(answer).unwrap()
}

fn ok(ended: Ended) -> Ended {
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    ended
}

fn made(program: &Program) -> Vec<Value> {
    let status = ok(program.call(&["status", "@last", "--json"])).closing();
    status["tasks"].as_array().unwrap().iter().map(|it| it["closed"].clone()).collect()
}

#[test]
fn money_goes_first_where_it_is_allotted_and_moves_on_where_it_cannot_be_used() {
    let server = server();
    let search = "[search]\nplateau = 0\nin_flight = 2\n[budget]\nattempts = 11\ndollars = 50.0";
    // A call costs a cent. Whoever names nothing shares what is left by weight.
    for (first, second, third, wanted) in [
        ("dollars = 49.0", "dollars = 0.0", "dollars = 0.0", [11, 0, 0]),
        ("dollars = 49.0\nattempts = 3", "dollars = 0.0", "dollars = 0.03", [3, 5, 3]),
        ("dollars = 0.02", "dollars = 49.98", "", [2, 9, 0]),
    ] {
        let program = Program::new();
        write_settings(&program, &[section("served", &server, "calls_at_once = 1")]);
        let run = write_run(&program, 3, search);
        let mut text = std::fs::read_to_string(&run).unwrap();
        for (task, more) in [("task_0", first), ("task_1", second), ("task_2", third)] {
            text = text.replace(&format!("\"{task}\""), &format!("\"{task}\"\n{more}"));
        }
        std::fs::write(&run, text).unwrap();
        ok(program.call(&["run", &run, "--model", "served"]));
        let found: Vec<u64> = made(&program).iter().map(|it| it.as_u64().unwrap()).collect();
        let sum: u64 = found.iter().sum();
        assert_eq!((found[0], sum), (wanted[0], 11), "{found:?}");
        // What is left is by the expected gain of equals: the exact split is another rule's.
        let near = |index: usize| found[index].abs_diff(wanted[index]) <= 2;
        assert!(near(1) && near(2), "{found:?} where about {wanted:?} were allotted");
        let why = ok(program.call(&["status", "@last", "--why", "--json"]));
        assert!(why.stdout.contains("dollars allotted"), "{}", why.stdout);
        assert!(why.stdout.contains("whoever has used its allotment waits"), "{}", why.stdout);
        let rows = why.closing()["why"].clone();
        let of_first = rows.as_array().unwrap().iter().find(|it| it["task"] == "task_0").unwrap();
        let purse = &of_first["standing"]["purse"];
        let spent = purse["spent_nusd"].as_i64().unwrap();
        assert_eq!(spent, 10_000_000 * i64::try_from(wanted[0]).unwrap(), "{purse}");
    }
}

#[test]
fn allotments_need_a_limit_to_be_a_part_of() {
    let program = Program::new();
    let server = server();
    write_settings(&program, &[section("served", &server, "")]);
    let run = write_run(&program, 1, "");
    let text = std::fs::read_to_string(&run).unwrap() + "dollars = 5.0\n";
    std::fs::write(&run, text).unwrap();
    let refused = program.call(&["run", &run, "--model", "served"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("add dollars to [budget]"), "{}", refused.stderr);
    let dry = ok(program.call(&["run", &run, "--model", "served", "--dollars", "9", "--dry-run"]));
    assert!(dry.stdout.contains("10 attempts at 1 task;"), "{}", dry.stdout);
    assert_eq!(server.count(), 0);
}

#[test]
fn a_limit_of_gpu_seconds_is_kept_shown_and_raised_and_says_where_it_has_no_effect() {
    let program = Program::new();
    let server = server();
    write_settings(&program, &[section("served", &server, "")]);
    let run = write_run(&program, 1, "[budget]\nattempts = 2\ngpu_seconds = 300");
    let limits = || ok(program.call(&["status", "@last"])).stdout;
    let ended = ok(program
        .call_with(&["run", &run, "--model", "served"], &[("WARPWRIGHT_GPU_SECONDS", "600")]));
    assert!(ended.stderr.contains("GPU-seconds has no effect here"), "{}", ended.stderr);
    assert!(limits().contains("0.0 of 600.0 GPU-seconds"), "{}", limits());
    ok(program.call(&["tell", "@last", "--add", "gpu-seconds=60,attempts=1"]));
    assert!(limits().contains("0.0 of 660.0 GPU-seconds"), "{}", limits());
    ok(program.call(&["resume"]));
    assert!(limits().contains("0.0 of 660.0 GPU-seconds"), "{}", limits());
    // What `resume` names is the whole of it.
    ok(program.call(&["resume", "--gpu-seconds", "700", "--attempts", "4"]));
    assert!(limits().contains("0.0 of 700.0 GPU-seconds"), "{}", limits());
    let why = ok(program.call(&["status", "@last", "--why"]));
    assert!(why.stdout.contains("GPU-seconds: 0.0 of 700.0 used or reserved"), "{}", why.stdout);
    let status = ok(program.call(&["status", "@last", "--json"])).closing();
    assert_eq!((&status["gpu_used_us"], &status["gpu_reserved_us"]), (&json!(0), &json!(0)));
    assert_eq!(program.run_report()["gpu_used_us"], json!(0));
    let dry = ok(program.call(&["run", &run, "--model", "served", "--dry-run"]));
    assert!(dry.stdout.contains("GPU-seconds: none, since the simulator"), "{}", dry.stdout);
    ok(program.call(&["ledger", "verify"]));
    let refused = program.call(&["run", &run, "--model", "served", "--gpu-seconds", "0"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("write 1 or more"), "{}", refused.stderr);
    // A run without such a limit has none to add to.
    ok(program.call(&["run", "vector_add", "--model", "served", "--attempts", "1"]));
    let refused = program.call(&["tell", "@last", "--add", "gpu-seconds=5"]);
    assert!(refused.stderr.contains("no limit of GPU-seconds to add to"), "{}", refused.stderr);
}

#[test]
fn a_target_says_that_the_simulator_measures_no_time() {
    let program = Program::new();
    let server = server();
    write_settings(&program, &[section("served", &server, "")]);
    let run = write_run(&program, 1, "[budget]\nattempts = 1");
    let text = std::fs::read_to_string(&run).unwrap() + "target = 1.5\n";
    std::fs::write(&run, text).unwrap();
    let ended = ok(program.call(&["run", &run, "--model", "served"]));
    let said = "the target of `task_0` ends nothing here";
    assert!(ended.stderr.contains(said), "{}", ended.stderr);
    let why = ok(program.call(&["status", "@last", "--why", "--json"]));
    assert!(why.stdout.contains("target 1.5 x, which ends nothing"), "{}", why.stdout);
    assert_eq!(why.closing()["why"][0]["goal_ns"], Value::Null);
}

#[test]
fn a_run_whose_tasks_were_stopped_one_by_one_says_so_and_goes_on_when_told() {
    let program = Program::new();
    let server = server();
    write_settings(&program, &[section("served", &server, "")]);
    let run = write_run(&program, 2, "[budget]\nattempts = 2\n[search]\nplateau = 0");
    ok(program.call(&["run", &run, "--model", "served"]));
    for task in ["task_0", "task_1"] {
        ok(program.call(&["tell", "@last", task, "--stop"]));
    }
    let ended = program.call(&["resume", "--attempts", "4", "--json"]);
    assert_eq!(ended.code, Some(130), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("Ended: a person stopped every task"), "{}", ended.stdout);
    assert!(ended.stdout.contains("TASK --resume"), "{}", ended.stdout);
    let status = ok(program.call(&["status", "@last", "--why", "--json"]));
    assert_eq!(status.closing()["state"], json!("stopped"));
    assert!(status.stdout.contains("ended: a person stopped it"), "{}", status.stdout);
    ok(program.call(&["tell", "@last", "task_1", "--resume"]));
    ok(program.call(&["resume", "--attempts", "4"]));
    assert_eq!(made(&program), [json!(1), json!(3)]);
}

#[test]
fn a_price_shows_its_day_and_an_old_one_is_warned_of() {
    let program = Program::new();
    let server = server();
    let priced = section("served", &server, "")
        .replace("output = 10.0 }", "output = 10.0, as_of = '2020-02-03' }");
    write_settings(&program, &[priced]);
    let run = ["run", "vector_add", "--model", "served", "--attempts", "1"];
    let dated = "served: 1 in, 1 cached in, 10 out dollars per million tokens, as of 2020-02-03";
    let old = "the price of served is as of 2020-02-03, ";
    let dry = ok(program.call(&[&run[..], &["--dry-run", "--json"]].concat()));
    assert!(dry.stdout.contains(dated) && dry.stdout.contains(old), "{}", dry.stdout);
    let wanted = json!([{ "model": "served", "as_of": "2020-02-03" }]);
    assert_eq!(dry.closing()["prices"], wanted);
    let ended = ok(program.call(&run));
    assert!(ended.stderr.contains(old), "{}", ended.stderr);
    // The settings change; the run keeps the price that it was booked at.
    write_settings(&program, &[section("served", &server, "")]);
    for command in [&["status", "@last"][..], &["report", "@last"]] {
        let shown = ok(program.call(command)).stdout;
        assert!(shown.contains(dated) && shown.contains(old), "{command:?}: {shown}");
    }
    let prices = program.run_report()["prices"].to_string();
    assert!(prices.contains("as of 2020-02-03"), "{prices}");
    // A flag wins over the file, and says of which day it is.
    let other = "served=2/0.5/8@2999-01-01";
    let ended = ok(program.call(&[&run[..], &["--price", other]].concat()));
    assert!(ended.stderr.contains("a day that is yet to come"), "{}", ended.stderr);
    let shown = ok(program.call(&["status", "@last"])).stdout;
    assert!(shown.contains("served: 2 in, 0.5 cached in, 8 out dollars"), "{shown}");
    let booked = ok(program.call(&["status", "@last", "--json"])).closing();
    assert_eq!(booked["settled_nusd"], json!(2_000 * 1_000 + 8_000 * 900), "{booked}");
    for (price, part) in [
        ("other=2/8", "the run asks served"),
        ("served=2", "write NAME=INPUT/OUTPUT"),
        ("served=2/8@today", "write the day of the list"),
    ] {
        let refused = program.call(&[&run[..], &["--price", price]].concat());
        assert_eq!(refused.code, Some(2), "{price}: {}", refused.stdout);
        assert!(refused.stderr.contains(part), "{price}: {}", refused.stderr);
    }
}
