//! What the live lines of a run say: a pure function of what happened, the size and the time.
//!
//! Times are milliseconds since the program began to watch. Who feeds it is in `progress`, who
//! draws it in `terminal`; how numbers are written is in [`words`].

mod words;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use agent::Progress;
use pipeline::attempt::{Attempt, Mode, State};
use pipeline::budget::Budget;
use pipeline::report::Score;
use pipeline::verdict::Kind;
use store::{AttemptRow, Bookings};

use crate::limits::LIVE_TASKS_MAX;

/// Provider whose answers come from somebody who may take hours.
const MAILBOX: &str = "mailbox";

/// A window, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) rows: usize,
    pub(crate) cols: usize,
}

/// What an attempt is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Asking,
    /// Somebody will answer in a folder.
    Mailbox,
    Compiling,
    Judging,
    /// A worker elsewhere will judge.
    Worker,
    /// Asking again after so many milliseconds.
    Retrying {
        wait_ms: u64,
    },
}

/// Something that changes what the lines say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Fact {
    /// `mode` is known where the attempt itself is.
    Step {
        task: String,
        seq: u32,
        mode: Option<Mode>,
        step: Step,
    },
    Closed {
        task: String,
        seq: u32,
        kind: Kind,
        score: Score,
    },
    Booked(Bookings),
}

impl Fact {
    /// What an observer was told, where the lines say something about it.
    pub(crate) fn of(progress: &Progress<'_>) -> Option<Self> {
        let step = |task: &str, seq, step| {
            Some(Self::Step { task: task.to_owned(), seq, mode: None, step })
        };
        match *progress {
            Progress::Reached { task, attempt } => Some(Self::of_attempt(task, attempt)),
            Progress::Booked { bookings } => Some(Self::Booked(*bookings)),
            Progress::Elsewhere { task, seq } => step(task, seq, Step::Worker),
            Progress::Retrying { task, seq, wait_ms, .. } => {
                step(task, seq, Step::Retrying { wait_ms })
            }
            Progress::Resting { .. } | Progress::Back { .. } | Progress::Paused { .. } => None,
            Progress::SearchEnded { .. } | Progress::Unnoted { .. } => None,
            Progress::Looking { .. } | Progress::LookEnded { .. } => None,
            Progress::Unlooked { .. } | Progress::Notice { .. } => None,
        }
    }

    fn of_attempt(task: &str, attempt: &AttemptRow) -> Self {
        let (task, seq) = (task.to_owned(), attempt.ask.seq);
        let step = match attempt.state {
            State::Asked | State::Sent if attempt.call.provider == MAILBOX => Step::Mailbox,
            State::Asked | State::Sent => Step::Asking,
            State::Replied | State::Parsed => Step::Compiling,
            State::Built | State::Judged | State::Closed => Step::Judging,
        };
        let Some(verdict) = &attempt.verdict else {
            return Self::Step { task, seq, mode: Some(attempt.ask.mode), step };
        };
        let report = attempt.judgement.as_ref().and_then(|judgement| judgement.report.as_ref());
        let score = match report {
            Some(report) if verdict.is_correct() => report.score.clone(),
            Some(_) | None => Score::None,
        };
        Self::Closed { task, seq, kind: verdict.kind, score }
    }
}

/// A run as its live lines know it.
#[derive(Debug)]
pub(crate) struct Live {
    tasks: Vec<Searched>,
    /// The task in hand.
    current: usize,
    budget: Budget,
    bookings: Bookings,
    /// When the run must stop.
    end_ms: Option<u64>,
    /// Attempts that were closed while somebody watched, and when the last one was.
    closed_here: u32,
    last_closed_ms: u64,
}

/// One task of the run.
#[derive(Debug, Default)]
struct Searched {
    name: String,
    /// Attempts that it will have at the end.
    allowed: u32,
    closed: u32,
    /// Closed attempts by kind of verdict.
    kinds: [u32; Kind::ALL.len()],
    best: Option<(u32, Score)>,
    in_hand: Option<InHand>,
}

#[derive(Clone, Copy, Debug)]
struct InHand {
    seq: u32,
    mode: Option<Mode>,
    step: Step,
    since_ms: u64,
}

impl Live {
    /// A run as it stands: each task's name, limit and closed attempts.
    pub(crate) fn new(
        budget: Budget,
        end_ms: Option<u64>,
        bookings: Bookings,
        tasks: &[(String, u32, Vec<Attempt>)],
    ) -> Self {
        let counts: Vec<_> =
            tasks.iter().map(|(_, most, closed)| (words::count(closed.len()), *most)).collect();
        let allowed = shares(budget.attempts_max, &counts);
        let searched = tasks.iter().zip(allowed).map(|((name, _, closed), allowed)| {
            let name = name.clone();
            let mut task = Searched { name, allowed, ..Searched::default() };
            for attempt in closed {
                task.close(attempt.seq, attempt.verdict.kind, attempt.score());
            }
            task
        });
        let tasks = searched.collect();
        Self { tasks, current: 0, budget, bookings, end_ms, closed_here: 0, last_closed_ms: 0 }
    }

    /// Takes note of what happened.
    pub(crate) fn take(&mut self, fact: &Fact, now_ms: u64) {
        match fact {
            Fact::Booked(bookings) => self.bookings = *bookings,
            Fact::Step { task, seq, mode, step } => {
                let Some(task) = self.find(task) else { return };
                let before = task.in_hand.filter(|before| before.seq == *seq);
                let goes_on = before.filter(|before| before.step == *step);
                task.in_hand = Some(InHand {
                    seq: *seq,
                    mode: mode.or_else(|| before.and_then(|before| before.mode)),
                    step: *step,
                    since_ms: goes_on.map_or(now_ms, |before| before.since_ms),
                });
            }
            Fact::Closed { task, seq, kind, score } => {
                let Some(task) = self.find(task) else { return };
                task.close(*seq, *kind, score);
                self.closed_here += 1;
                self.last_closed_ms = now_ms;
            }
        }
    }

    fn find(&mut self, name: &str) -> Option<&mut Searched> {
        let at = self.tasks.iter().position(|task| task.name == name)?;
        self.current = at;
        self.tasks.get_mut(at)
    }

    /// The lines, none wider than the window and fewer than its rows.
    pub(crate) fn lines(&self, size: Size, now_ms: u64) -> Vec<String> {
        let rows = size.rows.saturating_sub(1);
        let mut lines = Vec::new();
        if self.tasks.len() <= LIVE_TASKS_MAX.min(rows.saturating_sub(1)) {
            lines.extend(self.tasks.iter().map(|task| task.line(self.name_chars(), now_ms)));
        } else {
            let current = self.tasks.get(self.current);
            lines.extend(current.map(|task| task.line(0, now_ms)));
            lines.push(self.summary());
        }
        lines.push(self.run_line(now_ms));
        // In a window that is too low, the run itself is what matters.
        let surplus = lines.len().saturating_sub(rows);
        let lines = lines.into_iter().skip(surplus);
        lines.map(|line| words::cut(&line, size.cols.saturating_sub(1))).collect()
    }

    fn name_chars(&self) -> usize {
        self.tasks.iter().map(|task| task.name.chars().count()).max().unwrap_or(0)
    }

    /// All tasks in one line.
    fn summary(&self) -> String {
        let with = |holds: fn(&Searched) -> bool| self.tasks.iter().filter(|it| holds(it)).count();
        let mut kinds = [0; Kind::ALL.len()];
        for task in &self.tasks {
            kinds.iter_mut().zip(task.kinds).for_each(|(sum, count)| *sum += count);
        }
        let parts = [
            format!(
                "all {} tasks: {} with a correct kernel",
                self.tasks.len(),
                with(|t| t.best.is_some())
            ),
            format!("{} without", with(|task| task.best.is_none() && task.closed > 0)),
            format!("{} to begin", with(|task| task.closed == 0)),
        ];
        words::joined([parts.join(", "), words::mix(&kinds)])
    }

    fn run_line(&self, now_ms: u64) -> String {
        let (closed, allowed) = self.attempts();
        let eta = self.eta_ms(now_ms).map_or_else(|| "—".to_owned(), words::span);
        words::joined([
            format!("{closed}/{allowed} attempts"),
            format!("{} elapsed, ETA {eta}", words::span(now_ms)),
            words::money(&self.bookings, self.budget.nusd_max),
            words::tokens(&self.bookings, self.budget.tokens_max),
        ])
    }

    /// Attempts that are closed, and how many there will be.
    fn attempts(&self) -> (u32, u32) {
        let sum =
            |count: fn(&Searched) -> u32| self.tasks.iter().map(count).fold(0, u32::saturating_add);
        (sum(|task| task.closed), sum(|task| task.allowed))
    }

    /// Time to the end: that of the attempts so far for each that is left, but not past the
    /// deadline. None before an attempt was closed.
    fn eta_ms(&self, now_ms: u64) -> Option<u64> {
        let (closed, allowed) = self.attempts();
        let mean_ms = self.last_closed_ms.checked_div(u64::from(self.closed_here))?;
        let left_ms = mean_ms.saturating_mul(u64::from(allowed.saturating_sub(closed)));
        let end_ms = self.last_closed_ms.saturating_add(left_ms);
        let end_ms = end_ms.min(self.end_ms.unwrap_or(u64::MAX));
        Some(end_ms.saturating_sub(now_ms))
    }
}

impl Searched {
    fn close(&mut self, seq: u32, kind: Kind, score: &Score) {
        self.closed += 1;
        self.in_hand = None;
        for (count, of) in self.kinds.iter_mut().zip(Kind::ALL) {
            *count += u32::from(of == kind);
        }
        let better = self.best.as_ref().is_none_or(|(_, best)| score.improves_on(best));
        if kind == Kind::Correct && better {
            self.best = Some((seq, score.clone()));
        }
    }

    fn line(&self, name_chars: usize, now_ms: u64) -> String {
        let Self { name, closed, allowed, .. } = self;
        words::joined([
            format!("{name:<name_chars$}  {closed}/{allowed}"),
            self.in_hand.map(|in_hand| in_hand.words(now_ms)).unwrap_or_default(),
            words::mix(&self.kinds),
            self.best.as_ref().map(|(seq, score)| words::best(*seq, score)).unwrap_or_default(),
        ])
    }
}

impl InHand {
    fn words(self, now_ms: u64) -> String {
        let spent_ms = now_ms.saturating_sub(self.since_ms);
        let waited = words::span(spent_ms);
        let doing = match self.step {
            Step::Asking => format!("asking, {waited}"),
            Step::Mailbox => format!("waiting for the mailbox, {waited}"),
            Step::Compiling => "compiling".to_owned(),
            Step::Judging => format!("judging, {waited}"),
            Step::Worker => format!("waiting for a worker, {waited}"),
            Step::Retrying { wait_ms } => {
                format!("asking again in {}", words::span(wait_ms.saturating_sub(spent_ms)))
            }
        };
        let mode = self.mode.map_or_else(String::new, |mode| format!(" {}", mode.name()));
        format!("#{}{mode}: {doing}", self.seq)
    }
}

/// Attempts that each task will have: the one with the fewest asks next, as the policy has it.
fn shares(attempts_max: u32, tasks: &[(u32, u32)]) -> Vec<u32> {
    let mut shares: Vec<_> = tasks.iter().map(|(closed, _)| *closed).collect();
    let made = shares.iter().copied().fold(0, u32::saturating_add);
    let room = |index: usize, share: u32| share < tasks[index].1;
    let mut turns: BinaryHeap<_> =
        shares.iter().enumerate().map(|(index, share)| Reverse((*share, index))).collect();
    let mut left = attempts_max.saturating_sub(made);
    while left > 0 {
        let Some(Reverse((share, index))) = turns.pop() else { break };
        if room(index, share) {
            shares[index] = share + 1;
            turns.push(Reverse((share + 1, index)));
            left -= 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests;
