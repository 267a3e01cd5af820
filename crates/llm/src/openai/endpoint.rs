//! Where requests go and with which headers: the only source of both, instead of async-openai's
//! own configuration, which reads the environment and cannot do without a key.

use std::fmt;
use std::net::IpAddr;

use async_openai::config::Config;
use reqwest::Url;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use secrecy::SecretString;

use super::settings::{OpenAiSettings, OpenAiSettingsError, Secret, shown_url};

/// Headers that belong to the request itself.
const OWN_HEADERS: [&str; 5] =
    ["content-type", "content-length", "host", "transfer-encoding", "connection"];
/// Parts of the names of headers whose values are secret.
const SECRET_HEADERS: [&str; 5] = ["key", "auth", "token", "secret", "cookie"];
/// Shorter values are words, such as the `none` of a server without keys: hiding them would garble
/// messages.
const SECRET_BYTES_MIN: usize = 8;

/// A server with everything that is the same in each request.
#[derive(Clone)]
pub(super) struct Endpoint {
    base: Url,
    headers: HeaderMap,
    key: Secret,
    /// Texts that must not be shown.
    secrets: Vec<String>,
}

impl Endpoint {
    pub(super) fn new(settings: &OpenAiSettings) -> Result<Self, OpenAiSettingsError> {
        let base = base_url(settings)?;
        let mut headers = HeaderMap::new();
        if let Some(key) = &settings.api_key {
            let bearer = HeaderValue::try_from(format!("Bearer {}", key.expose()));
            let bearer =
                bearer.map_err(|_| OpenAiSettingsError::Key { name: settings.name.clone() })?;
            headers.insert(AUTHORIZATION, sensitive(bearer));
        }
        for (name, value) in &settings.headers {
            let (name, value) = header(settings, name, value)?;
            headers.insert(name, value);
        }
        let key = settings.api_key.clone().unwrap_or_default();
        Ok(Self { secrets: secrets(settings, &base), base, headers, key })
    }

    /// Host, port and path, without what may be secret.
    pub(super) fn shown(&self) -> String {
        let url = shown_url(&self.url(CHAT_PATH));
        url.split_once("://").map_or(url.clone(), |(_, rest)| rest.to_owned())
    }

    /// True for an address of this machine, which no proxy reaches.
    pub(super) fn is_local(&self) -> bool {
        let host = self.base.host_str().unwrap_or_default().trim_matches(['[', ']']);
        host == "localhost" || host.parse().is_ok_and(|it: IpAddr| it.is_loopback())
    }

    /// `text` without keys, wherever a server repeats them.
    pub(super) fn redacted(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, "***"))
    }
}

const CHAT_PATH: &str = "/chat/completions";

impl Config for Endpoint {
    fn headers(&self) -> HeaderMap {
        self.headers.clone()
    }

    fn url(&self, path: &str) -> String {
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/');
        let base = base.strip_suffix(path).unwrap_or(base);
        let whole = format!("{base}{path}");
        url.set_path(&whole);
        url.into()
    }

    fn query(&self) -> Vec<(&str, &str)> {
        Vec::new()
    }

    fn api_base(&self) -> &str {
        self.base.as_str()
    }

    fn api_key(&self) -> &SecretString {
        self.key.inner()
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

fn base_url(settings: &OpenAiSettings) -> Result<Url, OpenAiSettingsError> {
    let bad = |why: &str| OpenAiSettingsError::BaseUrl {
        name: settings.name.clone(),
        base_url: shown_url(&settings.base_url),
        why: why.to_owned(),
    };
    let url = Url::parse(settings.base_url.trim()).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(bad("it must begin with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad("it must not hold a user or a password; use the key or a header"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(bad("it has no host"));
    }
    Ok(url)
}

fn header(
    settings: &OpenAiSettings,
    name: &str,
    value: &str,
) -> Result<(HeaderName, HeaderValue), OpenAiSettingsError> {
    let bad = |why: &str| OpenAiSettingsError::Header {
        name: settings.name.clone(),
        header: name.to_owned(),
        why: why.to_owned(),
    };
    let known = HeaderName::try_from(name).map_err(|_| bad("it is no name of a header"))?;
    if OWN_HEADERS.contains(&known.as_str()) {
        return Err(bad("it belongs to the request itself; leave it out"));
    }
    let value = HeaderValue::try_from(value)
        .map_err(|_| bad("its value has characters that no header can carry"))?;
    Ok((known, sensitive(value)))
}

fn sensitive(mut value: HeaderValue) -> HeaderValue {
    value.set_sensitive(true);
    value
}

fn secrets(settings: &OpenAiSettings, base: &Url) -> Vec<String> {
    let is_secret = |name: &str| {
        let name = name.to_ascii_lowercase();
        SECRET_HEADERS.iter().any(|part| name.contains(part))
    };
    let key = settings.api_key.iter().map(|key| key.expose().to_owned());
    let headers = settings.headers.iter().filter(|(name, _)| is_secret(name));
    let queries = base.query_pairs().filter(|(name, _)| is_secret(name));
    let values = headers.map(|(_, value)| value.trim_start_matches("Bearer ").to_owned());
    let values = key.chain(values).chain(queries.map(|(_, value)| value.into_owned()));
    values.filter(|value| value.len() >= SECRET_BYTES_MIN).collect()
}
