//! What is set for one model behind an OpenAI-compatible server.

use std::collections::BTreeMap;
use std::fmt;

use secrecy::{ExposeSecret, SecretString};
use serde_json::{Map, Value};

use crate::model::Price;

/// A key. It is never shown.
#[derive(Clone, Default)]
pub struct Secret(SecretString);

impl Secret {
    /// The text itself, for the header that carries it.
    pub(super) fn expose(&self) -> &str {
        self.0.expose_secret()
    }

    pub(super) fn inner(&self) -> &SecretString {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// The name under which a server knows the cap of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaxTokensField {
    /// `max_completion_tokens`.
    MaxCompletionTokens,
    /// `max_tokens`, the older name.
    MaxTokens,
}

impl MaxTokensField {
    /// The field of the request.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxCompletionTokens => "max_completion_tokens",
            Self::MaxTokens => "max_tokens",
        }
    }
}

/// Everything about one model. Nothing else is read: no variable of the environment but the
/// customary ones for proxies, and those not for an address of this machine.
#[derive(Clone)]
pub struct OpenAiSettings {
    /// Name of the model in the settings.
    pub name: String,
    /// Address up to and with `/v1`; a query is kept.
    pub base_url: String,
    /// Without a key no `Authorization` is sent.
    pub api_key: Option<Secret>,
    /// Name of the model at the server.
    pub model: String,
    /// Most tokens that one answer may have.
    pub output_tokens_max: u64,
    pub max_tokens_field: MaxTokensField,
    pub reasoning_effort: Option<String>,
    pub temperature: Option<f64>,
    pub top_p: Option<f64>,
    /// More fields of the request. They win over the ones made here but `messages`, `model` and
    /// `stream`; `null` leaves a field out.
    pub extra_body: Map<String, Value>,
    /// More headers, which win over the ones made here.
    pub headers: BTreeMap<String, String>,
    pub price: Price,
    /// False asks for the answer in one piece.
    pub stream: bool,
    /// Longest wait for a connection, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Longest wait for the first byte of the answer, in milliseconds. Without `stream` a server
    /// is silent until the whole answer is there.
    pub first_byte_timeout_ms: u64,
    /// Longest silence within an answer, in milliseconds.
    pub idle_timeout_ms: u64,
    /// Longest wait for the whole answer, in milliseconds.
    pub deadline_ms: u64,
}

/// Headers may carry keys: only their names are shown.
impl fmt::Debug for OpenAiSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenAiSettings")
            .field("name", &self.name)
            .field("base_url", &shown_url(&self.base_url))
            .field("api_key", &self.api_key)
            .field("model", &self.model)
            .field("headers", &self.headers.keys())
            .field("stream", &self.stream)
            .finish_non_exhaustive()
    }
}

/// A setting with which nothing can be asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenAiSettingsError {
    #[error("model `{name}`: base_url `{base_url}` is no address of a server: {why}")]
    BaseUrl { name: String, base_url: String, why: String },
    #[error("model `{name}`: header `{header}` cannot be sent: {why}")]
    Header { name: String, header: String, why: String },
    #[error("model `{name}`: the key has characters that no header can carry; set it again")]
    Key { name: String },
    #[error("model `{name}`: no HTTP client on this machine: {why}")]
    Client { name: String, why: String },
}

/// An address without what may be secret in it: user, password and query.
pub(super) fn shown_url(url: &str) -> String {
    let end = url.find(['?', '#']).unwrap_or(url.len());
    let url = &url[..end];
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_owned(),
        (_, None) => url.to_owned(),
    }
}
