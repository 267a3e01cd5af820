//! Promote and the part of accept that takes no times, on the simulator: honest kernels pass, a
//! wrong element is found wherever it is, a kernel that fails now and then is caught.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use judge::{Acceptance, CancelFlag, Evaluation, Judge, RunSeed};
use pipeline::acceptance::{Entry, Found, Protocol, Step, conclude, next_step};
use pipeline::candidate::Candidate;
use pipeline::comparison::Confidence;
use pipeline::limits::ROUNDS_MIN;
use pipeline::reply::{self, candidate_of_parts};
use pipeline::task::Task;
use pipeline::task::spec::Precision;
use pipeline::verdict::Verdict;

use crate::catalogue::each;
use crate::task_files::{judge, task};

/// Seeds with which each shipped kernel is judged.
const SEEDS: u8 = 2;

/// What promote and accept find, one after the other, and how many runs were verified.
fn judged(
    judge: &Judge,
    task: &Task,
    candidate: &Candidate,
    seed: &RunSeed,
    promotes: bool,
) -> (Verdict, usize) {
    let cancel = CancelFlag::default();
    let tunables = &candidate.plan.default_tunables();
    let build = &judge.build(task, candidate, tunables, &cancel).unwrap();
    let evaluation = Evaluation { task, candidate, tunables, build, seed, index: 0 };
    let mut runs = 0;
    if promotes {
        let promoted = judge.promote(&evaluation, None, &cancel).unwrap();
        runs += promoted.report.cases.len();
        if !promoted.verdict.is_correct() {
            return (promoted.verdict, runs);
        }
    }
    let (protocol, entries) = performed(judge, evaluation, &cancel);
    for entry in &entries {
        match entry {
            Entry::Trials(record) => runs += record.cases.len(),
            Entry::Checked { check, found: Found::Audits { detail } } => {
                panic!("{check:?}: {detail}")
            }
            Entry::Rebuilt { .. } | Entry::Checked { .. } => {}
            Entry::Pilot(_) | Entry::Window(_) => {}
        }
    }
    (conclude(&protocol, &entries).verdict, runs)
}

/// Every step of the part of accept that takes no times.
fn performed(
    judge: &Judge,
    evaluation: Evaluation<'_>,
    cancel: &CancelFlag,
) -> (Protocol, Vec<Entry>) {
    let (rounds_max, confidence) = (ROUNDS_MIN, Confidence::default());
    let acceptance = Acceptance { evaluation, rounds_max, confidence, weaknesses: &[] };
    let protocol = judge.correctness_protocol(&acceptance);
    let mut entries = Vec::new();
    loop {
        let step = next_step(&protocol, &entries);
        if step == Step::Done {
            return (protocol, entries);
        }
        let entry = judge.acceptance_step(&acceptance, &protocol, &entries, &step, cancel);
        entries.push(entry.unwrap());
    }
}

fn accepted(judge: &Judge, task: &Task, candidate: &Candidate, seed: &RunSeed) -> Vec<Entry> {
    let cancel = CancelFlag::default();
    let tunables = &candidate.plan.default_tunables();
    let build = &judge.build(task, candidate, tunables, &cancel).unwrap();
    let evaluation = Evaluation { task, candidate, tunables, build, seed, index: 0 };
    performed(judge, evaluation, &cancel).1
}

fn shipped_kernels() -> Vec<(String, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("selftest/kernels");
    let mut kernels = Vec::new();
    for folder in std::fs::read_dir(root).unwrap() {
        let folder = folder.unwrap();
        let task = folder.file_name().into_string().unwrap();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            kernels.push((task.clone(), name, std::fs::read_to_string(path).unwrap()));
        }
    }
    kernels
}

#[test]
fn every_shipped_kernel_is_right_on_hidden_cases() {
    let (judge, kernels) = (judge(), shipped_kernels());
    assert!(kernels.len() >= 12, "{}", kernels.len());
    let seeds = || (0..SEEDS).map(|index| RunSeed([40 + index; 32]));
    let wanted: Vec<_> =
        kernels.iter().flat_map(|it| seeds().map(move |seed| (it, seed))).collect();
    let complaints = each(&wanted, |((name, kernel, text), seed)| {
        let task = task(name);
        let candidate = reply::candidate(text, &task.signature()).unwrap();
        let (verdict, runs) = judged(&judge, &task, &candidate, seed, true);
        let said = format!("{name} {kernel}, seed {}: {verdict}: {}", seed.0[0], verdict.detail);
        eprintln!("{said}, {runs} runs");
        (!verdict.is_correct()).then_some(said)
    });
    let complaints: Vec<String> = complaints.into_iter().flatten().collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// Softmax in fp64, with one element off by twice its tolerance at a place that the inputs choose.
const PLANTED: &str = r#"
__device__ unsigned chosen(const float* x, int n, unsigned salt) {
    unsigned h = salt;
    for (int i = 0; i < 15 && i < n; ++i) h = (h ^ __float_as_uint(x[i])) * 0x9e3779b1u ^ h >> 15;
    return h ^ h >> 13;
}
extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x;
    const float* in = x + row * cols;
    double most = in[0], least = in[0], total = 0.0;
    for (int c = 1; c < cols; ++c) {
        most = fmax(most, (double)in[c]);
        least = fmin(least, (double)in[c]);
    }
    for (int c = threadIdx.x; c < cols; c += 32) total += exp(in[c] - most);
    for (int d = 16; d; d >>= 1) total += __shfl_xor_sync(~0u, total, d);
    int n = rows * cols, at = chosen(x, n, 1u) % rows, column = chosen(x, n, 2u) % cols;
    for (int c = threadIdx.x; c < cols; c += 32) {
        double p = exp(in[c] - most) / total, unit = 1.0 / (1 << 24);
        double relative = 8.0 * (sqrt((double)cols) + most - least) + 0.5 * cols + 1.01;
        double tolerance = unit * (p * relative + 0x1p-123) + 0x1p-149;
        y[row * cols + c] = (float)(row == at && c == column ? p + 2.0 * tolerance : p);
    }
}
"#;

#[test]
fn a_planted_element_off_by_twice_its_tolerance_is_found_every_time() {
    let (judge, task) = (judge(), task("softmax_rows"));
    let plan = "plan = 1\nprecision = \"fp32\"\n[[step]]\nkernel = \"k\"\n\
                grid = [\"rows\"]\nblock = [\"32\"]\nargs = [\"x\", \"y\", \"rows\", \"cols\"]\n";
    let candidate = &candidate_of_parts(PLANTED, plan, &task.signature()).unwrap();
    let cancel = CancelFlag::default();
    let tunables = &BTreeMap::new();
    let build = &judge.build(&task, candidate, tunables, &cancel).unwrap();
    assert_eq!(build.verdict, None);
    let seeds: Vec<u8> = (0..40).collect();
    let found = each(&seeds, |seed| {
        let seed = &RunSeed([*seed; 32]);
        let evaluation = Evaluation { task: &task, candidate, tunables, build, seed, index: 0 };
        let judgement = judge.evaluate(&evaluation, &cancel).unwrap();
        let checks = judgement.report.cases.into_iter().flat_map(|case| case.checks);
        checks.collect::<Vec<_>>()
    });
    let found: Vec<_> = found.into_iter().flatten().collect();
    assert!(found.len() >= 200, "{}", found.len());
    let mut places = BTreeSet::new();
    for check in &found {
        assert_eq!(check.wrong, 1, "{check:?}");
        assert!(check.failure.is_some(), "{check:?}");
        assert!((1.4..2.6).contains(&check.worst_ratio), "{check:?}");
        places.insert((check.elements, check.first[0].index.clone()));
    }
    assert!(places.len() >= 120, "{}", places.len());
}

/// Sums of rows that are off by a fourth of a millionth, well inside every tolerance, where the
/// placeholder says so.
const OFF: &str = r#"
extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float t = 0.0f;
    for (int c = 0; c < cols; ++c) t += x[row * cols + c];
    y[row] = (OFF) ? t + t * 0x1p-22f : t;
}
"#;

/// Each passes all that is held against a reference; only a relation between calls shows it.
#[test]
fn what_no_tolerance_tells_a_broken_relation_does() {
    let (judge, task) = (judge(), task("reduce_sum_rows"));
    let mut unrelated = task.clone();
    unrelated.spec.metamorphic = Default::default();
    let plan = "plan = 1\nprecision = \"fp32\"\n[[step]]\nkernel = \"k\"\n\
                grid = [\"ceil_div(rows, 32)\"]\nblock = [\"32\"]\n\
                args = [\"x\", \"y\", \"rows\", \"cols\"]\n";
    let seed = &RunSeed([77; 32]);
    for (off, promotes, words) in [
        // Rows in the order in which they always come look alike.
        ("row & 1", true, Some("with `rows` permuted, outputs are not permuted alike")),
        // Any order looks alike, and so does any magnitude, each by itself.
        ("__float_as_int(t) >> 23 & 1", false, Some("times 8 does not scale")),
        ("false", true, None),
    ] {
        let source = OFF.replace("OFF", off);
        let candidate = candidate_of_parts(&source, plan, &task.signature()).unwrap();
        let (verdict, _) = judged(&judge, &unrelated, &candidate, seed, true);
        assert!(verdict.is_correct(), "{off}: {verdict}: {}", verdict.detail);
        let (verdict, _) = judged(&judge, &task, &candidate, seed, promotes);
        match words {
            None => assert!(verdict.is_correct(), "{off}: {verdict}: {}", verdict.detail),
            Some(words) => {
                assert_eq!(verdict.to_string(), "Wrong/MISMATCH", "{off}: {}", verdict.detail);
                assert!(verdict.detail.contains(words), "{off}: {}", verdict.detail);
            }
        }
    }
}

/// What could not be probed in the group with this name, and how many cases it has.
fn unprobed(entries: &[Entry], group: &str) -> (Vec<String>, usize) {
    let mut found = Vec::new();
    for entry in entries {
        if let Entry::Trials(record) = entry
            && record.group == group
        {
            assert!(record.verdict.is_correct(), "{group}: {:?}", record.verdict);
            found.push((record.unprobed.clone(), record.cases.len()));
        }
    }
    assert_eq!(found.len(), 1, "{group}");
    found.remove(0)
}

#[test]
fn relations_that_nothing_shows_are_not_called_correct() {
    let (judge, task) = (judge(), task("reduce_sum_rows"));
    let mut unrelated = task.clone();
    unrelated.spec.metamorphic = Default::default();
    let single = "the case has a single index";
    let (permuted, split) =
        (format!("permuted along `rows`: {single}"), format!("split along `rows`: {single}"));
    let part = "a part is outside the plan's domain or the task's ranges";
    let part = format!("split along `rows`: {part}");
    for (task, domain, wanted) in [
        (&task, "", vec![]),
        (&task, "domain = [\"rows == 1\"]\n", vec![permuted, split]),
        (&task, "domain = [\"rows % 8 == 0\", \"rows < 17\"]\n", vec![part]),
        (&unrelated, "", vec!["the task states no relation between calls".to_owned()]),
    ] {
        let plan = format!(
            "plan = 1\nprecision = \"fp32\"\n{domain}[[step]]\nkernel = \"k\"\n\
             grid = [\"ceil_div(rows, 32)\"]\nblock = [\"32\"]\n\
             args = [\"x\", \"y\", \"rows\", \"cols\"]\n"
        );
        let source = OFF.replace("OFF", "false");
        let candidate = candidate_of_parts(&source, &plan, &task.signature()).unwrap();
        let entries = accepted(&judge, task, &candidate, &RunSeed([79; 32]));
        let (found, cases) = unprobed(&entries, "relations");
        assert_eq!(found, wanted, "{domain}");
        assert_eq!(cases == 0, task.spec.metamorphic == Default::default(), "{domain}");
    }
}

/// A matrix product, its operands as they are or rounded to TF32.
const PRODUCT: &str = r#"
__device__ float of(float v) {
    return ROUNDS ? __int_as_float((__float_as_int(v) + 0x1000) & 0xffffe000) : v;
}
extern "C" __global__ void product(const float* a, const float* b, float* c, int m, int n, int k) {
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y;
    if (column >= n) return;
    float t = 0.0f;
    for (int i = 0; i < k; ++i) t = fmaf(of(a[row * k + i]), of(b[i * n + column]), t);
    c[row * n + column] = t;
}
"#;

#[test]
fn the_class_is_measured_at_three_accumulation_lengths() {
    let (judge, mut task) = (judge(), task("matmul_f32"));
    task.spec.classes.push(Precision::Tf32);
    task.spec.gate.nu.insert(Precision::Tf32, 1e-3);
    for (rounds, class) in [("false", Precision::Fp32), ("true", Precision::Tf32)] {
        let source = PRODUCT.replace("ROUNDS", rounds);
        let plan = "plan = 1\nprecision = \"tf32\"\n[[step]]\nkernel = \"product\"\n\
                    grid = [\"ceil_div(n, 32)\", \"m\"]\nblock = [\"32\"]\n\
                    args = [\"a\", \"b\", \"c\", \"m\", \"n\", \"k\"]\n";
        let candidate = candidate_of_parts(&source, plan, &task.signature()).unwrap();
        let seed = &RunSeed([78; 32]);
        let entries = accepted(&judge, &task, &candidate, seed);
        let mut found = Vec::new();
        for entry in &entries {
            if let Entry::Trials(record) = entry {
                assert!(record.verdict.is_correct(), "{}: {:?}", record.group, record.verdict);
                found.extend(record.length.map(|at| (at.length, record.class, at.norm_error)));
            }
        }
        let lengths: Vec<_> = found.iter().map(|(length, ..)| *length).collect();
        assert_eq!(lengths, [16, 32, 128]);
        assert!(found.iter().all(|(_, measured, _)| *measured == Some(class)), "{found:?}");
        // What the operands lose does not grow with the length.
        let [first, .., last] = &found[..] else { panic!("{found:?}") };
        assert!(rounds == "false" || last.2 < 1.5 * first.2, "{found:?}");
    }
}

#[test]
fn a_domain_without_any_of_the_lengths_hides_the_class_from_nobody() {
    let (judge, task) = (judge(), task("matmul_f32"));
    let plan = "plan = 1\nprecision = \"fp32\"\ndomain = [\"k % 3 == 0\"]\n[[step]]\n\
                kernel = \"product\"\ngrid = [\"ceil_div(n, 32)\", \"m\"]\nblock = [\"32\"]\n\
                args = [\"a\", \"b\", \"c\", \"m\", \"n\", \"k\"]\n";
    let source = PRODUCT.replace("ROUNDS", "false");
    let candidate = candidate_of_parts(&source, plan, &task.signature()).unwrap();
    let entries = accepted(&judge, &task, &candidate, &RunSeed([80; 32]));
    let why = "no shape of any length is in the task's ranges and the plan's domain";
    assert_eq!(unprobed(&entries, "class at any length"), (vec![why.to_owned()], 0));
}

/// The sum of two vectors, wrong in one element in about one of a hundred calls: which ones, the
/// inputs and what the output held before decide.
const RARE: &str = r#"
extern "C" __global__ void look(const float* a, const float* y, unsigned* flag, int n) {
    unsigned h = __float_as_uint(y[0]);
    for (int i = 0; i < 15 && i < n; ++i) h = (h ^ __float_as_uint(a[i])) * 0x9e3779b1u ^ h >> 15;
    flag[0] = (h ^ h >> 13) % 100u == 0u;
}
extern "C" __global__ void k(const float* a, const float* b, const unsigned* flag, float* y,
                             int n) {
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) y[i] = a[i] + b[i] + (flag[0] && i == n / 3 ? 1.0f : 0.0f);
}
"#;

#[test]
fn a_kernel_that_fails_in_one_call_of_a_hundred_is_caught() {
    let (judge, task) = (judge(), task("vector_add"));
    let plan = "plan = 1\nprecision = \"fp32\"\n[[workspace]]\nname = \"flag\"\ndtype = \"u32\"\n\
                len = \"1\"\n[[step]]\nkernel = \"look\"\ngrid = [\"1\"]\nblock = [\"1\"]\n\
                args = [\"a\", \"y\", \"flag\", \"n\"]\n[[step]]\nkernel = \"k\"\n\
                grid = [\"ceil_div(n, 256)\"]\nblock = [\"256\"]\n\
                args = [\"a\", \"b\", \"flag\", \"y\", \"n\"]\n";
    let candidate = |source: &str| candidate_of_parts(source, plan, &task.signature()).unwrap();
    let never = candidate(&RARE.replace("% 100u == 0u", "% 100u == 100u"));
    let (verdict, runs) = judged(&judge, &task, &never, &RunSeed([60; 32]), false);
    assert!(verdict.is_correct(), "{verdict}: {}", verdict.detail);
    let chance = 1.0 - 0.99f64.powi(runs as i32);
    let (rare, seeds): (_, Vec<u8>) = (candidate(RARE), (0..8).collect());
    let ends = each(&seeds, |seed| judged(&judge, &task, &rare, &RunSeed([60 + seed; 32]), false));
    let caught = ends.iter().filter(|(verdict, _)| !verdict.is_correct()).count();
    eprintln!("caught {caught} of {}; {runs} runs find it with {chance:.3}", ends.len());
    assert!(chance > 0.99, "{runs}");
    assert_eq!(caught, ends.len(), "{ends:?}");
}
