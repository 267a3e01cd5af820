//! Settings: built-in defaults ← `warpwright.toml` ← `run.toml` ← environment ← flags, resolved
//! once and saved with the run, so that `resume` needs no flags.
//!
//! The files' forms are in [`file`] and [`run_file`], models in [`model`], limits in [`budget`],
//! and the one list of all settings in [`reference`]. Secrets are named here, never held.

pub(crate) mod batch;
pub(crate) mod budget;
pub(crate) mod file;
pub(crate) mod model;
pub(crate) mod openai;
pub(crate) mod operator;
pub(crate) mod price;
pub(crate) mod reference;
pub(crate) mod run_file;
pub(crate) mod search;

use std::path::{Path, PathBuf};

use anyhow::Context;
use device::toolchain::Choice;
use pipeline::budget::Budget;
use pipeline::limits::RUN_TASKS_MAX;
use pipeline::price::Price;
use serde::{Deserialize, Serialize};
use store::RunKind;

use crate::cli::{Cli, RunArgs};
use crate::gpus::DeviceSetting;
use crate::outcome::bad_input;
use crate::settings::file::FileSettings;
use crate::settings::model::ModelSetting;
pub(crate) use crate::settings::operator::{OperatorSetting, operator};
use crate::settings::run_file::{OperatorSection, RunFile};
use crate::settings::search::SearchSetting;
use crate::wiring::{LoadedTask, load_task};
use crate::{confinement, embedded, environment, notify, terminal};

/// Attempts of each task when nobody says how many.
pub(crate) const ATTEMPTS_PER_TASK: u32 = 10;
/// Word that stands for every built-in task.
const EVERY_TASK: &str = "all";

/// What a run was started with. Secrets are never in here.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSettings {
    /// Attempts take them in turn.
    pub(crate) models: Vec<ModelSetting>,
    /// In the order of the run's tasks.
    pub(crate) operators: Vec<OperatorSetting>,
    pub(crate) budget: Budget,
    /// Runs of older versions went one by one.
    #[serde(default)]
    pub(crate) search: SearchSetting,
    /// The prompt files that replace the built-in ones.
    pub(crate) prompts: Option<PathBuf>,
    pub(crate) evaluator: EvaluatorSetting,
    /// What runs the kernels; runs of older versions had the simulator only.
    #[serde(default = "simulator")]
    pub(crate) device: DeviceSetting,
    /// The program that is told of events, with its arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) notify: Option<Vec<String>>,
}

fn simulator() -> DeviceSetting {
    DeviceSetting::Sim
}

/// Where kernels are judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum EvaluatorSetting {
    /// In children of this process.
    Local,
    /// By `worker --folder`, maybe on another machine.
    Folder(PathBuf),
}

/// Paths and the compiler, resolved once from flags, environment and the settings file.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) ledger: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) toolchain: Choice,
    /// What runs the kernels, by flag or environment.
    pub(crate) asked_device: Option<DeviceSetting>,
    /// The same, resolved.
    pub(crate) device: DeviceSetting,
    pub(crate) file: FileSettings,
    /// Where the settings file is, if there is one.
    pub(crate) file_path: Option<PathBuf>,
    /// True where claims go out only once a person approved them.
    pub(crate) require_review: bool,
    /// True where a person watches what a run does.
    pub(crate) live: bool,
}

impl Places {
    /// Resolves the global flags.
    pub(crate) fn of(cli: &Cli) -> anyhow::Result<Self> {
        let (file, file_path) = if cli.command.reads_settings() {
            FileSettings::find(cli.settings.as_deref())?
        } else {
            (FileSettings::default(), None)
        };
        let toolchain = cli.toolchain.clone().or_else(|| file.judge.toolchain.clone());
        let toolchain = match toolchain.as_deref() {
            None | Some("pinned") => Choice::Pinned,
            Some("any") => Choice::Any,
            Some(path) => Choice::Path(PathBuf::from(path)),
        };
        let of_file = file.judge.device.as_deref().map(|text| {
            text.parse::<DeviceSetting>().map_err(|why| bad_input(format!("judge.device: {why}")))
        });
        let of_file = of_file.transpose()?;
        let required = file.judge.require_confinement.map(|level| {
            let wrong = |why| bad_input(format!("judge.require_confinement: {why}"));
            confinement::checked_level(level).map_err(wrong)
        });
        confinement::require(cli.require_confinement.or(required.transpose()?));
        let ledger = cli.ledger.clone().or_else(|| file.store.ledger.clone());
        let cache = cli.cache.clone().or_else(|| file.store.cache.clone());
        Ok(Self {
            ledger: ledger.unwrap_or_else(|| environment::data_folder().join("ledger.db")),
            cache: cache.unwrap_or_else(environment::cache_folder),
            asked_device: cli.device.clone(),
            device: cli.device.clone().or(of_file).unwrap_or_default(),
            toolchain,
            require_review: require_review(file.require_review)?,
            file,
            file_path,
            live: !cli.json && terminal::rewrites_lines(),
        })
    }
}

/// Whether claims wait for a person: by the environment, else by the file.
fn require_review(of_file: Option<bool>) -> anyhow::Result<bool> {
    match environment::value(environment::REQUIRE_REVIEW).as_deref() {
        None => Ok(of_file.unwrap_or(false)),
        Some("true" | "1") => Ok(true),
        Some("false" | "0") => Ok(false),
        Some(other) => {
            let name = environment::REQUIRE_REVIEW;
            Err(bad_input(format!("{name} is `{other}`: write true or false")))
        }
    }
}

impl RunSettings {
    /// A run of one task with one model and nothing else.
    pub(crate) fn simple(
        task: &str,
        model: ModelSetting,
        attempts_max: u32,
        device: DeviceSetting,
    ) -> Self {
        Self {
            models: vec![model],
            operators: vec![OperatorSetting::named(task)],
            budget: Budget::of_attempts(attempts_max),
            search: SearchSetting::default(),
            prompts: None,
            evaluator: EvaluatorSetting::Local,
            device,
            notify: None,
        }
    }

    /// The settings as they are stored with a run.
    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        serde_json::to_string(self).context("the settings as JSON")
    }

    /// What kind of run it makes: replay and manual only where every model is so.
    pub(crate) fn run_kind(&self) -> RunKind {
        let mut kinds = self.models.iter().map(ModelSetting::run_kind);
        let first = kinds.next().unwrap_or(RunKind::Auto);
        if kinds.all(|kind| kind == first) { first } else { RunKind::Auto }
    }

    /// A dollar cap over a model whose price nobody knows cannot be kept.
    pub(crate) fn check_prices(&self) -> anyhow::Result<()> {
        let unknown = self.models.iter().find(|model| model.price() == Price::Unknown);
        match unknown {
            Some(model) if self.budget.nusd_max.is_some() => Err(bad_input(format!(
                "the price of {} is unknown, so that no dollar limit can be kept; add to its \
                 section in {}:\n  \
                 price = {{ input = 2.0, cached_input = 0.5, output = 8.0, as_of = \"2026-11-01\" \
                 }}  # dollars per million tokens: your provider's numbers and their day\nor\n  \
                 price = \"free\"          # or \
                 \"subscription\", for a flat fee\nor give --price NAME=INPUT/OUTPUT (or \
                 NAME=free) with the name that --model or `models` has\nor run without --dollars",
                model.describe(),
                file::FILE_NAME
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

impl RunSettings {
    /// Money of an operator is a part of the run's.
    fn check_allotments(&self) -> anyhow::Result<()> {
        let allotted = self.operators.iter().find(|operator| operator.allotted_nusd.is_some());
        match allotted {
            Some(operator) if self.budget.nusd_max.is_none() => Err(bad_input(format!(
                "operator `{}`: `dollars` is what it may use before others of the run's dollars, \
                 and the run has no limit of them: add dollars to [budget], or give --dollars",
                operator.task
            ))),
            Some(_) | None => Ok(()),
        }
    }
}

/// A run to start: its settings and its tasks, in the same order.
pub(crate) struct ResolvedRun {
    pub(crate) settings: RunSettings,
    pub(crate) tasks: Vec<LoadedTask>,
}

impl ResolvedRun {
    /// Leaves the `count` tasks with the greatest weights, the first of equal ones, with one
    /// attempt each.
    pub(crate) fn keep_weightiest(&mut self, count: usize) {
        let operators = std::mem::take(&mut self.settings.operators);
        let mut pairs: Vec<_> =
            operators.into_iter().zip(std::mem::take(&mut self.tasks)).collect();
        pairs.sort_by(|(one, _), (other, _)| other.weight.total_cmp(&one.weight));
        pairs.truncate(count);
        for (mut operator, task) in pairs {
            operator.attempts_max = Some(1);
            self.settings.operators.push(operator);
            self.tasks.push(task);
        }
    }
}

/// Resolves what `run` was asked for.
pub(crate) fn resolve_run(places: &Places, args: &RunArgs) -> anyhow::Result<ResolvedRun> {
    let (file, sections) = operator_sections(&args.tasks)?;
    let environment = budget::of_environment()?;
    let layers = [&environment, &file.budget, &places.file.budget];
    let tasks_count = u32::try_from(sections.len()).unwrap_or(u32::MAX);
    let default_attempts = ATTEMPTS_PER_TASK.saturating_mul(tasks_count);
    let until = args.budget.until.as_ref().or(file.until.as_ref());
    let budget = budget::resolve(&args.budget, until, &layers, default_attempts)?;
    let mut operators = Vec::new();
    let mut tasks = Vec::new();
    for section in &sections {
        let loaded = load_task(&section.task)?;
        refuse_calls(section)?;
        operators.push(operator(section, &loaded)?);
        tasks.push(loaded);
    }
    refuse_repeated(&tasks)?;
    let prompts = args.prompts.clone().or(file.prompts);
    let evaluator = args.evaluator.as_ref().or(file.evaluator.as_ref());
    let models = models(places, args, file.models.as_ref().map(file::OneOrMany::names))?;
    let layers = [file.search, places.file.search.clone()];
    let search = SearchSetting::resolve(args.search, &layers, &models)?;
    let settings = RunSettings {
        models,
        operators,
        budget,
        search,
        prompts: prompts.map(std::path::absolute).transpose()?,
        evaluator: evaluator_setting(evaluator.or(places.file.judge.evaluator.as_ref()))?,
        device: places.device.clone(),
        notify: notify::program(&[&args.background.notify, &file.notify, &places.file.notify])?,
    };
    settings.check_prices()?;
    settings.check_allotments()?;
    search::check_modes(&settings.models)?;
    Ok(ResolvedRun { settings, tasks })
}

/// The operators of a `run.toml`, or of the tasks that were named.
pub(crate) fn operator_sections(
    tasks: &[String],
) -> anyhow::Result<(RunFile, Vec<OperatorSection>)> {
    if let [only] = tasks
        && only.ends_with(".toml")
    {
        let mut file = RunFile::read(Path::new(only))?;
        let operators = std::mem::take(&mut file.operators);
        return Ok((file, limited(operators)?));
    }
    if let Some(file) = tasks.iter().find(|name| name.ends_with(".toml")) {
        return Err(bad_input(format!("`{file}` names its own operators: give it alone")));
    }
    let mut names = Vec::new();
    for name in tasks {
        if name == EVERY_TASK {
            names.extend(embedded::task_names());
        } else {
            names.push(name.clone());
        }
    }
    let section = |task| OperatorSection { task, ..OperatorSection::default() };
    Ok((RunFile::default(), limited(names.into_iter().map(section).collect())?))
}

fn limited(operators: Vec<OperatorSection>) -> anyhow::Result<Vec<OperatorSection>> {
    if operators.len() <= RUN_TASKS_MAX {
        return Ok(operators);
    }
    Err(bad_input(format!("{} tasks in one run: at most {RUN_TASKS_MAX}", operators.len())))
}

fn refuse_repeated(tasks: &[LoadedTask]) -> anyhow::Result<()> {
    for (index, loaded) in tasks.iter().enumerate() {
        let name = &loaded.task.spec.name;
        if tasks[..index].iter().any(|other| other.task.spec.name == *name) {
            return Err(bad_input(format!("the task `{name}` is named twice")));
        }
    }
    Ok(())
}

/// How often a program calls an operator is no share of its time yet.
fn refuse_calls(section: &OperatorSection) -> anyhow::Result<()> {
    if section.calls.is_none() {
        return Ok(());
    }
    Err(bad_input(format!(
        "operator `{}`: `calls` becomes a weight by a baseline's time: `warpwright survey` takes \
         it and writes a run file with weights",
        section.task
    )))
}

fn models(
    places: &Places,
    args: &RunArgs,
    of_run_file: Option<Vec<String>>,
) -> anyhow::Result<Vec<ModelSetting>> {
    let defaults = || places.file.default_model.as_ref().map(file::OneOrMany::names);
    let named = if args.models.is_empty() { None } else { Some(args.models.clone()) };
    let names = named.or(of_run_file).or_else(defaults).unwrap_or_default();
    if names.is_empty() {
        return Err(bad_input(
            "no model: give --model NAME, or set default_model in warpwright.toml \
             (`warpwright init` writes one)",
        ));
    }
    let mut models = ModelSetting::resolve_all(&names, &places.file, &args.prices)?;
    for model in &mut models {
        match model {
            ModelSetting::Replay { strict, .. } => *strict |= args.strict_replay,
            ModelSetting::Mailbox(mailbox) => {
                let deadline = args.mailbox_deadline.map(|minutes| u64::from(minutes) * 60_000);
                mailbox.deadline_ms = deadline.or(mailbox.deadline_ms);
            }
            ModelSetting::Demo | ModelSetting::Candidate { .. } | ModelSetting::Lines => {}
            ModelSetting::Openai(_) | ModelSetting::Command(_) => {}
        }
    }
    Ok(models)
}

/// Reads the value of `--evaluator`.
pub(crate) fn evaluator_setting(text: Option<&String>) -> anyhow::Result<EvaluatorSetting> {
    match text.map(|text| text.split_once(':').unwrap_or((text, ""))) {
        None | Some(("local", "")) => Ok(EvaluatorSetting::Local),
        Some(("folder", folder)) if !folder.is_empty() => {
            Ok(EvaluatorSetting::Folder(std::path::absolute(folder)?))
        }
        Some(_) => {
            let text = text.map(String::as_str).unwrap_or_default();
            Err(bad_input(format!("evaluator `{text}`: write local or folder:DIR")))
        }
    }
}
