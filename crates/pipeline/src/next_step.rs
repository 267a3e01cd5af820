//! The whole search policy of one task: what to ask next, or why its search ends.
//!
//! Linear refinement: repair what is broken a few times, otherwise improve the best. New search
//! ideas change this file and its tables, never the loop that performs them. Which task of a run
//! asks next is in [`crate::schedule`].

use serde::{Deserialize, Serialize};

use crate::attempt::{Attempt, Mode, best};
use crate::limits::{REPAIRS_IN_A_ROW_MAX, SPEED_OF_LIGHT};
use crate::promotion::strikes_left;
use crate::report::Score;
use crate::verdict::Kind;

/// What bounds the search of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SearchLimits {
    /// Attempts that may be asked for.
    pub attempts_max: u32,
    /// Attempts since the last improvement after which the search has come to rest; `None` for
    /// never.
    #[serde(default)]
    pub plateau: Option<u32>,
    /// Attempts that may be under way at once, each asked before the others' ends are known.
    #[serde(default = "one")]
    pub in_flight_max: u32,
}

fn one() -> u32 {
    1
}

impl SearchLimits {
    /// Limits that only count attempts, one after the other.
    #[must_use]
    pub fn of_attempts(attempts_max: u32) -> Self {
        Self { attempts_max, plateau: None, in_flight_max: 1 }
    }
}

/// The policy's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Ask(Ask),
    /// Nothing before an attempt that is under way has ended.
    Wait,
    End(SearchEnd),
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

/// Why the search of one task ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SearchEnd {
    /// As many attempts as allowed were made.
    AttemptsSpent,
    /// The last so many attempts improved nothing.
    Plateau,
    /// The best kernel is as fast as the card allows.
    SpeedOfLight,
    /// The model refuses this task's prompt.
    Refused,
    /// The best kernel is as many times as fast as a person wanted it.
    TargetReached,
    /// A person stopped it.
    Stopped,
}

impl SearchEnd {
    /// The reason in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::AttemptsSpent => "its attempts are used up",
            Self::Plateau => "its last attempts improved nothing",
            Self::SpeedOfLight => "its best kernel reaches the floor of the card",
            Self::Refused => "the model refuses its prompt",
            Self::TargetReached => "its best kernel reaches its target",
            Self::Stopped => "a person stopped it",
        }
    }
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// As many attempts as allowed were made.
    AttemptsSpent,
    /// The search of every task has ended, each for a reason of its own.
    SearchesEnded,
    /// No call fits into the tokens that are left.
    TokensSpent,
    /// No call fits into the money that is left.
    DollarsSpent,
    /// The run's time is over.
    TimeSpent,
    /// No evaluation fits into the time on GPUs that is left.
    GpuSecondsSpent,
    /// A person stopped every task.
    TasksStopped,
}

impl StopReason {
    /// The reason in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::AttemptsSpent => "the attempt limit was reached",
            Self::SearchesEnded => "the search of every task has ended",
            Self::TokensSpent => "the token limit leaves no room for another call",
            Self::DollarsSpent => "the dollar limit leaves no room for another call",
            Self::TimeSpent => "the time is over",
            Self::GpuSecondsSpent => "the limit of GPU-seconds leaves no room for another kernel",
            Self::TasksStopped => "a person stopped every task",
        }
    }
}

/// Decides what to do after `attempts`, oldest first, while those in `in_flight` have no end yet.
#[must_use]
pub fn next_step(limits: &SearchLimits, attempts: &[Attempt], in_flight: &[Ask]) -> Step {
    let made = attempts.len() + in_flight.len();
    if let Some(end) = come_to_rest(limits, attempts) {
        return Step::End(end);
    }
    if made >= limits.attempts_max as usize {
        let all_known = in_flight.is_empty();
        return if all_known { Step::End(SearchEnd::AttemptsSpent) } else { Step::Wait };
    }
    if in_flight.len() >= limits.in_flight_max.max(1) as usize {
        return Step::Wait;
    }
    let (mode, parent) = choose_beside(attempts, in_flight);
    let subset_notice = unsimulatable_in_a_row(attempts) >= 2;
    let last = attempts.iter().map(|attempt| attempt.seq);
    let last = last.chain(in_flight.iter().map(|ask| ask.seq)).max().unwrap_or(0);
    Step::Ask(Ask { seq: last + 1, mode, parent, subset_notice })
}

/// Why nothing more is to be expected of a task, from what is known.
fn come_to_rest(limits: &SearchLimits, attempts: &[Attempt]) -> Option<SearchEnd> {
    let incumbent = best(attempts);
    if let Some(Score::Measured(measured)) = incumbent.map(Attempt::score)
        && measured.share_of_floor().is_some_and(|share| share >= SPEED_OF_LIGHT)
    {
        return Some(SearchEnd::SpeedOfLight);
    }
    let since = match incumbent {
        Some(incumbent) => attempts.iter().filter(|it| it.seq > incumbent.seq).count(),
        None => attempts.len(),
    };
    let plateau = limits.plateau?;
    (since >= plateau as usize).then_some(SearchEnd::Plateau)
}

/// The choice after `attempts`; a repair that is under way is not asked for twice.
fn choose_beside(attempts: &[Attempt], in_flight: &[Ask]) -> (Mode, Option<u32>) {
    let (mode, parent) = choose(attempts);
    let asked = |ask: &Ask| ask.mode == Mode::Repair && ask.parent == parent;
    if mode == Mode::Repair && in_flight.iter().any(asked) {
        return fresh_start(attempts);
    }
    (mode, parent)
}

fn fresh_start(attempts: &[Attempt]) -> (Mode, Option<u32>) {
    match best(attempts) {
        Some(incumbent) => (Mode::Optimise, Some(incumbent.seq)),
        None => (Mode::First, None),
    }
}

fn choose(attempts: &[Attempt]) -> (Mode, Option<u32>) {
    let Some(last) = attempts.last() else { return (Mode::First, None) };
    // A lineage that failed on hidden cases too often is left: each failure told it something.
    if strikes_left(attempts) == 0 {
        return fresh_start(attempts);
    }
    match last.verdict.kind {
        Kind::Correct => fresh_start(attempts),
        // Neither pass nor fail: nothing to repair, so the search goes on from the best.
        Kind::Unsimulatable => fresh_start(attempts),
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
                fresh_start(attempts)
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
pub(crate) mod fixtures {
    use super::{Ask, SearchLimits, Step, next_step};
    use crate::attempt::Attempt;
    use crate::device_facts::DeviceFacts;
    use crate::hardware::{Floor, FloorLimit};
    use crate::promotion::{Coarse, Promotion};
    use crate::report::{Counters, Estimate, Measured, Report, Score, Stage};
    use crate::timing::Spread;
    use crate::verdict::{Reason, Verdict};

    pub(crate) const LIMITS: SearchLimits =
        SearchLimits { attempts_max: 20, plateau: None, in_flight_max: 1 };

    /// `w` wrong, `m` malformed, `u` unsimulatable, a digit: correct with that many sectors.
    pub(crate) fn history(script: &str) -> Vec<Attempt> {
        let mut attempts: Vec<Attempt> = Vec::new();
        for (index, code) in script.chars().enumerate() {
            let Step::Ask(ask) = next_step(&LIMITS, &attempts, &[]) else {
                panic!("stopped early")
            };
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
            held: Vec::new(),
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

    pub(crate) fn measured(share_of_floor: f64) -> Score {
        let (ns, limit, bytes) = (10_000.0 * share_of_floor, FloorLimit::Bandwidth, 1.0);
        let floor = Some(Floor { ns, limit, bytes, flops: 0.0, flops_per_s: 0.0 });
        let (p10_ns, p90_ns) = (1.0, 1.0);
        let cold = Spread { median_ns: 10_000.0, p10_ns, p90_ns, samples: 30, dropped: 0 };
        let (device, uuid) = ("a".to_owned(), "GPU-1".to_owned());
        Score::Measured(Measured { device, uuid, cold, warm: None, floor, event_pair_ns: 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::fixtures::{LIMITS, history, measured};
    use super::{Ask, SearchEnd, SearchLimits, Step, next_step};
    use crate::attempt::Mode;

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
            let Step::Ask(ask) = next_step(&LIMITS, &history(script), &[]) else {
                panic!("{script}")
            };
            assert_eq!((ask.mode, ask.parent), (mode, parent), "{script}");
        }
    }

    #[test]
    fn two_unsimulatable_in_a_row_add_the_notice() {
        for (script, notice) in [("u", false), ("uu", true), ("uuw", false), ("9uu", true)] {
            let Step::Ask(ask) = next_step(&LIMITS, &history(script), &[]) else {
                panic!("{script}")
            };
            assert_eq!(ask.subset_notice, notice, "{script}");
        }
    }

    #[test]
    fn a_search_ends_with_its_reason() {
        let limits = |attempts_max, plateau| SearchLimits { attempts_max, plateau, ..LIMITS };
        for (limits, script, end) in [
            (limits(2, None), "ww", Some(SearchEnd::AttemptsSpent)),
            (limits(9, Some(3)), "ww", None),
            (limits(9, Some(3)), "www", Some(SearchEnd::Plateau)),
            (limits(9, Some(3)), "9ww", None),
            (limits(9, Some(3)), "9w9w", Some(SearchEnd::Plateau)),
            (limits(9, Some(3)), "9w8ww", None),
            (limits(3, Some(3)), "www", Some(SearchEnd::Plateau)),
        ] {
            let step = next_step(&limits, &history(script), &[]);
            match end {
                Some(end) => assert_eq!(step, Step::End(end), "{script}"),
                None => assert!(matches!(step, Step::Ask(_)), "{script} {step:?}"),
            }
        }
    }

    #[test]
    fn a_kernel_at_the_floor_ends_the_search() {
        for (share, ends) in [(0.94, false), (0.95, true), (1.2, true)] {
            let mut attempts = history("9");
            attempts[0].report.as_mut().unwrap().score = measured(share);
            let step = next_step(&LIMITS, &attempts, &[]);
            assert_eq!(step == Step::End(SearchEnd::SpeedOfLight), ends, "{share}");
        }
    }

    #[test]
    fn attempts_under_way_are_counted_and_not_asked_for_twice() {
        let limits = SearchLimits { attempts_max: 9, plateau: None, in_flight_max: 3 };
        let under_way = |seq, mode, parent| Ask { seq, mode, parent, subset_notice: false };
        let repair = |seq| under_way(seq, Mode::Repair, Some(2));
        for (limits, script, in_flight, wanted) in [
            (limits, "9w", vec![], Some((3, Mode::Repair, Some(2)))),
            (limits, "9w", vec![repair(3)], Some((4, Mode::Optimise, Some(1)))),
            (limits, "ww", vec![repair(3)], Some((4, Mode::First, None))),
            (limits, "9w", vec![repair(3), repair(4), repair(5)], None),
            (SearchLimits { attempts_max: 3, ..limits }, "9w", vec![repair(3)], None),
        ] {
            let step = next_step(&limits, &history(script), &in_flight);
            let found = match step {
                Step::Ask(ask) => Some((ask.seq, ask.mode, ask.parent)),
                Step::Wait => None,
                Step::End(end) => panic!("{end:?}"),
            };
            assert_eq!(found, wanted, "{script} {in_flight:?}");
        }
    }
}
