//! `survey` without a GPU: what it admits, what it says is not available, and the file that it
//! writes. What it times on a card is told by `look.rs`'s tests and by runs on one.

use pipeline::transcript::write;
use serde_json::{Value, json};

use crate::program::{Ended, Program, entry};

const REPLY: &str =
    include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/replies/gelu.1.md"));

/// A program with a task folder that is refused, since its golden values are another function's.
fn program() -> Program {
    let program = Program::new();
    let made = program.call(&["task", "new", "broken", "--like", "elementwise"]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let path = program.path("broken/golden.json");
    let golden = std::fs::read_to_string(&path).unwrap();
    let (right, other) = ("\"bfec4ec4eb2bedd2\"", "\"402ec4ec4eb2bedd\"");
    assert!(golden.contains(right), "{golden}");
    std::fs::write(&path, golden.replacen(right, other, 1)).unwrap();
    program
}

fn survey(program: &Program, more: &[&str]) -> Ended {
    let arguments = [&["survey", "gelu", "broken", "nobody"][..], more].concat();
    program.call(&arguments)
}

fn operator<'a>(closing: &'a Value, name: &str) -> &'a Value {
    let operators = closing["operators"].as_array().unwrap();
    operators.iter().find(|it| it["operator"] == name).unwrap()
}

#[test]
fn a_list_is_admitted_once_and_becomes_a_run_file() {
    let program = program();
    let limits = ["--attempts", "7", "--dollars", "2.5", "--hours", "1", "--json"];
    let first = survey(&program, &limits);
    assert_eq!(first.code, Some(0), "{}{}", first.stdout, first.stderr);
    assert!(first.stdout.contains("NOT AVAILABLE HERE"), "{}", first.stdout);
    assert!(first.stdout.contains("Nobody said how much"), "{}", first.stdout);
    let closing = first.closing();
    assert_eq!((&closing["admitted_now"], &closing["timed_now"]), (&json!(2), &json!(0)));
    assert_eq!((&closing["gpu"], &closing["gain_of_whole"]), (&Value::Null, &Value::Null));
    let gelu = operator(&closing, "gelu");
    assert_eq!((&gelu["advice"], &gelu["attempts"]), (&json!("spend"), &json!(7)), "{gelu}");
    assert_eq!((&gelu["nusd"], &gelu["distance"]), (&json!(2_500_000_000_i64), &Value::Null));
    for (name, reason) in
        [("broken", "not admitted: the reference does not give"), ("nobody", "no task `nobody`")]
    {
        let found = operator(&closing, name);
        assert_eq!((&found["advice"], &found["attempts"]), (&json!("fix"), &json!(0)));
        assert!(found["reason"].as_str().unwrap().contains(reason), "{found}");
    }
    let text = std::fs::read_to_string(program.path("run.toml")).unwrap();
    for part in [
        "\n[[operator]]\ntask = \"gelu\"\n",
        "\nattempts = 7\ndollars = 2.5000\n",
        "\n# fix broken: not admitted: ",
        "\n# [[operator]]\n# task = \"broken\"\n",
        "\ndollars = 2.5\n",
        "\nhours = 1.0\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let runs = program.call(&["status"]);
    assert!(!runs.stdout.contains("gelu"), "no run was begun: {}", runs.stdout);

    measures_nothing_again(&program, &limits, &closing);
    run_takes_the_file(&program);
}

fn measures_nothing_again(program: &Program, limits: &[&str], first: &Value) {
    let refused = survey(program, limits);
    assert_eq!(refused.code, Some(2), "{}", refused.stdout);
    assert!(refused.stderr.contains("--force"), "{}", refused.stderr);
    let second = survey(program, &[limits, &["--force"]].concat());
    assert_eq!(second.code, Some(0), "{}", second.stderr);
    assert!(!second.stderr.contains("checking"), "{}", second.stderr);
    let second = second.closing();
    assert_eq!((&second["admitted_now"], &second["timed_now"]), (&json!(0), &json!(0)));
    for name in ["gelu", "broken", "nobody"] {
        let mut before = operator(first, name).clone();
        before["admitted_now"] = json!(false);
        assert_eq!(*operator(&second, name), before);
    }
}

fn run_takes_the_file(program: &Program) {
    let mut reply = entry(1, REPLY);
    reply.task = "gelu".to_owned();
    let path = program.path("gelu.jsonl");
    std::fs::write(&path, write(&[reply])).unwrap();
    let model = format!("replay:{}", path.display());
    // A price is known, so the file's dollars can be kept.
    let ended = program.call(&["run", "run.toml", "--model", &model, "--attempts", "1", "--json"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert_eq!(program.run_report()["tasks"][0]["standing"], "correct");
}

#[test]
fn weights_of_a_run_file_become_shares() {
    let program = program();
    let list = |first: &str, second: &str| {
        let text = format!(
            "run = 1\nmodels = [\"replay:x\"]\n[[operator]]\ntask = \"gelu\"\n{first}\n\
             [[operator]]\ntask = \"broken\"\n{second}\n"
        );
        std::fs::write(program.path("list.toml"), text).unwrap();
    };
    let survey = || program.call(&["survey", "list.toml", "--output", "out.toml", "--json"]);
    for (first, second, why) in [
        ("calls = 3", "weight = 1", "shares of time need it of all"),
        ("calls = 3\nweight = 1", "calls = 1", "say the same"),
        ("calls = 0", "calls = 1", "a number above 0"),
        ("weight = -1", "", "a number above 0"),
        ("times = 3", "", "unknown field"),
    ] {
        list(first, second);
        let ended = survey();
        assert_eq!(ended.code, Some(2), "{}", ended.stdout);
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
    }
    list("calls = 3", "calls = 1");
    let ended = program.call(&["run", "list.toml"]);
    assert!(
        ended.code == Some(2) && ended.stderr.contains("warpwright survey"),
        "{}",
        ended.stderr
    );
    list("weight = 3\nclasses = [\"fp32\"]\ntarget = 1.5", "weight = 1");
    let ended = survey();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let closing = ended.closing();
    let shares = ["gelu", "broken"].map(|name| operator(&closing, name)["share"].clone());
    assert_eq!(shares, [json!(0.75), json!(0.25)]);
    let text = std::fs::read_to_string(program.path("out.toml")).unwrap();
    for part in ["models = [\"replay:x\"]", "weight = 3.0\nclasses = [\"fp32\"]\ntarget = 1.5\n"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[test]
fn a_list_with_nothing_in_it_makes_no_file() {
    let program = program();
    for (list, code, part) in [
        (&["nobody", "neither"][..], 2, "no task `nobody`"),
        (&["broken"], 3, "nothing is worth spending on"),
        (&["broken", "gelu", "--attempts", "0"], 2, "--attempts"),
        (&["gelu", "run.toml"], 2, "give it alone"),
    ] {
        let ended = program.call(&[&["survey"], list].concat());
        assert_eq!(ended.code, Some(code), "{list:?}: {}{}", ended.stdout, ended.stderr);
        let told = format!("{}{}", ended.stdout, ended.stderr);
        assert!(told.contains(part), "{list:?}: {told}");
        assert!(!program.path("run.toml").exists(), "{list:?}");
    }
}
