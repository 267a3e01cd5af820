use pipeline::transcript::{Usage, write};

use super::{CommandModel, CommandSettings, PromptForm, ReplyForm};
use crate::conformance::{Abilities, check, request, script};
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{COMMAND_FINISHED_MAX, REPLY_BYTES_MAX};
use crate::{Llm, Poll, Price, Reply, Request, Ticket, wait_for};

mod lifetime;

const WAIT_MS: u64 = 60_000;
const PAID: Price = Price::PerMillionTokens {
    input_nusd: 1_000_000,
    cached_input_nusd: 1_000_000,
    output_nusd: 2_000_000,
};

fn settings(argv: &[&str]) -> CommandSettings {
    CommandSettings {
        name: "helper".to_owned(),
        argv: argv.iter().map(|each| (*each).to_owned()).collect(),
        model: "shown".to_owned(),
        working_folder: None,
        environment: Vec::new(),
        prompt_form: PromptForm::Text,
        reply_form: ReplyForm::Text,
        price: Price::Free,
        output_tokens_max: 1_000,
        deadline_ms: WAIT_MS,
    }
}

fn shell(script: &str) -> CommandSettings {
    settings(&["sh", "-c", script])
}

async fn ask(settings: CommandSettings, request: &Request) -> Result<Reply, LlmError> {
    let model = CommandModel::new(settings)?;
    let ticket = model.submit(request).await?;
    wait_for(&model, &ticket, Some(WAIT_MS)).await
}

async fn run(settings: CommandSettings) -> Result<Reply, LlmError> {
    ask(settings, &request("t", 1, 0)).await
}

/// Plays a transcript, as any program could.
const PLAYER: &str = r#"
import json, sys
asked = json.load(sys.stdin)
lines = [json.loads(line) for line in open(sys.argv[1])][1:]
tries = [e for e in lines if (e["task"], e["seq"]) == (asked["task"], asked["seq"])]
entry = tries[min(asked["try"], len(tries) - 1)]
if "error" in entry:
    sys.exit(75)
text = entry["reply"]
if sys.argv[2] == "json":
    text = json.dumps({"reply": text, "usage": entry["usage"]})
print(text, end="")
"#;

#[tokio::test]
async fn passes_the_suite_of_every_provider() {
    let folder = tempfile::tempdir().unwrap();
    let transcript = folder.path().join("t.jsonl");
    std::fs::write(&transcript, write(&script())).unwrap();
    let transcript = transcript.to_str().unwrap();
    let abilities = Abilities { recorded: false, failure: ErrorClass::RateLimited };
    for (form, reply_form) in [("json", ReplyForm::Json), ("text", ReplyForm::Text)] {
        let mut player = settings(&["python3", "-c", PLAYER, transcript, form]);
        (player.prompt_form, player.reply_form) = (PromptForm::Json, reply_form);
        let start = || CommandModel::new(player.clone()).unwrap();
        check(start, abilities).await.unwrap();
        check(|| crate::Model::Command(start()), abilities).await.unwrap();
    }
}

#[tokio::test]
async fn prompts_arrive_in_both_forms() {
    let text = run(settings(&["cat"])).await.unwrap().text;
    assert_eq!(text, "be exact\n\na kernel\n");
    let mut json = settings(&["cat"]);
    (json.prompt_form, json.deadline_ms) = (PromptForm::Json, 30_000);
    for (wanted_ms, limit_ms) in [(None, 30_000), (Some(29_000), 29_000), (Some(31_000), 30_000)] {
        let asked = Request { deadline_ms: wanted_ms, ..request("t", 3, 2) };
        let found = ask(json.clone(), &asked).await.unwrap().text;
        let messages =
            r#"[{"role":"system","content":"be exact"},{"role":"user","content":"a kernel"}]"#;
        let limits = format!(r#""output_tokens_max":1000,"deadline_ms":{limit_ms}"#);
        let wanted = format!(
            "{{\"prompt\":1,\"id\":\"t-3-2\",\"task\":\"t\",\"seq\":3,\"try\":2,\
             \"messages\":{messages},{limits}}}\n"
        );
        assert_eq!(found, wanted);
    }
}

/// Every end of a program: how it is classed, what is shown, what it may have cost.
#[tokio::test]
async fn ends_have_their_class_their_words_and_their_charge() {
    use ErrorClass::{Auth, Malformed, RateLimited, Refused, Unavailable};
    let flood = "exec cat /dev/zero";
    for (script, class, part, charge) in [
        ("echo so so >&2; exit 1", Unavailable, "exit code 1; its stderr ends with: so so", true),
        (
            "printf '\\033[1;31mred\\033[0m and \\033[' >&2; exit 1",
            Unavailable,
            "exit code 1; its stderr ends with: red and",
            true,
        ),
        ("exit 2", Unavailable, "helper: exit code 2;", true),
        ("echo half; exit 127", Unavailable, "exit code 127", true),
        ("kill -9 $$", Unavailable, "killed by signal 9", true),
        ("kill -15 $$", Unavailable, "killed by signal 15", true),
        ("exit 64", Refused, "exit code 64", false),
        ("exit 65", Refused, "exit code 65", false),
        ("exit 75", RateLimited, "exit code 75", false),
        ("echo no key >&2; exit 77", Auth, "no key", false),
        ("true", Malformed, "an empty reply", true),
        ("echo", Malformed, "an empty reply", true),
        (r"printf 'ab\377\376'", Malformed, "2 of 4 bytes on stdout are no UTF-8", true),
        (flood, Malformed, "more than 1048576 bytes on stdout", true),
    ] {
        for (price, free) in [
            (PAID, false),
            (Price::Unknown, false),
            (Price::Free, true),
            (Price::Subscription, true),
        ] {
            let error = run(CommandSettings { price, ..shell(script) }).await.unwrap_err();
            assert_eq!(error.class(), class, "{script}: {error}");
            assert!(error.to_string().contains(part), "{script}: {error}");
            let wanted = if charge && !free { Charge::Unknown } else { Charge::Nothing };
            assert_eq!(error.charge(), wanted, "{script} {price:?}");
        }
    }
}

#[tokio::test]
async fn a_failed_program_may_say_what_it_cost() {
    let usage = r#"{"usage":{"input_tokens":7,"output_tokens":8}}"#;
    for (end, class) in [
        ("exit 0", ErrorClass::Malformed),
        ("exit 1", ErrorClass::Unavailable),
        ("exit 75", ErrorClass::RateLimited),
    ] {
        for (price, charge) in [
            (PAID, Charge::Known { usage: Usage::of(7, 8), cost_nusd: None }),
            (Price::Free, Charge::Nothing),
        ] {
            let script = format!("echo '{usage}'; {end}");
            let json = CommandSettings { price, reply_form: ReplyForm::Json, ..shell(&script) };
            let error = run(json).await.unwrap_err();
            assert_eq!((error.class(), error.charge()), (class, charge), "{error}");
        }
    }
}

#[tokio::test]
async fn json_replies_are_read_leniently() {
    let counted = r#""usage":{"input_tokens":100,"output_tokens":200}"#;
    let with = |more: &str| format!(r#"{{"reply":"abc"{more}}}"#);
    let estimate = Some(Usage::estimate("be exacta kernel".len(), 3));
    let told = Some(Usage::of(100, 200));
    for (json, price, usage, cost_nusd) in [
        (with(""), Price::Free, estimate, Some(0)),
        (with(""), Price::Subscription, estimate, Some(0)),
        (with(""), Price::Unknown, None, None),
        (with(""), PAID, None, None),
        (with(&format!(",{counted}")), PAID, told, Some(500)),
        (with(&format!(",{counted}")), Price::Unknown, told, None),
        (with(&format!(",{counted},\"cost_usd\":0.5")), PAID, told, Some(500_000_000)),
        (with(&format!(",{counted},\"cost_usd\":0.5")), Price::Free, told, Some(0)),
        (with(",\"cost_usd\":0.25"), PAID, estimate, Some(250_000_000)),
        (with(",\"cost_usd\":-1"), PAID, None, None),
        (with(",\"usage\":\"many\",\"extra\":{\"a\":[1]}"), PAID, None, None),
    ] {
        let script = format!("cat <<'E'\n{json}\nE");
        let settings = CommandSettings { price, reply_form: ReplyForm::Json, ..shell(&script) };
        let reply = run(settings).await.unwrap();
        assert_eq!((reply.usage, reply.cost_nusd), (usage, cost_nusd), "{json} {price:?}");
        let named = (reply.text.as_str(), reply.finish_reason.as_str(), reply.model.as_str());
        assert_eq!(named, ("abc", "stop", "shown"));
    }
    let more = with(r#","finish_reason":"length","model":"m-2","reasoning":"because""#);
    let script = format!("echo '{more}'");
    let reply = run(CommandSettings { reply_form: ReplyForm::Json, ..shell(&script) }).await;
    let reply = reply.unwrap();
    let named = (reply.finish_reason.as_str(), reply.model.as_str(), reply.reasoning.as_str());
    assert_eq!(named, ("length", "m-2", "because"));
}

#[tokio::test]
async fn what_is_no_json_reply_is_malformed() {
    for (stdout, part) in [
        ("", "an empty reply"),
        ("plain words", "no JSON object"),
        ("[1]", "no JSON object"),
        (r#"{"reply":"a"} {"reply":"b"}"#, "no JSON object"),
        (r#"{"text":"a"}"#, "no field \"reply\""),
        (r#"{"reply":7}"#, "no text"),
        (r#"{"reply":"  "}"#, "an empty reply"),
    ] {
        let script = format!("printf '%s' '{stdout}'");
        let json = CommandSettings { reply_form: ReplyForm::Json, ..shell(&script) };
        let error = run(json).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Malformed, "{stdout}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn few_stray_bytes_are_replaced() {
    let script = r"printf '%0198d\377' 1";
    let text = run(shell(script)).await.unwrap().text;
    assert_eq!((text.chars().count(), text.ends_with("1\u{fffd}")), (199, true));
    let whole = format!("head -c {REPLY_BYTES_MAX} /dev/zero | tr '\\0' x");
    assert_eq!(run(shell(&whole)).await.unwrap().text.len(), REPLY_BYTES_MAX);
}

#[tokio::test]
async fn only_the_end_of_stderr_is_kept_and_it_is_cleaned() {
    let script =
        "head -c 3000000 /dev/zero | tr '\\0' y >&2; printf 'z\\033[31mred\\007' >&2; exit 3";
    let shown = run(shell(script)).await.unwrap_err().to_string();
    assert!(shown.contains(r"yzred\u{7}"), "{shown}");
    assert!(shown.len() < 4_500, "{}", shown.len());
}

#[tokio::test]
async fn programs_that_cannot_be_started_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let plain = folder.path().join("plain");
    std::fs::write(&plain, "#!/bin/sh\n").unwrap();
    let plain = plain.to_str().unwrap();
    for (argv, folder, part) in [
        (vec!["no-such-program-here"], None, "cannot start no-such-program-here"),
        (vec!["no-such-program-here"], None, "PATH is /"),
        (vec!["/no/such"], None, "cannot start /no/such"),
        (vec![plain], None, "cannot start /"),
        (vec!["sh\0"], None, "cannot start sh"),
        (vec!["true"], Some("/no/folder"), "working folder /no/folder"),
        (vec![], None, "no program is named"),
        (vec![""], None, "no program is named"),
    ] {
        let working_folder = folder.map(Into::into);
        let error = run(CommandSettings { working_folder, price: PAID, ..settings(&argv) }).await;
        let error = error.unwrap_err();
        assert_eq!(error.class(), ErrorClass::LocalFile, "{error}");
        assert_eq!(error.charge(), Charge::Nothing, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
}

#[tokio::test]
async fn the_environment_is_what_was_named() {
    let names = |settings| async {
        let text = run(settings).await.unwrap().text;
        text.lines().filter_map(|line| Some(line.split_once('=')?.0.to_owned())).collect::<Vec<_>>()
    };
    let few = names(settings(&["env"])).await;
    assert!(few.contains(&"PATH".to_owned()), "{few:?}");
    let plain = |(name, value): &(String, String)| !few.contains(name) && !value.contains('\n');
    let (other, _) = std::env::vars().find(plain).unwrap();
    let environment = vec![other.clone(), "NOT_SET_ANYWHERE".to_owned()];
    let more = names(CommandSettings { environment, ..settings(&["env"]) }).await;
    assert_eq!((more.len(), more.contains(&other)), (few.len() + 1, true), "{more:?}");
}

#[tokio::test]
async fn programs_run_in_their_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    let pwd = CommandSettings { working_folder: Some(path.clone()), ..settings(&["pwd"]) };
    assert_eq!(run(pwd).await.unwrap().text.trim(), path.to_str().unwrap());
}

#[tokio::test]
async fn ends_can_be_polled_again_and_are_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let runs = folder.path().join("runs");
    let script = format!("echo run >> {}; wc -l < {}", runs.display(), runs.display());
    let model = CommandModel::new(shell(&script)).unwrap();
    let asked = request("t", 1, 0);
    let ticket = model.submit(&asked).await.unwrap();
    assert_eq!(ticket.as_str(), "command:t-1-0");
    let first = wait_for(&model, &ticket, None).await.unwrap();
    assert_eq!(first.text.trim(), "1");
    assert_eq!(model.poll(&ticket).await.unwrap(), Poll::Done(first.clone()));
    let again = model.submit(&asked).await.unwrap();
    assert_eq!(wait_for(&model, &again, None).await.unwrap(), first);
    model.cancel(&ticket).await.unwrap();
    assert_eq!(model.poll(&ticket).await.unwrap(), Poll::Done(first));
    let long = Request { id: "x".repeat(2_000), ..asked };
    assert_eq!(model.submit(&long).await.unwrap_err().class(), ErrorClass::Refused);
}

#[tokio::test]
async fn a_failed_id_may_be_submitted_again() {
    let folder = tempfile::tempdir().unwrap();
    let flag = folder.path().join("flag");
    let script = format!("test -e {0} && echo fine || {{ touch {0}; exit 1; }}", flag.display());
    let model = CommandModel::new(shell(&script)).unwrap();
    let asked = request("t", 1, 0);
    for ok in [false, true] {
        let ticket = model.submit(&asked).await.unwrap();
        assert_eq!(wait_for(&model, &ticket, None).await.is_ok(), ok);
    }
}

#[tokio::test]
async fn only_so_many_ends_are_kept() {
    let model = CommandModel::new(settings(&["echo", "fine"])).unwrap();
    let count = u32::try_from(COMMAND_FINISHED_MAX).unwrap() + 3;
    let mut tickets = Vec::new();
    for seq in 0..count {
        let ticket = model.submit(&request("t", seq, 0)).await.unwrap();
        wait_for(&model, &ticket, None).await.unwrap();
        tickets.push(ticket);
    }
    let mut known = Vec::new();
    for ticket in &tickets {
        known.push(model.poll(ticket).await.is_ok());
    }
    let forgotten = known.iter().take_while(|known| !**known).count();
    assert_eq!(
        (forgotten, known.iter().filter(|known| **known).count()),
        (3, COMMAND_FINISHED_MAX)
    );
    let error = model.poll(&tickets[0]).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::UnknownTicket, Charge::Nothing));
}

#[test]
fn describes_itself_by_its_settings() {
    let info = CommandModel::new(CommandSettings { price: PAID, ..shell("true") }).unwrap();
    let info = info.describe();
    assert_eq!((info.provider.as_str(), info.model.as_str()), ("command", "shown"));
    assert_eq!((info.idempotent, info.price, info.deadline_ms), (false, PAID, Some(WAIT_MS)));
    assert_eq!(info.output_tokens_max, 1_000);
}

#[tokio::test]
async fn tickets_of_another_process_are_unknown() {
    let priced = CommandModel::new(CommandSettings { price: PAID, ..shell("true") }).unwrap();
    for text in ["command:t-1-0", "command:", "replay:{}"] {
        let error = priced.poll(&Ticket::from(text.to_owned())).await.unwrap_err();
        assert_eq!((error.class(), error.charge()), (ErrorClass::UnknownTicket, Charge::Unknown));
    }
}
