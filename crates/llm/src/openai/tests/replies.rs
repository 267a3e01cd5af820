//! Answers in every form that servers give them, in one piece and as a stream.

use super::*;

/// What a reply must say: text, reasoning, end, usage, cost.
struct Wanted {
    text: &'static str,
    reasoning: &'static str,
    finish_reason: &'static str,
    usage: Option<Usage>,
    cost_nusd: Option<i64>,
}

const PLAIN: Wanted = Wanted {
    text: "a kernel",
    reasoning: "",
    finish_reason: "stop",
    usage: Some(Usage::of(10, 20)),
    cost_nusd: Some(50),
};

fn assert_reply(name: &str, found: Result<Reply, LlmError>, wanted: &Wanted) {
    let found = found.unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(found.text, wanted.text, "{name}");
    assert_eq!(found.reasoning, wanted.reasoning, "{name}");
    assert_eq!(found.finish_reason, wanted.finish_reason, "{name}");
    assert_eq!((found.usage, found.cost_nusd), (wanted.usage, wanted.cost_nusd), "{name}");
    assert!(!found.drift, "{name}");
}

/// A message, its end, its usage, and the reply that they make.
type Form = (Value, Value, Value, Wanted);

fn rows() -> Vec<Form> {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 20 });
    let text = || json!({ "content": "a kernel" });
    let end = |finish_reason| Wanted { finish_reason, ..PLAIN };
    let mut rows = vec![
        (text(), json!("stop"), usage.clone(), PLAIN),
        (text(), json!("length"), usage.clone(), end("length")),
        (text(), json!("eos"), usage.clone(), end("eos")),
        (text(), json!("something_new"), usage.clone(), end("something_new")),
        (text(), json!("content_filter"), usage.clone(), end("content_filter")),
        (text(), json!(""), usage.clone(), end("")),
        (text(), json!(null), usage.clone(), end("")),
        (text(), json!(7), usage.clone(), end("")),
        (
            json!({ "content": null }),
            json!("length"),
            usage.clone(),
            Wanted { text: "", ..end("length") },
        ),
        (
            json!({ "content": "", "refusal": "I will not" }),
            json!("stop"),
            usage.clone(),
            Wanted { text: "I will not", ..end("refusal") },
        ),
        (
            json!({ "content": [{ "type": "text", "text": "a " }, "kernel"] }),
            json!("stop"),
            usage.clone(),
            PLAIN,
        ),
        (
            json!({ "content": [
                { "type": "thinking", "thinking": [{ "type": "text", "text": "hm" }] },
                { "type": "text", "text": "a kernel" },
            ] }),
            json!("stop"),
            usage.clone(),
            Wanted { reasoning: "hm", ..PLAIN },
        ),
    ];
    rows.extend(reasoning_rows());
    rows.extend(usage_rows());
    rows
}

/// The same reasoning in each place where servers put it.
fn reasoning_rows() -> impl Iterator<Item = Form> {
    let usage = json!({ "prompt_tokens": 10, "completion_tokens": 20 });
    let details = json!([{ "text": "h" }, { "summary": "m" }]);
    let messages = [
        json!({ "content": "a kernel", "reasoning": "hm" }),
        json!({ "content": "a kernel", "reasoning_content": "hm", "reasoning": null }),
        json!({ "content": "a kernel", "reasoning": "hm", "reasoning_content": "hm" }),
        json!({ "content": "a kernel", "reasoning_details": details }),
    ];
    let thought = || Wanted { reasoning: "hm", ..PLAIN };
    messages.into_iter().map(move |it| (it, json!("stop"), usage.clone(), thought()))
}

/// Counts and costs, and what becomes of them.
fn usage_rows() -> impl Iterator<Item = Form> {
    let usages = [
        (Value::Null, None, None),
        (json!({}), None, None),
        (
            json!({ "prompt_tokens": 10, "completion_tokens": 20, "prompt_cache_hit_tokens": 4,
                "completion_tokens_details": { "reasoning_tokens": 15 } }),
            Some(Usage { cached_input_tokens: 4, reasoning_tokens: 15, ..Usage::of(10, 20) }),
            Some(48),
        ),
        (
            json!({ "prompt_tokens": 10.0, "completion_tokens": "20", "cost": 0.000_012_3 }),
            Some(Usage::of(10, 20)),
            Some(12_300),
        ),
        (
            json!({ "prompt_tokens": 10, "completion_tokens": 20, "cost": -1 }),
            Some(Usage::of(10, 20)),
            Some(50),
        ),
    ];
    usages.into_iter().map(|(usage, counted, cost_nusd)| {
        let wanted = Wanted { usage: counted, cost_nusd, ..PLAIN };
        (json!({ "content": "a kernel" }), json!("stop"), usage, wanted)
    })
}

#[tokio::test]
async fn every_form_of_an_answer_in_one_piece() {
    for (message, reason, usage, wanted) in rows() {
        let name = format!("{message} {reason} {usage}");
        let choice = json!({ "index": 0, "message": message, "finish_reason": reason });
        let body = json!({ "model": "served", "choices": [choice], "usage": usage });
        for stream in [false, true] {
            let found = ask_for(Play::json(200, &body), stream).await;
            assert_reply(&name, found, &wanted);
        }
    }
}

#[tokio::test]
async fn every_form_of_an_answer_as_a_stream() {
    for (message, reason, usage, wanted) in rows() {
        let name = format!("{message} {reason} {usage}");
        let last = json!({ "choices": [], "usage": usage });
        let chunks = [delta(json!({ "role": "assistant" })), delta(message), finish(reason), last];
        for stream in [true, false] {
            assert_reply(&name, ask_for(events(&chunks), stream).await, &wanted);
        }
    }
}

/// Streams that are cut and framed in every way; all of them say the same.
fn streams() -> Vec<(&'static str, Play)> {
    let parts = || [delta(json!({ "content": "a " })), delta(json!({ "content": "kernel" }))];
    let [first, second] = parts();
    let (last, usage) = (finish(json!("stop")), counted());
    let all = [&first, &second, &last, &usage];
    let with_end = |end: &str| {
        let lines = all.iter().map(|chunk| format!("data:{chunk}{end}{end}"));
        lines.collect::<String>() + &format!("data:[DONE]{end}{end}")
    };
    let bytewise = |text: &str| {
        let pieces = text.as_bytes().chunks(7);
        pieces.fold(Play::events(), |play, piece| play.piece(piece)).end()
    };
    let commented = format!(": OPENROUTER PROCESSING\n\n{}", with_end("\n"));
    let named = with_end("\n").replace("data:{", "event: message\nid: 1\ndata: {");
    let empty = with_end("\n").replace("data:{", "data:\n\ndata: {");
    let no_marker = with_end("\n").replace("data:[DONE]\n\n", "");
    let no_last_line_end = no_marker.trim_end().to_owned();
    let untyped = format!("HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n{}", with_end("\n"));
    let one_piece = || Play::events().piece(with_end("\n")).end();
    let broken = all.iter().fold(Play::events(), |play, chunk| play.event(chunk));
    let earlier = json!({ "id": "c", "usage": { "prompt_tokens": 10, "completion_tokens": 1 },
        "choices": [{ "index": 0, "delta": { "content": "a " }, "finish_reason": "" }] });
    let ping = json!({ "type": "ping", "status": "ok" });
    let other = chunk(json!({ "index": 1, "delta": { "content": "another choice" } }));
    vec![
        ("no space, newlines", bytewise(&with_end("\n"))),
        ("carriage returns and newlines", bytewise(&with_end("\r\n"))),
        ("carriage returns", bytewise(&with_end("\r"))),
        ("comments", bytewise(&commented)),
        ("other fields", bytewise(&named)),
        ("empty data", bytewise(&empty)),
        ("no marker", bytewise(&no_marker)),
        ("no last line end", bytewise(&no_last_line_end)),
        ("all at once", one_piece()),
        ("open after the marker", one_piece().hold()),
        ("no content type", Play::raw(untyped)),
        ("cut after the last chunk", broken),
        ("counts in every chunk", events(&[earlier, second.clone(), last.clone(), usage.clone()])),
        ("pings", events(&[ping, first.clone(), second.clone(), last.clone(), usage.clone()])),
        ("another choice", events(&[first, other, second, last, usage])),
    ]
}

#[tokio::test]
async fn every_frame_of_a_stream() {
    for (name, play) in streams() {
        for stream in [true, false] {
            assert_reply(name, ask_for(play.clone(), stream).await, &PLAIN);
        }
    }
}

#[tokio::test]
async fn letters_may_be_cut_between_pieces() {
    let text = format!("data: {}\n\n", delta(json!({ "content": "größe → 1 𝄞" })));
    let pieces = text.as_bytes().chunks(1).fold(Play::events(), |play, piece| play.piece(piece));
    let play = pieces.event(&finish(json!("stop"))).end();
    assert_eq!(ask_for(play, true).await.unwrap().text, "größe → 1 𝄞");
}

#[tokio::test]
async fn the_record_of_the_wire_says_what_happened_and_no_key() {
    for stream in [true, false] {
        let server = HttpScript::respond(move |asked| {
            let body = match stream {
                true => format!("data: {}\n\ndata: [DONE]\n\n", delta(json!({ "content": "a" }))),
                false => chunk(json!({ "message": { "content": "a" } })).to_string(),
            };
            let kind = if stream { "text/event-stream" } else { "application/json" };
            let key = asked.header("authorization").unwrap();
            let headers = [
                ("content-type", kind),
                ("x-request-id", key),
                ("x-ratelimit-remaining-requests", "7"),
            ];
            Play::response(200, &headers, &body)
        });
        let server = server.unwrap();
        let mut settings = settings(&server.base_url(), stream);
        settings.base_url.push_str("?key=query-secret");
        let found = ask(&OpenAiModel::new(settings).unwrap(), &server).await.unwrap();
        let log: Value = serde_json::from_str(&found.http_log).unwrap();
        assert_eq!((&log["method"], &log["status"]), (&json!("POST"), &json!(200)));
        let url = log["url"].as_str().unwrap();
        assert!(url.starts_with("127.0.0.1:") && url.ends_with("/v1/chat/completions"), "{url}");
        assert_eq!(log["request_id"], "Bearer ***");
        assert_eq!(log["limits"]["x-ratelimit-remaining-requests"], "7");
        assert_eq!(log["streamed"], json!(stream));
        assert!(["headers_ms", "first_token_ms", "end_ms"].iter().all(|it| log[it].is_u64()));
        assert!(log["bytes"].as_u64().unwrap() > 20);
        assert_eq!((found.model.as_str(), &log["id"]), ("served", &json!("c")));
        assert!(!found.http_log.contains("query-secret"), "{}", found.http_log);
    }
}

#[tokio::test]
async fn a_model_without_a_name_has_that_of_the_settings() {
    let body = json!({ "choices": [{ "message": { "content": "a" } }] });
    assert_eq!(ask_for(Play::json(200, &body), false).await.unwrap().model, "test-model");
}
