//! Kernels that a person hands over: JSON lines, or paths. Reading them, and nothing else.
//!
//! What cannot be read is a kernel with a reason instead of a reply, so that one bad line never
//! stops the others. Start at [`read_lines`].

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use pipeline::limits::{PLAN_BYTES_MAX, REPLY_BYTES_MAX, SOURCE_BYTES_MAX};
use pipeline::reply::compose;
use serde::Deserialize;
use serde_json::Value;

use crate::limits::{KERNEL_LINE_BYTES_MAX, KERNELS_MAX};
use crate::wiring::read_candidate;

/// One kernel as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Given {
    /// Number of the line, or of the path.
    pub(crate) line: u64,
    /// What the person calls it.
    pub(crate) id: Option<String>,
    /// As a model would reply, or why there is none.
    pub(crate) reply: Result<String, String>,
}

/// The forms of a line, all in one so that a mixture is named.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: Option<String>,
    reply: Option<String>,
    source: Option<String>,
    plan: Option<String>,
    path: Option<PathBuf>,
}

/// Reads lines until the input ends or `each` wants no more; blank ones are skipped.
pub(crate) fn read_lines(input: impl Read, mut each: impl FnMut(Given) -> bool) {
    let mut input = BufReader::new(input);
    let mut bytes = Vec::new();
    let mut kernels = 0;
    for line in 1.. {
        let given = match next_line(&mut input, &mut bytes) {
            Ok(false) => return,
            Ok(true) if bytes.trim_ascii().is_empty() => continue,
            Ok(true) if kernels == KERNELS_MAX => last(line, &too_many()),
            Ok(true) => of_line(line, &bytes),
            Err(error) => last(line, &format!("the input cannot be read: {error}")),
        };
        kernels += 1;
        let over = given.1;
        if !each(given.0) || over {
            return;
        }
    }
}

/// Reads candidates, which are called by their paths.
pub(crate) fn read_paths(paths: &[PathBuf], mut each: impl FnMut(Given) -> bool) {
    for (path, line) in paths.iter().zip(1..) {
        let reply = of_path(path);
        let id = Some(path.display().to_string());
        if !each(Given { line, id, reply }) {
            return;
        }
    }
}

fn too_many() -> String {
    format!("one call judges at most {KERNELS_MAX} kernels; give the rest to another one")
}

/// A line after which nothing is read, and that this is so.
fn last(line: u64, why: &str) -> (Given, bool) {
    (Given { line, id: None, reply: Err(why.to_owned()) }, true)
}

/// Reads a line without its end; false when there is none. Of one that is too long only so much is
/// kept that its length shows.
fn next_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<bool> {
    line.clear();
    let mut read = false;
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        if available.is_empty() {
            return Ok(read);
        }
        read = true;
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = &available[..end.unwrap_or(available.len())];
        let room = (KERNEL_LINE_BYTES_MAX + 1).saturating_sub(line.len());
        line.extend_from_slice(&part[..part.len().min(room)]);
        let used = part.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}

fn of_line(line: u64, bytes: &[u8]) -> (Given, bool) {
    let (id, reply) = match parse(bytes) {
        Ok(value) => {
            let id = value.get("id").and_then(Value::as_str).map(str::to_owned);
            (id, reply_of(value))
        }
        Err(why) => (None, Err(why)),
    };
    (Given { line, id, reply }, false)
}

fn parse(bytes: &[u8]) -> Result<Value, String> {
    if bytes.len() > KERNEL_LINE_BYTES_MAX {
        return Err(format!("the line is longer than {KERNEL_LINE_BYTES_MAX} bytes"));
    }
    let text = std::str::from_utf8(bytes).map_err(|_| "the line is not UTF-8 text".to_owned())?;
    let value = serde_json::from_str(text).map_err(|error| format!("no JSON: {error}"))?;
    match value {
        Value::Object(_) => Ok(value),
        _ => Err(format!("the line is no JSON object; {FORMS}")),
    }
}

const FORMS: &str = "write {\"reply\": …}, {\"source\": …, \"plan\": …} or {\"path\": …}";

fn reply_of(value: Value) -> Result<String, String> {
    let line: Line = serde_json::from_value(value).map_err(|error| format!("{error}; {FORMS}"))?;
    let _ = line.id;
    match (line.reply, line.source, line.plan, line.path) {
        (Some(reply), None, None, None) => {
            within("reply", &reply, REPLY_BYTES_MAX)?;
            Ok(reply)
        }
        (None, Some(source), Some(plan), None) => {
            within("source", &source, SOURCE_BYTES_MAX)?;
            within("plan", &plan, PLAN_BYTES_MAX)?;
            Ok(compose(&source, &plan))
        }
        (None, None, None, Some(path)) => of_path(&path),
        _ => Err(FORMS.to_owned()),
    }
}

fn within(field: &str, text: &str, bytes_max: usize) -> Result<(), String> {
    if text.len() <= bytes_max {
        return Ok(());
    }
    Err(format!("`{field}` has {} bytes, at most {bytes_max}", text.len()))
}

fn of_path(path: &Path) -> Result<String, String> {
    read_candidate(path).map_err(|error| format!("{error:#}"))
}

#[cfg(test)]
mod tests {
    use super::{Given, KERNEL_LINE_BYTES_MAX, read_lines};

    fn read(input: &[u8]) -> Vec<Given> {
        let mut found = Vec::new();
        read_lines(input, |given| {
            found.push(given);
            true
        });
        found
    }

    #[test]
    fn each_line_is_a_kernel_or_a_reason() {
        for (line, id, part) in [
            (r#"{"reply": "text"}"#, None, Ok("text")),
            (r#"{"id": "a", "reply": ""}"#, Some("a"), Ok("")),
            (r#"{"id": "", "source": "s", "plan": "p"}"#, Some(""), Ok("```cuda\ns\n```\n")),
            ("  {\"reply\": \"x\"}\r", None, Ok("x")),
            (r#"{"path": "/absent.md"}"#, None, Err("/absent.md")),
            (r#"{"id": "a", "source": "s"}"#, Some("a"), Err("write {\"reply\": …}")),
            (r#"{"reply": "r", "path": "p"}"#, None, Err("write {\"reply\": …}")),
            (r#"{"id": "a", "replay": "r"}"#, Some("a"), Err("unknown field `replay`")),
            (r#"{"id": 7, "reply": "r"}"#, None, Err("invalid type: integer `7`")),
            (r#"{"reply": ["r"]}"#, None, Err("expected a string")),
            ("{}", None, Err("write {\"reply\": …}")),
            ("[]", None, Err("no JSON object")),
            ("hello", None, Err("no JSON: expected value")),
            (r#"{"reply": "#, None, Err("no JSON: EOF")),
        ] {
            let found = read(line.as_bytes());
            assert_eq!(found.len(), 1, "{line}");
            assert_eq!((found[0].line, found[0].id.as_deref()), (1, id), "{line}");
            match (&found[0].reply, part) {
                (Ok(text), Ok(part)) => assert!(text.starts_with(part), "{line}: {text}"),
                (Err(why), Err(part)) => assert!(why.contains(part), "{line}: {why}"),
                (found, _) => panic!("{line}: {found:?}"),
            }
        }
    }

    #[test]
    fn blank_lines_count_and_are_skipped() {
        let lines: Vec<_> = read(b"\n\n{\"reply\":\"a\"}\n \t\r\n{\"reply\":\"b\"}")
            .iter()
            .map(|it| it.line)
            .collect();
        assert_eq!(lines, [3, 5]);
        assert_eq!(read(b""), []);
    }

    #[test]
    fn what_is_too_long_or_no_text_is_named_and_the_next_line_is_read() {
        let long = [b"{\"reply\":\"".as_slice(), &vec![b'a'; KERNEL_LINE_BYTES_MAX]].concat();
        let many = format!("{{\"reply\":\"{}\"}}", "a".repeat(600_000));
        let input =
            [&long, b"\n\xff\n".as_slice(), many.as_bytes(), b"\n{\"reply\":\"a\"}"].concat();
        let found = read(&input);
        let whys = ["longer than 4194304 bytes", "not UTF-8", "`reply` has 600000 bytes, at most"];
        for (given, part) in found.iter().zip(whys) {
            assert!(given.reply.as_ref().unwrap_err().contains(part), "{given:?}");
        }
        assert_eq!((found.len(), found[3].line), (4, 4));
    }

    #[test]
    fn reading_ends_when_nobody_wants_more() {
        let mut seen = 0;
        read_lines(b"{}\n{}\n{}".as_slice(), |_| {
            seen += 1;
            seen < 2
        });
        assert_eq!(seen, 2);
    }
}
