//! Room on the disk of the ledger: a run waits for it instead of breaking in the middle of a step.
//!
//! Looked at before an attempt is opened. What an attempt stores fits into the floor many times, so
//! that those under way come to their end.

use std::path::Path;
use std::time::Duration;

use llm::Llm;

use crate::engine::{Engine, Progress};
use crate::interrupt::Interrupt;
use crate::limits::{DISK_FLOOR_BYTES, DISK_POLL_MS};

impl<L: Llm + Sync> Engine<L> {
    /// Returns once there is room for another attempt; false where somebody ends the run instead.
    pub(crate) async fn has_room(&self) -> bool {
        let path = self.store.path();
        let free = || free_bytes(path);
        wait_for_room(&free, Duration::from_millis(DISK_POLL_MS), &self.interrupt, &|free| {
            let why = free.map(|free| in_words(path, free));
            (self.observer)(Progress::Paused { why: why.as_deref() });
        })
        .await
    }
}

/// Looks until there is room. `tell` hears once of too little, and once that it is over.
async fn wait_for_room(
    free: &(dyn Fn() -> Option<u64> + Sync),
    poll: Duration,
    interrupt: &Interrupt,
    tell: &(dyn Fn(Option<u64>) + Sync),
) -> bool {
    let mut told = false;
    // What cannot be measured does not hold a run up.
    while let Some(short) = free().filter(|free| *free < DISK_FLOOR_BYTES) {
        if !told {
            tell(Some(short));
            told = true;
        }
        tokio::select! {
            () = tokio::time::sleep(poll) => {}
            () = interrupt.requested() => return false,
        }
    }
    if told {
        tell(None);
    }
    true
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
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    const POLL: Duration = Duration::from_millis(1);

    /// Waits while the disk shows these amounts, the last one for ever; what was told of.
    async fn wait(amounts: &[Option<u64>], interrupt: &Interrupt) -> (bool, Vec<Option<u64>>) {
        let (looks, told) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let free = || {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            amounts[look.min(amounts.len() - 1)]
        };
        let tell = |free| told.lock().unwrap().push(free);
        let room = wait_for_room(&free, POLL, interrupt, &tell).await;
        (room, told.into_inner().unwrap())
    }

    #[tokio::test]
    async fn a_run_waits_for_room_says_so_once_and_goes_on() {
        let (floor, below) = (Some(DISK_FLOOR_BYTES), Some(DISK_FLOOR_BYTES - 1));
        for (amounts, told) in [
            (&[floor][..], &[][..]),
            (&[None], &[]),
            (&[below, Some(0), below, floor], &[below, None]),
            (&[Some(0), None], &[Some(0), None]),
        ] {
            let found = wait(amounts, &Interrupt::default()).await;
            assert_eq!(found, (true, told.to_vec()), "{amounts:?}");
        }
    }

    #[tokio::test]
    async fn whoever_ends_the_run_need_not_wait_for_room() {
        let interrupt = Interrupt::default();
        interrupt.request();
        assert_eq!(wait(&[Some(7)], &interrupt).await, (false, vec![Some(7)]));
    }

    #[test]
    fn this_disk_has_some() {
        let folder = tempfile::tempdir().unwrap();
        assert!(free_bytes(folder.path()).unwrap() > 0);
        assert_eq!(free_bytes(Path::new("/nowhere/at/all")), None);
        let said = in_words(Path::new("/a/b.db"), 3 << 20);
        assert!(said.starts_with("3 MiB are free") && said.contains("/a/b.db"), "{said}");
    }
}
