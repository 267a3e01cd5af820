//! What a reference that does not run says of whom.

use std::path::Path;

use pipeline::device_facts::DeviceFacts;
use pipeline::task::Task;
use sandbox::CancelFlag;

use judge::{BaselineConfig, ConfinementConfig, Judge, JudgeConfig, JudgeError, JudgePolicy};

fn task() -> Option<Task> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tasks/vector_add");
    let mut files = std::collections::BTreeMap::new();
    for part in ["", "wrong", "baseline"] {
        for entry in root.join(part).read_dir().ok()? {
            let path = entry.ok()?.path();
            if path.is_file() {
                let name = path.strip_prefix(&root).ok()?.to_str()?.to_owned();
                files.insert(name, std::fs::read(&path).ok()?);
            }
        }
    }
    Task::from_files(&files).ok()
}

/// A child that ends before it says anything is what too little memory makes of one.
#[test]
fn a_child_that_cannot_run_is_the_machines_fault_and_not_the_tasks() {
    let judge = Judge::new(JudgeConfig {
        program: "/bin/false".into(),
        toolchain: serde_json::Value::Null,
        toolchain_id: "nvrtc".to_owned(),
        device: DeviceFacts::simulated_h200(),
        gpus: None,
        policy: JudgePolicy::all(),
        baselines: BaselineConfig::default(),
        confinement: ConfinementConfig::default(),
    });
    let error = judge.check_golden(&task().unwrap(), &CancelFlag::default()).unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, JudgeError::NotAvailable(_)), "{said}");
    for part in ["the reference of `vector_add`", "is memory short?", "ulimit -a"] {
        assert!(said.contains(part), "{part}: {said}");
    }
}
