//! From a kernel to a bundle and back. Without a GPU, a script writes what `accept` would.

use std::io::Read;

use fleet::bundle::Bundle;
use pipeline::acceptance::{
    Check, Entry, Found, Protocol, Scope, Step, Subject, Timed, TrialsRecord, WeightedCase,
    WindowRecord, conclude, next_step,
};
use pipeline::baseline::{BaselineId, BaselineKind, MathMode};
use pipeline::candidate::eval_key;
use pipeline::comparison::{Confidence, Suspicion};
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::reply::candidate_of_parts;
use pipeline::report::GpuRecord;
use pipeline::task::Task;
use pipeline::task::spec::Precision;
use pipeline::timing::Spread;
use pipeline::verdict::Verdict;
use store::{AcceptanceId, AttemptRow, Ended, NewAcceptance, Purpose, Store};

use crate::program::{Ended as Call, Program, SEED, demo_replies};

const WEAKNESS: &str = "wrong answers that would pass: inputs rounded to bf16";

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
        weaknesses: vec![WEAKNESS.to_owned()],
        claimed_against: None,
        confinement: Vec::new(),
    }
}

fn window(subject: Subject, (round, position): (u32, u32)) -> WindowRecord {
    let ns = if subject == Subject::Candidate { 80_000.0 } else { 100_000.0 };
    let cold = Spread { median_ns: ns, p10_ns: ns, p90_ns: ns, samples: 50, dropped: 0 };
    WindowRecord {
        case: "headline".to_owned(),
        subject,
        round,
        position,
        timed: Timed::Measured { cold, warm: None, suspicion: None },
        gpu: Some(GpuRecord {
            uuid: "GPU-11".to_owned(),
            driver: "580.1".to_owned(),
            before: None,
            after: None,
            cold: Vec::new(),
            warm: Vec::new(),
            cost: Vec::new(),
            memory: None,
        }),
        flags_before: Vec::new(),
        flags_after: Vec::new(),
        versions: vec![("torch".to_owned(), "2.9".to_owned())],
        error: None,
        steady: Vec::new(),
        ungated: false,
        energy_mj: None,
    }
}

fn entry(step: &Step, suspicion: Option<Suspicion>) -> Option<Entry> {
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
            Entry::Pilot(window(Subject::Baseline(baseline.clone()), (0, 0)))
        }
        Step::Window { subject, round, position, .. } => {
            let mut record = window(subject.clone(), (*round, *position));
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

/// A program whose ledger holds one correct kernel.
pub(crate) fn with_kernel() -> Program {
    let program = Program::new();
    let path = program.path("good.md").display().to_string();
    std::fs::write(&path, demo_replies().pop().unwrap()).unwrap();
    let ended = program.call(&["evaluate", "softmax_rows", &path, "--seed", SEED]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    program
}

/// Accepts that kernel by script.
pub(crate) async fn accepted(
    program: &Program,
    suspicion: Option<Suspicion>,
) -> (AcceptanceId, Ended) {
    let store = Store::open(&program.ledger()).await.unwrap();
    let run = store.resolve_run("@last").await.unwrap();
    let row = store.run(&run).await.unwrap();
    let detail = store.attempt_detail(&run, &row.tasks[0].hash, 1).await.unwrap();
    let attempt: AttemptRow = detail.attempt;
    let files = store.task_files(&row.tasks[0].hash).await.unwrap();
    let task = Task::from_files(&files).unwrap();
    let code = attempt.candidate.as_ref().unwrap();
    let candidate = candidate_of_parts(&code.source, &code.plan_text, &task.signature()).unwrap();
    let facts = attempt.build.as_ref().unwrap().facts.as_ref().unwrap();
    let device = DeviceFacts::simulated_h200();
    let launch = candidate.plan.verdict_hash(&code.tunables);
    let key = eval_key(&facts.ptx_hash, &launch, &task.hash, &device.model, &row.judge_hash);
    let new = NewAcceptance {
        attempt: &attempt.id,
        purpose: Purpose::Claim,
        of_claim: None,
        protocol: &protocol(),
        eval_key: &key,
        ptx_hash: &facts.ptx_hash,
        cubin_hash: &facts.cubin_hash,
        seed: SEED,
        judge_hash: &row.judge_hash,
        toolchain_id: &row.toolchain_id,
        device: &device,
        card: None,
        process: "1@2",
    };
    let id = store.start_acceptance(&new).await.unwrap();
    let mut entries = Vec::new();
    while let Some(entry) = entry(&next_step(&protocol(), &entries), suspicion) {
        store.append_entry(&id, entries.len() as u32, &entry).await.unwrap();
        entries.push(entry);
    }
    let ended = store.end_acceptance(&id, &conclude(&protocol(), &entries)).await.unwrap();
    store.close().await;
    (id, ended)
}

#[test]
fn without_a_gpu_nothing_is_claimed() {
    let program = with_kernel();
    for command in [&["accept", "@last"][..], &["accept", "softmax_rows@best", "--rounds", "7"]] {
        let ended = program.call(&[command, &["--json"]].concat());
        assert_eq!(ended.code, Some(4), "{}", ended.stderr);
        for part in [
            "error: not available here: a claim needs a GPU; the simulator gives no times",
            "by --device, WARPWRIGHT_DEVICE or judge.device",
            "take the ledger there",
            "`show SELECTOR --out DIR`",
        ] {
            assert!(ended.stderr.contains(part), "{part}: {}", ended.stderr);
        }
        assert_eq!(ended.closing()["kind"], "not-available");
    }
    for (arguments, word) in [
        (&["accept", "nobody"][..], "no run"),
        (&["accept", "@last:7"], "7"),
        (&["accept", "@last", "--rounds", "6"], "7..=15"),
        (&["accept", "@last", "--confidence", "90"], "95 or 99"),
        (&["export", "@last", "--out", "x"], "no claim"),
        (&["recheck", "@last"], "no claim"),
        (&["reproduce", "nothing"], "nothing"),
        (&["review", "approve", "@last", "--reason", "x"], "waits"),
    ] {
        let ended = program.call(arguments);
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(word), "{arguments:?}: {}", ended.stderr);
    }
    for (arguments, word) in
        [(&["review"][..], "nothing waits"), (&["recheck", "--all"], "no claim stands")]
    {
        let ended = program.call(arguments);
        assert!(ended.code == Some(0) && ended.stdout.contains(word), "{}", ended.stdout);
    }
}

#[tokio::test]
async fn a_claim_is_exported_and_a_doctored_bundle_is_refused() {
    let program = with_kernel();
    let (_, ended) = accepted(&program, None).await;
    assert!(matches!(ended, Ended::Claimed(_)), "{ended:?}");
    let bundle = program.path("claim.bundle");
    let path = bundle.display().to_string();
    let exported = program.call(&["export", "@last", "--format", "bundle", "--out", &path]);
    assert_eq!(exported.code, Some(0), "{}{}", exported.stdout, exported.stderr);
    assert_eq!(program.call(&["export", "@last", "--out", &path]).code, Some(2));
    let again = program.call(&["reproduce", &path, "--json"]);
    assert_eq!(again.code, Some(4), "{}{}", again.stdout, again.stderr);
    assert!(again.stdout.contains("NOT COMPARABLE: a claim needs a GPU"), "{}", again.stdout);
    assert!(again.stdout.contains("speed-up 1.250x over PyTorch eager [claimed]"));
    assert!(again.stdout.contains(&format!("weak task: {WEAKNESS}")), "{}", again.stdout);
    assert_eq!(again.closing()["outcome"], "not_comparable");

    let (original, _) = Bundle::read(&std::fs::read(&bundle).unwrap()).unwrap();
    assert_eq!(original.manifest.claim.weaknesses, [WEAKNESS]);
    for (name, doctor, word) in DOCTORS {
        let mut doctored = original.clone();
        doctor(&mut doctored);
        // Its digest is right: what was changed must show by itself.
        let ended = reproduce(
            &program,
            name,
            &doctored.pack(&pipeline::scrub::Scrubber::default()).unwrap(),
        );
        assert_eq!(ended.code, Some(2), "{name}: {}{}", ended.stdout, ended.stderr);
        assert!(ended.stderr.contains(word), "{name}: {}", ended.stderr);
    }
    let whole = std::fs::read(&bundle).unwrap();
    let ended = reproduce(&program, "driver", &with_other_driver(&whole));
    assert_eq!(ended.code, Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("its digest is another one"), "{}", ended.stderr);
    let ended = reproduce(&program, "cut", &whole[..whole.len() / 2]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("refused: the file is cut short"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_task_that_is_not_shipped_runs_only_with_the_users_word() {
    let program = with_kernel();
    accepted(&program, None).await;
    let path = program.path("claim.bundle").display().to_string();
    assert_eq!(program.call(&["export", "@last", "--out", &path]).code, Some(0));
    let shipped = program.call(&["reproduce", &path]);
    assert!(shipped.stdout.contains("byte for byte the task that this program ships"));
    assert_eq!(shipped.code, Some(4), "{}", shipped.stderr);

    let (mut bundle, _) = Bundle::read(&std::fs::read(&path).unwrap()).unwrap();
    bring_own_task(&mut bundle);
    std::fs::write(&path, bundle.pack(&pipeline::scrub::Scrubber::default()).unwrap()).unwrap();
    let module = Digest::of_bytes(&bundle.task_files["reference.py"]);
    for (flags, code) in [(&[][..], 2), (&["--trust-task"][..], 4)] {
        let ended = program.call(&[&["reproduce", &path], flags].concat());
        assert_eq!(ended.code, Some(code), "{}{}", ended.stdout, ended.stderr);
        let notice = format!("its reference.py (sha256 {module}) runs as you, unconfined");
        assert!(ended.stdout.contains(&notice), "{}", ended.stdout);
        assert!(ended.stdout.contains("it is not the built-in `softmax_rows`"));
        assert_eq!(ended.stderr.contains("add --trust-task"), code == 2, "{}", ended.stderr);
    }
}

/// A bundle that fits in itself, of a task with another reference.py.
fn bring_own_task(bundle: &mut Bundle) {
    bundle.task_files.get_mut("reference.py").unwrap().extend_from_slice(b"# of a stranger\n");
    let task = Task::from_files(&bundle.task_files).unwrap();
    let candidate = candidate_of_parts(&bundle.source, &bundle.plan, &task.signature()).unwrap();
    let manifest = &mut bundle.manifest;
    let launch = candidate.plan.verdict_hash(&manifest.tunables);
    let hashes = &mut manifest.hashes;
    let model = &manifest.device_model;
    hashes.eval_key = eval_key(&hashes.ptx, &launch, &task.hash, model, &hashes.judge);
    hashes.task = task.hash;
}

/// The same bundle with another driver in its manifest and its old digest.
fn with_other_driver(bundle: &[u8]) -> Vec<u8> {
    let mut archive = tar::Archive::new(zstd::Decoder::new(bundle).unwrap());
    let mut changed = tar::Builder::new(zstd::Encoder::new(Vec::new(), 1).unwrap());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut text = String::new();
        entry.read_to_string(&mut text).unwrap();
        let text = text.replace("\"driver\": \"580.1\"", "\"driver\": \"580.2\"");
        let mut header = entry.header().clone();
        header.set_size(text.len() as u64);
        let path = entry.path().unwrap().into_owned();
        changed.append_data(&mut header, path, text.as_bytes()).unwrap();
    }
    changed.into_inner().unwrap().finish().unwrap()
}

fn reproduce(program: &Program, name: &str, bytes: &[u8]) -> Call {
    let path = program.path(name);
    std::fs::write(&path, bytes).unwrap();
    program.call(&["reproduce", &path.display().to_string()])
}

/// What is changed, how, and how the refusal names it.
type Doctor = (&'static str, fn(&mut Bundle), &'static str);

const DOCTORS: [Doctor; 9] = [
    ("time", |bundle| slow_down(&mut bundle.entries), "a time was changed"),
    ("claim", |bundle| bundle.manifest.claim.against.interval.log_ratio += 0.1, "the claim"),
    ("weakness", |bundle| bundle.manifest.claim.weaknesses.clear(), "the claim"),
    ("rounds", |bundle| bundle.entries.truncate(12), "entries were taken out"),
    ("source", |bundle| bundle.source.push_str("// faster\n"), "the source was changed"),
    ("plan", |bundle| bundle.plan.push_str("# faster\n"), "the plan was changed"),
    ("task", ease_task, "the task was changed"),
    ("seed", |bundle| bundle.manifest.seed = SEED.replace('0', "1"), "the seed was changed"),
    ("ptx", |bundle| bundle.manifest.hashes.ptx.push('0'), "the program was changed"),
];

fn ease_task(bundle: &mut Bundle) {
    let text = bundle.task_files.get_mut("task.toml").unwrap();
    text.extend_from_slice(b"# easier\n");
}

fn slow_down(entries: &mut [Entry]) {
    for entry in entries {
        if let Entry::Window(record) = entry
            && record.subject != Subject::Candidate
            && let Timed::Measured { cold, .. } = &mut record.timed
        {
            cold.median_ns *= 2.0;
        }
    }
}

#[tokio::test]
async fn claims_stand_in_every_view_with_their_tier() {
    let program = with_kernel();
    accepted(&program, None).await;
    let line = "speed-up 1.250x over PyTorch eager [claimed]";
    for command in [&["report"][..], &["status", "@last"], &["show", "@last:1"]] {
        let ended = program.call(command);
        assert!(ended.stdout.contains(line), "{command:?}: {}", ended.stdout);
        assert!(ended.stdout.contains(&format!("weak task: {WEAKNESS}")), "{}", ended.stdout);
    }
    let claims = &program.report()["claims"];
    assert_eq!((&claims[0]["tier"], &claims[0]["seq"]), (&"claimed".into(), &1.into()));
    assert_eq!(claims[0]["weaknesses"][0], WEAKNESS);
    let ended = program.call(&["recheck", "--all"]);
    assert_eq!(ended.code, Some(4), "{}", ended.stderr);
    let ended = program.call(&["ledger", "verify"]);
    assert!(ended.code == Some(0) && ended.stdout.contains("intact"), "{}", ended.stdout);
}

#[tokio::test]
async fn what_is_suspect_becomes_a_claim_only_by_a_person() {
    let program = with_kernel();
    let (id, ended) = accepted(&program, Some(Suspicion::Physics)).await;
    assert_eq!(ended, Ended::Waits);
    let path = program.path("claim.bundle").display().to_string();
    assert_eq!(program.call(&["export", "@last", "--out", &path]).code, Some(2));
    let listed = program.call(&["review"]);
    assert!(listed.stdout.contains("PHYSICS") && listed.stdout.contains(id.as_str()));
    let silent = program.call(&["review", "approve", "@last"]);
    assert!(silent.code == Some(2) && silent.stderr.contains("--reason"), "{}", silent.stderr);
    let decided = program.call(&["review", "approve", id.as_str(), "--reason", "the floor is off"]);
    assert_eq!(decided.code, Some(0), "{}", decided.stderr);
    assert!(decided.stdout.contains("[claimed]"), "{}", decided.stdout);
    assert!(program.call(&["review"]).stdout.contains("nothing waits"));
    let exported = program.call(&["export", "@last", "--out", &path]);
    assert_eq!(exported.code, Some(0), "{}{}", exported.stdout, exported.stderr);
    let (bundle, _) = Bundle::read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(bundle.manifest.review_note.as_deref(), Some("the floor is off"));
    assert!(program.call(&["ledger", "verify"]).code == Some(0));
}

#[tokio::test]
async fn a_changed_ledger_is_named_and_ends_with_7() {
    let program = with_kernel();
    let store = Store::open(&program.ledger()).await.unwrap();
    let run = store.resolve_run("@last").await.unwrap();
    let task = store.run(&run).await.unwrap().tasks.remove(0);
    let attempt = store.attempt_detail(&run, &task.hash, 1).await.unwrap().attempt;
    store.close().await;
    // As somebody with the file could: the text of the stored verdict, in place.
    let mut bytes = std::fs::read(program.ledger()).unwrap();
    let id = attempt.build.unwrap().id;
    let places: Vec<usize> = bytes
        .windows(64)
        .enumerate()
        .filter(|(_, window)| *window == id.as_str().as_bytes())
        .map(|(at, _)| at)
        .collect();
    assert!(places.len() >= 2, "the build's id is in its row and in its event");
    let first = places[0];
    bytes[first] = if bytes[first] == b'0' { b'1' } else { b'0' };
    std::fs::write(program.ledger(), bytes).unwrap();
    let ended = program.call(&["ledger", "verify"]);
    assert_eq!(ended.code, Some(7), "{}{}", ended.stdout, ended.stderr);
}
