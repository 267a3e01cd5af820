//! `report`: what is claimed or why not, the run in numbers, and the page.

use serde_json::{Value, json};

use crate::claims::{accepted, with_kernel};
use crate::hostile::{KERNEL, PLAN, reply};
use crate::program::{Program, demo_replies};

/// The page of the last run.
fn page(program: &Program, name: &str, environment: &[(&str, &str)]) -> String {
    let path = program.path(name);
    let arguments = ["report", "@last", "--html", &path.display().to_string()];
    let ended = program.call_with(&arguments, environment);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn a_claim_is_in_every_form_with_its_baseline_and_the_gain_of_the_whole() {
    let program = with_kernel();
    accepted(&program, None).await;
    let report = program.run_report();
    let task = &report["tasks"][0];
    assert_eq!((&task["standing"], &task["share"]), (&json!("claimed"), &json!(1.0)));
    let close = |value: &Value, expected: f64| {
        let found = value.as_f64().unwrap();
        assert!((found - expected).abs() < 1e-9, "{found}, expected {expected}");
    };
    close(&task["factor"], 1.25);
    let numbers = &report["numbers"];
    close(&numbers["whole_low"], 1.25);
    close(&numbers["median_claimed"], 1.25);
    let fast = json!([
        { "p": 1.0, "claimed": 1, "claimed_or_measured": 1 },
        { "p": 1.5, "claimed": 0, "claimed_or_measured": 0 },
        { "p": 2.0, "claimed": 0, "claimed_or_measured": 0 },
    ]);
    assert_eq!(numbers["fast"], fast);
    let markdown = program.call(&["report"]).stdout;
    let html = page(&program, "report.html", &[]);
    for part in [
        "speed-up 1.250x over PyTorch eager [claimed]",
        "against PyTorch eager: ",
        "torch=2.9",
        "provisional until another process gets it too",
        "warpwright export ",
        "at least 1.250x",
        "acceptances on ",
    ] {
        assert!(markdown.contains(part), "{part} in {markdown}");
        assert!(html.contains(part), "{part} in {html}");
    }
    assert!(markdown.contains("| fast_1 | 1 of 1 (100 %) claimed;"), "{markdown}");
    let again =
        program.call(&["report", "--html", &program.path("report.html").display().to_string()]);
    assert!(again.code == Some(2) && again.stderr.contains("--force"), "{}", again.stderr);
    let forced = ["report", "--force", "--html", "report.html", "--json"];
    assert_eq!(program.call(&forced).closing()["page"], "report.html");
}

#[tokio::test]
async fn what_waits_for_a_person_is_in_no_number() {
    let program = with_kernel();
    accepted(&program, None).await;
    let required = [("WARPWRIGHT_REQUIRE_REVIEW", "true")];
    let html = page(&program, "report.html", &required);
    assert!(!html.contains("1.250"), "{html}");
    assert!(html.contains("review approve"), "{html}");
    let ended = program.call_with(&["report", "--json"], &required);
    let report: Value = serde_json::from_str(ended.stdout.lines().next().unwrap()).unwrap();
    assert_eq!(report["tasks"][0]["standing"], "correct");
    assert_eq!(report["numbers"]["whole_low"], Value::Null);
    assert_eq!(report["numbers"]["timed"], false);
}

#[test]
fn a_run_on_the_simulator_speaks_of_no_speed_and_hostile_text_stays_text() {
    let program = Program::new();
    let hostile = format!("#error <script>alert(1)</script> \"><img src=x>\n{KERNEL}");
    let good = demo_replies().pop().unwrap();
    let model = program.transcript(&[reply(&hostile, PLAN), good]);
    let ended = program.call(&["run", "softmax_rows", "--model", &model, "--attempts", "2"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(program.verdicts()[0].contains("<script>"), "{:?}", program.verdicts());
    let report = program.run_report();
    assert_eq!(report["numbers"]["timed"], false);
    assert_eq!(
        (&report["numbers"]["fast"], &report["numbers"]["whole"]),
        (&json!([]), &Value::Null)
    );
    let failed = &report["failures"]["candidates"];
    assert_eq!(*failed, json!([{ "name": "BuildFailed/COMPILE", "count": 1 }]));
    let spent = &report["spent"];
    assert_eq!(
        (&spent["by_model"][0]["calls"], &spent["by_task"][0]["name"]),
        (&json!(2), &json!("softmax_rows"))
    );
    let lanes = report["timeline"]["lanes"].as_array().unwrap();
    let names: Vec<_> = lanes.iter().map(|lane| lane["name"].as_str().unwrap()).collect();
    let wanted = ["model replay", "judging on ", "promoting on "];
    let as_wanted = names.iter().zip(wanted).all(|(name, wanted)| name.starts_with(wanted));
    assert!(names.len() == wanted.len() && as_wanted, "{names:?}");
    let columns = lanes[1]["columns"].as_array().unwrap();
    assert!(columns.len() == 120 && columns.iter().any(|it| it.as_f64().unwrap() > 0.0));

    let command = format!("warpwright accept {}:softmax_rows:2", report["run"].as_str().unwrap());
    let markdown = program.call(&["report"]).stdout;
    let html = page(&program, "report.html", &[]);
    for text in [&markdown, &html] {
        for part in [
            "an estimate (no GPU) is no speed-up",
            "fast_0",
            "1 of 1 (100 %) correct",
            "not told: there is no claim",
            &command,
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for part in ["<script", "<img", "claimed or measured;"] {
            assert!(!text.contains(part), "{part} in {text}");
        }
    }
    assert!(html.contains("&lt;script&gt;alert(1)&lt;"), "{html}");
}
