//! A question as text: once for programs, once for people. Values only.

use std::time::{SystemTime, UNIX_EPOCH};

use pipeline::prompt::Message;
use serde::{Deserialize, Serialize};

use crate::limits::REPLY_BYTES_MAX;
use crate::model::Request;

/// Version of the JSON form.
const VERSION: u32 = 1;

/// When a question was asked, and until when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) deadline_ms: Option<u64>,
    pub(super) created: SystemTime,
}

#[derive(Serialize)]
struct Question<'a> {
    mailbox: u32,
    id: &'a str,
    task: &'a str,
    seq: u32,
    #[serde(rename = "try")]
    try_index: u32,
    mode: &'a str,
    prompt_hash: &'a str,
    created: String,
    output_tokens_max: u64,
    deadline_ms: Option<u64>,
    messages: &'a [Message],
}

/// The question for programs.
pub(super) fn json(request: &Request, limits: &Limits) -> String {
    let hash = request.prompt.hash();
    let question = Question {
        mailbox: VERSION,
        id: &request.id,
        task: &request.task,
        seq: request.seq,
        try_index: request.try_index,
        mode: request.prompt.mode.name(),
        prompt_hash: hash.as_str(),
        created: utc(limits.created),
        output_tokens_max: request.output_tokens_max,
        deadline_ms: limits.deadline_ms,
        messages: &request.prompt.messages,
    };
    serde_json::to_string_pretty(&question).unwrap_or_default() + "\n"
}

/// Bytes of the messages of a question that [`json`] wrote; nothing where they cannot be read.
pub(super) fn message_bytes(json: &[u8]) -> usize {
    #[derive(Deserialize)]
    struct Asked {
        messages: Vec<Message>,
    }
    let asked = serde_json::from_slice::<Asked>(json);
    asked.map_or(0, |asked| asked.messages.iter().map(|message| message.content.len()).sum())
}

/// The question for people.
pub(super) fn readable(request: &Request, limits: &Limits) -> String {
    let Request { id, task, seq, output_tokens_max, .. } = request;
    let (mode, created) = (request.prompt.mode.name(), utc(limits.created));
    let deadline = limits.deadline_ms.map_or_else(
        || "there is no deadline".to_owned(),
        |limit_ms| format!("answer within {} s", limit_ms.div_ceil(1_000)),
    );
    let mut text = format!(
        "# {task}, attempt {seq} ({mode})\n\n\
         A question to a language model; answer it as one would, in Markdown.\n\n\
         - Answer: write to `{id}.reply.md.tmp` beside this file, then rename it to \
         `{id}.reply.md`.\n\
         - Or refuse: write why into `{id}.refuse`.\n\
         - Optional, before the answer: `{id}.usage.json` with \
         `{{\"input_tokens\": 1, \"output_tokens\": 2}}`.\n\
         - At most {output_tokens_max} tokens and {REPLY_BYTES_MAX} bytes.\n\
         - Asked {created}; {deadline}.\n\n---\n"
    );
    for message in &request.prompt.messages {
        let (role, content) = (message.role.name(), message.content.trim_end_matches('\n'));
        text += &format!("\n## {role}\n\n{content}\n");
    }
    text
}

/// A time as RFC 3339 in UTC, in whole seconds; the epoch for times before it.
fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day since 1970, by 400-year eras that begin on the first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + later, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::{Limits, json, message_bytes, readable, utc};
    use crate::conformance::request;

    #[test]
    fn times_are_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_251_199, "2024-02-29T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (1_795_973_526, "2026-11-29T17:32:06Z"),
        ] {
            assert_eq!(utc(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn both_forms_say_everything() {
        let limits = Limits { deadline_ms: Some(90_001), created: UNIX_EPOCH };
        let asked = request("soft\"max", 3, 1);
        let text = json(&asked, &limits);
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        let wanted = serde_json::json!({
            "mailbox": 1, "id": "soft\"max-3-1", "task": "soft\"max", "seq": 3, "try": 1,
            "mode": "first", "prompt_hash": asked.prompt.hash().as_str(),
            "created": "1970-01-01T00:00:00Z", "output_tokens_max": 1_000, "deadline_ms": 90_001,
            "messages": [
                {"role": "system", "content": "be exact"}, {"role": "user", "content": "a kernel"},
            ],
        });
        assert_eq!(found, wanted);
        assert_eq!(message_bytes(text.as_bytes()), "be exacta kernel".len());
        assert_eq!(message_bytes(b"{\"messages\":7}"), 0);
        let text = readable(&request("t", 3, 1), &limits);
        for part in [
            "# t, attempt 3 (first)\n",
            "`t-3-1.reply.md.tmp`",
            "`t-3-1.reply.md`",
            "`t-3-1.refuse`",
            "`t-3-1.usage.json`",
            "At most 1000 tokens and 1048576 bytes",
            "Asked 1970-01-01T00:00:00Z; answer within 91 s.",
            "\n---\n\n## system\n\nbe exact\n\n## user\n\na kernel\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let endless = readable(&request("t", 3, 1), &Limits { deadline_ms: None, ..limits });
        assert!(endless.contains("there is no deadline"));
    }
}
