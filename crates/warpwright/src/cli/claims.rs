//! Flags of `accept`, `export`, `reproduce`, `recheck` and `review`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// How much is measured.
#[derive(Debug, Args)]
pub(crate) struct EffortArgs {
    /// Begin no further step that would end after so many seconds, going by the longest so far;
    /// the same command goes on
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deadline: Option<u32>,
    /// Most rounds of each comparison, from 7 to 15 [default: 15]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(7..=15))]
    pub(crate) rounds: Option<u32>,
    /// Confidence of the intervals in percent, 95 or 99; 99 for a campaign of many tasks
    #[arg(long, value_name = "PERCENT", default_value_t = 95, value_parser = confidence)]
    pub(crate) confidence: u32,
}

fn confidence(text: &str) -> Result<u32, String> {
    match text {
        "95" => Ok(95),
        "99" => Ok(99),
        _ => Err("it is 95 or 99".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct AcceptArgs {
    /// RUN (the best of each task), RUN:SEQ, RUN:best, RUN:TASK or TASK@best; RUN is an id, the
    /// start of one, or @last
    #[arg(required = true, value_name = "SELECTOR")]
    pub(crate) selectors: Vec<String>,
    #[command(flatten)]
    pub(crate) effort: EffortArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The id of a claim, the start of one, or a run, task or attempt that has one
    pub(crate) selector: String,
    /// The form of the file
    #[arg(long, value_name = "FORM", default_value = "bundle")]
    pub(crate) format: ExportFormat,
    /// Where to write it; a file that is there is left alone
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// One archive for `reproduce`
    Bundle,
}

#[derive(Debug, Args)]
pub(crate) struct ReproduceArgs {
    /// The file that `export` wrote
    pub(crate) bundle: PathBuf,
    /// Use the bundle's task although this program does not ship it: its reference.py runs as you
    #[arg(long)]
    pub(crate) trust_task: bool,
    /// Begin no further step that would end after so many seconds, going by the longest so far;
    /// the same command goes on
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deadline: Option<u32>,
}

#[derive(Debug, Args)]
pub(crate) struct RecheckArgs {
    /// A claim's id, the start of one, or a run, task or attempt with claims
    #[arg(required_unless_present = "all")]
    pub(crate) selector: Option<String>,
    /// Look at every claim that stands
    #[arg(long, conflicts_with = "selector")]
    pub(crate) all: bool,
    #[command(flatten)]
    pub(crate) effort: EffortArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    #[command(subcommand)]
    pub(crate) command: Option<ReviewCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ReviewCommand {
    /// List what waits for a person; also meant by `review` alone
    List {
        /// Everything about a claim, run, task or attempt instead, what was decided included
        selector: Option<String>,
    },
    /// Let it pass: what is suspect becomes a claim, and a claim may go out
    Approve(DecideArgs),
    /// Turn it away: what is suspect for good, a claim until it is approved
    Reject(DecideArgs),
}

#[derive(Debug, Args)]
pub(crate) struct DecideArgs {
    /// What is decided about: an id that the list shows, the start of one, or an attempt, task or
    /// run
    pub(crate) selector: String,
    /// Why, in your words; stored with your name
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: String,
    /// Your name [default: the user's]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}
