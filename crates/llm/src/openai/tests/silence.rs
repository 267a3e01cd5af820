//! What takes too long: no connection, no first byte, silence in the middle, no end.

use std::time::Duration;

use super::failures::assert_error;
use super::*;
use crate::error::Charge::{Nothing, Unknown};
use crate::error::ErrorClass::{Deadline, Interrupted, Unavailable};

#[tokio::test]
async fn silence_ends() {
    let text = delta(json!({ "content": "half" }));
    let comments =
        (0..400).fold(Play::events().event(&text), |play, _| play.wait(20).piece(": x\n\n"));
    let slow = |it: &mut OpenAiSettings| it.first_byte_timeout_ms = 200;
    let idle = |it: &mut OpenAiSettings| it.idle_timeout_ms = 100;
    let short = |it: &mut OpenAiSettings| it.deadline_ms = 300;
    type Change = fn(&mut OpenAiSettings);
    let half = "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{";
    let rows: Vec<(Play, Change, ErrorClass, &[&str])> = vec![
        (Play::default().hold(), slow, Interrupted, &["no answer began"]),
        (Play::events().hold(), slow, Interrupted, &["nothing after them"]),
        (Play::events().event(&text).hold(), idle, Interrupted, &["100 ms of silence after"]),
        (Play::raw(half).hold(), idle, Interrupted, &["of silence after 1 bytes"]),
        (comments, idle, Interrupted, &["silence"]),
        (Play::default().hold(), short, Deadline, &["nothing within 300 ms"]),
        (Play::events().event(&text).hold(), short, Deadline, &["nothing within 300 ms"]),
    ];
    for (play, change, class, parts) in rows {
        for stream in [true, false] {
            let server = HttpScript::start(vec![play.clone()]).unwrap();
            let mut settings = settings(&server.base_url(), stream);
            settings.connect_timeout_ms = 100;
            change(&mut settings);
            let found = ask(&OpenAiModel::new(settings).unwrap(), &server).await;
            assert_error(&found.unwrap_err(), class, Unknown, None, parts);
        }
    }
}

#[tokio::test]
async fn silence_after_the_last_token_takes_nothing_away() {
    let chunks = [delta(json!({ "content": "a" })), finish(json!("stop"))];
    let play = || chunks.iter().fold(Play::events(), |play, chunk| play.event(chunk));
    for play in [play().hold(), play(), play().piece("data: not json\n\n").hold()] {
        let server = HttpScript::start(vec![play]).unwrap();
        let mut settings = settings(&server.base_url(), true);
        settings.idle_timeout_ms = 500;
        let found = ask(&OpenAiModel::new(settings).unwrap(), &server).await.unwrap();
        assert_eq!((found.text.as_str(), found.usage, found.cost_nusd), ("a", None, None));
    }
}

#[tokio::test]
async fn comments_keep_an_answer_alive() {
    let comments = (0..25).fold(Play::events(), |play, _| play.wait(60).piece(": x\n\n"));
    let play =
        comments.event(&delta(json!({ "content": "a" }))).event(&finish(json!("stop"))).end();
    let server = HttpScript::start(vec![play]).unwrap();
    let mut settings = settings(&server.base_url(), true);
    settings.idle_timeout_ms = 1_000;
    let found = ask(&OpenAiModel::new(settings).unwrap(), &server).await;
    assert_eq!(found.unwrap().text, "a");
}

#[tokio::test]
async fn the_requests_own_deadline_counts_too() {
    let server = HttpScript::start(vec![Play::default().hold()]).unwrap();
    let asked = Request { deadline_ms: Some(200), ..request("t", 1, 0) };
    let found = complete(&model(&server, true), &asked, WAIT_MS).await;
    assert_eq!(found, Err(LlmError::deadline(200)));
}

#[tokio::test]
async fn without_a_connection_nothing_was_asked() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let server = HttpScript::start(vec![Play::raw("no TLS at all")]).unwrap();
    for (base_url, part) in [
        (format!("http://{closed}/v1"), "no connection to 127.0.0.1"),
        ("http://no-such-host.invalid/v1".to_owned(), "no connection to no-such-host.invalid"),
        (server.base_url().replace("http:", "https:"), "no connection to 127.0.0.1"),
    ] {
        if base_url.contains(".invalid") && is_behind_proxy() {
            continue;
        }
        let model = OpenAiModel::new(settings(&base_url, true)).unwrap();
        let error = complete(&model, &request("t", 1, 0), WAIT_MS).await.unwrap_err();
        assert_error(&error, Unavailable, Nothing, None, &[part]);
    }
}

/// A proxy answers for addresses that do not exist.
fn is_behind_proxy() -> bool {
    std::env::vars().any(|(name, _)| name.to_ascii_lowercase().ends_with("_proxy"))
}

#[tokio::test]
async fn a_connection_that_does_not_come_is_not_waited_for() {
    if is_behind_proxy() {
        return;
    }
    let stuck = tokio::time::timeout(Duration::from_secs(15), async {
        // The address is set aside for documentation: packets to it go nowhere.
        let mut settings = settings("http://192.0.2.1/v1", true);
        settings.connect_timeout_ms = 200;
        complete(&OpenAiModel::new(settings).unwrap(), &request("t", 1, 0), WAIT_MS).await
    });
    let error = stuck.await.unwrap().unwrap_err();
    assert_error(&error, Unavailable, Nothing, None, &["no connection to 192.0.2.1"]);
}
