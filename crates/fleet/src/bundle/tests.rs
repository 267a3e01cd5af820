use pipeline::acceptance::{Entry, Protocol, Subject, WindowRecord};
use serde_json::json;

use super::{alike, check_sizes};

fn protocol(rounds_max: u32, groups: usize) -> Protocol {
    serde_json::from_value(json!({
        "groups": vec!["shapes"; groups], "checks": [], "cases": [], "baselines": [],
        "class": "fp32", "rounds_max": rounds_max, "confidence": "95 %",
        "scope": { "domain": [], "hidden_shapes": 6, "left_out": [] },
    }))
    .unwrap()
}

#[test]
fn a_bundle_of_endless_rounds_is_refused_before_it_is_computed() {
    let window = |round, position| {
        Entry::Window(WindowRecord::begun("headline", Subject::Candidate, round, position))
    };
    let rebuilt = || Entry::Rebuilt { same: true };
    for (rounds_max, groups, entries, fits) in [
        (15, 30, vec![window(15, 63)], true),
        (7, 0, vec![rebuilt()], true),
        (15, 0, vec![window(16, 0)], false),
        (15, 0, vec![window(u32::MAX, 0)], false),
        (15, 0, vec![window(1, 64)], false),
        (6, 0, Vec::new(), false),
        (16, 0, Vec::new(), false),
        (15, 257, Vec::new(), false),
        (15, 0, (0..10_001).map(|_| rebuilt()).collect(), false),
    ] {
        let refused = check_sizes(&protocol(rounds_max, groups), &entries);
        assert_eq!(refused.is_ok(), fits, "{rounds_max} {groups} {refused:?}");
    }
}

#[test]
fn numbers_may_differ_in_their_last_digits_and_nothing_else_may() {
    let value = json!({ "a": [1.0, "x"], "b": 1000.0 });
    for (other, same) in [
        (json!({ "a": [1.000_000_000_000_1, "x"], "b": 1000.0 }), true),
        (json!({ "a": [1.000_1, "x"], "b": 1000.0 }), false),
        (json!({ "a": [1.0, "y"], "b": 1000.0 }), false),
        (json!({ "a": [1.0, "x", 2], "b": 1000.0 }), false),
        (json!({ "a": [1.0, "x"], "b": 1000.0, "c": 1 }), false),
        (json!({ "a": [1.0, "x"], "b": null }), false),
    ] {
        assert_eq!(alike(&value, &other), same, "{other}");
    }
}
