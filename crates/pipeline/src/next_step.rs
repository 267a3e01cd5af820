//! The whole search policy: what to ask next, or why to stop.
//!
//! Linear refinement: repair what is broken a few times, otherwise improve the best. New search
//! ideas change this file and its tables, never the loop that performs them.

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Mode, best};
use crate::limits::REPAIRS_IN_A_ROW_MAX;
use crate::promotion::strikes_left;
use crate::verdict::Kind;

/// What bounds the search of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchLimits {
    /// Attempts that may be asked for.
    pub attempts_max: u32,
}

/// One task of a run: its bounds and what was tried, oldest first.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    pub limits: SearchLimits,
    pub attempts: &'a [Attempt],
}

/// Whose turn it is in a run of several tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The task with this index asks.
    Ask {
        task: usize,
        ask: Ask,
    },
    Stop(StopReason),
}

/// The policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ask(Ask),
    Stop(StopReason),
}

/// A question to put to the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Seq of the new attempt.
    pub seq: u32,
    pub mode: Mode,
    /// Seq of the attempt whose code the prompt shows.
    pub parent: Option<u32>,
    /// True when the prompt must say that this machine can check only part of what a GPU runs.
    pub subset_notice: bool,
}

/// Why a search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// As many attempts as allowed were made.
    AttemptsSpent,
    /// No call fits into the tokens that are left.
    TokensSpent,
    /// No call fits into the money that is left.
    DollarsSpent,
    /// The run's time is over.
    TimeSpent,
}

impl StopReason {
    /// The reason in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::AttemptsSpent => "the attempt limit was reached",
            Self::TokensSpent => "the token limit leaves no room for another call",
            Self::DollarsSpent => "the dollar limit leaves no room for another call",
            Self::TimeSpent => "the time is over",
        }
    }
}

/// Decides which task of a run asks next: the one with the fewest attempts, so that all start
/// alike. `attempts_max` bounds all of them together.
#[must_use]
pub fn next_turn(attempts_max: u32, searches: &[Search<'_>]) -> Turn {
    let made: usize = searches.iter().map(|search| search.attempts.len()).sum();
    if made >= attempts_max as usize {
        return Turn::Stop(StopReason::AttemptsSpent);
    }
    let turns = searches.iter().enumerate().filter_map(|(task, search)| {
        match next_step(&search.limits, search.attempts) {
            Step::Ask(ask) => Some((task, ask)),
            Step::Stop(_) => None,
        }
    });
    match turns.min_by_key(|(task, _)| searches[*task].attempts.len()) {
        Some((task, ask)) => Turn::Ask { task, ask },
        None => Turn::Stop(StopReason::AttemptsSpent),
    }
}

/// Decides what to do after `attempts`, oldest first.
#[must_use]
pub fn next_step(limits: &SearchLimits, attempts: &[Attempt]) -> Step {
    let made = u32::try_from(attempts.len()).unwrap_or(u32::MAX);
    if made >= limits.attempts_max {
        return Step::Stop(StopReason::AttemptsSpent);
    }
    let (mode, parent) = choose(attempts);
    let subset_notice = unsimulatable_in_a_row(attempts) >= 2;
    Step::Ask(Ask { seq: made + 1, mode, parent, subset_notice })
}

fn choose(attempts: &[Attempt]) -> (Mode, Option<u32>) {
    let Some(last) = attempts.last() else { return (Mode::First, None) };
    let incumbent = best(attempts).map(|attempt| attempt.seq);
    let fresh_start = match incumbent {
        Some(seq) => (Mode::Optimise, Some(seq)),
        None => (Mode::First, None),
    };
    // A lineage that failed on hidden cases too often is left: each failure told it something.
    if strikes_left(attempts) == 0 {
        return fresh_start;
    }
    match last.verdict.kind {
        Kind::Correct => fresh_start,
        // Neither pass nor fail: nothing to repair, so the search goes on from the best.
        Kind::Unsimulatable => fresh_start,
        Kind::Malformed
        | Kind::Rejected
        | Kind::BuildFailed
        | Kind::BuildTimeout
        | Kind::LaunchFailed
        | Kind::Faulted
        | Kind::Hung
        | Kind::Wrong
        | Kind::Unstable => {
            if repairs_in_a_row(attempts) >= REPAIRS_IN_A_ROW_MAX {
                fresh_start
            } else {
                (Mode::Repair, Some(last.seq))
            }
        }
    }
}

fn repairs_in_a_row(attempts: &[Attempt]) -> u32 {
    let repairs = attempts.iter().rev().take_while(|attempt| attempt.mode == Mode::Repair);
    u32::try_from(repairs.count()).unwrap_or(u32::MAX)
}

fn unsimulatable_in_a_row(attempts: &[Attempt]) -> usize {
    let kinds = attempts.iter().rev().map(|attempt| attempt.verdict.kind);
    kinds.take_while(|kind| *kind == Kind::Unsimulatable).count()
}

#[cfg(test)]
mod tests {
    use super::{Ask, Search, SearchLimits, Step, StopReason, Turn, next_step, next_turn};
    use crate::attempt::{Attempt, Mode};
    use crate::device_facts::DeviceFacts;
    use crate::promotion::{Coarse, Promotion};
    use crate::report::{Counters, Estimate, Report, Score, Stage};
    use crate::verdict::{Reason, Verdict};

    const LIMITS: SearchLimits = SearchLimits { attempts_max: 20 };

    /// `w` wrong, `m` malformed, `u` unsimulatable, a digit: correct with that many sectors.
    fn history(script: &str) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for (index, code) in script.chars().enumerate() {
            let Step::Ask(ask) = next_step(&LIMITS, &attempts) else { panic!("stopped early") };
            assert_eq!(ask.seq as usize, index + 1);
            attempts.push(attempt(&ask, code));
        }
        attempts
    }

    fn attempt(ask: &Ask, code: char) -> Attempt {
        let (verdict, score) = match code {
            'h' => (Verdict::failed(Reason::Shape, "hidden-shape"), Score::None),
            'w' => (Verdict::failed(Reason::Mismatch, "wrong"), Score::None),
            'm' => (Verdict::failed(Reason::Reply, "no fence"), Score::None),
            'u' => (Verdict::failed(Reason::Unsupported, "wgmma"), Score::None),
            digit => (Verdict::correct(), estimated(digit.to_digit(10).unwrap())),
        };
        let report = Report {
            stage: Stage::Search,
            device: "sim".to_owned(),
            kernels: Vec::new(),
            cases: Vec::new(),
            score,
            notes: Vec::new(),
            gpu: None,
            promotion: None,
            ended: None,
            confinement: None,
        };
        Attempt {
            seq: ask.seq,
            mode: ask.mode,
            parent: ask.parent,
            verdict,
            code: None,
            reply: String::new(),
            diagnostics: Vec::new(),
            report: Some(report),
            promotion: (code == 'h').then_some(Promotion::Failed(Coarse::HiddenShape)),
        }
    }

    fn estimated(sectors: u32) -> Score {
        let counters = Counters { load_sectors: f64::from(sectors), ..Counters::default() };
        Score::Estimated(Estimate::new(&counters, &DeviceFacts::simulated_h200(), [1, 1]))
    }

    #[test]
    fn chooses_mode_and_parent() {
        use Mode::{First, Optimise, Repair};
        for (script, mode, parent) in [
            ("", First, None),
            ("w", Repair, Some(1)),
            ("m", Repair, Some(1)),
            ("ww", Repair, Some(2)),
            ("9", Optimise, Some(1)),
            ("95", Optimise, Some(2)),
            ("59", Optimise, Some(1)),
            ("9w", Repair, Some(2)),
            ("9wwwww", Optimise, Some(1)),
            ("wwwww", First, None),
            ("9u", Optimise, Some(1)),
            ("u", First, None),
            // A hidden failure is repaired, until the lineage has no strike left.
            ("9h", Repair, Some(2)),
            ("9hh", Repair, Some(3)),
            ("9hhh", Optimise, Some(1)),
            ("hhh", First, None),
            ("9hhh5", Optimise, Some(5)),
        ] {
            let Step::Ask(ask) = next_step(&LIMITS, &history(script)) else { panic!("{script}") };
            assert_eq!((ask.mode, ask.parent), (mode, parent), "{script}");
        }
    }

    #[test]
    fn two_unsimulatable_in_a_row_add_the_notice() {
        for (script, notice) in [("u", false), ("uu", true), ("uuw", false), ("9uu", true)] {
            let Step::Ask(ask) = next_step(&LIMITS, &history(script)) else { panic!("{script}") };
            assert_eq!(ask.subset_notice, notice, "{script}");
        }
    }

    #[test]
    fn stops_when_the_attempts_are_spent() {
        let limits = SearchLimits { attempts_max: 2 };
        let step = next_step(&limits, &history("ww"));
        assert_eq!(step, Step::Stop(StopReason::AttemptsSpent));
    }

    #[test]
    fn the_task_with_the_fewest_attempts_asks_next() {
        let histories = ["9w", "w", "wu", ""].map(history);
        let turn = |attempts_max, limits: [u32; 4]| {
            let pairs = histories.iter().zip(limits);
            let searches: Vec<_> = pairs
                .map(|(attempts, attempts_max)| Search {
                    limits: SearchLimits { attempts_max },
                    attempts,
                })
                .collect();
            match next_turn(attempts_max, &searches) {
                Turn::Ask { task, ask } => Some((task, ask.seq)),
                Turn::Stop(reason) => {
                    assert_eq!(reason, StopReason::AttemptsSpent);
                    None
                }
            }
        };
        assert_eq!(turn(9, [9, 9, 9, 9]), Some((3, 1)));
        assert_eq!(turn(9, [9, 9, 9, 0]), Some((1, 2)));
        assert_eq!(turn(9, [9, 1, 9, 0]), Some((0, 3)));
        assert_eq!(turn(9, [2, 1, 2, 0]), None);
        assert_eq!(turn(5, [9, 9, 9, 9]), None);
    }
}
