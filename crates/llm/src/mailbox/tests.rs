use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use pipeline::transcript::Usage;

use super::{MailboxModel, MailboxSettings};
use crate::conformance::request;
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{MAILBOX_OPEN_MAX, MAILBOX_POLL_MS, REPLY_BYTES_MAX};
use crate::{Llm, Poll, Price, Reply, Request, Ticket, wait_for};

mod answering;
mod restart;

/// Longest wait of a test for what must come, in milliseconds.
const PATIENCE_MS: u64 = 60_000;
/// What the questions of these tests are called.
const ID: &str = "t-1-0";

struct Mailbox(tempfile::TempDir);

impl Mailbox {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn settings(&self) -> MailboxSettings {
        MailboxSettings {
            name: "post".to_owned(),
            folder: self.0.path().to_owned(),
            model: "a person".to_owned(),
            deadline_ms: None,
            output_tokens_max: 1_000,
        }
    }

    fn open(&self) -> MailboxModel {
        MailboxModel::open(self.settings()).unwrap()
    }

    /// Writes a file as the page says: by rename.
    fn put(&self, name: &str, content: impl AsRef<[u8]>) {
        let half = self.path(&format!("{name}.tmp"));
        fs::write(&half, content).unwrap();
        fs::rename(half, self.path(name)).unwrap();
    }

    /// Names in the folder, and those in `done`.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let list = |path: &Path| {
            let entries = fs::read_dir(path).unwrap();
            let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
            let mut names: Vec<String> =
                entries.map(|entry| name(entry).to_str().unwrap().to_owned()).collect();
            names.retain(|name| name != "mailbox.lock" && name != "done");
            names.sort();
            names
        };
        (list(self.0.path()), list(&self.path("done")))
    }
}

fn asked() -> Request {
    request("t", 1, 0)
}

fn ticket() -> Ticket {
    Ticket::from(format!("mailbox:{ID}"))
}

async fn wait(model: &MailboxModel) -> Result<Reply, LlmError> {
    wait_for(model, &ticket(), Some(PATIENCE_MS)).await
}

async fn is_pending(model: &MailboxModel) -> bool {
    model.poll(&ticket()).await == Ok(Poll::Pending { next_poll_ms: MAILBOX_POLL_MS })
}

#[tokio::test]
async fn a_question_is_two_files_and_they_go_away_with_the_answer() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    assert_eq!(model.submit(&asked()).await.unwrap(), ticket());
    assert!(is_pending(&model).await);
    assert_eq!(mailbox.names().0, ["t-1-0.prompt.json", "t-1-0.prompt.md"]);
    let text = fs::read_to_string(mailbox.path("t-1-0.prompt.json")).unwrap();
    let prompt: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((prompt["mailbox"].as_u64(), prompt["id"].as_str()), (Some(1), Some(ID)));
    let readable = fs::read_to_string(mailbox.path("t-1-0.prompt.md")).unwrap();
    assert!(readable.contains("a kernel"));
    mailbox.put("t-1-0.usage.json", r#"{"input_tokens":7,"output_tokens":8,"model":"Ada"}"#);
    mailbox.put("t-1-0.reply.md", "it is 42\n");
    let reply = wait(&model).await.unwrap();
    let (usage, cost) = (Some(Usage::of(7, 8)), Some(0));
    assert_eq!((reply.text.as_str(), reply.usage, reply.cost_nusd), ("it is 42\n", usage, cost));
    assert_eq!((reply.model.as_str(), reply.finish_reason.as_str()), ("Ada", "stop"));
    let (open, done) = mailbox.names();
    assert_eq!(open, Vec::<String>::new());
    let files = ["t-1-0.prompt.json", "t-1-0.prompt.md", "t-1-0.reply.md", "t-1-0.usage.json"];
    assert_eq!(done, files);
    assert_eq!(model.poll(&ticket()).await, Ok(Poll::Done(reply)));
}

#[tokio::test]
async fn what_was_not_counted_is_free_and_estimated() {
    let estimate = Usage::estimate("be exacta kernel".len(), "abc".len());
    let huge = format!("{{\"x\":\"{}\"}}", "x".repeat(17 << 20));
    for (counts, usage) in [
        (None, estimate),
        (Some("no json"), estimate),
        (Some("[]"), estimate),
        (Some("\u{fffd}"), estimate),
        (Some(r#"{"input_tokens":7}"#), estimate),
        (Some(huge.as_str()), estimate),
        (Some(r#"{"input_tokens":7,"output_tokens":8,"cost_usd":9}"#), Usage::of(7, 8)),
    ] {
        let mailbox = Mailbox::new();
        let model = mailbox.open();
        model.submit(&asked()).await.unwrap();
        if let Some(counts) = counts {
            mailbox.put("t-1-0.usage.json", counts);
        }
        mailbox.put("t-1-0.reply.md", "abc");
        let reply = wait(&model).await.unwrap();
        assert_eq!((reply.usage, reply.cost_nusd), (Some(usage), Some(0)));
        assert_eq!(reply.model, "a person");
    }
}

#[tokio::test]
async fn refusals_are_shown_in_words() {
    let escape = ("out of scope\u{1b}[31m\n", r"out of scope\u{1b}[31m");
    for (text, words) in [escape, ("", ""), (" \n", "")] {
        let mailbox = Mailbox::new();
        let model = mailbox.open();
        model.submit(&asked()).await.unwrap();
        mailbox.put("t-1-0.refuse", text);
        for _ in 0..2 {
            let reply = wait(&model).await.unwrap();
            let found = (reply.text.as_str(), reply.finish_reason.as_str(), reply.cost_nusd);
            assert_eq!(found, (words, "refusal", Some(0)));
        }
        assert!(mailbox.names().0.is_empty() && mailbox.path("done/t-1-0.refuse").exists());
    }
}

#[tokio::test]
async fn tickets_of_others_are_unknown() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    let long = format!("mailbox:{}", "x".repeat(200));
    for text in [
        "mailbox:t-2-0",
        "mailbox:",
        "mailbox:../t-1-0",
        "mailbox:done/t-1-0",
        "mailbox:.",
        "command:t-1-0",
        &long,
    ] {
        let ticket = Ticket::from(text.to_owned());
        let error = model.poll(&ticket).await.unwrap_err();
        let wanted = (ErrorClass::UnknownTicket, Charge::Nothing);
        assert_eq!((error.class(), error.charge()), wanted, "{text}");
        assert_eq!(model.cancel(&ticket).await, Ok(()), "{text}");
    }
}

#[tokio::test]
async fn ids_that_name_no_file_here_are_refused() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    let long = "x".repeat(101);
    for id in ["", ".", "..", "a/b", "../a", "/a", "a..b", ".a", "a b", "a\0", "ä", &long] {
        let error = model.submit(&Request { id: id.to_owned(), ..asked() }).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::Refused, "{id:?}");
    }
    assert!(mailbox.names().0.is_empty());
}

#[tokio::test]
async fn a_mailbox_is_used_by_one_run() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    let clone = model.clone();
    for _ in 0..2 {
        let error = MailboxModel::open(mailbox.settings()).unwrap_err();
        let shown = error.to_string();
        assert_eq!((error.class(), error.is_retryable()), (ErrorClass::LocalFile, false));
        assert!(shown.contains(&format!("process {} uses", std::process::id())), "{shown}");
        assert!(shown.contains("mailbox.lock"), "{shown}");
    }
    drop(model);
    assert!(MailboxModel::open(mailbox.settings()).is_err());
    drop(clone);
    mailbox.open();
    fs::write(mailbox.path("mailbox.lock"), "999999999 is a stale id of before").unwrap();
    mailbox.open();
}

#[tokio::test]
async fn folders_and_files_that_cannot_be_used_are_named() {
    let mailbox = Mailbox::new();
    fs::write(mailbox.path("file"), "").unwrap();
    fs::create_dir_all(mailbox.path("locked/mailbox.lock")).unwrap();
    std::os::unix::fs::symlink("elsewhere", mailbox.path("link")).unwrap();
    for (folder, part) in [("file", "file/done"), ("locked", "mailbox.lock"), ("link", "link/done")]
    {
        let folder = mailbox.path(folder);
        let error = MailboxModel::open(MailboxSettings { folder, ..mailbox.settings() });
        let error = error.unwrap_err();
        assert_eq!(error.class(), ErrorClass::LocalFile, "{error}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let folder = mailbox.path("a/b");
    let model = MailboxModel::open(MailboxSettings { folder, ..mailbox.settings() }).unwrap();
    fs::remove_dir_all(mailbox.path("a")).unwrap();
    let error = model.submit(&asked()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::LocalFile, "{error}");
    assert!(error.to_string().contains("a/b/t-1-0.prompt.md"), "{error}");
    assert_eq!(model.poll(&ticket()).await.unwrap_err().class(), ErrorClass::UnknownTicket);
}

#[test]
fn describes_itself_by_its_settings() {
    for deadline_ms in [None, Some(7)] {
        let mailbox = Mailbox::new();
        let settings = MailboxSettings { deadline_ms, ..mailbox.settings() };
        let info = MailboxModel::open(settings).unwrap().describe();
        assert_eq!((info.provider.as_str(), info.model.as_str()), ("mailbox", "a person"));
        assert_eq!((info.idempotent, info.price), (true, Price::Free));
        assert_eq!((info.deadline_ms, info.output_tokens_max), (deadline_ms, 1_000));
    }
}

#[tokio::test]
async fn the_shorter_deadline_is_written() {
    for (ours, wanted, written) in [
        (None, None, None),
        (Some(5), None, Some(5)),
        (None, Some(6), Some(6)),
        (Some(5), Some(6), Some(5)),
    ] {
        let mailbox = Mailbox::new();
        let settings = MailboxSettings { deadline_ms: ours, ..mailbox.settings() };
        let model = MailboxModel::open(settings).unwrap();
        model.submit(&Request { deadline_ms: wanted, ..asked() }).await.unwrap();
        let text = fs::read_to_string(mailbox.path("t-1-0.prompt.json")).unwrap();
        let prompt: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(prompt["deadline_ms"].as_u64(), written);
    }
}

#[tokio::test]
async fn only_so_many_questions_are_open() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    for index in 0..MAILBOX_OPEN_MAX {
        model.shared.note(&format!("o-{index}")).unwrap();
    }
    let error = model.submit(&asked()).await.unwrap_err();
    assert_eq!((error.class(), error.is_retryable()), (ErrorClass::RateLimited, true));
    model.cancel(&Ticket::from("mailbox:o-7".to_owned())).await.unwrap();
    model.submit(&asked()).await.unwrap();
}

/// What a reply looks like while it is written in place.
fn append(path: &Path, text: &str) {
    let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

#[tokio::test]
async fn replies_written_in_place_are_taken_when_they_stop_growing() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    let path = mailbox.path("t-1-0.reply.md");
    fs::write(&path, "").unwrap();
    for _ in 0..2 {
        assert!(is_pending(&model).await, "a reply without a byte");
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    }
    for _ in 0..5 {
        append(&path, "more\n");
        assert!(is_pending(&model).await, "a reply that has just grown");
    }
    assert_eq!(wait(&model).await.unwrap().text, "more\n".repeat(5));
}

#[tokio::test]
async fn a_renamed_reply_is_taken_at_once() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    let (half, path) = (mailbox.path("t-1-0.reply.md.tmp"), mailbox.path("t-1-0.reply.md"));
    fs::write(&half, "whole").unwrap();
    // Two times that a coarse clock tells apart.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    fs::rename(half, path).unwrap();
    assert!(matches!(model.poll(&ticket()).await, Ok(Poll::Done(reply)) if reply.text == "whole"));
}

#[tokio::test]
async fn what_is_no_answer_is_named_and_put_away() {
    type Make = fn(&Path);
    let cases: [(&str, Make, &str); 9] = [
        (
            "t-1-0.reply.md",
            |path| fs::write(path, vec![b'x'; REPLY_BYTES_MAX + 1]).unwrap(),
            "1048576",
        ),
        ("t-1-0.reply.md", |path| fs::write(path, b"a\xff").unwrap(), "is no UTF-8"),
        ("t-1-0.reply.md", |path| fs::write(path, " \n").unwrap(), "is empty"),
        ("t-1-0.reply.md", |path| link("/etc/hostname", path), "is a symbolic link"),
        ("t-1-0.reply.md", |path| link("nowhere", path), "is a symbolic link"),
        ("t-1-0.reply.md", |path| fs::create_dir(path).unwrap(), "is a folder"),
        ("t-1-0.reply.md", fifo, "is a FIFO"),
        ("t-1-0.refuse", fifo, "is a FIFO"),
        (
            "t-1-0.refuse",
            |path| fs::write(path, vec![b'x'; REPLY_BYTES_MAX + 1]).unwrap(),
            "1048576",
        ),
    ];
    for (name, make, part) in cases {
        let mailbox = Mailbox::new();
        let model = mailbox.open();
        model.submit(&asked()).await.unwrap();
        make(&mailbox.path(name));
        let first = wait(&model).await.unwrap_err();
        let shown = first.to_string();
        assert_eq!((first.class(), first.charge()), (ErrorClass::Malformed, Charge::Nothing));
        assert!(shown.contains(part) && shown.contains(&format!("done/{name}")), "{shown}");
        assert!(mailbox.names().0.is_empty(), "{name} {part}");
        assert_eq!(wait(&model).await.unwrap_err(), first);
        let later = request("t", 1, 1);
        model.submit(&later).await.unwrap();
        assert_eq!(mailbox.names().0, ["t-1-1.prompt.json", "t-1-1.prompt.md"]);
    }
}

fn link(to: &str, path: &Path) {
    std::os::unix::fs::symlink(to, path).unwrap();
}

fn fifo(path: &Path) {
    assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[tokio::test]
async fn the_largest_reply_is_taken() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    mailbox.put("t-1-0.reply.md", vec![b'x'; REPLY_BYTES_MAX]);
    assert_eq!(wait(&model).await.unwrap().text.len(), REPLY_BYTES_MAX);
}

#[tokio::test]
async fn a_question_that_nobody_answers_ends_at_its_deadline_and_costs_nothing() {
    let mailbox = Mailbox::new();
    let settings = MailboxSettings { deadline_ms: Some(50), ..mailbox.settings() };
    let model = MailboxModel::open(settings).unwrap();
    let ticket = model.submit(&asked()).await.unwrap();
    let error = wait_for(&model, &ticket, Some(60_000)).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Deadline, Charge::Nothing));
    assert!(error.to_string().contains("nobody answered within 0.05 s"), "{error}");
    assert!(mailbox.names().0.is_empty() && mailbox.path("done/t-1-0.prompt.md").exists());
}
