//! Every way in which a call fails: class, charge, wait and words.

use super::*;
use crate::error::Charge::{self, Known, Nothing, Unknown};
use crate::error::ErrorClass::{
    Auth, Interrupted, Malformed, NoCredit, RateLimited, Refused, Unavailable,
};

const COUNTED: Charge = Known { usage: Usage::of(10, 20), cost_nusd: None };

/// A play, then what the error must be: class, charge, wait, parts of its words.
type Row = (Play, ErrorClass, Charge, Option<u64>, &'static [&'static str]);

async fn assert_failures(rows: Vec<Row>) {
    for (play, class, charge, wait_ms, parts) in rows {
        for stream in [true, false] {
            let found = ask_for(play.clone(), stream).await;
            let Err(error) = found else { panic!("{class:?} {parts:?}: {found:?}") };
            assert_error(&error, class, charge, wait_ms, parts);
        }
    }
}

pub(super) fn assert_error(
    error: &LlmError,
    class: ErrorClass,
    charge: Charge,
    wait_ms: Option<u64>,
    parts: &[&str],
) {
    let shown = error.to_string();
    assert_eq!(error.class(), class, "{shown}");
    assert_eq!((error.charge(), error.wanted_wait_ms()), (charge, wait_ms), "{shown}");
    assert!(parts.iter().all(|part| shown.contains(part)), "{shown}: {parts:?}");
}

fn json_error(status: u16, headers: &[(&str, &str)], body: &Value) -> Play {
    Play::response(status, headers, &body.to_string())
}

#[tokio::test]
async fn limits_and_accounts() {
    let limited = json!({ "error": { "message": "slow down", "type": "requests",
        "code": "rate_limit_exceeded" } });
    let numbered = json!({ "error": { "message": "slow down", "code": 429 } });
    let quota = json!({ "error": { "message": "You exceeded your current quota",
        "type": "insufficient_quota", "code": "insufficient_quota" } });
    let key_limit = json!({ "error": { "message": "Key limit exceeded", "code": 403 } });
    let google = json!([{ "error": { "code": 429, "message": "quota",
        "details": [{ "retryDelay": "33s" }] } }]);
    let page = "<html><head><title>429 Too Many</title></head><body>nginx</body></html>";
    let after = |value| [("retry-after", value)];
    let wrong_key = json!({ "error": { "message": format!("Incorrect API key: {KEY}."),
        "type": "invalid_request_error", "code": "invalid_api_key" } });
    assert_failures(vec![
        (json_error(429, &[], &limited), RateLimited, Nothing, None, &["429", ": slow down"]),
        (json_error(429, &after("2"), &limited), RateLimited, Nothing, Some(2_000), &[]),
        (json_error(429, &after("0.5"), &numbered), RateLimited, Nothing, Some(500), &["slow"]),
        (
            json_error(429, &[("retry-after-ms", "70")], &numbered),
            RateLimited,
            Nothing,
            Some(70),
            &[],
        ),
        (
            json_error(429, &[("x-ratelimit-reset-tokens", "6m0s")], &numbered),
            RateLimited,
            Nothing,
            Some(360_000),
            &[],
        ),
        (json_error(429, &[], &google), RateLimited, Nothing, Some(33_000), &[": quota"]),
        (json_error(200, &[], &google), RateLimited, Nothing, Some(33_000), &[": quota"]),
        (Play::response(429, &[], page), RateLimited, Nothing, None, &["429 Too Many nginx"]),
        (Play::response(429, &[], ""), RateLimited, Nothing, None, &["says no more"]),
        (json_error(429, &after("9"), &quota), NoCredit, Nothing, Some(9_000), &["quota"]),
        (json_error(402, &[], &json!({ "error": "pay" })), NoCredit, Nothing, None, &[": pay"]),
        (json_error(403, &[], &key_limit), NoCredit, Nothing, None, &["Key limit"]),
        (json_error(401, &[], &wrong_key), Auth, Nothing, None, &["Incorrect API key: ***."]),
        (json_error(403, &[], &json!({ "message": "no" })), Auth, Nothing, None, &[": no"]),
    ])
    .await;
}

#[tokio::test]
async fn refused_requests() {
    let too_long = json!({ "error": { "code": 400, "type": "exceed_context_size_error",
        "message": "request exceeds", "n_prompt_tokens": 9_000, "n_ctx": 4_096 } });
    let openai_long = json!({ "error": { "code": "context_length_exceeded",
        "message": "This model's maximum context length is 8192 tokens." } });
    let vllm = json!({ "object": "error", "message": "max_tokens is too large",
        "type": "BadRequestError", "code": 400 });
    let fastapi = json!({ "detail": [{ "loc": ["body"], "msg": "field required" },
        { "msg": "not a number" }] });
    let no_model = json!({ "error": { "message": "The model does not exist",
        "code": "model_not_found" } });
    let list = json!([{ "error": { "message": "bad", "status": "INVALID_ARGUMENT" } }]);
    let routed = json!({ "error": { "message": "Provider returned error",
        "metadata": { "raw": "schema invalid" } } });
    let long_words: &[&str] = &["of 9000 tokens does not fit the context of 4096 tokens"];
    let moved = [("location", "https://other.example/login?token=abc")];
    assert_failures(vec![
        (json_error(400, &[], &too_long), Refused, Nothing, None, long_words),
        (json_error(500, &[], &too_long), Refused, Nothing, None, long_words),
        (json_error(200, &[], &too_long), Refused, Nothing, None, long_words),
        (json_error(400, &[], &openai_long), Refused, Nothing, None, &["8192 tokens", "not fit"]),
        (json_error(400, &[], &vllm), Refused, Nothing, None, &["400", "too large"]),
        (json_error(422, &[], &fastapi), Refused, Nothing, None, &["required; not a number"]),
        (json_error(413, &[], &json!({})), Refused, Nothing, None, &["413"]),
        (json_error(404, &[], &no_model), Refused, Nothing, None, &["`test-model`", "not exist"]),
        (
            json_error(404, &[], &json!({ "detail": "Not Found" })),
            Refused,
            Nothing,
            None,
            &["/v1/chat/completions: Not Found"],
        ),
        (json_error(400, &[], &list), Refused, Nothing, None, &[": bad"]),
        (json_error(400, &[], &routed), Refused, Nothing, None, &["error (schema invalid)"]),
        (
            Play::response(302, &moved, ""),
            Refused,
            Nothing,
            None,
            &["302 Found to https://other.example/login, which"],
        ),
        (Play::response(307, &[], ""), Refused, Nothing, None, &["307"]),
    ])
    .await;
}

#[tokio::test]
async fn servers_that_are_down() {
    let loading = json!({ "error": { "code": 503, "message": "Loading model" } });
    let page = "<!DOCTYPE html>\n<html><style>b{}</style><body><b>Bad</b> gateway</body></html>";
    assert_failures(vec![
        (Play::response(500, &[], "oops"), Unavailable, Nothing, None, &["500", "oops"]),
        (
            json_error(503, &[("retry-after", "7")], &loading),
            Unavailable,
            Nothing,
            Some(7_000),
            &["Loading model"],
        ),
        (
            json_error(503, &[("x-ratelimit-reset-tokens", "6m0s")], &loading),
            Unavailable,
            Nothing,
            None,
            &[],
        ),
        (Play::response(502, &[], page), Unavailable, Unknown, None, &["a web page: Bad gateway;"]),
        (Play::response(504, &[], ""), Unavailable, Unknown, None, &["504"]),
        (Play::response(524, &[], "{"), Unavailable, Unknown, None, &["524"]),
        (
            Play::raw("HTTP/1.1 500 X\r\ncontent-length: 99\r\n\r\nhalf of it"),
            Unavailable,
            Nothing,
            None,
            &["half of it"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn failures_within_a_success() {
    let fault = |code: Value| json!({ "error": { "message": "upstream", "code": code } });
    let text = delta(json!({ "content": "half" }));
    let ended = |reason: &str| events(&[text.clone(), finish(json!(reason)), counted()]);
    let choice = json!({ "finish_reason": "error", "message": { "content": "" },
        "error": { "code": 429, "message": "busy" } });
    assert_failures(vec![
        (json_error(200, &[], &fault(json!(429))), RateLimited, Nothing, None, &["upstream"]),
        (json_error(200, &[], &fault(json!("401"))), Auth, Nothing, None, &[]),
        (json_error(200, &[], &fault(json!(402))), NoCredit, Nothing, None, &[]),
        (json_error(200, &[], &fault(json!(502))), Unavailable, Unknown, None, &["502"]),
        (json_error(200, &[], &fault(Value::Null)), Unavailable, Nothing, None, &["upstream"]),
        (json_error(200, &[], &json!({ "error": "busy" })), Unavailable, Nothing, None, &["busy"]),
        (json_error(200, &[], &json!({ "detail": "odd" })), Unavailable, Nothing, None, &["odd"]),
        (
            json_error(200, &[], &json!({ "choices": [choice] })),
            RateLimited,
            Nothing,
            None,
            &["busy"],
        ),
        (events(&[fault(json!(429))]), RateLimited, Nothing, None, &["upstream"]),
        (events(&[text.clone(), fault(json!(503))]), Unavailable, Unknown, None, &["upstream"]),
        (
            events(&[text.clone(), counted(), fault(json!(503))]),
            Unavailable,
            COUNTED,
            None,
            &["upstream"],
        ),
        (
            Play::events().piece("error: {\"code\":500,\"message\":\"slot\"}\n\n").end(),
            Unavailable,
            Nothing,
            None,
            &["slot"],
        ),
        (ended("error"), Unavailable, COUNTED, None, &["`error`"]),
        (ended("insufficient_system_resource"), Unavailable, COUNTED, None, &["system_resource"]),
        (events(&[text.clone(), finish(json!("error"))]), Unavailable, Unknown, None, &["`error`"]),
    ])
    .await;
}

#[tokio::test]
async fn answers_that_are_none() {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 20 });
    let empty = |message: Value| json!({ "choices": [{ "message": message }], "usage": usage });
    assert_failures(vec![
        (
            Play::json(200, &json!({ "choices": [] })),
            Malformed,
            Unknown,
            None,
            &["an empty answer"],
        ),
        (
            Play::json(200, &json!({ "choices": [], "usage": usage })),
            Malformed,
            COUNTED,
            None,
            &["an empty answer"],
        ),
        (Play::json(200, &empty(json!({ "content": "" }))), Malformed, COUNTED, None, &["empty"]),
        (
            Play::json(200, &empty(json!({ "content": " \n" }))),
            Malformed,
            COUNTED,
            None,
            &["empty"],
        ),
        (Play::json(200, &empty(json!(null))), Malformed, COUNTED, None, &["empty"]),
        (Play::json(200, &json!(5)), Malformed, Unknown, None, &["an empty answer"]),
    ])
    .await;
}

#[tokio::test]
async fn bodies_that_are_no_answer() {
    let kind = [("content-type", "text/event-stream")];
    let login = "<html><title>Log in</title><script>x</script><body>Welcome</body></html>";
    assert_failures(vec![
        (
            events(&[finish(json!("eos")), counted()]),
            Malformed,
            COUNTED,
            None,
            &["an empty answer (finish reason: eos)"],
        ),
        (events(&[]), Malformed, Unknown, None, &["an empty answer"]),
        (Play::response(200, &kind, ""), Malformed, Unknown, None, &["an empty answer"]),
        (Play::response(200, &[], ""), Malformed, Unknown, None, &["an empty answer"]),
        (Play::response(204, &[], ""), Malformed, Unknown, None, &["an empty answer"]),
        (Play::response(200, &[], login), Malformed, Unknown, None, &["page: Log in Welcome"]),
        (Play::response(200, &[], "{\"choices\":"), Malformed, Unknown, None, &["no JSON"]),
        (
            Play::events().piece("data: not json\n\n").end(),
            Malformed,
            Unknown,
            None,
            &["a chunk is no JSON: not json"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn answers_that_break_off() {
    let text = delta(json!({ "content": "half" }));
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"choices\":";
    assert_failures(vec![
        (Play::close(), Interrupted, Unknown, None, &["broke"]),
        (Play::raw("HTTP/1.1 200"), Interrupted, Unknown, None, &["broke"]),
        (Play::raw("nonsense\r\n\r\n"), Interrupted, Unknown, None, &["broke"]),
        (Play::raw(half), Interrupted, Unknown, None, &["broke after 11 bytes"]),
        (Play::events().event(&text), Interrupted, Unknown, None, &["broke after"]),
        (Play::events().event(&text).end(), Interrupted, Unknown, None, &["without a last chunk"]),
        (
            Play::events().event(&text).event(&counted()).end(),
            Interrupted,
            Unknown,
            None,
            &["without a last chunk"],
        ),
    ])
    .await;
}

#[tokio::test]
async fn a_key_is_hidden_wherever_a_server_repeats_it() {
    let filler = "x".repeat(990);
    for body in [
        format!("your key is {KEY}"),
        format!("{filler}{KEY}"),
        json!({ "error": { "message": format!("{filler}{KEY}"), "code": KEY } }).to_string(),
        format!("<html>{filler}<b>{KEY}</b></html>"),
    ] {
        for status in [200, 301, 400, 401, 500] {
            let play = Play::response(status, &[("location", &format!("http://{KEY}"))], &body);
            let error = ask_for(play, true).await.unwrap_err();
            assert!(!format!("{error:?}").contains("sk-very"), "{error:?}");
        }
    }
}

#[tokio::test]
async fn control_characters_of_a_server_are_written_out() {
    let body = json!({ "error": { "message": "a\u{1b}[31mb\u{202e}c" } }).to_string();
    let error = ask_for(Play::response(400, &[], &body), true).await.unwrap_err();
    assert!(error.to_string().contains(r"a\u{1b}[31mb\u{202e}c"), "{error}");
}
