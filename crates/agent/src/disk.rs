//! Room on the disk of the ledger: a run waits for it instead of breaking in the middle of a step.
//!
//! Looked at before an attempt is opened. What an attempt stores fits into the floor many times, so
//! that those under way come to their end.

use std::path::Path;

use llm::Llm;
use store::RunId;

use crate::engine::Engine;
use crate::error::AgentError;
use crate::limits::{DISK_FLOOR_BYTES, DISK_POLL};
use crate::shortage::Watched;

impl<L: Llm + Sync> Engine<L> {
    /// Returns once there is room for another attempt; false where somebody ends the run instead.
    pub(crate) async fn has_room(&self, run: &RunId) -> Result<bool, AgentError> {
        let path = self.store.path();
        let watched = Watched {
            what: "the disk of the ledger",
            look: &|| free_bytes(path),
            floor: DISK_FLOOR_BYTES,
            poll: DISK_POLL,
            words: &|free| in_words(path, free),
        };
        self.wait_for(run, &watched).await
    }
}

fn in_words(path: &Path, free: u64) -> String {
    format!(
        "{} MiB are free on the disk of the ledger {}, and attempts begin from {} on: free some, \
         and the run goes on by itself",
        free >> 20,
        path.display(),
        DISK_FLOOR_BYTES >> 20
    )
}

/// What others than root can still write there.
fn free_bytes(path: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(path).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_disk_has_some() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(free_bytes(Path::new("/nowhere/at/all")), None);
        let said = in_words(Path::new("/a/b.db"), 3 << 20);
        assert!(said.starts_with("3 MiB are free") && said.contains("/a/b.db"), "{said}");
    }
}
