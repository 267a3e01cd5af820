//! What is found again, wherever a crash or a person left it.

use std::fs;
use std::os::unix::fs::MetadataExt;

use super::{ID, Mailbox, asked, is_pending, ticket, wait};
use crate::error::ErrorClass;
use crate::mailbox::folder::File;
use crate::{Llm, Poll};

const PROMPTS: [&str; 2] = ["t-1-0.prompt.json", "t-1-0.prompt.md"];

#[tokio::test]
async fn open_questions_are_found_and_not_written_again() {
    let mailbox = Mailbox::new();
    mailbox.open().submit(&asked()).await.unwrap();
    let inodes = || PROMPTS.map(|name| fs::metadata(mailbox.path(name)).unwrap().ino());
    let before = inodes();
    let model = mailbox.open();
    assert!(is_pending(&model).await, "also before it is submitted again");
    model.submit(&asked()).await.unwrap();
    model.submit(&asked()).await.unwrap();
    assert_eq!(inodes(), before);
    assert!(is_pending(&model).await);
}

#[tokio::test]
async fn a_half_written_question_is_completed() {
    for kept in PROMPTS {
        let mailbox = Mailbox::new();
        mailbox.open().submit(&asked()).await.unwrap();
        for name in PROMPTS.into_iter().filter(|name| *name != kept) {
            fs::remove_file(mailbox.path(name)).unwrap();
        }
        let before = fs::metadata(mailbox.path(kept)).unwrap().ino();
        mailbox.open().submit(&asked()).await.unwrap();
        assert_eq!(mailbox.names().0, PROMPTS);
        assert_eq!(fs::metadata(mailbox.path(kept)).unwrap().ino(), before);
    }
}

/// A process may end between any two moves; whoever comes next finishes them, and the reply stays
/// what it was.
#[tokio::test]
async fn a_reply_is_the_same_from_every_point_of_a_crash() {
    let files = ["t-1-0.usage.json", "t-1-0.reply.md", "t-1-0.prompt.json", "t-1-0.prompt.md"];
    for moved in 0..=files.len() {
        let mailbox = Mailbox::new();
        mailbox.open().submit(&asked()).await.unwrap();
        mailbox.put("t-1-0.usage.json", r#"{"input_tokens":7,"output_tokens":8}"#);
        mailbox.put("t-1-0.reply.md", "it is 42");
        for name in files.iter().take(moved) {
            fs::rename(mailbox.path(name), mailbox.path(&format!("done/{name}"))).unwrap();
        }
        for again in [false, true] {
            let model = mailbox.open();
            if again {
                assert_eq!(model.submit(&asked()).await.unwrap(), ticket());
            }
            let reply = wait(&model).await.unwrap();
            let usage = reply.usage.unwrap();
            assert_eq!((reply.text.as_str(), usage.input_tokens), ("it is 42", 7), "{moved}");
            let (open, done) = mailbox.names();
            assert_eq!((open.len(), done.len()), (0, files.len()), "{moved}");
            assert_eq!(model.poll(&ticket()).await, Ok(Poll::Done(reply)));
        }
    }
}

#[tokio::test]
async fn a_second_answer_changes_nothing() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    mailbox.put("t-1-0.reply.md", "first");
    let reply = wait(&model).await.unwrap();
    mailbox.put("t-1-0.usage.json", r#"{"input_tokens":7,"output_tokens":8}"#);
    mailbox.put("t-1-0.reply.md", "second");
    mailbox.put("t-1-0.refuse", "no");
    assert_eq!(wait(&model).await.unwrap(), reply);
    model.submit(&asked()).await.unwrap();
    assert_eq!(wait(&model).await.unwrap(), reply);
}

#[tokio::test]
async fn a_reply_counts_before_a_refusal() {
    let mailbox = Mailbox::new();
    mailbox.open().submit(&asked()).await.unwrap();
    mailbox.put("t-1-0.refuse", "no");
    mailbox.put("t-1-0.reply.md", "yes");
    assert_eq!(wait(&mailbox.open()).await.unwrap().text, "yes");
}

#[tokio::test]
async fn a_reply_that_was_only_begun_does_not_hide_a_refusal() {
    let mailbox = Mailbox::new();
    mailbox.open().submit(&asked()).await.unwrap();
    mailbox.put("t-1-0.reply.md", "");
    mailbox.put("t-1-0.refuse", "no");
    let reply = wait(&mailbox.open()).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.finish_reason.as_str()), ("no", "refusal"));
}

#[tokio::test]
async fn an_answer_that_is_taken_back_leaves_the_question_open() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    assert_eq!(model.shared.take(ID, File::Reply), Ok(false));
    assert!(is_pending(&model).await);
    assert_eq!(mailbox.names().0, PROMPTS);
}

#[tokio::test]
async fn a_cancelled_question_is_put_away_and_can_be_asked_again() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    for _ in 0..2 {
        model.submit(&asked()).await.unwrap();
        assert_eq!(mailbox.names().0, PROMPTS);
        model.cancel(&ticket()).await.unwrap();
        model.cancel(&ticket()).await.unwrap();
        let (open, done) = mailbox.names();
        assert_eq!((open.len(), done.len()), (0, 2));
        let error = model.poll(&ticket()).await.unwrap_err();
        assert_eq!(error.class(), ErrorClass::UnknownTicket);
    }
    model.submit(&asked()).await.unwrap();
    mailbox.put("t-1-0.reply.md", "at last");
    assert_eq!(wait(&model).await.unwrap().text, "at last");
    model.cancel(&ticket()).await.unwrap();
    assert_eq!(wait(&model).await.unwrap().text, "at last");
}

#[tokio::test]
async fn a_deleted_question_stays_open_and_is_written_again() {
    let mailbox = Mailbox::new();
    let model = mailbox.open();
    model.submit(&asked()).await.unwrap();
    for name in PROMPTS {
        fs::remove_file(mailbox.path(name)).unwrap();
    }
    assert!(is_pending(&model).await);
    assert!(mailbox.names().0.is_empty());
    model.submit(&asked()).await.unwrap();
    assert_eq!(mailbox.names().0, PROMPTS);
    for name in PROMPTS {
        fs::remove_file(mailbox.path(name)).unwrap();
    }
    mailbox.put("t-1-0.reply.md", "from memory");
    let reply = wait(&model).await.unwrap();
    assert_eq!((reply.text.as_str(), reply.latency_ms), ("from memory", 0));
}

#[test]
fn only_our_own_half_written_files_are_swept() {
    let mailbox = Mailbox::new();
    let keep = [format!("{ID}.refuse.tmp"), format!("{ID}.reply.md.tmp"), "notes.tmp".to_owned()];
    for name in keep.iter().cloned().chain(PROMPTS.map(|name| format!("{name}.tmp"))) {
        fs::write(mailbox.path(&name), "half").unwrap();
    }
    mailbox.open();
    let (open, _) = mailbox.names();
    assert_eq!(open, {
        let mut keep = keep;
        keep.sort();
        keep
    });
}
