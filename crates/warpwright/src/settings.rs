//! Settings as they were resolved: saved with the run, so that `resume` needs no flags.

use std::path::{Path, PathBuf};

use anyhow::Context;
use device::toolchain::Choice;
use pipeline::next_step::SearchLimits;
use serde::{Deserialize, Serialize};
use store::RunKind;

use crate::cli::Cli;
use crate::environment;
use crate::outcome::bad_input;

/// What a run was started with. Secrets are never in here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunSettings {
    pub(crate) model: ModelSetting,
    pub(crate) limits: SearchLimits,
    /// The prompt files that replace the built-in ones.
    pub(crate) prompts: Option<PathBuf>,
}

impl RunSettings {
    /// The settings as they are stored with a run.
    pub(crate) fn to_json(&self) -> anyhow::Result<String> {
        serde_json::to_string(self).context("the settings as JSON")
    }
}

/// The model of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum ModelSetting {
    /// The transcript inside this program.
    Demo,
    /// A person: one kernel, from a reply or a folder.
    Candidate {
        task: String,
        path: PathBuf,
    },
    Replay {
        file: PathBuf,
        strict: bool,
    },
}

/// Paths and the compiler, resolved once from flags and environment.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) ledger: PathBuf,
    pub(crate) cache: PathBuf,
    pub(crate) toolchain: Choice,
}

impl Places {
    /// Resolves the global flags.
    pub(crate) fn of(cli: &Cli) -> Self {
        let ledger = cli.ledger.clone();
        let toolchain = match cli.toolchain.as_str() {
            "pinned" => Choice::Pinned,
            "any" => Choice::Any,
            path => Choice::Path(PathBuf::from(path)),
        };
        Self {
            ledger: ledger.unwrap_or_else(|| environment::data_folder().join("ledger.db")),
            cache: cli.cache.clone().unwrap_or_else(environment::cache_folder),
            toolchain,
        }
    }
}

impl ModelSetting {
    /// What kind of run it makes.
    pub(crate) fn run_kind(&self) -> RunKind {
        match self {
            Self::Demo | Self::Replay { .. } => RunKind::Replay,
            Self::Candidate { .. } => RunKind::Manual,
        }
    }

    /// Reads the value of `--model`.
    pub(crate) fn parse(text: &str, strict: bool) -> anyhow::Result<Self> {
        match text.split_once(':') {
            Some(("replay", file)) if !file.is_empty() => {
                let file = std::path::absolute(Path::new(file))?;
                Ok(Self::Replay { file, strict })
            }
            _ => Err(bad_input(format!(
                "`--model {text}` is not a model this version knows; write replay:FILE"
            ))),
        }
    }
}
