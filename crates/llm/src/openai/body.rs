//! The body of one request.

use pipeline::prompt::Message;
use serde_json::{Map, Value, json};

use super::settings::OpenAiSettings;
use crate::model::Request;

/// Fields that `extra_body` cannot change: the ledger knows what they were.
const FIXED_FIELDS: [&str; 3] = ["messages", "model", "stream"];

/// The fields of a chat completion.
pub(super) fn of(settings: &OpenAiSettings, request: &Request) -> Map<String, Value> {
    let message = |it: &Message| json!({ "role": it.role.name(), "content": it.content.as_str() });
    let messages: Vec<Value> = request.prompt.messages.iter().map(message).collect();
    let mut body = Map::new();
    let mut set = |name: &str, value: Value| body.insert(name.to_owned(), value);
    set("model", settings.model.clone().into());
    set("messages", messages.into());
    set("stream", settings.stream.into());
    set(settings.max_tokens_field.name(), request.output_tokens_max.into());
    if settings.stream {
        set("stream_options", json!({ "include_usage": true }));
    }
    if let Some(effort) = &settings.reasoning_effort {
        set("reasoning_effort", effort.clone().into());
    }
    for (name, value) in [("temperature", settings.temperature), ("top_p", settings.top_p)] {
        if let Some(value) = value {
            set(name, value.into());
        }
    }
    for (name, value) in &settings.extra_body {
        if !FIXED_FIELDS.contains(&name.as_str()) {
            set(name, value.clone());
        }
    }
    body.retain(|_, value| !value.is_null());
    body
}
