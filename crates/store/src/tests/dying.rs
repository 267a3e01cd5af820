//! Other processes on the same ledger: one that dies at a boundary, one that wants a held run.
//!
//! The other process is this test binary again, running only [`other_process`].

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::sync::Arc;

use pipeline::attempt::State;

use super::fixtures::{Ledger, advance, ask, open, task_hash};
use crate::{Boundary, Chain, RunId, Store, StoreError};

const LEDGER: &str = "STORE_TEST_LEDGER";
const RUN: &str = "STORE_TEST_RUN";
const DIE_AT: &str = "STORE_TEST_DIE_AT";

fn start_other(path: &Path, run: &RunId, die_at: &str) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "tests::dying::other_process", "--test-threads", "1"]);
    command.env(LEDGER, path).env(RUN, run.as_str()).env(DIE_AT, die_at);
    command.output().unwrap().status
}

/// Does nothing unless another test started it: drives an attempt until it dies.
#[tokio::test]
async fn other_process() {
    let Ok(path) = std::env::var(LEDGER) else { return };
    let run = RunId::from(std::env::var(RUN).unwrap());
    let die_at = Boundary::from_name(&std::env::var(DIE_AT).unwrap());
    let store = Store::open(Path::new(&path)).await.unwrap();
    let store = store.with_boundary_hook(Arc::new(move |state, _| {
        if Some(state) == die_at {
            std::process::abort();
        }
    }));
    let _lock = match store.lock_run(&run) {
        Err(StoreError::RunLocked { pid, .. }) => {
            assert_ne!(pid, std::process::id().to_string());
            return;
        }
        lock => lock.unwrap(),
    };
    let id = open(&store, &run, &ask(1)).await.unwrap().id;
    for state in State::ALL.into_iter().skip(1) {
        advance(&store, &id, state).await.unwrap();
    }
    unreachable!("it dies at a boundary");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_dies_at_a_boundary_leaves_that_state() {
    for state in State::ALL {
        let ledger = Ledger::new().await;
        let died = start_other(&ledger.path(), &ledger.run, state.name());
        assert!(!died.success() && died.code().is_none(), "{state:?}: {died:?}");
        let store = ledger.another().await;
        let _lock = store.lock_run(&ledger.run).unwrap();
        let row = store.attempt_detail(&ledger.run, &task_hash(), 1).await.unwrap().attempt;
        assert_eq!(row.state, state);
        let events = state as u64 + 2;
        let chain = store.verify_chain(&ledger.run).await.unwrap();
        assert!(matches!(chain, Chain::Intact { events: n, .. } if n == events), "{chain:?}");
        for next in State::ALL.into_iter().filter(|next| *next > state) {
            advance(&store, &row.id, next).await.unwrap();
        }
        let closed = store.closed_attempts(&ledger.run, &row.task_hash).await.unwrap();
        assert_eq!(closed.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_held_is_left_alone_by_another_process() {
    let ledger = Ledger::new().await;
    let _lock = ledger.store.lock_run(&ledger.run).unwrap();
    let other = start_other(&ledger.path(), &ledger.run, "asked");
    assert!(other.success(), "{other:?}");
    assert!(ledger.store.attempt_in_hand(&ledger.run).await.unwrap().is_none());
}
