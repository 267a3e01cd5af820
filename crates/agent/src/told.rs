//! What people tell a run while it is on: read from the ledger before each decision.
//!
//! What the rows mean is in `pipeline::tell`; here they are only read, each once, waited for, and
//! marked as shown.

use std::sync::Arc;

use llm::Llm;
use pipeline::allotment::{Purse, Wish, purses};
use pipeline::budget::{Budget, Spent};
use pipeline::digest::Digest;
use pipeline::next_step::{SearchEnd, SearchLimits};
use pipeline::notice::{Notice, reached, used};
use pipeline::tell::{Leave, Said, Told};
use store::RunId;

use crate::asking::Opening;
use crate::engine::{Engine, Operator, Progress};
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

    /// The caps with what was added to them, without the time that is set aside for looks at the
    /// best kernels; without a cap that could be raised nothing is read.
    pub(crate) async fn budget_now(&self, run: &RunId) -> Result<Budget, AgentError> {
        let base = self.budget;
        let is_open = base.tokens_max.is_none() && base.nusd_max.is_none();
        if is_open && base.deadline_us.is_none() && base.gpu_us_max.is_none() {
            return Ok(base);
        }
        let whole = self.told(run).await?.budget(base);
        let set_aside_us = self.claims.shared.set_aside_us();
        let deadline_us = whole.deadline_us.map(|end_us| end_us.saturating_sub(set_aside_us));
        Ok(Budget { deadline_us, ..whole })
    }

    /// Whether any task may begin something new.
    pub(crate) fn leave(&self, told: &Told) -> Leave {
        told.leave_of_any(self.operators.iter().map(|operator| &operator.task.hash))
    }

    /// When to look again at what the run is told.
    pub(crate) fn next_look(&self) -> Opening {
        Opening::Wait { until_ms: Some(self.models.in_ms(TOLD_POLL_MS)) }
    }

    /// What each operator may use before others, with what it has spent.
    pub(crate) async fn purses(
        &self,
        run: &RunId,
        budget: &Budget,
        told: &Told,
    ) -> Result<Vec<Option<Purse>>, AgentError> {
        let wish = |operator: &Operator| Wish {
            nusd: operator.allotted_nusd,
            weight: told.weight(&operator.task.hash, operator.weight),
        };
        let wishes: Vec<Wish> = self.operators.iter().map(wish).collect();
        if wishes.iter().all(|wish| wish.nusd.is_none()) {
            return Ok(vec![None; wishes.len()]);
        }
        let spent = self.store.spent_of_tasks(run).await?;
        let of_task = |operator: &Operator| {
            let found = spent.iter().find(|(task, _)| *task == operator.task.hash);
            found.map_or(0, |(_, nusd)| *nusd)
        };
        let spent: Vec<i64> = self.operators.iter().map(of_task).collect();
        Ok(purses(budget.nusd_max, &wishes, &spent))
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
        let gpu_us = match budget.gpu_us_max {
            Some(_) => self.store.card_time(run).await?.total_us(),
            None => 0,
        };
        let spent = Spent { tokens: booked.tokens, nusd: booked.nusd, now_us, gpu_us };
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

/// The end of a task's search that a person stopped.
pub(crate) fn stopped(told: &Told, task: &Digest) -> Option<SearchEnd> {
    match told.leave(task) {
        Leave::Stopped => Some(SearchEnd::Stopped),
        Leave::Go | Leave::Paused => None,
    }
}

/// The bounds of a task's search under what was told: one that may not begin has none left.
pub(crate) fn limits(told: &Told, task: &Digest, limits: SearchLimits) -> SearchLimits {
    match told.leave(task) {
        Leave::Go => limits,
        Leave::Paused | Leave::Stopped => SearchLimits { attempts_max: 0, ..limits },
    }
}
