//! What a power cut or a dying disk leaves of the write-ahead log, and files that are damaged: what
//! was synced stays, and what is wrong is said.

use std::path::{Path, PathBuf};

use pipeline::attempt::State;

use super::fixtures::{Ledger, advance, ask, open, task_hash};
use crate::{Chain, Result, RunId, Store, StoreError};

/// Where the cuts come from; printed with each finding.
const SEED: u64 = 0x7042_0001;
const CUTS: u64 = 40;

/// The log's length when a commit was on disk, and the events of the run by then.
type Mark = (usize, u64);

#[derive(Clone, Copy, Debug)]
enum Damage {
    /// Nothing after the place was written.
    CutOff,
    /// The rest of the block holds something else.
    Garbage,
    /// One bit is another.
    Bit,
}

fn log_of(path: &Path) -> PathBuf {
    path.with_extension("db-wal")
}

fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// A ledger with two attempts, all of them in the log, and a mark for each commit.
async fn logged() -> (Ledger, Vec<Mark>) {
    let mut ledger = Ledger::new().await;
    // Folds what was before into the file.
    ledger.store.close().await;
    ledger.store = Store::open(&ledger.path()).await.unwrap();
    let log = log_of(&ledger.path());
    let mut marks: Vec<Mark> = vec![(0, 1)];
    let mut note = |ledger: &Ledger| {
        let events = marks.len() as u64 + 1;
        marks.push((std::fs::metadata(log_of(&ledger.path())).unwrap().len() as usize, events));
    };
    for seq in 1..=2 {
        let id = open(&ledger.store, &ledger.run, &ask(seq)).await.unwrap().id;
        note(&ledger);
        for state in State::ALL.into_iter().skip(1) {
            advance(&ledger.store, &id, state).await.unwrap();
            note(&ledger);
        }
    }
    assert!(log.is_file() && marks.is_sorted());
    (ledger, marks)
}

/// The events that are left, in an unbroken chain.
async fn events_left(path: &Path, run: &RunId) -> Result<u64> {
    let store = Store::open(path).await?;
    store.check_file().await?;
    let chain = store.verify_chain(run).await?;
    store.close().await;
    match chain {
        Chain::Intact { events, .. } => Ok(events),
        broken => panic!("{broken:?}"),
    }
}

#[tokio::test]
async fn a_torn_log_loses_nothing_that_was_synced_before() {
    let (ledger, marks) = logged().await;
    let file = std::fs::read(ledger.path()).unwrap();
    let log = std::fs::read(log_of(&ledger.path())).unwrap();
    let mut state = SEED;
    let anywhere = (0..CUTS).map(|_| random(&mut state) as usize % log.len()).collect::<Vec<_>>();
    let around = marks.iter().flat_map(|(bytes, _)| [bytes.saturating_sub(1), *bytes, bytes + 1]);
    let folder = tempfile::tempdir().unwrap();
    for at in around.chain(anywhere).filter(|at| *at < log.len()) {
        for damage in [Damage::CutOff, Damage::Garbage, Damage::Bit] {
            let mut torn = log.clone();
            match damage {
                Damage::CutOff => torn.truncate(at),
                Damage::Garbage => {
                    torn[at] = !torn[at];
                    torn.truncate(at + 1);
                    torn.extend((0..5_000).map(|_| random(&mut state) as u8));
                }
                Damage::Bit => torn[at] ^= 0x10,
            }
            let path = folder.path().join(format!("{at}-{damage:?}.db"));
            std::fs::write(&path, &file).unwrap();
            std::fs::write(log_of(&path), torn).unwrap();
            let synced = marks.iter().filter(|(bytes, _)| *bytes <= at).map(|mark| mark.1).max();
            let left = events_left(&path, &ledger.run).await.unwrap();
            assert_eq!(Some(left), synced, "{damage:?} at {at} of {}, seed {SEED:#x}", log.len());
        }
    }
}

/// The log of a killed process, with the beginning of a commit that was under way.
#[tokio::test]
async fn a_commit_that_was_under_way_is_as_if_it_had_not_begun() {
    let (ledger, marks) = logged().await;
    let (path, log) = (ledger.folder().join("killed.db"), log_of(&ledger.path()));
    std::fs::copy(ledger.path(), &path).unwrap();
    let whole = std::fs::read(log).unwrap();
    let [.., before, last] = marks.as_slice() else { panic!("{marks:?}") };
    // All of its frames but the one that commits.
    std::fs::write(log_of(&path), &whole[..last.0 - 4_096 - 24]).unwrap();
    let store = Store::open(&path).await.unwrap();
    let row = store.attempt_in_hand(&ledger.run).await.unwrap().unwrap();
    assert_eq!((row.ask.seq, row.state), (2, State::Judged), "{before:?} {last:?}");
    advance(&store, &row.id, State::Closed).await.unwrap();
    let closed = store.closed_attempts(&ledger.run, &task_hash()).await.unwrap();
    assert_eq!(closed.len(), 2);
}

#[tokio::test]
async fn a_missing_or_changed_artifact_is_named_and_nothing_is_written() {
    for (change, words) in [
        ("DELETE FROM artifact WHERE bytes = x'746865207265706c79'", "is missing"),
        (
            "UPDATE artifact SET bytes = x'746865207265706c7a' WHERE bytes = x'746865207265706c79'",
            "does not have its hash",
        ),
    ] {
        let ledger = Ledger::new().await;
        let id = ledger.bring(1, State::Replied).await;
        // As a disk does it, that knows neither keys nor triggers.
        ledger.sql(&format!("PRAGMA foreign_keys = OFF; {change}")).await.unwrap();
        let error = ledger.store.attempt_in_hand(&ledger.run).await.unwrap_err();
        let said = error.at(&ledger.path()).to_string();
        assert!(said.contains("is damaged: artifact ") && said.contains(words), "{said}");
        assert!(said.contains("put back a copy"), "{said}");
        // Of texts that nobody reads, only missing ones are found.
        let checked = ledger.store.check_file().await;
        assert_eq!(checked.is_err(), words == "is missing", "{checked:?}");
        let kinds = ledger.event_kinds().await;
        assert!(advance(&ledger.store, &id, State::Replied).await.is_err());
        assert_eq!(ledger.event_kinds().await, kinds);
    }
}

#[tokio::test]
async fn a_file_that_ends_too_early_is_damage() {
    let ledger = Ledger::new().await;
    for seq in 1..10 {
        ledger.open(seq).await;
    }
    ledger.store.close().await;
    let bytes = std::fs::read(ledger.path()).unwrap();
    std::fs::write(ledger.path(), &bytes[..bytes.len() / 2]).unwrap();
    let looked = async {
        let store = Store::open(&ledger.path()).await?;
        store.check_file().await?;
        store.run_summary(&ledger.run).await.map(drop)
    };
    let error = looked.await.unwrap_err().at(&ledger.path());
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
