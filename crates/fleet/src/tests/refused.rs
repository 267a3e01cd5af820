//! What a worker or a run does not take: strange files, and less confinement than is required.

use std::sync::Arc;

use judge::{CancelFlag, Evaluator, JobPoll, Judge, JudgeConfig};
use pipeline::confinement::{Confinement, Layer, LayerState};

use super::{Folder, conditions, job, judge, judgement};
use crate::FolderEvaluator;
use crate::archive::{Conditions, JobFailure, JobResult, pack};
use crate::layout::write_whole;

fn requiring(folder: &Folder, level: u8) -> FolderEvaluator {
    let conditions = Conditions { required_confinement: level, ..conditions() };
    FolderEvaluator::open(folder.root.path(), conditions).unwrap()
}

#[test]
fn a_worker_that_holds_children_by_less_says_so() {
    let folder = Folder::new();
    let evaluator = requiring(&folder, 3);
    let ticket = evaluator.submit(&Arc::new(job())).unwrap();
    let mut config = judge("nvrtc").config().clone();
    config.confinement.level_max = 2;
    let told = folder.drain_by(Judge::new(JudgeConfig { ..config }));
    let why = "the run requires confinement of level 3 and this worker reaches 2";
    assert!(told[0].contains(why), "{told:?}");
    let failed = evaluator.poll(&ticket, &CancelFlag::new()).unwrap_err().to_string();
    assert!(failed.contains(why), "{failed}");
}

/// A folder keeps results of before.
#[test]
fn a_result_that_was_found_under_less_is_none() {
    for (missing, required, is_enough) in [
        (Some(Layer::Landlock), 0, true),
        (Some(Layer::Landlock), 1, true),
        (Some(Layer::Landlock), 2, false),
        (Some(Layer::Cgroup), 3, true),
        (Some(Layer::Cgroup), 4, false),
        (None, 4, true),
    ] {
        let folder = Folder::new();
        let evaluator = requiring(&folder, required);
        let (job, mut judged) = (Arc::new(job()), judgement(true));
        let state = |layer| match missing == Some(layer) {
            true => (layer, LayerState::NotAvailable("no such thing".to_owned())),
            false => (layer, LayerState::Enforced(String::new())),
        };
        judged.report.held = vec![Confinement::new("candidate", Layer::ALL.map(state).to_vec())];
        let bytes = serde_json::to_vec(&JobResult::of(&job, &judged)).unwrap();
        write_whole(&folder.layout().result(job.key().as_str()), &bytes).unwrap();
        let ticket = evaluator.submit(&job).unwrap();
        let polled = evaluator.poll(&ticket, &CancelFlag::new()).unwrap();
        assert_eq!(matches!(polled, JobPoll::Done(_)), is_enough, "{missing:?} {required}");
        assert_eq!(folder.layout().job(job.key().as_str()).exists(), !is_enough);
    }
    // One that says nothing of it is enough only where nothing is required.
    assert!(judgement(true).report.was_held_at(0) && !judgement(true).report.was_held_at(1));
}

#[test]
fn strange_files_in_the_folder_harm_nobody() {
    let folder = Folder::new();
    let layout = folder.layout();
    let key = "0".repeat(64);
    std::fs::write(layout.job(&key), b"nonsense").unwrap();
    std::fs::write(layout.jobs().join("notes.txt"), b"hello").unwrap();
    std::fs::write(layout.jobs().join("..job"), b"hello").unwrap();
    let misnamed = "1".repeat(64);
    std::fs::write(layout.job(&misnamed), pack(&job(), &conditions()).unwrap()).unwrap();
    let (folder_key, link_key) = ("2".repeat(64), "3".repeat(64));
    std::fs::create_dir(layout.job(&folder_key)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", layout.job(&link_key)).unwrap();
    let told = folder.drain("nvrtc");
    assert_eq!(told.len(), 4, "{told:?}");
    assert!(told[1].contains("its name is not its key"), "{told:?}");
    assert!(told[2].contains("it is not a plain file"), "{told:?}");
    assert!(layout.bad_job(&folder_key).exists());
    assert!(layout.bad_job(&key).exists() && layout.bad_job(&misnamed).exists());
    let failure = std::fs::read(layout.failure(&key)).unwrap();
    assert!(!JobFailure::parse(&failure).unwrap().why.is_empty());
    assert!(JobFailure::parse(b"{\"failure\":4,\"why\":\"\"}").unwrap_err().contains("format 4"));
    assert!(JobResult::parse(b"{}").is_err());
}
