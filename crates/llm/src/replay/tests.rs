use std::path::PathBuf;

use pipeline::transcript::write;

use super::ReplayModel;
use crate::conformance::{Abilities, check, request, script};
use crate::error::ErrorClass;
use crate::{Llm, Price, Ticket, complete};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

#[tokio::test]
async fn passes_the_suite_of_every_provider() {
    let folder = Folder::new();
    let path = folder.file("t.jsonl", &write(&script()));
    let abilities = Abilities { recorded: true, failure: ErrorClass::RateLimited };
    check(|| ReplayModel::open(&path).unwrap(), abilities).await.unwrap();
    check(|| ReplayModel::of_entries(script()), abilities).await.unwrap();
}

#[test]
fn describes_itself_by_the_recorded_model() {
    let info = ReplayModel::of_entries(script()).describe();
    assert_eq!((info.provider.as_str(), info.model.as_str()), ("replay", "scripted"));
    assert_eq!((info.idempotent, info.price), (true, Price::Free));
    assert_eq!(ReplayModel::of_entries(Vec::new()).describe().model, "recorded");
}

#[tokio::test]
async fn strict_replay_makes_drift_an_error() {
    let strict = ReplayModel::of_entries(script()).strict(true);
    let same = complete(&strict, &request("conformance", 1, 0), 100).await;
    assert!(!same.unwrap().drift);
    // An entry without a hash was not recorded from a prompt: there is nothing to differ from.
    let unrecorded = complete(&strict, &request("conformance", 2, 1), 100).await;
    assert!(!unrecorded.unwrap().drift);
    let error = complete(&strict, &request("conformance", 3, 0), 100).await.unwrap_err();
    assert_eq!((error.class(), error.is_retryable()), (ErrorClass::Drift, false));
    assert!(error.to_string().contains("task conformance, seq 3, try 0"), "{error}");
}

#[tokio::test]
async fn the_journal_counts_what_was_asked() {
    let folder = Folder::new();
    let path = folder.0.path().join("journal.jsonl");
    for _ in 0..2 {
        // A second process appends to the same file.
        let model = ReplayModel::of_entries(script()).with_journal(&path).unwrap();
        for (seq, try_index) in [(1, 0), (2, 0), (2, 1), (9, 0)] {
            let _ = complete(&model, &request("conformance", seq, try_index), 100).await;
        }
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let ids: Vec<_> = lines.iter().map(|line| line["id"].as_str().unwrap()).collect();
    let once = ["conformance-1-0", "conformance-2-0", "conformance-2-1"];
    assert_eq!(ids, [once, once].concat());
    assert_eq!((lines[2]["seq"].as_u64(), lines[2]["try"].as_u64()), (Some(2), Some(1)));
    assert_eq!(lines[0]["prompt"].as_str().unwrap().len(), 64);
}

#[test]
fn bad_files_are_named() {
    let folder = Folder::new();
    for (name, text, part) in [
        ("a.jsonl", "", "first line"),
        ("b.jsonl", "{\"transcript\":2}", "format 2"),
        ("c.jsonl", "{\"transcript\":1}\n{}", "line 2"),
    ] {
        let error = ReplayModel::open(&folder.file(name, text)).unwrap_err();
        let shown = error.to_string();
        assert!(shown.contains(name) && shown.contains(part), "{shown}");
        assert_eq!(error.class(), ErrorClass::LocalFile);
    }
    let missing = folder.0.path().join("no/such.jsonl");
    assert!(
        matches!(ReplayModel::open(&missing), Err(error) if error.class() == ErrorClass::LocalFile)
    );
    let journal = ReplayModel::of_entries(Vec::new()).with_journal(&missing);
    assert!(matches!(journal, Err(error) if error.class() == ErrorClass::LocalFile));
}

#[tokio::test]
async fn a_ticket_of_a_longer_transcript_is_exhausted_not_unknown() {
    let ticket = ReplayModel::of_entries(script()).submit(&request("conformance", 1, 0)).await;
    let short = ReplayModel::of_entries(Vec::new());
    let error = short.poll(&ticket.unwrap()).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Exhausted);
    let long_name = request(&"x".repeat(2_000), 1, 0);
    assert_eq!(short.submit(&long_name).await.unwrap_err().class(), ErrorClass::Exhausted);
    let cut = Ticket::from("replay:{\"task\":\"t\"".to_owned());
    assert_eq!(short.poll(&cut).await.unwrap_err().class(), ErrorClass::UnknownTicket);
}

#[tokio::test]
async fn an_entry_that_is_added_answers_every_clone_until_it_is_forgotten() {
    let model = ReplayModel::empty("a person");
    let clone = model.clone();
    let question = request("conformance", 1, 0);
    let asked = || complete(&clone, &question, 100);
    assert_eq!(asked().await.unwrap_err().class(), ErrorClass::Exhausted);
    script().into_iter().for_each(|entry| model.push(entry));
    assert_eq!(asked().await.unwrap().model, "scripted");
    model.forget("conformance", 1);
    assert_eq!(asked().await.unwrap_err().class(), ErrorClass::Exhausted);
}
