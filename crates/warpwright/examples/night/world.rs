//! A ledger with a run over many tasks, and an engine on it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use agent::{
    Cards, Claims, Engine, Here, InFlight, Interrupt, ModelOrder, ModelUse, Models, Operator,
    Pools, Progress, Promotes,
};
use anyhow::Context;
use device::toolchain::{self, Choice, Toolchain};
use judge::{Evaluator, Judge, JudgeConfig, RunSeed, judge_hash};
use pipeline::budget::Budget;
use pipeline::card_time::Where;
use pipeline::device_facts::DeviceFacts;
use pipeline::next_step::SearchLimits;
use pipeline::task::Task;
use pipeline::template::Templates;
use store::{NewRun, NewTask, RunId, RunKind, Store};

use crate::model::SlowModel;

type Files = BTreeMap<String, Vec<u8>>;

pub(crate) struct World {
    /// Removed with its end.
    _folder: tempfile::TempDir,
    pub(crate) store: Store,
    pub(crate) run: RunId,
    pub(crate) tasks: Vec<Arc<Task>>,
}

impl World {
    /// A new ledger in the folder of temporary files, with a run over so many tasks.
    pub(crate) async fn new(tasks: u32) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let store = Store::open(&folder.path().join("ledger.db")).await?;
        let files = (0..tasks).map(files_of).collect::<anyhow::Result<Vec<_>>>()?;
        let parsed = files.iter().map(Task::from_files).collect::<Result<Vec<_>, _>>()?;
        let rows: Vec<_> =
            parsed.iter().zip(&files).map(|(task, files)| NewTask::of(task, files)).collect();
        let judge_hash = judge_hash();
        let new = NewRun {
            kind: RunKind::Auto,
            settings_json: "{}",
            secret_seeds_json: "[]",
            judge_hash: judge_hash.as_str(),
            toolchain_id: "nvrtc",
            prompts_hash: "prompts",
            tasks: &rows,
            device: &DeviceFacts::simulated_h200(),
            gpus: &[],
        };
        let run = store.start_run(&new).await?;
        let tasks = parsed.into_iter().map(Arc::new).collect();
        Ok(Self { _folder: folder, store, run, tasks })
    }

    /// The loop as `run` puts it together, for so many attempts.
    pub(crate) fn engine(
        &self,
        store: Store,
        model: SlowModel,
        judge: Arc<Judge>,
        evaluator: Arc<dyn Evaluator>,
        attempts: u32,
    ) -> anyhow::Result<Engine<SlowModel>> {
        let text = |(name, bytes): (String, Vec<u8>)| {
            anyhow::Ok((name, String::from_utf8(bytes).context("a prompt is no text")?))
        };
        let prompts = read_folder("prompts", "")?.into_iter().map(text);
        let limits = SearchLimits { attempts_max: attempts, plateau: None, in_flight_max: 4 };
        // Each is allotted the same: every decision asks what each has spent.
        let operator = |task: &Arc<Task>| Operator {
            allotted_nusd: Some(1_000_000_000),
            ..Operator::new(Arc::clone(task), Arc::default(), limits, 1.0)
        };
        let model_use = ModelUse { calls_at_once: 16, modes: Vec::new() };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Engine {
            store,
            models: Models::new(vec![(model, model_use)], ModelOrder::Turns),
            evaluator,
            judge,
            templates: Templates::new(prompts.collect::<anyhow::Result<_>>()?)?,
            operators: self.tasks.iter().map(operator).collect(),
            // Caps that do not bind, so that the books are looked at before each call.
            budget: Budget {
                nusd_max: Some(i64::MAX / 2),
                gpu_us_max: Some(u64::MAX / 2),
                ..Budget::of_attempts(attempts)
            },
            promotes: Promotes::Nobody,
            seed: RunSeed([7; 32]),
            interrupt: Interrupt::default(),
            observer: Arc::new(|_: Progress<'_>| {}),
            tells_bookings: false,
            here: Here::default(),
            in_flight: InFlight::default(),
            // One card, as `run` has it.
            pools: Pools::new(cores, 2, 64),
            cards: Cards::new(Some(Where::Here), 1),
            claims: Claims::default(),
        })
    }
}

/// A judge that compiles with the pinned compiler, in children of this example.
pub(crate) fn judge() -> anyhow::Result<Arc<Judge>> {
    let cache = std::env::var_os("WARPWRIGHT_CACHE").context(
        "WARPWRIGHT_CACHE names no folder: set it to one where `warpwright toolchain install` put \
         the compiler",
    )?;
    let toolchain: Toolchain = toolchain::find(&Choice::Pinned, Path::new(&cache))?;
    Ok(Arc::new(Judge::new(JudgeConfig {
        program: std::env::current_exe()?,
        toolchain: serde_json::to_value(&toolchain)?,
        toolchain_id: toolchain.id.clone(),
        device: DeviceFacts::simulated_h200(),
        gpus: None,
        policy: judge::JudgePolicy::all(),
        baselines: judge::BaselineConfig::default(),
        confinement: judge::ConfinementConfig {
            // The cache holds nothing else that a compile could want.
            toolchain_folders: vec![Path::new(&cache).canonicalize()?],
            ..judge::ConfinementConfig::default()
        },
    })))
}

/// The files of a task like `vector_add` with a name of its own.
fn files_of(index: u32) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for part in ["", "wrong", "baseline"] {
        files.extend(read_folder("tasks/vector_add", part)?);
    }
    let toml = files.get("task.toml").cloned().context("no task.toml")?;
    let toml = String::from_utf8(toml)?.replace("\"vector_add\"", &format!("\"task_{index}\""));
    files.insert("task.toml".to_owned(), toml.into_bytes());
    Ok(files)
}

fn read_folder(root: &str, part: &str) -> anyhow::Result<Files> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(root);
    let mut files = Files::new();
    let Ok(entries) = root.join(part).read_dir() else { return Ok(files) };
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            let name = path.strip_prefix(&root)?.to_string_lossy().into_owned();
            files.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(files)
}
