//! The shipped task proves itself: its reference agrees with the golden case, and each of its
//! wrong kernels is rejected for the reason that it carries.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use device::toolchain::{self, Choice};
use judge::{CancelFlag, Evaluation, Judge, JudgeConfig, Judgement, RunSeed};
use pipeline::candidate::Candidate;
use pipeline::device_facts::DeviceFacts;
use pipeline::reply::candidate_of_parts;
use pipeline::task::{Task, WrongKernel};

use crate::program::cache;

fn judge() -> Judge {
    let found = toolchain::find(&Choice::Pinned, &cache())
        .or_else(|_| toolchain::install(&cache(), &mut |_| {}))
        .unwrap();
    Judge::new(JudgeConfig {
        program: PathBuf::from(env!("CARGO_BIN_EXE_warpwright")),
        toolchain: serde_json::to_value(&found).unwrap(),
        toolchain_id: found.id.clone(),
        device: DeviceFacts::simulated_h200(),
    })
}

fn task(name: &str) -> Task {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(name);
    let mut files = BTreeMap::new();
    for folder in [root.clone(), root.join("wrong")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let key = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.insert(key, std::fs::read(path).unwrap());
            }
        }
    }
    Task::from_files(&files).unwrap()
}

/// Every shipped task, by folder name.
fn tasks() -> Vec<Task> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks");
    let folders = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap());
    let names: Vec<_> = folders.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(!names.is_empty());
    names.iter().map(|name| task(name)).collect()
}

fn evaluate(judge: &Judge, task: &Task, candidate: &Candidate, index: u64) -> Judgement {
    let tunables = candidate.plan.default_tunables();
    let cancel = CancelFlag::default();
    let build = judge.build(task, candidate, &tunables, &cancel).unwrap();
    let seed = RunSeed([9; 32]);
    let evaluation =
        Evaluation { task, candidate, tunables: &tunables, build: &build, seed: &seed, index };
    judge.evaluate(&evaluation, &cancel).unwrap()
}

#[test]
fn references_agree_with_their_golden_cases() {
    let judge = judge();
    for task in tasks() {
        let report = judge.check_golden(&task, &CancelFlag::default()).unwrap();
        assert!(report.compared > 0, "{}", task.spec.name);
        assert_eq!(report.deviations, [], "{}", task.spec.name);
    }
}

#[test]
fn every_wrong_kernel_is_rejected_for_its_reason() {
    let judge = judge();
    for task in tasks() {
        assert!(task.wrong.len() >= 4, "{}", task.spec.name);
        task.wrong.iter().for_each(|wrong| check_wrong(&judge, &task, wrong));
    }
}

fn check_wrong(judge: &Judge, task: &Task, wrong: &WrongKernel) {
    let candidate = candidate_of_parts(&wrong.source, &wrong.plan, &task.signature()).unwrap();
    let verdict = evaluate(judge, task, &candidate, 0).verdict;
    let place = format!("{}/{}: {verdict} {}", task.spec.name, wrong.name, verdict.detail);
    let expected = (wrong.expect.kind, Some(wrong.expect.reason));
    assert_eq!((verdict.kind, verdict.reason), expected, "{place}");
    if let Some(case) = &wrong.expect.case {
        assert!(verdict.detail.contains(&format!("case `{case}`")), "{place}");
    }
}

/// A single wrong element somewhere in the output is found whatever the inputs are.
#[test]
fn one_planted_wrong_element_is_found() {
    let (judge, task) = (judge(), task("softmax_rows"));
    let source = |row: u32, column: u32| {
        format!(
            "extern \"C\" __global__ void k(const float* x, float* y, int rows, int cols) {{
                int row = blockIdx.x * blockDim.x + threadIdx.x;
                if (row >= rows) return;
                float m = -INFINITY, t = 0.0f;
                for (int c = 0; c < cols; ++c) m = fmaxf(m, x[row * cols + c]);
                for (int c = 0; c < cols; ++c) t += expf(x[row * cols + c] - m);
                for (int c = 0; c < cols; ++c) y[row * cols + c] = expf(x[row * cols + c] - m) / t;
                if (row == {row} && {column} < cols) y[row * cols + {column}] += 1e-3f;
            }}"
        )
    };
    let plan = "plan = 1\nprecision = \"fp32\"\n[[step]]\nkernel = \"k\"\n\
                grid = [\"ceil_div(rows, 32)\"]\nblock = [\"32\"]\n\
                args = [\"x\", \"y\", \"rows\", \"cols\"]\n";
    for (index, (row, column)) in
        [(63, 1023), (0, 0), (36, 1008), (2, 4), (17, 511)].into_iter().enumerate()
    {
        let candidate = candidate_of_parts(&source(row, column), plan, &task.signature()).unwrap();
        let judgement = evaluate(&judge, &task, &candidate, index as u64);
        assert!(
            judgement.verdict.to_string().starts_with("Wrong/"),
            "{row} {column}: {:?}",
            judgement.verdict
        );
        let checks = judgement.report.cases.iter().flat_map(|case| &case.checks);
        let wrong: Vec<_> = checks.filter(|check| check.failure.is_some()).collect();
        assert!(wrong.iter().all(|check| check.wrong == 1), "{row} {column}");
        assert_eq!(wrong[0].first[0].index, [u64::from(row), u64::from(column)]);
    }
}
