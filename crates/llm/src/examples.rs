//! The answerers below `examples/` answer both providers.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::conformance::request;
use crate::{
    CommandModel, CommandSettings, ErrorClass, Llm, LlmError, MailboxModel, MailboxSettings, Price,
    PromptForm, Reply, ReplyForm, complete, wait_for,
};

const PATIENCE_MS: u64 = 60_000;

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// A folder with a reply for the first attempt of a task, and a refusal of its third.
fn replies() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("soft_max.1.md"), "the first\n").unwrap();
    std::fs::write(folder.path().join("soft_max.3.refuse"), "too hard").unwrap();
    folder
}

fn refused(found: Result<Reply, LlmError>, part: &str) {
    let error = found.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Refused, "{error}");
    assert!(error.to_string().contains(part), "{error}");
}

#[tokio::test]
async fn the_mailbox_is_answered_from_a_folder() {
    let (mailbox, replies) = (tempfile::tempdir().unwrap(), replies());
    let model = MailboxModel::open(MailboxSettings {
        name: "post".to_owned(),
        folder: mailbox.path().to_owned(),
        model: "folder".to_owned(),
        deadline_ms: None,
        output_tokens_max: 1_000,
    });
    let model = model.unwrap();
    let mut tickets = Vec::new();
    for seq in [1, 2, 3] {
        tickets.push(model.submit(&request("soft_max", seq, 0)).await.unwrap());
    }
    for lines in [2, 0] {
        let mut answerer = Command::new("python3");
        answerer.arg(example("mailbox_answerer.py")).args([mailbox.path(), replies.path()]);
        let output = answerer.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), lines);
    }
    let first = wait_for(&model, &tickets[0], Some(PATIENCE_MS)).await.unwrap();
    assert_eq!(first.text, "the first\n");
    assert!(mailbox.path().join("soft_max-2-0.prompt.json").exists());
    let third = wait_for(&model, &tickets[2], Some(PATIENCE_MS)).await.unwrap();
    assert_eq!((third.text.as_str(), third.finish_reason.as_str()), ("too hard", "refusal"));
}

#[tokio::test]
async fn the_command_answers_from_a_folder() {
    let replies = replies();
    let script = example("command_model.sh");
    let model = CommandModel::new(CommandSettings {
        name: "folder".to_owned(),
        argv: ["sh", script.to_str().unwrap(), replies.path().to_str().unwrap()]
            .map(str::to_owned)
            .to_vec(),
        model: "folder".to_owned(),
        working_folder: None,
        environment: Vec::new(),
        prompt_form: PromptForm::Json,
        reply_form: ReplyForm::Text,
        price: Price::Free,
        output_tokens_max: 1_000,
        deadline_ms: PATIENCE_MS,
    });
    let model = model.unwrap();
    let found = complete(&model, &request("soft_max", 1, 0), PATIENCE_MS).await.unwrap();
    assert_eq!(found.text, "the first\n");
    for task in ["soft_max", "x/../../etc", "\",\"seq\":1"] {
        let found = complete(&model, &request(task, 2, 0), PATIENCE_MS).await;
        refused(found, "no reply for");
    }
}
