//! Kernels that a person hands over while the run goes on: several attempts at once.
//!
//! The policy is not asked: each kernel is an attempt of its own, numbered by the caller, and is
//! carried along the same path as a model's. What is said about each is the caller's.

use std::sync::Arc;

use judge::JudgeError;
use llm::Llm;
use pipeline::attempt::Mode;
use pipeline::next_step::Ask;
use pipeline::tell::Told;
use store::{AttemptRow, RunId};
use tokio::sync::mpsc::Receiver;
use tokio::task::{JoinError, JoinSet};

use crate::asking::Opening;
use crate::drive::Carried;
use crate::engine::{Engine, RunEnd};
use crate::error::AgentError;

/// What became of one kernel.
#[derive(Clone, Copy, Debug)]
pub enum Handed<'a> {
    /// It has its verdict.
    Closed(&'a AttemptRow),
    /// It was given up before; its attempt stays open.
    Stopped(&'a RunEnd),
    Broken(&'a AgentError),
}

/// Kernels to come, how many are carried at once, and who is told of each end.
#[derive(Debug)]
pub struct Handover<F> {
    /// Seqs of attempts whose replies the model has; closed when no more come.
    pub seqs: Receiver<u32>,
    /// How many are carried at once; at least one.
    pub jobs: usize,
    /// Told of each end as it comes; false when nobody listens any more.
    pub told: F,
}

type Ended = (u32, Result<Carried, AgentError>);

impl<L: Llm + Send + Sync + 'static> Engine<L> {
    /// Carries every kernel that is handed over until no more come, nobody listens, something
    /// breaks, or a person says stop; what is in hand then is finished. The caller holds the run's
    /// lock, and gives the engine an interrupt whose first request leaves steps alone.
    ///
    /// # Errors
    /// The first breakage of the machine, the ledger or this program.
    pub async fn run_handed<F: FnMut(u32, Handed<'_>) -> bool>(
        self: Arc<Self>,
        run: &RunId,
        mut handover: Handover<F>,
    ) -> Result<RunEnd, AgentError> {
        let mut in_hand = JoinSet::new();
        let mut stop: Option<Result<RunEnd, AgentError>> = None;
        loop {
            let takes = stop.is_none();
            let has_room = in_hand.len() < handover.jobs.max(1);
            tokio::select! {
                Some(joined) = in_hand.join_next() => {
                    let reason = tell(joined, &mut handover.told);
                    stop = first_reason(stop, reason);
                }
                next = handover.seqs.recv(), if takes && has_room => match next {
                    Some(seq) => _ = in_hand.spawn(Arc::clone(&self).carry_one(run.clone(), seq)),
                    None => stop = Some(Ok(RunEnd::InputEnded)),
                },
                () = self.interrupt.first_request(), if takes => {
                    stop = Some(Ok(RunEnd::Interrupted));
                }
                else => break,
            }
        }
        match stop.unwrap_or(Ok(RunEnd::InputEnded)) {
            Ok(end) => {
                self.store.finish_run(run, end.state(), &end.describe()).await?;
                Ok(end)
            }
            Err(error) => Err(self.failed(run, error).await),
        }
    }

    async fn carry_one(self: Arc<Self>, run: RunId, seq: u32) -> Ended {
        let carried = self.open_and_carry(&run, seq).await;
        let carried = match carried {
            Err(AgentError::Judge(JudgeError::Cancelled)) => {
                Ok(Carried::Stopped(RunEnd::Interrupted))
            }
            other => other,
        };
        (seq, carried)
    }

    async fn open_and_carry(&self, run: &RunId, seq: u32) -> Result<Carried, AgentError> {
        let none = AgentError::Incomplete { seq, what: "task" };
        let operator = self.operators.first().ok_or(none)?;
        let ask = Ask { seq, mode: Mode::First, parent: None, subset_notice: false };
        loop {
            let call_ended = self.here.call_ended();
            match self.open(run, operator, &ask, &[], &Told::default()).await? {
                Opening::To(attempt) => return self.carry(*attempt).await,
                Opening::Stop(end) => return Ok(Carried::Stopped(end)),
                Opening::Wait { .. } => call_ended.await,
            }
        }
    }
}

/// The first reason to stop. That the input ended is none while something in hand has another: a
/// kernel that was interrupted last, or on which we broke.
fn first_reason<E>(
    stop: Option<Result<RunEnd, E>>,
    reason: Option<Result<RunEnd, E>>,
) -> Option<Result<RunEnd, E>> {
    match stop {
        None | Some(Ok(RunEnd::InputEnded)) => reason.or(stop),
        Some(Ok(RunEnd::Finished(_) | RunEnd::Provider { .. } | RunEnd::Interrupted))
        | Some(Err(_)) => stop,
    }
}

/// Tells of one end, and gives the reason that it is for taking no more.
fn tell(
    joined: Result<Ended, JoinError>,
    told: &mut impl FnMut(u32, Handed<'_>) -> bool,
) -> Option<Result<RunEnd, AgentError>> {
    let (seq, carried) = match joined {
        Ok(ended) => ended,
        Err(error) => return Some(Err(AgentError::Worker(error.to_string()))),
    };
    match carried {
        Ok(Carried::Closed(attempt)) => {
            let heard = told(seq, Handed::Closed(&attempt));
            (!heard).then_some(Ok(RunEnd::Interrupted))
        }
        Ok(Carried::Stopped(end)) => {
            told(seq, Handed::Stopped(&end));
            Some(Ok(end))
        }
        Ok(Carried::Parked { why, .. }) => {
            let end = RunEnd::Provider { class: "refused".to_owned(), message: why };
            told(seq, Handed::Stopped(&end));
            Some(Ok(end))
        }
        Err(error) => {
            told(seq, Handed::Broken(&error));
            Some(Err(error))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{RunEnd, first_reason};

    #[test]
    fn what_ends_the_last_kernel_weighs_more_than_the_end_of_the_input() {
        let ended = || Some(Ok(RunEnd::InputEnded));
        let interrupted = || Some(Ok(RunEnd::Interrupted));
        let broken = || Some(Err("broken"));
        for (stop, reason, first) in [
            (None, interrupted(), "Some(Ok(Interrupted))"),
            (ended(), None, "Some(Ok(InputEnded))"),
            (ended(), interrupted(), "Some(Ok(Interrupted))"),
            (ended(), broken(), "Some(Err(\"broken\"))"),
            (interrupted(), broken(), "Some(Ok(Interrupted))"),
            (broken(), interrupted(), "Some(Err(\"broken\"))"),
        ] {
            assert_eq!(format!("{:?}", first_reason(stop, reason)), first);
        }
    }
}
