//! What people tell a run while it is on: rows that are only added, each with its event.

use pipeline::digest::Digest;
use pipeline::tell::{Said, TellRow, Told};
use serde_json::json;

use crate::limits::HINTS_PENDING_MAX;
use crate::open::{Store, Work};
use crate::scrubbing;
use crate::tables::{event, run, tell};
use crate::{Result, RunId, RunRow, StoreError};

impl Store {
    /// Stores what a run, or one task of it, is told; returns the row's position.
    ///
    /// # Errors
    /// An unknown run, a task that it does not have, or a hint where too many wait for a prompt.
    pub async fn tell(
        &self,
        id: &RunId,
        task: Option<&Digest>,
        said: &Said,
        teller: &str,
    ) -> Result<u32> {
        let mut work = self.write().await?;
        let row = run::get(work.connection(), id).await?;
        if let Some(hash) = task
            && !row.tasks.iter().any(|known| known.hash == *hash)
        {
            let why = format!("run {id} has no task {hash}");
            return Err(StoreError::Unstorable { what: "what a run is told", why });
        }
        let teller = &scrubbing::text(&work.scrubber, teller);
        let said = match said {
            Said::Hint(text) => &Said::Hint(scrubbing::text(&work.scrubber, text)),
            Said::Pause | Said::Resume | Said::Stop | Said::Weight(_) => said,
            Said::Add(_) | Said::Shown { .. } => said,
        };
        if matches!(said, Said::Hint(_)) {
            refuse_many(&mut work, &row).await?;
        }
        let position = tell::insert(&mut work, id, task, said, teller).await?;
        let body = json!({
            "run": id.as_str(), "position": position, "task": task, "said": said,
            "teller": teller, "told_us": work.now_us,
        });
        event::append(&mut work, id, "told", &body).await?;
        work.commit().await?;
        Ok(position)
    }

    /// Everything that a run was told, oldest first.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn tells(&self, id: &RunId) -> Result<Vec<TellRow>> {
        self.tells_from(id, 0).await
    }

    /// What a run was told from a position on, oldest first.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn tells_from(&self, id: &RunId, position: u32) -> Result<Vec<TellRow>> {
        tell::of_run(&mut *self.read().await?, id, position).await
    }

    /// Position of the first thing that a run was told while nobody drove it, as far as its events
    /// tell: after the last one that it wrote itself.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn first_unheard(&self, id: &RunId) -> Result<Option<u32>> {
        event::first_unheard(&mut *self.read().await?, id).await
    }
}

async fn refuse_many(work: &mut Work, run: &RunRow) -> Result<()> {
    let told = Told::of(&tell::of_run(work.connection(), &run.id, 0).await?);
    let waiting = told.hints_waiting(run.tasks.iter().map(|task| &task.hash));
    if waiting < HINTS_PENDING_MAX {
        return Ok(());
    }
    let why = format!(
        "{waiting} hints wait for a prompt of run {} already: give more once it has shown some",
        run.id
    );
    Err(StoreError::Unstorable { what: "a hint", why })
}
