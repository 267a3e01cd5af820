//! Runs, the tasks they work on, what is remembered across them.

use std::collections::BTreeMap;

use pipeline::admission::Admission;
use pipeline::digest::Digest;
use pipeline::report::{Report, Stage};
use pipeline::verdict::Verdict;
use serde_json::json;

use crate::error::StoreError;
use crate::open::Store;
use crate::scrubbing;
use crate::tables::{admission, artifact, danger, evaluation, event, run, task};
use crate::{AdmissionKey, Chain, DangerRow, NewRun, NewTask, Result, RunId, RunRow, RunState};

impl Store {
    /// Begins a run: stores its settings, seeds, task and device, and its first event.
    ///
    /// # Errors
    /// Those of writing.
    pub async fn start_run(&self, new: &NewRun<'_>) -> Result<RunId> {
        let mut work = self.write().await?;
        let id = RunId::from(work.new_id());
        for task in new.tasks {
            task::put(&mut work, task).await?;
        }
        let device = task::put_device(&mut work, new.device).await?;
        let mut gpus = Vec::new();
        for sheet in new.gpus {
            gpus.push(task::put_sheet(&mut work, sheet).await?);
        }
        run::insert(&mut work, &id, new, &device).await?;
        run::insert_tasks(&mut work, &id, new.tasks).await?;
        run::insert_seeds(&mut work, &id, new.secret_seeds_json).await?;
        let body = json!({
            "kind": new.kind.name(),
            "settings": new.settings_json,
            "tasks": new.tasks.iter().map(|task| task.hash).collect::<Vec<_>>(),
            "device": device,
            "gpus": gpus,
            "judge": new.judge_hash,
            "toolchain": new.toolchain_id,
            "prompts": new.prompts_hash,
        });
        event::append(&mut work, &id, "run_started", &body).await?;
        work.commit().await?;
        Ok(id)
    }

    /// Keeps what a task showed of itself, in place of an earlier look under the same key.
    ///
    /// # Errors
    /// Those of writing.
    pub async fn put_admission(
        &self,
        task: &NewTask<'_>,
        key: &AdmissionKey<'_>,
        found: &Admission,
    ) -> Result<()> {
        let mut work = self.write().await?;
        task::put(&mut work, task).await?;
        admission::put(&mut work, key, found).await?;
        work.commit().await
    }

    /// What a task showed of itself; `None` where nobody looked.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn admission(&self, key: &AdmissionKey<'_>) -> Result<Option<Admission>> {
        admission::get(&mut *self.read().await?, key).await
    }

    /// Ends a run, or notes why it stands still.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn finish_run(&self, id: &RunId, state: RunState, reason: &str) -> Result<()> {
        let mut work = self.write().await?;
        let reason = &scrubbing::text(&work.scrubber, reason);
        run::set_state(&mut work, id, state, Some(reason)).await?;
        let body = json!({ "state": state.name(), "reason": reason });
        event::append(&mut work, id, "run_finished", &body).await?;
        work.commit().await
    }

    /// Has a run go on with these settings; other ones than before are an event of their own.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn reopen_run(&self, id: &RunId, settings_json: &str) -> Result<()> {
        let mut work = self.write().await?;
        let before = run::get(work.connection(), id).await?.settings_json;
        run::set_state(&mut work, id, RunState::Running, None).await?;
        event::append(&mut work, id, "run_reopened", &json!({})).await?;
        if before != settings_json {
            run::set_settings(&mut work, id, settings_json).await?;
            let body = json!({
                "before": before,
                "settings": settings_json,
            });
            event::append(&mut work, id, "settings_changed", &body).await?;
        }
        work.commit().await
    }

    /// How many GPUs a run was started on; none on the simulator, or where workers judge.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn gpus_of(&self, id: &RunId) -> Result<usize> {
        let count = event::gpus(&mut *self.read().await?, id).await?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    /// When a run last went on, or began, in microseconds UTC. Among its newest events only: of a
    /// run that went on long ago, when it began.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn went_on_us(&self, id: &RunId) -> Result<i64> {
        let mut tx = self.read().await?;
        match event::newest(&mut tx, id, "run_reopened").await? {
            Some(reopened_us) => Ok(reopened_us),
            None => Ok(run::get(&mut tx, id).await?.started_us),
        }
    }

    /// The run with this id.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn run(&self, id: &RunId) -> Result<RunRow> {
        run::get(&mut *self.read().await?, id).await
    }

    /// The model of the device that a run was started for.
    ///
    /// # Errors
    /// A device that is not stored.
    pub async fn device_model(&self, id: &str) -> Result<String> {
        task::device_model(&mut *self.read().await?, id).await
    }

    /// Every run, newest first.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn list_runs(&self) -> Result<Vec<RunRow>> {
        run::list(&mut *self.read().await?).await
    }

    /// The run that `selector` means: a full id, a start of exactly one id, or `@last`.
    ///
    /// # Errors
    /// No run, or more than one.
    pub async fn resolve_run(&self, selector: &str) -> Result<RunId> {
        let mut tx = self.read().await?;
        let unknown = || run::unknown(selector);
        if selector == "@last" {
            return run::newest(&mut tx).await?.ok_or_else(unknown);
        }
        if selector.is_empty() {
            return Err(unknown());
        }
        let mut found = run::ids_with_prefix(&mut tx, selector).await?;
        if found.len() > 1 {
            let found: Vec<_> = found.iter().map(|id| format!("run {id}")).collect();
            return Err(StoreError::ambiguous(selector, &found));
        }
        found.pop().ok_or_else(unknown)
    }

    /// The runs whose ids begin so.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn runs_beginning(&self, prefix: &str) -> Result<Vec<RunId>> {
        run::ids_with_prefix(&mut *self.read().await?, prefix).await
    }

    /// The seeds of a run's hidden inputs; never to be shown or exported.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn secret_seeds(&self, id: &RunId) -> Result<Option<String>> {
        run::seeds(&mut *self.read().await?, id).await
    }

    /// The files that a task was read from: path inside its folder → bytes.
    ///
    /// # Errors
    /// An unknown task.
    pub async fn task_files(&self, hash: &Digest) -> Result<BTreeMap<String, Vec<u8>>> {
        task::files(&mut *self.read().await?, hash).await
    }

    /// The verdict of an earlier evaluation with this key of a program that the same toolchain
    /// built, whichever run made it.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn verdict_of_eval_key(
        &self,
        key: &Digest,
        toolchain_id: &str,
    ) -> Result<Option<(Verdict, Report)>> {
        evaluation::of_key(&mut *self.read().await?, key, toolchain_id, Stage::Search).await
    }

    /// As [`Store::verdict_of_eval_key`], for the stage with hidden cases.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn promotion_of_eval_key(
        &self,
        key: &Digest,
        toolchain_id: &str,
    ) -> Result<Option<(Verdict, Report)>> {
        evaluation::of_key(&mut *self.read().await?, key, toolchain_id, Stage::Promote).await
    }

    /// What is known about a program that must not run again.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn danger(&self, key: &Digest) -> Result<Option<DangerRow>> {
        danger::get(&mut *self.read().await?, key).await
    }

    /// Bytes of an artifact, checked against its hash.
    ///
    /// # Errors
    /// A missing or changed artifact is `Damaged`.
    pub async fn artifact(&self, hash: &Digest) -> Result<Vec<u8>> {
        artifact::get(&mut *self.read().await?, hash.as_str()).await
    }

    /// Follows a run's chain of events from the first to the head.
    ///
    /// # Errors
    /// An unknown run; a broken chain is a value.
    pub async fn verify_chain(&self, id: &RunId) -> Result<Chain> {
        event::verify(&mut *self.read().await?, id).await
    }
}
