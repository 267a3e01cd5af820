//! The server's program with a PyTorch and a driver that are made up: everything but the GPU.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pipeline::baseline::{BaselineId, void_reason};
use pipeline::device_facts::DeviceFacts;
use pipeline::energy::{Reading, per_call_mj};
use pipeline::hardware::{HardwareSheet, SHEET_VERSION};
use pipeline::inputs::MasterSeed;
use pipeline::task::Task;
use pipeline::timing::{combined_hash, output_key};
use sandbox::CancelFlag;
use sandbox::wire::{BaselineReport, RunEnd};

use super::timed::Ground;
use super::{BaselineConfig, PROGRAM, find_python};
use crate::children::ChildEnd;
use crate::gpu::sealed;
use crate::{GpuConfig, Judge, JudgeConfig, JudgeError};

const FAKES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/baseline/tests");

/// A judge whose Python has the made-up packages, with a task of this repository.
struct World {
    judge: Judge,
    task: Task,
    cancel: CancelFlag,
    _folder: tempfile::TempDir,
}

impl World {
    /// `setting` reaches the made-up PyTorch.
    fn new(setting: &str) -> Self {
        Self::with_module(setting, "vector_add", None)
    }

    fn with_module(setting: &str, task: &str, module: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let python = wrapper(folder.path(), setting);
        let facts = DeviceFacts::simulated_h200();
        let sheet = HardwareSheet {
            version: SHEET_VERSION,
            uuid: "GPU-made-up".to_owned(),
            driver: "1".to_owned(),
            cuda_version: 13000,
            facts: facts.clone(),
            ceilings: None,
        };
        let judge = Judge::new(JudgeConfig {
            program: launcher(folder.path()),
            toolchain: serde_json::Value::Null,
            toolchain_id: "none".to_owned(),
            device: facts,
            gpus: Some(GpuConfig {
                sheets: vec![sheet],
                lock_folder: folder.path().to_owned(),
                launch_deadline_ms: 1000,
                environment: Vec::new(),
                case_cache_bytes_max: 1 << 20,
            }),
            baselines: BaselineConfig { python: Some(python), cache_folder: None },
            policy: crate::JudgePolicy::all(),
            confinement: crate::ConfinementConfig::default(),
        });
        *crate::cases::lock(&judge.harness) = Some(sealed("harness", b"cubin").unwrap().into());
        let mut files = task_files(task);
        if let Some(module) = module {
            files.insert("reference.py".to_owned(), module.as_bytes().to_vec());
        }
        let task = Task::from_files(&files).unwrap();
        Self { judge, task, cancel: CancelFlag::new(), _folder: folder }
    }

    /// A window at a small shape, and its ground.
    fn window(&self, name: &str, deadline: Duration) -> (ChildEnd<BaselineReport>, Ground<'_>) {
        let baseline = BaselineId::from_name(name).unwrap();
        let case = self.task.spec.cases.iter().find(|case| case.name == "ragged").unwrap();
        let master = MasterSeed([5; 32]);
        let ground = self.judge.ground(&self.task, case, &master, &self.cancel).unwrap();
        let mut request = ground.request(&baseline, true).unwrap();
        request.window.warm_up_ms = 1;
        let module = sealed("module", self.task.module.as_deref().unwrap().as_bytes()).unwrap();
        let bulk: Vec<_> = ground.bulk().into_iter().chain([&module]).collect();
        let lease = self.judge.lease(&self.cancel).unwrap().unwrap();
        let end = self.judge.baseline_window(request, &bulk, &lease, deadline, &self.cancel);
        (end.unwrap(), ground)
    }

    fn reported(&self, name: &str) -> (BaselineReport, Ground<'_>) {
        match self.window(name, PATIENCE) {
            (ChildEnd::Reported(report), ground) => (report, ground),
            (other, _) => panic!("{}", ended(other)),
        }
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

fn ended(end: ChildEnd<BaselineReport>) -> String {
    match end {
        ChildEnd::Reported(report) => format!("reported: {:?}", report.window.end),
        ChildEnd::TimedOut(_) => "timed out".to_owned(),
        ChildEnd::Crashed(why) => format!("crashed: {why}"),
        ChildEnd::Broken(why) => format!("broken: {why}"),
        ChildEnd::Killed(why) => format!("killed: {why}"),
    }
}

fn task_files(task: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks").join(task);
    let parts = [folder.clone(), folder.join("baseline")];
    let entries = parts.iter().flat_map(|part| fs::read_dir(part).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    let name = |path: &Path| path.strip_prefix(&folder).unwrap().to_string_lossy().into_owned();
    paths.map(|path| (name(&path), fs::read(&path).unwrap())).collect()
}

/// In place of this program: starts the server without confining it, and says so.
fn launcher(folder: &Path) -> PathBuf {
    let path = folder.join("launcher");
    let told = r#"{"Ok":{"confinement":{"set":"python","level":0,"layers":[]},"waits":false}}"#;
    let text = format!("#!/bin/sh\nprintf '{told}' >&4\nexec 4>&-\nshift 3\nexec \"$@\"\n");
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// A Python that finds the made-up packages; it is given `-I -c PROGRAM`.
fn wrapper(folder: &Path, setting: &str) -> PathBuf {
    let python = find_python(None).unwrap();
    let path = folder.join("python");
    let text = format!(
        "#!{} -I\nimport sys\nsys.path.insert(0, {FAKES:?})\nsys.fake = {setting:?}\n\
         exec(compile(sys.argv[3], '<program>', 'exec'))\n",
        python.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn a_window_is_performed_and_its_outputs_are_what_was_hashed() {
    let world = World::new("");
    let versions = world.judge.python_versions(&world.cancel).unwrap();
    assert_eq!(versions["torch"], "2.0-made-up");
    let (report, ground) = world.reported("eager-strict");
    let window = &report.window;
    assert_eq!(window.end, RunEnd::Completed);
    assert_eq!(window.cold.len(), ground.window.cold_samples.len());
    assert_eq!(window.warm.len(), ground.window.warm_samples as usize);
    for (sample, spec) in window.cold.iter().zip(&ground.window.cold_samples) {
        assert_eq!(sample.content, spec.content);
        assert_eq!((sample.elapsed_ns, sample.ungated), (1_500_000, false));
        assert!((sample.sm_clock_hz - 1.98e9).abs() < 1e6);
        assert!(window.slots.iter().any(|slot| slot.hash == sample.hash));
    }
    assert_eq!(window.slots.len(), 2, "one for each content");
    ground.outputs.memfd.seal_write().unwrap();
    let outputs = ground.outputs.memfd.map().unwrap();
    for (slot, held) in (0usize..).zip(&window.slots) {
        let content = &ground.contents[held.content as usize];
        let inputs = content.inputs.memfd.map().unwrap();
        let at = |map: &[u8], start: u64, index: usize| {
            let start = start as usize + 4 * index;
            f32::from_le_bytes(std::array::from_fn(|byte| map[start + byte]))
        };
        let start = (slot as u64) * ground.slot_bytes;
        for index in [0, 1, 10_006] {
            let sum = ["a", "b"].map(|name| at(&inputs, content.inputs.places[name].0, index));
            let expected = sum[0] + sum[1];
            assert!(at(&outputs, start, index) == expected, "slot {slot}, element {index}");
        }
    }
    let wanted = pipeline::baseline::torch_flags(pipeline::baseline::MathMode::Strict);
    assert_eq!(void_reason(&wanted, &report.flags_before, &report.flags_after), None);
    assert_eq!(report.flags_after["PYTORCH_CUDA_ALLOC_CONF"], "expandable_segments:True");
}

#[test]
fn compiled_ones_are_warmed_up_until_nothing_is_compiled_any_more() {
    let world = World::new("");
    for (name, mode) in
        [("compile-fast", "default"), ("max-autotune-strict", "max-autotune-no-cudagraphs")]
    {
        let (report, _) = world.reported(name);
        assert_eq!(report.window.end, RunEnd::Completed, "{name}");
        assert_eq!(report.versions["triton"], mode, "the made-up one tells the mode");
    }
    let fast = world.reported("eager-fast").0;
    assert_eq!(fast.flags_after["matmul.allow_tf32"], "True");
    assert_eq!(fast.flags_after["float32_matmul_precision"], "high");
}

#[test]
fn scalars_and_dimensions_are_given_by_name() {
    let module = "import torch\nclass Model(torch.nn.Module):\n    def __init__(self, eps, cols):\n\
                  \x20       self.eps, self.cols = eps, cols\n\
                  \x20   def forward(self, x, weight, bias):\n\
                  \x20       assert (self.eps, self.cols) == (1e-5, 1009)\n        return x + x\n";
    let world = World::with_module("", "layer_norm", Some(module));
    assert_eq!(world.reported("eager-strict").0.window.end, RunEnd::Completed);
}

#[test]
fn what_a_module_does_wrong_is_said_of_it() {
    for (body, part) in [
        ("return 1/0", "ZeroDivisionError"),
        ("return a, b", "2 outputs"),
        ("return a.half()", "float16"),
        ("return 7", "no tensor on the GPU"),
        ("return a.strided()", "not contiguous"),
        ("a.scribble(); return a + b", "changed its input `a`"),
    ] {
        let module = format!(
            "import torch\nclass Model(torch.nn.Module):\n    def forward(self, a, b):\n        \
             {body}\n"
        );
        let world = World::with_module("", "vector_add", Some(&module));
        match world.reported("eager-strict").0.window.end {
            RunEnd::Refused(why) => assert!(why.contains(part), "{body}: {why}"),
            other => panic!("{body}: {other:?}"),
        }
    }
}

#[test]
fn a_flag_that_changes_voids_the_window() {
    let world = World::new("turns-tf32-on");
    let (report, _) = world.reported("eager-strict");
    let wanted = pipeline::baseline::torch_flags(pipeline::baseline::MathMode::Strict);
    let why = void_reason(&wanted, &report.flags_before, &report.flags_after).unwrap();
    assert!(why.contains("`matmul.allow_tf32`") && why.contains("after"), "{why}");
}

#[test]
fn hangs_and_faults_have_their_ends() {
    let world = World::new("hangs");
    let (end, _) = world.window("eager-strict", Duration::from_secs(2));
    assert_eq!(ended(end), "timed out");
    let world = World::new("faults");
    let (end, _) = world.window("eager-strict", PATIENCE);
    assert!(ended(end).contains("Crash(\"cuStreamSynchronize failed with code 700"));
    let world = World::new("dies");
    let (end, _) = world.window("eager-strict", PATIENCE);
    assert_eq!(ended(end), "crashed: killed by signal 11");
    let world = World::new("is-initialised");
    let (end, _) = world.window("eager-strict", PATIENCE);
    assert!(ended(end).contains("itself has opened a CUDA context"));
}

#[test]
fn without_pytorch_the_reason_is_told() {
    for (setting, part) in [("absent", "No module named"), ("no-cuda", "built without CUDA")] {
        let world = World::new(setting);
        match world.judge.python_versions(&world.cancel) {
            Err(JudgeError::NotAvailable(why)) => {
                assert!(why.contains(part) && why.contains("WARPWRIGHT_PYTHON"), "{why}");
            }
            other => panic!("{setting}: {other:?}"),
        }
    }
    assert!(find_python(Some(Path::new("/nonexistent/python"))).is_err());
}

#[test]
fn the_pure_parts_of_the_schedule_agree_with_the_runner() {
    let hashes = [[1, u64::MAX], [u64::MAX, 7]];
    let keys: Vec<_> = (0..3).map(|output| output_key([u64::MAX, 12], output)).collect();
    let counter = |at: u64| 7_000 + at / 10 * 50_000;
    let reading =
        |at: u64| Reading { elapsed_ms: 10.0 * at as f64, calls: 5 * at, counter_mj: counter(at) };
    let readings: Vec<_> = (1..60).map(reading).collect();
    let triple = |it: &Reading| (it.elapsed_ms, it.calls, it.counter_mj);
    let values = serde_json::json!({
        "keys": keys,
        "combined": combined_hash(&hashes),
        "readings": readings.iter().map(triple).collect::<Vec<_>>(),
        "per_call_mj": per_call_mj(&readings, 200.0),
    });
    let tests = include_str!("tests/schedule.py");
    let program = format!("__name__ = 'program'\n{}\n{tests}", PROGRAM.join("\n"));
    let mut command = Command::new(find_python(None).unwrap());
    let output = command.args(["-I", "-c", &program, &values.to_string()]).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("8 checks"), "{told}");
}
