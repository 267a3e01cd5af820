//! Task files: the shipped ones prove themselves, spoilt ones are told, and a single wrong element
//! is found wherever it is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use device::toolchain::{self, Choice};
use judge::{CancelFlag, Evaluation, Judge, JudgeConfig, Judgement, RunSeed};
use pipeline::candidate::Candidate;
use pipeline::device_facts::DeviceFacts;
use pipeline::reply::candidate_of_parts;
use pipeline::task::Task;
use serde_json::Value;

use crate::program::{Ended, Program, cache, demo_replies};

pub(crate) fn judge() -> Judge {
    judge_with(judge::JudgePolicy::all())
}

pub(crate) fn judge_with(policy: judge::JudgePolicy) -> Judge {
    let found = toolchain::find(&Choice::Pinned, &cache())
        .or_else(|_| toolchain::install(&cache(), &mut |_| {}))
        .unwrap();
    let files = [&found.nvrtc, &found.builtins].into_iter().filter_map(|path| path.parent());
    let folders = files.chain(found.include_dirs.iter().map(PathBuf::as_path));
    Judge::new(JudgeConfig {
        program: PathBuf::from(env!("CARGO_BIN_EXE_warpwright")),
        toolchain: serde_json::to_value(&found).unwrap(),
        toolchain_id: found.id.clone(),
        device: DeviceFacts::simulated_h200(),
        gpus: None,
        policy,
        baselines: judge::BaselineConfig::default(),
        confinement: judge::ConfinementConfig {
            toolchain_folders: folders.map(Path::to_owned).collect(),
            ..judge::ConfinementConfig::default()
        },
    })
}

pub(crate) fn task(name: &str) -> Task {
    let root = tasks_folder().join(name);
    let mut files = BTreeMap::new();
    for folder in [root.clone(), root.join("wrong"), root.join("baseline")] {
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

pub(crate) fn evaluate(judge: &Judge, task: &Task, candidate: &Candidate, index: u64) -> Judgement {
    let tunables = candidate.plan.default_tunables();
    let cancel = CancelFlag::default();
    let build = judge.build(task, candidate, &tunables, &cancel).unwrap();
    let seed = RunSeed([9; 32]);
    let evaluation =
        Evaluation { task, candidate, tunables: &tunables, build: &build, seed: &seed, index };
    judge.evaluate(&evaluation, &cancel).unwrap()
}

fn tasks_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks")
}

#[test]
fn shipped_tasks_prove_themselves() {
    let checked = Program::new().call(&["task", "check"]);
    assert_eq!(checked.code, Some(0), "{}{}", checked.stdout, checked.stderr);
    for entry in std::fs::read_dir(tasks_folder()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let proven = format!("{name}: proven");
        let end = checked.stdout.find(&proven).unwrap_or_else(|| panic!("{name} is not checked"));
        let own = checked.stdout[..end].rsplit(": proven").next().unwrap();
        let lines = |part: &str| own.lines().filter(|line| line.contains(part)).count();
        assert!(own.contains(" values agree"), "{own}");
        assert!(lines(": rejected: ") >= 4 && lines(": told apart, ") >= 8, "{own}");
    }
}

/// A copy of softmax_rows that `change` has spoilt: its path and what `task check` said of it.
fn check_spoilt(change: impl Fn(&Path)) -> Ended {
    let program = Program::new();
    let copy = program.path("spoilt");
    copy_task(&copy);
    change(&copy);
    program.call(&["task", "check", copy.to_str().unwrap()])
}

fn copy_task(copy: &Path) {
    for folder in ["", "wrong", "baseline"] {
        std::fs::create_dir_all(copy.join(folder)).unwrap();
        for entry in std::fs::read_dir(tasks_folder().join("softmax_rows").join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let to = copy.join(folder).join(path.file_name().unwrap());
                std::fs::copy(&path, to).unwrap();
            }
        }
    }
}

#[test]
fn a_golden_case_that_the_reference_does_not_give_refuses_the_task() {
    let ended = check_spoilt(|task| {
        let path = task.join("golden.json");
        let mut golden: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        golden["outputs"]["y"][1] = "3fe0000000000000".into();
        std::fs::write(&path, golden.to_string()).unwrap();
    });
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("`y` at 1: the reference gives 0."), "{}", ended.stdout);
    assert!(ended.stdout.contains(": refused"), "{}", ended.stdout);
}

#[test]
fn a_wrong_kernel_that_fails_for_another_reason_refuses_the_task() {
    let ended = check_spoilt(|task| {
        for entry in std::fs::read_dir(task.join("wrong")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|extension| extension == "cu") {
                std::fs::write(&path, "this does not compile").unwrap();
            }
        }
    });
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("NOT AS EXPECTED: BuildFailed/COMPILE"), "{}", ended.stdout);
    let expected = "wrong/no_max.toml expects Wrong/";
    assert!(ended.stdout.contains(expected), "{}", ended.stdout);
    assert!(ended.stdout.contains(": refused"), "{}", ended.stdout);
}

/// A factor on the input of a softmax is no factor on its output: every right kernel would fail.
#[test]
fn a_relation_that_the_reference_breaks_refuses_the_task() {
    let ended = check_spoilt(|task| {
        let path = task.join("task.toml");
        let spec = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{spec}scales = [[\"x\"]]\n")).unwrap();
    });
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("in its reference `y` is "), "{}", ended.stdout);
    assert!(ended.stdout.contains(": refused"), "{}", ended.stdout);
}

#[test]
fn a_task_without_wrong_kernels_is_weak() {
    let ended = check_spoilt(|task| std::fs::remove_dir_all(task.join("wrong")).unwrap());
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("no wrong kernel was rejected"), "{}", ended.stdout);
    assert!(ended.stdout.contains(": weak"), "{}", ended.stdout);
}

#[test]
fn a_reference_py_that_is_no_python_is_bad_input() {
    let ended = check_spoilt(|task| std::fs::write(task.join("reference.py"), "x = (\n").unwrap());
    assert_eq!(ended.code, Some(2), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains("reference.py is no Python: line 1: "), "{}", ended.stderr);
}

#[test]
fn a_mutant_that_the_reference_does_not_make_is_pointed_at() {
    let ended = check_spoilt(|task| {
        let path = task.join("task.toml");
        let text = std::fs::read_to_string(&path).unwrap();
        let more = "\n[[mutant]]\nid = 77\nname = \"nobody makes it\"\n";
        std::fs::write(&path, format!("{text}{more}")).unwrap();
    });
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let lines = "reference mutant 77: nobody makes it: equivalent, 0.0 tolerances\n    it is the \
                 reference, bit for bit: does reference.cu look at this WW_MUTANT?";
    assert!(ended.stdout.contains(lines), "{}", ended.stdout);
}

/// A copy of softmax_rows whose tolerance is this many times as wide.
fn widened(program: &Program, times: &str) -> String {
    let copy = program.path("wide");
    copy_task(&copy);
    // These are right now.
    for name in ["bf16_exponent", "dropped_tail", "no_max"] {
        for extension in ["cu", "toml"] {
            std::fs::remove_file(copy.join("wrong").join(name).with_extension(extension)).unwrap();
        }
    }
    for (file, before, after) in [
        ("reference.cu", "double scale = 8.0 *", &*format!("double scale = {times} * 8.0 *")),
        ("task.toml", "nu = { fp32 = 5e-5 }", "nu = { fp32 = 1.0 }"),
    ] {
        let text = std::fs::read_to_string(copy.join(file)).unwrap();
        assert!(text.contains(before), "{file}");
        std::fs::write(copy.join(file), text.replace(before, after)).unwrap();
    }
    copy.to_str().unwrap().to_owned()
}

#[test]
fn a_task_that_wrong_answers_pass_is_weak_and_names_them() {
    let program = Program::new();
    let ended = program.call(&["task", "check", &widened(&program, "2e3"), "--json"]);
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let found = &ended.closing()["tasks"][0];
    assert_eq!((&found["tier"], &found["reference_py"]), (&"weak".into(), &"parses".into()));
    assert!(found["wrong"].as_array().unwrap().iter().all(|wrong| wrong["as_expected"] == true));
    let mutants = found["mutants"].as_array().unwrap();
    let tf32 = mutants.iter().find(|it| it["name"] == "inputs rounded to tf32").unwrap();
    assert!(tf32["outcome"] == "survived" && tf32["ratio"].is_number(), "{tf32}");
    assert_eq!(found["weaknesses"].as_array().unwrap().len(), 1, "{found}");
    assert!(ended.stdout.contains("mutant inputs rounded to tf32: SURVIVES"), "{}", ended.stdout);
    assert!(ended.stdout.contains("mutant zeros: told apart"), "{}", ended.stdout);
    let survivors = "wrong answers that would pass: inputs rounded to tf32";
    assert!(ended.stdout.contains(survivors), "{}", ended.stdout);
    assert!(ended.stdout.contains(": weak: it can be used"), "{}", ended.stdout);
    assert!(ended.stderr.contains("called `softmax_rows` like a built-in one"), "{}", ended.stderr);
}

#[test]
fn a_task_that_zeros_pass_is_refused_and_nothing_is_judged_by_it() {
    let program = Program::new();
    let task = widened(&program, "1e7");
    let path = program.path("good.md").display().to_string();
    std::fs::write(&path, demo_replies().pop().unwrap()).unwrap();
    let before = program.call(&["evaluate", &task, &path]);
    assert_eq!(before.code, Some(0), "{}{}", before.stdout, before.stderr);
    let checked = program.call(&["task", "check", &task]);
    assert_eq!(checked.code, Some(3), "{}{}", checked.stdout, checked.stderr);
    assert!(checked.stdout.contains("an answer without any work would pass: zeros"));
    assert!(checked.stdout.contains(": refused"), "{}", checked.stdout);
    for command in [&["evaluate", &task, &path][..], &["accept", "@last"]] {
        let ended = program.call(command);
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(3), "{command:?}: {said}");
        assert!(said.contains("`softmax_rows` is refused"), "{command:?}: {said}");
        assert!(said.contains("until `task check` says proven"), "{command:?}: {said}");
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
