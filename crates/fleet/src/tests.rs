//! Jobs come back as they were, whatever is in the folder, and no worker answers what is not its.

mod refused;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use judge::{
    Build, CancelFlag, Evaluator, Job, JobPoll, JobStage, Judge, JudgeConfig, JudgeError,
    Judgement, RunSeed, judge_hash,
};
use pipeline::build::BuildFacts;
use pipeline::candidate::eval_key;
use pipeline::device_facts::DeviceFacts;
use pipeline::digest::Digest;
use pipeline::reply;
use pipeline::report::{Report, Score, Stage};
use pipeline::scrub::{Private, Scrubber};
use pipeline::task::Task;
use pipeline::transcript;
use pipeline::verdict::{Reason, Verdict};

use crate::archive::{Conditions, JobResult, pack, unpack};
use crate::layout::Layout;
use crate::{Drained, FleetError, FolderEvaluator, Worker, WorkerEvent, announced};

fn conditions() -> Conditions {
    Conditions {
        judge_hash: judge_hash().to_string(),
        toolchain_id: "nvrtc".to_owned(),
        device: DeviceFacts::simulated_h200(),
        required_confinement: 0,
    }
}

fn job() -> Job {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let task_files = read_files(&root.join("tasks/softmax_rows"));
    let task = Task::from_files(&task_files).unwrap();
    let recorded =
        std::fs::read_to_string(root.join("examples/softmax_rows.transcript.jsonl")).unwrap();
    let right = transcript::parse(&recorded).unwrap().pop().unwrap().reply;
    let candidate = reply::candidate(&right, &task.signature()).unwrap();
    let tunables = candidate.plan.default_tunables();
    let facts = BuildFacts {
        entries: Vec::new(),
        lowered_names: vec![("k".to_owned(), "_Z1k".to_owned())],
        externs: Vec::new(),
        static_bytes: 4,
        special_registers: Vec::new(),
        mma_types: Vec::new(),
        cache_hints: Vec::new(),
        ptx_hash: "ptx".to_owned(),
        cubin_hash: "cubin".to_owned(),
    };
    let key = eval_key(
        &facts.ptx_hash,
        &candidate.plan.verdict_hash(&tunables),
        &task.hash,
        &conditions().device.model,
        &conditions().judge_hash,
    );
    Job {
        id: "attempt".to_owned(),
        stage: JobStage::Search,
        eval_key: key,
        task: Arc::new(task),
        task_files: Arc::new(task_files),
        candidate,
        tunables,
        build: Build {
            id: Digest::of_bytes(b"build"),
            facts: Some(facts),
            diagnostics: Vec::new(),
            log: String::new(),
            ptx: b".version 8.8\n".to_vec(),
            cubin: vec![0, 1, 255],
            verdict: None,
            held: None,
        },
        seed: RunSeed([9; 32]),
        index: 3,
    }
}

fn read_files(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    for folder in ["", "wrong", "baseline"].map(|part| root.join(part)) {
        for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_file() {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}

fn judgement(repeatable: bool) -> Judgement {
    let report = Report {
        stage: Stage::Search,
        device: "sim".to_owned(),
        kernels: Vec::new(),
        cases: Vec::new(),
        score: Score::None,
        notes: Vec::new(),
        gpu: None,
        promotion: None,
        ended: None,
        confinement: None,
        held: Vec::new(),
    };
    Judgement { verdict: Verdict::failed(Reason::Timeout, "slow"), report, repeatable }
}

/// A judge without compiler and children, of a worker that must not need them.
fn judge(toolchain_id: &str) -> Judge {
    Judge::new(JudgeConfig {
        program: PathBuf::from("/absent"),
        toolchain: serde_json::Value::Null,
        toolchain_id: toolchain_id.to_owned(),
        device: DeviceFacts::simulated_h200(),
        gpus: None,
        policy: judge::JudgePolicy::all(),
        baselines: judge::BaselineConfig::default(),
        confinement: judge::ConfinementConfig::default(),
    })
}

struct Folder {
    root: tempfile::TempDir,
}

impl Folder {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn layout(&self) -> Layout {
        Layout::open(self.root.path()).unwrap()
    }

    fn evaluator(&self) -> FolderEvaluator {
        FolderEvaluator::open(self.root.path(), conditions()).unwrap()
    }

    /// One on a machine that is called `worker-9`.
    fn worker(&self, judge: Judge) -> Result<Worker, FleetError> {
        let host = Private::host("the name of this machine", "worker-9");
        Worker::open(self.root.path(), Arc::new(judge), Arc::new(Scrubber::new(host)))
    }

    /// Lets a worker do what there is; gives what it told.
    fn drain(&self, toolchain_id: &str) -> Vec<String> {
        self.drain_by(judge(toolchain_id))
    }

    fn drain_by(&self, judge: Judge) -> Vec<String> {
        let told = Mutex::new(Vec::new());
        let mut worker = self.worker(judge).unwrap();
        let observer = |event: WorkerEvent<'_>| {
            told.lock().unwrap().extend(match event {
                WorkerEvent::Taken { .. } => None,
                WorkerEvent::Judged { verdict, .. } => Some(verdict.to_string()),
                WorkerEvent::Failed { why, .. } => Some(why.to_owned()),
            });
        };
        let (stop, cancel) = (CancelFlag::new(), CancelFlag::new());
        let drained = worker.work(true, None, &stop, &cancel, &observer).unwrap();
        assert_eq!(drained, Drained::Empty);
        told.into_inner().unwrap()
    }
}

#[test]
fn a_worker_that_lacks_something_leaves_the_job_and_ends() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let sent = Arc::new(job());
    folder.evaluator().submit(&sent).unwrap();
    // A program whose every child says that something is not available.
    let programs = tempfile::tempdir().unwrap();
    let program = programs.path().join("lacking");
    std::fs::write(&program, "#!/bin/sh\nexit 71\n").unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = JudgeConfig { program, ..judge("nvrtc").config().clone() };
    let mut worker = folder.worker(Judge::new(config)).unwrap();
    let (stop, cancel) = (CancelFlag::new(), CancelFlag::new());
    let end = worker.work(true, None, &stop, &cancel, &|_| ()).unwrap_err();
    assert!(matches!(end, FleetError::NotAvailable(_)), "{end}");
    let key = sent.eval_key.as_str();
    let layout = folder.layout();
    assert!(layout.job(key).exists() && !layout.failure(key).exists());
}

#[test]
fn a_worker_tells_what_it_judges_on() {
    let folder = Folder::new();
    assert_eq!(announced(folder.root.path()).unwrap(), None);
    folder.drain("toolchain");
    let device = announced(folder.root.path()).unwrap();
    assert_eq!(device.as_ref(), Some(&conditions().device));
    let other = DeviceFacts { model: "another".to_owned(), ..conditions().device };
    std::fs::write(folder.layout().device(), serde_json::to_vec(&other).unwrap()).unwrap();
    let refused = folder.worker(judge("toolchain")).unwrap_err();
    assert!(refused.to_string().contains("judge on another"), "{refused}");
    std::fs::write(folder.layout().device(), "{}").unwrap();
    assert!(announced(folder.root.path()).is_err());
}

#[test]
fn a_job_comes_back_as_it_was() {
    let sent = job();
    let (found, wanted) = unpack(&pack(&sent, &conditions()).unwrap()).unwrap();
    assert_eq!(wanted, conditions());
    assert_eq!((&found.id, &found.eval_key), (&sent.id, &sent.eval_key));
    assert_eq!((found.task.hash.as_str(), found.index), (sent.task.hash.as_str(), 3));
    assert_eq!((found.candidate, found.tunables), (sent.candidate, sent.tunables));
    assert_eq!((found.build, found.seed), (sent.build, sent.seed));
    assert_eq!(found.task_files, sent.task_files);
}

/// A promote is another question than a search, and one for each attempt.
#[test]
fn a_promote_takes_its_incumbent_along() {
    let incumbent = Some(Box::new(Job { id: "incumbent".to_owned(), index: 7, ..job() }));
    let sent = Job { stage: JobStage::Promote { incumbent }, ..job() };
    let (found, _) = unpack(&pack(&sent, &conditions()).unwrap()).unwrap();
    let JobStage::Promote { incumbent: Some(beside) } = &found.stage else { panic!("{found:?}") };
    assert_eq!((beside.id.as_str(), beside.index), ("incumbent", 7));
    assert_eq!((&beside.candidate, &beside.build), (&sent.candidate, &sent.build));
    assert_eq!(found.key(), sent.key());
    let alone = Job { stage: JobStage::Promote { incumbent: None }, ..job() };
    let (found, _) = unpack(&pack(&alone, &conditions()).unwrap()).unwrap();
    assert!(matches!(found.stage, JobStage::Promote { incumbent: None }), "{found:?}");
    let other = Job { id: "another attempt".to_owned(), ..alone.clone() };
    let keys = [job().key(), alone.key(), other.key()];
    assert_eq!(keys.iter().collect::<std::collections::BTreeSet<_>>().len(), 3);
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        // Raw bytes: the library itself would refuse such names.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, *bytes).unwrap();
    }
    zstd::encode_all(&builder.into_inner().unwrap()[..], 1).unwrap()
}

#[test]
fn what_is_no_job_is_refused_in_words() {
    let mut other_key = job();
    other_key.eval_key = Digest::of_bytes(b"another");
    let whole = pack(&job(), &conditions()).unwrap();
    for (bytes, part) in [
        (Vec::new(), "it is no archive"),
        (b"nonsense".to_vec(), "it is no archive"),
        (zstd::encode_all(&b"nonsense"[..], 1).unwrap(), "it is no archive of files"),
        (whole[..whole.len() / 2].to_vec(), "the file is cut short"),
        (whole[..8].to_vec(), "the file is cut short"),
        ([&whole[..], b"more"].concat(), "something follows the end"),
        ([&whole[..], &whole[..]].concat(), "something follows the end"),
        (archive(&[]), "it has no `job.json`"),
        (archive(&[("job.json", b"{}")]), "job.json: missing field"),
        (archive(&[("../job.json", b"{}")]), "is no name"),
        (archive(&[("/etc/passwd", b"x")]), "is no name"),
        (archive(&[("a", b"x"), ("a", b"y")]), "is in it twice"),
        (pack(&other_key, &conditions()).unwrap(), "its key is not the one of what it holds"),
    ] {
        let why = unpack(&bytes).unwrap_err();
        assert!(why.contains(part) && !why.is_empty(), "{part}: {why}");
    }
    let mut unbuilt = job();
    unbuilt.build.facts = None;
    assert!(pack(&unbuilt, &conditions()).unwrap_err().contains("no facts"));
}

#[test]
fn a_job_is_written_once_and_answered_by_its_result() {
    let folder = Folder::new();
    let (layout, job) = (folder.layout(), Arc::new(job()));
    let evaluator = folder.evaluator();
    let cancel = CancelFlag::new();
    let ticket = evaluator.submit(&job).unwrap();
    let path = layout.job(job.eval_key.as_str());
    assert!(matches!(evaluator.poll(&ticket, &cancel).unwrap(), JobPoll::Pending { .. }));
    // A job file that was lost is written again.
    std::fs::remove_file(&path).unwrap();
    assert!(matches!(evaluator.poll(&ticket, &cancel).unwrap(), JobPoll::Pending { .. }));
    assert!(path.exists());
    let result = JobResult::of(&job, &judgement(true));
    let bytes = serde_json::to_vec(&result).unwrap();
    std::fs::write(layout.result(job.eval_key.as_str()), bytes).unwrap();
    let done = evaluator.poll(&ticket, &cancel).unwrap();
    assert_eq!(done, JobPoll::Done(Box::new(judgement(true))));
    // After a restart the result is there at once, and no new job is written.
    std::fs::remove_file(&path).unwrap();
    let restarted = folder.evaluator();
    let ticket = restarted.submit(&job).unwrap();
    assert!(!path.exists());
    assert!(matches!(restarted.poll(&ticket, &cancel).unwrap(), JobPoll::Done(_)));
    let unknown = restarted.poll(&ticket, &cancel).unwrap_err();
    assert!(matches!(unknown, JudgeError::UnknownJob { .. }), "{unknown}");
}

#[test]
fn a_broken_result_is_put_aside_and_the_job_handed_over_again() {
    let folder = Folder::new();
    let (layout, job) = (folder.layout(), Arc::new(job()));
    let (evaluator, cancel) = (folder.evaluator(), CancelFlag::new());
    let key = job.eval_key.as_str();
    let mut lie = JobResult::of(&job, &judgement(true));
    lie.verdict.kind = pipeline::verdict::Kind::Correct;
    for bytes in [b"{".to_vec(), Vec::new(), serde_json::to_vec(&lie).unwrap()] {
        std::fs::write(layout.result(key), bytes).unwrap();
        let _ = std::fs::remove_file(layout.job(key));
        let ticket = evaluator.submit(&job).unwrap();
        assert!(matches!(evaluator.poll(&ticket, &cancel).unwrap(), JobPoll::Pending { .. }));
        assert!(layout.job(key).exists() && layout.bad_result(key).exists());
    }
}

/// A timeout on a busy machine answers the attempt that met it, and no other.
#[test]
fn a_result_that_depends_on_the_machine_is_not_reused() {
    let folder = Folder::new();
    let (layout, mine) = (folder.layout(), Arc::new(job()));
    let other = Arc::new(Job { id: "another attempt".to_owned(), ..job() });
    let bytes = serde_json::to_vec(&JobResult::of(&mine, &judgement(false))).unwrap();
    let path = layout.result(mine.eval_key.as_str());
    std::fs::write(&path, bytes).unwrap();
    let (evaluator, cancel) = (folder.evaluator(), CancelFlag::new());
    let ticket = evaluator.submit(&mine).unwrap();
    assert!(matches!(evaluator.poll(&ticket, &cancel).unwrap(), JobPoll::Done(_)));
    let ticket = evaluator.submit(&other).unwrap();
    assert!(matches!(evaluator.poll(&ticket, &cancel).unwrap(), JobPoll::Pending { .. }));
    assert!(!path.exists());
}

#[test]
fn a_worker_refuses_what_is_not_for_it_and_the_run_is_told_once() {
    let folder = Folder::new();
    let (job, cancel) = (Arc::new(job()), CancelFlag::new());
    let evaluator = folder.evaluator();
    let ticket = evaluator.submit(&job).unwrap();
    let told = folder.drain("another compiler");
    assert!(told[0].contains("wants the CUDA compiler nvrtc"), "{told:?}");
    let failed = evaluator.poll(&ticket, &cancel).unwrap_err().to_string();
    assert!(failed.contains("could not judge: the run wants the CUDA compiler"), "{failed}");
    // Told once: then the job is there again for a better worker.
    assert!(matches!(evaluator.poll(&ticket, &cancel).unwrap(), JobPoll::Pending { .. }));
    assert!(folder.layout().job(job.eval_key.as_str()).exists());
    // A worker whose machine breaks says so as well: this one cannot start its children.
    let told = folder.drain("nvrtc");
    assert_eq!(told.len(), 1);
    assert!(evaluator.poll(&ticket, &cancel).is_err());
}

/// The run knows nothing of the machine that judges elsewhere.
#[test]
fn what_a_worker_tells_says_nothing_of_its_machine() {
    let scrubber = Scrubber::new(Private::host("the name of this machine", "worker-9"));
    let (job, mut judged) = (job(), judgement(true));
    judged.verdict.detail = "slow on worker-9".to_owned();
    judged.report.notes.push("worker-9: no room".to_owned());
    let result = JobResult::of(&job, &judged).scrubbed(&scrubber).unwrap();
    assert_eq!(result.verdict.detail, "slow on ***");
    assert_eq!(result.report.notes, ["***: no room"]);
    assert_eq!(result, JobResult::parse(&serde_json::to_vec(&result).unwrap()).unwrap());
    // A result is held to the format, a failure is text.
    let folder = Folder::new();
    folder.evaluator().submit(&Arc::new(job)).unwrap();
    let told = folder.drain("nvrtc of worker-9");
    assert!(told[0].contains("this worker has nvrtc of worker-9"), "{told:?}");
    let failures = std::fs::read_dir(folder.layout().failure("0").parent().unwrap()).unwrap();
    let failures = failures.map(|it| std::fs::read_to_string(it.unwrap().path()).unwrap());
    let failures: String = failures.collect();
    assert!(failures.contains("nvrtc of ***") && !failures.contains("worker-9"), "{failures}");
}
