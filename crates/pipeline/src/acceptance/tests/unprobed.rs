//! Trials that had nothing to probe pass nothing, and that is said.

use std::collections::BTreeMap;

use super::{play, protocol};
use crate::acceptance::{Entry, conclude};
use crate::inputs::Distribution;
use crate::report::{CaseReport, CaseStatus};

#[test]
fn what_had_nothing_to_probe_is_named_in_the_claim() {
    let (protocol, why) = (protocol(), "the task states no relation between calls");
    let unprobed = |name: &str, cases: usize| {
        let entries = play(&protocol, 800.0, &|_, entry| {
            let Entry::Trials(record) = entry else { return };
            if record.group == name {
                record.unprobed = vec![why.to_owned()];
                record.cases = vec![case_report(); cases];
            }
        });
        conclude(&protocol, &entries).claim.unwrap().not_available
    };
    let nothing = format!("history: nothing could be probed ({why})");
    assert_eq!(unprobed("history", 0), [nothing]);
    let rest = format!("shapes: not all could be probed ({why})");
    assert_eq!(unprobed("shapes", 2), [rest]);
    assert_eq!(unprobed("no such group", 0), [""; 0]);
}

/// Records of before there was such a word say what they said then.
#[test]
fn trials_are_read_without_what_was_not_probed() {
    let old = r#"{"trials":{"group":"relations","cases":[],"deterministic":true,"class":null,
                 "verdict":{"kind":"Correct","reason":null,"detail":""}}}"#;
    let Entry::Trials(record) = serde_json::from_str(old).unwrap() else { panic!("{old}") };
    assert_eq!((record.missing(), record.length), (None, None));
    let again = serde_json::to_value(Entry::Trials(record)).unwrap();
    assert!(again["trials"].get("unprobed").is_none(), "{again}");
}

fn case_report() -> CaseReport {
    CaseReport {
        case: "tiny".to_owned(),
        dims: BTreeMap::new(),
        distribution: Distribution::D1,
        status: CaseStatus::Passed,
        checks: Vec::new(),
        counters: None,
        findings: Vec::new(),
    }
}
