//! What a window is worth: only verified samples count, and only believable times rank.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use pipeline::candidate::Candidate;
use pipeline::check::OutputCheck;
use pipeline::device_facts::DeviceFacts;
use pipeline::hardware::{Ceilings, HardwareSheet, Rate, SHEET_VERSION};
use pipeline::inputs::Distribution;
use pipeline::launch::ResolvedPlan;
use pipeline::report::{CaseStatus, GpuState, Measured, Score};
use pipeline::task::Task;
use pipeline::timing::{Sample, Window};
use pipeline::verdict::Reason;
use sandbox::wire::{RunEnd, SlotContent, WindowResult};

use super::{Checks, Concluded, TimedHeadline};
use crate::cases::{CaseData, Tensors};
use crate::evaluate::Evaluation;
use crate::gpu::sealed;
use crate::{Build, RunSeed};

const PLAN: &str = r#"
plan = 1
precision = "fp32"
[[step]]
kernel = "k"
grid = ["1", "1", "1"]
block = ["1", "1", "1"]
args = ["x", "y"]
"#;

const NO_MEMORY: pipeline::memory::Memory = pipeline::memory::Memory { device: 0, host: 0 };

struct Fixture {
    task: Task,
    candidate: Candidate,
    build: Build,
    tunables: BTreeMap<String, i64>,
    sheet: HardwareSheet,
}

impl Fixture {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/softmax_rows");
        let mut files = BTreeMap::new();
        let parts = [folder.clone(), folder.join("baseline")];
        let entries = parts.iter().flat_map(|part| std::fs::read_dir(part).unwrap());
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let name = path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path).unwrap());
        }
        let task = Task::from_files(&files).unwrap();
        let parsed =
            pipeline::reply::candidate_of_parts("__global__ void k();", PLAN, &task.signature());
        let id = pipeline::digest::Digest::of_bytes(b"build");
        Self {
            task,
            candidate: parsed.unwrap_or_else(|_| panic!("the plan")),
            build: Build {
                id,
                facts: None,
                diagnostics: Vec::new(),
                log: String::new(),
                ptx: Vec::new(),
                cubin: Vec::new(),
                verdict: None,
                held: None,
            },
            tunables: BTreeMap::new(),
            sheet: sheet(),
        }
    }

    fn evaluation(&self) -> Evaluation<'_> {
        Evaluation {
            task: &self.task,
            candidate: &self.candidate,
            tunables: &self.tunables,
            build: &self.build,
            seed: &RunSeed([1; 32]),
            index: 0,
        }
    }

    fn headline(&self) -> TimedHeadline<'_> {
        let tensors = || Tensors::room("test", [("y".to_owned(), 64)].into_iter()).unwrap();
        let data = || Arc::new(CaseData { inputs: tensors(), expected: tensors() });
        TimedHeadline {
            case: std::borrow::Cow::Borrowed(self.task.spec.headline().unwrap()),
            plan: ResolvedPlan {
                workspaces: Vec::new(),
                tensor_maps: Vec::new(),
                prepare: Vec::new(),
                steps: Vec::new(),
            },
            contents: [(Distribution::D1, data()), (Distribution::D2, data())],
            outputs: std::sync::Arc::new(tensors()),
            slots: 4,
            slot_bytes: 4096,
            window: Window::search(1 << 28, 60 << 20, [3, 5]),
            policy: crate::JudgePolicy::all(),
            initial: None,
            fitted: pipeline::memory::Fitted {
                rung: pipeline::memory::Rung::Everything,
                dims: self.task.spec.headline().unwrap().dims.clone(),
                largest: 0,
                need: NO_MEMORY,
                free: NO_MEMORY,
                why: String::new(),
            },
            harness: Arc::new(sealed("harness", b"x").unwrap()),
        }
    }

    fn conclude(&self, window: &WindowResult, checks: Checks) -> Concluded {
        self.headline().conclude(&self.evaluation(), Some(&self.sheet), window, checks)
    }
}

fn sheet() -> HardwareSheet {
    let rate = |median| Rate { median, low: median, high: median, samples: 9 };
    HardwareSheet {
        version: SHEET_VERSION,
        uuid: "GPU-1".to_owned(),
        driver: "1".to_owned(),
        cuda_version: 13000,
        facts: DeviceFacts::simulated_h200(),
        // The headline's 268 MB take 67 µs at this bandwidth.
        ceilings: Some(Ceilings {
            copy_bytes_per_s: rate(4e12),
            read_bytes_per_s: rate(4e12),
            write_bytes_per_s: rate(4e12),
            l2_read_bytes_per_s: rate(8e12),
            fp32_flops_per_s: rate(60e12),
            launch_ns: 2e3,
            event_pair_ns: 1e3,
            sm_clock_hz: 1.9e9,
            memory_scrubbed: true,
            gemm: None,
        }),
    }
}

fn sample(content: u32, elapsed_ns: u64, hash: u64) -> Sample {
    Sample { content, elapsed_ns, sm_clock_hz: 1.98e9, ungated: false, hash: [hash, hash] }
}

/// Thirty samples of content 0 with hash 7, one of content 1 with hash 8; both are in slots.
fn window(elapsed_ns: u64) -> WindowResult {
    let mut cold = vec![sample(0, elapsed_ns, 7); 30];
    cold.push(sample(1, 1, 8));
    let slot = |content, hash| SlotContent { content, hash: [hash, hash] };
    WindowResult {
        end: RunEnd::Completed,
        cold,
        warm: vec![sample(0, elapsed_ns, 7)],
        event_pair_ns: 1000.0,
        slots: vec![slot(0, 7), slot(1, 8)],
        before: None,
        after: None,
        energy_mj: None,
        cost: Vec::new(),
    }
}

fn check(failure: Option<Reason>) -> OutputCheck {
    OutputCheck {
        output: "y".to_owned(),
        elements: 1,
        compared: 1,
        wrong: u64::from(failure.is_some()),
        unwritten: 0,
        nonfinite: 0,
        first: Vec::new(),
        worst_ratio: 0.5,
        norm_error: 0.0,
        norm_limit: 1.0,
        worst_part_error: 0.0,
        pattern: "somewhere".to_owned(),
        failure,
    }
}

fn checks(failures: [Option<Reason>; 2], hashes: [u64; 2]) -> Checks {
    Checks {
        spreads: Vec::new(),
        checks: failures.map(check).to_vec(),
        hashes: hashes.map(|hash| Some([hash, hash])).to_vec(),
    }
}

fn measured(concluded: &Concluded) -> Option<&Measured> {
    match &concluded.score {
        Score::Measured(measured) => Some(measured),
        Score::None | Score::Estimated(_) => None,
    }
}

fn passed(concluded: &Concluded) -> bool {
    concluded.cases.len() == 2
        && concluded.cases.iter().all(|case| matches!(case.status, CaseStatus::Passed))
}

#[test]
fn a_verified_window_is_a_score_net_of_the_events_with_its_floor() {
    let concluded = Fixture::new().conclude(&window(81_000), checks([None, None], [7, 8]));
    assert!(passed(&concluded));
    let score = measured(&concluded).unwrap();
    assert_eq!((score.cold.median_ns, score.cold.samples, score.cold.dropped), (80_000.0, 30, 0));
    assert_eq!(score.warm.unwrap().samples, 1);
    assert!((score.share_of_floor().unwrap() - 67_108.9 / 80_000.0).abs() < 1e-4);
    assert_eq!(concluded.notes, [""; 0]);
}

#[test]
fn a_wrong_output_of_either_content_fails_the_headline() {
    for (failures, distribution) in [
        ([Some(Reason::Mismatch), None], Distribution::D1),
        ([None, Some(Reason::Poison)], Distribution::D2),
    ] {
        let concluded = Fixture::new().conclude(&window(81_000), checks(failures, [7, 8]));
        let failed: Vec<_> = concluded
            .cases
            .iter()
            .filter(|case| matches!(case.status, CaseStatus::Failed { .. }))
            .collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].distribution, distribution);
    }
}

#[test]
fn outputs_that_are_not_what_was_timed_fail_it() {
    let concluded = Fixture::new().conclude(&window(81_000), checks([None, None], [9, 8]));
    let CaseStatus::Failed { reason, detail } = &concluded.cases[0].status else { panic!() };
    assert_eq!(*reason, Reason::Mismatch);
    assert!(detail.contains("not what was hashed"), "{detail}");
    assert_eq!(measured(&concluded), None);
}

#[test]
fn samples_whose_outputs_nobody_compared_make_no_time() {
    let mut some = window(81_000);
    some.warm[0].hash = [1, 1];
    let concluded = Fixture::new().conclude(&some, checks([None, None], [7, 8]));
    assert!(passed(&concluded) && measured(&concluded).is_none());
    assert!(concluded.notes[0].contains("1 of 32 were not compared"), "{:?}", concluded.notes);
}

#[test]
fn slow_clocks_are_dropped_and_told_and_too_many_of_them_void_the_window() {
    let mut some = window(81_000);
    for sample in &mut some.cold[..5] {
        *sample = Sample { elapsed_ns: 1, sm_clock_hz: 1e9, ..*sample };
    }
    let concluded = Fixture::new().conclude(&some, checks([None, None], [7, 8]));
    let score = measured(&concluded).unwrap();
    assert_eq!((score.cold.median_ns, score.cold.samples, score.cold.dropped), (80_000.0, 25, 5));
    assert!(concluded.notes[0].contains("5 of 30"), "{:?}", concluded.notes);
    for sample in &mut some.cold[..9] {
        sample.sm_clock_hz = 1e9;
    }
    let concluded = Fixture::new().conclude(&some, checks([None, None], [7, 8]));
    assert_eq!(measured(&concluded), None);
    assert!(concluded.notes[0].contains("lower clock"), "{:?}", concluded.notes);
}

#[test]
fn what_cannot_be_believed_or_was_disturbed_is_correct_and_not_ranked() {
    let fixture = Fixture::new();
    let below = fixture.conclude(&window(60_000), checks([None, None], [7, 8]));
    assert!(passed(&below) && measured(&below).is_none());
    assert!(below.notes[0].contains("takes at least"), "{:?}", below.notes);
    let mut hot = window(81_000);
    let throttle = vec!["SW_THERMAL_SLOWDOWN".to_owned()];
    hot.before = Some(GpuState { throttle, ..GpuState::default() });
    let hot = fixture.conclude(&hot, checks([None, None], [7, 8]));
    assert!(passed(&hot) && measured(&hot).is_none());
    assert!(hot.notes[0].contains("slowed itself down"), "{:?}", hot.notes);
    let mut disturbed = window(81_000);
    disturbed.after = Some(GpuState { foreign_processes: Some(1), ..GpuState::default() });
    let disturbed = fixture.conclude(&disturbed, checks([None, None], [7, 8]));
    assert!(passed(&disturbed) && measured(&disturbed).is_none());
    assert!(disturbed.notes[0].contains("other process"), "{:?}", disturbed.notes);
    let mut unknown = window(81_000);
    unknown.after = Some(GpuState { foreign_processes: None, ..GpuState::default() });
    assert!(measured(&fixture.conclude(&unknown, checks([None, None], [7, 8]))).is_some());
}

#[test]
fn a_fault_at_the_headline_is_the_candidates_and_a_lack_is_not() {
    let fixture = Fixture::new();
    let ended = |end| WindowResult { end, slots: Vec::new(), ..window(81_000) };
    let hung = fixture.conclude(&ended(RunEnd::Hang("long".to_owned())), Checks::default());
    let CaseStatus::Failed { reason, .. } = &hung.cases[0].status else { panic!() };
    assert_eq!((*reason, hung.cases.len()), (Reason::Timeout, 1));
    let small = RunEnd::Unsupported("memory".to_owned());
    let lacking = fixture.conclude(&ended(small), Checks::default());
    let CaseStatus::Failed { reason, .. } = &lacking.cases[0].status else { panic!() };
    assert_eq!((*reason, lacking.cases.len()), (Reason::Unsupported, 1));
}
