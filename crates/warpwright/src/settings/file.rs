//! `warpwright.toml`: what a person writes. Every field is in [`super::reference`].
//!
//! Nothing is resolved here: a missing value stays missing, so that flags, the environment and
//! `run.toml` can be laid over it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pipeline::toml_error;
use serde::Deserialize;

use crate::limits::SETTINGS_BYTES_MAX;
use crate::outcome::bad_input;
use crate::wiring::read_text;
use crate::{environment, terminal};

/// The file's name.
pub(crate) const FILE_NAME: &str = "warpwright.toml";

/// The settings file.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FileSettings {
    /// Models that `run` asks when none is named.
    pub(crate) default_model: Option<OneOrMany>,
    /// Claims go out only once a person approved them.
    pub(crate) require_review: Option<bool>,
    /// A program that is told of a run's events.
    pub(crate) notify: Option<String>,
    #[serde(default)]
    pub(crate) model: BTreeMap<String, ModelSection>,
    #[serde(default)]
    pub(crate) budget: BudgetSection,
    #[serde(default)]
    pub(crate) search: SearchSection,
    #[serde(default)]
    pub(crate) judge: JudgeSection,
    #[serde(default)]
    pub(crate) store: StoreSection,
}

/// One name or a list of them.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(crate) enum OneOrMany {
    One(String),
    Many(Vec<String>),
}

impl OneOrMany {
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Self::One(name) => vec![name.clone()],
            Self::Many(names) => names.clone(),
        }
    }
}

/// What a run may spend.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BudgetSection {
    pub(crate) attempts: Option<u32>,
    pub(crate) tokens: Option<u64>,
    pub(crate) dollars: Option<f64>,
    pub(crate) hours: Option<f64>,
    pub(crate) gpu_seconds: Option<u64>,
}

/// How a run searches.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SearchSection {
    pub(crate) in_flight: Option<u32>,
    pub(crate) plateau: Option<u32>,
    pub(crate) model_order: Option<String>,
    pub(crate) accept: Option<bool>,
}

/// Where and with what kernels are judged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JudgeSection {
    pub(crate) device: Option<String>,
    pub(crate) evaluator: Option<String>,
    pub(crate) toolchain: Option<String>,
    pub(crate) require_confinement: Option<u8>,
}

/// Where things are kept.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StoreSection {
    pub(crate) ledger: Option<PathBuf>,
    pub(crate) cache: Option<PathBuf>,
}

/// `[model.NAME]`.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum ModelSection {
    Openai(Box<OpenAiSection>),
    Command(CommandSection),
    Mailbox(MailboxSection),
    Replay(ReplaySection),
}

/// An OpenAI-compatible server.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenAiSection {
    pub(crate) model: Option<String>,
    pub(crate) base_url: Option<String>,
    pub(crate) key_env: Option<String>,
    pub(crate) key_file: Option<PathBuf>,
    /// Read only to refuse it with the way out.
    pub(crate) key: Option<toml::Value>,
    /// A word, or dollars per million tokens.
    pub(crate) price: Option<toml::Value>,
    pub(crate) output_tokens_max: Option<u64>,
    pub(crate) max_tokens_field: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) stream: Option<bool>,
    #[serde(default)]
    pub(crate) extra_body: toml::Table,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    #[serde(default)]
    pub(crate) header_env: BTreeMap<String, String>,
    pub(crate) connect_timeout_s: Option<f64>,
    pub(crate) first_byte_timeout_s: Option<f64>,
    pub(crate) idle_timeout_s: Option<f64>,
    pub(crate) deadline_s: Option<f64>,
    pub(crate) calls_at_once: Option<u32>,
    pub(crate) modes: Option<Vec<String>>,
    /// `interactive` or `batch`.
    pub(crate) lane: Option<String>,
    /// A share of the price, a word, or dollars per million tokens.
    pub(crate) batch_price: Option<toml::Value>,
    pub(crate) batch_deadline_minutes: Option<f64>,
    pub(crate) batch_collect_s: Option<f64>,
    pub(crate) batch_poll_s: Option<f64>,
    pub(crate) batch_requests_max: Option<usize>,
}

/// A program that answers on its standard output.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandSection {
    pub(crate) command: Option<Vec<String>>,
    pub(crate) model: Option<String>,
    pub(crate) working_folder: Option<PathBuf>,
    #[serde(default)]
    pub(crate) environment: Vec<String>,
    pub(crate) prompt_form: Option<String>,
    pub(crate) reply_form: Option<String>,
    /// A word, or dollars per million tokens.
    pub(crate) price: Option<toml::Value>,
    pub(crate) output_tokens_max: Option<u64>,
    pub(crate) deadline_s: Option<f64>,
    pub(crate) calls_at_once: Option<u32>,
    pub(crate) modes: Option<Vec<String>>,
}

/// A folder in which somebody answers.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MailboxSection {
    pub(crate) folder: Option<PathBuf>,
    pub(crate) model: Option<String>,
    pub(crate) output_tokens_max: Option<u64>,
    pub(crate) deadline_s: Option<f64>,
}

/// A recorded transcript.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplaySection {
    pub(crate) file: Option<PathBuf>,
    #[serde(default)]
    pub(crate) strict: bool,
}

/// Dollars per million tokens.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DollarsSection {
    pub(crate) input: f64,
    pub(crate) cached_input: Option<f64>,
    pub(crate) output: f64,
    /// The day of the list that it is from.
    pub(crate) as_of: Option<String>,
}

/// An error of the reader with its place, in the words of people.
pub(crate) fn in_words(error: &toml::de::Error) -> String {
    let whole = toml_error::in_words(&error.to_string());
    terminal::plain(whole.trim_end())
}

impl FileSettings {
    /// Reads the settings file that is named, or the first that is found: in the working folder,
    /// then in the user's configuration folder. None is no error.
    pub(crate) fn find(named: Option<&Path>) -> anyhow::Result<(Self, Option<PathBuf>)> {
        let found = match named {
            Some(path) => Some(path.to_owned()),
            None => [PathBuf::from(FILE_NAME), environment::settings_folder().join(FILE_NAME)]
                .into_iter()
                .find(|path| path.is_file()),
        };
        let Some(path) = found else { return Ok((Self::default(), None)) };
        let path = std::path::absolute(path)?;
        let mut settings = Self::parse(&read_text(&path, SETTINGS_BYTES_MAX)?)
            .map_err(|why| bad_input(format!("{}: {why}", path.display())))?;
        if let Some(folder) = path.parent() {
            settings.make_absolute(folder);
        }
        Ok((settings, Some(path)))
    }

    /// Reads the file's text.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        toml::from_str(text).map_err(|error| in_words(&error))
    }

    /// Paths in a file are relative to the folder that it is in.
    fn make_absolute(&mut self, folder: &Path) {
        let store = [&mut self.store.ledger, &mut self.store.cache];
        let models = self.model.values_mut().flat_map(|model| match model {
            ModelSection::Openai(section) => vec![&mut section.key_file],
            ModelSection::Command(section) => vec![&mut section.working_folder],
            ModelSection::Mailbox(section) => vec![&mut section.folder],
            ModelSection::Replay(section) => vec![&mut section.file],
        });
        for path in store.into_iter().chain(models).filter_map(Option::as_mut) {
            *path = folder.join(environment::expand_home(path));
        }
    }
}
