//! What is sent, and with which settings nothing can be.

use super::*;
use crate::openai::OpenAiSettingsError;

fn with(change: impl FnOnce(&mut OpenAiSettings), base_url: &str) -> OpenAiSettings {
    let mut settings = settings(base_url, true);
    change(&mut settings);
    settings
}

async fn sent(change: impl FnOnce(&mut OpenAiSettings)) -> Asked {
    let server = HttpScript::respond(|asked| Play::answer(asked, "text", None)).unwrap();
    let model = OpenAiModel::new(with(change, &server.base_url())).unwrap();
    complete(&model, &request("t", 1, 0), WAIT_MS).await.unwrap();
    server.asked().remove(0)
}

#[tokio::test]
async fn a_request_is_a_chat_completion() {
    let asked = sent(|_| ()).await;
    assert_eq!((asked.method.as_str(), asked.path.as_str()), ("POST", "/v1/chat/completions"));
    assert_eq!(asked.header("authorization"), Some(&*format!("Bearer {KEY}")));
    assert_eq!(asked.header("idempotency-key"), Some("t-1-0"));
    assert_eq!(asked.header("content-type"), Some("application/json"));
    assert!(asked.header("user-agent").unwrap().starts_with("warpwright/"));
    let expected = json!({
        "model": "test-model",
        "messages": [
            { "role": "system", "content": "be exact" },
            { "role": "user", "content": "a kernel" },
        ],
        "stream": true,
        "stream_options": { "include_usage": true },
        "max_completion_tokens": 1_000,
    });
    assert_eq!(asked.json(), expected);
}

#[tokio::test]
async fn settings_reach_the_request() {
    let asked = sent(|settings| {
        settings.stream = false;
        settings.api_key = None;
        settings.max_tokens_field = MaxTokensField::MaxTokens;
        settings.reasoning_effort = Some("high".to_owned());
        settings.temperature = Some(0.5);
        settings.top_p = Some(0.9);
        settings.headers.insert("X-Title".to_owned(), "warpwright".to_owned());
        let extra = json!({
            "temperature": 1, "top_p": null, "provider": { "order": ["a"] },
            "model": "other", "stream": true, "messages": [],
        });
        settings.extra_body = extra.as_object().unwrap().clone();
    })
    .await;
    let json = asked.json();
    assert_eq!(asked.header("authorization"), None);
    assert_eq!(asked.header("x-title"), Some("warpwright"));
    assert_eq!((&json["model"], &json["stream"]), (&json!("test-model"), &json!(false)));
    assert_eq!((&json["temperature"], &json["reasoning_effort"]), (&json!(1), &json!("high")));
    assert_eq!((&json["max_tokens"], &json["provider"]["order"][0]), (&json!(1_000), &json!("a")));
    assert_eq!(json["messages"].as_array().unwrap().len(), 2);
    for absent in ["top_p", "stream_options", "max_completion_tokens"] {
        assert_eq!(json.get(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn an_address_is_taken_as_people_write_it() {
    for (change, path) in [
        ("/", "/v1/chat/completions"),
        ("/chat/completions", "/v1/chat/completions"),
        ("?api-version=1", "/v1/chat/completions?api-version=1"),
        ("/openai/?key=abcd", "/v1/openai/chat/completions?key=abcd"),
    ] {
        let asked = sent(|settings| settings.base_url.push_str(change)).await;
        assert_eq!(asked.path, path);
    }
}

#[tokio::test]
async fn a_header_of_the_settings_takes_the_place_of_the_key() {
    let asked = sent(|settings| {
        settings.headers.insert("Authorization".to_owned(), "Basic abcdef".to_owned());
    })
    .await;
    let sent = asked.headers.iter().filter(|(name, _)| name == "authorization");
    let sent: Vec<_> = sent.map(|(_, value)| value.as_str()).collect();
    assert_eq!(sent, ["Basic abcdef"]);
}

#[test]
fn bad_settings_are_named_and_no_key_is_shown() {
    type Change = fn(&mut OpenAiSettings);
    let rows: [(Change, &[&str]); 9] = [
        (|it| it.base_url = "nonsense".to_owned(), &["night", "`nonsense`"]),
        (|it| it.base_url = String::new(), &["base_url"]),
        (|it| it.base_url = "ftp://host/v1".to_owned(), &["ftp://host/v1", "http://"]),
        (|it| it.base_url = "localhost:8080/v1".to_owned(), &["localhost:8080/v1"]),
        (|it| it.base_url = format!("https://u:{KEY}@host/v1"), &["https://host/v1", "password"]),
        (|it| it.api_key = Some(Secret::from(format!("{KEY}\n"))), &["night", "key"]),
        (|it| drop(it.headers.insert("bad name".to_owned(), KEY.to_owned())), &["`bad name`"]),
        (|it| drop(it.headers.insert("x-a".to_owned(), format!("{KEY}\r\n"))), &["`x-a`"]),
        (|it| drop(it.headers.insert("Content-Length".to_owned(), "1".to_owned())), &["leave it"]),
    ];
    for (change, parts) in rows {
        let settings = with(change, "http://127.0.0.1:1/v1");
        let shown = format!("{settings:?}");
        let error: OpenAiSettingsError = OpenAiModel::new(settings).unwrap_err();
        let shown = format!("{shown} {error} {error:?}");
        assert!(parts.iter().all(|part| shown.contains(part)), "{shown}");
        assert!(!shown.contains(KEY), "{shown}");
    }
}

#[test]
fn it_describes_itself_by_its_settings() {
    let model = OpenAiModel::new(settings("http://127.0.0.1:1/v1", true)).unwrap();
    let info = model.describe();
    assert_eq!((info.provider.as_str(), info.model.as_str()), ("openai", "test-model"));
    assert_eq!((info.idempotent, info.price, info.output_tokens_max), (false, PRICE, 1_000));
    assert_eq!(info.deadline_ms, Some(WAIT_MS));
    assert_eq!(Secret::from(KEY.to_owned()).to_string(), "***");
}
