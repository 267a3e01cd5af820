//! What gives way where memory is short, on the simulator with small caps: the headline shrinks, a
//! machine that is too small says so, the big case is compared in tiles.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use judge::{
    Acceptance, CancelFlag, Evaluation, Judge, JudgeError, Judgement, MemoryCaps, RunSeed,
};
use pipeline::acceptance::{Check, Entry, Found, Step};
use pipeline::candidate::Candidate;
use pipeline::comparison::Confidence;
use pipeline::limits::ROUNDS_MIN;
use pipeline::reply::{self, candidate_of_parts};
use pipeline::report::Score;
use pipeline::task::Task;
use pipeline::verdict::{Kind, Reason};

use crate::task_files::{evaluate, judge, task};

const MIB: u64 = 1 << 20;

/// Indices of 17 bits are to this judge what 31 are to another; a tile has 65,536 elements.
const SMALL: MemoryCaps = MemoryCaps {
    device_bytes: u64::MAX,
    host_bytes: u64::MAX,
    big_above: 1 << 17,
    tile_bytes: 1 << 19,
};

/// The largest tensor of a public case of relu2d that the simulator runs, in bytes.
const LARGEST_PUBLIC: u64 = 4 * 64 * 1024;

fn relu2d() -> Task {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../judge/tests/tasks/relu2d");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let entries = entries.filter(|path| path.is_file());
    let file = |path: PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    };
    Task::from_files(&entries.map(file).collect::<BTreeMap<_, _>>()).unwrap()
}

/// One thread an element, by an index of this many bits.
fn relu(task: &Task, bits: u32) -> Candidate {
    let source = format!(
        "extern \"C\" __global__ void k(const float* x, float* y, int rows, int cols) {{
            unsigned mask = {bits} < 32 ? (1u << {bits}) - 1 : ~0u;
            unsigned i = (blockIdx.x * 256u + threadIdx.x) & mask, n = rows * cols & mask;
            if (i < n) y[i] = x[i] > 0.f ? x[i] : 0.f;
        }}"
    );
    let plan = "plan = 1\nprecision = \"fp32\"\n[[step]]\nkernel = \"k\"\n\
                grid = [\"ceil_div(rows * cols, 256)\", \"1\", \"1\"]\n\
                block = [\"256\", \"1\", \"1\"]\nargs = [\"x\", \"y\", \"rows\", \"cols\"]\n";
    candidate_of_parts(&source, plan, &task.signature())
        .unwrap_or_else(|malformed| panic!("{}", malformed.verdict().detail))
}

/// The big case of an acceptance, and a promote where one is wanted.
fn big(
    judge: &Judge,
    task: &Task,
    candidate: &Candidate,
    promotes: bool,
) -> (Found, Option<Judgement>) {
    let (cancel, seed) = (CancelFlag::default(), RunSeed([3; 32]));
    let tunables = &candidate.plan.default_tunables();
    let build = &judge.build(task, candidate, tunables, &cancel).unwrap();
    let evaluation = Evaluation { task, candidate, tunables, build, seed: &seed, index: 0 };
    let acceptance = Acceptance {
        evaluation,
        rounds_max: ROUNDS_MIN,
        confidence: Confidence::default(),
        weaknesses: &[],
    };
    let protocol = judge.correctness_protocol(&acceptance);
    assert_eq!(protocol.checks.last(), Some(&Check::BigShape));
    let step = Step::Check(Check::BigShape);
    let entry = judge.acceptance_step(&acceptance, &protocol, &[], &step, &cancel).unwrap();
    let Entry::Checked { check: Check::BigShape, found } = entry else { panic!("{entry:?}") };
    (found, promotes.then(|| judge.promote(&evaluation, None, &cancel).unwrap()))
}

fn noted(found: &Found) -> &str {
    let Found::Notes { detail } = found else { panic!("{found:?}") };
    detail
}

fn verified_bytes(found: &Found) -> u64 {
    let text = noted(found).strip_prefix("max size verified: ").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn an_index_that_is_too_narrow_fails_only_at_the_big_shape() {
    let (judge, task) = (judge().with_memory(SMALL), relu2d());
    let wide = relu(&task, 32);
    assert!(evaluate(&judge, &task, &wide, 0).verdict.is_correct());
    let (found, promoted) = big(&judge, &task, &wide, true);
    let promoted = promoted.unwrap();
    // More than 2^17 elements: three tiles.
    let bytes = verified_bytes(&found);
    assert!(bytes > 4 << 17 && bytes < 5 << 17, "{bytes}");
    assert!(promoted.verdict.is_correct(), "{}", promoted.verdict.detail);
    let in_promote = promoted.report.cases.last().unwrap();
    let elements = in_promote.dims.values().product::<i64>();
    assert!(in_promote.case == "big" && 4 * elements > 1 << 17, "{elements}");

    let narrow = relu(&task, 17);
    assert!(evaluate(&judge, &task, &narrow, 0).verdict.is_correct());
    let (found, promoted) = big(&judge, &task, &narrow, true);
    let promoted = promoted.unwrap();
    let Found::Fails { reason: Reason::Shape, detail } = &found else { panic!("{found:?}") };
    assert!(detail.contains("POISON") && detail.contains("of 3 tiles"), "{detail}");
    // A promote goes beyond so many bytes only.
    assert!(promoted.verdict.is_correct(), "{}", promoted.verdict.detail);

    let narrower = relu(&task, 15);
    let (found, promoted) = big(&judge, &task, &narrower, true);
    let promoted = promoted.unwrap();
    assert!(matches!(found, Found::Fails { reason: Reason::Shape, .. }), "{found:?}");
    assert_eq!(promoted.verdict.reason, Some(Reason::Shape), "{}", promoted.verdict.detail);
}

#[test]
fn what_was_not_looked_at_is_said_with_the_size_that_was() {
    let task = relu2d();
    let kernel = relu(&task, 32);
    for (caps, why) in [
        (
            MemoryCaps { host_bytes: LARGEST_PUBLIC, ..SMALL },
            "no shape with a tensor beyond 131072 bytes is in the plan's domain and fits into",
        ),
        (MemoryCaps::default(), "the task's ranges have no tensor beyond 2147483648 bytes"),
    ] {
        let (found, _) = big(&judge().with_memory(caps), &task, &kernel, false);
        assert_eq!(verified_bytes(&found), LARGEST_PUBLIC);
        assert!(noted(&found).contains(why), "{found:?}");
    }
}

#[test]
fn a_headline_that_does_not_fit_is_counted_at_a_smaller_shape() {
    let task = task("softmax_rows");
    let text = include_str!("../../selftest/kernels/softmax_rows/good.md");
    let candidate = reply::candidate(text, &task.signature()).unwrap_or_else(|_| panic!("reply"));
    let at = |device_bytes: u64| {
        let judge = judge().with_memory(MemoryCaps { device_bytes, ..MemoryCaps::default() });
        evaluate(&judge, &task, &candidate, 0)
    };
    let said = |judgement: &Judgement| {
        let notes = judgement.report.notes.iter();
        notes.filter(|note| note.starts_with("headline counted")).cloned().collect::<Vec<_>>()
    };
    let (whole, small) = (at(256 * MIB), at(100 * MIB));
    for judgement in [&whole, &small] {
        assert!(judgement.verdict.is_correct(), "{}", judgement.verdict.detail);
        assert!(matches!(judgement.report.score, Score::Estimated(_)), "{:?}", judgement.report);
    }
    assert_eq!(said(&whole), Vec::<String>::new());
    let wanted = "headline counted at cols = 2048, rows = 4096, smaller than asked because with \
                  two buffer sets it takes 268435456 bytes of device memory, 104857600 are free";
    assert_eq!(said(&small), [wanted]);
}

#[test]
fn a_machine_that_is_too_small_says_so_before_anything_runs() {
    let task = task("softmax_rows");
    let text = include_str!("../../selftest/kernels/softmax_rows/good.md");
    let candidate = reply::candidate(text, &task.signature()).unwrap_or_else(|_| panic!("reply"));
    let tunables = candidate.plan.default_tunables();
    let (cancel, seed) = (CancelFlag::default(), RunSeed([9; 32]));
    for caps in [
        MemoryCaps { device_bytes: 4096, ..MemoryCaps::default() },
        MemoryCaps { host_bytes: 4096, ..MemoryCaps::default() },
    ] {
        let judge = judge().with_memory(caps);
        let build = judge.build(&task, &candidate, &tunables, &cancel).unwrap();
        assert_eq!(build.verdict.as_ref().map(|verdict| verdict.kind), None::<Kind>);
        let evaluation = Evaluation {
            task: &task,
            candidate: &candidate,
            tunables: &tunables,
            build: &build,
            seed: &seed,
            index: 0,
        };
        let error = judge.evaluate(&evaluation, &cancel).unwrap_err();
        assert!(matches!(error, JudgeError::NotAvailable(_)), "{error}");
        assert!(error.to_string().contains("of which 4096 are free"), "{error}");
        // Other caps, another judge: no verdict is taken over.
        assert_ne!(judge.hash(), Judge::hash(&crate::task_files::judge()));
    }
}

#[test]
fn relations_whose_calls_do_not_fit_are_named_and_pass_nothing() {
    let task = task("softmax_rows");
    let text = include_str!("../../selftest/kernels/softmax_rows/good.md");
    let candidate = reply::candidate(text, &task.signature()).unwrap_or_else(|_| panic!("reply"));
    let tunables = &candidate.plan.default_tunables();
    let (cancel, seed) = (CancelFlag::default(), &RunSeed([9; 32]));
    let judge = judge().with_memory(MemoryCaps { host_bytes: 4096, ..MemoryCaps::default() });
    let build = &judge.build(&task, &candidate, tunables, &cancel).unwrap();
    let (task, candidate) = (&task, &candidate);
    let evaluation = Evaluation { task, candidate, tunables, build, seed, index: 0 };
    let (rounds_max, confidence) = (ROUNDS_MIN, Confidence::default());
    let acceptance = Acceptance { evaluation, rounds_max, confidence, weaknesses: &[] };
    let protocol = judge.correctness_protocol(&acceptance);
    let group = protocol.groups.iter().position(|group| group == "relations").unwrap();
    let step = Step::Trials(group);
    let entry = judge.acceptance_step(&acceptance, &protocol, &[], &step, &cancel).unwrap();
    let Entry::Trials(record) = entry else { panic!("{entry:?}") };
    let missing = record.missing().unwrap();
    assert!(missing.starts_with("nothing could be probed (the case `hidden"), "{missing}");
    assert!(record.cases.is_empty() && missing.contains("of which 4096 are free"), "{missing}");
}
