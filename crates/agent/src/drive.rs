//! The loop: ask the policy whose turn it is, open what it wants, carry all that is under way.
//!
//! [`Engine::drive`] is the loop, and it fits on a screen. Whose turn it is is decided by
//! `pipeline::schedule`; whether a question may be asked now, in `asking`; how an attempt moves
//! from one durable state to the next, in `advance` and `calls`. It begins with what is in hand.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use llm::Llm;
use pipeline::attempt::{Attempt, State};
use pipeline::next_step::{SearchEnd, StopReason};
use pipeline::schedule::Turn;
use pipeline::tell::{Leave, Told};
use store::{AttemptRow, RunId};
use tokio::task::{JoinError, JoinSet};

use crate::advance::{Advanced, incomplete};
use crate::asking::Opening;
use crate::board::Board;
use crate::engine::{Engine, Progress, RunEnd};
use crate::error::AgentError;
use crate::interrupt::Interrupt;

/// How far an attempt was carried.
pub(crate) enum Carried {
    Closed(Box<AttemptRow>),
    /// It is given up for now, and its task with it.
    Parked {
        end: SearchEnd,
        why: String,
    },
    Stopped(RunEnd),
}

/// What is under way, and why nothing more is begun.
struct Hand {
    jobs: JoinSet<Ended>,
    end: Option<Result<RunEnd, AgentError>>,
    /// What a model said that refuses a prompt.
    refusal: String,
}

/// The end of one attempt of the task at a place.
struct Ended {
    place: usize,
    seq: u32,
    carried: Result<Carried, AgentError>,
}

impl Hand {
    /// Nothing more is begun; what is under way goes on, or ends after its step in hand where this
    /// program broke. The first reason stands.
    fn stop(&mut self, interrupt: &Interrupt, end: Result<RunEnd, AgentError>) -> Option<u64> {
        if self.end.is_none() {
            if end.is_err() {
                interrupt.request();
            }
            self.end = Some(end);
        }
        None
    }
}

/// How a run ends in which nothing may begin: a person stopped it, or each of its tasks.
fn stopped(told: &Told) -> RunEnd {
    match told.leave_of_run() {
        Leave::Stopped => RunEnd::Interrupted,
        Leave::Go | Leave::Paused => RunEnd::Finished(StopReason::TasksStopped),
    }
}

/// The end of a job; a panic in it goes on here.
fn unwound(joined: Result<Ended, JoinError>) -> Result<Ended, AgentError> {
    joined.map_err(|error| match error.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(error) => AgentError::Worker(error.to_string()),
    })
}

impl<L: Llm + Send + Sync + 'static> Engine<L> {
    pub(crate) async fn drive(self: &Arc<Self>, run: &RunId) -> Result<RunEnd, AgentError> {
        let mut hand = Hand { jobs: JoinSet::new(), end: None, refusal: String::new() };
        let mut board = self.begin(run, &mut hand).await?;
        loop {
            let call_ended = self.here.call_ended();
            let until_ms = match self.begin_next(run, &mut board, &hand).await {
                Ok(Opening::To(attempt)) => {
                    self.carry_on(&mut board, &mut hand, *attempt)?;
                    continue;
                }
                Ok(Opening::Wait { until_ms }) => until_ms,
                Ok(Opening::Stop(end)) => hand.stop(&self.interrupt, Ok(end)),
                Err(error) => hand.stop(&self.interrupt, Err(error)),
            };
            tokio::select! {
                Some(ended) = hand.jobs.join_next() => {
                    let ended = unwound(ended)?;
                    if let Err(error) = self.note_end(run, &mut board, &mut hand, ended).await {
                        hand.stop(&self.interrupt, Err(error));
                    }
                }
                () = call_ended, if hand.end.is_none() => {}
                () = self.interrupt.requested(), if hand.end.is_none() => {
                    hand.stop(&self.interrupt, Ok(RunEnd::Interrupted));
                }
                () = self.reaches(until_ms), if hand.end.is_none() => {}
                else => return hand.end.unwrap_or(Ok(RunEnd::Interrupted)),
            }
        }
    }

    /// What the ledger knows; attempts that are in hand go on.
    async fn begin(self: &Arc<Self>, run: &RunId, hand: &mut Hand) -> Result<Board, AgentError> {
        if self.store.pause(run).await?.is_some() {
            // Whoever waited is dead, and this process looks for itself.
            self.store.note_going_on(run, "resumed").await?;
        }
        for (mode, tokens, finish_reason) in self.store.completions(run).await? {
            self.here.note_completion(mode, tokens, &finish_reason);
        }
        let mut closed = Vec::new();
        for operator in &self.operators {
            closed.push(self.store.outlines(run, &operator.task.hash).await?);
        }
        let mut board = Board::new(closed);
        let in_hand = self.store.attempts_in_hand(run).await?;
        // What is still to be answered holds money before anything new is asked.
        in_hand.iter().for_each(|attempt| self.note_found(attempt));
        for attempt in in_hand {
            self.carry_on(&mut board, hand, attempt)?;
        }
        (0..self.operators.len()).for_each(|place| self.note_best(&board, place));
        self.note_old_ends(run, &mut board).await?;
        Ok(board)
    }

    /// Notes the ends of searches that a kill came before.
    async fn note_old_ends(&self, run: &RunId, board: &mut Board) -> Result<(), AgentError> {
        let noted = self.store.search_ends(run).await?;
        for (place, operator) in self.operators.iter().enumerate() {
            let hash = &operator.task.hash;
            let is_noted = |end| noted.iter().any(|(task, it)| task == hash && *it == end);
            if let Some(end) = board.new_end(place, operator).filter(|end| !is_noted(*end)) {
                self.store.note_search_ended(run, hash, end).await?;
            }
        }
        Ok(())
    }

    /// Opens the next attempt where the policy and the models allow one now.
    async fn begin_next(
        &self,
        run: &RunId,
        board: &mut Board,
        hand: &Hand,
    ) -> Result<Opening, AgentError> {
        if hand.end.is_some() || hand.jobs.len() >= self.pools.in_flight_max {
            return Ok(Opening::Wait { until_ms: None });
        }
        self.note_cards();
        let told = self.told(run).await?;
        match self.leave(&told) {
            Leave::Go => {}
            Leave::Stopped => return Ok(Opening::Stop(stopped(&told))),
            Leave::Paused => return Ok(self.next_look()),
        }
        let budget = told.budget(self.budget);
        self.note_caps(run, &budget, board.made()).await?;
        let purses = self.purses(run, &budget, &told).await?;
        match board.turn(budget.attempts_max, &self.operators, &told, &purses) {
            Turn::Stop(_)
                if board.some_wait(&self.operators, &told)
                    && board.made() < budget.attempts_max as usize =>
            {
                Ok(self.next_look())
            }
            Turn::Wait => Ok(Opening::Wait { until_ms: None }),
            Turn::Stop(StopReason::SearchesEnded) if board.all_ended(SearchEnd::Refused) => {
                let (class, message) = ("refused".to_owned(), hand.refusal.clone());
                Ok(Opening::Stop(RunEnd::Provider { class, message }))
            }
            Turn::Stop(reason) => Ok(Opening::Stop(RunEnd::Finished(reason))),
            Turn::Ask { .. } if self.interrupt.is_set() => Ok(Opening::Stop(RunEnd::Interrupted)),
            Turn::Ask { .. } if !self.has_room(run).await? => {
                Ok(Opening::Stop(RunEnd::Interrupted))
            }
            Turn::Ask { task, ask } => {
                if let Some(why) = self.no_card_time(run, &budget, hand.jobs.len()).await? {
                    return Ok(why);
                }
                let operator = &self.operators[task];
                match operator.known.as_ref().filter(|_| ask.seq == 1) {
                    Some(known) => self.open_known(run, operator, &ask, known).await,
                    None => self.open(run, operator, &ask, board.attempts(task), &told).await,
                }
            }
        }
    }

    /// Carries an attempt to its end beside the others.
    fn carry_on(
        self: &Arc<Self>,
        board: &mut Board,
        hand: &mut Hand,
        attempt: AttemptRow,
    ) -> Result<(), AgentError> {
        let (place, ask) = (self.place(&attempt)?, attempt.ask);
        board.begin(place, ask);
        let engine = Arc::clone(self);
        hand.jobs.spawn(async move {
            Ended { place, seq: ask.seq, carried: engine.carry(attempt).await }
        });
        Ok(())
    }

    async fn note_end(
        &self,
        run: &RunId,
        board: &mut Board,
        hand: &mut Hand,
        ended: Ended,
    ) -> Result<(), AgentError> {
        let Ended { place, seq, carried } = ended;
        match carried? {
            Carried::Closed(attempt) => {
                board.close(place, self.outline_of(*attempt).await?);
            }
            Carried::Parked { end, why } => {
                board.park(place, seq, end);
                hand.refusal = why;
            }
            Carried::Stopped(end) => {
                hand.stop(&self.interrupt, Ok(end));
                return Ok(());
            }
        }
        self.note_best(board, place);
        let operator = &self.operators[place];
        if let Some(end) = board.new_end(place, operator) {
            self.store.note_search_ended(run, &operator.task.hash, end).await?;
            let task = &operator.task.spec.name;
            (self.observer)(Progress::SearchEnded { task, end });
        }
        Ok(())
    }

    /// Has those who look at best kernels know of the one of a task.
    fn note_best(&self, board: &Board, place: usize) {
        let (best, searching) = board.best(place, &self.operators[place]);
        self.claims.shared.note(place, best, searching);
    }

    /// What the policy needs of an attempt that is closed.
    async fn outline_of(&self, row: AttemptRow) -> Result<Attempt, AgentError> {
        let lacks = incomplete(&row, "verdict");
        let promoted = match row.judgement {
            Some(_) => self.store.promotion(&row.id).await?,
            None => None,
        };
        let attempt = Attempt {
            seq: row.ask.seq,
            mode: row.ask.mode,
            parent: row.ask.parent,
            verdict: row.verdict.ok_or(lacks)?,
            code: None,
            reply: String::new(),
            diagnostics: Vec::new(),
            report: row.judgement.and_then(|judgement| judgement.report),
            promotion: promoted.and_then(|promoted| promoted.report?.promotion),
        };
        Ok(attempt.outline())
    }

    /// Returns at a time that the models named, or never.
    async fn reaches(&self, until_ms: Option<u64>) {
        match until_ms {
            Some(until_ms) => {
                tokio::time::sleep(Duration::from_millis(self.models.until_ms(until_ms))).await;
            }
            None => pending().await,
        }
    }
}

impl<L: Llm + Sync> Engine<L> {
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
                Advanced::Parked { end, why } => return Ok(Carried::Parked { end, why }),
                Advanced::Stopped(end) => return Ok(Carried::Stopped(end)),
            };
        }
        self.tell(&attempt).await?;
        Ok(Carried::Closed(Box::new(attempt)))
    }
}
