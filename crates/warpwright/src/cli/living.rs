//! Flags of living with a run: in the background, followed, told things, stopped.

use std::path::PathBuf;

use clap::Args;

/// Where a run goes on, and who hears of it.
#[derive(Debug, Args)]
pub(crate) struct BackgroundArgs {
    /// Return as soon as the run has begun: it goes on in the background, with a log beside the
    /// ledger
    #[arg(long)]
    pub(crate) detach: bool,
    /// A program that is started for each event of the run (its end, half of a cap used, ...) and
    /// gets it as one line of JSON on its standard input (docs/living.md)
    #[arg(long, value_name = "COMMAND")]
    pub(crate) notify: Option<String>,
    /// The log of a run that `--detach` started
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) background: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// RUN, RUN:SEQ, RUN:best or TASK@best; RUN is an id, the start of one, or @last
    pub(crate) selector: Option<String>,
    /// Show each attempt as it ends, until the run ends; ends as the run does
    #[arg(long)]
    pub(crate) follow: bool,
    /// Say for each task what it is worth to go on with it, and so which one asks next
    #[arg(long, conflicts_with = "follow")]
    pub(crate) why: bool,
}

#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The run: an id, the start of one, or @last
    #[arg(default_value = "@last")]
    pub(crate) run: String,
    /// Do not wait for the step in hand; `resume` repeats it
    #[arg(long)]
    pub(crate) now: bool,
    /// How many seconds to wait until it has stopped; 0 only asks
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    #[arg(value_parser = clap::value_parser!(u32).range(..=86_400))]
    pub(crate) wait: u32,
    /// Your name [default: the user's]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct TellArgs {
    /// The run: an id, the start of one, or @last
    pub(crate) run: String,
    /// One of its tasks; without one, the whole run is meant
    pub(crate) task: Option<String>,
    #[command(flatten)]
    pub(crate) what: TellWhat,
    /// Your name [default: the user's]
    #[arg(long, value_name = "NAME")]
    pub(crate) by: Option<String>,
}

/// What a run is told: at least one of these.
#[derive(Debug, Args)]
#[group(required = true, multiple = true)]
pub(crate) struct TellWhat {
    /// Begin nothing new until `--resume`
    #[arg(long, conflicts_with_all = ["resume", "stop"])]
    pub(crate) pause: bool,
    /// Go on after `--pause` or `--stop`
    #[arg(long, conflicts_with = "stop")]
    pub(crate) resume: bool,
    /// Begin nothing new for good; a run ends, resumable
    #[arg(long)]
    pub(crate) stop: bool,
    /// Words for the next prompt: advice on how to write the kernel
    #[arg(long, value_name = "TEXT")]
    pub(crate) hint: Option<String>,
    /// How much the task counts beside the others; the usual weight is 1
    #[arg(long, value_name = "NUMBER")]
    pub(crate) weight: Option<f64>,
    /// More of what the run may spend, as usd=50,hours=2,tokens=1000000,attempts=20,gpu-seconds=600
    #[arg(long, value_name = "AMOUNTS")]
    pub(crate) add: Option<String>,
}
