use std::path::Path;

use pipeline::limits::{PRIVATE_BYTES_MAX, PRIVATE_TEXTS_MAX};
use pipeline::scrub::Scrubber;

use super::{Machine, is_telling};

const KEY: &str = "0123456789-abcdefghij";

fn machine() -> Machine<'static> {
    Machine {
        host: "node-17.example.org\n".to_owned(),
        home: "/home/ada".to_owned(),
        users: vec!["ada".to_owned()],
        paths: Vec::new(),
        variables: Vec::new(),
    }
}

fn scrubbed(machine: &Machine<'_>, named: &[String], text: &str) -> String {
    let (texts, left_out) = machine.texts(Vec::new(), named);
    assert!(left_out.is_empty(), "{left_out:?}");
    Scrubber::new(texts).scrub(text).into_owned()
}

/// A relative path is an ordinary word, which is in every text.
#[test]
fn a_path_that_was_given_from_here_hides_no_word() {
    let given = ["cache", "run.db", ".warpwright/ledger.db", "/data"].map(Path::new).to_vec();
    let machine = Machine { paths: given, ..machine() };
    let here = std::env::current_dir().unwrap();
    let text = "the cache of /data/x, run.db and .warpwright/ledger.db";
    assert_eq!(scrubbed(&machine, &[], text), text);
    let told = format!("cannot open {}/cache/x", here.display());
    assert_eq!(scrubbed(&machine, &[], &told), "cannot open ***/x");
}

#[test]
fn names_of_this_machine_are_hidden() {
    for (text, expected) in [
        ("on node-17.example.org", "on ***"),
        ("on node-17: x", "on ***: x"),
        ("/home/ada/x /scratch/ada/x", "***/x /scratch/***/x"),
    ] {
        assert_eq!(scrubbed(&machine(), &[], text), expected);
    }
    for host in ["h200", "gpu1", "GB200"] {
        let machine = Machine { host: host.to_owned(), ..machine() };
        let text = format!("made for {host}");
        assert_eq!(scrubbed(&machine, &[], &text), text);
    }
}

#[test]
fn variables_with_telling_names_are_secret() {
    for (name, telling) in [
        ("OPENAI_API_KEY", true),
        ("DB_PASSWD", true),
        ("GPG_PASSPHRASE", true),
        ("MYSQL_PASS", true),
        ("GITHUB_PAT", true),
        ("SSHPASS", true),
        ("MYSQL_PWD", true),
        ("AWS_CREDENTIALS", true),
        ("NPM_AUTH", true),
        ("DATABASE_URL", true),
        ("WARPWRIGHT_TOKENS", false),
        ("GIT_AUTHOR_NAME", false),
        ("PATH", false),
        ("PWD", false),
        ("COMPASS", false),
    ] {
        assert_eq!(is_telling(name), telling, "{name}");
    }
    let variables = [("MY_TOKENS", "20000000"), ("LC_ALL", "C.UTF-8-x"), ("GATE", KEY)];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let machine = Machine { variables: variables.to_vec(), ..machine() };
    let text = format!("20000000 C.UTF-8-x {KEY}");
    assert_eq!(scrubbed(&machine, &[], &text), text);
    let named = ["GATE".to_owned()];
    assert_eq!(scrubbed(&machine, &named, &text), "20000000 C.UTF-8-x ***");
}

/// What the settings name comes before what only looks like it, and what is left out is said.
#[test]
fn what_cannot_be_hidden_is_said() {
    let many = (0..2 * PRIVATE_TEXTS_MAX).map(|i| (format!("A_KEY_{i}"), format!("{KEY}-{i}")));
    let mut variables: Vec<_> = many.collect();
    variables.push(("GATE".to_owned(), "a-secret-of-the-gate".to_owned()));
    variables.push(("LONG_KEY".to_owned(), "x".repeat(PRIVATE_BYTES_MAX + 1)));
    let machine = Machine { variables, ..machine() };
    let keys = vec![("the key of the model `m`".to_owned(), "the-key-of-a-model".to_owned())];
    let (texts, left_out) = machine.texts(keys, &["GATE".to_owned()]);
    assert_eq!(texts.len(), PRIVATE_TEXTS_MAX);
    let text = "the-key-of-a-model, a-secret-of-the-gate, node-17";
    assert_eq!(Scrubber::new(texts).scrub(text), "***, ***, ***");
    assert_eq!(left_out[0], "the value of LONG_KEY");
    assert!(left_out.len() > PRIVATE_TEXTS_MAX && left_out[1].starts_with("the value of A_KEY_"));
}
