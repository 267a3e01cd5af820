//! The suite of every provider, with someone who answers meanwhile.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use pipeline::transcript::Entry;

use super::Mailbox;
use crate::Model;
use crate::conformance::{Abilities, check, script};
use crate::error::ErrorClass;

/// A thread that answers open questions from entries until it is dropped.
struct Answerer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Answerer {
    fn start(folder: &Path, entries: Vec<Entry>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (folder, stopped) = (folder.to_owned(), Arc::clone(&stop));
        let work = move || {
            while !stopped.load(Ordering::Relaxed) {
                answer_all(&folder, &entries);
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        Self { stop, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Answerer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn answer_all(folder: &Path, entries: &[Entry]) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        let Some(id) = name.strip_suffix(".prompt.json") else { continue };
        let is_answered = |ending| folder.join(format!("{id}{ending}")).exists();
        if is_answered(".reply.md") || is_answered(".refuse") {
            continue;
        }
        // It may be taken away while we read.
        let Ok(text) = fs::read_to_string(&path) else { continue };
        answer(folder, id, &serde_json::from_str(&text).unwrap(), entries);
    }
}

fn answer(folder: &Path, id: &str, asked: &serde_json::Value, entries: &[Entry]) {
    let of_this = |entry: &&Entry| {
        (Some(entry.task.as_str()), Some(u64::from(entry.seq)))
            == (asked["task"].as_str(), asked["seq"].as_u64())
    };
    let tries: Vec<&Entry> = entries.iter().filter(of_this).collect();
    let index = usize::try_from(asked["try"].as_u64().unwrap()).unwrap();
    let Some(entry) = tries.get(index).or(tries.last()) else { return };
    let put = |ending: &str, text: &str| {
        let half = folder.join(format!("{id}{ending}.tmp"));
        fs::write(&half, text).unwrap();
        fs::rename(half, folder.join(format!("{id}{ending}"))).unwrap();
    };
    match &entry.error {
        Some(_) => put(".reply.md", " \n"),
        None => {
            put(".usage.json", &serde_json::to_string(&entry.usage).unwrap());
            put(".reply.md", &entry.reply);
        }
    }
}

#[tokio::test]
async fn passes_the_suite_of_every_provider() {
    let abilities = Abilities { recorded: false, failure: ErrorClass::Malformed };
    let mailbox = Mailbox::new();
    let _answerer = Answerer::start(mailbox.0.path(), script());
    check(|| mailbox.open(), abilities).await.unwrap();
    let mailbox = Mailbox::new();
    let _answerer = Answerer::start(mailbox.0.path(), script());
    check(|| Model::Mailbox(mailbox.open()), abilities).await.unwrap();
}
