//! Reads bytes as if a server had sent them: what a fuzzer calls.

use serde_json::Value;

use super::answer::Answer;
use super::failure::{Asked, of_response};
use super::lines::Lines;

const ASKED: Asked<'static> = Asked { model: "model", address: "host/v1" };

/// Reads `bytes` as a stream that comes in two pieces, as a whole answer and as the body of errors.
/// Gives the text of the answer.
pub(crate) fn read(bytes: &[u8], cut: usize) -> String {
    let (first, second) = bytes.split_at(cut.min(bytes.len()));
    let mut lines = Lines::default();
    let mut regular = Vec::new();
    for piece in [first, second] {
        match lines.feed(piece) {
            Ok(found) => regular.extend(found.bytes),
            Err(_) => return String::new(),
        }
    }
    regular.extend(lines.end().bytes);
    let mut answer = Answer::default();
    let text = String::from_utf8_lossy(&regular);
    for data in text.lines().filter_map(|line| line.strip_prefix("data: ")) {
        let Ok(chunk) = serde_json::from_str::<Value>(data) else { continue };
        if answer.add(&chunk, ASKED).is_err() {
            break;
        }
    }
    if let Ok(whole) = serde_json::from_slice::<Value>(bytes) {
        let mut alone = Answer::default();
        let _ = alone.add(&whole, ASKED).and_then(|()| alone.finish(true, bytes.len() as u64));
    }
    for status in [302, 400, 404, 429, 500, 599] {
        let body = String::from_utf8_lossy(bytes);
        let _ = of_response(status, &body, Some(&body), ASKED);
    }
    answer.finish(lines.is_done, bytes.len() as u64).map(|answer| answer.text).unwrap_or_default()
}
