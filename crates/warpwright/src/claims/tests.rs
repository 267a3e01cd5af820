//! The loop of an acceptance over a real ledger, with a script in the judge's place.

mod booking;
mod looking;
mod measuring;
mod reproducing;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use agent::Interrupt;
use judge::JudgeError;
use pipeline::acceptance::{
    Check, Entry, Found, Protocol, Scope, Step, Subject, Tier, Timed, TrialsRecord, WeightedCase,
    WindowRecord,
};
use pipeline::attempt::Mode;
use pipeline::baseline::{BaselineId, BaselineKind, MathMode};
use pipeline::comparison::Confidence;
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::next_step::Ask;
use pipeline::prompt::Prompt;
use pipeline::report::GpuRecord;
use pipeline::task::spec::Precision;
use pipeline::timing::Spread;
use pipeline::verdict::Verdict;
use store::{
    AcceptanceRow, AttemptId, CallTarget, ClaimId, Ended, NewAcceptance, NewCandidate, NewRun,
    NewTask, Purpose, Reservation, RunKind, SettledReply, Store,
};

use crate::claims::carry::{Carried, Pace, carry};
use crate::claims::{Aim, goes_on, words};

fn baseline(kind: BaselineKind) -> BaselineId {
    BaselineId { kind, math: MathMode::Strict }
}

fn protocol(baselines: Vec<BaselineId>) -> Protocol {
    Protocol {
        groups: vec!["shapes".to_owned(), "history".to_owned()],
        checks: vec![Check::Memcheck, Check::Eviction],
        cases: vec![WeightedCase { case: "headline".to_owned(), weight: 1.0 }],
        baselines,
        class: Precision::Fp32,
        rounds_max: 15,
        confidence: Confidence::P95,
        scope: Scope { domain: Vec::new(), hidden_shapes: 6, left_out: Vec::new() },
        weaknesses: Vec::new(),
        claimed_against: None,
        confinement: Vec::new(),
    }
}

/// A judge of whom everything is known; it remembers what it was asked.
#[derive(Default)]
struct Script {
    asked: Mutex<Vec<Step>>,
    /// Breaks at this step.
    breaks_at: Option<usize>,
    /// UUID of the card that the windows are measured on.
    card: Option<&'static str>,
    /// How long each step takes.
    takes: Duration,
    /// Every other round takes the candidate twice as long.
    noise: bool,
}

impl Script {
    fn perform(&self, protocol: &Protocol, step: &Step) -> Result<Entry, JudgeError> {
        let mut asked = self.asked.lock().unwrap();
        if self.breaks_at == Some(asked.len()) {
            return Err(JudgeError::NotAvailable("the card fell off the bus".to_owned()));
        }
        asked.push(step.clone());
        std::thread::sleep(self.takes);
        Ok(match step {
            Step::Rebuild => Entry::Rebuilt { same: true },
            Step::Trials(group) => Entry::Trials(TrialsRecord {
                group: protocol.groups[*group].clone(),
                cases: Vec::new(),
                verdict: Verdict::correct(),
                deterministic: true,
                class: Some(Precision::Fp32),
                length: None,
                unprobed: Vec::new(),
            }),
            Step::Check(Check::Eviction) => Entry::Checked {
                check: Check::Eviction,
                found: Found::NotAvailable { why: "no profiler".to_owned() },
            },
            Step::Check(check) => Entry::Checked { check: *check, found: Found::Clean },
            Step::Pilot { baseline, .. } => {
                Entry::Pilot(window(Subject::Baseline(baseline.clone()), (0, 0)))
            }
            Step::Window { subject, round, position, .. } => {
                let gpu = self.card.map(card);
                let window = window(subject.clone(), (*round, *position));
                let slow = self.noise && *subject == Subject::Candidate && round % 2 == 0;
                let timed = if slow { timed(160_000.0) } else { window.timed };
                Entry::Window(WindowRecord { gpu, timed, ..window })
            }
            Step::Done => panic!("nothing is to be performed"),
        })
    }

    fn pilots(&self) -> usize {
        let asked = self.asked.lock().unwrap();
        asked.iter().filter(|step| matches!(step, Step::Pilot { .. })).count()
    }
}

fn card(uuid: &str) -> GpuRecord {
    GpuRecord {
        uuid: uuid.to_owned(),
        driver: "580.1".to_owned(),
        before: None,
        after: None,
        cold: Vec::new(),
        warm: Vec::new(),
        cost: Vec::new(),
        memory: None,
    }
}

fn timed(ns: f64) -> Timed {
    let cold = Spread { median_ns: ns, p10_ns: ns, p90_ns: ns, samples: 50, dropped: 0 };
    Timed::Measured { cold, warm: None, suspicion: None }
}

fn window(subject: Subject, (round, position): (u32, u32)) -> WindowRecord {
    let ns = match &subject {
        Subject::Candidate => 80_000.0,
        Subject::Baseline(id) if id.kind == BaselineKind::Eager => 120_000.0,
        Subject::Baseline(_) => 100_000.0,
    };
    WindowRecord {
        case: "headline".to_owned(),
        subject,
        round,
        position,
        timed: timed(ns),
        gpu: None,
        flags_before: vec![("allow_tf32".to_owned(), "False".to_owned())],
        flags_after: vec![("allow_tf32".to_owned(), "False".to_owned())],
        versions: vec![("torch".to_owned(), "2.9".to_owned())],
        error: None,
        steady: vec!["power cap".to_owned()],
        ungated: false,
        energy_mj: (round == 1).then_some(ns / 1_000.0),
    }
}

struct Ledger {
    _folder: tempfile::TempDir,
    store: Store,
    attempt: AttemptId,
}

fn task() -> Digest {
    Digest::of_bytes(b"task")
}

impl Ledger {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("ledger.db")).await.unwrap();
        let (hash, files, device) = (task(), BTreeMap::new(), DeviceFacts::simulated_h200());
        let new = NewRun {
            kind: RunKind::Auto,
            settings_json: "{}",
            secret_seeds_json: "\"00\"",
            judge_hash: "judge",
            toolchain_id: "nvrtc",
            prompts_hash: "prompts",
            tasks: &[NewTask { hash: &hash, name: "sum", files: &files }],
            device: &device,
            gpus: &[],
        };
        let run = store.start_run(&new).await.unwrap();
        let ask = Ask { seq: 1, mode: Mode::First, parent: None, subset_notice: false };
        let prompt = Prompt { mode: ask.mode, messages: Vec::new() };
        let target = CallTarget { provider: "replay", model: "m", price_json: "\"Free\"" };
        let none = Reservation::default();
        let opened = store.open_attempt(&run, &hash, &ask, &prompt, none, target).await;
        let attempt = opened.unwrap().id;
        store.mark_sent(&attempt).await.unwrap();
        let reply = SettledReply {
            text: "reply".to_owned(),
            usage: None,
            finish_reason: "stop".to_owned(),
            model: "m".to_owned(),
            latency_ms: 0,
            cost_nusd: None,
            drift: false,
            reasoning: String::new(),
            http_log: String::new(),
        };
        store.settle_reply(&attempt, &reply).await.unwrap();
        let (id, tunables) = (Digest::of_bytes(b"candidate"), BTreeMap::new());
        let new =
            NewCandidate { id: &id, source: "source\n", plan_text: "plan", tunables: &tunables };
        store.record_parsed(&attempt, &new).await.unwrap();
        Self { _folder: folder, store, attempt }
    }

    async fn begin(&self, protocol: &Protocol) -> AcceptanceRow {
        self.begin_for(Purpose::Claim, protocol).await
    }

    async fn begin_for(&self, purpose: Purpose, protocol: &Protocol) -> AcceptanceRow {
        self.begin_of(b"key", purpose, protocol).await
    }

    async fn begin_of(&self, key: &[u8], purpose: Purpose, protocol: &Protocol) -> AcceptanceRow {
        let new = NewAcceptance {
            attempt: &self.attempt,
            purpose,
            of_claim: None,
            protocol,
            eval_key: &Digest::of_bytes(key),
            ptx_hash: "ptx",
            cubin_hash: "cubin",
            seed: "00",
            judge_hash: "judge",
            toolchain_id: "nvrtc",
            device: &DeviceFacts::simulated_h200(),
            card: None,
            process: purpose.name(),
        };
        let id = self.store.start_acceptance(&new).await.unwrap();
        self.store.acceptance(&id).await.unwrap()
    }

    async fn carry(
        &self,
        row: &AcceptanceRow,
        script: &Script,
        pace: &Pace,
    ) -> (anyhow::Result<Carried>, Vec<String>) {
        let said = Mutex::new(Vec::new());
        let perform =
            |protocol: &Protocol, _: &[Entry], step: &Step| script.perform(protocol, step);
        let say = |line: &str| said.lock().unwrap().push(line.to_owned());
        let carried = carry(&self.store, row, &task(), &perform, pace, &say).await;
        (carried, said.into_inner().unwrap())
    }
}

fn unhurried() -> Pace {
    Pace { interrupt: Interrupt::patient(), cancel: None, deadline: None, card_time: None }
}

fn all() -> Vec<BaselineId> {
    vec![baseline(BaselineKind::Eager), baseline(BaselineKind::Compile)]
}

#[tokio::test(flavor = "multi_thread")]
async fn an_acceptance_is_carried_to_its_claim_and_told_in_lines() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(all())).await;
    let (carried, said) = ledger.carry(&row, &Script::default(), &unhurried()).await;
    let Carried::Ended(conclusion, Ended::Claimed(id)) = carried.unwrap() else { panic!() };
    let claim = ledger.store.claim(id.as_str()).await.unwrap();
    assert_eq!(Some(&claim.claim), conclusion.claim.as_ref());
    for wanted in [
        "built again: the same program",
        "trials history: correct",
        "check eviction: not available: no profiler",
        "pilot headline PyTorch eager: 120.0 µs",
        "round 7: candidate 80.00 µs, torch.compile 100.0 µs",
    ] {
        assert!(said.iter().any(|line| line == wanted), "{wanted}: {said:?}");
    }
    assert_eq!(said.iter().filter(|line| line.starts_with("round ")).count(), 7);
    let entries = ledger.store.entries(&row.id).await.unwrap();
    let page = words::lines(&claim.claim, &conclusion, &entries).join("\n");
    for wanted in [
        "speed-up 1.250x over torch.compile [claimed]",
        "95 %, 7 rounds",
        "allow_tf32=False",
        "torch=2.9",
        "not available: Eviction: no profiler",
        "steady state: power cap",
        "class fp32, deterministic",
    ] {
        assert!(page.contains(wanted), "{wanted}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_broke_goes_on_after_the_last_stored_step() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(all())).await;
    let broken = Script { breaks_at: Some(9), ..Script::default() };
    let (carried, _) = ledger.carry(&row, &broken, &unhurried()).await;
    assert!(carried.unwrap_err().to_string().contains("fell off"));
    let script = Script::default();
    let (carried, said) = ledger.carry(&row, &script, &unhurried()).await;
    assert!(matches!(carried.unwrap(), Carried::Ended(_, Ended::Claimed(_))));
    assert_eq!(said[0], "going on after 9 steps");
    // Build, two groups, two checks, two pilots, seven rounds of four windows; nine were stored.
    assert_eq!(script.asked.lock().unwrap().len(), 7 + 28 - 9);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_acceptance_goes_on_whichever_attempt_had_the_program() {
    let ledger = Ledger::new().await;
    let (own, other) = (ledger.attempt.clone(), AttemptId::from("another".to_owned()));
    let claim = ClaimId::from("claim".to_owned());
    let open = ledger.begin(&protocol(all())).await;
    let measured = AcceptanceRow { purpose: Purpose::Measurement, ..open.clone() };
    let (carried, _) = ledger.carry(&open, &Script::default(), &unhurried()).await;
    assert!(matches!(carried.unwrap(), Carried::Ended(..)));
    let ended = ledger.store.acceptance(&open.id).await.unwrap();
    let recheck = Aim {
        attempt: &own,
        purpose: Purpose::Recheck,
        of_claim: None,
        weaknesses: &[],
        against: None,
        named: "",
    };
    for (row, attempt, of_claim, toolchain, expected) in [
        (&open, &own, None, "nvrtc", true),
        (&open, &other, None, "nvrtc", true),
        (&open, &own, None, "another", false),
        (&open, &own, Some(&claim), "nvrtc", false),
        (&ended, &own, None, "nvrtc", false),
        (&measured, &own, None, "nvrtc", true),
        (&measured, &other, None, "nvrtc", false),
    ] {
        let aim = Aim { attempt, purpose: row.purpose, of_claim, ..recheck };
        assert_eq!(goes_on(row, aim, toolchain), expected, "{attempt} {of_claim:?} {toolchain}");
    }
    assert!(!goes_on(&open, recheck, "nvrtc"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_and_an_interrupt_leave_the_rest_for_later() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(all())).await;
    let over = Pace { deadline: Some(Instant::now()), ..unhurried() };
    let (carried, _) = ledger.carry(&row, &Script::default(), &over).await;
    let Carried::Deadline(left) = carried.unwrap() else { panic!() };
    assert_eq!(left, "0 steps are stored; next is building it again");
    let stopped = unhurried();
    stopped.interrupt.request();
    let (carried, _) = ledger.carry(&row, &Script::default(), &stopped).await;
    assert!(matches!(carried.unwrap(), Carried::Interrupted(_)));
    assert_eq!(ledger.store.entries(&row.id).await.unwrap(), Vec::new());
    // The first step of a call begins; the next would end too late, going by that one.
    let seconds = Duration::from_secs;
    let slow = Script { takes: seconds(2), ..Script::default() };
    let short = Pace { deadline: Some(Instant::now() + seconds(3)), ..unhurried() };
    let (carried, _) = ledger.carry(&row, &slow, &short).await;
    let Carried::Deadline(left) = carried.unwrap() else { panic!() };
    assert_eq!(left, "1 steps are stored; next is the trials `shapes`");
    let enough = Pace { deadline: Some(Instant::now() + Duration::from_secs(600)), ..unhurried() };
    let (carried, _) = ledger.carry(&row, &Script::default(), &enough).await;
    assert!(matches!(carried.unwrap(), Carried::Ended(_, Ended::Claimed(_))));
}

#[tokio::test(flavor = "multi_thread")]
async fn later_acceptances_use_pilots_again_under_the_same_framework() {
    let ledger = Ledger::new().await;
    let first = Script::default();
    let row = ledger.begin(&protocol(all())).await;
    ledger.carry(&row, &first, &unhurried()).await.0.unwrap();
    let second = Script::default();
    let row = ledger.begin(&protocol(all())).await;
    ledger.carry(&row, &second, &unhurried()).await.0.unwrap();
    // The first pilot tells which framework there is; only then is another one's use sound.
    assert_eq!((first.pilots(), second.pilots()), (2, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_that_only_beats_ours_is_no_speed_up() {
    let ledger = Ledger::new().await;
    let row = ledger.begin(&protocol(vec![baseline(BaselineKind::Naive)])).await;
    let (carried, _) = ledger.carry(&row, &Script::default(), &unhurried()).await;
    let Carried::Ended(conclusion, Ended::Claimed(id)) = carried.unwrap() else { panic!() };
    let claim = ledger.store.claim(id.as_str()).await.unwrap();
    let page = words::lines(&claim.claim, &conclusion, &[]).join("\n");
    assert!(page.contains("1.250x faster than the task's naive kernel"), "{page}");
    assert!(!page.contains("speed-up") && !page.contains("speedup"), "{page}");
    let energy = "80.000 mJ against 100.000 mJ a call on `headline`";
    assert!(page.contains(energy) && words::of_row(&claim).contains(energy), "{page}");
    let json = words::as_json(&claim);
    assert_eq!(json["energy_mj"][0]["candidate"], 80.0);
    assert_eq!((&json["baseline_set"], &json["tier"]), (&"native".into(), &"claimed".into()));
    assert!(words::headline(&claim.claim, Tier::Confirmed).contains("[confirmed]"));
}
