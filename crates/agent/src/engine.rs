//! The loop itself, and what it is wired to.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use judge::{Evaluator, Judge, JudgeError, RunSeed};
use llm::Llm;
use pipeline::attempt::{Attempt, State};
use pipeline::budget::Budget;
use pipeline::next_step::{Ask, Search, SearchLimits, StopReason, Turn, next_turn};
use pipeline::notice::Notice;
use pipeline::prompt::Prompt;
use pipeline::task::Task;
use pipeline::tell::{Hint, Leave, Told};
use pipeline::template::Templates;
use store::{AttemptRow, Bookings, Reservation, RunId, RunState, Store};

use crate::advance::Advanced;
use crate::error::AgentError;
use crate::here::Here;
use crate::in_flight::InFlight;
use crate::interrupt::Interrupt;
use crate::told;

/// The stored reason of a run that a person stopped.
pub const INTERRUPTED: &str = "interrupted";

/// Everything that a run is wired to.
pub struct Engine<L> {
    pub store: Store,
    /// At least one; attempts take them in turn.
    pub models: Vec<L>,
    /// Compiles and gates, here.
    pub judge: Arc<Judge>,
    /// Judges what was compiled, here or elsewhere.
    pub evaluator: Arc<dyn Evaluator>,
    pub templates: Templates,
    /// What the run works on, at least one.
    pub operators: Vec<Operator>,
    pub budget: Budget,
    /// Which correct candidates meet hidden cases.
    pub promotes: Promotes,
    pub seed: RunSeed,
    pub interrupt: Interrupt,
    /// Told of every step; must not block.
    pub observer: Arc<dyn Fn(Progress<'_>) + Send + Sync>,
    /// True where the observer is told of bookings and of shares of caps, which takes a look into
    /// the ledger.
    pub tells_bookings: bool,
    pub here: Here,
    /// Programs that are judged right now.
    pub in_flight: InFlight,
}

/// Which correct candidates meet hidden cases before they are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promotes {
    /// Those that would replace the incumbent, which they are also timed beside.
    Replacing,
    /// All of them, each for itself.
    Each,
    /// None; only for tests of what comes before.
    Nobody,
}

/// One task of a run.
#[derive(Clone, Debug)]
pub struct Operator {
    pub task: Arc<Task>,
    /// The files that it was read from: path inside its folder → bytes.
    pub files: Arc<BTreeMap<String, Vec<u8>>>,
    pub limits: SearchLimits,
}

/// What the observer is told.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// An attempt at a task reached a state; the row holds everything stored so far.
    Reached { task: &'a str, attempt: &'a AttemptRow },
    /// What the calls of the run cost, or may cost, has changed.
    Booked { bookings: &'a Bookings },
    /// A kernel waits to be judged by another process.
    Elsewhere { task: &'a str, seq: u32 },
    /// A call failed and will be made again after `wait_ms`.
    Retrying { task: &'a str, seq: u32, why: &'a str, wait_ms: u64 },
    /// The run broke, and the ledger could not take note of it either.
    Unnoted { why: &'a str },
    /// Something that people want to hear of who do not look.
    Notice { notice: &'a Notice },
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RunEnd {
    /// The policy or a budget said so.
    Finished(StopReason),
    /// The provider cannot go on.
    Provider { class: String, message: String },
    /// A person said so.
    Interrupted,
    /// All kernels that were handed over are judged, and no more will come.
    InputEnded,
}

/// How far an attempt was carried.
pub(crate) enum Carried {
    Closed(Box<AttemptRow>),
    Stopped(RunEnd),
}

impl<L: Llm + Sync> Engine<L> {
    /// Drives the run to its end. The caller holds the run's lock.
    ///
    /// # Errors
    /// Breakage of the machine, the ledger or this program; the run can be resumed after it.
    pub async fn run(&self, run: &RunId) -> Result<RunEnd, AgentError> {
        let alarm = self.set_alarm(run).await?;
        let driven = self.drive(run).await;
        alarm.abort();
        let end = match driven {
            Ok(end) => end,
            Err(AgentError::Judge(JudgeError::Cancelled)) => RunEnd::Interrupted,
            Err(error) => return Err(self.failed(run, error).await),
        };
        let end = match end {
            RunEnd::Interrupted if self.interrupt.is_time_over() => {
                RunEnd::Finished(StopReason::TimeSpent)
            }
            other => other,
        };
        self.store.finish_run(run, end.state(), &end.describe()).await?;
        Ok(end)
    }

    /// Notes in the ledger that the run broke, and gives the error back.
    pub(crate) async fn failed(&self, run: &RunId, error: AgentError) -> AgentError {
        let why = error.to_string();
        if let Err(second) = self.store.finish_run(run, RunState::Failed, &why).await {
            (self.observer)(Progress::Unnoted { why: &second.to_string() });
        }
        error
    }

    async fn drive(&self, run: &RunId) -> Result<RunEnd, AgentError> {
        loop {
            let attempt = match self.store.attempt_in_hand(run).await? {
                Some(attempt) => attempt,
                None => match self.next_attempt(run).await? {
                    Advanced::To(attempt) => *attempt,
                    Advanced::Stopped(end) => return Ok(end),
                },
            };
            if let Carried::Stopped(end) = self.carry(attempt).await? {
                return Ok(end);
            }
        }
    }

    /// Takes one attempt through its states until it is closed. Several may be carried at once.
    pub(crate) async fn carry(&self, mut attempt: AttemptRow) -> Result<Carried, AgentError> {
        while attempt.state != State::Closed {
            self.tell(&attempt).await?;
            // What was sent is paid for: its reply belongs to the step in hand.
            if self.interrupt.is_set() && attempt.state != State::Sent {
                return Ok(Carried::Stopped(RunEnd::Interrupted));
            }
            attempt = match self.advance(attempt).await? {
                Advanced::To(attempt) => *attempt,
                Advanced::Stopped(end) => return Ok(Carried::Stopped(end)),
            };
        }
        self.tell(&attempt).await?;
        Ok(Carried::Closed(Box::new(attempt)))
    }

    /// Asks the policy, and opens what it wants unless a budget or a person forbids it.
    async fn next_attempt(&self, run: &RunId) -> Result<Advanced, AgentError> {
        let mut histories = Vec::new();
        for operator in &self.operators {
            histories.push(self.store.closed_attempts(run, &operator.task.hash).await?);
        }
        let made: usize = histories.iter().map(Vec::len).sum();
        loop {
            let told = match self.may_begin(run).await? {
                Ok(told) => told,
                Err(end) => return Ok(Advanced::Stopped(end)),
            };
            let search = |(operator, attempts): (&Operator, _)| {
                let limits = told::limits(&told, &operator.task.hash, operator.limits);
                Search { limits, attempts }
            };
            let attempts = histories.iter().map(Vec::as_slice);
            let searches: Vec<_> = self.operators.iter().zip(attempts).map(search).collect();
            let budget = told.budget(self.budget);
            self.note_caps(run, &budget, made).await?;
            let attempts_max = budget.attempts_max;
            match next_turn(attempts_max, &searches) {
                Turn::Stop(_) if made < attempts_max as usize && self.some_wait(&told) => {
                    if let Err(end) = self.rest().await {
                        return Ok(Advanced::Stopped(end));
                    }
                }
                Turn::Stop(reason) => return Ok(Advanced::Stopped(RunEnd::Finished(reason))),
                Turn::Ask { .. } if self.interrupt.is_set() => {
                    return Ok(Advanced::Stopped(RunEnd::Interrupted));
                }
                Turn::Ask { task, ask } => {
                    let operator = &self.operators[task];
                    return self.open_told(run, operator, &ask, &histories[task], &told).await;
                }
            }
        }
    }

    /// True where a task was paused and may go on later.
    fn some_wait(&self, told: &Told) -> bool {
        self.operators.iter().any(|operator| told.leave(&operator.task.hash) == Leave::Paused)
    }

    /// Opens what nobody told anything about.
    pub(crate) async fn open(
        &self,
        run: &RunId,
        operator: &Operator,
        ask: &Ask,
        attempts: &[Attempt],
    ) -> Result<Advanced, AgentError> {
        self.open_told(run, operator, ask, attempts, &Told::default()).await
    }

    /// Renders the question and makes it durable with its reservation.
    async fn open_told(
        &self,
        run: &RunId,
        operator: &Operator,
        ask: &Ask,
        attempts: &[Attempt],
        told: &Told,
    ) -> Result<Advanced, AgentError> {
        let (device, scrubber) = (&self.judge.config().device, self.store.scrubber());
        let (task, templates) = (&operator.task, &self.templates);
        let hints = told.hints(&task.hash);
        let texts: Vec<_> = hints.iter().map(|hint: &&Hint| hint.text.as_str()).collect();
        let prompt =
            Prompt::render_hinted(templates, task, device, ask, attempts, &texts, scrubber)?;
        let model = self.model(ask.seq).describe();
        let none = Reservation::default();
        let reservation = match self.reserve(run, &model, &prompt, none).await? {
            Ok(reservation) => reservation,
            Err(reason) => return Ok(Advanced::Stopped(RunEnd::Finished(reason))),
        };
        let price_json = crate::calls::price_json(&model);
        let target = crate::calls::target(&model, &price_json);
        let opened =
            self.store.open_attempt(run, &task.hash, ask, &prompt, reservation, target).await?;
        self.here.note_reserved(&opened.call.id);
        let positions: Vec<_> = hints.iter().map(|hint| hint.position).collect();
        self.note_shown(run, &task.hash, ask.seq, &positions).await?;
        Ok(Advanced::To(Box::new(opened)))
    }

    /// The task that an attempt is about.
    pub(crate) fn operator(&self, attempt: &AttemptRow) -> Result<&Operator, AgentError> {
        let found = self.operators.iter().find(|operator| operator.task.hash == attempt.task_hash);
        found.ok_or(AgentError::Incomplete { seq: attempt.ask.seq, what: "task" })
    }

    /// The model that the attempt with this seq asks.
    pub(crate) fn model(&self, seq: u32) -> &L {
        let turn = (seq as usize).saturating_sub(1);
        &self.models[turn % self.models.len()]
    }

    async fn tell(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
        let task = &self.operator(attempt)?.task.spec.name;
        if self.tells_bookings && matches!(attempt.state, State::Asked | State::Replied) {
            let bookings = self.store.bookings(&attempt.run_id).await?;
            (self.observer)(Progress::Booked { bookings: &bookings });
        }
        (self.observer)(Progress::Reached { task, attempt });
        Ok(())
    }

    /// Ends everything at once when the run's time is over, added time included.
    async fn set_alarm(&self, run: &RunId) -> Result<tokio::task::JoinHandle<()>, AgentError> {
        let left_us = |end_us: Option<i64>| end_us.map(|end_us| end_us - self.store.now_us());
        if left_us(self.budget_now(run).await?.deadline_us).is_some_and(|left_us| left_us <= 0) {
            self.interrupt.expire();
        }
        let (base, interrupt) = (self.budget, self.interrupt.clone());
        let (store, run) = (self.store.clone(), run.clone());
        Ok(tokio::spawn(async move {
            let Some(first_end_us) = base.deadline_us else { return };
            let mut end_us = first_end_us;
            loop {
                let left_us = u64::try_from(end_us - store.now_us()).unwrap_or(0);
                tokio::time::sleep(Duration::from_micros(left_us)).await;
                // Where the ledger does not tell, nothing was added.
                let told = store.tells(&run).await.map(|rows| Told::of(&rows));
                let now = told.unwrap_or_default().budget(base).deadline_us;
                end_us = now.unwrap_or(end_us);
                if end_us <= store.now_us() {
                    return interrupt.expire();
                }
            }
        }))
    }
}

impl RunEnd {
    pub(crate) fn state(&self) -> RunState {
        match self {
            Self::Finished(StopReason::AttemptsSpent) | Self::InputEnded => RunState::Finished,
            Self::Finished(
                StopReason::TokensSpent | StopReason::DollarsSpent | StopReason::TimeSpent,
            ) => RunState::Stopped,
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
            Self::Interrupted => INTERRUPTED.to_owned(),
            Self::InputEnded => "the input ended".to_owned(),
        }
    }
}
