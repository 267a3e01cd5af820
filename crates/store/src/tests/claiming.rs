//! From a verdict to a claim, and what tampering with it shows.

use pipeline::acceptance::{
    Check, Entry, Found, Protocol, Scope, Step, Subject, Timed, TrialsRecord, WeightedCase,
    WindowRecord, conclude, next_step, reviewed,
};
use pipeline::attempt::State;
use pipeline::baseline::{BaselineId, BaselineKind, MathMode};
use pipeline::comparison::{Confidence, Suspicion};
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::report::{GpuRecord, Stage};
use pipeline::task::spec::Precision;
use pipeline::timing::{Sample, Spread};
use pipeline::verdict::{Reason, Verdict};

use super::fixtures::{Ledger, report, task_hash};
use crate::{
    AcceptanceId, AttemptId, CheckOutcome, ClaimState, Decision, Ended, NewAcceptance, NewCheck,
    NewJudgement, PilotKey, Purpose, Ruling, Store, framework,
};

const SEED: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

fn eager() -> BaselineId {
    BaselineId { kind: BaselineKind::Eager, math: MathMode::Strict }
}

fn protocol() -> Protocol {
    Protocol {
        groups: vec!["shapes".to_owned()],
        checks: vec![Check::Memcheck],
        cases: vec![WeightedCase { case: "headline".to_owned(), weight: 1.0 }],
        baselines: vec![eager()],
        class: Precision::Fp32,
        rounds_max: 15,
        confidence: Confidence::P95,
        scope: Scope { domain: Vec::new(), hidden_shapes: 6, left_out: Vec::new() },
        weaknesses: Vec::new(),
        claimed_against: None,
        confinement: Vec::new(),
    }
}

fn window(subject: Subject, place: (u32, u32), ns: u64) -> WindowRecord {
    let sample = |elapsed_ns| Sample {
        content: 0,
        elapsed_ns,
        sm_clock_hz: 1.98e9,
        ungated: false,
        hash: [1, 2],
    };
    let time = ns as f64;
    let cold = Spread { median_ns: time, p10_ns: time, p90_ns: time, samples: 2, dropped: 0 };
    WindowRecord {
        case: "headline".to_owned(),
        subject,
        round: place.0,
        position: place.1,
        timed: Timed::Measured { cold, warm: None, suspicion: None },
        gpu: Some(GpuRecord {
            uuid: "GPU-1".to_owned(),
            driver: "580".to_owned(),
            before: None,
            after: None,
            cold: vec![sample(ns), sample(ns + 1)],
            warm: vec![sample(ns / 2)],
            cost: Vec::new(),
            memory: None,
        }),
        flags_before: vec![("allow_tf32".to_owned(), "False".to_owned())],
        flags_after: vec![("allow_tf32".to_owned(), "False".to_owned())],
        versions: vec![("torch".to_owned(), "2.9".to_owned())],
        error: None,
        steady: Vec::new(),
        ungated: false,
        energy_mj: None,
    }
}

/// What a step gives; `suspicion` is put on the candidate's windows.
pub(super) fn perform(step: &Step, suspicion: Option<Suspicion>) -> Option<Entry> {
    let ns = |subject: &Subject| if *subject == Subject::Candidate { 800 } else { 1000 };
    Some(match step {
        Step::Rebuild => Entry::Rebuilt { same: true },
        Step::Trials(_) => Entry::Trials(TrialsRecord {
            group: "shapes".to_owned(),
            cases: Vec::new(),
            verdict: Verdict::correct(),
            deterministic: true,
            class: Some(Precision::Fp32),
            length: None,
            unprobed: Vec::new(),
        }),
        Step::Check(check) => Entry::Checked { check: *check, found: Found::Clean },
        Step::Pilot { baseline, .. } => {
            Entry::Pilot(window(Subject::Baseline(baseline.clone()), (0, 0), 1000))
        }
        Step::Window { round, position, subject, .. } => {
            let mut record = window(subject.clone(), (*round, *position), ns(subject));
            if let (Timed::Measured { suspicion: found, .. }, Subject::Candidate) =
                (&mut record.timed, subject)
            {
                *found = suspicion.map(|it| (it, "0.9 of the floor".to_owned()));
            }
            Entry::Window(record)
        }
        Step::Done => return None,
    })
}

pub(super) async fn begin(store: &Store, attempt: &AttemptId, purpose: Purpose) -> AcceptanceId {
    let new = NewAcceptance {
        attempt,
        purpose,
        of_claim: None,
        protocol: &protocol(),
        eval_key: &Digest::of_bytes(b"key"),
        ptx_hash: "ptx",
        cubin_hash: "cubin",
        seed: SEED,
        judge_hash: "judge",
        toolchain_id: "nvrtc",
        device: &DeviceFacts::simulated_h200(),
        card: None,
        process: "1@2",
    };
    store.start_acceptance(&new).await.unwrap()
}

/// Carries an acceptance to its end.
pub(super) async fn carry(store: &Store, id: &AcceptanceId, suspicion: Option<Suspicion>) -> Ended {
    let mut entries = store.entries(id).await.unwrap();
    while let Some(entry) = perform(&next_step(&protocol(), &entries), suspicion) {
        store.append_entry(id, entries.len() as u32, &entry).await.unwrap();
        entries.push(entry);
    }
    store.end_acceptance(id, &conclude(&protocol(), &entries)).await.unwrap()
}

pub(super) struct Claimed {
    pub(super) ledger: Ledger,
    pub(super) id: AcceptanceId,
}

pub(super) async fn claimed() -> Claimed {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let id = begin(&ledger.store, &attempt, Purpose::Claim).await;
    let ended = carry(&ledger.store, &id, None).await;
    assert!(matches!(ended, Ended::Claimed(_)), "{ended:?}");
    Claimed { ledger, id }
}

#[tokio::test]
async fn an_acceptance_comes_back_and_becomes_a_claim() {
    let Claimed { ledger, id } = claimed().await;
    let store = &ledger.store;
    let entries = store.entries(&id).await.unwrap();
    assert_eq!(next_step(&protocol(), &entries), Step::Done);
    let row = store.acceptance(&id).await.unwrap();
    assert_eq!(row.protocol, protocol());
    assert_eq!(row.conclusion, Some(conclude(&protocol(), &entries)));
    assert_eq!(store.acceptance_seed(&id).await.unwrap(), SEED);
    let claims = store.claims_of_run(&ledger.run).await.unwrap();
    let [claim] = claims.as_slice() else { panic!("{claims:?}") };
    assert_eq!(Some(&claim.claim), row.conclusion.unwrap().claim.as_ref());
    assert_eq!((claim.state, claim.seq, claim.task_name.as_str()), (ClaimState::Claimed, 1, "sum"));
    assert_eq!(store.claim(&claim.id.as_str()[..30]).await.unwrap(), *claim);
    // A window is also a row of its own, with samples as u64 nanoseconds.
    let query = "SELECT length(samples) FROM window WHERE subject = 'candidate' LIMIT 1";
    assert_eq!(ledger.count(query).await, 3 * 8);
    assert_eq!(ledger.count("SELECT count(*) FROM window").await, 7 * 4);
    let refused = store.append_entry(&id, entries.len() as u32, &entries[0]).await;
    assert!(refused.unwrap_err().to_string().contains("has ended"));
    assert!(store.claim("").await.is_err() && store.claim("nobody").await.is_err());
}

#[tokio::test]
async fn an_interrupted_acceptance_goes_on_where_it_stopped() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let id = begin(&ledger.store, &attempt, Purpose::Claim).await;
    let first = perform(&Step::Rebuild, None).unwrap();
    ledger.store.append_entry(&id, 0, &first).await.unwrap();
    for position in [0, 2] {
        assert!(ledger.store.append_entry(&id, position, &first).await.is_err());
    }
    let another = ledger.another().await;
    let key = Digest::of_bytes(b"key");
    let found = another.acceptances_of_key(&key).await.unwrap();
    assert_eq!((found.len(), found[0].id.clone(), &found[0].conclusion), (1, id.clone(), &None));
    assert!(matches!(carry(&another, &id, None).await, Ended::Claimed(_)));
}

#[tokio::test]
async fn one_process_at_a_time_accepts_a_program_for_a_purpose() {
    let ledger = Ledger::new().await;
    let another = ledger.another().await;
    let [key, other] = [b"key", b"two"].map(|it| Digest::of_bytes(it));
    let lock = ledger.store.lock_program(&key, Purpose::Claim).unwrap();
    for (key, purpose, free) in [
        (&key, Purpose::Claim, false),
        (&key, Purpose::Reproduction, true),
        (&other, Purpose::Claim, true),
    ] {
        let taken = another.lock_program(key, purpose);
        assert_eq!(taken.is_ok(), free, "{key} {purpose:?}");
    }
    drop(lock);
    assert!(another.lock_program(&key, Purpose::Claim).is_ok());
}

#[tokio::test]
async fn pilots_serve_later_acceptances_under_the_same_conditions() {
    let Claimed { ledger, .. } = claimed().await;
    let (task, baseline) = (task_hash(), eager());
    let model = DeviceFacts::simulated_h200().model;
    let versions = framework(&[("torch".to_owned(), "2.9".to_owned())]);
    let key = PilotKey {
        task: &task,
        case: "headline",
        baseline: &baseline,
        device_model: &model,
        framework: &versions,
        judge_hash: "judge",
    };
    let found = ledger.store.pilot(&key).await.unwrap().unwrap();
    assert_eq!(found.median_ns(), Some(1000.0));
    for other in [
        PilotKey { framework: "torch 2.8", ..key },
        PilotKey { judge_hash: "another", ..key },
        PilotKey { case: "small", ..key },
        PilotKey { device_model: "A100", ..key },
    ] {
        assert_eq!(ledger.store.pilot(&other).await.unwrap(), None, "{other:?}");
    }
}

#[tokio::test]
async fn what_is_suspect_waits_for_a_person() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Closed).await;
    let store = &ledger.store;
    let id = begin(store, &attempt, Purpose::Claim).await;
    assert_eq!(carry(store, &id, Some(Suspicion::Physics)).await, Ended::Waits);
    assert_eq!(store.claims().await.unwrap(), Vec::new());
    let reviews = store.reviews().await.unwrap();
    assert_eq!((reviews[0].suspicion.as_str(), reviews[0].decision), ("PHYSICS", None));
    let entries = store.entries(&id).await.unwrap();
    let claim = reviewed(&protocol(), &entries, "the floor is wrong").unwrap();
    let by_ada = Ruling { reason: "the floor is wrong", reviewer: "ada" };
    let made = store.decide_review(&id, Decision::Accepted, by_ada, Some(&claim)).await.unwrap();
    let row = store.claims().await.unwrap().remove(0);
    assert_eq!(row.id, made.unwrap());
    assert!(row.is_approved() && row.approvals[0].reviewer == "ada", "{:?}", row.approvals);
    assert_eq!(store.reviews().await.unwrap()[0].reviewer.as_deref(), Some("ada"));
    let again = store.decide_review(&id, Decision::Rejected, by_ada, None).await;
    assert!(again.unwrap_err().to_string().contains("waits"));
    let verified = store.verify_run(&ledger.run).await.unwrap();
    assert!(verified.is_ok(), "{verified:?}");
}

#[tokio::test]
async fn looks_at_a_claim_again_change_its_state_and_are_chained() {
    let Claimed { ledger, id } = claimed().await;
    let store = &ledger.store;
    let claim = store.claims().await.unwrap().remove(0);
    let attempt = store.acceptance(&id).await.unwrap().attempt_id;
    for (outcome, becomes, state) in [
        (CheckOutcome::Reproduced, Some(ClaimState::Confirmed), ClaimState::Confirmed),
        (CheckOutcome::Holds, None, ClaimState::Confirmed),
        (CheckOutcome::NotReproduced, Some(ClaimState::Withdrawn), ClaimState::Withdrawn),
    ] {
        let again = begin(store, &attempt, Purpose::Reproduction).await;
        assert_eq!(carry(store, &again, None).await, Ended::Nothing);
        let new = NewCheck {
            acceptance: &again,
            claim: Some(&claim.id),
            bundle: None,
            outcome,
            detail: "in numbers",
            becomes,
        };
        store.record_check(&new).await.unwrap();
        assert_eq!(store.claim(claim.id.as_str()).await.unwrap().state, state);
    }
    assert_eq!(store.claim(claim.id.as_str()).await.unwrap().checks.len(), 3);
    assert!(store.verify_run(&ledger.run).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_promotion_stands_beside_the_searchs_report() {
    let ledger = Ledger::new().await;
    let attempt = ledger.bring(1, State::Judged).await;
    let (key, report) = (Digest::of_bytes(b"key"), report(1.0));
    let verdict = Verdict::failed(Reason::Shape, "at a hidden shape");
    let new = NewJudgement {
        stage: Stage::Promote,
        eval_key: Some(&key),
        verdict: &verdict,
        report: Some(&report),
        from_cache: false,
        danger: None,
    };
    ledger.store.record_promotion(&attempt, &new).await.unwrap();
    let row = ledger.store.attempt(&attempt).await.unwrap();
    assert_eq!(row.judgement.unwrap().stage, Stage::Search);
    let promotion = ledger.store.promotion(&attempt).await.unwrap().unwrap();
    assert_eq!((promotion.stage, &promotion.verdict), (Stage::Promote, &verdict));
    let cached = |found: Option<(Verdict, _)>| found.map(|(verdict, _)| verdict.is_correct());
    let search = ledger.store.verdict_of_eval_key(&key, "nvrtc").await.unwrap();
    let promoted = ledger.store.promotion_of_eval_key(&key, "nvrtc").await.unwrap();
    assert_eq!((cached(search), cached(promoted)), (Some(true), Some(false)));
    // The attempt ends as the last look at it says.
    assert!(ledger.store.close_attempt(&attempt, &Verdict::correct()).await.is_err());
    ledger.store.close_attempt(&attempt, &verdict).await.unwrap();
    assert!(ledger.store.verify_run(&ledger.run).await.unwrap().is_ok());
}

#[tokio::test]
async fn what_was_measured_cannot_be_changed_through_sql() {
    let Claimed { ledger, .. } = claimed().await;
    for text in [
        "UPDATE window SET median_ns = 1",
        "DELETE FROM window",
        "UPDATE acceptance_entry SET kind = 'x'",
        "DELETE FROM acceptance_entry",
    ] {
        let error = ledger.sql(text).await.unwrap_err().to_string();
        assert!(error.contains("append-only"), "{error}");
    }
}

/// What somebody does to a ledger, and what the misfit is called.
const TAMPERED: &[(&str, &str)] = &[
    ("UPDATE window SET median_ns = 1 WHERE entry_position = 5", "window of entry 5"),
    ("UPDATE window SET samples = x'00' WHERE entry_position = 6", "window of entry 6"),
    ("DELETE FROM window WHERE entry_position = 7", "window of entry 7"),
    (
        "UPDATE acceptance_entry SET entry = (SELECT entry FROM acceptance_entry
      WHERE position = 4) WHERE position = 5",
        "`entry`",
    ),
    (
        "DELETE FROM window WHERE entry_position = 31; DELETE FROM acceptance_entry
      WHERE position = 31",
        "missing",
    ),
    ("UPDATE acceptance SET judge_hash = 'x'", "`judge`"),
    ("UPDATE device SET model = 'A100'", "device"),
    ("UPDATE device SET sheet = '{}'", "device"),
    ("UPDATE acceptance_seed SET seed = 'x'", "seed"),
    ("UPDATE claim SET baseline = 'x'", "`baseline`"),
    ("UPDATE acceptance SET started_us = 1", "`started_us`"),
    ("UPDATE claim SET baseline = CAST(x'ff' AS TEXT)", "does not read"),
    ("UPDATE claim SET interval = '{}'", "`interval`"),
    ("UPDATE claim SET baseline_set = 'native'", "`baseline_set`"),
    ("UPDATE claim SET why = 'x'", "`why`"),
    ("UPDATE claim SET state = 'confirmed'", "is confirmed"),
    ("UPDATE baseline SET record = (SELECT claim FROM claim)", "a pilot does not read back"),
    ("UPDATE baseline SET \"case\" = 'small'", "the pilot of PyTorch eager on `small`"),
    ("UPDATE baseline SET baseline = 'torch.compile'", "the pilot of torch.compile"),
    ("UPDATE baseline SET framework = 'torch 3'", "the pilot of"),
    ("UPDATE baseline SET device_model = 'A100'", "the pilot of"),
    ("UPDATE baseline SET judge_hash = 'x'", "the pilot of"),
    ("UPDATE build SET ptx = NULL", "`ptx`"),
    ("UPDATE evaluation SET kind = 'Wrong', reason = 'MISMATCH'", "`verdict`"),
    ("UPDATE attempt SET detail = 'x'", "`verdict`"),
    ("UPDATE call SET cost_nusd = 1", "`cost_nusd`"),
    ("UPDATE candidate SET source = plan", "`source`"),
    ("UPDATE artifact SET bytes = x'00' WHERE hash = (SELECT ptx FROM build)", "artifact"),
    (
        "UPDATE artifact SET bytes = zeroblob(length(bytes))
      WHERE hash = (SELECT conclusion FROM acceptance)",
        "artifact",
    ),
    ("UPDATE event SET body = 'x' WHERE seq = 9", "event 9"),
    (
        "INSERT INTO review SELECT id, 'AUDIT', 'x', NULL, NULL, 0, NULL, 'x', NULL
      FROM acceptance",
        "review_opened",
    ),
];

#[tokio::test]
async fn verifying_names_the_first_thing_that_does_not_fit() {
    const UNLOCK: &str = "DROP TRIGGER window_keeps_its_rows; DROP TRIGGER window_loses_no_rows;
        DROP TRIGGER acceptance_entry_keeps_its_rows;
        DROP TRIGGER acceptance_entry_loses_no_rows; DROP TRIGGER event_keeps_its_rows;
        PRAGMA foreign_keys = OFF;";
    let untouched = claimed().await.ledger;
    assert!(untouched.store.verify_run(&untouched.run).await.unwrap().is_ok());
    for (tampering, word) in TAMPERED {
        let ledger = claimed().await.ledger;
        ledger.sql(&format!("{UNLOCK} {tampering}")).await.unwrap();
        let found = ledger.store.verify_run(&ledger.run).await.unwrap().unwrap_err();
        assert!(found.what.contains(word), "{tampering}: {}", found.what);
    }
}
