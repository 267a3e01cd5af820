//! Every flag, with the sentence that a newcomer reads.

use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{Args, Parser, Subcommand};

use crate::environment;
use crate::gpus::DeviceSetting;

mod claims;
mod living;
mod night;
mod run;
mod scaffold;
mod selftest;
mod simulate;

pub(crate) use claims::{
    AcceptArgs, DecideArgs, EffortArgs, ExportArgs, ExportFormat, RecheckArgs, ReproduceArgs,
    ReviewArgs, ReviewCommand,
};
pub(crate) use living::{StatusArgs, StopArgs, TellArgs, TellWhat};
pub(crate) use night::{ReportArgs, SurveyArgs};
pub(crate) use run::{BudgetArgs, ResumeArgs, RunArgs};
pub(crate) use scaffold::{TaskCommand, TaskNewArgs};
pub(crate) use selftest::{SelftestArgs, SelftestCommand};
pub(crate) use simulate::SimulateArgs;

/// Writes and improves CUDA kernels with a language model, judged so that the numbers hold.
#[derive(Debug, Parser)]
#[command(name = "warpwright", version = version(), after_help = AFTER_HELP)]
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
    /// [default: pinned]
    #[arg(long, global = true, value_name = "WHICH", env = environment::TOOLCHAIN)]
    pub(crate) toolchain: Option<String>,
    /// What runs the kernels: `sim`, `cuda`, `cuda:N`, `cuda:all`, `cuda:GPU-UUID`, or `auto` for
    /// the GPUs where there are some and the simulator elsewhere
    /// [default: auto]
    #[arg(long, global = true, value_name = "WHICH", env = environment::DEVICE)]
    pub(crate) device: Option<DeviceSetting>,
    /// Judge nothing where children are confined by less than this level: 0 a process of its own,
    /// 1 limits and a filter of system calls, 2 rules for files, 3 namespaces, 4 a control group
    /// [default: 0]
    #[arg(long, global = true, value_name = "LEVEL", env = environment::REQUIRE_CONFINEMENT)]
    #[arg(value_parser = crate::confinement::parse_level)]
    pub(crate) require_confinement: Option<u8>,
    /// The settings file
    /// [default: warpwright.toml here, else in ~/.config/warpwright]
    #[arg(long, global = true, value_name = "FILE", env = environment::SETTINGS)]
    pub(crate) settings: Option<PathBuf>,
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

const AFTER_HELP: &str = "WARPWRIGHT_PYTHON names the Python whose PyTorch kernels are compared \
with [default: python3 on the path].

Exit codes: 0 done; 1 our error; 2 usage or bad input file; 3 the \
candidate or task did not pass; 4 not available here; 5 a budget ended it, resumable; 6 not \
reproduced; 7 ledger locked or damaged; 130 interrupted, resumable.";

const EVALUATE_HELP: &str = "\
Each line of --jsonl is one object: {\"reply\": \"...\"} with Markdown as a model would send it, \
{\"source\": \"...\", \"plan\": \"...\"} with CUDA and TOML, or {\"path\": \"...\"} with a file or \
folder; an \"id\" beside it comes back in its record. The last line of the output sums up.

Exit codes of several kernels: 0 all are correct; 2 a line could not be read, whatever the others \
did; 3 some kernel did not pass; 130 interrupted.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the whole loop on a built-in task with hand-written replies: no GPU, no key
    Demo,
    /// Write a commented settings file, warpwright.toml, into this folder
    Init(InitArgs),
    /// Say which tasks are worth spending on, before a token is spent, and write run.toml
    Survey(SurveyArgs),
    /// Let a model write kernels for one or many tasks until a limit is reached
    Run(RunArgs),
    /// Judge kernels of your own: replies (.md), folders with kernel.cu and plan.toml, JSON lines
    #[command(after_long_help = EVALUATE_HELP)]
    Evaluate(EvaluateArgs),
    /// Check any CUDA kernel without a GPU: run it on the simulator, every access checked
    Simulate(Box<SimulateArgs>),
    /// Go on with a run that was interrupted, killed, or whose model could not go on
    Resume(ResumeArgs),
    /// Measure a correct kernel by the full protocol, on a GPU: the only way to a claim
    Accept(AcceptArgs),
    /// Write a claim into one file, with everything that a stranger needs to get it too
    Export(ExportArgs),
    /// Measure the claim of such a file again on this machine's GPU
    Reproduce(ReproduceArgs),
    /// Measure claims of the ledger again, against today's driver, compiler and baselines
    Recheck(RecheckArgs),
    /// List what a person has to look at, or decide about it: what is suspect, and claims
    Review(ReviewArgs),
    /// Judge the kernels that runs put into a folder, maybe from another machine
    Worker(WorkerArgs),
    /// List the runs, or show where one stands, or follow it to its end
    Status(StatusArgs),
    /// Tell a run something while it is on: pause, hints, weights, more money or time
    Tell(TellArgs),
    /// Ask a run that is on to stop, and wait until it has
    Stop(StopArgs),
    /// Show everything about one attempt, or the attempts of a run
    Show(ShowArgs),
    /// Print a run's report in Markdown (with --json: as JSON; with --html FILE: as a page)
    Report(ReportArgs),
    /// Look at the GPUs of this machine
    #[command(subcommand)]
    Hardware(HardwareCommand),
    /// Prove this program on the hardware of this machine
    #[command(subcommand)]
    Selftest(SelftestCommand),
    /// The launches that `selftest gpu` times by two clocks
    #[command(name = "__clock", hide = true)]
    Clock {
        /// The harness's cubin
        harness: PathBuf,
        /// `gated` prints times; `ungated` is for a profiler
        gate: String,
    },
    /// Work on tasks
    #[command(subcommand)]
    Task(TaskCommand),
    /// Check that nobody changed what is stored
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Install or list CUDA compilers
    #[command(subcommand)]
    Toolchain(ToolchainCommand),
    /// Say what works on this machine and what is missing
    Doctor(DoctorArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man,
}

impl Command {
    /// False for commands that must work whatever the settings file holds.
    pub(crate) fn reads_settings(&self) -> bool {
        !matches!(self, Self::Init(_) | Self::Completions { .. } | Self::Man)
    }

    /// True for commands whose output is JSON lines, the closing one included.
    pub(crate) fn prints_records(&self) -> bool {
        matches!(self, Self::Evaluate(EvaluateArgs { jsonl: Some(_), .. }))
    }

    /// True for commands whose output is a file as it stands.
    pub(crate) fn prints_a_file(&self) -> bool {
        matches!(self, Self::Completions { .. } | Self::Man)
    }
}

#[derive(Debug, Args)]
pub(crate) struct InitArgs {
    /// Where to write it
    #[arg(default_value = "warpwright.toml")]
    pub(crate) file: PathBuf,
    /// Print every setting with its default as Markdown instead
    #[arg(long)]
    pub(crate) reference: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Ask this model one small question, for about a cent: checks its key, price, limits, usage
    /// fields and reply format
    #[arg(long, value_name = "MODEL")]
    pub(crate) model: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct EvaluateArgs {
    /// A built-in task's name, or a task folder
    pub(crate) task: String,
    /// A file as a model would reply, or a folder with kernel.cu and plan.toml; several are judged
    /// at the same time, with one line for each
    #[arg(required_unless_present = "jsonl", value_name = "CANDIDATE")]
    pub(crate) candidates: Vec<PathBuf>,
    /// Judge the kernels of a file of JSON lines, or of standard input for `-`, and print one JSON
    /// record for each as soon as it is judged
    #[arg(long, value_name = "FILE", conflicts_with = "candidates")]
    pub(crate) jsonl: Option<PathBuf>,
    /// How many kernels are judged at the same time [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) jobs: Option<u32>,
    /// 64 hexadecimal digits from which all inputs are drawn [default: fresh random ones]
    #[arg(long, value_name = "HEX")]
    pub(crate) seed: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct WorkerArgs {
    /// The folder that `run --evaluator folder:DIR` names
    #[arg(long, value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// End when no job is left instead of waiting for more
    #[arg(long)]
    pub(crate) drain: bool,
    /// End after so many seconds; the job in hand is left for the next worker
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deadline: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct ShowArgs {
    /// RUN, RUN:SEQ, RUN:best, RUN:TASK, RUN:TASK:SEQ, RUN:TASK:best or TASK@best; RUN is an id,
    /// the start of one, or @last; TASK@best is of the newest run with a correct one
    pub(crate) selector: Option<String>,
    /// Write the attempt's kernel.cu and plan.toml into a new folder, as `evaluate` takes them
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Also show what the hidden cases showed, for a person: who writes kernels must not see it
    #[arg(long)]
    pub(crate) hidden: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SelectArgs {
    /// RUN, RUN:SEQ, RUN:best or TASK@best; RUN is an id, the start of one, or @last
    pub(crate) selector: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum HardwareCommand {
    /// Measure bandwidth, arithmetic and launch cost of each GPU, some seconds each, and keep them
    Probe,
    /// Show what is known of each GPU
    Show,
}

#[derive(Debug, Subcommand)]
pub(crate) enum LedgerCommand {
    /// Follow the chains of hashes, and compare the rows that wrote themselves into an event with
    /// it (docs/claims.md lists them): of a run, or of all, which looks at the file itself too
    Verify(SelectArgs),
    /// Copy the ledger as it is at this moment into one new file, also while a run is on
    Copy {
        /// The new file
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolchainCommand {
    /// Download the pinned CUDA compiler and headers from PyPI (about 95 MB) and check their hashes
    Install,
    /// List the CUDA compilers that were found
    List,
}

#[cfg(test)]
mod tests {
    use clap::{Command, CommandFactory};

    use super::Cli;

    fn walk(command: &Command, path: &str) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.split_whitespace().count() >= 3, "`{path}` has no sentence");
        for argument in command.get_arguments().filter(|it| it.get_id() != "help") {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let name = argument.get_id();
            assert!(help.split_whitespace().count() >= 2, "`{path}`: `{name}` has no sentence");
        }
        for inner in command.get_subcommands() {
            walk(inner, &format!("{path} {}", inner.get_name()));
        }
    }

    #[test]
    fn every_command_and_flag_has_a_sentence() {
        Cli::command().debug_assert();
        walk(&Cli::command(), "warpwright");
    }
}
