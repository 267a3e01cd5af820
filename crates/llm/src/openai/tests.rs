//! The provider against a server that plays every way in which servers answer and fail.

use std::collections::BTreeMap;

use pipeline::transcript::Usage;
use serde_json::{Map, Value, json};

use super::{MaxTokensField, OpenAiModel, OpenAiSettings, Secret};
use crate::conformance::{Abilities, Asked, HttpScript, Play, check, request, script};
use crate::error::{ErrorClass, LlmError};
use crate::{Llm, Price, Reply, Request, complete};

mod batches;
mod failures;
mod hostile;
mod replies;
mod requests;
mod silence;
mod tickets;

const KEY: &str = "sk-very-secret-0123456789";
const WAIT_MS: u64 = 20_000;
const PRICE: Price = Price::PerMillionTokens {
    input_nusd: 1_000_000,
    cached_input_nusd: 500_000,
    output_nusd: 2_000_000,
};

/// Settings that wait long enough for a busy machine.
fn settings(base_url: &str, stream: bool) -> OpenAiSettings {
    OpenAiSettings {
        name: "night".to_owned(),
        base_url: base_url.to_owned(),
        api_key: Some(Secret::from(KEY.to_owned())),
        model: "test-model".to_owned(),
        output_tokens_max: 1_000,
        max_tokens_field: MaxTokensField::MaxCompletionTokens,
        reasoning_effort: None,
        temperature: None,
        top_p: None,
        extra_body: Map::new(),
        headers: BTreeMap::new(),
        price: PRICE,
        stream,
        connect_timeout_ms: 5_000,
        first_byte_timeout_ms: 10_000,
        idle_timeout_ms: 10_000,
        deadline_ms: WAIT_MS,
    }
}

fn model(server: &HttpScript, stream: bool) -> OpenAiModel {
    OpenAiModel::new(settings(&server.base_url(), stream)).unwrap()
}

/// Asks once and holds what must always hold: one request, and the key in nothing but its header.
async fn ask(model: &OpenAiModel, server: &HttpScript) -> Result<Reply, LlmError> {
    let before = server.count();
    let found = complete(model, &request("t", 1, 0), WAIT_MS).await;
    assert_eq!(server.count() - before, 1, "{found:?}");
    let shown = format!("{found:?} {model:?}");
    assert!(!shown.contains(KEY), "{shown}");
    found
}

/// Asks a server that plays this.
async fn ask_for(play: Play, stream: bool) -> Result<Reply, LlmError> {
    let server = HttpScript::start(vec![play]).unwrap();
    ask(&model(&server, stream), &server).await
}

/// A chunk with this choice.
fn chunk(choice: Value) -> Value {
    json!({ "id": "c", "model": "served", "choices": [choice] })
}

fn delta(delta: Value) -> Value {
    chunk(json!({ "index": 0, "delta": delta }))
}

fn finish(reason: Value) -> Value {
    chunk(json!({ "index": 0, "delta": {}, "finish_reason": reason }))
}

fn counted() -> Value {
    json!({ "id": "c", "choices": [],
        "usage": { "prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30 } })
}

/// The events of a stream with its marker at the end.
fn events(chunks: &[Value]) -> Play {
    let play = chunks.iter().fold(Play::events(), |play, chunk| play.event(chunk));
    play.piece("data: [DONE]\n\n").end()
}

/// What the suite's script says to a request, found by its idempotency key.
fn scripted(asked: &Asked) -> Play {
    let key = asked.header("idempotency-key").unwrap_or_default();
    let parts: Vec<&str> = key.split('-').collect();
    let [_, seq, try_index] = parts[..] else { return Play::close() };
    let entries = script().into_iter().filter(|entry| entry.seq.to_string() == seq);
    let entries: Vec<_> = entries.collect();
    let entry = entries.get(try_index.parse::<usize>().unwrap()).or(entries.last());
    match entry {
        Some(entry) if entry.error.is_some() => {
            Play::json(429, &json!({ "error": { "message": "rate limited", "code": 429 } }))
        }
        Some(entry) => Play::answer(asked, &entry.reply, Some(entry.usage)),
        None => Play::json(404, &json!({ "error": { "message": "nothing recorded" } })),
    }
}

#[tokio::test]
async fn passes_the_suite_of_every_provider() {
    let server = HttpScript::respond(scripted).unwrap();
    let abilities = Abilities { recorded: false, failure: ErrorClass::RateLimited };
    for stream in [true, false] {
        check(|| model(&server, stream), abilities).await.unwrap();
    }
}
