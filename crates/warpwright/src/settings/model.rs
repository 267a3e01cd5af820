//! The model of a run: from a name, a section of the settings file or a short form to values that
//! are stored with the run. Keys are named, never held.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pipeline::price::Price;
use serde::{Deserialize, Serialize};
use store::RunKind;

use crate::environment;
use crate::outcome::bad_input;
use crate::settings::file::{
    CommandSection, FileSettings, MailboxSection, ModelSection, OpenAiSection, PriceSection,
    ReplaySection,
};

/// Where OpenAI's own server is.
pub(crate) const OPENAI_URL: &str = "https://api.openai.com/v1";

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
    Openai(OpenAiSetting),
    Command(CommandSetting),
    Mailbox(MailboxSetting),
}

/// An OpenAI-compatible server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenAiSetting {
    /// In the settings; for people.
    pub(crate) name: String,
    pub(crate) base_url: String,
    pub(crate) key: KeySource,
    pub(crate) model: String,
    pub(crate) price: Price,
    pub(crate) output_tokens_max: u64,
    pub(crate) max_tokens_field: MaxTokens,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) temperature: Option<f64>,
    pub(crate) top_p: Option<f64>,
    pub(crate) stream: bool,
    pub(crate) extra_body: serde_json::Map<String, serde_json::Value>,
    pub(crate) headers: BTreeMap<String, String>,
    /// Header → variable that holds its value.
    pub(crate) header_env: BTreeMap<String, String>,
    pub(crate) connect_timeout_ms: u64,
    pub(crate) first_byte_timeout_ms: u64,
    pub(crate) idle_timeout_ms: u64,
    pub(crate) deadline_ms: u64,
}

/// Where a key comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "lowercase")]
pub(crate) enum KeySource {
    None,
    /// Name of a variable.
    Environment(String),
    File(PathBuf),
}

/// The field that carries the output limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum MaxTokens {
    MaxCompletionTokens,
    MaxTokens,
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
    pub(crate) output_tokens_max: u64,
    pub(crate) deadline_ms: u64,
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
        if let Some(section) = file.model.get(text) {
            return Self::of_section(text, section)
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
            Some(("openai", model)) => Some(ModelSection::Openai(OpenAiSection {
                model: Some(model.to_owned()),
                base_url: environment::value(environment::OPENAI_BASE_URL),
                key_env: Some(environment::OPENAI_API_KEY.to_owned()),
                ..Default::default()
            })),
            Some(_) => None,
        };
        let section = section.ok_or_else(|| unknown_model(text, file))?;
        Self::of_section(text, &section).map_err(bad_input)
    }

    fn of_section(name: &str, section: &ModelSection) -> Result<Self, String> {
        Ok(match section {
            ModelSection::Openai(section) => Self::Openai(OpenAiSetting::of(name, section)?),
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

    /// The price that calls are booked at.
    pub(crate) fn price(&self) -> Price {
        match self {
            Self::Demo | Self::Replay { .. } | Self::Candidate { .. } | Self::Lines => Price::Free,
            Self::Mailbox(_) => Price::Free,
            Self::Openai(setting) => setting.price,
            Self::Command(setting) => setting.price,
        }
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

impl OpenAiSetting {
    fn of(name: &str, section: &OpenAiSection) -> Result<Self, String> {
        if section.key.is_some() {
            return Err("`key` is not read from a settings file, which people share: use \
                        `key_env = \"VARIABLE\"` or `key_file = \"PATH\"`"
                .to_owned());
        }
        let model = section.model.clone().ok_or("`model` is missing: the model's name")?;
        check_extra_body(&section.extra_body)?;
        check_headers(section)?;
        let base_url = section.base_url.clone().unwrap_or_else(|| OPENAI_URL.to_owned());
        let key = KeySource::of(section, &base_url)?;
        let stream = section.stream.unwrap_or(true);
        let deadline_s = section.deadline_s.unwrap_or(1_800.0);
        // Without a stream nothing comes before the whole answer is there.
        let first_byte_s = if stream { 600.0 } else { deadline_s };
        let extra_body = serde_json::to_value(&section.extra_body).map_err(|e| e.to_string())?;
        Ok(Self {
            name: name.to_owned(),
            base_url,
            key,
            model,
            price: price(section.price.as_ref(), Price::Unknown)?,
            output_tokens_max: output_tokens_max(section.output_tokens_max)?,
            max_tokens_field: MaxTokens::of(section.max_tokens_field.as_deref())?,
            reasoning_effort: section.reasoning_effort.clone(),
            temperature: section.temperature,
            top_p: section.top_p,
            stream,
            extra_body: extra_body.as_object().cloned().unwrap_or_default(),
            headers: section.headers.clone(),
            header_env: section.header_env.clone(),
            connect_timeout_ms: millis("connect_timeout_s", section.connect_timeout_s, 10.0)?,
            first_byte_timeout_ms: millis(
                "first_byte_timeout_s",
                section.first_byte_timeout_s,
                first_byte_s,
            )?,
            idle_timeout_ms: millis("idle_timeout_s", section.idle_timeout_s, 120.0)?,
            deadline_ms: millis("deadline_s", Some(deadline_s), deadline_s)?,
        })
    }
}

/// Fields that the ledger must know have settings of their own.
fn check_extra_body(extra: &toml::Table) -> Result<(), String> {
    const OWN: [(&str, &str); 8] = [
        ("max_tokens", "`output_tokens_max` and `max_tokens_field`"),
        ("max_completion_tokens", "`output_tokens_max` and `max_tokens_field`"),
        ("model", "`model`"),
        ("stream", "`stream`"),
        ("stream_options", "`stream`"),
        ("messages", "the prompt files"),
        ("n", "`attempts`: a call asks for one answer"),
        ("best_of", "`attempts`: a call asks for one answer"),
    ];
    match OWN.iter().find(|(name, _)| extra.contains_key(*name)) {
        Some((name, own)) => Err(format!("`extra_body.{name}` cannot be set: use {own}")),
        None => Ok(()),
    }
}

/// Settings are stored and shown, so that no key may stand in them.
fn check_headers(section: &OpenAiSection) -> Result<(), String> {
    let is_secret = |name: &str| {
        let name = name.to_lowercase();
        ["key", "auth", "token", "secret", "cookie", "sig"].iter().any(|part| name.contains(part))
    };
    if let Some(name) = section.headers.keys().find(|name| is_secret(name)) {
        return Err(format!(
            "the header `{name}` looks like a secret, and settings are stored with each run: name \
             a variable instead, as `header_env = {{ \"{name}\" = \"VARIABLE\" }}`"
        ));
    }
    let url = section.base_url.as_deref().unwrap_or_default();
    let query = url.split_once('?').map_or("", |(_, query)| query);
    let secret = query.split('&').any(|pair| is_secret(pair.split('=').next().unwrap_or_default()));
    let place = url.split_once("://").map_or(url, |(_, rest)| rest);
    if secret || place.split('/').next().is_some_and(|host| host.contains('@')) {
        return Err("`base_url` holds a secret, and settings are stored with each run: use \
                    `key_env` or `header_env`"
            .to_owned());
    }
    Ok(())
}

impl KeySource {
    fn of(section: &OpenAiSection, base_url: &str) -> Result<Self, String> {
        match (&section.key_env, &section.key_file) {
            (Some(_), Some(_)) => Err("give `key_env` or `key_file`, not both".to_owned()),
            (Some(variable), None) => Ok(Self::Environment(variable.clone())),
            (None, Some(path)) => Ok(Self::File(path.clone())),
            // A key for one server must not go to another.
            (None, None) if base_url == OPENAI_URL => {
                Ok(Self::Environment(environment::OPENAI_API_KEY.to_owned()))
            }
            (None, None) => Ok(Self::None),
        }
    }
}

impl MaxTokens {
    fn of(field: Option<&str>) -> Result<Self, String> {
        match field {
            None | Some("max_completion_tokens") => Ok(Self::MaxCompletionTokens),
            Some("max_tokens") => Ok(Self::MaxTokens),
            Some(other) => Err(format!(
                "`max_tokens_field = \"{other}\"`: write max_completion_tokens or max_tokens"
            )),
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
        Ok(Self {
            name: name.to_owned(),
            model,
            working_folder: section.working_folder.clone(),
            environment: section.environment.clone(),
            prompt_form: form("prompt_form", section.prompt_form.as_deref())?,
            reply_form: form("reply_form", section.reply_form.as_deref())?,
            price: price(section.price.as_ref(), Price::Unknown)?,
            output_tokens_max: output_tokens_max(section.output_tokens_max)?,
            deadline_ms: millis("deadline_s", section.deadline_s, 1_800.0)?,
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

fn output_tokens_max(tokens: Option<u64>) -> Result<u64, String> {
    match tokens.unwrap_or(llm::limits::OUTPUT_TOKENS_MAX) {
        tokens @ 1..=10_000_000 => Ok(tokens),
        tokens => Err(format!("`output_tokens_max = {tokens}`: write 1 to 10000000")),
    }
}

fn millis(field: &str, seconds: Option<f64>, default_s: f64) -> Result<u64, String> {
    let seconds = seconds.unwrap_or(default_s);
    if seconds > 0.0 && seconds <= 1e6 {
        return Ok((seconds * 1e3).ceil() as u64);
    }
    Err(format!("`{field} = {seconds}`: write seconds, more than 0 and at most 1000000"))
}

/// Resolves a price; `unset` where nothing is said.
fn price(section: Option<&PriceSection>, unset: Price) -> Result<Price, String> {
    let dollars = match section {
        None => return Ok(unset),
        Some(PriceSection::Word(word)) => {
            return match word.as_str() {
                "free" => Ok(Price::Free),
                "subscription" => Ok(Price::Subscription),
                other => Err(format!(
                    "`price = \"{other}\"`: write \"free\", \"subscription\" or \
                     {{ input = DOLLARS, output = DOLLARS }} per million tokens"
                )),
            };
        }
        Some(PriceSection::Dollars(dollars)) => dollars,
    };
    let input_nusd = nano_dollars("input", dollars.input)?;
    let cached = dollars.cached_input.unwrap_or(dollars.input);
    let cached_input_nusd = nano_dollars("cached_input", cached)?;
    if cached_input_nusd > input_nusd {
        return Err("`cached_input` costs more than `input`: then leave it out".to_owned());
    }
    let output_nusd = nano_dollars("output", dollars.output)?;
    Ok(Price::PerMillionTokens { input_nusd, cached_input_nusd, output_nusd })
}

/// Dollars of a settings file or flag as nano-dollars.
pub(crate) fn nano_dollars(field: &str, dollars: f64) -> Result<i64, String> {
    if (0.0..=1e6).contains(&dollars) {
        return Ok((dollars * 1e9).round() as i64);
    }
    Err(format!("`{field} = {dollars}`: write dollars, 0 to 1000000"))
}

#[cfg(test)]
mod tests;
