//! The end of a run on GPUs, planned backwards: how much of its time is set aside for looking at
//! its best kernels, which are claimed, and what a card that is idle does next.
//!
//! Every best kernel is measured beside a baseline, since one that is not leaves an operator
//! without a number; claims follow in order of weight, as far as the time goes. What each costs is
//! in [`costs`], whether a program may be tried again in [`tries`]. Nothing here runs anything.
//! Start at [`plan`] and [`next`].

pub mod costs;
#[cfg(test)]
mod tests;
pub mod tries;

use std::collections::BTreeSet;

use serde::Serialize;

pub use costs::Costs;

use crate::limits::CLOSING_SHARE_MAX;

/// The time and the cards that a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When it began, or went on, the time now, and when it must be over, in microseconds UTC.
    pub from_us: i64,
    pub now_us: i64,
    pub end_us: Option<i64>,
    /// How many kernels can be looked at side by side: one on each card.
    pub lanes: usize,
    /// False where only measurements are made.
    pub accepts: bool,
}

/// How far a look at a kernel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Not begun, or interrupted: the same step is made again.
    Due,
    /// It came to nothing for noise, and may be tried again.
    Again,
    /// Over, whatever came of it.
    Ended,
    /// It came to nothing for noise, and was tried as often as it may be in a day.
    Noisy,
    /// It cannot be had in this run; why was said.
    GivenUp,
}

impl Look {
    /// True where it is to be made.
    #[must_use]
    pub fn is_due(self) -> bool {
        match self {
            Self::Due | Self::Again => true,
            Self::Ended | Self::Noisy | Self::GivenUp => false,
        }
    }
}

/// The looks at an operator's best kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Best {
    pub measurement: Look,
    pub acceptance: Look,
}

/// One operator of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operator {
    /// Share of the whole program's time, in any unit.
    pub weight: f64,
    /// True while its best kernel may still be replaced.
    pub searching: bool,
    /// `None` without a correct kernel.
    pub best: Option<Best>,
    /// True where this run has taken an earlier kernel of it, or this one, through the full
    /// protocol, or is about to end that.
    pub tried: bool,
    /// How long a look at a kernel of it that was replaced meanwhile still takes, in milliseconds.
    pub outdated_ms: i64,
    pub costs: Costs,
}

/// What becomes of an operator by the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "fate", content = "why")]
pub enum Fate {
    /// Its best kernel had its acceptance.
    Accepted,
    /// Time is set aside for its acceptance.
    Claim,
    /// It has a number and no claim, unless a card is idle before.
    Measured(Unclaimed),
    /// No kernel of it is correct, and none will be.
    Nothing,
}

/// Why no time is set aside for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unclaimed {
    /// Nobody wants claims of this run.
    Off,
    /// Heavier operators take what may be set aside.
    NoTime,
    /// An earlier kernel of it had its acceptance; the new one waits for an idle card.
    Replaced,
    /// Its acceptance came to nothing for noise; it is tried again while a card is idle.
    Again,
    /// Its acceptance came to nothing for noise as often as it may be tried in a day.
    Noise,
    /// Its acceptance did not come to an end here.
    GivenUp,
}

/// How a run ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Time before the end in which nothing is searched any more, in milliseconds.
    pub set_aside_ms: i64,
    /// One for each operator, in their order.
    pub fates: Vec<Fate>,
}

/// What a card does next; the number is the operator's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    Measure(usize),
    Accept(usize),
}

impl Work {
    /// The operator that it is about.
    #[must_use]
    pub fn place(self) -> usize {
        match self {
            Self::Measure(place) | Self::Accept(place) => place,
        }
    }

    /// How long it takes.
    #[must_use]
    pub fn cost_ms(self, operators: &[Operator]) -> i64 {
        let costs = operators.get(self.place()).map_or_else(Costs::default, |it| it.costs);
        match self {
            Self::Measure(_) => costs.measure_ms,
            Self::Accept(_) => costs.accept_ms,
        }
    }
}

impl Best {
    /// A kernel that nobody looked at.
    pub const NEW: Self = Self { measurement: Look::Due, acceptance: Look::Due };
}

impl Operator {
    /// True where its best kernel is not measured, or one may still come that is not.
    #[must_use]
    pub fn may_need_measurement(&self) -> bool {
        self.searching || self.best.is_some_and(|best| best.measurement.is_due())
    }
}

impl Frame {
    /// The most that may be set aside: what is left, and as long as somebody searches no more than
    /// a share of the run, which is there to search.
    fn limit_ms(&self, operators: &[Operator]) -> Option<i64> {
        let left_ms = self.left_ms(self.end_us?).max(0);
        let whole_ms = self.end_us?.saturating_sub(self.from_us).max(0) / 1_000;
        let searching = operators.iter().any(|operator| operator.searching);
        Some(if searching { left_ms.min(whole_ms / CLOSING_SHARE_MAX) } else { left_ms })
    }

    fn left_ms(&self, end_us: i64) -> i64 {
        end_us.saturating_sub(self.now_us) / 1_000
    }

    /// The latest time at which the search is over, in microseconds.
    #[must_use]
    pub fn search_end_us(&self, plan: &Plan) -> Option<i64> {
        Some(self.end_us?.saturating_sub(plan.set_aside_ms.saturating_mul(1_000)))
    }
}

/// Works that are done by several lanes, whichever is free takes the next.
#[derive(Clone, Copy, Debug, Default)]
struct Pile {
    sum_ms: i64,
    longest_ms: i64,
}

impl Pile {
    /// With one more, which can begin after others that take `after_ms`.
    fn with(self, cost_ms: i64, after_ms: i64) -> Self {
        Self {
            sum_ms: self.sum_ms.saturating_add(cost_ms.max(0)),
            longest_ms: self.longest_ms.max(cost_ms.saturating_add(after_ms)),
        }
    }

    /// How long it takes at most, in whatever order (Graham's bound for list schedules).
    fn takes_ms(self, lanes: usize) -> i64 {
        let lanes = i64::try_from(lanes.max(1)).unwrap_or(i64::MAX);
        let rest = self.sum_ms.saturating_sub(self.longest_ms);
        self.longest_ms.saturating_add(rest.div_euclid(lanes) + i64::from(rest % lanes != 0))
    }
}

/// What is set aside, and for whom: first for measuring every best kernel, then for the claims of
/// operators that have none, the heaviest first, as long as most of the time is left to search.
#[must_use]
pub fn plan(frame: &Frame, operators: &[Operator]) -> Plan {
    let limit_ms = frame.limit_ms(operators);
    let mut pile = Pile::default();
    for operator in operators {
        pile = pile.with(operator.outdated_ms, 0);
        if operator.may_need_measurement() {
            pile = pile.with(operator.costs.measure_ms, operator.outdated_ms);
        }
    }
    let mut fates = vec![Fate::Nothing; operators.len()];
    for place in by_weight(operators) {
        let operator = &operators[place];
        fates[place] = fate(frame, operator, || {
            let measured = operator.may_need_measurement();
            let measure_ms = if measured { operator.costs.measure_ms } else { 0 };
            let with = pile.with(operator.costs.accept_ms, measure_ms + operator.outdated_ms);
            let fits = limit_ms.is_none_or(|limit_ms| with.takes_ms(frame.lanes) <= limit_ms);
            pile = if fits { with } else { pile };
            fits
        });
    }
    let wanted_ms = pile.takes_ms(frame.lanes);
    Plan { set_aside_ms: limit_ms.map_or(0, |limit_ms| wanted_ms.min(limit_ms)), fates }
}

/// What becomes of an operator; `fits` sets time aside for its claim where there is some.
fn fate(frame: &Frame, operator: &Operator, fits: impl FnOnce() -> bool) -> Fate {
    let acceptance = operator.best.map_or(Look::Due, |best| best.acceptance);
    match acceptance {
        Look::Due if operator.best.is_none() && !operator.searching => Fate::Nothing,
        Look::Ended => Fate::Accepted,
        Look::Noisy => Fate::Measured(Unclaimed::Noise),
        Look::GivenUp => Fate::Measured(Unclaimed::GivenUp),
        Look::Due | Look::Again if !frame.accepts => Fate::Measured(Unclaimed::Off),
        Look::Due if operator.tried => Fate::Measured(Unclaimed::Replaced),
        Look::Again if operator.tried => Fate::Measured(Unclaimed::Again),
        Look::Due | Look::Again => match fits() {
            true => Fate::Claim,
            false => Fate::Measured(Unclaimed::NoTime),
        },
    }
}

/// What a lane that is free does now, beside what the others have `in_hand`; `None` for nothing.
///
/// Measurements go before claims, first claims before those of operators that have one, the heavier
/// before the lighter. Nothing begins that would not be over before the end, or that would take
/// what is kept for others: for a measurement that may still be due, and, while somebody searches,
/// for claims that time is set aside for.
#[must_use]
pub fn next(
    frame: &Frame,
    plan: &Plan,
    operators: &[Operator],
    in_hand: &BTreeSet<usize>,
) -> Option<Work> {
    let order = by_weight(operators);
    let free: Vec<_> = order.iter().copied().filter(|place| !in_hand.contains(place)).collect();
    let search_end_us = frame.search_end_us(plan);
    let measurable = |place: &usize| {
        let operator = &operators[*place];
        let due = operator.best.is_some_and(|it| it.measurement.is_due());
        // One that may be replaced meanwhile must not keep the card from the one that replaces it.
        let end_us = if operator.searching { search_end_us } else { frame.end_us };
        due && end_us.is_none_or(|end_us| operator.costs.measure_ms <= frame.left_ms(end_us))
    };
    if let Some(place) = free.iter().copied().find(measurable) {
        return Some(Work::Measure(place));
    }
    if !frame.accepts {
        return None;
    }
    let kept_ms = kept_for_measurements(operators, in_hand).takes_ms(frame.lanes);
    let last_us = frame.end_us.map(|end_us| end_us - kept_ms * 1_000);
    let searching = operators.iter().any(|operator| operator.searching);
    let acceptable = |place: &usize| {
        let operator = &operators[*place];
        let reserved = plan.fates.get(*place) == Some(&Fate::Claim);
        let end_us = if searching && !reserved { search_end_us } else { last_us };
        let due = operator.best.is_some_and(|it| it.acceptance.is_due());
        due && end_us.is_none_or(|end_us| operator.costs.accept_ms <= frame.left_ms(end_us))
    };
    let first = free.iter().filter(|place| !operators[**place].tried);
    let again = free.iter().filter(|place| operators[**place].tried);
    first.chain(again).copied().find(acceptable).map(Work::Accept)
}

/// Measurements that are due, or may become due, and that nobody makes now.
fn kept_for_measurements(operators: &[Operator], in_hand: &BTreeSet<usize>) -> Pile {
    let mut pile = Pile::default();
    for (place, operator) in operators.iter().enumerate() {
        let due = operator.may_need_measurement() && !in_hand.contains(&place);
        if operator.searching || due {
            let Operator { outdated_ms, costs, .. } = operator;
            pile = pile.with(*outdated_ms, 0).with(costs.measure_ms, *outdated_ms);
        }
    }
    pile
}

/// Places from the heaviest to the lightest; the earlier of two equal ones first.
fn by_weight(operators: &[Operator]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..operators.len()).collect();
    order.sort_by(|one, other| operators[*other].weight.total_cmp(&operators[*one].weight));
    order
}
