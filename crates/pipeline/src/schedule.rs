//! Which task of a run asks next: a pure rule that says why.
//!
//! Every task gets a few attempts first. Then each next attempt goes where it gains most: what is
//! left to gain, times the task's weight, over what an improvement cost lately. Attempts stand for
//! cost, since those of one model cost alike. A task that has used what it is allotted waits for
//! those that have not. Start at [`next_turn`].

use serde::Serialize;

use crate::allotment::Purse;
use crate::attempt::{Attempt, best};
use crate::limits::{RECENT_ATTEMPTS, START_ATTEMPTS};
use crate::next_step::{Ask, SearchEnd, SearchLimits, Step, StopReason, next_step};
use crate::report::Score;

/// One task of a run: its bounds, what was tried, oldest first, and what is under way.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    pub limits: SearchLimits,
    /// Share of the whole program's time, in any unit.
    pub weight: f64,
    pub attempts: &'a [Attempt],
    pub in_flight: &'a [Ask],
    /// What ended it from outside.
    pub ended: Option<SearchEnd>,
    /// Time of a call at which its best kernel is fast enough, in nanoseconds.
    pub goal_ns: Option<f64>,
    /// The money that it may use before others.
    pub purse: Option<Purse>,
}

/// Whose turn it is in a run of several tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Turn {
    /// The task with this index asks.
    Ask {
        task: usize,
        ask: Ask,
    },
    /// Nothing before an attempt that is under way has ended.
    Wait,
    Stop(StopReason),
}

/// Where a task stands, and what that is worth.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Standing {
    #[serde(flatten)]
    pub phase: Phase,
    pub weight: f64,
    pub attempts: usize,
    pub in_flight: usize,
    /// Share of the best kernel's time that the card does not need; 1 where nobody knows.
    pub headroom: f64,
    /// Attempts that an improvement took lately.
    pub attempts_per_improvement: f64,
    /// Headroom times weight over attempts per improvement, shared with those under way.
    pub expected_gain: f64,
    pub purse: Option<Purse>,
}

/// What a task does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "phase", content = "end")]
pub enum Phase {
    /// It gets its first attempts before anything is compared.
    Start,
    /// It gets attempts by what they are expected to gain.
    Search,
    /// As many attempts are under way as may be at once, or are left.
    Full,
    Ended(SearchEnd),
}

/// What the policy makes of one task. It holds until the task's search changes, so that a decision
/// over many tasks with a long history each need not read all of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Look {
    step: Step,
    standing: Standing,
    /// True for a search that goes on, now or when an attempt under way has ended.
    goes_on: bool,
}

impl Look {
    /// The same with other money: what was spent changes more often than a search.
    #[must_use]
    pub fn with_purse(self, purse: Option<Purse>) -> Self {
        Self { standing: Standing { purse, ..self.standing }, ..self }
    }

    fn is_used(&self) -> bool {
        self.standing.purse.is_some_and(Purse::is_used)
    }

    fn has_own_money(&self) -> bool {
        self.goes_on && !self.is_used()
    }
}

/// Looks at one task.
#[must_use]
pub fn look(search: &Search<'_>) -> Look {
    let step = step(search);
    let made = search.attempts.len() + search.in_flight.len();
    let goes_on = match step {
        Step::Ask(_) => true,
        Step::Wait => made < search.limits.attempts_max as usize,
        Step::End(_) => false,
    };
    Look { step, standing: standing(search), goes_on }
}

/// Decides which task of a run asks next. `attempts_max` bounds all of them together.
#[must_use]
pub fn next_turn(attempts_max: u32, searches: &[Search<'_>]) -> Turn {
    next_turn_of(attempts_max, &searches.iter().map(look).collect::<Vec<_>>())
}

/// As [`next_turn`], from what each task was found to be.
#[must_use]
pub fn next_turn_of(attempts_max: u32, looks: &[Look]) -> Turn {
    let under_way: usize = looks.iter().map(|look| look.standing.in_flight).sum();
    let closed: usize = looks.iter().map(|look| look.standing.attempts).sum();
    if closed + under_way >= attempts_max as usize {
        return wait_or_stop(under_way, StopReason::AttemptsSpent);
    }
    let allotted_first = looks.iter().any(Look::has_own_money);
    let mut turn: Option<(Standing, usize, Ask)> = None;
    for (task, look) in looks.iter().enumerate() {
        let Step::Ask(ask) = look.step else { continue };
        if allotted_first && look.is_used() {
            continue;
        }
        let standing = look.standing;
        if turn.is_none_or(|(best, ..)| goes_before(&standing, &best)) {
            turn = Some((standing, task, ask));
        }
    }
    match turn {
        Some((_, task, ask)) => Turn::Ask { task, ask },
        None => wait_or_stop(under_way, end_of(looks)),
    }
}

fn wait_or_stop(under_way: usize, reason: StopReason) -> Turn {
    if under_way > 0 { Turn::Wait } else { Turn::Stop(reason) }
}

/// Why a run ends in which no task asks any more.
fn end_of(looks: &[Look]) -> StopReason {
    let all = |end| looks.iter().all(|look| look.step == Step::End(end));
    if all(SearchEnd::AttemptsSpent) {
        StopReason::AttemptsSpent
    } else if all(SearchEnd::Stopped) {
        StopReason::TasksStopped
    } else {
        StopReason::SearchesEnded
    }
}

fn step(search: &Search<'_>) -> Step {
    match search.ended.or_else(|| reached(search)) {
        Some(end) => Step::End(end),
        None => next_step(&search.limits, search.attempts, search.in_flight),
    }
}

/// The end of a search whose best kernel is fast enough; only a measured one can be.
fn reached(search: &Search<'_>) -> Option<SearchEnd> {
    match best(search.attempts).map(Attempt::score) {
        Some(Score::Measured(measured)) if measured.cold.median_ns <= search.goal_ns? => {
            Some(SearchEnd::TargetReached)
        }
        Some(Score::Measured(_) | Score::Estimated(_) | Score::None) | None => None,
    }
}

/// The earlier task goes first where two are equal.
fn goes_before(one: &Standing, other: &Standing) -> bool {
    let made = |standing: &Standing| standing.attempts + standing.in_flight;
    match (one.phase == Phase::Start, other.phase == Phase::Start) {
        (true, true) => made(one) < made(other),
        (true, false) => true,
        (false, true) => false,
        (false, false) if one.expected_gain == other.expected_gain => made(one) < made(other),
        (false, false) => one.expected_gain > other.expected_gain,
    }
}

/// Where a task stands.
#[must_use]
pub fn standing(search: &Search<'_>) -> Standing {
    let (attempts, in_flight) = (search.attempts.len(), search.in_flight.len());
    let phase = match step(search) {
        Step::End(end) => Phase::Ended(end),
        Step::Wait => Phase::Full,
        Step::Ask(_) if attempts + in_flight < START_ATTEMPTS as usize => Phase::Start,
        Step::Ask(_) => Phase::Search,
    };
    let headroom = headroom(search.attempts);
    let attempts_per_improvement = attempts_per_improvement(search.attempts);
    let shared_by = attempts_per_improvement * (1 + in_flight) as f64;
    Standing {
        phase,
        weight: search.weight,
        attempts,
        in_flight,
        headroom,
        attempts_per_improvement,
        expected_gain: headroom * search.weight / shared_by,
        purse: search.purse,
    }
}

fn headroom(attempts: &[Attempt]) -> f64 {
    match best(attempts).map(Attempt::score) {
        Some(Score::Measured(measured)) => {
            measured.share_of_floor().map_or(1.0, |share| (1.0 - share).clamp(0.0, 1.0))
        }
        Some(Score::Estimated(_) | Score::None) | None => 1.0,
    }
}

/// Of the latest attempts, how many it took for each that replaced the best; half of one is added,
/// so that a task without any is not given up for good.
fn attempts_per_improvement(attempts: &[Attempt]) -> f64 {
    let recent = attempts.len().min(RECENT_ATTEMPTS);
    let first = attempts.len() - recent;
    let best_seq = |count: usize| best(&attempts[..count]).map(|attempt| attempt.seq);
    let improved = (first..attempts.len()).filter(|&index| best_seq(index) != best_seq(index + 1));
    recent.max(1) as f64 / (improved.count() as f64 + 0.5)
}

#[cfg(test)]
mod steered;
#[cfg(test)]
mod tests {
    use super::{Phase, Search, Turn, next_turn, standing};
    use crate::attempt::{Attempt, Mode};
    use crate::next_step::fixtures::{history, measured};
    use crate::next_step::{Ask, SearchEnd, SearchLimits, StopReason};

    fn limits(attempts_max: u32) -> SearchLimits {
        SearchLimits { attempts_max, plateau: None, in_flight_max: 4 }
    }

    fn search(attempts: &[Attempt], attempts_max: u32) -> Search<'_> {
        let limits = limits(attempts_max);
        let (in_flight, ended, goal_ns, purse) = (&[], None, None, None);
        Search { limits, weight: 1.0, attempts, in_flight, ended, goal_ns, purse }
    }

    fn under_way(seq: u32) -> Ask {
        Ask { seq, mode: Mode::First, parent: None, subset_notice: false }
    }

    fn asks(attempts_max: u32, searches: &[Search<'_>]) -> Result<(usize, u32), Turn> {
        match next_turn(attempts_max, searches) {
            Turn::Ask { task, ask } => Ok((task, ask.seq)),
            other => Err(other),
        }
    }

    #[test]
    fn at_first_the_task_with_the_fewest_attempts_asks() {
        let histories = ["9w", "w", "wu", ""].map(history);
        let turn = |attempts_max, of_tasks: [u32; 4]| {
            let pairs = histories.iter().zip(of_tasks);
            let searches: Vec<_> =
                pairs.map(|(it, attempts_max)| search(it, attempts_max)).collect();
            asks(attempts_max, &searches)
        };
        assert_eq!(turn(9, [9, 9, 9, 9]), Ok((3, 1)));
        assert_eq!(turn(9, [9, 9, 9, 0]), Ok((1, 2)));
        assert_eq!(turn(9, [9, 1, 9, 0]), Ok((0, 3)));
        let stop = |reason| Err(Turn::Stop(reason));
        assert_eq!(turn(9, [2, 1, 2, 0]), stop(StopReason::AttemptsSpent));
        assert_eq!(turn(5, [9, 9, 9, 9]), stop(StopReason::AttemptsSpent));
    }

    #[test]
    fn what_is_under_way_counts_and_is_waited_for() {
        let (one, other) = (history("w"), history(""));
        let in_flight = [under_way(1), under_way(2)];
        let busy = Search { in_flight: &in_flight, ..search(&other, 9) };
        assert_eq!(asks(9, &[search(&one, 9), busy]), Ok((0, 2)));
        assert_eq!(asks(3, &[search(&one, 9), busy]), Err(Turn::Wait));
        assert_eq!(asks(9, &[search(&one, 1), busy]), Ok((1, 3)));
        let full = [1, 2, 3, 4].map(under_way);
        let full = Search { in_flight: &full, ..busy };
        assert_eq!(asks(9, &[search(&one, 1), full]), Err(Turn::Wait));
        assert_eq!(standing(&full).phase, Phase::Full);
    }

    #[test]
    fn later_it_goes_where_it_gains_most() {
        let flat = history("9wwwwwww");
        let improving = history("9w8w7w6w");
        let heavy = Search { weight: 5.0, ..search(&flat, 99) };
        let light = search(&improving, 99);
        for (searches, wanted) in [
            ([search(&flat, 99), light], 1),
            ([heavy, light], 0),
            ([Search { in_flight: &[under_way(9), under_way(10)], ..heavy }, light], 1),
            ([search(&flat, 99), search(&flat, 99)], 0),
        ] {
            assert_eq!(asks(99, &searches).map(|(task, _)| task), Ok(wanted), "{searches:?}");
        }
        let (flat, light) = (standing(&search(&flat, 99)), standing(&light));
        let [flat, light] = [flat, light].map(|it| it.attempts_per_improvement);
        assert_eq!((flat, light), (8.0 / 1.5, 8.0 / 4.5));
    }

    #[test]
    fn a_kernel_near_the_floor_has_little_left_to_gain() {
        let mut near = history("9www");
        near[0].report.as_mut().unwrap().score = measured(0.9);
        let mut far = near.clone();
        far[0].report.as_mut().unwrap().score = measured(0.2);
        assert!((standing(&search(&near, 99)).headroom - 0.1).abs() < 1e-9);
        assert_eq!(asks(99, &[search(&near, 99), search(&far, 99)]), Ok((1, 5)));
    }

    #[test]
    fn a_run_whose_tasks_ended_for_other_reasons_says_so() {
        let attempts = history("w");
        let refused = Search { ended: Some(SearchEnd::Refused), ..search(&attempts, 9) };
        let stop = asks(9, &[refused, search(&attempts, 1)]);
        assert_eq!(stop, Err(Turn::Stop(StopReason::SearchesEnded)));
        assert_eq!(standing(&refused).phase, Phase::Ended(SearchEnd::Refused));
    }
}
