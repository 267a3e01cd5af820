//! The report of a run: what of each operator can be claimed or why not, the run in numbers, what
//! was spent, what failed, and when everything was busy.
//!
//! [`facts`] reads the ledger once into a [`RunReport`]; [`markdown`], [`as_json`] and [`page`]
//! only show it. Text of models, tasks and logs is data everywhere, never markup.

pub(crate) mod advice;
pub(crate) mod as_json;
pub(crate) mod books;
pub(crate) mod facts;
pub(crate) mod markdown;
pub(crate) mod page;
pub(crate) mod timeline;

use pipeline::attempt::Attempt;
use pipeline::next_step::SearchEnd;
use pipeline::report::Score;
use pipeline::standing::{Scoreboard, Standing};
use serde_json::Value;
use store::{RunSummary, TaskSummary};

use crate::claims::words;
use crate::reporting::advice::Advice;
use crate::reporting::books::Books;
use crate::reporting::timeline::Timeline;

/// Everything that a report says.
pub(crate) struct RunReport {
    pub(crate) summary: RunSummary,
    pub(crate) parts: Vec<TaskPart>,
    pub(crate) board: Scoreboard,
    /// True where the operators have different weights.
    pub(crate) weighted: bool,
    pub(crate) books: Books,
    /// What each priced model costs, and what is to be said of it.
    pub(crate) prices: Vec<String>,
    /// `None` where nothing has a begin and an end yet.
    pub(crate) timeline: Option<Timeline>,
}

/// A task of the run with its closed attempts.
pub(crate) struct TaskPart {
    pub(crate) summary: TaskSummary,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) claims: Vec<ShownClaim>,
    /// How the best stands beside a baseline, in words.
    pub(crate) measured: Option<String>,
    /// Of all operators' weights together.
    pub(crate) share: f64,
    pub(crate) standing: Standing,
    pub(crate) advice: Advice,
    /// Why its search ended, if it did.
    pub(crate) search_end: Option<SearchEnd>,
}

/// A claim as it may be printed: in words and as JSON.
pub(crate) struct ShownClaim {
    pub(crate) words: String,
    /// What it was compared with, and the switches that that ran with; `None` for what is withheld.
    pub(crate) baseline: Option<String>,
    pub(crate) json: Value,
}

impl TaskPart {
    pub(crate) fn best(&self) -> Option<&Attempt> {
        let seq = self.summary.best_seq?;
        self.attempts.iter().find(|attempt| attempt.seq == seq)
    }

    pub(crate) fn correct(&self) -> usize {
        self.attempts.iter().filter(|attempt| attempt.verdict.is_correct()).count()
    }
}

impl RunReport {
    /// The device of the newest evaluation.
    pub(crate) fn device(&self) -> &str {
        let attempts = self.parts.iter().rev().flat_map(|part| part.attempts.iter().rev());
        let mut reports = attempts.filter_map(|attempt| attempt.report.as_ref());
        reports.next().map_or("none used yet", |report| report.device.as_str())
    }

    pub(crate) fn state(&self) -> String {
        let run = &self.summary.run;
        format!("{}: {}", run.state.name(), run.reason.as_deref().unwrap_or("no reason yet"))
    }

    /// What the scores of a run mean, and what they do not.
    pub(crate) fn scores_in_words(&self) -> &'static str {
        let mut attempts = self.parts.iter().flat_map(|part| &part.attempts);
        if attempts.any(|attempt| matches!(attempt.score(), Score::Measured(_))) {
            "Times are those of the search stage, with a cold cache: they rank, and claim no \
             speed-up."
        } else {
            "Scores are counts from the simulator: estimates, never times and no claim of speed."
        }
    }
}

/// The score of a correct attempt, or why it has none.
pub(crate) fn scored(attempt: &Attempt) -> String {
    let notes = attempt.report.as_ref().map(|report| report.notes.join("; ")).unwrap_or_default();
    match attempt.score() {
        Score::None if !notes.is_empty() => format!("{}: {notes}", Score::None.describe()),
        score @ (Score::None | Score::Estimated(_) | Score::Measured(_)) => words::score(score),
    }
}

/// The numbers of a run, a line each: name, value, what it means.
pub(crate) fn number_lines(board: &Scoreboard, weighted: bool) -> Vec<[String; 2]> {
    let of = |count: usize| {
        let share = 100.0 * count as f64 / board.operators.max(1) as f64;
        format!("{count} of {} ({share:.0} %)", board.operators)
    };
    let mut lines = vec![["fast_0".to_owned(), format!("{} correct", of(board.correct))]];
    if !board.timed {
        lines.push([
            "fast_1, fast_1.5, fast_2, median".to_owned(),
            "not told: nothing was timed beside a baseline, and an estimate (no GPU) is no speed-up"
                .to_owned(),
        ]);
    }
    for fast in &board.fast {
        lines.push([
            format!("fast_{}", fast.p),
            format!(
                "{} claimed; {} claimed or measured",
                of(fast.claimed),
                of(fast.claimed_or_measured)
            ),
        ]);
    }
    if let Some((claimed, either)) = board.median_claimed.zip(board.median_claimed_or_measured) {
        let value = format!("{claimed:.3} claimed; {either:.3} claimed or measured");
        lines.push(["median".to_owned(), value]);
    }
    let alike = if weighted { "" } else { " (no weights were given: all operators count alike)" };
    let whole = match board.whole_low.zip(board.whole) {
        Some((low, middle)) => format!(
            "at least {low:.3}x, {middle:.3}x at the middle of the intervals, from claims \
             alone{alike}"
        ),
        None => "not told: there is no claim".to_owned(),
    };
    lines.push(["gain of the whole".to_owned(), whole]);
    lines
}

#[cfg(test)]
mod tests {
    use pipeline::standing::{Standing, scoreboard};

    use super::number_lines;

    fn text(standings: &[Standing]) -> String {
        let operators: Vec<_> = standings.iter().map(|standing| (1.0, *standing)).collect();
        let lines = number_lines(&scoreboard(&operators), false);
        lines.iter().map(|[name, value]| format!("{name}: {value}\n")).collect()
    }

    #[test]
    fn a_run_without_times_speaks_of_no_speed() {
        let text = text(&[Standing::Correct, Standing::Nothing]);
        assert!(text.contains("fast_0: 1 of 2 (50 %) correct"), "{text}");
        assert!(text.contains("an estimate (no GPU) is no speed-up"), "{text}");
        assert!(text.contains("gain of the whole: not told"), "{text}");
        assert!(!text.contains("claimed or measured"), "{text}");
    }

    #[test]
    fn claims_and_single_rounds_stand_apart() {
        let text = text(&[Standing::Claimed { low: 1.6, ratio: 2.0 }, Standing::Measured(3.0)]);
        for line in [
            "fast_1: 1 of 2 (50 %) claimed; 2 of 2 (100 %) claimed or measured",
            "fast_2: 0 of 2 (0 %) claimed; 1 of 2 (50 %) claimed or measured",
            "median: 0.800 claimed; 2.300 claimed or measured",
            "at least 1.231x, 1.333x at the middle of the intervals, from claims alone (no weights",
        ] {
            assert!(text.contains(line), "{line} in {text}");
        }
    }
}
