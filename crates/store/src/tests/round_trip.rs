//! Any closed attempt is read back as it was.

use std::collections::BTreeMap;

use pipeline::attempt::{Attempt, Code, Mode, best};
use pipeline::digest::Digest;
use pipeline::next_step::Ask;
use pipeline::report::{CaseReport, CaseStatus, Counters, Score};
use pipeline::verdict::{Reason, Verdict};
use proptest::prelude::*;

use super::fixtures::{
    Ledger, RESERVED, TARGET, diagnostic, facts, prompt, reply, report, start_run, task_hash,
};
use crate::{NewBuild, NewCandidate, NewJudgement, RunId, Store};

/// How far an attempt got.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum End {
    Replied,
    Parsed,
    Built,
    Judged,
}

fn any_verdict() -> impl Strategy<Value = Verdict> {
    let reasons = proptest::sample::select(Reason::ALL.to_vec());
    let failed = (reasons, ".{0,40}").prop_flat_map(|(reason, detail)| {
        let kinds = proptest::sample::select(reason.kinds().to_vec());
        kinds.prop_map(move |kind| Verdict { kind, reason: Some(reason), detail: detail.clone() })
    });
    prop_oneof![Just(Verdict::correct()), failed]
}

fn any_case() -> impl Strategy<Value = CaseReport> {
    let finite = proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL;
    ("[a-z]{1,8}", any::<i64>(), finite, ".{0,20}").prop_map(|(case, dim, sectors, detail)| {
        CaseReport {
            case,
            dims: BTreeMap::from([("n".to_owned(), dim)]),
            distribution: pipeline::inputs::Distribution::D2,
            status: CaseStatus::Failed { reason: Reason::Mismatch, detail },
            checks: Vec::new(),
            counters: Some(Counters { load_sectors: sectors, ..Counters::default() }),
            findings: Vec::new(),
        }
    })
}

prop_compose! {
    fn any_attempt()(
        end in proptest::sample::select(vec![End::Replied, End::Parsed, End::Built, End::Judged]),
        mode in proptest::sample::select(Mode::ALL.to_vec()),
        (verdict, has_report, has_parent) in (any_verdict(), any::<bool>(), any::<bool>()),
        (text, source, plan) in (".{0,6000}", "(?s).{1,99}", "[a-z =\n]{0,30}"),
        messages in proptest::collection::vec(".{0,30}", 0..3),
        (cases, sectors) in (proptest::collection::vec(any_case(), 0..3), 1.0..1e12f64),
    ) -> (End, Attempt) {
        let mut stored = report(sectors);
        stored.cases = cases;
        stored.score = if sectors < 1e11 { Score::None } else { stored.score };
        let attempt = Attempt {
            seq: 0,
            mode,
            parent: has_parent.then_some(1),
            verdict,
            code: (end >= End::Parsed).then_some(Code { source, plan }),
            reply: text,
            diagnostics: if end >= End::Built {
                messages.iter().map(|message| diagnostic(message)).collect()
            } else {
                Vec::new()
            },
            report: (end == End::Judged && has_report).then_some(stored),
            promotion: None,
        };
        (end, attempt)
    }
}

async fn write(store: &Store, run: &RunId, end: End, attempt: &Attempt) {
    let Attempt { seq, mode, parent, verdict, .. } = attempt;
    let ask = Ask { seq: *seq, mode: *mode, parent: *parent, subset_notice: false };
    let opened = store.open_attempt(run, &task_hash(), &ask, &prompt(&ask), RESERVED, TARGET).await;
    let id = opened.unwrap().id;
    store.mark_sent(&id).await.unwrap();
    store.settle_reply(&id, &reply(&attempt.reply)).await.unwrap();
    if let Some(Code { source, plan }) = &attempt.code {
        let candidate = Digest::of_bytes(source.as_bytes());
        let (plan_text, tunables) = (plan.as_str(), &BTreeMap::new());
        let new = NewCandidate { id: &candidate, source, plan_text, tunables };
        store.record_parsed(&id, &new).await.unwrap();
    }
    if end >= End::Built {
        let (facts, build_id) = (facts(), Digest::of_bytes(b"b"));
        let new = NewBuild {
            id: &build_id,
            facts: (end == End::Judged).then_some(&facts),
            diagnostics: &attempt.diagnostics,
            log: "log",
            ptx: None,
            cubin: None,
            verdict: (end != End::Judged).then_some(verdict),
            held: None,
        };
        store.record_built(&id, &new).await.unwrap();
    }
    if end == End::Judged {
        let new = NewJudgement {
            stage: pipeline::report::Stage::Search,
            eval_key: None,
            verdict,
            report: attempt.report.as_ref(),
            from_cache: true,
            danger: None,
        };
        store.record_judged(&id, &new).await.unwrap();
    }
    store.close_attempt(&id, verdict).await.unwrap();
}

#[test]
fn closed_attempts_come_back_as_they_were() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ledger = runtime.block_on(Ledger::new());
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) };
    let several = proptest::collection::vec(any_attempt(), 1..4);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let checked = runner.run(&several, |drawn| {
        runtime.block_on(async {
            let run = start_run(&ledger.store).await;
            let mut written = Vec::new();
            for (seq, (end, mut attempt)) in (1..).zip(drawn) {
                attempt.seq = seq;
                attempt.parent = attempt.parent.filter(|_| seq > 1);
                write(&ledger.store, &run, end, &attempt).await;
                written.push(attempt);
            }
            let read = ledger.store.closed_attempts(&run, &task_hash()).await.unwrap();
            assert_eq!(read, written);
            let outlines = ledger.store.outlines(&run, &task_hash()).await.unwrap();
            let written: Vec<_> = written.into_iter().map(Attempt::outline).collect();
            assert_eq!(outlines, written);
            let summary = ledger.store.run_summary(&run).await.unwrap();
            let wanted = best(&written).map(|attempt| attempt.seq);
            assert_eq!(summary.tasks[0].best_seq, wanted);
            let found = ledger.store.best_outline(&run, &task_hash()).await.unwrap();
            assert_eq!(found.map(|attempt| attempt.seq), wanted);
        });
        Ok(())
    });
    checked.unwrap();
}
