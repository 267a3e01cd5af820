//! What the loop is wired to, and what it tells. The loop itself is in [`crate::drive`].

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use judge::{Evaluator, Judge, JudgeError, RunSeed};
use llm::Llm;
use pipeline::attempt::State;
use pipeline::budget::Budget;
use pipeline::closing::Work;
use pipeline::next_step::{SearchEnd, SearchLimits, StopReason};
use pipeline::notice::Notice;
use pipeline::task::Task;
use pipeline::tell::Told;
use pipeline::template::Templates;
use store::{AttemptRow, Bookings, RunId, RunState, Store};
use tokio::task::JoinSet;

use crate::card_time::Cards;
use crate::closer::{Claims, Done};
use crate::error::AgentError;
use crate::here::Here;
use crate::in_flight::InFlight;
use crate::interrupt::Interrupt;
use crate::limits::ALARM_POLL_MS;
use crate::models::Models;
use crate::pools::Pools;

/// The stored reason of a run that a person stopped.
pub const INTERRUPTED: &str = "interrupted";

/// Everything that a run is wired to.
pub struct Engine<L> {
    pub store: Store,
    /// Who answers.
    pub models: Models<L>,
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
    pub pools: Pools,
    pub cards: Cards,
    /// Who looks at the best kernels.
    pub claims: Claims,
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
    /// Share of the whole program's time, in any unit.
    pub weight: f64,
    /// Time of a call at which its best kernel is fast enough, in nanoseconds.
    pub goal_ns: Option<f64>,
    /// Nano-dollars that it may use before others.
    pub allotted_nusd: Option<i64>,
    /// The kernel that its search starts from.
    pub known: Option<Known>,
}

impl Operator {
    /// A task that nothing steers and whose search starts from nothing.
    #[must_use]
    pub fn new(
        task: Arc<Task>,
        files: Arc<BTreeMap<String, Vec<u8>>>,
        limits: SearchLimits,
        weight: f64,
    ) -> Self {
        Self { task, files, limits, weight, goal_ns: None, allotted_nusd: None, known: None }
    }
}

/// A kernel that is there before anybody is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// Where it comes from, in words.
    pub origin: String,
    /// The reply that holds it.
    pub reply: String,
}

/// What the observer is told.
#[derive(Clone, Copy, Debug)]
pub enum Progress<'a> {
    /// An attempt at a task reached a state; the row holds everything stored so far.
    Reached {
        task: &'a str,
        attempt: &'a AttemptRow,
    },
    /// What the calls of the run cost, or may cost, has changed.
    Booked {
        bookings: &'a Bookings,
    },
    /// A kernel waits to be judged by another process.
    Elsewhere {
        task: &'a str,
        seq: u32,
    },
    /// A call failed and will be made again after `wait_ms`.
    Retrying {
        task: &'a str,
        seq: u32,
        why: &'a str,
        wait_ms: u64,
    },
    /// A model is not asked for `wait_ms`, or for the rest of the run.
    Resting {
        model: &'a str,
        why: &'a str,
        wait_ms: Option<u64>,
    },
    /// A model that rested has answered again.
    Back {
        model: &'a str,
    },
    /// The search of a task has ended.
    SearchEnded {
        task: &'a str,
        end: SearchEnd,
    },
    /// No attempt begins, and why; `None` once they begin again.
    Paused {
        why: Option<&'a str>,
    },
    /// The run broke, and the ledger could not take note of it either.
    Unnoted {
        why: &'a str,
    },
    /// A look at the best kernel of a task begins, and takes about so long.
    Looking {
        task: &'a str,
        seq: u32,
        work: Work,
        cost_ms: i64,
    },
    LookEnded {
        task: &'a str,
        seq: u32,
        work: Work,
        done: &'a Done,
    },
    /// The best kernels cannot be looked at.
    Unlooked {
        why: &'a str,
    },
    /// Something that people want to hear of who do not look.
    Notice {
        notice: &'a Notice,
    },
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

impl<L: Llm + Send + Sync + 'static> Engine<L> {
    /// Drives the run to its end. The caller holds the run's lock.
    ///
    /// # Errors
    /// Breakage of the machine, the ledger or this program; the run can be resumed after it.
    pub async fn run(self: Arc<Self>, run: &RunId) -> Result<RunEnd, AgentError> {
        let mut closing = JoinSet::new();
        if let Some(looks) = self.looks(run).await? {
            closing.spawn(Arc::clone(&self).close(looks));
        }
        let alarm = self.set_alarm(run).await?;
        let watch = self.watch_cards(run);
        let driven = self.drive(run).await;
        alarm.abort();
        watch.abort();
        let searched = match driven {
            Ok(RunEnd::Interrupted) | Err(AgentError::Judge(JudgeError::Cancelled))
                if self.interrupt.is_time_over() =>
            {
                Ok(RunEnd::Finished(StopReason::TimeSpent))
            }
            Ok(RunEnd::Interrupted) | Err(AgentError::Judge(JudgeError::Cancelled))
                if self.interrupt.are_cards_spent() =>
            {
                Ok(RunEnd::Finished(StopReason::GpuSecondsSpent))
            }
            Err(AgentError::Judge(JudgeError::Cancelled)) => Ok(RunEnd::Interrupted),
            other => other,
        };
        let stopped = self.end_looks(&mut closing, &searched).await;
        let end = match (searched, stopped) {
            (Err(error), _) | (Ok(_), Err(error)) => return Err(self.failed(run, error).await),
            (Ok(end @ RunEnd::Finished(StopReason::TasksStopped)), Ok(true)) => end,
            (Ok(_), Ok(true)) => RunEnd::Interrupted,
            (Ok(end), Ok(false)) => end,
        };
        self.store.finish_run(run, end.state(), &end.describe()).await?;
        Ok(end)
    }
}

impl<L: Llm + Sync> Engine<L> {
    /// Notes in the ledger that the run broke, and gives the error back.
    pub(crate) async fn failed(&self, run: &RunId, error: AgentError) -> AgentError {
        let why = error.to_string();
        if let Err(second) = self.store.finish_run(run, RunState::Failed, &why).await {
            (self.observer)(Progress::Unnoted { why: &second.to_string() });
        }
        error
    }

    /// The task that an attempt is about.
    pub(crate) fn operator(&self, attempt: &AttemptRow) -> Result<&Operator, AgentError> {
        Ok(&self.operators[self.place(attempt)?])
    }

    /// The place of that task among the run's.
    pub(crate) fn place(&self, attempt: &AttemptRow) -> Result<usize, AgentError> {
        let is_it = |operator: &Operator| operator.task.hash == attempt.task_hash;
        let none = AgentError::Incomplete { seq: attempt.ask.seq, what: "task" };
        self.operators.iter().position(is_it).ok_or(none)
    }

    pub(crate) async fn tell(&self, attempt: &AttemptRow) -> Result<(), AgentError> {
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
        let (store, run, shared) = (self.store.clone(), run.clone(), self.claims.shared.clone());
        Ok(tokio::spawn(async move {
            let Some(mut end_us) = base.deadline_us else { return };
            loop {
                // What is set aside becomes less as kernels are looked at, or more.
                let left_us = end_us - shared.set_aside_us() - store.now_us();
                let left = Duration::from_micros(u64::try_from(left_us).unwrap_or(0));
                tokio::time::sleep(left.min(Duration::from_millis(ALARM_POLL_MS))).await;
                if end_us - shared.set_aside_us() > store.now_us() {
                    continue;
                }
                // Where the ledger does not tell, nothing was added.
                let told = store.tells(&run).await.map(|rows| Told::of(&rows));
                let now = told.unwrap_or_default().budget(base).deadline_us;
                end_us = now.unwrap_or(end_us);
                if end_us - shared.set_aside_us() <= store.now_us() {
                    return interrupt.expire();
                }
            }
        }))
    }
}

impl RunEnd {
    pub(crate) fn state(&self) -> RunState {
        match self {
            Self::Finished(StopReason::AttemptsSpent | StopReason::SearchesEnded)
            | Self::InputEnded => RunState::Finished,
            Self::Finished(
                StopReason::TokensSpent | StopReason::DollarsSpent | StopReason::TimeSpent,
            ) => RunState::Stopped,
            Self::Finished(StopReason::GpuSecondsSpent | StopReason::TasksStopped) => {
                RunState::Stopped
            }
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
