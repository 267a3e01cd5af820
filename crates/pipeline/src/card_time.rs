//! GPU-seconds: what an evaluation is reserved, whether it may begin, and what it took.
//!
//! They are the time for which a card was held for a run's evaluations. What nobody can tell apart
//! from it counts too, so that the count is never too small. Times come in; nothing is booked here.

use crate::limits::{
    CARD_GRACE_US, MEASURING_CARD_US, PROMOTE_CARD_US, SEARCH_CARD_US, STEP_CARD_US,
};
use crate::report::{Report, Stage};

/// The part of an evaluation's cost in which it waits for a card.
const WAITING: &str = "wait for the GPU";
/// Parts in which one may be held: by the reference, by the candidate, by a comparison in tiles.
const HOLDING: [&str; 3] = ["inputs and reference", "process", "compare"];

/// Whether an evaluation may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardAdmission {
    Fits,
    /// Not now: others hold more than they will take.
    Wait,
    /// Nothing that will end gives room.
    Spent,
}

/// What an evaluation of a stage is reserved: as long as it should take at most. One that takes
/// longer goes on only as long as the cap has room, see [`overrun_us`].
#[must_use]
pub fn bound_us(stage: Stage) -> u64 {
    match stage {
        Stage::Search => SEARCH_CARD_US,
        Stage::Promote => PROMOTE_CARD_US,
        Stage::Accept => STEP_CARD_US,
    }
}

/// Whether `wanted_us` fit beside what is booked, used and reserved; `others` is how many hold
/// something that they may give back.
#[must_use]
pub fn admission(
    cap_us: Option<u64>,
    booked_us: u64,
    wanted_us: u64,
    others: usize,
) -> CardAdmission {
    let fits = cap_us.is_none_or(|cap| booked_us.saturating_add(wanted_us) <= cap);
    match (fits, others) {
        (true, _) => CardAdmission::Fits,
        (false, 0) => CardAdmission::Spent,
        (false, _) => CardAdmission::Wait,
    }
}

/// By how much evaluations in hand, each with its time so far and its reservation, are about to
/// overrun their reservations.
#[must_use]
pub fn overrun_us(in_hand: impl IntoIterator<Item = (u64, u64)>) -> u64 {
    let over = |(elapsed, reserved): (u64, u64)| {
        elapsed.saturating_add(CARD_GRACE_US).saturating_sub(reserved)
    };
    in_hand.into_iter().map(over).fold(0, u64::saturating_add)
}

/// Who evaluates: the time that this program saw pass says how long a card was held only here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Here,
    Elsewhere,
}

/// Evaluations that share the cards of a machine: while there are more of them than cards, the time
/// is divided among them, so that together they are never booked more than all cards were there,
/// and never less than what was held.
#[derive(Clone, Debug)]
pub struct Shares {
    cards: u64,
    holders: u64,
    now_us: u64,
    each_us: u64,
}

impl Shares {
    /// Nobody yet, on so many cards.
    #[must_use]
    pub fn of_cards(cards: usize) -> Self {
        let cards = u64::try_from(cards).unwrap_or(u64::MAX).max(1);
        Self { cards, holders: 0, now_us: 0, each_us: 0 }
    }

    /// One more; what it got is what [`Self::end`] says more than this.
    pub fn begin(&mut self, now_us: u64) -> u64 {
        self.advance(now_us);
        self.holders += 1;
        self.each_us
    }

    /// One less, which began at a mark: its share of the time since.
    pub fn end(&mut self, now_us: u64, mark_us: u64) -> u64 {
        self.advance(now_us);
        self.holders = self.holders.saturating_sub(1);
        self.each_us.saturating_sub(mark_us)
    }

    fn advance(&mut self, now_us: u64) {
        let passed_us = now_us.saturating_sub(self.now_us);
        self.now_us = self.now_us.max(now_us);
        if self.holders > 0 {
            let shared_us = passed_us.saturating_mul(self.cards.min(self.holders));
            self.each_us = self.each_us.saturating_add(shared_us.div_ceil(self.holders));
        }
    }
}

/// What an evaluation took of a card at most, where `wall_us` passed until it ended and
/// `shared_us` of that were its share: here its share, and where it shared nothing all but the wait
/// for a card that its report tells; elsewhere, where it may have waited for hours, the parts of
/// its report, or its reservation where there is none.
#[must_use]
pub fn used_us(
    at: Where,
    stage: Stage,
    report: Option<&Report>,
    (wall_us, shared_us): (u64, u64),
) -> u64 {
    let gpu = report.and_then(|report| report.gpu.as_ref());
    let took = |names: &[&str]| {
        let parts = gpu.into_iter().flat_map(|gpu| &gpu.cost);
        let parts = parts.filter(|part| names.contains(&part.part.as_str()));
        parts.map(|part| (1e3 * part.ms.clamp(0.0, 1e12)) as u64).fold(0, u64::saturating_add)
    };
    match (at, stage, report, gpu) {
        // It was turned away before anything ran.
        (_, Stage::Search, Some(_), None) => 0,
        (Where::Here, _, _, _) if shared_us < wall_us => shared_us,
        (Where::Here, _, _, _) => wall_us.saturating_sub(took(&[WAITING])),
        (Where::Elsewhere, _, _, Some(_)) => took(&HOLDING),
        (Where::Elsewhere, _, _, None) => wall_us.min(bound_us(stage)),
    }
}

/// What of a cap the search may use, where `tasks` kernels are still to be measured at its end:
/// less by what that takes, but at least half.
#[must_use]
pub fn search_cap_us(cap_us: u64, tasks: usize) -> u64 {
    let tasks = u64::try_from(tasks).unwrap_or(u64::MAX);
    // The last step must find what it is reserved.
    let wanted_us = tasks.saturating_mul(MEASURING_CARD_US).saturating_add(STEP_CARD_US);
    cap_us.saturating_sub(wanted_us.min(cap_us / 2))
}

#[cfg(test)]
mod tests {
    use super::{
        CardAdmission, Shares, Where, admission, bound_us, overrun_us, search_cap_us, used_us,
    };
    use crate::limits::{CARD_GRACE_US, SEARCH_CARD_US};
    use crate::next_step::fixtures::history;
    use crate::report::{GpuRecord, PartCost, Report, Stage};

    #[test]
    fn near_a_cap_fewer_begin_and_the_last_one_says_that_it_is_spent() {
        use CardAdmission::{Fits, Spent, Wait};
        for (cap, booked, wanted, others, found) in [
            (None, u64::MAX, u64::MAX, 0, Fits),
            (Some(100), 40, 60, 3, Fits),
            (Some(100), 41, 60, 3, Wait),
            (Some(100), 41, 60, 0, Spent),
            (Some(100), u64::MAX, 60, 0, Spent),
            (Some(0), 0, 1, 0, Spent),
        ] {
            assert_eq!(admission(cap, booked, wanted, others), found, "{cap:?} {booked} {others}");
        }
    }

    #[test]
    fn only_what_leaves_its_reservation_overruns() {
        let (grace, reserved) = (CARD_GRACE_US, SEARCH_CARD_US);
        for (in_hand, over) in [
            (vec![], 0),
            (vec![(0, reserved), (reserved - grace, reserved)], 0),
            (vec![(reserved - grace + 5, reserved), (1, reserved)], 5),
            (vec![(reserved, reserved), (reserved + 7, reserved)], 2 * grace + 7),
        ] {
            assert_eq!(overrun_us(in_hand.clone()), over, "{in_hand:?}");
        }
    }

    /// A report with these parts; none is one of a kernel that never ran.
    fn report(parts: &[(&str, f64)]) -> Report {
        let mut report = history("9").remove(0).report.unwrap();
        let cost = parts.iter().map(|(part, ms)| PartCost { part: (*part).to_owned(), ms: *ms });
        report.gpu = (!parts.is_empty()).then(|| GpuRecord {
            uuid: "GPU-1".to_owned(),
            driver: "580.1".to_owned(),
            before: None,
            after: None,
            cold: Vec::new(),
            warm: Vec::new(),
            cost: cost.collect(),
            memory: None,
        });
        report
    }

    #[test]
    fn a_count_is_never_less_than_what_a_report_says_was_held() {
        use Where::{Elsewhere, Here};
        let parts = [
            ("inputs and reference", 5.0),
            ("wait for the GPU", 900.0),
            ("process", 60_000.0),
            ("compare", 10.0),
        ];
        let (ran, never_ran) = (report(&parts), report(&[]));
        let wall = 61_000_000;
        for (at, stage, report, found) in [
            // A kernel that hung counts until its process was killed.
            (Here, Stage::Search, Some(&ran), wall - 900_000),
            (Elsewhere, Stage::Search, Some(&ran), 60_015_000),
            (Here, Stage::Search, Some(&never_ran), 0),
            (Elsewhere, Stage::Search, Some(&never_ran), 0),
            (Here, Stage::Search, None, wall),
            (Here, Stage::Promote, Some(&never_ran), wall),
            (Elsewhere, Stage::Promote, Some(&never_ran), wall),
        ] {
            assert_eq!(used_us(at, stage, report, (wall, wall)), found, "{at:?} {stage:?}");
        }
        // A queue on another machine is no card time.
        let hours = 7_200_000_000;
        let stage = Stage::Promote;
        let used = used_us(Elsewhere, stage, Some(&never_ran), (hours, hours));
        assert_eq!(used, bound_us(stage));
        // Beside others it waited for a part that its share tells better.
        assert_eq!(used_us(Here, Stage::Search, Some(&ran), (wall, 7)), 7);
    }

    #[test]
    fn shares_are_the_whole_time_of_the_cards_that_are_held() {
        // One alone for 10, three for 30, one alone for 5 more.
        let mut one_card = Shares::of_cards(1);
        let first = one_card.begin(100);
        let others = [one_card.begin(110), one_card.begin(110)];
        let ended = others.map(|mark| one_card.end(140, mark));
        assert_eq!((ended, one_card.end(145, first)), ([10, 10], 25));
        // As many cards as there are evaluations: each has its own.
        let mut two_cards = Shares::of_cards(2);
        let marks = [two_cards.begin(0), two_cards.begin(5)];
        assert_eq!((two_cards.end(20, marks[0]), two_cards.end(20, marks[1])), (20, 15));
        // What is rounded is rounded up, and time never goes back.
        let mut odd = Shares::of_cards(1);
        let marks = [0, 0, 0].map(|now| odd.begin(now));
        assert_eq!(marks.map(|mark| odd.end(10, mark)), [4, 4, 4]);
        assert_eq!(odd.begin(3), 4);
    }

    #[test]
    fn half_of_a_cap_at_least_is_the_search_s() {
        let minute = bound_us(Stage::Search);
        for (cap, tasks, left) in [(100, 6, 92), (4, 6, 2), (0, 3, 0), (10, 1, 7)] {
            assert_eq!(search_cap_us(cap * minute, tasks), left * minute, "{cap} {tasks}");
        }
        assert_eq!(search_cap_us(u64::MAX, usize::MAX), u64::MAX - u64::MAX / 2);
    }
}
