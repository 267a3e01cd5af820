//! What surveys measured: baselines without a candidate, so that nobody measures them again.

use pipeline::digest::Digest;
use pipeline::timing::Spread;

use crate::open::Store;
use crate::tables::{survey_time, task};
use crate::{NewTask, Result, SurveyKey};

impl Store {
    /// Keeps how fast a baseline was at a task's headline; the first time under its key stays.
    ///
    /// # Errors
    /// Those of writing.
    pub async fn put_survey_time(
        &self,
        task: &NewTask<'_>,
        key: &SurveyKey<'_>,
        spread: &Spread,
    ) -> Result<()> {
        let mut work = self.write().await?;
        task::put(&mut work, task).await?;
        survey_time::put(&mut work, key, spread).await?;
        work.commit().await
    }

    /// How fast each baseline of a task was on a device, by the newest survey under this judge and
    /// toolchain: names and medians in nanoseconds.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn survey_times(
        &self,
        task: &Digest,
        device_model: &str,
        judge_hash: &str,
        toolchain_id: &str,
    ) -> Result<Vec<(String, f64)>> {
        let mut tx = self.read().await?;
        survey_time::of_task(&mut tx, task, [device_model, judge_hash, toolchain_id]).await
    }

    /// How fast a baseline was; `None` where nobody looked under this key.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn survey_time(&self, key: &SurveyKey<'_>) -> Result<Option<Spread>> {
        survey_time::get(&mut *self.read().await?, key).await
    }
}
