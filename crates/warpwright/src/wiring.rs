//! Puts an engine together: task files, prompts, toolchain, judge, model, ledger.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use agent::{Engine, Here, InFlight, Interrupt, Known, Models, Operator, Pools, Progress};
use anyhow::Context;
use device::toolchain::{self, Toolchain};
use fleet::FolderEvaluator;
use fleet::archive::Conditions;
use judge::{Evaluator, GpuConfig, Judge, JudgeConfig, JudgePolicy, RunSeed};
use llm::{Model, ReplayModel};
use pipeline::device_facts::DeviceFacts;
use pipeline::limits::{PLAN_BYTES_MAX, REPLY_BYTES_MAX, SOURCE_BYTES_MAX};
use pipeline::next_step::SearchLimits;
use pipeline::reply;
use pipeline::task::Task;
use pipeline::template::Templates;
use pipeline::transcript::{self, Entry, Usage};
use rustix::process::{Signal, getpid, kill_process};
use store::Store;

use crate::gpus::{self, DeviceSetting};
use crate::limits::{
    IN_FLIGHT_BATCHED_MAX, IN_FLIGHT_MAX, PROMPT_FILE_BYTES_MAX, TASK_FILE_BYTES_MAX,
    TASK_FILES_MAX,
};
use crate::outcome::bad_input;
pub(crate) use crate::seeds::{fresh_seed, parse_seed, seed_text, stored_seed};
use crate::settings::model::ModelSetting;
use crate::settings::search::SearchSetting;
use crate::settings::{EvaluatorSetting, OperatorSetting, Places, RunSettings};
use crate::{confinement, embedded, environment, privacy, providers, terminal};

/// Who answers where kernels are a person's own.
pub(crate) const A_PERSON: &str = "a person";

/// A task with the files that it was read from.
pub(crate) struct LoadedTask {
    pub(crate) task: Task,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

/// Reads a task: a folder if one is named, else a built-in task.
pub(crate) fn load_task(name: &str) -> anyhow::Result<LoadedTask> {
    let folder = Path::new(name);
    if folder.join("task.toml").is_file() {
        let loaded = parse_task(read_folder(folder)?)?;
        note_shadowed(name, &loaded);
        return Ok(loaded);
    }
    parse_task(embedded::task(name).ok_or_else(|| {
        bad_input(format!(
            "no task `{name}`: built in are {}; a folder needs a task.toml",
            embedded::task_names().join(", ")
        ))
    })?)
}

/// Says so where a folder's task has the name of a built-in one and is another.
fn note_shadowed(folder: &str, loaded: &LoadedTask) {
    let name = &loaded.task.spec.name;
    if embedded::task(name).is_some_and(|built_in| built_in != loaded.files) {
        terminal::note(&format!(
            "the task of the folder `{folder}` is used; it is called `{name}` like a built-in one, \
             and `{name}@best` means either: give it a `name` of its own in task.toml"
        ));
    }
}

/// Checks task files.
pub(crate) fn parse_task(files: BTreeMap<String, Vec<u8>>) -> anyhow::Result<LoadedTask> {
    let task = Task::from_files(&files).map_err(bad_input)?;
    Ok(LoadedTask { task, files })
}

fn read_folder(root: &Path) -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    for folder in [root.to_owned(), root.join("wrong"), root.join("baseline")] {
        if !folder.is_dir() {
            continue;
        }
        let entries = std::fs::read_dir(&folder);
        let entries = entries.with_context(|| format!("task folder {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            let hidden = path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'));
            if path.is_file() && !hidden {
                let key = path.strip_prefix(root)?.to_string_lossy().into_owned();
                files.insert(key, read_capped(&path, TASK_FILE_BYTES_MAX)?);
            }
            if files.len() > TASK_FILES_MAX {
                return Err(bad_input(format!("more than {TASK_FILES_MAX} files in a task")));
            }
        }
    }
    Ok(files)
}

/// Reads a file of at most `bytes_max` bytes.
pub(crate) fn read_capped(path: &Path, bytes_max: u64) -> anyhow::Result<Vec<u8>> {
    let bytes =
        std::fs::metadata(path).map_err(|e| bad_input(format!("{}: {e}", path.display())))?;
    if !bytes.is_file() {
        return Err(bad_input(format!("{} is not a file", path.display())));
    }
    if bytes.len() > bytes_max {
        return Err(bad_input(format!("{} is larger than {bytes_max} bytes", path.display())));
    }
    std::fs::read(path).map_err(|error| bad_input(format!("{}: {error}", path.display())))
}

/// Reads a text file of at most `bytes_max` bytes.
pub(crate) fn read_text(path: &Path, bytes_max: u64) -> anyhow::Result<String> {
    String::from_utf8(read_capped(path, bytes_max)?)
        .map_err(|_| bad_input(format!("{} is not UTF-8 text", path.display())))
}

/// The prompt files: the built-in ones, or those of a folder.
pub(crate) fn templates(folder: Option<&PathBuf>) -> anyhow::Result<Templates> {
    let Some(folder) = folder else {
        return Ok(Templates::new(embedded::prompts())?);
    };
    let mut files = BTreeMap::new();
    let entries = std::fs::read_dir(folder);
    for entry in entries.map_err(|e| bad_input(format!("{}: {e}", folder.display())))? {
        let entry = entry?;
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if path.is_file() && name.ends_with(".md") {
            files.insert(name, read_text(&path, PROMPT_FILE_BYTES_MAX)?);
        }
    }
    Templates::new(files).map_err(bad_input)
}

/// The compiler: found, or downloaded when the pin is asked for and missing.
pub(crate) fn toolchain(places: &Places) -> anyhow::Result<Toolchain> {
    match toolchain::find(&places.toolchain, &places.cache) {
        Ok(found) => Ok(found),
        Err(toolchain::ToolchainError::NotFound { .. })
            if places.toolchain == toolchain::Choice::Pinned =>
        {
            terminal::note("no CUDA compiler found; downloading the pinned one from PyPI, once");
            install(places)
        }
        Err(error) => Err(error.into()),
    }
}

/// Downloads the pinned compiler.
pub(crate) fn install(places: &Places) -> anyhow::Result<Toolchain> {
    Ok(toolchain::install(&places.cache, &mut |step| terminal::note(&describe_step(&step)))?)
}

fn describe_step(step: &toolchain::Progress) -> String {
    match step {
        toolchain::Progress::Waiting => "  waiting for another process that installs it".to_owned(),
        toolchain::Progress::Downloading { packages } => {
            format!("  downloading {packages} packages with pip")
        }
        toolchain::Progress::Unpacking { package } => format!("  unpacking {package}"),
        toolchain::Progress::Ready => "  ready".to_owned(),
    }
}

/// The judge on the device that was asked for; a card whose ceilings are not known is measured.
pub(crate) fn judge(
    places: &Places,
    setting: &DeviceSetting,
    toolchain: &Toolchain,
) -> anyhow::Result<Judge> {
    let simulator = || judge_for(toolchain, DeviceFacts::simulated_h200(), None);
    confinement::tell(&simulator()?)?;
    let Some(sheets) = gpus::chosen(places, setting)? else { return simulator() };
    match gpus::measured(places, toolchain, sheets) {
        Ok(sheets) => gpus::judge_of(toolchain, sheets),
        // What nobody asked for must not keep anybody from working.
        Err(error) if *setting == DeviceSetting::Auto => {
            terminal::note(&format!(
                "this machine's GPU cannot be used ({error:#}): kernels run on the simulator"
            ));
            simulator()
        }
        Err(error) => Err(error),
    }
}

/// The judge of a run: on this machine's device, or only building for the one that the workers of
/// its folder judge on.
pub(crate) fn judge_of_run(
    places: &Places,
    settings: &RunSettings,
    toolchain: &Toolchain,
) -> anyhow::Result<Judge> {
    if let EvaluatorSetting::Folder(folder) = &settings.evaluator
        && settings.device == DeviceSetting::Auto
        && let Some(device) = fleet::announced(folder).map_err(bad_input)?
    {
        return judge_for(toolchain, device, None);
    }
    judge(places, &settings.device, toolchain)
}

/// A judge that builds for `device` and runs on `gpus`, or on the simulator.
pub(crate) fn judge_for(
    toolchain: &Toolchain,
    device: DeviceFacts,
    gpus: Option<GpuConfig>,
) -> anyhow::Result<Judge> {
    Ok(Judge::new(JudgeConfig {
        program: std::env::current_exe().context("where this program is")?,
        toolchain: serde_json::to_value(toolchain)?,
        toolchain_id: toolchain.id.clone(),
        device,
        gpus,
        policy: JudgePolicy::all(),
        baselines: environment::baselines(),
        confinement: confinement::of_children(Some(toolchain))?,
    }))
}

/// The models of a run, which the ledger can tell apart.
pub(crate) fn models(settings: &RunSettings) -> anyhow::Result<Vec<Model>> {
    let models = settings.models.iter().map(model).collect::<anyhow::Result<Vec<_>>>()?;
    providers::refuse_equal(&settings.models, &models)?;
    Ok(models)
}

/// One model, ready to be asked.
pub(crate) fn model(setting: &ModelSetting) -> anyhow::Result<Model> {
    Ok(match setting {
        ModelSetting::Demo => {
            let entries = transcript::parse(embedded::DEMO_TRANSCRIPT)?;
            Model::Replay(journalled(ReplayModel::of_entries(entries))?)
        }
        ModelSetting::Candidate { task, path } => {
            let entry = person_entry(task, 1, read_candidate(path)?);
            Model::Replay(ReplayModel::of_entries(vec![entry]))
        }
        ModelSetting::Lines => Model::Replay(ReplayModel::empty(A_PERSON)),
        ModelSetting::Replay { file, strict } => {
            let model = ReplayModel::open(file).map_err(bad_input)?.strict(*strict);
            Model::Replay(journalled(model)?)
        }
        ModelSetting::Openai(setting) => providers::openai(setting)?,
        ModelSetting::Command(setting) => providers::command(setting)?,
        ModelSetting::Mailbox(setting) => providers::mailbox(setting)?,
    })
}

fn journalled(model: ReplayModel) -> anyhow::Result<ReplayModel> {
    match environment::value(environment::REPLAY_JOURNAL) {
        Some(path) => model.with_journal(Path::new(&path)).map_err(bad_input),
        None => Ok(model),
    }
}

/// A kernel of a person as a reply: a Markdown file, or `kernel.cu` and `plan.toml` of a folder.
pub(crate) fn read_candidate(path: &Path) -> anyhow::Result<String> {
    if path.extension().is_some_and(|extension| extension == "cu") {
        return Err(bad_input(format!(
            "{}: a kernel needs its launch plan: give the folder with kernel.cu and plan.toml",
            path.display()
        )));
    }
    if !path.is_dir() {
        return read_text(path, REPLY_BYTES_MAX as u64);
    }
    let source = read_text(&path.join("kernel.cu"), SOURCE_BYTES_MAX as u64)?;
    let plan = read_text(&path.join("plan.toml"), PLAN_BYTES_MAX as u64)?;
    Ok(reply::compose(&source, &plan))
}

/// What a person submits, as a recorded reply.
pub(crate) fn person_entry(task: &str, seq: u32, reply: String) -> Entry {
    Entry {
        task: task.to_owned(),
        seq,
        mode: String::new(),
        prompt_hash: String::new(),
        reply,
        finish_reason: "stop".to_owned(),
        usage: Usage::default(),
        model: A_PERSON.to_owned(),
        latency_ms: 0,
        error: None,
    }
}

/// Opens the ledger for writing, its folder made where missing.
pub(crate) async fn ledger(places: &Places) -> anyhow::Result<Store> {
    let store = Store::open(&places.ledger).await?.with_scrubber(privacy::scrubber(places));
    if environment::value(environment::KILL_AT).is_none() {
        return Ok(store);
    }
    Ok(store.with_boundary_hook(Arc::new(move |boundary, seq| {
        die_at(&format!("{}:{seq}", boundary.name()));
    })))
}

/// Kills this process if a test wants it to die at this point.
pub(crate) fn die_at(point: &str) {
    if environment::value(environment::KILL_AT).is_some_and(|at| at == point) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// What [`engine`] is made of.
pub(crate) struct Parts {
    pub(crate) store: Store,
    pub(crate) tasks: Vec<LoadedTask>,
    pub(crate) models: Vec<Model>,
    pub(crate) judge: Judge,
    pub(crate) templates: Templates,
    pub(crate) seed: RunSeed,
    /// What each task starts from, in their order; may be shorter.
    pub(crate) known: Vec<Option<Known>>,
}

/// Puts the engine together.
pub(crate) fn engine(
    parts: Parts,
    settings: &RunSettings,
    observer: impl Fn(Progress<'_>) + Send + Sync + 'static,
) -> anyhow::Result<Engine<Model>> {
    let judge = Arc::new(parts.judge);
    let pools = pools(settings, &judge);
    let uses = settings.models.iter().map(|model| model.uses().model_use());
    let models = parts.models.into_iter().zip(uses).collect();
    let known = parts.known.into_iter().chain(std::iter::repeat(None));
    let pairs = settings.operators.iter().zip(parts.tasks).zip(known);
    Ok(Engine {
        store: parts.store,
        models: Models::new(models, settings.search.order()),
        evaluator: evaluator(&settings.evaluator, &judge)?,
        cards: gpus::cards(settings, &judge),
        judge,
        templates: parts.templates,
        operators: pairs
            .map(|((it, loaded), known)| operator(it, loaded, settings.search, known))
            .collect(),
        budget: settings.budget,
        promotes: agent::Promotes::Replacing,
        seed: parts.seed,
        interrupt: Interrupt::default(),
        observer: Arc::new(observer),
        tells_bookings: false,
        here: Here::default(),
        in_flight: InFlight::default(),
        pools,
        claims: agent::Claims::default(),
    })
}

/// As much at once as this machine can do; a card has few jobs waiting, another machine many.
fn pools(settings: &RunSettings, judge: &Judge) -> Pools {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let judging = match (&settings.evaluator, &judge.config().gpus) {
        (EvaluatorSetting::Folder(_), _) => IN_FLIGHT_MAX,
        (EvaluatorSetting::Local, Some(gpus)) => 2 * gpus.sheets.len(),
        (EvaluatorSetting::Local, None) => cores,
    };
    let calls: usize = settings.models.iter().map(|it| it.uses().model_use().calls_at_once).sum();
    Pools::new(cores, judging, calls.clamp(IN_FLIGHT_MAX, IN_FLIGHT_BATCHED_MAX))
}

fn evaluator(setting: &EvaluatorSetting, judge: &Arc<Judge>) -> anyhow::Result<Arc<dyn Evaluator>> {
    match setting {
        EvaluatorSetting::Local => Ok(Arc::clone(judge) as Arc<dyn Evaluator>),
        EvaluatorSetting::Folder(folder) => {
            let config = judge.config();
            let conditions = Conditions {
                judge_hash: judge::judge_hash().to_string(),
                toolchain_id: config.toolchain_id.clone(),
                device: config.device.clone(),
                required_confinement: config.confinement.level_required,
            };
            Ok(Arc::new(FolderEvaluator::open(folder, conditions).map_err(bad_input)?))
        }
    }
}

/// A task as this run admits it: with the classes that its operator names, if it names some.
fn operator(
    setting: &OperatorSetting,
    loaded: LoadedTask,
    search: SearchSetting,
    known: Option<Known>,
) -> Operator {
    let LoadedTask { mut task, files } = loaded;
    if !setting.classes.is_empty() {
        task.spec.classes.retain(|class| setting.classes.contains(class));
    }
    let attempts_max = setting.attempts_max.unwrap_or(u32::MAX);
    let SearchSetting { in_flight, plateau, .. } = search;
    let limits = SearchLimits { attempts_max, plateau, in_flight_max: in_flight };
    let weight = setting.weight;
    Operator { known, ..Operator::new(Arc::new(task), Arc::new(files), limits, weight) }
}
