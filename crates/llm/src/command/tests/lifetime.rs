//! When programs end, and that nothing of them stays.

use std::path::Path;
use std::time::Duration;

use pipeline::prompt::{Message, MessageRole};
use rustix::process::{Pid, test_kill_process};
use tokio::time::sleep;

use super::{PAID, ask, run, settings, shell};
use crate::command::{CommandModel, CommandSettings};
use crate::conformance::request;
use crate::error::{Charge, ErrorClass};
use crate::limits::{COMMAND_RUNNING_MAX, REPLY_BYTES_MAX};
use crate::{Llm, Poll, wait_for};

/// Longest wait of a test for what must come, in milliseconds.
const PATIENCE_MS: u64 = 60_000;

async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..PATIENCE_MS / 10 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("never: {what}");
}

async fn pid_in(path: &Path) -> Pid {
    let read = || std::fs::read_to_string(path).ok().filter(|text| text.ends_with('\n'));
    eventually("the program writes its id", || read().is_some()).await;
    Pid::from_raw(read().unwrap().trim().parse().unwrap()).unwrap()
}

/// A zombie of ours is not gone.
fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid).is_err()
}

/// Gone, or ended and left to whoever adopts orphans.
fn has_ended(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.map_or(true, |stat| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" Z")))
}

fn big_request(bytes: usize) -> crate::Request {
    let mut asked = request("t", 1, 0);
    asked.prompt.messages = vec![Message { role: MessageRole::User, content: "p".repeat(bytes) }];
    asked
}

/// Both pipes fill up here unless they are served at once.
#[tokio::test]
async fn big_prompts_and_replies_do_not_block_each_other() {
    let bytes = REPLY_BYTES_MAX - 1;
    let reply = ask(settings(&["cat"]), &big_request(bytes)).await.unwrap();
    assert_eq!(reply.text.len(), bytes + 1);
    let noisy = shell("tee /dev/stderr | wc -c");
    let reply = ask(noisy, &big_request(2 << 20)).await.unwrap();
    assert_eq!(reply.text.trim(), ((2 << 20) + 1).to_string());
    let error = ask(settings(&["cat"]), &big_request(2 << 20)).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Malformed, "{error}");
}

#[tokio::test]
async fn a_reply_may_come_late_and_in_parts() {
    let script = "printf a; sleep 0.8; printf b; exec 2>&-; sleep 0.8; printf c";
    assert_eq!(run(shell(script)).await.unwrap().text, "abc");
    let closed = "printf abc; exec >&- 2>&-; sleep 0.8; exit 75";
    assert_eq!(run(shell(closed)).await.unwrap_err().class(), ErrorClass::RateLimited);
}

#[tokio::test]
async fn a_program_need_not_read() {
    for script in ["echo fine", "exec <&-; sleep 0.1; echo fine", "echo fine; exec >&- 2>&-"] {
        let reply = ask(shell(script), &big_request(2 << 20)).await.unwrap();
        assert_eq!(reply.text, "fine\n", "{script}");
    }
}

/// What a program leaves behind in its group ends with it; what left the group at least keeps
/// nobody waiting.
#[tokio::test]
async fn grandchildren_do_not_hold_the_reply() {
    for (prefix, killed) in [("", true), ("setsid ", false)] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let path = file.display();
        let script = format!(
            "{prefix}sh -c 'echo $$ > {path}; exec sleep 300' & \
            until test -s {path}; do sleep 0.01; done; echo fine"
        );
        let reply = ask(shell(&script), &big_request(2 << 20)).await.unwrap();
        assert_eq!(reply.text, "fine\n");
        let pid = pid_in(&file).await;
        if killed {
            eventually("the grandchild ends", || has_ended(pid)).await;
        } else {
            assert!(!has_ended(pid));
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        }
    }
}

#[tokio::test]
async fn the_deadline_kills_even_what_ignores_the_first_signal() {
    for script in ["exec sleep 300", "trap '' TERM; while :; do sleep 0.05; done", "sleep 300; :"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pid");
        let script = format!("echo $$ > {}; echo half; {script}", file.display());
        for (price, charge) in [(PAID, Charge::Unknown), (crate::Price::Free, Charge::Nothing)] {
            let slow = CommandSettings { deadline_ms: 300, price, ..shell(&script) };
            let error = run(slow).await.unwrap_err();
            assert_eq!((error.class(), error.charge()), (ErrorClass::Deadline, charge), "{error}");
            assert!(error.to_string().contains("nothing within 300 ms"), "{error}");
            assert!(is_gone(pid_in(&file).await), "{script}");
        }
    }
}

#[tokio::test]
async fn a_program_may_tidy_up_at_the_first_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (ready, tidied) = (folder.path().join("ready"), folder.path().join("tidied"));
    let script = format!(
        "trap 'echo bye; echo bye >&2; touch {}; exit 0' TERM; echo $$ > {}; \
         while :; do sleep 0.02; done",
        tidied.display(),
        ready.display()
    );
    let model = CommandModel::new(shell(&script)).unwrap();
    let ticket = model.submit(&request("t", 1, 0)).await.unwrap();
    pid_in(&ready).await;
    model.cancel(&ticket).await.unwrap();
    assert!(tidied.exists());
}

#[tokio::test]
async fn cancelling_kills_the_whole_group() {
    let folder = tempfile::tempdir().unwrap();
    let (leader, child) = (folder.path().join("leader"), folder.path().join("child"));
    let script = format!(
        "sh -c 'echo $$ > {}; exec sleep 300' & echo $$ > {}; wait",
        child.display(),
        leader.display()
    );
    let model = CommandModel::new(CommandSettings { price: PAID, ..shell(&script) }).unwrap();
    let ticket = model.submit(&request("t", 1, 0)).await.unwrap();
    let (leader, child) = (pid_in(&leader).await, pid_in(&child).await);
    assert!(matches!(model.poll(&ticket).await, Ok(Poll::Pending { .. })));
    model.cancel(&ticket).await.unwrap();
    assert!(is_gone(leader));
    eventually("the grandchild ends", || has_ended(child)).await;
    model.cancel(&ticket).await.unwrap();
    let error = model.poll(&ticket).await.unwrap_err();
    assert_eq!((error.class(), error.charge()), (ErrorClass::Interrupted, Charge::Unknown));
}

#[tokio::test]
async fn dropping_the_last_clone_kills() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let script = format!("echo $$ > {}; exec sleep 300", file.display());
    let model = CommandModel::new(shell(&script)).unwrap();
    let clone = model.clone();
    let ticket = model.submit(&request("t", 1, 0)).await.unwrap();
    let pid = pid_in(&file).await;
    drop(model);
    assert!(matches!(clone.poll(&ticket).await, Ok(Poll::Pending { .. })));
    assert!(!has_ended(pid));
    drop(clone);
    eventually("the program is reaped", || is_gone(pid)).await;
}

#[test]
fn the_end_of_the_runtime_kills_too() {
    let folder = tempfile::tempdir().unwrap();
    let (leader, child) = (folder.path().join("leader"), folder.path().join("child"));
    let script = format!(
        "sh -c 'echo $$ > {}; exec sleep 300' & echo $$ > {}; wait",
        child.display(),
        leader.display()
    );
    let model = CommandModel::new(shell(&script)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let pids = runtime.block_on(async {
        model.submit(&request("t", 1, 0)).await.unwrap();
        [pid_in(&leader).await, pid_in(&child).await]
    });
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(eventually("both end", || pids.iter().all(|pid| has_ended(*pid))));
    drop(model);
}

#[tokio::test]
async fn more_programs_than_can_be_watched_are_not_started() {
    let model = CommandModel::new(settings(&["sleep", "300"])).unwrap();
    let count = u32::try_from(COMMAND_RUNNING_MAX).unwrap();
    for seq in 0..count {
        model.submit(&request("t", seq, 0)).await.unwrap();
    }
    let error = model.submit(&request("t", count, 0)).await.unwrap_err();
    assert_eq!((error.class(), error.is_retryable()), (ErrorClass::RateLimited, true));
    let known = model.submit(&request("t", 0, 0)).await.unwrap();
    model.cancel(&known).await.unwrap();
    let ticket = model.submit(&request("t", count, 0)).await.unwrap();
    assert!(wait_for(&model, &ticket, Some(50)).await.is_err());
}
