//! What is worth spending on, said before a token is spent.
//!
//! From what was found of each operator (does its task tell right from wrong, how fast is the
//! strongest baseline, how fast could anything be) to a row for a person: share of time, distance
//! to the roofline, the best possible gain of the whole, an allotment, and what to do. Start at
//! [`survey`]; who measures is no matter here.

use crate::amdahl::{self, Part, apportion, apportion_to_each, gain_of_whole};
use crate::baseline::BaselineId;
use crate::hardware::HardwareSheet;
use crate::limits::NOTHING_TO_GAIN;
use crate::task::spec::TaskSpec;

/// How much an operator matters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Weight {
    /// Share of the program's time, in any unit.
    Share(f64),
    /// How often the program calls it: its weight is that times the strongest baseline's time.
    Calls(f64),
}

/// What was found of an operator.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub weight: Weight,
    /// What a weak task leaves open; or why nothing can be judged by it.
    pub admission: Result<Vec<String>, String>,
    pub times: Times,
}

/// What was found of an operator's times.
#[derive(Clone, Debug, PartialEq)]
pub enum Times {
    /// There is nothing here that could take any.
    NotAvailable(String),
    Taken {
        /// Of one call at the headline shape, in nanoseconds.
        baselines: Vec<(BaselineId, f64)>,
        /// Baselines without a time, each with the reason.
        missing: Vec<String>,
        /// No kernel takes less, in nanoseconds; or why that is not known.
        floor_ns: Result<f64, String>,
    },
}

/// What an operator is given of the run's budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Allotment {
    pub attempts: u64,
    /// In units that the caller divides; `None` where there is no such budget.
    pub money: Option<u64>,
}

/// What to do about an operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Advice {
    Spend,
    /// Nothing is to be gained.
    Skip(String),
    /// Nothing can be gained until a person mended something.
    Fix(String),
}

impl Advice {
    /// The word, as in tables and files.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Spend => "spend",
            Self::Skip(_) => "skip",
            Self::Fix(_) => "fix",
        }
    }

    /// The reason, where one is needed.
    #[must_use]
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Spend => None,
            Self::Skip(why) | Self::Fix(why) => Some(why),
        }
    }
}

/// One operator in the survey. What is `None` is not known here.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Of the time of all operators together.
    pub share: Option<f64>,
    pub strongest: Option<(BaselineId, f64)>,
    /// The strongest baseline's time over the floor.
    pub distance: Option<f64>,
    /// Of the whole, if this operator alone reached its roofline.
    pub gain_of_whole: Option<f64>,
    pub allotment: Allotment,
    pub advice: Advice,
}

/// The survey.
#[derive(Clone, Debug, PartialEq)]
pub struct Survey {
    /// In the order of what was found.
    pub rows: Vec<Row>,
    /// Of the whole, if every operator worth spending on reached its roofline.
    pub gain_of_whole: Option<f64>,
}

/// What is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pot {
    /// For each operator that is worth it.
    pub attempts_each: u64,
    /// Of all together, instead.
    pub attempts: Option<u64>,
    pub money: Option<u64>,
}

/// Products in full precision may be made of several on these.
const SPLIT_FP32: &str = "tf32";

/// The time that no kernel of any class that a task admits goes below on a card, at the headline
/// and in nanoseconds; fp32 may use matrix instructions, several for each product.
///
/// # Errors
/// Why it is not known, in words.
pub fn floor_ns(sheet: &HardwareSheet, spec: &TaskSpec) -> Result<f64, String> {
    if sheet.ceilings.is_none() {
        return Err(format!("{} was not measured: `hardware probe` does it", sheet.uuid));
    }
    let case = spec.headline().ok_or("the task has no headline")?;
    let types = [SPLIT_FP32.to_owned()];
    let floors = spec.classes.iter().filter_map(|class| sheet.floor(spec, case, *class, &types));
    let lowest = floors.map(|floor| floor.ns).reduce(f64::min);
    lowest.ok_or_else(|| "the task's roofline has no value here".to_owned())
}

/// Says of each operator whether it is worth spending on, and divides the budget by headroom times
/// weight; equally where no headroom is known.
#[must_use]
pub fn survey(found: &[Found], pot: Pot) -> Survey {
    let weights: Vec<Option<f64>> = found.iter().map(weight).collect();
    let known: Vec<f64> = weights.iter().map(|weight| weight.unwrap_or(0.0)).collect();
    let shares = amdahl::shares(&known);
    let share = |index: usize| weights[index].map(|_| shares[index]);
    let mut rows: Vec<Row> =
        found.iter().enumerate().map(|(index, one)| row(one, share(index))).collect();
    allot(&mut rows, pot);
    let timed = rows.iter().any(|row| row.gain_of_whole.is_some());
    let parts = rows.iter().filter(|row| row.advice == Advice::Spend).filter_map(part);
    let gain_of_whole = timed.then(|| gain_of_whole(parts));
    Survey { rows, gain_of_whole }
}

/// What an operator weighs; `None` where that takes a time that nobody took.
fn weight(found: &Found) -> Option<f64> {
    match found.weight {
        Weight::Share(share) => Some(share),
        Weight::Calls(calls) => strongest(&found.times).map(|(_, ns)| calls * ns),
    }
}

fn strongest(times: &Times) -> Option<&(BaselineId, f64)> {
    match times {
        Times::NotAvailable(_) => None,
        Times::Taken { baselines, .. } => baselines.iter().min_by(|a, b| a.1.total_cmp(&b.1)),
    }
}

fn row(found: &Found, share: Option<f64>) -> Row {
    let strongest = strongest(&found.times).cloned();
    let floor_ns = match &found.times {
        Times::Taken { floor_ns: Ok(floor_ns), .. } if *floor_ns > 0.0 => Some(*floor_ns),
        Times::Taken { .. } | Times::NotAvailable(_) => None,
    };
    let distance = strongest.as_ref().zip(floor_ns).map(|((_, ns), floor_ns)| ns / floor_ns);
    let mut row = Row {
        share,
        strongest,
        distance,
        gain_of_whole: None,
        allotment: Allotment::default(),
        advice: advice(found, distance),
    };
    row.gain_of_whole = part(&row).map(|part| gain_of_whole([part]));
    row
}

/// An operator that reached its roofline; one that is below it already gains nothing.
fn part(row: &Row) -> Option<Part> {
    let (share, distance) = row.share.zip(row.distance)?;
    Some(Part { share, gain: distance.max(1.0) })
}

fn advice(found: &Found, distance: Option<f64>) -> Advice {
    if let Err(why) = &found.admission {
        return Advice::Fix(format!("not admitted: {why}"));
    }
    let (missing, floor_ns) = match &found.times {
        Times::NotAvailable(_) => return Advice::Spend,
        Times::Taken { missing, floor_ns, .. } => (missing, floor_ns),
    };
    if strongest(&found.times).is_none() {
        return Advice::Fix(format!("baseline missing: {}", baseline_missing(missing)));
    }
    match (distance, floor_ns) {
        (Some(distance), _) if distance < NOTHING_TO_GAIN => Advice::Skip(format!(
            "nothing to gain: the strongest baseline takes {distance:.2} times the floor, and \
             less than {NOTHING_TO_GAIN} is not worth it"
        )),
        (Some(_), _) => Advice::Spend,
        (None, Err(why)) => Advice::Fix(format!("roofline unknown: {why}")),
        (None, Ok(_)) => Advice::Fix("roofline unknown: it is no time above 0".to_owned()),
    }
}

fn baseline_missing(missing: &[String]) -> String {
    match missing {
        [] => "the task names none that can be timed here: a reference.py for PyTorch, or a \
               [[baseline]], gives one"
            .to_owned(),
        _ => missing.join("; "),
    }
}

/// Divides the budget among the operators that are worth it.
fn allot(rows: &mut [Row], pot: Pot) {
    let worth = |row: &Row| row.advice == Advice::Spend;
    let counted = rows.iter().filter(|row| worth(row)).count() as u64;
    let attempts = pot.attempts.unwrap_or_else(|| pot.attempts_each.saturating_mul(counted));
    let timed = rows.iter().any(|row| worth(row) && row.distance.is_some());
    let headrooms = rows.iter().map(|row| match worth(row) {
        false => 0.0,
        true if timed => part(row).map_or(0.0, amdahl::saved),
        true => 1.0,
    });
    let headrooms: Vec<f64> = headrooms.collect();
    let each = apportion_to_each(attempts, &headrooms);
    // Whoever may not ask at all needs no money.
    let asking = headrooms.iter().zip(&each).map(|(it, each)| if *each > 0 { *it } else { 0.0 });
    let asking: Vec<f64> = asking.collect();
    let money = pot.money.map(|money| apportion(money, &asking));
    for (index, row) in rows.iter_mut().enumerate() {
        row.allotment =
            Allotment { attempts: each[index], money: money.as_ref().map(|money| money[index]) };
        if worth(row) && each[index] == 0 {
            row.advice = Advice::Skip(format!(
                "nothing is left for it: {attempts} attempts go to those with more to gain, of \
                 equal ones to those that are named first"
            ));
        }
    }
}

#[cfg(test)]
mod tests;
