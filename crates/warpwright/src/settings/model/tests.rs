//! What bad sections say, and what good ones become.

use super::{ModelSetting, Price};
use crate::settings::file::FileSettings;
use crate::settings::openai::KeySource;

fn resolve(section: &str) -> Result<ModelSetting, String> {
    let file = FileSettings::parse(&format!("[model.m]\n{section}"))?;
    ModelSetting::resolve("m", &file).map_err(|error| error.to_string())
}

#[test]
fn bad_sections_name_the_field_and_the_way_out() {
    for (section, part) in [
        ("kind = 'carrier pigeon'", "unknown variant `carrier pigeon`"),
        ("kind = 'openai'", "[model.m]: `model` is missing"),
        ("kind = 'openai'\nmodel = 'x'\nkey = 'sk-1'", "`key_env = \"VARIABLE\"`"),
        ("kind = 'openai'\nmodel = 'x'\nkey_env = 'A'\nkey_file = 'b'", "not both"),
        ("kind = 'openai'\nmodel = 'x'\nprice = 'cheap'", "`price = \"cheap\"`"),
        ("kind = 'openai'\nmodel = 'x'\nprice = { input = -1.0, output = 1.0 }", "`input = -1`"),
        ("kind = 'openai'\nmodel = 'x'\ntemprature = 1.0", "temprature"),
        ("kind = 'openai'\nmodel = 'x'\ndeadline_s = 0.0", "`deadline_s = 0`"),
        ("kind = 'openai'\nmodel = 'x'\nmax_tokens_field = 'x'", "max_completion_tokens"),
        ("kind = 'openai'\nmodel = 'x'\noutput_tokens_max = 0", "`output_tokens_max = 0`"),
        (
            "kind = 'openai'\nmodel = 'x'\nextra_body = { max_tokens = 9 }",
            "`extra_body.max_tokens` cannot be set: use `output_tokens_max`",
        ),
        ("kind = 'openai'\nmodel = 'x'\nextra_body = { n = 3 }", "use `attempts`"),
        ("kind = 'openai'\nmodel = 'x'\nheaders = { Api-Key = 's' }", "header_env = {"),
        ("kind = 'openai'\nmodel = 'x'\nbase_url = 'http://a/v1?api_key=s'", "holds a secret"),
        ("kind = 'openai'\nmodel = 'x'\nbase_url = 'http://u:p@a/v1'", "holds a secret"),
        ("kind = 'command'", "`command` is missing"),
        ("kind = 'command'\ncommand = ['x']\nreply_form = 'xml'", "text or json"),
        ("kind = 'mailbox'", "`folder` is missing"),
        ("kind = 'replay'", "`file` is missing"),
    ] {
        let why = resolve(section).unwrap_err();
        assert!(why.contains(part), "{section}: {why}");
    }
}

#[test]
fn prices_are_exact_and_the_key_stays_with_its_server() {
    let text = "kind = 'openai'\nmodel = 'x'\nprice = { input = 1.25, output = 10 }";
    let Ok(ModelSetting::Openai(own)) = resolve(text) else { panic!("{text}") };
    let price = Price::PerMillionTokens {
        input_nusd: 1_250_000_000,
        cached_input_nusd: 1_250_000_000,
        output_nusd: 10_000_000_000,
    };
    assert_eq!(own.price, price);
    assert_eq!(own.key, KeySource::Environment("OPENAI_API_KEY".to_owned()));
    let text = "kind = 'openai'\nmodel = 'x'\nbase_url = 'http://localhost:8080/v1'";
    let Ok(ModelSetting::Openai(other)) = resolve(text) else { panic!("{text}") };
    assert_eq!((other.key, other.price), (KeySource::None, Price::Unknown));
}

#[test]
fn short_forms_need_no_file() {
    let none = FileSettings::default();
    for (text, words) in [
        ("replay:/a/b.jsonl", "replay of /a/b.jsonl"),
        ("mailbox:/box", "the mailbox /box"),
        ("command:answer --fast", "the program answer --fast"),
        ("openai:gpt-x", "gpt-x at "),
    ] {
        let found = ModelSetting::resolve(text, &none).unwrap().describe();
        assert!(found.starts_with(words), "{text}: {found}");
    }
    for text in ["gpt", "replay:", "fax:1", ""] {
        let why = ModelSetting::resolve(text, &none).unwrap_err().to_string();
        assert!(why.contains("write openai:MODEL"), "{text}: {why}");
    }
}
