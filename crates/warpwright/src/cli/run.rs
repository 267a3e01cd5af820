//! Flags of what drives a run, and of where one stands.

use std::path::PathBuf;

use clap::Args;

use crate::cli::living::BackgroundArgs;
use crate::environment;
use crate::settings::search::SearchArgs;

/// Attempts that a run may be given.
fn attempts() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000)
}

/// What a run may spend.
#[derive(Debug, Args)]
pub(crate) struct BudgetArgs {
    /// How many attempts may be made at all tasks together [default: 10 for each task]
    /// (a new run also reads WARPWRIGHT_ATTEMPTS, _TOKENS, _DOLLARS, _HOURS and _GPU_SECONDS)
    #[arg(long, value_name = "N", value_parser = attempts())]
    pub(crate) attempts: Option<u32>,
    /// How many input and output tokens may be used
    #[arg(long, value_name = "N")]
    pub(crate) tokens: Option<u64>,
    /// How many dollars may be spent; needs the price of every model
    #[arg(long, value_name = "USD")]
    pub(crate) dollars: Option<f64>,
    /// How many hours the run may take, from now on
    #[arg(long, value_name = "H")]
    pub(crate) hours: Option<f64>,
    /// When the run stops: the next 07:30 by this machine's clock, or a full date and time
    #[arg(long, value_name = "TIME")]
    pub(crate) until: Option<String>,
    /// For how many seconds GPUs may be held for the run's evaluations; without effect on the
    /// simulator, which holds none
    #[arg(long, value_name = "SECONDS")]
    pub(crate) gpu_seconds: Option<u64>,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Built-in tasks or task folders, `all` for every built-in one, or one run.toml
    #[arg(required = true, value_name = "TASK")]
    pub(crate) tasks: Vec<String>,
    /// A model of the settings file, or openai:MODEL, command:PROGRAM, mailbox:DIR, replay:FILE;
    /// give it again for models that attempts take in turn
    #[arg(long = "model", value_name = "MODEL", env = environment::MODEL)]
    pub(crate) models: Vec<String>,
    /// The price of a model, in place of its section's: NAME=INPUT/OUTPUT or
    /// NAME=INPUT/CACHED/OUTPUT in dollars per million tokens, with the list's day as @2026-11-01
    /// behind it, or NAME=free, NAME=subscription
    #[arg(long = "price", value_name = "NAME=PRICE")]
    pub(crate) prices: Vec<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Who judges the kernels: `local`, or `folder:DIR` for a `worker --folder DIR`, maybe on
    /// another machine [default: local]
    #[arg(long, value_name = "WHO", env = environment::EVALUATOR)]
    pub(crate) evaluator: Option<String>,
    /// How many minutes a mailbox waits for one answer [default: for ever]
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) mailbox_deadline: Option<u32>,
    /// A folder with prompt files that replaces the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) prompts: Option<PathBuf>,
    /// Treat a replayed reply that was recorded for another prompt as an error
    #[arg(long)]
    pub(crate) strict_replay: bool,
    /// Begin without the best kernel that the ledger has of each task for this device
    #[arg(long)]
    pub(crate) fresh: bool,
    /// Only say what the run will need, from what this ledger knows of its models: nobody is asked
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// First make one attempt at each of the three weightiest tasks, then say what the whole needs
    #[arg(long, conflicts_with = "dry_run")]
    pub(crate) rehearse: bool,
    /// 64 hexadecimal digits from which all inputs are drawn [default: fresh random ones]
    #[arg(long, value_name = "HEX")]
    pub(crate) seed: Option<String>,
    #[command(flatten)]
    pub(crate) background: BackgroundArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: an id, the start of one, or @last
    #[arg(default_value = "@last")]
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) search: SearchArgs,
    /// Go on with another model; give it again for models that attempts take in turn
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    /// The price of a model that --model names, as for `run`
    #[arg(long = "price", value_name = "NAME=PRICE", requires = "models")]
    pub(crate) prices: Vec<String>,
    /// Go on with another evaluator: `local` or `folder:DIR`
    #[arg(long, value_name = "WHO")]
    pub(crate) evaluator: Option<String>,
    /// Take replayed replies that were recorded for another prompt
    #[arg(long)]
    pub(crate) allow_drift: bool,
    #[command(flatten)]
    pub(crate) background: BackgroundArgs,
}
