//! What a batch says of each of its requests, or does not say.

use super::*;
use crate::conformance::Answer;

/// What becomes of the second of three requests, and how the batch ends.
struct Row {
    name: &'static str,
    line: Line,
    end: &'static str,
    class: ErrorClass,
    charge: Charge,
    /// True where the server counts what it ran.
    counts: bool,
}

/// Cancelled batches have run all of their requests, unless a line says otherwise.
fn default_rules() -> BatchRules {
    BatchRules { run_before_cancel: 3, ..BatchRules::default() }
}

/// Three requests that leave together.
async fn submitted(model: &BatchModel) -> Vec<Ticket> {
    let mut found = Vec::new();
    for n in 1..=3 {
        found.push(model.submit(&fresh(n)).await.unwrap());
    }
    found
}

#[tokio::test]
async fn each_request_has_its_own_end() {
    let row = |name, line, end, class, charge| Row { name, line, end, class, charge, counts: true };
    let uncounted = |row: Row| Row { counts: false, ..row };
    let status = |status: u16, code: &str| Line::Status {
        status,
        body: json!({ "error": { "message": "why", "code": code } }),
    };
    let empty = json!({ "choices": [], "usage": { "prompt_tokens": 10, "completion_tokens": 3 } });
    let hollow = Line::Status { status: 200, body: empty };
    let counted = Charge::Known { usage: Usage::of(10, 3), cost_nusd: None };
    let (nothing, unknown) = (Charge::Nothing, Charge::Unknown);
    for Row { name, line, end, class, charge, counts } in [
        row("limited", status(429, "x"), "completed", ErrorClass::RateLimited, nothing),
        row("refused", status(400, "x"), "completed", ErrorClass::Refused, nothing),
        row("broken", status(500, "x"), "completed", ErrorClass::Unavailable, nothing),
        row("poor", status(429, "insufficient_quota"), "completed", ErrorClass::NoCredit, nothing),
        row("no answer", hollow, "completed", ErrorClass::Malformed, counted),
        row("not run", Line::NotRun, "expired", ErrorClass::Deadline, nothing),
        row("unsaid", Line::Unsaid, "expired", ErrorClass::Deadline, nothing),
        // Nobody knows whether it was run.
        uncounted(row("unsaid", Line::Unsaid, "expired", ErrorClass::Deadline, unknown)),
        uncounted(row("unsaid", Line::Unsaid, "cancelled", ErrorClass::Deadline, unknown)),
        uncounted(row("not run", Line::NotRun, "expired", ErrorClass::Deadline, nothing)),
        row("garbled", Line::Garbled, "expired", ErrorClass::Deadline, unknown),
        row("garbled", Line::Garbled, "cancelled", ErrorClass::Deadline, unknown),
        row("garbled", Line::Garbled, "completed", ErrorClass::Malformed, unknown),
        row("unsaid to the end", Line::Unsaid, "completed", ErrorClass::Malformed, unknown),
    ] {
        let answer = move |id: &str, body: &Value| {
            let whole = (BatchRules::default().answer)(id, body);
            if id.ends_with('2') { line.clone() } else { whole }
        };
        let answer: Answer = Box::new(answer);
        let world = World::new(BatchRules { end, counts, answer, ..default_rules() });
        let model = world.model();
        let found = submitted(&model).await;
        for (n, ticket) in (1..).zip(&found) {
            let outcome = wait(&model, ticket).await;
            if n != 2 {
                assert_eq!(outcome.unwrap().text, "a batch's reply", "{name}");
                continue;
            }
            let error = outcome.unwrap_err();
            assert_eq!((error.class(), error.charge()), (class, charge), "{name}: {error}");
        }
    }
}

/// What is said to be not run is no account of what was: another one may be missing.
#[tokio::test]
async fn a_line_of_what_was_not_run_does_not_stand_for_one_that_was() {
    let answer = |id: &str, body: &Value| match id.chars().last() {
        Some('2') => Line::Swallowed,
        Some('3') => Line::NotRun,
        _ => (BatchRules::default().answer)(id, body),
    };
    let answer: Answer = Box::new(answer);
    let world = World::new(BatchRules { end: "expired", answer, ..default_rules() });
    let model = world.model();
    let found = submitted(&model).await;
    assert_eq!(wait(&model, &found[0]).await.unwrap().text, "a batch's reply");
    for (ticket, charge) in [(&found[1], Charge::Unknown), (&found[2], Charge::Nothing)] {
        let error = wait(&model, ticket).await.unwrap_err();
        assert_eq!((error.class(), error.charge()), (ErrorClass::Deadline, charge), "{error}");
    }
}
