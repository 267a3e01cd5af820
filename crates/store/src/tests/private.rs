//! What must not be in a ledger.

use std::collections::BTreeMap;

use pipeline::acceptance::{Check, Entry, Found, Step};
use pipeline::attempt::State;
use pipeline::build::{Diagnostic, Severity};
use pipeline::digest::Digest;
use pipeline::inputs::Distribution;
use pipeline::report::{CaseReport, CaseStatus, Stage};
use pipeline::scrub::{Private, Scrubber};
use pipeline::verdict::{Reason, Verdict};

use super::claiming::{begin, perform};
use super::fixtures::{Ledger, reply, report};
use crate::{
    AttemptId, CallFailure, CallTarget, NewBuild, NewCandidate, NewJudgement, Purpose, RunState,
    Store,
};

const KEY: &str = "9a8b7c6d-secret-0123456789";
const SOURCE: &str = "// /home/ada\n__global__ void k() {}\n";

fn scrubber() -> Scrubber {
    let texts =
        [Private::path("the home folder", "/home/ada"), Private::secret("the value of K", KEY)];
    Scrubber::new(texts.into_iter().flatten())
}

/// Every text of the ledger, unpacked.
async fn everything(ledger: &Ledger) -> String {
    let mut all = String::new();
    for (table, columns) in [
        ("event", "body"),
        ("attempt", "detail"),
        ("evaluation", "detail"),
        ("danger", "detail"),
        ("build", "verdict"),
        ("call", "coalesce(error_message, '') || coalesce(reply_model, '')"),
        ("call", "model || coalesce(finish_reason, '')"),
        ("run", "reason"),
        ("case_result", "\"case\" || coalesce(gates, '')"),
    ] {
        let query = sqlx::AssertSqlSafe(format!("SELECT coalesce({columns}, '') FROM {table}"));
        let found: Vec<String> =
            sqlx::query_scalar(query).fetch_all(ledger.store.writer_pool()).await.unwrap();
        all.extend(found);
    }
    let packed: Vec<(String, Vec<u8>)> = sqlx::query_as("SELECT codec, bytes FROM artifact")
        .fetch_all(ledger.store.writer_pool())
        .await
        .unwrap();
    for (codec, bytes) in packed {
        let bytes = if codec == "raw" { bytes } else { zstd::decode_all(&bytes[..]).unwrap() };
        all.push_str(&String::from_utf8_lossy(&bytes));
    }
    all
}

/// Brings an attempt with a reply to its end; all who speak say the same.
async fn judge(store: &Store, id: &AttemptId, said: &str) {
    let candidate = NewCandidate {
        id: &Digest::of_bytes(b"candidate"),
        source: SOURCE,
        plan_text: "plan = 1\n",
        tunables: &Default::default(),
    };
    store.record_parsed(id, &candidate).await.unwrap();
    let diagnostic = Diagnostic {
        severity: Severity::Error,
        file: "/home/ada/x.h".to_owned(),
        line: Some(1),
        message: said.to_owned(),
        excerpt: said.to_owned(),
    };
    let verdict = Verdict::failed(Reason::Timeout, said);
    let build = NewBuild {
        id: &Digest::of_bytes(b"build"),
        facts: None,
        diagnostics: &[diagnostic],
        log: said,
        ptx: None,
        cubin: None,
        verdict: None,
        held: None,
    };
    store.record_built(id, &build).await.unwrap();
    let mut judged = report(1.0);
    judged.notes.push(said.to_owned());
    judged.cases.push(CaseReport {
        case: said.to_owned(),
        dims: BTreeMap::new(),
        distribution: Distribution::D1,
        status: CaseStatus::Passed,
        checks: Vec::new(),
        counters: None,
        findings: Vec::new(),
    });
    let key = Digest::of_bytes(b"key");
    let judgement = NewJudgement {
        stage: Stage::Search,
        eval_key: Some(&key),
        verdict: &verdict,
        report: Some(&judged),
        from_cache: false,
        danger: Some(&key),
    };
    store.record_judged(id, &judgement).await.unwrap();
    store.close_attempt(id, &verdict).await.unwrap();
}

#[tokio::test]
async fn logs_replies_and_errors_are_stored_without_secrets_and_kernels_as_they_are() {
    let mut ledger = Ledger::new().await;
    ledger.store = ledger.store.with_scrubber(scrubber());
    let store = ledger.store.clone();
    let id = ledger.open(1).await.id;
    let said = format!("{KEY} at /home/ada/x.cu");
    store.mark_sent(&id).await.unwrap();
    store.mark_lost(&id, "timeout", &said).await.unwrap();
    let again = super::fixtures::RESERVED;
    store.reopen_call(&id, again, super::fixtures::TARGET).await.unwrap();
    store.fail_call(&id, CallFailure::unpaid("refused", &said)).await.unwrap();
    // A program that answers is named by its path, and anything may stand beside it.
    let target = CallTarget { model: &said, ..super::fixtures::TARGET };
    store.reopen_call(&id, again, target).await.unwrap();
    store.renew_call(&id, again, target).await.unwrap();
    store.mark_sent(&id).await.unwrap();
    let mut answer = reply(&format!("{said}\n\n```cuda\n{SOURCE}```\n\n```toml\nplan = 1\n```\n"));
    answer.reasoning.clone_from(&said);
    answer.model.clone_from(&said);
    answer.finish_reason.clone_from(&said);
    answer.http_log = serde_json::json!([{ "error": said, "ms": 1 }]).to_string();
    store.settle_reply(&id, &answer).await.unwrap();
    judge(&store, &id, &said).await;
    store.finish_run(&ledger.run, RunState::Failed, &said).await.unwrap();
    let all = everything(&ledger).await;
    assert!(!all.contains(KEY), "{all}");
    assert_eq!(all.matches("/home/ada").count(), 2, "the kernel, in its reply and alone: {all}");
    assert!(all.matches("*** at ***/x.cu").count() >= 10, "{all}");
    let row = store.attempt(&id).await.unwrap();
    assert_eq!((row.state, row.candidate.unwrap().source.as_str()), (State::Closed, SOURCE));
    assert_eq!(row.judgement.unwrap().report.unwrap().notes.last().unwrap(), "*** at ***/x.cu");
    assert!(store.verify_run(&ledger.run).await.unwrap().is_ok());
}

/// Another process, with other texts to hide, ends what the first one judged.
#[tokio::test]
async fn a_resume_with_other_secrets_closes_what_was_judged() {
    let mut ledger = Ledger::new().await;
    ledger.store = ledger.store.with_scrubber(scrubber());
    let id = ledger.bring(1, State::Built).await;
    let said = Verdict::failed(Reason::Timeout, format!("{KEY} at /work/x"));
    let judgement = NewJudgement {
        stage: Stage::Search,
        eval_key: None,
        verdict: &said,
        report: None,
        from_cache: false,
        danger: None,
    };
    ledger.store.record_judged(&id, &judgement).await.unwrap();
    let other = Scrubber::new(Private::path("the home folder", "/work/x"));
    let second = ledger.another().await.with_scrubber(other);
    let judged = second.attempt(&id).await.unwrap().judgement.unwrap().verdict;
    assert_eq!(judged.detail, "*** at /work/x");
    let foreign = Verdict::failed(Reason::Timeout, "*** at ***");
    assert!(second.close_attempt(&id, &foreign).await.is_err());
    second.close_attempt(&id, &judged).await.unwrap();
    assert_eq!(second.attempt(&id).await.unwrap().verdict, Some(judged));
    assert!(second.verify_run(&ledger.run).await.unwrap().is_ok());
}

/// What would be no entry without what is private in it is not stored with it either.
#[tokio::test]
async fn an_entry_that_cannot_be_cleaned_is_refused() {
    let mut ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let id = begin(&ledger.store, &attempt, Purpose::Claim).await;
    let rebuilt = Entry::Rebuilt { same: true };
    let step = Step::Trials(0);
    let trials = perform(&step, None).unwrap();
    let host = Private::host("the name of this machine", "fp32");
    ledger.store = ledger.store.with_scrubber(Scrubber::new(host));
    assert_eq!(ledger.store.append_entry(&id, 0, &rebuilt).await.unwrap(), rebuilt);
    let refused = ledger.store.append_entry(&id, 1, &trials).await.unwrap_err().to_string();
    assert!(refused.contains("the name of this machine") && !refused.contains("fp32"), "{refused}");
    assert_eq!(ledger.store.entries(&id).await.unwrap(), [rebuilt]);
    let said =
        Entry::Checked { check: Check::Memcheck, found: Found::Notes { detail: KEY.into() } };
    ledger.store = ledger.store.with_scrubber(scrubber());
    let stored = ledger.store.append_entry(&id, 1, &said).await.unwrap();
    assert_eq!(ledger.store.entries(&id).await.unwrap().last(), Some(&stored));
    assert!(!format!("{stored:?}").contains(KEY));
}
