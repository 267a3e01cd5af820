//! What must not be in a ledger, and who may read it.

use std::os::unix::fs::PermissionsExt;

use pipeline::attempt::State;
use pipeline::build::{Diagnostic, Severity};
use pipeline::digest::Digest;
use pipeline::report::Stage;
use pipeline::scrub::{Private, Scrubber};
use pipeline::verdict::{Reason, Verdict};

use super::fixtures::{Ledger, reply, report};
use crate::{AttemptId, CallFailure, NewBuild, NewCandidate, NewJudgement, RunState, Store};

const KEY: &str = "9a8b7c6d-secret-0123456789";
const SOURCE: &str = "// /home/ada\n__global__ void k() {}\n";

fn scrubber() -> Scrubber {
    let texts =
        [Private::name("the home folder", "/home/ada"), Private::secret("the value of K", KEY)];
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
        ("call", "error_message || coalesce(reply_model, '') || coalesce(finish_reason, '')"),
        ("run", "reason"),
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
    };
    store.record_built(id, &build).await.unwrap();
    let mut judged = report(1.0);
    judged.notes.push(said.to_owned());
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
    store.reopen_call(&id, again, super::fixtures::TARGET).await.unwrap();
    store.mark_sent(&id).await.unwrap();
    let mut answer = reply(&format!("{said}\n\n```cuda\n{SOURCE}```\n"));
    answer.reasoning.clone_from(&said);
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

/// Whatever the umask says, a ledger and what is beside it belong to their owner alone.
#[tokio::test]
async fn a_ledger_is_created_private() {
    let ledger = Ledger::new().await;
    let _lock = ledger.store.lock_run(&ledger.run).unwrap();
    let folder = ledger.path().parent().unwrap().to_owned();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let mut seen = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        seen += 1;
    }
    assert!(seen >= 4, "ledger, -wal, -shm and a lock: {seen}");
}
