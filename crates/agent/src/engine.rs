//! The loop itself, and what it is wired to.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use judge::{CancelFlag, Judge, JudgeError, RunSeed};
use llm::Llm;
use pipeline::attempt::{Attempt, State};
use pipeline::next_step::{Ask, SearchLimits, Step, StopReason, next_step};
use pipeline::prompt::Prompt;
use pipeline::task::Task;
use pipeline::template::Templates;
use store::{AttemptRow, CallId, RunId, RunState, Store};
use tokio::sync::watch;

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
    /// Calls that this process submitted: those of a dead one are lost where nobody can tell.
    pub sent_here: Mutex<HashSet<CallId>>,
}

/// What the observer is told.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// An attempt reached a state; the row holds everything stored so far.
    Reached(&'a AttemptRow),
    /// A call failed and will be made again.
    Retrying { seq: u32, why: &'a str },
    /// The run broke, and the ledger could not take note of it either.
    Unnoted { why: &'a str },
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

/// Asks a run to stop: once after the step in hand, where the reply to a question that was sent
/// belongs to its step; twice at once. Either way `resume` goes on from what is stored.
#[derive(Clone, Debug)]
pub struct Interrupt {
    requests: Arc<watch::Sender<u32>>,
    cancel: CancelFlag,
}

impl<L: Llm + Sync> Engine<L> {
    /// Drives the run to its end. The caller holds the run's lock.
    ///
    /// # Errors
    /// Breakage of the machine, the ledger or this program; the run can be resumed after it.
    pub async fn run(&self, run: &RunId) -> Result<RunEnd, AgentError> {
        let end = match self.drive(run).await {
            Ok(end) => end,
            Err(AgentError::Judge(JudgeError::Cancelled)) => RunEnd::Interrupted,
            Err(error) => {
                let why = error.to_string();
                if let Err(second) = self.store.finish_run(run, RunState::Failed, &why).await {
                    (self.observer)(Progress::Unnoted { why: &second.to_string() });
                }
                return Err(error);
            }
        };
        self.store.finish_run(run, end.state(), &end.describe()).await?;
        Ok(end)
    }

    async fn drive(&self, run: &RunId) -> Result<RunEnd, AgentError> {
        loop {
            let mut attempt = match self.store.attempt_in_hand(run).await? {
                Some(attempt) => attempt,
                None => {
                    let attempts = self.store.closed_attempts(run, &self.task.hash).await?;
                    match next_step(&self.limits, &attempts) {
                        Step::Stop(reason) => return Ok(RunEnd::Finished(reason)),
                        Step::Ask(_) if self.interrupt.is_set() => return Ok(RunEnd::Interrupted),
                        Step::Ask(ask) => self.open(run, &ask, &attempts).await?,
                    }
                }
            };
            while attempt.state != State::Closed {
                (self.observer)(Progress::Reached(&attempt));
                // What was sent is paid for: its reply belongs to the step in hand.
                if self.interrupt.is_set() && attempt.state != State::Sent {
                    return Ok(RunEnd::Interrupted);
                }
                attempt = match self.advance(attempt).await? {
                    Advanced::To(attempt) => *attempt,
                    Advanced::Stopped(end) => return Ok(end),
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
}

impl RunEnd {
    fn state(&self) -> RunState {
        match self {
            Self::Finished(_) => RunState::Finished,
            Self::Provider { .. } | Self::Interrupted => RunState::Stopped,
        }
    }

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

impl Default for Interrupt {
    fn default() -> Self {
        Self { requests: Arc::new(watch::Sender::new(0)), cancel: CancelFlag::default() }
    }
}

impl Interrupt {
    /// Asks to stop; a second time ends what is running or waited for.
    pub fn request(&self) {
        self.requests.send_modify(|requests| *requests = requests.saturating_add(1));
        if *self.requests.borrow() > 1 {
            self.cancel.cancel();
        }
    }

    /// True once a stop was asked for.
    #[must_use]
    pub fn is_set(&self) -> bool {
        *self.requests.borrow() > 0
    }

    /// Returns once a stop was asked for.
    pub(crate) async fn requested(&self) {
        self.reached(1).await;
    }

    /// Returns once a stop was asked for a second time.
    pub(crate) async fn at_once(&self) {
        self.reached(2).await;
    }

    async fn reached(&self, wanted: u32) {
        let mut requests = self.requests.subscribe();
        // The sender is in `self`, so that the channel cannot close meanwhile.
        let _ = requests.wait_for(|requests| *requests >= wanted).await;
    }

    /// The flag that children watch.
    #[must_use]
    pub fn cancel_flag(&self) -> CancelFlag {
        self.cancel.clone()
    }
}
