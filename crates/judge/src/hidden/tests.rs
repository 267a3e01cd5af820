//! Classes by their errors, and the words for what hidden cases showed.

use pipeline::check::OutputCheck;
use pipeline::inputs::Distribution;
use pipeline::limits::NORM_ELEMENTS_MIN;
use pipeline::report::{CaseReport, CaseStatus};
use sandbox::wire::{RunEnd, RunResult};

use super::{all_of, errors_of};

fn case(distribution: Distribution, compared: u64, norm_error: f64) -> CaseReport {
    let check = OutputCheck {
        output: "y".to_owned(),
        elements: compared,
        compared,
        wrong: 0,
        unwritten: 0,
        nonfinite: 0,
        first: Vec::new(),
        worst_ratio: 0.1,
        norm_error,
        norm_limit: 1e-6,
        worst_part_error: 0.0,
        pattern: String::new(),
        failure: None,
    };
    CaseReport {
        case: "hidden 1".to_owned(),
        dims: [("n".to_owned(), 7)].into(),
        distribution,
        status: CaseStatus::Passed,
        checks: vec![check],
        counters: None,
        findings: Vec::new(),
    }
}

#[test]
fn only_errors_that_a_limit_is_held_against_tell_the_class() {
    let long = NORM_ELEMENTS_MIN;
    let cases = [
        case(Distribution::D1, long, 1e-7),
        case(Distribution::D1, long - 1, 1e-3),
        case(Distribution::D6, long, 1e-2),
    ];
    assert_eq!(errors_of(&cases), [("y".to_owned(), 1e-7)].into());
    assert!(errors_of(&cases[1..]).is_empty());
}

#[test]
fn runs_that_are_missing_are_nobodys_pass() {
    let run = |end| RunResult {
        end,
        counters: None,
        findings: Vec::new(),
        place: None,
        printed: String::new(),
    };
    let done = || run(RunEnd::Completed);
    let failed = || run(RunEnd::Crash("trap".to_owned()));
    for (asked, runs, taken) in [
        (2, vec![done(), done()], true),
        (2, vec![done()], false),
        (2, vec![done(), failed()], true),
        (2, vec![failed()], true),
        (1, vec![done(), done()], false),
    ] {
        assert_eq!(all_of(asked, runs.clone()).is_ok(), taken, "{runs:?}");
    }
}
