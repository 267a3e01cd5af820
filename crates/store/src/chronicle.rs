//! What a run did when, for its report: calls with their times and bookings, judgements, steps of
//! acceptances.
//!
//! All times are those of events. What was begun, and begun again after a kill, counts from the
//! last beginning. Start at [`Store::chronicle`].

use std::collections::HashMap;

use pipeline::digest::Digest;
use pipeline::lanes::Span;
use pipeline::transcript::Usage;

use crate::error::StoreError;
use crate::open::Store;
use crate::tables::mark::{self, Mark};
use crate::{AttemptId, CallState, Reservation, Result, RunId};

/// What happened in a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chronicle {
    /// Oldest first.
    pub calls: Vec<BookedCall>,
    pub judged: Vec<Judged>,
    pub accepted: Vec<Accepted>,
}

/// A call with what it cost and when it was under way.
#[derive(Clone, Debug, PartialEq)]
pub struct BookedCall {
    pub attempt: AttemptId,
    pub task: Digest,
    pub provider: String,
    pub model: String,
    pub state: CallState,
    pub reservation: Reservation,
    pub usage: Option<Usage>,
    pub cost_nusd: Option<i64>,
    /// Class of what ended a failed or lost call.
    pub error_class: Option<String>,
    /// When it was stored as sent, the last time.
    pub sent_us: Option<i64>,
    /// When its reply or its failure was stored.
    pub ended_us: Option<i64>,
}

/// A judgement under way: from the stored build, or what began last, to the stored verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    pub task: Digest,
    pub seq: u32,
    /// True for the stage beyond the search, which begins with the search's stored verdict.
    pub promotes: bool,
    pub span: Span,
}

/// One step of an acceptance: from the step before, or what began last, to its stored entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The card's number, or the model where it has none.
    pub card: String,
    pub span: Span,
}

impl BookedCall {
    /// When it was under way; `None` for one that was never sent, is not over, or is lost, of
    /// which nobody knows when it ended.
    #[must_use]
    pub fn span(&self) -> Option<Span> {
        match self.state {
            CallState::Settled | CallState::Failed => {
                Some(Span { from_us: self.sent_us?, to_us: self.ended_us? })
            }
            CallState::Reserved | CallState::Sent | CallState::Lost => None,
        }
    }

    /// What counts against a cap: what it cost, or its worst case while that is not known.
    #[must_use]
    pub fn booked_nusd(&self) -> i64 {
        match self.state {
            CallState::Settled | CallState::Failed => self.cost_nusd.unwrap_or(0),
            CallState::Reserved | CallState::Sent | CallState::Lost => self.reservation.nusd,
        }
    }
}

impl Store {
    /// What a run did, and when.
    ///
    /// # Errors
    /// Those of reading.
    pub async fn chronicle(&self, run: &RunId) -> Result<Chronicle> {
        let mut tx = self.read().await?;
        let marks = mark::of_run(&mut tx, run).await?;
        let mut seqs = HashMap::new();
        for (id, task, seq) in mark::attempts(&mut tx, run).await? {
            seqs.insert(id, (Digest::from(task), mark::number(seq)?));
        }
        let cards: HashMap<String, String> = mark::cards(&mut tx, run).await?.into_iter().collect();
        let calls = mark::calls(&mut tx, run).await?;
        drop(tx);
        let times = call_times(&marks);
        let calls = calls.into_iter().map(|(id, call)| {
            let (sent_us, ended_us) = times.get(id.as_str()).copied().unwrap_or_default();
            BookedCall { sent_us, ended_us, ..call }
        });
        Ok(Chronicle {
            calls: calls.collect(),
            judged: judged(&marks, &seqs)?,
            accepted: accepted(&marks, &cards)?,
        })
    }
}

/// When each call was sent and ended.
fn call_times(marks: &[Mark]) -> HashMap<&str, (Option<i64>, Option<i64>)> {
    let mut times: HashMap<&str, (Option<i64>, Option<i64>)> = HashMap::new();
    for mark in marks {
        let Some(call) = mark.call.as_deref() else { continue };
        let at = times.entry(call).or_default();
        match mark.kind.as_str() {
            "sent" => at.0 = Some(mark.created_us),
            "replied" | "call_failed" | "call_lost" => at.1 = Some(mark.created_us),
            _ => {}
        }
    }
    times
}

fn judged(marks: &[Mark], seqs: &HashMap<String, (Digest, u32)>) -> Result<Vec<Judged>> {
    let mut begun: HashMap<&str, i64> = HashMap::new();
    let mut reopened_us = i64::MIN;
    let mut spans = Vec::new();
    for mark in marks {
        match (mark.kind.as_str(), mark.attempt.as_deref()) {
            ("run_reopened", _) => reopened_us = mark.created_us,
            ("built", Some(attempt)) => {
                begun.insert(attempt, mark.created_us);
            }
            (kind @ ("judged" | "promoted"), Some(attempt)) => {
                let from_us = begun.insert(attempt, mark.created_us);
                // A verdict from memory took nobody's time.
                let Some(from_us) = from_us.filter(|_| !mark.from_cache) else { continue };
                let unknown = || StoreError::damaged(format!("attempt {attempt} is no row"));
                let (task, seq) = seqs.get(attempt).ok_or_else(unknown)?;
                let span = Span { from_us: from_us.max(reopened_us), to_us: mark.created_us };
                let promotes = kind == "promoted";
                spans.push(Judged { task: task.clone(), seq: *seq, promotes, span });
            }
            _ => {}
        }
    }
    Ok(spans)
}

fn accepted(marks: &[Mark], cards: &HashMap<String, String>) -> Result<Vec<Accepted>> {
    let mut before: HashMap<&str, i64> = HashMap::new();
    let mut spans = Vec::new();
    for mark in marks {
        let Some(acceptance) = mark.acceptance.as_deref() else { continue };
        match mark.kind.as_str() {
            "acceptance_started" => {
                before.insert(acceptance, mark.created_us);
            }
            "acceptance_entry" => {
                let Some(from_us) = before.insert(acceptance, mark.created_us) else { continue };
                let unknown = || StoreError::damaged(format!("acceptance {acceptance} is no row"));
                let card = cards.get(acceptance).ok_or_else(unknown)?.clone();
                spans.push(Accepted { card, span: Span { from_us, to_us: mark.created_us } });
            }
            _ => {}
        }
    }
    Ok(spans)
}
