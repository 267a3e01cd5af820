//! The lines of a batch's files, its metadata and its state: from and to JSON, nothing else.

use std::collections::HashMap;

use pipeline::limits::capped;
use pipeline::visible::visible;
use serde_json::{Map, Value, json};

use super::super::answer::Answer;
use super::super::calls::Outcome;
use super::super::failure::{Asked, Fault, in_answer, of_response};
use super::super::usage::cost_nusd;
use super::super::{Caller, body};
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{
    BATCH_IDS_KEYS_MAX, BATCH_LINES_MAX, BATCH_METADATA_CHARS_MAX, BATCH_REQUESTS_MAX,
    NAME_BYTES_MAX,
};
use crate::model::{Reply, Request};

/// What every request of a batch asks for.
pub(super) const ENDPOINT: &str = "/v1/chat/completions";
/// The key of the metadata that marks a batch as one of ours; its value names the batch.
pub(super) const MARK: &str = "warpwright";
const IDS: &str = "ids_";
/// Where a server says when a batch ended.
const ENDS: [&str; 4] = ["completed_at", "expired_at", "cancelled_at", "failed_at"];
/// Codes of requests that a batch did not run.
const NOT_RUN: [&str; 3] = ["batch_expired", "batch_cancelled", "request_not_executed"];

/// A request as a line of a batch's file.
pub(super) fn line(caller: &Caller, request: &Request) -> Vec<u8> {
    let body = body::of(&caller.settings, request);
    let line = json!({ "custom_id": request.id, "method": "POST", "url": ENDPOINT, "body": body });
    format!("{line}\n").into_bytes()
}

/// Metadata that names a batch and its requests; `None` where they do not fit into it.
pub(super) fn metadata(mark: &str, ids: &[&str]) -> Option<Map<String, Value>> {
    let mut values: Vec<String> = Vec::new();
    for id in ids {
        match values.last_mut() {
            Some(last) if last.len() + 1 + id.len() <= BATCH_METADATA_CHARS_MAX => {
                last.push(' ');
                last.push_str(id);
            }
            Some(_) | None => values.push((*id).to_owned()),
        }
    }
    let whole = values.iter().all(|value| value.len() <= BATCH_METADATA_CHARS_MAX);
    if !whole || values.len() > BATCH_IDS_KEYS_MAX || ids.len() > BATCH_REQUESTS_MAX {
        return None;
    }
    let keyed =
        (0..).zip(values).map(|(at, value): (usize, _)| (format!("{IDS}{at}"), value.into()));
    Some([(MARK.to_owned(), mark.into())].into_iter().chain(keyed).collect())
}

/// True for an id that metadata can name.
pub(super) fn can_be_named(id: &str) -> bool {
    let fits = id.len() <= BATCH_METADATA_CHARS_MAX;
    fits && !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_graphic())
}

/// A batch as the server describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) id: String,
    pub(super) status: String,
    /// Ours alone have one.
    pub(super) mark: Option<String>,
    /// The requests that its metadata names.
    pub(super) ids: Vec<String>,
    pub(super) created_s: Option<i64>,
    /// When it ended, however.
    ended_s: Option<i64>,
    pub(super) output_file: Option<String>,
    pub(super) error_file: Option<String>,
    /// Why it failed as a whole.
    errors: Vec<Value>,
    /// Requests that it ran, well or not, where the server counts them.
    run: Option<u64>,
}

/// What the files of a batch say.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) outcomes: HashMap<String, Outcome>,
    /// True where a line does not read, or where there are more than are read: it may be anybody's.
    pub(super) some_unread: bool,
}

/// How far a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    UnderWay,
    /// Every request has its line.
    Completed,
    /// It ended before every request was run.
    CutShort,
    /// It was refused as a whole.
    Failed,
}

impl Seen {
    /// Reads a batch; `None` where it has no id.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let text = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let metadata = value.get("metadata").and_then(Value::as_object);
        let of_key = |key: &str| metadata.and_then(|them| them.get(key)?.as_str());
        let ids = (0..BATCH_IDS_KEYS_MAX).filter_map(|at| of_key(&format!("{IDS}{at}")));
        let errors = value.pointer("/errors/data").and_then(Value::as_array);
        let count = |name: &str| value.get("request_counts")?.get(name)?.as_u64();
        let run = count("completed").zip(count("failed"));
        Some(Self {
            id: capped(value.get("id")?.as_str()?, NAME_BYTES_MAX),
            status: text("status").unwrap_or_default(),
            mark: of_key(MARK).map(str::to_owned),
            ids: ids.flat_map(str::split_whitespace).map(str::to_owned).collect(),
            created_s: value.get("created_at").and_then(Value::as_i64),
            ended_s: ENDS.iter().find_map(|name| value.get(*name)?.as_i64()),
            output_file: text("output_file_id").filter(|id| !id.is_empty()),
            error_file: text("error_file_id").filter(|id| !id.is_empty()),
            errors: errors.into_iter().flatten().take(BATCH_LINES_MAX).cloned().collect(),
            run: run.map(|(completed, failed)| completed.saturating_add(failed)),
        })
    }

    pub(super) fn stage(&self) -> Stage {
        match self.status.as_str() {
            "completed" => Stage::Completed,
            "expired" | "cancelled" => Stage::CutShort,
            "failed" => Stage::Failed,
            _ => Stage::UnderWay,
        }
    }

    /// What became of a request without a line of its own; `line` is its number in the file. Unless
    /// the files account for all that was run, it may have been, and is paid for.
    pub(super) fn without_line(
        &self,
        caller: &Caller,
        lines: &Lines,
        line: Option<usize>,
    ) -> LlmError {
        let (id, status) = (&self.id, &self.status);
        let said = lines.outcomes.values().filter(|outcome| was_run(outcome)).count() as u64;
        let all_said = !lines.some_unread && self.run.is_some_and(|run| said >= run);
        match self.stage() {
            Stage::Completed | Stage::UnderWay => {
                let why = format!("the batch {id} is {status} and says nothing of this request");
                LlmError::new(ErrorClass::Malformed, why).charged(Charge::Unknown)
            }
            Stage::CutShort if all_said => {
                let why = format!("the batch {id} is {status}, and this request was not run");
                LlmError::new(ErrorClass::Deadline, why).charged(Charge::Nothing)
            }
            Stage::CutShort => {
                let why = format!(
                    "the batch {id} is {status} and says nothing readable of this request, which \
                     may have been run"
                );
                LlmError::new(ErrorClass::Deadline, why).charged(Charge::Unknown)
            }
            // Something was run after all.
            Stage::Failed
                if said > 0 || lines.some_unread || self.run.is_some_and(|run| run > 0) =>
            {
                self.failure(caller, line).charged(Charge::Unknown)
            }
            Stage::Failed => self.failure(caller, line),
        }
    }

    /// A batch fails as a whole for what one line of it is, or for what concerns all of them.
    fn failure(&self, caller: &Caller, line: Option<usize>) -> LlmError {
        let number = |error: &&Value| error.get("line").and_then(Value::as_u64);
        let own = self.errors.iter().find(|error| {
            number(error).is_some_and(|at| line.is_some_and(|line| line as u64 + 1 == at))
        });
        let general = self.errors.iter().find(|error| number(error).is_none());
        let fault = |error: &Value| Fault::of_json(&json!({ "error": error }));
        let Some(fault) = own.or(general).and_then(fault) else {
            let why = format!("the batch {} failed for another request of it", self.id);
            return LlmError::new(ErrorClass::Unavailable, why).charged(Charge::Nothing);
        };
        let address = caller.endpoint.shown();
        let asked = Asked { model: &caller.settings.model, address: &address };
        let error = in_answer(&fault, Some(Charge::Nothing), asked);
        let code = self.errors.iter().find_map(|error| error.get("code")?.as_str());
        match (own, code) {
            // Too much in the server's queue: later it fits.
            (_, Some("token_limit_exceeded")) => {
                LlmError::new(ErrorClass::RateLimited, error.to_string())
            }
            (Some(_), _) if error.class() == ErrorClass::Unavailable => {
                LlmError::new(ErrorClass::Refused, error.to_string())
            }
            (Some(_) | None, _) => error,
        }
    }
}

impl Lines {
    /// Adds what the lines of a file say, by request.
    pub(super) fn add(&mut self, caller: &Caller, seen: &Seen, text: &[u8]) {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        for (number, line) in lines.enumerate() {
            if number >= BATCH_LINES_MAX {
                self.some_unread = true;
                return;
            }
            let value: Value = serde_json::from_slice(line).unwrap_or_default();
            match value.get("custom_id").and_then(Value::as_str) {
                Some(id) => {
                    let outcome = outcome(caller, seen, &value, line.len() as u64);
                    let outcome = outcome.map_err(|error| caller.shown(error));
                    self.outcomes.insert(id.to_owned(), outcome);
                }
                None => self.some_unread = true,
            }
        }
    }
}

fn outcome(caller: &Caller, seen: &Seen, value: &Value, bytes: u64) -> Outcome {
    let address = caller.endpoint.shown();
    let asked = Asked { model: &caller.settings.model, address: &address };
    let response = value.get("response").filter(|response| response.is_object());
    let Some(response) = response else { return Err(without_response(value, asked)) };
    let status = response.get("status_code").and_then(Value::as_u64).unwrap_or(0);
    let body = response.get("body").cloned().unwrap_or_default();
    match u16::try_from(status).unwrap_or(0) {
        200..=299 => {
            let mut answer = Answer::default();
            answer.add(&body, asked)?;
            let answer = answer.finish(true, bytes)?;
            Ok(reply(caller, seen, value, answer))
        }
        status => Err(of_response(status, &body.to_string(), None, asked)),
    }
}

/// False for what a line says was not run, which is in no count of what was.
fn was_run(outcome: &Outcome) -> bool {
    outcome.as_ref().err().is_none_or(|error| {
        (error.class(), error.charge()) != (ErrorClass::Deadline, Charge::Nothing)
    })
}

fn without_response(value: &Value, asked: Asked) -> LlmError {
    let error = value.get("error").cloned().unwrap_or_default();
    let code = error.get("code").and_then(Value::as_str).unwrap_or_default();
    if NOT_RUN.contains(&code) {
        let why = format!("the batch did not run this request ({code})");
        return LlmError::new(ErrorClass::Deadline, why).charged(Charge::Nothing);
    }
    match Fault::of_json(&json!({ "error": error })) {
        Some(fault) => in_answer(&fault, Some(Charge::Nothing), asked),
        None => LlmError::new(ErrorClass::Malformed, "a line has neither an answer nor an error"),
    }
}

fn reply(caller: &Caller, seen: &Seen, value: &Value, answer: Answer) -> Reply {
    let text = |path: &str| value.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let log = json!({
        "url": caller.endpoint.shown(),
        "batch": seen.id,
        "status": value.pointer("/response/status_code"),
        "request_id": capped(text("/response/request_id"), NAME_BYTES_MAX),
        "id": answer.id,
        "provider": answer.provider,
    });
    let model = visible(&answer.model);
    let taken_s = seen.created_s.zip(seen.ended_s).map(|(from, to)| to.saturating_sub(from));
    Reply {
        text: answer.text,
        finish_reason: visible(&answer.finish_reason.unwrap_or_default()),
        usage: answer.usage,
        model: if model.is_empty() { caller.settings.model.clone() } else { model },
        latency_ms: u64::try_from(taken_s.unwrap_or(0)).unwrap_or(0).saturating_mul(1_000),
        cost_nusd: cost_nusd(answer.cost_nusd, caller.settings.price, answer.usage),
        drift: false,
        reasoning: answer.reasoning,
        http_log: caller.endpoint.redacted(&log.to_string()),
    }
}

/// A failure of a whole batch, before anything of it was run: no request of it was refused for what
/// it asks.
pub(super) fn of_all(error: LlmError) -> LlmError {
    let error = match error.class() {
        ErrorClass::Refused => LlmError::new(ErrorClass::Unavailable, error.to_string()),
        _ => error,
    };
    error.charged(Charge::Nothing)
}

#[cfg(test)]
mod tests {
    use super::{BATCH_REQUESTS_MAX, Seen, can_be_named, metadata};

    #[test]
    fn metadata_names_every_request_within_the_servers_limits() {
        let id = |n: usize| format!("0190f1c2-0000-7000-8000-{n:012}");
        for (count, fits) in
            [(1, true), (BATCH_REQUESTS_MAX, true), (BATCH_REQUESTS_MAX + 1, false)]
        {
            let ids: Vec<_> = (0..count).map(id).collect();
            let names: Vec<_> = ids.iter().map(String::as_str).collect();
            let Some(found) = metadata("m", &names) else {
                assert!(!fits, "{count}");
                continue;
            };
            assert!(fits && found.len() <= 16, "{count}: {}", found.len());
            assert!(found.values().all(|value| value.as_str().unwrap().len() <= 512));
            let value = serde_json::json!({ "id": "b", "metadata": found });
            assert_eq!(Seen::of(&value).unwrap().ids, ids);
        }
        assert_eq!(metadata("m", &[&"x".repeat(513)]), None);
        for (id, named) in [("a-1", true), ("", false), ("a b", false), ("ä", false)] {
            assert_eq!(can_be_named(id), named, "{id}");
        }
    }
}
