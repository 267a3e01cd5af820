//! The flags of what comes before and after a night: `survey` and `report`.

use std::path::PathBuf;

use clap::Args;

use super::BudgetArgs;

#[derive(Debug, Args)]
pub(crate) struct SurveyArgs {
    /// Built-in tasks or task folders, `all` for every built-in one, or one run.toml
    #[arg(required = true, value_name = "LIST")]
    pub(crate) tasks: Vec<String>,
    /// A model for the run file; give it again for models that attempts take in turn. None is asked
    #[arg(long = "model", value_name = "MODEL")]
    pub(crate) models: Vec<String>,
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    /// The run file to write
    #[arg(long, value_name = "FILE", default_value = "run.toml")]
    pub(crate) output: PathBuf,
    /// Overwrite the file where it is there
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// RUN, or TASK@best for its run; RUN is an id, the start of one, or @last
    pub(crate) selector: Option<String>,
    /// Write one self-contained page instead, which needs no network and opens on a phone
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Overwrite the page where it is there
    #[arg(long, requires = "html")]
    pub(crate) force: bool,
}
