//! Notes in a run's log about what is no step of an attempt: a search that came to its end, a model
//! that nobody asks for a while. Nothing is decided from them; they are for whoever reads the run.

use pipeline::digest::Digest;
use pipeline::limits::capped;
use pipeline::next_step::SearchEnd;
use serde_json::{Value, json};

use crate::limits::ERROR_BYTES_MAX;
use crate::open::Store;
use crate::tables::{event, of_json};
use crate::{Result, RunId, scrubbing};

/// A model as a note names it.
#[derive(Clone, Copy, Debug)]
pub struct NotedModel<'a> {
    pub provider: &'a str,
    pub model: &'a str,
}

/// What a run waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pause {
    pub why: String,
    pub since_us: i64,
}

impl Store {
    /// The search of a task has ended, and why.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn note_search_ended(
        &self,
        run: &RunId,
        task: &Digest,
        end: SearchEnd,
    ) -> Result<()> {
        self.note(run, "search_ended", json!({ "task": task, "end": end })).await
    }

    /// Why the search of each task has ended, as it was noted last.
    ///
    /// # Errors
    /// Those of reading; a note that does not read.
    pub async fn search_ends(&self, run: &RunId) -> Result<Vec<(Digest, SearchEnd)>> {
        event::search_ends(&mut *self.read().await?, run).await
    }

    /// The tasks whose search has ended and has not gone on since.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn searches_over(&self, run: &RunId) -> Result<Vec<Digest>> {
        event::searches_over(&mut *self.read().await?, run).await
    }

    /// A model is not asked for a while, or not any more where `wait_ms` is `None`.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn note_breaker_opened(
        &self,
        run: &RunId,
        model: NotedModel<'_>,
        why: (&str, &str),
        wait_ms: Option<u64>,
    ) -> Result<()> {
        let [provider, model] = self.stored_names(model);
        let (class, message) = why;
        let message = scrubbing::text(self.scrubber(), message);
        let message = capped(&message, ERROR_BYTES_MAX);
        let body = json!({
            "provider": provider, "model": model, "class": class, "message": message,
            "wait_ms": wait_ms,
        });
        self.note(run, "breaker_opened", body).await
    }

    /// A model has answered again.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn note_breaker_closed(&self, run: &RunId, model: NotedModel<'_>) -> Result<()> {
        let [provider, model] = self.stored_names(model);
        self.note(run, "breaker_closed", json!({ "provider": provider, "model": model })).await
    }

    /// The run waits for something that this machine has too little of.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn note_paused(&self, run: &RunId, what: &str, why: &str) -> Result<()> {
        let why = capped(&scrubbing::text(self.scrubber(), why), ERROR_BYTES_MAX);
        self.note(run, event::PAUSED, json!({ "what": what, "why": why })).await
    }

    /// There is enough of it again.
    ///
    /// # Errors
    /// An unknown run.
    pub async fn note_going_on(&self, run: &RunId, what: &str) -> Result<()> {
        self.note(run, event::WENT_ON, json!({ "what": what })).await
    }

    /// What the run waits for by its log, if it does; a run that is not on waits for nothing.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn pause(&self, run: &RunId) -> Result<Option<Pause>> {
        let Some((kind, body, since_us)) =
            event::newest_pause(&mut *self.read().await?, run).await?
        else {
            return Ok(None);
        };
        let body: Value = of_json("a pause", &body)?;
        let why = body["why"].as_str().unwrap_or_default().to_owned();
        Ok((kind == event::PAUSED).then_some(Pause { why, since_us }))
    }

    /// Names as calls store them.
    fn stored_names(&self, model: NotedModel<'_>) -> [String; 2] {
        [model.provider, model.model].map(|name| scrubbing::text(self.scrubber(), name))
    }

    async fn note(&self, run: &RunId, kind: &str, body: Value) -> Result<()> {
        let mut work = self.write().await?;
        event::append(&mut work, run, kind, &body).await?;
        work.commit().await
    }
}
