//! Every flag, with the sentence that a newcomer reads.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Parser, Subcommand};

use crate::environment;

mod scaffold;
mod simulate;

pub(crate) use scaffold::TaskNewArgs;
pub(crate) use simulate::SimulateArgs;

/// Writes and improves CUDA kernels with a language model, judged so that the numbers hold.
#[derive(Debug, Parser)]
#[command(name = "warpwright", version = version(), after_help = EXIT_CODES)]
#[command(max_term_width = 100)]
pub(crate) struct Cli {
    /// Where every attempt is stored
    /// [default: $XDG_DATA_HOME/warpwright/ledger.db or ~/.local/share/warpwright/ledger.db]
    #[arg(long, global = true, value_name = "FILE", env = environment::LEDGER)]
    pub(crate) ledger: Option<PathBuf>,
    /// Where the CUDA compiler is kept
    /// [default: $XDG_CACHE_HOME/warpwright or ~/.cache/warpwright]
    #[arg(long, global = true, value_name = "DIR", env = environment::CACHE)]
    pub(crate) cache: Option<PathBuf>,
    /// The CUDA compiler to use: `pinned`, `any` version that is found, or a folder
    #[arg(long, global = true, value_name = "WHICH", default_value = "pinned")]
    pub(crate) toolchain: String,
    /// End the output with one line of JSON that says how it ended
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Version, commit and judge: what a stranger needs to get the same verdicts.
fn version() -> &'static str {
    static VERSION: OnceLock<String> = OnceLock::new();
    VERSION.get_or_init(|| {
        let commit = env!("WARPWRIGHT_COMMIT");
        let judge = judge::judge_hash();
        format!("{} (commit {commit}, judge {})", env!("CARGO_PKG_VERSION"), judge.short())
    })
}

const EXIT_CODES: &str = "Exit codes: 0 done; 1 our error; 2 usage or bad input file; 3 the \
candidate or task did not pass; 4 not available here; 5 a budget ended it, resumable; 7 ledger \
locked or damaged; 130 interrupted, resumable.";

/// Attempts that a run may be given.
fn attempts() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=100_000)
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole loop on a built-in task with hand-written replies: no GPU, no key
    Demo,
    /// Let a model write kernels for a task until its attempts are spent
    Run(RunArgs),
    /// Judge one kernel of your own: a reply (.md) or a folder with kernel.cu and plan.toml
    Evaluate(EvaluateArgs),
    /// Check any CUDA kernel without a GPU: run it on the simulator, every access checked
    Simulate(Box<SimulateArgs>),
    /// Go on with a run that was interrupted, killed, or whose model could not go on
    Resume(ResumeArgs),
    /// List the runs, or show where one stands
    Status(SelectArgs),
    /// Show everything about one attempt, or the attempts of a run
    Show(SelectArgs),
    /// Print a run's report in Markdown (with --json: as JSON)
    Report(SelectArgs),
    /// Work on tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// Check that a run's log of events was not changed
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Install or list CUDA compilers
    #[command(subcommand)]
    Toolchain(ToolchainCommand),
    /// Say what works on this machine and what is missing
    Doctor,
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

impl Command {
    /// True for commands whose output is a file as it stands.
    pub(crate) fn prints_a_file(&self) -> bool {
        matches!(self, Self::Completions { .. } | Self::Man)
    }
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// A built-in task's name, or a task folder
    pub(crate) task: String,
    /// The model: `replay:FILE` replays a transcript
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: String,
    /// How many attempts may be made
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = attempts())]
    pub(crate) attempts: u32,
    /// A folder with prompt files that replaces the built-in ones
    #[arg(long, value_name = "DIR")]
    pub(crate) prompts: Option<PathBuf>,
    /// Treat a replayed reply that was recorded for another prompt as an error
    #[arg(long)]
    pub(crate) strict_replay: bool,
    /// 64 hexadecimal digits from which all inputs are drawn [default: fresh random ones]
    #[arg(long, value_name = "HEX")]
    pub(crate) seed: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// A built-in task's name, or a task folder
    pub(crate) task: String,
    /// A file as a model would reply, or a folder with kernel.cu and plan.toml
    pub(crate) candidate: PathBuf,
    /// 64 hexadecimal digits from which all inputs are drawn [default: fresh random ones]
    #[arg(long, value_name = "HEX")]
    pub(crate) seed: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct ResumeArgs {
    /// The run: an id, the start of one, or @last
    #[arg(default_value = "@last")]
    pub(crate) run: String,
    /// Set the number of attempts that the run may make in all
    #[arg(long, value_name = "N", value_parser = attempts())]
    pub(crate) attempts: Option<u32>,
    /// Another transcript to go on with, as replay:FILE
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Take replayed replies that were recorded for another prompt
    #[arg(long)]
    pub(crate) allow_drift: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    /// RUN, RUN:SEQ, RUN:best or TASK@best; RUN is an id, the start of one, or @last
    pub(crate) selector: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Make a task folder of your own from a working example
    New(TaskNewArgs),
    /// Let a task prove itself: golden case, wrong kernels, and mutants of its reference
    Check {
        /// Built-in tasks or task folders; all built-in ones when none is named
        tasks: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Follow the chain of hashes over a run's events
    Verify(SelectArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolchainCommand {
    /// Download the pinned CUDA compiler and headers from PyPI (about 95 MB) and check their hashes
    Install,
    /// List the CUDA compilers that were found
    List,
}
