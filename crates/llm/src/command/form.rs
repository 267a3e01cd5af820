//! What a program is given to read, and what its bytes and its end mean. Values only.

use std::borrow::Cow;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use pipeline::prompt::Message;
use pipeline::transcript::Usage;
use pipeline::visible::visible;
use serde::Serialize;
use serde_json::{Map, Value};

use super::process::{End, Finished};
use super::{CommandSettings, Outcome, PromptForm, ReplyForm};
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{COMMAND_INVALID_BYTES_SHARE, REPLY_BYTES_MAX};
use crate::model::{Price, Reply, Request};
use crate::told;

/// Version of the JSON prompt.
const PROMPT_VERSION: u32 = 1;

/// A question as the program gets it.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) input: Vec<u8>,
    /// Bytes of the messages.
    prompt_bytes: usize,
    limit_ms: u64,
}

#[derive(Serialize)]
struct JsonPrompt<'a> {
    prompt: u32,
    id: &'a str,
    task: &'a str,
    seq: u32,
    #[serde(rename = "try")]
    try_index: u32,
    messages: &'a [Message],
    output_tokens_max: u64,
    deadline_ms: u64,
}

impl Asked {
    pub(super) fn new(request: &Request, form: PromptForm, limit_ms: u64) -> Self {
        let messages = &request.prompt.messages;
        let mut input = match form {
            PromptForm::Text => text_prompt(messages),
            PromptForm::Json => json_prompt(request, limit_ms),
        };
        input.push('\n');
        let prompt_bytes = messages.iter().map(|message| message.content.len()).sum();
        Self { input: input.into_bytes(), prompt_bytes, limit_ms }
    }
}

fn text_prompt(messages: &[Message]) -> String {
    let texts = messages.iter().map(|message| message.content.trim_end_matches('\n'));
    texts.collect::<Vec<_>>().join("\n\n")
}

fn json_prompt(request: &Request, limit_ms: u64) -> String {
    let prompt = JsonPrompt {
        prompt: PROMPT_VERSION,
        id: &request.id,
        task: &request.task,
        seq: request.seq,
        try_index: request.try_index,
        messages: &request.prompt.messages,
        output_tokens_max: request.output_tokens_max,
        deadline_ms: limit_ms,
    };
    serde_json::to_string(&prompt).unwrap_or_default()
}

/// What a program that was started may have cost when it says nothing about it.
pub(super) fn charge(price: Price) -> Charge {
    match price {
        Price::Free | Price::Subscription => Charge::Nothing,
        Price::Unknown | Price::PerMillionTokens { .. } => Charge::Unknown,
    }
}

/// What became of a run.
pub(super) fn outcome(
    settings: &CommandSettings,
    asked: &Asked,
    finished: &Finished,
    latency_ms: u64,
) -> Outcome {
    let failed = |class, why: &str| {
        let why = format!("{}: {why}{}", settings.name, shown_stderr(&finished.stderr));
        let charge = charge_of(settings, finished, charge(settings.price));
        LlmError::new(class, why).charged(charge).of_program()
    };
    match finished.end {
        End::GivenUp => Err(failed(ErrorClass::Interrupted, "it was given up and killed")),
        End::Flood => {
            let why = format!("more than {REPLY_BYTES_MAX} bytes on stdout; it was killed");
            Err(failed(ErrorClass::Malformed, &why))
        }
        End::Deadline => {
            let why = format!("nothing within {} ms; it was killed", asked.limit_ms);
            Err(failed(ErrorClass::Deadline, &why))
        }
        End::Exited(Some(status)) if status.success() => reply(settings, asked, finished)
            .map(|reply| Reply { latency_ms, ..reply })
            .map_err(|why| failed(ErrorClass::Malformed, &why)),
        End::Exited(status) => {
            let (class, why) = exit(status);
            let error = failed(class, &why);
            Err(if is_before_any_cost(class) {
                error.charged(charge_of(settings, finished, Charge::Nothing))
            } else {
                error
            })
        }
    }
}

/// The class and words of an end without success. The numbers are those of sysexits.h.
fn exit(status: Option<ExitStatus>) -> (ErrorClass, String) {
    let code = status.and_then(|status| status.code());
    let class = match code {
        Some(64 | 65) => ErrorClass::Refused,
        Some(75) => ErrorClass::RateLimited,
        Some(77) => ErrorClass::Auth,
        Some(_) | None => ErrorClass::Unavailable,
    };
    let why = match (code, status.and_then(|status| status.signal())) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "it ended in an unknown way".to_owned(),
    };
    (class, why)
}

/// A program that ends with one of the numbered codes says that nothing was answered.
fn is_before_any_cost(class: ErrorClass) -> bool {
    matches!(class, ErrorClass::Refused | ErrorClass::RateLimited | ErrorClass::Auth)
}

/// What a failed run cost: as it says itself, otherwise `unsaid`.
fn charge_of(settings: &CommandSettings, finished: &Finished, unsaid: Charge) -> Charge {
    match (charge(settings.price), settings.reply_form) {
        (Charge::Nothing, _) => Charge::Nothing,
        (Charge::Unknown | Charge::Known { .. }, ReplyForm::Text) => unsaid,
        (Charge::Unknown | Charge::Known { .. }, ReplyForm::Json) => {
            let fields = object(&finished.stdout).unwrap_or_default();
            let cost_nusd = told::cost_nusd(&fields);
            usage_of(&fields).map_or(unsaid, |usage| Charge::Known { usage, cost_nusd })
        }
    }
}

fn reply(settings: &CommandSettings, asked: &Asked, finished: &Finished) -> Result<Reply, String> {
    let reply = match settings.reply_form {
        ReplyForm::Text => text_reply(settings, &finished.stdout)?,
        ReplyForm::Json => json_reply(settings, &finished.stdout)?,
    };
    if reply.text.trim().is_empty() {
        return Err("an empty reply".to_owned());
    }
    let estimate = Usage::estimate(asked.prompt_bytes, reply.text.len() + reply.reasoning.len());
    Ok(priced(reply, settings.price, estimate))
}

fn text_reply(settings: &CommandSettings, stdout: &[u8]) -> Result<Reply, String> {
    Ok(Reply {
        text: decoded(stdout)?.into_owned(),
        finish_reason: "stop".to_owned(),
        usage: None,
        model: settings.model.clone(),
        latency_ms: 0,
        cost_nusd: None,
        drift: false,
        reasoning: String::new(),
        http_log: String::new(),
    })
}

fn json_reply(settings: &CommandSettings, stdout: &[u8]) -> Result<Reply, String> {
    let fields = object(stdout)?;
    let text = match fields.get("reply") {
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err("the field \"reply\" on stdout is no text".to_owned()),
        None => return Err("the object on stdout has no field \"reply\"".to_owned()),
    };
    let or =
        |name: &str, default: &str| told::text(&fields, name).unwrap_or_else(|| default.to_owned());
    Ok(Reply {
        text,
        finish_reason: or("finish_reason", "stop"),
        usage: usage_of(&fields),
        model: or("model", &settings.model),
        latency_ms: 0,
        cost_nusd: told::cost_nusd(&fields),
        drift: false,
        reasoning: or("reasoning", ""),
        http_log: String::new(),
    })
}

/// Completes what the program told: what costs nothing costs nothing; what costs something and was
/// not counted stays uncounted, so that its worst case is booked.
fn priced(reply: Reply, price: Price, estimate: Usage) -> Reply {
    let known = match charge(price) {
        Charge::Nothing => Some(0),
        Charge::Unknown | Charge::Known { .. } => {
            reply.cost_nusd.or_else(|| price.cost_nusd(reply.usage?))
        }
    };
    let usage = reply.usage.or_else(|| known.map(|_| estimate));
    Reply { usage, cost_nusd: known, ..reply }
}

fn usage_of(fields: &Map<String, Value>) -> Option<Usage> {
    told::usage(fields.get("usage")?.as_object()?)
}

fn object(stdout: &[u8]) -> Result<Map<String, Value>, String> {
    let text = decoded(stdout)?;
    if text.trim().is_empty() {
        return Err("an empty reply".to_owned());
    }
    serde_json::from_str(&text).map_err(|error| format!("stdout is no JSON object: {error}"))
}

/// Text with a replacement character for each stray byte, unless there are too many of them.
fn decoded(bytes: &[u8]) -> Result<Cow<'_, str>, String> {
    let stray: usize = bytes.utf8_chunks().map(|chunk| chunk.invalid().len()).sum();
    if stray * COMMAND_INVALID_BYTES_SHARE > bytes.len() {
        return Err(format!("{stray} of {} bytes on stdout are no UTF-8", bytes.len()));
    }
    Ok(String::from_utf8_lossy(bytes))
}

/// Text without the sequences that colour it on a terminal: written out, their last letter would be
/// part of the next word, and a key that begins there would not be known as one.
fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let parameters = part.len() - part.trim_start_matches(|c| (' '..='?').contains(&c)).len();
        plain.extend(part[parameters..].chars().skip(1));
    }
    plain
}

fn shown_stderr(tail: &[u8]) -> String {
    let text = visible(&without_colours(&String::from_utf8_lossy(tail)));
    match text.trim() {
        "" => String::new(),
        text => format!("; its stderr ends with: {text}"),
    }
}
