//! Transcripts: recorded replies as JSON lines, for replay without a model.

use serde::{Deserialize, Serialize};

use crate::limits::{RECORDED_COUNT_MAX, TRANSCRIPT_ENTRIES_MAX, TRANSCRIPT_LINE_BYTES_MAX};

/// One recorded exchange. Entries are matched by (task, seq); several for one pair are tries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    pub task: String,
    pub seq: u32,
    pub mode: String,
    /// Hash of the prompt that was answered; empty when it was not recorded.
    #[serde(default)]
    pub prompt_hash: String,
    #[serde(default)]
    pub reply: String,
    #[serde(default)]
    pub finish_reason: String,
    #[serde(default)]
    pub usage: Usage,
    #[serde(default)]
    pub model: String,
    #[serde(default)]
    pub latency_ms: u64,
    /// A provider failure to replay instead of a reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Tokens of one call, as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Usage {
    /// Cached ones included.
    #[serde(default)]
    pub input_tokens: u64,
    /// Reasoning included.
    #[serde(default)]
    pub output_tokens: u64,
    /// Input tokens that the provider had cached.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cached_input_tokens: u64,
    /// Output tokens that were reasoning.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reasoning_tokens: u64,
    /// True when nobody counted and the numbers are guessed from the texts' lengths.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub estimated: bool,
}

impl Usage {
    /// So many tokens, none of them cached or reasoning.
    #[must_use]
    pub const fn of(input_tokens: u64, output_tokens: u64) -> Self {
        Self {
            input_tokens,
            output_tokens,
            cached_input_tokens: 0,
            reasoning_tokens: 0,
            estimated: false,
        }
    }

    /// Guesses from texts: about 3.5 bytes a token.
    #[must_use]
    pub fn estimate(input_bytes: usize, output_bytes: usize) -> Self {
        let tokens = |bytes: usize| (bytes as u64 * 2).div_ceil(7);
        Self { estimated: true, ..Self::of(tokens(input_bytes), tokens(output_bytes)) }
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Why a file is not a transcript.
#[derive(Debug, thiserror::Error)]
pub enum TranscriptError {
    #[error("the first line must be {{\"transcript\":1}}")]
    NoHeader,
    #[error("transcript format {0} is not one this program reads; it reads 1")]
    Version(u64),
    #[error("line {line}: {why}")]
    Line { line: usize, why: String },
    #[error("more than {TRANSCRIPT_ENTRIES_MAX} entries")]
    TooMany,
}

/// Reads a transcript.
///
/// # Errors
/// Names the line that is not an entry.
pub fn parse(text: &str) -> Result<Vec<Entry>, TranscriptError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let (_, header) = lines.next().ok_or(TranscriptError::NoHeader)?;
    check_header(header)?;
    let mut entries = Vec::new();
    for (index, line) in lines {
        if entries.len() >= TRANSCRIPT_ENTRIES_MAX {
            return Err(TranscriptError::TooMany);
        }
        entries.push(parse_line(index + 1, line)?);
    }
    Ok(entries)
}

/// Writes a transcript that [`parse`] reads back.
#[must_use]
pub fn write(entries: &[Entry]) -> String {
    let lines = entries.iter().map(|entry| serde_json::to_string(entry).unwrap_or_default());
    let mut text = "{\"transcript\":1}\n".to_owned();
    lines.for_each(|line| {
        text.push_str(&line);
        text.push('\n');
    });
    text
}

fn check_header(line: &str) -> Result<(), TranscriptError> {
    let value: serde_json::Value =
        serde_json::from_str(line).map_err(|_| TranscriptError::NoHeader)?;
    match value.get("transcript").and_then(serde_json::Value::as_u64) {
        Some(1) => Ok(()),
        Some(version) => Err(TranscriptError::Version(version)),
        None => Err(TranscriptError::NoHeader),
    }
}

fn parse_line(number: usize, line: &str) -> Result<Entry, TranscriptError> {
    let failed = |why: String| TranscriptError::Line { line: number, why };
    if line.len() > TRANSCRIPT_LINE_BYTES_MAX {
        return Err(failed(format!("longer than {TRANSCRIPT_LINE_BYTES_MAX} bytes")));
    }
    let entry: Entry = serde_json::from_str(line).map_err(|error| {
        let text = error.to_string();
        // The parser counts lines within this one line.
        failed(text.split(" at line ").next().unwrap_or(&text).to_owned())
    })?;
    let Usage { input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, .. } =
        entry.usage;
    let counts =
        [input_tokens, output_tokens, cached_input_tokens, reasoning_tokens, entry.latency_ms];
    match counts.iter().find(|count| **count > RECORDED_COUNT_MAX) {
        Some(count) => Err(failed(format!("{count} is larger than {RECORDED_COUNT_MAX}"))),
        None => Ok(entry),
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Usage, parse, write};

    #[test]
    fn round_trips_and_names_the_bad_line() {
        let entry = Entry {
            task: "softmax_rows".to_owned(),
            seq: 1,
            mode: "first".to_owned(),
            prompt_hash: String::new(),
            reply: "text\nwith ```fences```".to_owned(),
            finish_reason: "stop".to_owned(),
            usage: Usage::of(3, 4),
            model: "recorded".to_owned(),
            latency_ms: 5,
            error: None,
        };
        let text = write(std::slice::from_ref(&entry));
        assert_eq!(parse(&text).unwrap(), vec![entry]);
        for (text, part) in [
            ("", "first line"),
            ("{\"transcript\":2}", "format 2"),
            ("{\"transcript\":1}\n\n{}", "line 3"),
            ("{\"transcript\":1}\nnot json", "line 2"),
        ] {
            assert!(parse(text).unwrap_err().to_string().contains(part), "{text}");
        }
        let slow = text.replace("\"latency_ms\":5", "\"latency_ms\":99999999999999");
        let error = parse(&slow).unwrap_err().to_string();
        assert!(error.contains("line 2: 99999999999999 is larger"), "{error}");
    }
}
