//! The model of a run: from a name, a section of the settings file or a short form to values that
//! are stored with the run. Keys are named, never held.

use std::path::{Path, PathBuf};

use pipeline::price::Price;
use serde::{Deserialize, Serialize};
use store::RunKind;

use crate::environment;
use crate::outcome::bad_input;
use crate::settings::file::{
    CommandSection, FileSettings, MailboxSection, ModelSection, OpenAiSection, ReplaySection,
};
use crate::settings::openai::OpenAiSetting;
use crate::settings::price::{dated, of_flag};
use crate::settings::search::UseSetting;

/// A model as it was resolved, stored with the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum ModelSetting {
    /// The transcript inside this program.
    Demo,
    /// A person: one kernel, from a reply or a folder.
    Candidate {
        task: String,
        path: PathBuf,
    },
    /// A person: kernels that arrive as lines on standard input.
    Lines,
    Replay {
        file: PathBuf,
        strict: bool,
    },
    Openai(Box<OpenAiSetting>),
    Command(CommandSetting),
    Mailbox(MailboxSetting),
}

/// A program that answers on its standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandSetting {
    pub(crate) name: String,
    pub(crate) argv: Vec<String>,
    pub(crate) model: String,
    pub(crate) working_folder: Option<PathBuf>,
    pub(crate) environment: Vec<String>,
    pub(crate) prompt_form: Form,
    pub(crate) reply_form: Form,
    pub(crate) price: Price,
    /// The day of the list that it is from, as `2026-11-01`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price_as_of: Option<String>,
    pub(crate) output_tokens_max: u64,
    pub(crate) deadline_ms: u64,
    #[serde(default = "UseSetting::one")]
    pub(crate) uses: UseSetting,
}

/// The form of a prompt or reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Form {
    Text,
    Json,
}

/// A folder in which somebody answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MailboxSetting {
    pub(crate) name: String,
    pub(crate) folder: PathBuf,
    pub(crate) model: String,
    pub(crate) output_tokens_max: u64,
    pub(crate) deadline_ms: Option<u64>,
}

impl ModelSetting {
    /// Resolves a name of the settings file or a short form: `openai:MODEL`, `command:PROGRAM ARG`,
    /// `mailbox:DIR`, `replay:FILE`.
    pub(crate) fn resolve(text: &str, file: &FileSettings) -> anyhow::Result<Self> {
        Self::resolve_at(text, file, None)
    }

    /// The same for each name, at the prices that flags give, each of a model that is named.
    pub(crate) fn resolve_all(
        names: &[String],
        file: &FileSettings,
        prices: &[String],
    ) -> anyhow::Result<Vec<Self>> {
        let given = prices.iter().map(|text| of_flag(text).map_err(bad_input));
        let given = given.collect::<anyhow::Result<Vec<_>>>()?;
        if let Some((name, _)) = given.iter().find(|(name, _)| names.iter().all(|it| it != name)) {
            let names = names.join(", ");
            return Err(bad_input(format!("--price {name}=...: the run asks {names}")));
        }
        let twice = |name: &str| given.iter().filter(|(of, _)| *of == name).count() > 1;
        if let Some((name, _)) = given.iter().find(|(name, _)| twice(name)) {
            return Err(bad_input(format!("--price {name}=... is given twice: give one of them")));
        }
        let price = |name: &String| given.iter().find(|(of, _)| of == name);
        let model =
            |name: &String| Self::resolve_at(name, file, price(name).map(|(_, price)| price));
        names.iter().map(model).collect()
    }

    fn resolve_at(
        text: &str,
        file: &FileSettings,
        price: Option<&toml::Value>,
    ) -> anyhow::Result<Self> {
        if let Some(section) = file.model.get(text) {
            return priced(section.clone(), price)
                .and_then(|section| Self::of_section(text, &section))
                .map_err(|why| bad_input(format!("[model.{text}]: {why}")));
        }
        let section = match text.split_once(':') {
            Some((_, "")) | None => None,
            Some(("replay", path)) => {
                let file = Some(std::path::absolute(Path::new(path))?);
                Some(ModelSection::Replay(ReplaySection { file, strict: false }))
            }
            Some(("mailbox", path)) => {
                let folder = Some(std::path::absolute(Path::new(path))?);
                Some(ModelSection::Mailbox(MailboxSection { folder, ..Default::default() }))
            }
            Some(("command", line)) => {
                let command = Some(line.split_whitespace().map(str::to_owned).collect());
                Some(ModelSection::Command(CommandSection { command, ..Default::default() }))
            }
            Some(("openai", model)) => Some(ModelSection::Openai(Box::new(OpenAiSection {
                model: Some(model.to_owned()),
                base_url: environment::value(environment::OPENAI_BASE_URL),
                key_env: short_form_key(),
                ..Default::default()
            }))),
            Some(_) => None,
        };
        let section = section.ok_or_else(|| unknown_model(text, file))?;
        priced(section, price)
            .and_then(|section| Self::of_section(text, &section))
            .map_err(bad_input)
    }

    fn of_section(name: &str, section: &ModelSection) -> Result<Self, String> {
        Ok(match section {
            ModelSection::Openai(section) => {
                Self::Openai(Box::new(OpenAiSetting::of(name, section)?))
            }
            ModelSection::Command(section) => Self::Command(CommandSetting::of(name, section)?),
            ModelSection::Mailbox(section) => Self::Mailbox(MailboxSetting::of(name, section)?),
            ModelSection::Replay(section) => {
                let file = section.file.clone().ok_or("`file` is missing: the transcript")?;
                Self::Replay { file, strict: section.strict }
            }
        })
    }

    /// What kind of run it makes.
    pub(crate) fn run_kind(&self) -> RunKind {
        match self {
            Self::Demo | Self::Replay { .. } => RunKind::Replay,
            Self::Candidate { .. } | Self::Lines => RunKind::Manual,
            Self::Openai(_) | Self::Command(_) | Self::Mailbox(_) => RunKind::Auto,
        }
    }

    /// What it is for.
    pub(crate) fn uses(&self) -> UseSetting {
        match self {
            Self::Demo | Self::Candidate { .. } | Self::Lines => UseSetting::plain(),
            Self::Replay { .. } | Self::Mailbox(_) => UseSetting::plain(),
            Self::Openai(setting) => setting.uses.clone(),
            Self::Command(setting) => setting.uses.clone(),
        }
    }

    /// True where each call is booked at its worst case: it costs money, and nothing counts it.
    pub(crate) fn is_booked_at_most(&self) -> bool {
        let is_text = |it: &CommandSetting| it.reply_form == Form::Text;
        let costs = !matches!(self.price(), Price::Free | Price::Subscription);
        costs && matches!(self, Self::Command(command) if is_text(command))
    }

    /// The price that calls are booked at.
    pub(crate) fn price(&self) -> Price {
        match self {
            Self::Demo | Self::Replay { .. } | Self::Candidate { .. } | Self::Lines => Price::Free,
            Self::Mailbox(_) => Price::Free,
            Self::Openai(setting) => setting.price,
            Self::Command(setting) => setting.price,
        }
    }

    /// The day of the list that the price is from.
    pub(crate) fn price_as_of(&self) -> Option<&str> {
        match self {
            Self::Demo | Self::Replay { .. } | Self::Candidate { .. } | Self::Lines => None,
            Self::Mailbox(_) => None,
            Self::Openai(setting) => setting.price_as_of.as_deref(),
            Self::Command(setting) => setting.price_as_of.as_deref(),
        }
    }

    /// The price in its batch lane, where it has one.
    pub(crate) fn batch_price(&self) -> Option<Price> {
        match self {
            Self::Demo | Self::Replay { .. } | Self::Candidate { .. } | Self::Lines => None,
            Self::Mailbox(_) | Self::Command(_) => None,
            Self::Openai(setting) => setting.batch.map(|batch| batch.price),
        }
    }

    /// The model as calls name it; its kind where there is no name.
    pub(crate) fn model_name(&self) -> &str {
        match self {
            Self::Demo => "demo",
            Self::Candidate { .. } | Self::Lines => "a person",
            Self::Replay { .. } => "replay",
            Self::Mailbox(setting) => &setting.model,
            Self::Openai(setting) => &setting.model,
            Self::Command(setting) => &setting.model,
        }
    }

    /// Its section of the settings file and the model in a few words.
    pub(crate) fn named(&self) -> String {
        let name = match self {
            Self::Demo | Self::Candidate { .. } | Self::Lines | Self::Replay { .. } => {
                return self.describe();
            }
            Self::Mailbox(setting) => &setting.name,
            Self::Openai(setting) => &setting.name,
            Self::Command(setting) => &setting.name,
        };
        format!("{name} ({})", self.describe())
    }

    /// The model in a few words.
    pub(crate) fn describe(&self) -> String {
        match self {
            Self::Demo => "the demo's replies".to_owned(),
            Self::Candidate { .. } | Self::Lines => "a person".to_owned(),
            Self::Replay { file, .. } => format!("replay of {}", file.display()),
            Self::Openai(setting) => format!("{} at {}", setting.model, setting.base_url),
            Self::Command(setting) => format!("the program {}", setting.argv.join(" ")),
            Self::Mailbox(setting) => format!("the mailbox {}", setting.folder.display()),
        }
    }
}

impl CommandSetting {
    fn of(name: &str, section: &CommandSection) -> Result<Self, String> {
        let argv = section.command.clone().unwrap_or_default();
        let Some(program) = argv.first() else {
            return Err("`command` is missing: the program and its arguments".to_owned());
        };
        let model = section.model.clone().unwrap_or_else(|| program.clone());
        let price = dated(section.price.as_ref(), Price::Unknown)?;
        Ok(Self {
            name: name.to_owned(),
            model,
            working_folder: section.working_folder.clone(),
            environment: section.environment.clone(),
            prompt_form: form("prompt_form", section.prompt_form.as_deref())?,
            reply_form: form("reply_form", section.reply_form.as_deref())?,
            price: price.price,
            price_as_of: price.as_of,
            output_tokens_max: output_tokens_max(section.output_tokens_max)?,
            deadline_ms: millis("deadline_s", section.deadline_s, 1_800.0)?,
            uses: UseSetting::of_program(section.calls_at_once, section.modes.as_ref())?,
            argv,
        })
    }
}

impl MailboxSetting {
    fn of(name: &str, section: &MailboxSection) -> Result<Self, String> {
        let deadline = section.deadline_s.map(|s| millis("deadline_s", Some(s), s));
        Ok(Self {
            name: name.to_owned(),
            folder: section.folder.clone().ok_or("`folder` is missing: where questions appear")?,
            model: section.model.clone().unwrap_or_else(|| "mailbox".to_owned()),
            output_tokens_max: output_tokens_max(section.output_tokens_max)?,
            deadline_ms: deadline.transpose()?,
        })
    }
}

/// A section with another price.
fn priced(mut section: ModelSection, price: Option<&toml::Value>) -> Result<ModelSection, String> {
    let Some(price) = price else { return Ok(section) };
    match &mut section {
        ModelSection::Openai(section) => section.price = Some(price.clone()),
        ModelSection::Command(section) => section.price = Some(price.clone()),
        ModelSection::Mailbox(_) | ModelSection::Replay(_) => {
            return Err("--price: its answers cost nothing".to_owned());
        }
    }
    Ok(section)
}

/// The key of `openai:MODEL`: a server of one's own may well want none.
fn short_form_key() -> Option<String> {
    let has_key = environment::value(environment::OPENAI_API_KEY).is_some();
    let is_openai = environment::value(environment::OPENAI_BASE_URL).is_none();
    (has_key || is_openai).then(|| environment::OPENAI_API_KEY.to_owned())
}

fn unknown_model(text: &str, file: &FileSettings) -> anyhow::Error {
    let names: Vec<_> = file.model.keys().map(String::as_str).collect();
    let known = if names.is_empty() {
        "the settings file names none (`warpwright init` writes one)".to_owned()
    } else {
        format!("the settings file names {}", names.join(", "))
    };
    bad_input(format!(
        "no model `{text}`: {known}; or write openai:MODEL, command:PROGRAM, mailbox:DIR or \
         replay:FILE"
    ))
}

fn form(field: &str, text: Option<&str>) -> Result<Form, String> {
    match text {
        None | Some("text") => Ok(Form::Text),
        Some("json") => Ok(Form::Json),
        Some(other) => Err(format!("`{field} = \"{other}\"`: write text or json")),
    }
}

pub(crate) fn output_tokens_max(tokens: Option<u64>) -> Result<u64, String> {
    match tokens.unwrap_or(llm::limits::OUTPUT_TOKENS_MAX) {
        tokens @ 1..=10_000_000 => Ok(tokens),
        tokens => Err(format!("`output_tokens_max = {tokens}`: write 1 to 10000000")),
    }
}

pub(crate) fn millis(field: &str, seconds: Option<f64>, default_s: f64) -> Result<u64, String> {
    let seconds = seconds.unwrap_or(default_s);
    if seconds > 0.0 && seconds <= 1e6 {
        return Ok((seconds * 1e3).ceil() as u64);
    }
    Err(format!("`{field} = {seconds}`: write seconds, more than 0 and at most 1000000"))
}

#[cfg(test)]
mod tests;
