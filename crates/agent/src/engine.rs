//! The loop itself, and what it is wired to.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use judge::{CancelFlag, Judge, RunSeed};
use llm::Llm;
use pipeline::attempt::{Attempt, State};
use pipeline::next_step::{Ask, SearchLimits, Step, StopReason, next_step};
use pipeline::prompt::Prompt;
use pipeline::task::Task;
use pipeline::template::Templates;
use store::{AttemptRow, CallId, RunId, RunState, Store};

use crate::advance::Advanced;
use crate::error::AgentError;

/// Everything that a run of one task is wired to.
pub struct Engine<L> {
    pub store: Store,
    pub llm: L,
    pub judge: Arc<Judge>,
    pub templates: Templates,
    pub task: Arc<Task>,
    pub limits: SearchLimits,
    pub seed: RunSeed,
    pub interrupt: Interrupt,
    /// Told of every step; must not block.
    pub observer: Arc<dyn Fn(Progress<'_>) + Send + Sync>,
    /// Calls that this process sent: those of a dead one are lost unless the provider can tell.
    pub sent_here: Mutex<HashSet<CallId>>,
}

/// What the observer is told.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// An attempt reached a state; the row holds everything stored so far.
    Reached(&'a AttemptRow),
    /// A call failed and will be made again.
    Retrying { seq: u32, why: &'a str },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The policy said so.
    Finished(StopReason),
    /// The provider cannot go on.
    Provider { class: String, message: String },
    /// A person said so.
    Interrupted,
}

/// Asks a run to stop: once after the step in hand, twice at once.
#[derive(Clone, Debug, Default)]
pub struct Interrupt {
    stop: Arc<AtomicBool>,
    cancel: CancelFlag,
}

impl<L: Llm + Sync> Engine<L> {
    /// Drives the run to its end. The caller holds the run's lock.
    ///
    /// # Errors
    /// Breakage of the machine, the ledger or this program; the run can be resumed after it.
    pub async fn run(&self, run: &RunId) -> Result<RunEnd, AgentError> {
        loop {
            let mut attempt = match self.store.attempt_in_hand(run).await? {
                Some(attempt) => attempt,
                None if self.interrupt.is_set() => {
                    return self.stop(run, RunEnd::Interrupted).await;
                }
                None => {
                    let attempts = self.store.closed_attempts(run, &self.task.hash).await?;
                    match next_step(&self.limits, &attempts) {
                        Step::Stop(reason) => {
                            return self.stop(run, RunEnd::Finished(reason)).await;
                        }
                        Step::Ask(ask) => self.open(run, &ask, &attempts).await?,
                    }
                }
            };
            while attempt.state != State::Closed {
                (self.observer)(Progress::Reached(&attempt));
                attempt = match self.advance(attempt).await? {
                    Advanced::To(attempt) => *attempt,
                    Advanced::Stopped(end) => return self.stop(run, end).await,
                };
            }
            (self.observer)(Progress::Reached(&attempt));
        }
    }

    /// Renders the question and makes it durable with its reservation.
    async fn open(
        &self,
        run: &RunId,
        ask: &Ask,
        attempts: &[Attempt],
    ) -> Result<AttemptRow, AgentError> {
        let device = &self.judge.config().device;
        let prompt = Prompt::render(&self.templates, &self.task, device, ask, attempts)?;
        let info = self.llm.describe();
        let target = store::CallTarget { provider: &info.provider, model: &info.model };
        let reservation = self.reservation(&prompt);
        Ok(self.store.open_attempt(run, &self.task.hash, ask, &prompt, reservation, target).await?)
    }

    async fn stop(&self, run: &RunId, end: RunEnd) -> Result<RunEnd, AgentError> {
        let state = match &end {
            RunEnd::Finished(_) => RunState::Finished,
            RunEnd::Provider { .. } | RunEnd::Interrupted => RunState::Stopped,
        };
        self.store.finish_run(run, state, &end.describe()).await?;
        Ok(end)
    }
}

impl RunEnd {
    /// The end in words.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Finished(reason) => reason.describe().to_owned(),
            Self::Provider { class, message } => {
                format!("the model cannot go on ({class}): {message}")
            }
            Self::Interrupted => "interrupted".to_owned(),
        }
    }
}

impl Interrupt {
    /// Asks to stop; a second time cancels what is running.
    pub fn request(&self) {
        if self.stop.swap(true, Ordering::SeqCst) {
            self.cancel.cancel();
        }
    }

    /// True once a stop was asked for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// The flag that children watch.
    #[must_use]
    pub fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }
}
