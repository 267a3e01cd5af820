//! An OpenAI-compatible server in the settings: what is resolved, and what may not stand there.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pipeline::price::Price;
use pipeline::scrub::Scrubber;
use serde::{Deserialize, Serialize};

use crate::environment;
use crate::limits::VARIABLE_BYTES_MAX;
use crate::settings::batch::{self, BatchSetting};
use crate::settings::file::OpenAiSection;
use crate::settings::model::{millis, output_tokens_max};
use crate::settings::price::{Dated, dated};
use crate::settings::search::UseSetting;

/// Where OpenAI's own server is.
pub(crate) const OPENAI_URL: &str = "https://api.openai.com/v1";

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
    /// The day of the list that it is from, as `2026-11-01`; the older one where batches have
    /// their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) price_as_of: Option<String>,
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
    #[serde(default = "UseSetting::one")]
    pub(crate) uses: UseSetting,
    /// Set for the batch lane.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) batch: Option<BatchSetting>,
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

impl OpenAiSetting {
    pub(crate) fn of(name: &str, section: &OpenAiSection) -> Result<Self, String> {
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
        let Dated { price, as_of } = dated(section.price.as_ref(), Price::Unknown)?;
        let of_batches = batch::price_as_of(section)?;
        Ok(Self {
            name: name.to_owned(),
            base_url,
            key,
            model,
            price,
            // Days as they are stored sort by time.
            price_as_of: [as_of, of_batches].into_iter().flatten().min(),
            batch: BatchSetting::of(section, price)?,
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
            idle_timeout_ms: millis("idle_timeout_s", section.idle_timeout_s, 600.0)?,
            deadline_ms: millis("deadline_s", Some(deadline_s), deadline_s)?,
            uses: UseSetting::of_server(section)?,
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

/// Whether a text can be the name of a variable, and has no form of a key.
fn is_variable(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let named = text.chars().next().is_some_and(|c| !c.is_ascii_digit()) && text.chars().all(fits);
    named && text.len() <= VARIABLE_BYTES_MAX && Scrubber::default().scrub(text) == text
}

impl KeySource {
    fn of(section: &OpenAiSection, base_url: &str) -> Result<Self, String> {
        match (&section.key_env, &section.key_file) {
            (Some(_), Some(_)) => Err("give `key_env` or `key_file`, not both".to_owned()),
            (Some(variable), None) if is_variable(variable) => {
                Ok(Self::Environment(variable.clone()))
            }
            // Not shown: it may be the key.
            (Some(_), None) => Err("`key_env` is the name of a variable that holds the key, as \
                                    MY_API_KEY, and what stands there is no such name: if it is \
                                    the key itself, take it out and give it as that variable or \
                                    in a `key_file`"
                .to_owned()),
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
