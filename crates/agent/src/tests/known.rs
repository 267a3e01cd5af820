//! Verdicts from before: exact, with their report, and only from the same toolchain.

use pipeline::candidate::{Candidate, danger_key, eval_key};
use pipeline::digest::Digest;
use pipeline::reply;
use pipeline::report::{Report, Score, Stage};
use pipeline::verdict::{Reason, Verdict};
use store::{AttemptRow, Boundary, NewBuild, NewCandidate, NewJudgement, Store};

use super::fixtures::World;

/// The last reply of the demo.
pub(super) fn right_reply() -> String {
    let text = include_str!("../../../../examples/softmax_rows.transcript.jsonl");
    pipeline::transcript::parse(text).unwrap().pop().unwrap().reply
}

fn report(note: &str) -> Report {
    Report {
        stage: Stage::Search,
        device: "simulated".to_owned(),
        kernels: Vec::new(),
        cases: Vec::new(),
        score: Score::None,
        gpu: None,
        promotion: None,
        ended: None,
        confinement: None,
        held: Vec::new(),
        notes: vec![note.to_owned()],
    }
}

fn facts() -> pipeline::build::BuildFacts {
    pipeline::build::BuildFacts {
        entries: Vec::new(),
        lowered_names: Vec::new(),
        externs: Vec::new(),
        static_bytes: 0,
        special_registers: Vec::new(),
        mma_types: Vec::new(),
        cache_hints: Vec::new(),
        ptx_hash: "ptx".to_owned(),
        cubin_hash: "cubin".to_owned(),
    }
}

struct Keys {
    danger: Digest,
    eval: Digest,
}

/// Brings the attempt in hand to `built`, as a compiler would have.
async fn build(world: &World, store: &Store, attempt: &AttemptRow) -> Keys {
    let candidate: Candidate = reply::candidate(&right_reply(), &world.task.signature()).unwrap();
    let variant = candidate.default_variant();
    let new = NewCandidate {
        id: &variant.candidate_id,
        source: &candidate.source,
        plan_text: &candidate.plan_text,
        tunables: &variant.tunables,
    };
    store.record_parsed(&attempt.id, &new).await.unwrap();
    let (id, facts) = (Digest::of_bytes(b"build"), facts());
    let new = NewBuild {
        id: &id,
        facts: Some(&facts),
        diagnostics: &[],
        log: "",
        ptx: Some(b"ptx"),
        cubin: Some(b"cubin"),
        verdict: None,
        held: None,
    };
    store.record_built(&attempt.id, &new).await.unwrap();
    let device = pipeline::device_facts::DeviceFacts::simulated_h200();
    let (plan, task, judge) = (&candidate.plan, &world.task.hash, judge::judge_hash());
    let launch = plan.launch_hash(&variant.tunables);
    Keys {
        danger: danger_key("ptx", &launch, task, &device.arch),
        eval: eval_key(
            "ptx",
            &plan.verdict_hash(&variant.tunables),
            task,
            &device.model,
            judge.as_str(),
        ),
    }
}

/// Judges attempt 1 by hand, then has the engine judge attempt 2 of the same program.
async fn second_verdict(
    first: &Verdict,
    under_eval_key: bool,
    toolchain_id: &str,
) -> Option<(Verdict, Option<Report>, bool)> {
    let world = World::new().await;
    let mut model = world.model(true);
    model.text = right_reply();
    for seq in [1, 2] {
        let kill_at = Some((Boundary::Replied, seq));
        assert!(world.process(model.clone(), kill_at).await.is_none());
        let store = world.store().await;
        let attempt = store.attempt_in_hand(&world.run).await.unwrap().unwrap();
        let keys = build(&world, &store, &attempt).await;
        if seq == 1 {
            let report = report("from the first run");
            let new = NewJudgement {
                stage: Stage::Search,
                eval_key: under_eval_key.then_some(&keys.eval),
                verdict: first,
                report: Some(&report),
                from_cache: false,
                danger: first.is_dangerous().then_some(&keys.danger),
            };
            store.record_judged(&attempt.id, &new).await.unwrap();
            store.close_attempt(&attempt.id, first).await.unwrap();
        }
    }
    let store = world.store().await;
    let mut engine = world.engine(store.clone(), model);
    let config = judge::JudgeConfig {
        toolchain_id: toolchain_id.to_owned(),
        ..engine.judge.config().clone()
    };
    engine.judge = std::sync::Arc::new(judge::Judge::new(config));
    // An unknown program needs the compiler, which is absent here.
    std::sync::Arc::new(engine).run(&world.run).await.ok()?;
    let judged = store
        .attempt_detail(&world.run, &world.task.hash, 2)
        .await
        .unwrap()
        .attempt
        .judgement
        .unwrap();
    Some((judged.verdict, judged.report, judged.from_cache))
}

#[tokio::test]
async fn a_dangerous_program_gets_its_verdict_and_report_from_before() {
    for first in [
        Verdict::failed(Reason::Guard, "4 bytes past the end of `y`"),
        Verdict::failed(Reason::Crash, "Hung/TIMEOUT is in this text"),
        Verdict::failed(Reason::Timeout, "no end after 5 s"),
    ] {
        let (verdict, found, from_cache) = second_verdict(&first, false, "nvrtc").await.unwrap();
        assert_eq!((verdict.kind, verdict.reason), (first.kind, first.reason));
        let detail = format!("known from before, not run again: {}", first.detail);
        assert_eq!((verdict.detail, from_cache), (detail, true));
        assert_eq!(found, Some(report("from the first run")));
    }
}

#[tokio::test]
async fn a_cached_verdict_holds_only_for_the_same_toolchain() {
    let first = Verdict::failed(Reason::Mismatch, "3 elements");
    let (verdict, found, _) = second_verdict(&first, true, "nvrtc").await.unwrap();
    assert_eq!((verdict, found), (first.clone(), Some(report("from the first run"))));
    assert_eq!(second_verdict(&first, true, "another nvrtc").await, None);
}
