//! A scripted server in place of a provider: every way in which an answer can fail ends as its
//! class, with the right money booked, and in words. Caps are kept, whatever happens.

use llm::conformance::{Asked, HttpScript, Play};
use pipeline::transcript::Usage;
use serde_json::{Value, json};

use crate::program::{Ended, Program};

const KEY: &str = "sk-do-not-show-me";
/// Dollars per million tokens: an answer of [`USAGE`] costs 0.002 dollars.
const PRICE: &str = "{ input = 1.0, output = 10.0 }";
const USAGE: Usage = Usage::of(1_000, 100);
const ANSWER_NUSD: i64 = 2_000_000;
/// A reply that is judged without compiler: the money is what this is about.
const NO_FENCE: &str = "I would rather not.";

/// Writes a settings file whose model is the server; `more` are further lines of its section.
pub(crate) fn settings(program: &Program, server: &HttpScript, more: &str) {
    let text = format!(
        "default_model = 'served'\n[search]\nin_flight = 1\n[model.served]\nkind = 'openai'\n\
         model = 'm-1'\n\
         base_url = '{}'\nkey_env = 'SERVED_KEY'\nprice = {PRICE}\noutput_tokens_max = 5000\n\
         idle_timeout_s = 2\nfirst_byte_timeout_s = 1\nconnect_timeout_s = 1\n{more}",
        server.base_url()
    );
    std::fs::write(program.path("warpwright.toml"), text).unwrap();
}

pub(crate) fn call(program: &Program, arguments: &[&str]) -> Ended {
    let ended = program.call_with(arguments, &[("SERVED_KEY", KEY)]);
    assert!(!ended.stdout.contains(KEY) && !ended.stderr.contains(KEY), "the key was shown");
    ended
}

fn status(program: &Program) -> Value {
    program.call(&["status", "@last", "--json"]).closing()
}

fn answer() -> Play {
    Play::stream(&[NO_FENCE], Some(USAGE))
}

fn error(status: u16, headers: &[(&str, &str)], body: &Value) -> Play {
    Play::response(status, headers, &body.to_string())
}

/// What one row of failures must lead to: calls that failed at no cost, calls that were lost, and
/// what is said.
struct Row {
    name: &'static str,
    plays: Vec<Play>,
    failed: u64,
    lost: u64,
    words: &'static str,
}

fn row(name: &'static str, plays: Vec<Play>, failed: u64, lost: u64, words: &'static str) -> Row {
    Row { name, plays, failed, lost, words }
}

fn rows() -> Vec<Row> {
    let limited = json!({"error": {"message": "slow down", "code": 429}});
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n";
    let half = format!("{head}content-length: 900\r\n\r\ndata: {{\"choices\":[{{\"del");
    let empty = json!({"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 0}});
    let html = "<html><title>502 Bad Gateway</title><body>nginx</body></html>";
    vec![
        row("429 with a wait", vec![error(429, &[("retry-after", "0")], &limited)], 1, 0, "slow"),
        row("429 without a wait", vec![error(429, &[], &limited)], 1, 0, "limiting requests"),
        row("503 in HTML", vec![Play::response(503, &[], html)], 1, 0, "is not available"),
        row("502 of a proxy", vec![Play::response(502, &[], html)], 0, 1, "is not available"),
        row("half a body", vec![Play::raw(half)], 0, 1, "broke off"),
        row("no choices", vec![Play::json(200, &empty)], 1, 0, "empty"),
        row("silence before the answer", vec![Play::close().hold()], 0, 1, "broke off"),
        row("silence in it", vec![Play::events().piece("data: ").hold()], 0, 1, "broke off"),
        row("closed at once", vec![Play::close()], 0, 1, "broke off"),
    ]
}

#[test]
fn every_failure_is_asked_again_with_the_right_money_booked_and_words() {
    for Row { name, plays, failed, lost, words } in rows() {
        let program = Program::new();
        let count = plays.len();
        let script = plays.into_iter().chain([answer()]).collect();
        let server = HttpScript::start(script).unwrap();
        settings(&program, &server, "");
        let ended = call(&program, &["run", "vector_add", "--attempts", "1", "--dollars", "1"]);
        assert_eq!(ended.code, Some(0), "{name}: {} {}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("asking again in "), "{name}: {}", ended.stdout);
        assert!(ended.stdout.contains(words), "{name}: {}", ended.stdout);
        assert_eq!(server.count(), count + 1, "{name}");
        let status = status(&program);
        assert_eq!(status["settled_nusd"], ANSWER_NUSD, "{name}");
        let shown = program.call(&["show", "@last:1", "--json"]).closing();
        let calls = shown["calls"].as_array().unwrap();
        let states = |state: &str| calls.iter().filter(|it| it["state"] == state).count() as u64;
        assert_eq!((states("failed"), states("lost")), (failed, lost), "{name}: {shown}");
        let reserved = calls[0]["reserved_nusd"].as_i64().unwrap();
        let booked = status["lost_nusd"].as_i64().unwrap();
        assert_eq!(booked, if lost == 0 { 0 } else { reserved }, "{name}");
    }
}

#[test]
fn answers_of_any_kind_are_attempts() {
    let finished = |reason: &str, text: &str| {
        json!({"model": "m-1-0711", "choices": [{"finish_reason": reason,
            "message": {"content": text, "reasoning": "let me see"}}],
            "usage": {"prompt_tokens": 1000, "completion_tokens": 100,
                "completion_tokens_details": {"reasoning_tokens": 60}}})
    };
    let refusal = json!({"choices": [{"finish_reason": "stop",
        "message": {"content": null, "refusal": "not with me"}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100}});
    let uncounted = json!({"choices": [{"finish_reason": "stop", "message": {"content": "hm"}}]});
    for (name, body, words, settled) in [
        ("cut off", finished("length", "```cuda\nint"), "cut off at the output limit", None),
        ("unknown ending", finished("tired", "words"), "no ```cuda fence", None),
        ("refusal", refusal, "the model refused to answer: not with me", None),
        ("usage missing", uncounted, "no ```cuda fence", Some("reserved")),
    ] {
        let program = Program::new();
        let server = HttpScript::start(vec![Play::json(200, &body)]).unwrap();
        settings(&program, &server, "stream = false\n");
        let ended = call(&program, &["run", "vector_add", "--attempts", "1"]);
        assert_eq!(ended.code, Some(0), "{name}: {} {}", ended.stdout, ended.stderr);
        assert!(program.verdicts()[0].contains(words), "{name}: {:?}", program.verdicts());
        let shown = program.call(&["show", "@last:1", "--json"]).closing();
        let call = &shown["calls"][0];
        let wanted = match settled {
            Some(field) => call[format!("{field}_nusd")].as_i64().unwrap(),
            None => ANSWER_NUSD,
        };
        assert_eq!((&call["state"], &call["cost_nusd"]), (&"settled".into(), &wanted.into()));
        assert_eq!(status(&program)["settled_nusd"], wanted, "{name}");
    }
    let program = Program::new();
    let server = HttpScript::start(vec![Play::json(200, &finished("stop", "words"))]).unwrap();
    settings(&program, &server, "stream = false\n");
    call(&program, &["run", "vector_add", "--attempts", "1"]);
    let shown = program.call(&["show", "@last:1"]).stdout;
    assert!(shown.contains("let me see") && shown.contains("(60 reasoning)"), "{shown}");
    assert!(shown.contains("reply, m-1-0711"), "{shown}");
}

#[test]
fn what_another_try_cannot_mend_ends_the_run_in_words_and_resumable() {
    for (play, class, words) in [
        (Play::response(401, &[], "{\"error\":\"bad key\"}"), "auth", "check the key"),
        (
            Play::response(404, &[], "{\"error\":{\"message\":\"no such model\"}}"),
            "refused",
            "no such model",
        ),
        (
            Play::response(429, &[], "{\"error\":{\"code\":\"insufficient_quota\"}}"),
            "no_credit",
            "top it up",
        ),
        (
            Play::response(429, &[("retry-after", "7200")], "{}"),
            "rate_limited",
            "limiting requests",
        ),
    ] {
        let program = Program::new();
        let server = HttpScript::start(vec![play, answer()]).unwrap();
        settings(&program, &server, "");
        let ended = call(&program, &["run", "vector_add", "--attempts", "1", "--json"]);
        assert_eq!(ended.code, Some(5), "{class}: {} {}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains(&format!("the model cannot go on ({class})")), "{class}");
        assert!(ended.stdout.contains(words), "{class}: {}", ended.stdout);
        assert_eq!(server.count(), 1, "{class}");
        assert_eq!(status(&program)["settled_nusd"], 0);
        let resumed = call(&program, &["resume"]);
        assert_eq!(resumed.code, Some(0), "{class}: {} {}", resumed.stdout, resumed.stderr);
        assert_eq!(status(&program)["settled_nusd"], ANSWER_NUSD);
    }
}

/// Whether each answer is as long as it may be, so that it costs its worst case, or is short.
#[test]
fn a_dollar_limit_is_never_crossed_and_can_be_raised() {
    for (longest, last) in [(u64::MAX, 5_000..5_001), (500, 4_000..5_000)] {
        let program = Program::new();
        let cap = |asked: &Asked| asked.json()["max_completion_tokens"].as_u64().unwrap();
        let server = HttpScript::respond(move |asked: &Asked| {
            let usage = Usage::of(2_000, cap(asked).min(longest));
            Play::stream(&[NO_FENCE], Some(usage))
        });
        let server = server.unwrap();
        settings(&program, &server, "");
        let run = ["run", "vector_add", "--attempts", "99", "--plateau", "0", "--dollars", "0.31"];
        let ended = call(&program, &run);
        assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
        assert!(ended.stdout.contains("the dollar limit leaves no room"), "{}", ended.stdout);
        let charged = || -> i64 {
            let tokens =
                server.asked().iter().map(cap).map(|it| it.min(longest)).collect::<Vec<_>>();
            tokens.into_iter().map(|tokens| 2_000 * 1_000 + tokens as i64 * 10_000).sum()
        };
        let settled = || status(&program)["settled_nusd"].as_i64().unwrap();
        assert_eq!(settled(), charged());
        assert!(charged() <= 310_000_000, "{}", charged());
        // Near the limit less is allowed, so that little is left over, unless it would cut what
        // answers need.
        let found = cap(server.asked().last().unwrap());
        assert!(last.contains(&found), "{longest}: {found}");
        let before = server.count();
        let resumed = call(&program, &["resume", "--dollars", "0.42"]);
        assert_eq!(resumed.code, Some(5), "{} {}", resumed.stdout, resumed.stderr);
        assert!(server.count() > before && charged() <= 420_000_000, "{}", charged());
        assert_eq!(settled(), charged());
        let status = program.call(&["status", "@last"]).stdout;
        assert!(status.contains(" of 0.4200 dollars"), "{status}");
    }
}

#[test]
fn token_and_time_limits_stop_before_the_next_question() {
    let program = Program::new();
    let server = HttpScript::start(vec![answer()]).unwrap();
    settings(&program, &server, "");
    for (flags, words, asked) in [
        (["--tokens", "5000"], "the token limit leaves no room", 0),
        (["--hours", "0.01"], "the time is over", 0),
        (["--tokens", "100000"], "the attempt limit was reached", 2),
    ] {
        let before = server.count();
        let arguments = ["run", "vector_add", "--attempts", "2", flags[0], flags[1]];
        let ended = call(&program, &arguments);
        assert!(ended.stdout.contains(words), "{flags:?}: {} {}", ended.stdout, ended.stderr);
        assert_eq!(ended.code, Some(if asked == 0 { 5 } else { 0 }));
        assert_eq!(server.count() - before, asked, "{flags:?}");
    }
}

#[test]
fn a_model_that_ignores_its_limit_is_found_out() {
    let program = Program::new();
    let play = Play::stream(&[NO_FENCE], Some(Usage::of(1_000, 6_000)));
    let server = HttpScript::start(vec![play]).unwrap();
    settings(&program, &server, "");
    let ended = call(&program, &["run", "vector_add", "--attempts", "9", "--dollars", "9"]);
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("6000 tokens where 5000 were allowed"), "{}", ended.stdout);
    assert_eq!(server.count(), 1);
    assert_eq!(status(&program)["settled_nusd"], 1_000 * 1_000 + 6_000 * 10_000);
}

#[test]
fn a_server_that_charges_more_than_its_price_is_found_out() {
    let program = Program::new();
    let body = json!({"choices": [{"finish_reason": "stop", "message": {"content": "hm"}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "cost": 0.5}});
    let server = HttpScript::start(vec![Play::json(200, &body)]).unwrap();
    settings(&program, &server, "stream = false\n");
    let ended = call(&program, &["run", "vector_add", "--attempts", "9", "--dollars", "9"]);
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    assert!(ended.stdout.contains("it charged 500000000 nano-dollars"), "{}", ended.stdout);
    assert_eq!((server.count(), &status(&program)["settled_nusd"]), (1, &500_000_000.into()));
    let empty = json!({"choices": [], "usage":
        {"prompt_tokens": 1000, "completion_tokens": 100, "cost": 0.5}});
    let silent = HttpScript::start(vec![Play::json(200, &empty)]).unwrap();
    settings(&program, &silent, "stream = false\n");
    let ended = call(&program, &["run", "vector_add", "--attempts", "9", "--dollars", "9"]);
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    assert_eq!((silent.count(), &status(&program)["failed_nusd"]), (1, &500_000_000.into()));
    settings(&program, &server, "stream = false\n");
    // Without a limit to keep, the server's own count is simply booked.
    let free = call(&program, &["run", "vector_add", "--attempts", "2"]);
    assert_eq!(free.code, Some(0), "{} {}", free.stdout, free.stderr);
    assert_eq!(status(&program)["settled_nusd"], 1_000_000_000);
}

#[test]
fn what_the_server_charged_is_settled_or_lost_whenever_the_program_dies() {
    for at in ["asked:1", "sent:1", "submitted:1", "ticketed:1", "replied:1", "closed:1", "asked:2"]
    {
        let program = Program::new();
        let server = HttpScript::start(vec![answer()]).unwrap();
        settings(&program, &server, "");
        let arguments = ["run", "vector_add", "--attempts", "2", "--dollars", "1"];
        let environment = [("SERVED_KEY", KEY), ("WARPWRIGHT_KILL_AT", at)];
        let ended = program.call_with(&arguments, &environment);
        assert_eq!(ended.signal, Some(9), "{at}: {} {}", ended.stdout, ended.stderr);
        let resumed = call(&program, &["resume"]);
        assert_eq!(resumed.code, Some(0), "{at}: {} {}", resumed.stdout, resumed.stderr);
        let status = status(&program);
        assert_eq!(status["settled_nusd"], 2 * ANSWER_NUSD, "{at}");
        let lost = status["lost_nusd"].as_i64().unwrap();
        // A request that a kill cut short may or may not have reached the server.
        let sent = ["sent:1", "submitted:1", "ticketed:1"].contains(&at);
        assert_eq!(lost > 0, sent, "{at}");
        let charged = server.count();
        assert!(charged == 2 || (sent && charged == 3), "{at}: {charged}");
        assert_eq!(program.call(&["ledger", "verify"]).code, Some(0));
    }
}

#[test]
fn the_key_is_sent_and_stored_nowhere() {
    let program = Program::new();
    let server = HttpScript::start(vec![answer()]).unwrap();
    settings(&program, &server, "reasoning_effort = 'low'\n[model.served.extra_body]\nseed = 7\n");
    let ended = call(&program, &["run", "vector_add", "--attempts", "1"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    let asked = &server.asked()[0];
    assert_eq!(asked.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    let body = asked.json();
    assert_eq!((&body["model"], &body["seed"]), (&"m-1".into(), &7.into()));
    assert_eq!(body["reasoning_effort"], "low");
    let stored = std::fs::read(program.ledger()).unwrap();
    assert!(!stored.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
    // A server that repeats the key in what it says of a failure and of itself.
    let echo = format!("{{\"error\":{{\"message\":\"no {KEY} here\",\"code\":400}}}}");
    let server = HttpScript::start(vec![Play::response(400, &[("x-request-id", KEY)], &echo)]);
    let server = server.unwrap();
    settings(&program, &server, "");
    let ended = call(&program, &["run", "vector_add", "--attempts", "1"]);
    assert_eq!(ended.code, Some(5), "{} {}", ended.stdout, ended.stderr);
    for arguments in [["show", "@last:1"], ["status", "@last"], ["show", "@last:1"]] {
        assert!(!program.call(&arguments).stdout.contains(KEY), "{arguments:?}");
    }
    let without = program.call(&["run", "vector_add", "--attempts", "1"]);
    assert_eq!(without.code, Some(2), "{}", without.stdout);
    assert!(without.stderr.contains("set the environment variable SERVED_KEY"));
}

#[test]
fn what_a_dead_process_reserved_is_reserved_anew_under_what_holds_now() {
    let program = Program::new();
    let server = HttpScript::start(vec![answer()]).unwrap();
    settings(&program, &server, "");
    let arguments = ["run", "vector_add", "--attempts", "2", "--dollars", "1"];
    let environment = [("SERVED_KEY", KEY), ("WARPWRIGHT_KILL_AT", "asked:1")];
    assert_eq!(program.call_with(&arguments, &environment).signal, Some(9));
    // The model costs a thousand times more today: its worst case does not fit any more.
    let file = program.path("warpwright.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace(PRICE, "{ input = 1000.0, output = 10000.0 }")).unwrap();
    let resumed = call(&program, &["resume", "--model", "served"]);
    assert_eq!(resumed.code, Some(5), "{} {}", resumed.stdout, resumed.stderr);
    assert!(resumed.stdout.contains("the dollar limit leaves no room"), "{}", resumed.stdout);
    assert_eq!(server.count(), 0);
    std::fs::write(&file, text).unwrap();
    let resumed = call(&program, &["resume", "--model", "served"]);
    assert_eq!(resumed.code, Some(0), "{} {}", resumed.stdout, resumed.stderr);
    assert_eq!((server.count(), &status(&program)["settled_nusd"]), (2, &(2 * ANSWER_NUSD).into()));
}

#[test]
fn a_dollar_limit_is_refused_once_calls_were_made_at_an_unknown_price() {
    let program = Program::new();
    let server = HttpScript::start(vec![answer()]).unwrap();
    settings(&program, &server, "");
    let file = program.path("warpwright.toml");
    let priced = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, priced.replace(&format!("price = {PRICE}"), "")).unwrap();
    let ended = call(&program, &["run", "vector_add", "--attempts", "1"]);
    assert_eq!(ended.code, Some(0), "{} {}", ended.stdout, ended.stderr);
    assert_eq!(status(&program)["unpriced_calls"], 1);
    assert!(program.call(&["status", "@last"]).stdout.contains("unpriced  1 calls"));
    assert!(program.call(&["report"]).stdout.contains("1 calls at an unknown price"));
    std::fs::write(&file, priced).unwrap();
    let arguments = ["resume", "--model", "served", "--attempts", "2", "--dollars", "9"];
    let refused = call(&program, &arguments);
    assert_eq!(refused.code, Some(2), "{} {}", refused.stdout, refused.stderr);
    assert!(refused.stderr.contains("1 calls of this run were made at an unknown price"));
    assert_eq!(server.count(), 1);
}
