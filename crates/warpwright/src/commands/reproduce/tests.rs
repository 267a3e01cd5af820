//! What is told of a bundle's task.

use judge::JudgeError;

use super::{refused_task, weakness_lines};
use crate::outcome::{Exit, exit_of};

#[test]
fn a_refused_task_is_bad_input_and_other_trouble_stays_what_it_is() {
    for (error, exit) in [
        (JudgeError::Refused("nothing can be told by it".to_owned()), Exit::BadInput),
        (JudgeError::NotAvailable("no compiler".to_owned()), Exit::NotAvailable),
        (JudgeError::Cancelled, Exit::Interrupted),
    ] {
        let error = refused_task(error.into());
        assert_eq!(exit_of(&error), exit, "{error}");
    }
}

#[test]
fn a_weakness_that_the_claim_keeps_silent_about_is_named_so() {
    let [said, unsaid] = ["rounded to bf16", "no infinities"].map(str::to_owned);
    let lines = weakness_lines(std::slice::from_ref(&said), &[said.clone(), unsaid]);
    let expected = [
        "weak task, found here: rounded to bf16",
        "weak task, found here, and the claim does not say so: no infinities",
    ];
    assert_eq!(lines, expected);
    assert!(weakness_lines(&[said], &[]).is_empty());
}
