//! Anything at all instead of an answer: it ends with a class or a reply, never with a panic.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::*;
use crate::limits::{ANSWER_BYTES_MAX, BODY_BYTES_MAX};
use crate::openai::answer::Answer;
use crate::openai::failure::{Asked as Named, of_response};
use crate::openai::lines::Lines;

const NAMED: Named = Named { model: "m", address: "host/v1" };

/// JSON that resembles an answer, with odd values in odd places.
fn odd_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
        "(stop|length|error|429|insufficient_quota|-1|1e99)".prop_map(Value::from),
    ];
    let name = "(choices|message|delta|content|text|refusal|reasoning|reasoning_details|usage|\
        error|code|type|detail|metadata|raw|cost|prompt_tokens|completion_tokens|total_tokens|\
        finish_reason|index|model|id|n_ctx|x_groq|is_byok)";
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..6)
                .prop_map(|pairs| pairs.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Bytes that resemble a body or a stream now and then.
fn odd_body() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..60),
        odd_json().prop_map(|json| format!("data: {json}\n\n").into_bytes()),
        odd_json().prop_map(|json| json.to_string().into_bytes()),
        "(data:|error: |: x|\\[DONE\\]|\r|\n|\r\n|<html>|</|<!--|<script|\u{feff})"
            .prop_map(String::into_bytes),
    ];
    prop::collection::vec(piece, 0..8).prop_map(|pieces| pieces.concat())
}

/// Heads of a response that may or may not fit what follows.
fn odd_head() -> impl Strategy<Value = Vec<u8>> {
    let kind = "(text/event-stream|application/json|text/html|\\x00)";
    let framing = "(|content-length: 9\r\n|transfer-encoding: chunked\r\n|retry-after: -1\r\n)";
    prop_oneof![
        1 => Just(Vec::new()),
        9 => (100_u16..700, kind, framing).prop_map(|(status, kind, framing)| {
            let head = format!("HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\n{framing}\r\n");
            head.into_bytes()
        }),
        9 => Just(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec()),
        9 => Just(b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
    ]
}

proptest! {
    #[test]
    fn any_chunks_make_a_reply_or_an_error(
        chunks in prop::collection::vec(odd_json(), 0..5),
        is_done: bool,
    ) {
        let mut answer = Answer::default();
        let added = chunks.iter().try_for_each(|chunk| answer.add(chunk, NAMED));
        if added.is_ok() {
            let _ = answer.finish(is_done, 0);
        }
    }

    #[test]
    fn any_body_of_a_failure_has_a_class(status in 100_u16..1_000, body in odd_body()) {
        let body = String::from_utf8_lossy(&body).into_owned();
        let error = of_response(status, &body, None, NAMED);
        prop_assert!(ErrorClass::ALL.contains(&error.class()));
    }

    #[test]
    fn any_stream_has_the_same_lines_however_it_is_cut(body in odd_body(), cut in 1_usize..9) {
        let regular = |piece_bytes: usize| {
            let mut lines = Lines::default();
            let pieces = body.chunks(piece_bytes).map(|piece| lines.feed(piece).unwrap().bytes);
            let mut bytes = pieces.collect::<Vec<_>>().concat();
            bytes.extend(lines.end().bytes);
            String::from_utf8(bytes).unwrap()
        };
        prop_assert_eq!(regular(cut), regular(usize::MAX));
    }
}

#[test]
fn any_bytes_on_the_wire_end_the_call() {
    let play = Arc::new(Mutex::new(Play::close()));
    let next = play.clone();
    let server = HttpScript::respond(move |_| next.lock().unwrap().clone()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let config = ProptestConfig { cases: 150, ..ProptestConfig::default() };
    proptest!(config, |(head in odd_head(), body in odd_body(), stream: bool)| {
        *play.lock().unwrap() = Play::raw(head).bytes(body);
        let model = model(&server, stream);
        let found = runtime.block_on(complete(&model, &request("t", 1, 0), WAIT_MS));
        let class = found.err().map(|error| error.class());
        prop_assert_ne!(class, Some(ErrorClass::Deadline));
    });
}

#[tokio::test]
async fn an_answer_without_end_is_dropped() {
    let long = "x".repeat(1 << 20);
    let pieces = vec![delta(json!({ "content": long })); (ANSWER_BYTES_MAX >> 20) + 1];
    let whole =
        json!({ "choices": [{ "message": { "content": "x".repeat(ANSWER_BYTES_MAX + 1) } }] });
    let line = vec![b'x'; BODY_BYTES_MAX + 1];
    let body = format!("HTTP/1.1 200 OK\r\n\r\n{}", " ".repeat(BODY_BYTES_MAX + 1));
    for (name, play) in [
        ("a stream", pieces.iter().fold(Play::events(), |play, it| play.event(it)).hold()),
        ("one piece", Play::json(200, &whole)),
        ("a line", Play::events().piece(line).hold()),
        ("a body", Play::raw(body).hold()),
    ] {
        let error = ask_for(play, true).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed, "{name}: {error}");
        assert!(error.to_string().contains(" bytes"), "{name}: {error}");
    }
}

/// Many events at once must not cost more than their number.
#[tokio::test]
async fn a_long_answer_that_comes_at_once_is_read() {
    let text = format!("data: {}\n\n", delta(json!({ "content": "x" })));
    let body = text.repeat(100_000) + "data: [DONE]\n\n";
    for kind in ["text/event-stream", "text/plain"] {
        let play = Play::response(200, &[("content-type", kind)], &body);
        assert_eq!(ask_for(play, true).await.unwrap().text.len(), 100_000, "{kind}");
    }
}
