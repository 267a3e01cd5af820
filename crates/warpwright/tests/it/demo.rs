//! `demo` as a newcomer meets it, and what can be looked up afterwards.

use crate::program::Program;

#[test]
fn the_demo_runs_the_loop_from_malformed_to_better() {
    let program = Program::new();
    let ended = program.call(&["demo", "--json"]);
    assert_eq!(ended.code, Some(0), "{}\n{}", ended.stdout, ended.stderr);
    assert_eq!(ended.closing()["kind"], "done");
    let verdicts = program.verdicts();
    for (verdict, part) in verdicts.iter().zip([
        "Malformed/REPLY the reply has no ```toml fence",
        "BuildFailed/COMPILE kernel.cu:10: identifier \"warp_max\" is undefined",
        "Wrong/MISMATCH case `ragged`, D1: output `y`: 37333 of 37333 elements",
        "Faulted/GUARD case `square`, D1: ",
        "Correct",
        "Correct",
    ]) {
        assert!(verdict.starts_with(part), "{verdict}");
    }
    let report = program.report();
    assert_eq!(report["best"], 6);
    let cases = report["attempts"][2]["report"]["cases"].as_array().unwrap();
    let failed: Vec<_> = cases.iter().filter(|case| case["status"] != "Passed").collect();
    assert!(failed.iter().all(|case| case["case"] == "ragged"), "{failed:?}");
    let sectors = |index: usize| {
        report["attempts"][index]["report"]["score"]["Estimated"]["sectors"].as_f64().unwrap()
    };
    assert!(sectors(4) > 4.0 * sectors(5), "{} {}", sectors(4), sectors(5));
    for part in ["estimate (no GPU)", "Best: #6", "__shfl_xor_sync", "Ledger: ", "Next:"] {
        assert!(ended.stdout.contains(part), "{part}: {}", ended.stdout);
    }
    assert!(
        !ended.stdout.contains(" ms") && !ended.stdout.contains("speed-up"),
        "a time was printed"
    );

    look_up(&program);
}

fn look_up(program: &Program) {
    for (arguments, parts) in [
        (vec!["status"], vec!["softmax_rows", "finished", "the attempt limit was reached"]),
        (vec!["status", "@last"], vec!["attempts  6", "Correct 2", "best      #6"]),
        (vec!["show", "@last"], vec!["#1   first", "#6   optimise #5"]),
        (
            vec!["show", "@last:4"],
            vec!["prompt, system", "# Mend attempt #3", "reply, hand-written", "past the end"],
        ),
        (vec!["show", "@last:best"], vec!["#6", "estimate (no GPU)"]),
        (vec!["show", "softmax_rows@best"], vec!["#6", "registers"]),
        (vec!["report"], vec!["# softmax_rows", "| 3 | repair | 2 | Wrong/MISMATCH |", "Best: #6"]),
        (vec!["ledger", "verify"], vec!["events, intact"]),
    ] {
        let ended = program.call(&arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?} {}", ended.stderr);
        for part in parts {
            assert!(ended.stdout.contains(part), "{arguments:?}: {part} not in\n{}", ended.stdout);
        }
    }
    let ended = program.call(&["resume"]);
    assert!(ended.stdout.contains("is finished"), "{}", ended.stdout);
}
