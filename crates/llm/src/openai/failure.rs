//! From what a server says of a failure to an error with its class, in any of the shapes that
//! servers use: OpenAI's object, a bare text, FastAPI's `detail`, a list, a web page, nothing.

use reqwest::StatusCode;
use serde_json::Value;

use super::wait::wait_in_body_ms;
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::ERROR_BODY_BYTES_MAX;

/// Words in a code or kind that mean an empty account whatever the status.
const NO_CREDIT: [&str; 8] = [
    "insufficient_quota",
    "insufficient_balance",
    "insufficient_credits",
    "insufficient balance",
    "billing_hard_limit",
    "billing_not_active",
    "exceeded_current_quota",
    "arrearage",
];
/// The same in a message.
const NO_CREDIT_MESSAGES: [&str; 3] =
    ["credit balance is too low", "key limit exceeded", "insufficient balance"];
/// Words in a code or kind, or in a message, of a prompt that does not fit.
const TOO_LONG: [&str; 5] = [
    "context_length_exceeded",
    "exceed_context_size",
    "maximum context length",
    "exceeds the available context size",
    "context length is only",
];
/// Words in a code or kind, and the status that they stand for where no number says it.
const STATUS_OF_WORDS: [(&str, u16); 18] = [
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("invalid_api_key", 401),
    ("authentication", 401),
    ("unauthorized", 401),
    ("permission", 403),
    ("forbidden", 403),
    ("payment_required", 402),
    ("model_not_found", 404),
    ("not_found", 404),
    ("invalid_request", 400),
    ("bad_request", 400),
    ("badrequest", 400),
    ("content_policy", 400),
    ("content_filter", 400),
    ("overloaded", 503),
    ("unavailable", 503),
    ("timeout", 504),
];

/// What a server says of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fault {
    message: String,
    /// Code and type, in lower case.
    words: String,
    /// A status in the body, which is better known than that of the proxy in front.
    status: Option<u16>,
    context_tokens: Option<u64>,
    prompt_tokens: Option<u64>,
    /// The wait before the next try that the body asks for, in milliseconds.
    wait_ms: Option<u64>,
    /// It is made of a web page.
    is_page: bool,
}

/// What was asked, for messages that name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked<'a> {
    pub(super) model: &'a str,
    pub(super) address: &'a str,
}

const NO_MESSAGE: &str = "the server says no more";

impl Fault {
    /// The fault that a JSON value tells of; `None` for one that is about something else.
    pub(super) fn of_json(value: &Value) -> Option<Self> {
        match value {
            Value::Array(items) => items.iter().find_map(Self::of_object),
            Value::Object(_) => Self::of_object(value),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }

    fn of_object(value: &Value) -> Option<Self> {
        let object = value.as_object()?;
        let error = object.get("error").filter(|error| !error.is_null());
        let (inner, outer) = (error.or(object.get("detail")).unwrap_or(value), value);
        let message = message_of(inner).or_else(|| message_of(outer));
        let words = words_of(inner).or_else(|| words_of(outer)).unwrap_or_default();
        let number = |name: &str| inner.get(name).or_else(|| outer.get(name));
        let count = |name: &str| number(name).and_then(Value::as_u64);
        let status = ["code", "status"].iter().find_map(|name| status_of(number(name)?));
        let unsaid = status.map(|_| NO_MESSAGE.to_owned());
        let named = Some(words.clone()).filter(|words| !words.is_empty());
        // Without a message only what is called an error is one: servers also send pings.
        let shown = message.or_else(|| error.and(named.or(unsaid)))?;
        Some(Self {
            message: shown,
            words: words.to_lowercase(),
            status,
            context_tokens: count("n_ctx"),
            prompt_tokens: count("n_prompt_tokens"),
            wait_ms: wait_in_body_ms(inner),
            is_page: false,
        })
    }

    /// The fault that a body of any kind tells of.
    fn of_body(body: &str) -> Self {
        let body = body.trim_start_matches('\u{feff}').trim();
        let json = body.strip_prefix("data:").unwrap_or(body);
        if let Some(fault) = serde_json::from_str(json).ok().and_then(|it| Self::of_json(&it)) {
            return fault;
        }
        let is_page = is_page(body);
        let message = match body {
            "" => NO_MESSAGE.to_owned(),
            _ if is_page => page_text(body),
            _ => body.to_owned(),
        };
        Self { message, is_page, ..Self::default() }
    }

    fn says(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.words.contains(word))
    }

    /// The status that the body stands for.
    fn own_status(&self) -> Option<u16> {
        let of_words = || {
            let known = |(word, _): &&(&str, u16)| self.words.contains(word);
            STATUS_OF_WORDS.iter().find(known).map(|(_, status)| *status)
        };
        self.status.or_else(of_words)
    }

    /// The error for a fault that came with `status`.
    fn error(&self, status: u16, asked: Asked) -> LlmError {
        let message = self.message.to_lowercase();
        let in_message = |words: &[&str]| words.iter().any(|word| message.contains(word));
        let place = match status {
            404 | 405 => format!(" at {}", asked.address),
            _ => String::new(),
        };
        let told = format!("{}{place}: {}", status_name(status), self.message);
        if self.says(&NO_CREDIT) || in_message(&NO_CREDIT_MESSAGES) {
            return LlmError::new(ErrorClass::NoCredit, told);
        }
        if self.says(&TOO_LONG) || in_message(&TOO_LONG) {
            return LlmError::new(ErrorClass::Refused, self.too_long());
        }
        let missing = status == 404 && message.contains("model") && !self.is_page;
        if missing || self.says(&["model_not_found"]) {
            let why = format!("the server has no model `{}`: {}", asked.model, self.message);
            return LlmError::new(ErrorClass::Refused, why);
        }
        LlmError::of_status(status, told).retry_after_ms(self.wait_ms)
    }

    fn too_long(&self) -> String {
        let prompt = self.prompt_tokens.map_or_else(String::new, |it| format!(" of {it} tokens"));
        let context = self.context_tokens.map_or_else(String::new, |it| format!(" of {it} tokens"));
        format!("the prompt{prompt} does not fit the context{context}: {}", self.message)
    }
}

/// The error of an answer whose status is none of success. `location` is where a redirect leads.
pub(super) fn of_response(
    status: u16,
    body: &str,
    location: Option<&str>,
    asked: Asked,
) -> LlmError {
    if (300..400).contains(&status) {
        let to = location.unwrap_or("an address that it does not name");
        let why = format!("{} to {to}, which is not followed; set base_url", status_name(status));
        return LlmError::new(ErrorClass::Refused, why);
    }
    let fault = Fault::of_body(body);
    // A plain 500 may stand for anything that the words beside it name.
    let status = if status == 500 { fault.own_status().unwrap_or(status) } else { status };
    fault.error(status, asked)
}

/// The error of a fault within an answer that began with success. Once text has come it may be
/// charged, whatever the server says of its end.
pub(super) fn in_answer(fault: &Fault, charge: Option<Charge>, asked: Asked) -> LlmError {
    let status = fault.own_status().unwrap_or(500);
    let error = fault.error(status, asked);
    match charge {
        Some(charge) => error.charged(charge),
        None => error,
    }
}

fn status_name(status: u16) -> String {
    let reason = StatusCode::from_u16(status).ok().and_then(|it| it.canonical_reason());
    reason.map_or_else(|| status.to_string(), |reason| format!("{status} {reason}"))
}

fn status_of(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

fn message_of(value: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().filter(|it| !it.trim().is_empty()).map(str::to_owned);
    match value {
        Value::String(_) => text(value),
        Value::Array(items) => {
            let all: Vec<String> = items.iter().filter_map(message_of).collect();
            (!all.is_empty()).then(|| all.join("; "))
        }
        Value::Object(object) => {
            let named = ["message", "msg", "detail", "error"].iter();
            let message = named.filter_map(|name| object.get(*name)).find_map(text)?;
            // A router puts what the server behind it said beside its own sentence.
            let raw = value.pointer("/metadata/raw").and_then(text);
            Some(raw.map_or(message.clone(), |raw| format!("{message} ({raw})")))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn words_of(value: &Value) -> Option<String> {
    let named = ["code", "type", "status"].iter().filter_map(|name| value.get(*name)?.as_str());
    let words: Vec<&str> = named.filter(|word| !word.is_empty()).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// True for HTML.
pub(super) fn is_page(text: &str) -> bool {
    let start = text.trim_start();
    let start = &start[..start.floor_char_boundary(200)];
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype")
        || ["<html", "<head", "<body"].iter().any(|it| start.contains(it))
}

/// The words of the start of a web page, its title first.
pub(super) fn page_text(page: &str) -> String {
    let page = &page[..page.floor_char_boundary(ERROR_BODY_BYTES_MAX)];
    // Same offsets as the page: only ASCII letters change, each into one byte.
    let lower = page.to_ascii_lowercase();
    let (mut text, mut at) = (String::new(), 0);
    while let Some(start) = page[at..].find('<').map(|offset| at + offset) {
        text.push_str(&page[at..start]);
        text.push(' ');
        at = tag_end(&lower[start..]).map_or(page.len(), |end| start + end);
    }
    text.push_str(&page[at..]);
    let words: Vec<&str> = text.split_whitespace().collect();
    format!("a web page: {}", words.join(" "))
}

/// The end of a tag, with its content where that is not for readers; `None` if it never ends.
fn tag_end(tag: &str) -> Option<usize> {
    let hidden = [("<script", "</script>"), ("<style", "</style>"), ("<!--", "-->")];
    let end = hidden.iter().find(|(start, _)| tag.starts_with(start)).map_or(">", |(_, end)| end);
    tag.find(end).map(|at| at + end.len())
}

#[cfg(test)]
mod tests {
    use super::page_text;

    #[test]
    fn a_page_is_its_words_however_it_is_made() {
        let bomb = "<!---->".repeat(2_000_000);
        for (page, words) in [
            ("<html><title>502</title><body>bad <b>gateway</b>", "a web page: 502 bad gateway"),
            ("<SCRIPT>x < y</Script>Down<STYLE>b{}</style> now", "a web page: Down now"),
            ("<p>cut <!-- never closed", "a web page: cut"),
            ("<p>cut <a href=", "a web page: cut"),
            ("Ä<ß>ö", "a web page: Ä ö"),
            (bomb.as_str(), "a web page: "),
        ] {
            assert_eq!(page_text(page), words);
        }
    }
}
