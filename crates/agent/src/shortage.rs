//! Waiting for what this machine has too little of: said once, and over by itself.
//!
//! What is looked at is in `disk` and `memory`. Nothing that waits here counts as a failure of an
//! attempt: the attempt stays in the state that it has.

use std::time::Duration;

use llm::Llm;
use pipeline::notice::Notice;
use store::RunId;

use crate::engine::{Engine, Progress};
use crate::error::AgentError;
use crate::interrupt::Interrupt;

/// Something of which there may be too little.
pub(crate) struct Watched<'a> {
    pub(crate) what: &'static str,
    /// How much is left, where that can be found out.
    pub(crate) look: &'a (dyn Fn() -> Option<u64> + Sync),
    /// What must be left.
    pub(crate) floor: u64,
    pub(crate) poll: Duration,
    /// What a person reads of so little.
    pub(crate) words: &'a (dyn Fn(u64) -> String + Sync),
}

impl Watched<'_> {
    /// What is left, where it is too little. What cannot be measured does not hold a run up.
    fn short(&self) -> Option<u64> {
        (self.look)().filter(|left| *left < self.floor)
    }

    /// Looks until there is enough; false where somebody ends the run instead.
    async fn enough(&self, interrupt: &Interrupt) -> bool {
        while self.short().is_some() {
            tokio::select! {
                () = tokio::time::sleep(self.poll) => {}
                () = interrupt.requested() => return false,
            }
        }
        true
    }
}

impl<L: Llm + Sync> Engine<L> {
    /// Returns once there is enough, and has people hear of a wait; false where somebody ends the
    /// run instead.
    pub(crate) async fn wait_for(
        &self,
        run: &RunId,
        watched: &Watched<'_>,
    ) -> Result<bool, AgentError> {
        let Some(left) = watched.short() else { return Ok(true) };
        let (what, why) = (watched.what.to_owned(), (watched.words)(left));
        (self.observer)(Progress::Paused { why: Some(&why) });
        self.notice(&Notice::BreakerOpen { what: what.clone(), why: why.clone() });
        // A ledger that cannot take the note is said by the next step.
        let _ = self.store.note_paused(run, &what, &why).await;
        if !watched.enough(&self.interrupt).await {
            return Ok(false);
        }
        (self.observer)(Progress::Paused { why: None });
        self.notice(&Notice::BreakerClosed { what: what.clone() });
        self.store.note_going_on(run, &what).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Waits while a machine shows these amounts, the last one for ever; how many looks that took.
    async fn wait(amounts: &[Option<u64>], interrupt: &Interrupt) -> (bool, usize) {
        let looks = AtomicUsize::new(0);
        let look = || {
            let look = looks.fetch_add(1, Ordering::SeqCst);
            amounts[look.min(amounts.len() - 1)]
        };
        let words = |left: u64| left.to_string();
        let poll = Duration::from_millis(1);
        let watched = Watched { what: "x", look: &look, floor: 10, poll, words: &words };
        (watched.enough(interrupt).await, looks.load(Ordering::SeqCst))
    }

    #[tokio::test]
    async fn there_is_enough_from_the_floor_on_and_where_nobody_knows() {
        for (amounts, looks) in [
            (&[Some(10)][..], 1),
            (&[None], 1),
            (&[Some(9), Some(0), Some(9), Some(10)], 4),
            (&[Some(0), None], 2),
        ] {
            assert_eq!(wait(amounts, &Interrupt::default()).await, (true, looks), "{amounts:?}");
        }
    }

    #[tokio::test]
    async fn whoever_ends_the_run_need_not_wait() {
        let interrupt = Interrupt::default();
        interrupt.request();
        assert!(!wait(&[Some(7)], &interrupt).await.0);
    }
}
