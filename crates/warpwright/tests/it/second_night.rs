//! A night on tasks that an earlier one has claimed: the same kernel is not accepted again, and
//! wherever the new run speaks of its claims, that one is among them, as another run's.

use pipeline::comparison::Suspicion;
use serde_json::{Value, json};
use store::Ended;

use crate::claims::{accepted, with_kernel};
use crate::program::Program;

/// The run whose kernel was accepted, with the run that starts from it.
async fn nights(suspicion: Option<Suspicion>) -> (Program, String, String, Ended) {
    let program = with_kernel();
    let (_, ended) = accepted(&program, suspicion).await;
    let first = program.call(&["status", "@last", "--json"]).closing()["run"].clone();
    // Never asked: the known kernel is the one attempt. Recorded replies would not begin so.
    let model = "default_model = 'm'\n[model.m]\nkind = 'command'\ncommand = ['false']\n\
                 price = 'free'\n";
    std::fs::write(program.path("warpwright.toml"), model).unwrap();
    let second = program.call(&["run", "softmax_rows", "--attempts", "1"]);
    assert_eq!(second.code, Some(0), "{}{}", second.stdout, second.stderr);
    assert!(second.stderr.contains("starts from the best"), "{}", second.stderr);
    (program, first.as_str().unwrap().to_owned(), second.stdout, ended)
}

#[tokio::test]
async fn a_claim_of_another_run_is_in_every_form_with_its_run_and_date() {
    let (program, first, stdout, ended) = nights(None).await;
    let Ended::Claimed(claim) = ended else { panic!("{ended:?}") };
    let says = "softmax_rows #1: speed-up 1.250x over PyTorch eager [claimed]";
    let whose = format!("by run {first}, of its #1, 20");
    let page = program.path("page.html").display().to_string();
    let html = program.call(&["report", "@last", "--html", &page]);
    assert_eq!(html.code, Some(0), "{}", html.stderr);
    for (form, text) in [
        ("the run's ending", stdout),
        ("status", program.call(&["status", "@last"]).stdout),
        ("status --follow", program.call(&["status", "@last", "--follow"]).stdout),
        ("show", program.call(&["show", "@last:1"]).stdout),
        ("the report", program.call(&["report", "@last"]).stdout),
        ("the page", std::fs::read_to_string(&page).unwrap()),
    ] {
        assert!(text.contains(says) && text.contains(&whose), "{form}: {text}");
    }
    let task = program.run_report()["tasks"][0].clone();
    let factor = task["factor"].as_f64().unwrap();
    assert_eq!((&task["standing"], (factor * 1e9).round()), (&json!("claimed"), 1.25e9), "{task}");
    let export = format!("warpwright export {claim} --out claim.bundle");
    assert_eq!(task["command"], json!(export), "{task}");
    let status = program.call(&["status", "@last", "--json"]).closing();
    for shown in [&task["claims"], &status["claims"]] {
        let [shown] = shown.as_array().unwrap().as_slice() else { panic!("{shown}") };
        let found = ["claim", "run", "seq", "here"].map(|field| shown[field].clone());
        let wanted = [json!(claim.to_string()), json!(first), json!(1), json!([1])];
        assert_eq!(found, wanted, "{shown}");
        assert!(shown["made_us"].as_i64().unwrap() > 0, "{shown}");
    }
    // Its own run speaks of it as before.
    let own = program.call(&["report", &first]).stdout;
    assert!(own.contains(says) && !own.contains("by run"), "{own}");
}

#[tokio::test]
async fn what_waits_for_a_person_in_another_run_is_told_with_the_way_there() {
    let (program, first, ..) = nights(Some(Suspicion::Physics)).await;
    let task = program.run_report()["tasks"][0].clone();
    let why = task["why"].as_str().unwrap();
    assert!(why.contains("a person has to look") && why.contains(&first), "{task}");
    let list = format!("warpwright review list {first}:softmax_rows:1");
    assert_eq!((&task["command"], &task["claims"]), (&Value::String(list), &json!([])));
}
