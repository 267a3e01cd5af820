//! GPU-seconds: reserved before an evaluation begins, booked at what it took once it has ended.
//!
//! As with money, what nobody ended stays booked at its reservation: a kill loses at most the
//! evaluations in flight. Whether one may begin is decided by `pipeline::card_time`.

use pipeline::digest::Digest;
use pipeline::report::Stage;
use serde_json::json;

use crate::open::Store;
use crate::tables::{attempt, card_time, event};
use crate::{AttemptId, CardHold, CardTime, Result, RunId};

impl Store {
    /// Reserves time on a card for an evaluation of an attempt.
    ///
    /// # Errors
    /// An unknown attempt.
    pub async fn reserve_card(
        &self,
        id: &AttemptId,
        stage: Stage,
        reserved_us: u64,
    ) -> Result<CardHold> {
        let mut work = self.write().await?;
        let bare = attempt::get(work.connection(), id).await?;
        let hold = CardHold::from(work.new_id());
        card_time::insert(&mut work, &hold, id, stage, reserved_us).await?;
        let body = json!({
            "card": hold.as_str(), "attempt": id.as_str(), "seq": bare.ask.seq,
            "stage": stage.name(), "reserved_us": reserved_us,
        });
        event::append(&mut work, &bare.run_id, "card_reserved", &body).await?;
        work.commit().await?;
        Ok(hold)
    }

    /// Books what an evaluation took in place of its reservation.
    ///
    /// # Errors
    /// `Unstorable` for one that is unknown or has ended.
    pub async fn release_card(&self, hold: &CardHold, used_us: u64) -> Result<()> {
        let mut work = self.write().await?;
        let id = card_time::end(&mut work, hold, used_us).await?;
        let bare = attempt::get(work.connection(), &id).await?;
        let body = json!({
            "card": hold.as_str(), "attempt": id.as_str(), "seq": bare.ask.seq,
            "used_us": used_us,
        });
        event::append(&mut work, &bare.run_id, "card_released", &body).await?;
        work.commit().await
    }

    /// Time on cards of all evaluations of a run.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn card_time(&self, run: &RunId) -> Result<CardTime> {
        let of_tasks = self.card_time_of_tasks(run).await?;
        Ok(of_tasks.into_iter().fold(CardTime::default(), |sum, (_, time)| sum.plus(time)))
    }

    /// The same for each task that had any.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn card_time_of_tasks(&self, run: &RunId) -> Result<Vec<(Digest, CardTime)>> {
        let rows = card_time::of_tasks(&mut *self.read().await?, run).await?;
        Ok(rows.into_iter().map(|(task, time)| (Digest::from(task), time)).collect())
    }

    /// Microseconds that evaluations took in all runs on devices of this model, and of how many
    /// attempts they were.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn card_history(&self, device_model: &str) -> Result<(u64, u64)> {
        card_time::history(&mut *self.read().await?, device_model).await
    }
}
