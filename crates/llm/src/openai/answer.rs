//! The parts of an answer, put together from chunks of a stream or from the whole completion,
//! which is one chunk. Every field may be missing or have another type than expected.

use pipeline::limits::capped;
use pipeline::reply::Ending;
use pipeline::transcript::Usage;
use serde_json::Value;

use super::failure::{Asked, Fault, in_answer};
use super::usage::{reported_cost_nusd, usage};
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{ANSWER_BYTES_MAX, NAME_BYTES_MAX};

/// Ends that are failures of the server.
const FAILED: [&str; 2] = ["error", "insufficient_system_resource"];

/// An answer as far as it has come.
#[derive(Debug, Default)]
pub(super) struct Answer {
    pub(super) text: String,
    pub(super) reasoning: String,
    refusal: String,
    /// `None` until the server says that the model has finished.
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) cost_nusd: Option<i64>,
    pub(super) model: String,
    pub(super) id: String,
    pub(super) provider: String,
    has_chunks: bool,
}

impl Answer {
    /// Adds a chunk.
    ///
    /// # Errors
    /// The failure that the chunk tells of; `Malformed` when the answer grows too long.
    pub(super) fn add(&mut self, chunk: &Value, asked: Asked) -> Result<(), LlmError> {
        let choices = chunk.get("choices").and_then(Value::as_array);
        let choice = choices.and_then(|them| them.iter().find(|it| is_first(it)));
        self.add_counts(chunk);
        self.fault(chunk, choice, asked)?;
        self.has_chunks = true;
        for (name, value) in
            [("model", &mut self.model), ("id", &mut self.id), ("provider", &mut self.provider)]
        {
            if let Some(text) = chunk.get(name).and_then(Value::as_str) {
                *value = capped(text, NAME_BYTES_MAX);
            }
        }
        if let Some(choice) = choice {
            self.add_choice(choice);
        }
        let bytes = self.text.len() + self.reasoning.len() + self.refusal.len();
        if bytes > ANSWER_BYTES_MAX {
            let why = format!("the answer is longer than {ANSWER_BYTES_MAX} bytes");
            return Err(LlmError::new(ErrorClass::Malformed, why));
        }
        Ok(())
    }

    /// True once there is a token.
    pub(super) fn has_begun(&self) -> bool {
        [&self.text, &self.reasoning, &self.refusal].iter().any(|text| !text.is_empty())
    }

    /// Says whether this is an answer; `is_done` when the server has said that nothing follows.
    ///
    /// # Errors
    /// `Unavailable` for a failed end, `Interrupted` for none, `Malformed` for an empty answer.
    pub(super) fn finish(mut self, is_done: bool, shown_bytes: u64) -> Result<Self, LlmError> {
        let finish_reason = self.finish_reason.clone().unwrap_or_default();
        if FAILED.contains(&finish_reason.as_str()) {
            let why = format!("the model's end is `{finish_reason}`");
            return Err(LlmError::new(ErrorClass::Unavailable, why).charged(self.charge()));
        }
        if self.has_chunks && !is_done && self.finish_reason.is_none() {
            let why = format!("the stream ended after {shown_bytes} bytes without a last chunk");
            // Some servers count while they answer: a count so far is no count.
            return Err(LlmError::new(ErrorClass::Interrupted, why));
        }
        if self.text.trim().is_empty() && !self.refusal.is_empty() {
            self.text = std::mem::take(&mut self.refusal);
            self.finish_reason = Some("refusal".to_owned());
            return Ok(self);
        }
        // An end that explains why nothing is there makes an answer of it.
        let explains = match Ending::of(&finish_reason) {
            Ending::CutOff | Ending::Refused => true,
            Ending::Other => false,
        };
        if explains || !self.text.trim().is_empty() {
            return Ok(self);
        }
        let end = if finish_reason.is_empty() { "none" } else { &finish_reason };
        let why = format!("an empty answer (finish reason: {end})");
        Err(LlmError::new(ErrorClass::Malformed, why).charged(self.charge()))
    }

    /// What a call cost that ended without an answer.
    fn charge(&self) -> Charge {
        let cost_nusd = self.cost_nusd;
        self.usage.map_or(Charge::Unknown, |usage| Charge::Known { usage, cost_nusd })
    }

    fn add_counts(&mut self, chunk: &Value) {
        let counts = [chunk.get("usage"), chunk.pointer("/x_groq/usage")];
        for value in counts.into_iter().flatten() {
            self.usage = usage(value).or(self.usage);
            self.cost_nusd = reported_cost_nusd(value).or(self.cost_nusd);
        }
    }

    fn fault(&self, chunk: &Value, choice: Option<&Value>, asked: Asked) -> Result<(), LlmError> {
        let is_error = |value: &Value| value.get("error").is_some_and(|it| !it.is_null());
        let of_choice = choice.filter(|it| is_error(it));
        let told =
            if is_error(chunk) || chunk.get("choices").is_none() { Some(chunk) } else { None };
        let Some(fault) = of_choice.or(told).and_then(Fault::of_json) else { return Ok(()) };
        let is_charged = self.has_begun() || self.usage.is_some();
        Err(in_answer(&fault, is_charged.then(|| self.charge()), asked))
    }

    fn add_choice(&mut self, choice: &Value) {
        let message = ["delta", "message"].iter().find_map(|name| choice.get(*name));
        let message = message.filter(|it| it.is_object()).unwrap_or(choice);
        for content in ["content", "text"].iter().filter_map(|name| message.get(*name)) {
            self.add_content(content);
        }
        if let Some(refusal) = message.get("refusal").and_then(Value::as_str) {
            self.refusal.push_str(refusal);
        }
        self.reasoning.push_str(&reasoning_of(message));
        // Some servers send an empty one with every chunk.
        let reason = choice.get("finish_reason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            self.finish_reason = Some(capped(reason, NAME_BYTES_MAX));
        }
    }

    /// Content is a text or a list of parts.
    fn add_content(&mut self, content: &Value) {
        match content {
            Value::String(text) => self.text.push_str(text),
            Value::Array(parts) => parts.iter().for_each(|part| self.add_part(part)),
            Value::Object(_) => self.add_part(content),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn add_part(&mut self, part: &Value) {
        if let Some(text) = part.as_str() {
            self.text.push_str(text);
            return;
        }
        let text = |name: &str| part.get(name).map(texts).unwrap_or_default();
        match part.get("type").and_then(Value::as_str).unwrap_or("text") {
            "refusal" => self.refusal.push_str(&text("refusal")),
            "thinking" | "reasoning" => {
                self.reasoning.push_str(&(text("thinking") + &text("reasoning") + &text("text")));
            }
            _ => self.text.push_str(&text("text")),
        }
    }
}

fn is_first(choice: &Value) -> bool {
    choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0
}

/// The reasoning in a message. Some servers say the same in several fields: the first counts.
fn reasoning_of(message: &Value) -> String {
    ["reasoning", "reasoning_content", "reasoning_details"]
        .iter()
        .filter_map(|name| message.get(*name))
        .map(texts)
        .find(|text| !text.is_empty())
        .unwrap_or_default()
}

/// The texts in a text, in a part, or in a list of parts.
fn texts(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(texts).collect(),
        Value::Object(part) => {
            let text = ["text", "summary"].iter().filter_map(|name| part.get(*name)?.as_str());
            text.collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    }
}
