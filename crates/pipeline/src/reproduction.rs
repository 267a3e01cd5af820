//! What a second look at a claim says: a stranger's reproduction, and a recheck on a later day.
//!
//! Nothing here measures. [`reproduced`] compares a claim with a fresh acceptance of the same
//! kernel by somebody else, [`rechecked`] with one of today; [`confirms`] says whether the second
//! look was independent of the first.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::acceptance::{Against, Claim, Conclusion, Entry, Raised, describe};
use crate::comparison::{Comparison, Interval};
use crate::verdict::Kind;

/// How far a reproduced speed-up may be from the claimed one: 20 %, as a ratio.
const REPRODUCED_RATIO_MAX: f64 = 1.2;

/// What stands in the way of comparing at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conditions {
    pub device_model: String,
    pub toolchain_id: String,
    /// Hash of the normalised PTX.
    pub ptx_hash: String,
}

/// What came of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reproduction {
    /// Within 20 %, and still faster.
    Reproduced { claimed: f64, found: f64 },
    /// The reason, in numbers.
    NotReproduced(String),
    /// Nothing can be said here, with the reason.
    NotComparable(String),
}

/// What came of a recheck.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Recheck {
    /// Still faster, and no weaker than the intervals allow.
    Holds { found: f64 },
    /// Still faster, but by less.
    Weaker { claimed: f64, found: f64 },
    /// No longer faster, or no longer correct, with the reason.
    Lost(String),
    /// Nothing can be said today, with the reason.
    NotComparable(String),
}

/// Why a claim cannot be compared here; `any_toolchain` lets another compiler build it.
#[must_use]
pub fn incomparable(
    claimed: &Conditions,
    here: &Conditions,
    any_toolchain: bool,
) -> Option<String> {
    if claimed.device_model != here.device_model {
        let (theirs, ours) = (&claimed.device_model, &here.device_model);
        return Some(format!("it was measured on {theirs}, and this machine has {ours}"));
    }
    if claimed.toolchain_id == here.toolchain_id || any_toolchain {
        return None;
    }
    Some(format!(
        "it was built by toolchain {}, and this one is {}; --toolchain any takes another",
        claimed.toolchain_id, here.toolchain_id
    ))
}

/// Whether a fresh acceptance of the same kernel got what was claimed.
#[must_use]
pub fn reproduced(
    (claim, claimed): (&Claim, &Conditions),
    (again, here): (&Conclusion, &Conditions),
) -> Reproduction {
    let failed = Reproduction::NotReproduced;
    // Another compiler may give another program; then only the times are compared.
    if claimed.toolchain_id == here.toolchain_id && claimed.ptx_hash != here.ptx_hash {
        return failed("the source compiles to another program than the claimed one".to_owned());
    }
    if again.verdict.kind == Kind::Unsimulatable {
        return Reproduction::NotComparable(again.cause.clone());
    }
    if !again.verdict.is_correct() {
        return failed(format!("{}: {}", again.verdict, again.verdict.detail));
    }
    let noisy = |it: Option<&Against>| !it.is_some_and(|it| it.interval.is_narrow());
    match judged(claim, again) {
        Some(Comparison::Suspect(_)) => return failed(again.cause.clone()),
        Some(Comparison::Noisy) if noisy(again.against.first()) => {
            return Reproduction::NotComparable(again.cause.clone());
        }
        Some(Comparison::Noisy | Comparison::Faster | Comparison::Same | Comparison::Slower) => {}
        None => return Reproduction::NotComparable(again.cause.clone()),
    }
    if let Some(why) = other_kind(claim, again).or_else(|| stronger_rival(claim, again)) {
        return failed(why);
    }
    if let Some(why) = other_shape(claim, again) {
        return Reproduction::NotComparable(why);
    }
    let same = again.against.iter().find(|it| it.baseline == claim.against.baseline);
    let Some(same) = same else {
        let why = format!("{} was not timed here", claim.against.baseline);
        return Reproduction::NotComparable(why);
    };
    if same.comparison == Comparison::Noisy && noisy(Some(same)) {
        let (interval, baseline) = (same.interval.describe(), &same.baseline);
        let why = format!("too noisy here: {interval} against {baseline}");
        return Reproduction::NotComparable(why);
    }
    within(claim, same)
}

/// Holds the second interval against the claimed one.
fn within(claim: &Claim, same: &Against) -> Reproduction {
    let failed = Reproduction::NotReproduced;
    let (before, found) = (claim.against.interval, same.interval);
    if found.low() <= 1.0 {
        return failed(format!("no longer faster: {}", found.describe()));
    }
    let apart = (found.log_ratio - before.log_ratio).abs();
    if apart > REPRODUCED_RATIO_MAX.ln() {
        return failed(format!(
            "{} was claimed, {} was found",
            before.describe(),
            found.describe()
        ));
    }
    Reproduction::Reproduced { claimed: before.ratio(), found: found.ratio() }
}

/// How a second look compares, where what a person let pass for the claim may be there again.
fn judged(claim: &Claim, again: &Conclusion) -> Option<Comparison> {
    let let_pass = |raised: &Raised| claim.accepted.iter().any(|it| it.is_like(raised));
    match again.comparison? {
        Comparison::Suspect(_) if !again.raised.is_empty() && again.raised.iter().all(let_pass) => {
            again.against.first().map(|fastest| fastest.comparison)
        }
        comparison => Some(comparison),
    }
}

/// Class or determinism of another kind than claimed.
fn other_kind(claim: &Claim, again: &Conclusion) -> Option<String> {
    let found = again.kind.as_ref()?;
    if found.class != claim.class {
        return Some(format!("claimed in class {:?}, found in {:?}", claim.class, found.class));
    }
    if found.deterministic != claim.deterministic {
        let word = |it: bool| if it { "deterministic" } else { "not deterministic" };
        let (before, now) = (word(claim.deterministic), word(found.deterministic));
        return Some(format!("claimed as {before}, found {now}"));
    }
    None
}

/// A baseline that the claim was not against and that is faster than the kernel.
fn stronger_rival(claim: &Claim, again: &Conclusion) -> Option<String> {
    let mut others = again.against.iter().filter(|it| it.baseline != claim.against.baseline);
    let rival = others.find(|it| it.interval.is_narrow() && it.interval.high() < 1.0)?;
    let (ratio, name) = (rival.interval.describe(), &rival.baseline);
    Some(format!("slower than {name}, which it was not claimed against: {ratio}"))
}

/// A case that memory let be timed at another shape than the claimed one.
fn other_shape(claim: &Claim, again: &Conclusion) -> Option<String> {
    let shapes = &again.kind.as_ref()?.shapes;
    claim.cases.iter().filter(|case| !case.dims.is_empty()).find_map(|case| {
        let here = shapes.get(&case.case).filter(|here| **here != case.dims)?;
        let (name, before, now) = (&case.case, describe(&case.dims), describe(here));
        Some(format!("`{name}` was timed at {before}, and is at {now} here"))
    })
}

/// Whether a claim still holds against today's fastest baseline.
#[must_use]
pub fn rechecked(claim: &Claim, again: &Conclusion) -> Recheck {
    if again.verdict.kind == Kind::Unsimulatable {
        return Recheck::NotComparable(again.cause.clone());
    }
    if !again.verdict.is_correct() {
        return Recheck::Lost(format!("{}: {}", again.verdict, again.verdict.detail));
    }
    let Some(fastest) = again.against.first() else {
        return Recheck::NotComparable(again.cause.clone());
    };
    match judged(claim, again) {
        Some(Comparison::Faster) => {}
        Some(Comparison::Same | Comparison::Slower | Comparison::Suspect(_)) => {
            return Recheck::Lost(again.cause.clone());
        }
        Some(Comparison::Noisy) | None => return Recheck::NotComparable(again.cause.clone()),
    }
    let (before, found) = (claim.against.interval, fastest.interval);
    if overlaps_or_above(found, before) {
        Recheck::Holds { found: found.ratio() }
    } else {
        Recheck::Weaker { claimed: before.ratio(), found: found.ratio() }
    }
}

fn overlaps_or_above(found: Interval, before: Interval) -> bool {
    found.log_ratio + found.half_width >= before.log_ratio - before.half_width
}

/// Where and when an acceptance was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The process tree.
    pub process: String,
    /// Days since 1970, UTC.
    pub day: i64,
    /// UUIDs of the cards of its windows.
    pub cards: BTreeSet<String>,
}

impl Circumstances {
    /// Those of entries, begun at a time in microseconds UTC.
    #[must_use]
    pub fn of(process: &str, started_us: i64, entries: &[Entry]) -> Self {
        const DAY_US: i64 = 86_400_000_000;
        let cards = entries.iter().filter_map(|entry| match entry {
            Entry::Window(record) => Some(record.gpu.as_ref()?.uuid.clone()),
            Entry::Rebuilt { .. } | Entry::Trials(_) => None,
            Entry::Checked { .. } | Entry::Pilot(_) => None,
        });
        Self {
            process: process.to_owned(),
            day: started_us.div_euclid(DAY_US),
            cards: cards.collect(),
        }
    }
}

/// True when a reproduction was independent enough to confirm: another process tree, and another
/// day or other cards.
#[must_use]
pub fn confirms(claimed: &Circumstances, again: &Circumstances) -> bool {
    let other_cards = !again.cards.is_empty() && again.cards.is_disjoint(&claimed.cards);
    claimed.process != again.process && (claimed.day != again.day || other_cards)
}

#[cfg(test)]
mod tests;
