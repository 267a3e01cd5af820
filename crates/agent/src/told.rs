//! What people tell a run while it is on: read from the ledger before each decision.
//!
//! What the rows mean is in `pipeline::tell`; here they are only read, each once, waited for, and
//! marked as shown.

use std::sync::Arc;

use llm::Llm;
use pipeline::budget::{Budget, Spent};
use pipeline::digest::Digest;
use pipeline::next_step::SearchLimits;
use pipeline::notice::{Notice, reached, used};
use pipeline::tell::{Leave, Said, Told};
use store::RunId;

use crate::asking::Opening;
use crate::engine::{Engine, Progress};
use crate::error::AgentError;
use crate::limits::TOLD_POLL_MS;

/// Who notes that a hint was shown.
const TELLER: &str = "warpwright";

impl<L: Llm + Sync> Engine<L> {
    /// What holds now of all that the run was told.
    pub(crate) async fn told(&self, run: &RunId) -> Result<Arc<Told>, AgentError> {
        let mut heard = self.here.heard().await;
        for row in self.store.tells_from(run, heard.next).await? {
            Arc::make_mut(&mut heard.told).take(&row);
            heard.next = row.position.saturating_add(1);
        }
        Ok(Arc::clone(&heard.told))
    }

    /// The caps with what was added to them; without a cap that could be raised nothing is read.
    pub(crate) async fn budget_now(&self, run: &RunId) -> Result<Budget, AgentError> {
        let base = self.budget;
        if base.tokens_max.is_none() && base.nusd_max.is_none() && base.deadline_us.is_none() {
            return Ok(base);
        }
        Ok(self.told(run).await?.budget(base))
    }

    /// Whether any task may begin something new.
    pub(crate) fn leave(&self, told: &Told) -> Leave {
        told.leave_of_any(self.operators.iter().map(|operator| &operator.task.hash))
    }

    /// When to look again at what the run is told.
    pub(crate) fn next_look(&self) -> Opening {
        Opening::Wait { until_ms: Some(self.models.in_ms(TOLD_POLL_MS)) }
    }

    /// Has people hear of an event who do not look.
    pub(crate) fn notice(&self, notice: &Notice) {
        (self.observer)(Progress::Notice { notice });
    }

    /// Notices which shares of caps were reached since the last look; `made` attempts are closed.
    pub(crate) async fn note_caps(
        &self,
        run: &RunId,
        budget: &Budget,
        made: usize,
    ) -> Result<(), AgentError> {
        if !self.tells_bookings {
            return Ok(());
        }
        let booked = self.store.bookings(run).await?.total();
        let began_us = self.store.run(run).await?.started_us;
        let now_us = self.store.now_us();
        let spent = Spent { tokens: booked.tokens, nusd: booked.nusd, now_us };
        let made = u32::try_from(made).unwrap_or(u32::MAX);
        let now = used(budget, &spent, made, began_us);
        for notice in reached(&self.here.note_caps(now.clone()), &now) {
            self.notice(&notice);
        }
        Ok(())
    }

    /// Notes which hints the prompt of an attempt has shown. A kill before this shows them twice.
    pub(crate) async fn note_shown(
        &self,
        run: &RunId,
        task: &Digest,
        seq: u32,
        hints: &[u32],
    ) -> Result<(), AgentError> {
        for hint in hints {
            let shown = Said::Shown { hint: *hint, seq };
            self.store.tell(run, Some(task), &shown, TELLER).await?;
        }
        Ok(())
    }
}

/// The bounds of a task's search under what was told: one that may not begin has none left.
pub(crate) fn limits(told: &Told, task: &Digest, limits: SearchLimits) -> SearchLimits {
    match told.leave(task) {
        Leave::Go => limits,
        Leave::Paused | Leave::Stopped => SearchLimits { attempts_max: 0, ..limits },
    }
}
