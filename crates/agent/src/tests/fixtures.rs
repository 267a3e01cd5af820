//! A ledger with one run, and engines on it that stand for processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use judge::{Judge, JudgeConfig, RunSeed, judge_hash};
use llm::conformance::{ScriptedModel, Server};
use pipeline::budget::Budget;
use pipeline::device_facts::DeviceFacts;
use pipeline::next_step::SearchLimits;
use pipeline::task::Task;
use pipeline::template::Templates;
use store::{Boundary, NewRun, NewTask, RunId, RunKind, RunSummary, Store};

use crate::{
    AgentError, Cards, Claims, Engine, Here, InFlight, Interrupt, ModelOrder, ModelUse, Models,
    Operator, Pools, Progress, Promotes, RunEnd,
};

/// A reply that is closed as malformed, without compiler or child.
pub(super) const NO_FENCE: &str = "I would rather not.";

pub(super) struct World {
    folder: tempfile::TempDir,
    pub(super) server: Server,
    pub(super) run: RunId,
    pub(super) task: Arc<Task>,
    /// All tasks of the run, that one first.
    pub(super) tasks: Vec<Arc<Task>>,
}

impl World {
    pub(super) async fn new() -> Self {
        Self::of(&["softmax_rows"]).await
    }

    /// A run of these built-in tasks.
    pub(super) async fn of(names: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let files: Vec<_> =
            names.iter().map(|name| read_files(&format!("tasks/{name}"), true)).collect();
        let tasks: Vec<_> =
            files.iter().map(|files| Arc::new(Task::from_files(files).unwrap())).collect();
        let new_tasks: Vec<_> =
            tasks.iter().zip(&files).map(|(task, files)| NewTask::of(task, files)).collect();
        let store = Store::open(&folder.path().join("ledger.db")).await.unwrap();
        let judge_hash = judge_hash();
        let new = NewRun {
            kind: RunKind::Auto,
            settings_json: "{}",
            secret_seeds_json: "[]",
            judge_hash: judge_hash.as_str(),
            toolchain_id: "nvrtc",
            prompts_hash: "prompts",
            tasks: &new_tasks,
            device: &DeviceFacts::simulated_h200(),
            gpus: &[],
        };
        let run = store.start_run(&new).await.unwrap();
        store.close().await;
        Self { folder, server: Server::default(), run, task: tasks[0].clone(), tasks }
    }

    pub(super) async fn store(&self) -> Store {
        Store::open(&self.folder.path().join("ledger.db")).await.unwrap()
    }

    pub(super) fn model(&self, idempotent: bool) -> ScriptedModel {
        ScriptedModel::new(&self.server, NO_FENCE, idempotent)
    }

    /// What a process would drive; its judge has no compiler and no children.
    pub(super) fn engine(&self, store: Store, llm: ScriptedModel) -> Engine<ScriptedModel> {
        let judge = Arc::new(Judge::new(JudgeConfig {
            program: PathBuf::from("/absent"),
            toolchain: serde_json::Value::Null,
            toolchain_id: "nvrtc".to_owned(),
            device: DeviceFacts::simulated_h200(),
            gpus: None,
            policy: judge::JudgePolicy::all(),
            baselines: judge::BaselineConfig::default(),
            confinement: judge::ConfinementConfig::default(),
        }));
        let model_use = ModelUse { calls_at_once: 16, modes: Vec::new() };
        let prompts = read_files("prompts", false).into_iter();
        let texts = prompts.map(|(name, bytes)| (name, String::from_utf8(bytes).unwrap()));
        Engine {
            store,
            models: Models::new(vec![(llm, model_use)], ModelOrder::Turns),
            evaluator: judge.clone(),
            judge,
            templates: Templates::new(texts.collect()).unwrap(),
            operators: self.tasks.iter().map(operator).collect(),
            budget: Budget::of_attempts(2),
            promotes: Promotes::Nobody,
            seed: RunSeed([7; 32]),
            interrupt: Interrupt::default(),
            observer: Arc::new(|_: Progress<'_>| {}),
            tells_bookings: true,
            here: Here::default(),
            in_flight: InFlight::default(),
            pools: Pools::new(2, 2, 64),
            cards: Cards::default(),
            claims: Claims::default(),
        }
    }

    /// One process: runs to its end, or dies at `kill_at`, where nothing after it happens.
    pub(super) async fn process(
        &self,
        llm: ScriptedModel,
        kill_at: Option<(Boundary, u32)>,
    ) -> Option<Result<RunEnd, AgentError>> {
        let store = self.store().await.with_boundary_hook(Arc::new(move |boundary, seq| {
            if kill_at == Some((boundary, seq)) {
                std::panic::panic_any("killed");
            }
        }));
        let (engine, run) = (Arc::new(self.engine(store, llm)), self.run.clone());
        tokio::spawn(async move { engine.run(&run).await }).await.ok()
    }

    pub(super) async fn summary(&self) -> RunSummary {
        self.store().await.run_summary(&self.run).await.unwrap()
    }
}

fn operator(task: &Arc<Task>) -> Operator {
    Operator::new(task.clone(), Arc::default(), SearchLimits::of_attempts(2), 1.0)
}

fn read_files(folder: &str, with_wrong: bool) -> BTreeMap<String, Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut files = BTreeMap::new();
    let parts = if with_wrong { &["", "wrong", "baseline"][..] } else { &[""][..] };
    for folder in parts.iter().map(|part| root.join(part)) {
        for path in folder.read_dir().unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_file() {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                files.insert(name, std::fs::read(&path).unwrap());
            }
        }
    }
    files
}
