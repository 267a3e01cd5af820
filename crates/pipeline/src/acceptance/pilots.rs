//! Baselines alone, before the rounds: which enter them, and whether all could be told.
//!
//! A rival is never left out for a disturbance: a void pilot is taken again, and where one stays
//! void there is no claim. One that cannot be run here is named in the claim.

use super::conclusion::compared_class;
use super::{Entry, Protocol, Subject, Timed, WindowRecord};
use crate::baseline::BaselineId;
use crate::limits::{JOINING_SHARE_MAX, PILOT_TRIES_MAX};

/// The pilots of a baseline on a case, in their order.
fn tries<'a>(
    entries: &'a [Entry],
    case: &'a str,
    baseline: &'a BaselineId,
) -> impl Iterator<Item = &'a WindowRecord> {
    entries.iter().filter_map(move |entry| match entry {
        Entry::Pilot(record) => {
            let same = matches!(&record.subject, Subject::Baseline(other) if other == baseline);
            (same && record.case == case).then_some(record)
        }
        Entry::Rebuilt { .. } | Entry::Trials(_) | Entry::Checked { .. } | Entry::Window(_) => None,
    })
}

/// The last pilot, which is the one that counts.
fn pilot_of<'a>(
    entries: &'a [Entry],
    case: &'a str,
    baseline: &'a BaselineId,
) -> Option<&'a WindowRecord> {
    tries(entries, case, baseline).last()
}

/// True while a pilot is to be taken, for the first time or again.
pub(super) fn is_lacking(entries: &[Entry], case: &str, baseline: &BaselineId) -> bool {
    let said = tries(entries, case, baseline).any(|record| match record.timed {
        Timed::Measured { .. } | Timed::NotAvailable(_) => true,
        Timed::Void(_) | Timed::Failed(_) => false,
    });
    !said && tries(entries, case, baseline).count() < PILOT_TRIES_MAX
}

fn admissible<'a>(
    protocol: &'a Protocol,
    entries: &[Entry],
) -> impl Iterator<Item = &'a BaselineId> + use<'a> {
    let class = compared_class(protocol, entries);
    protocol.baselines.iter().filter(move |baseline| baseline.admissible_for(class))
}

/// What `what` says of the pilots of baselines that count, with their names.
fn said<'a>(
    protocol: &'a Protocol,
    entries: &'a [Entry],
    what: &'a dyn Fn(&Timed) -> Option<String>,
) -> impl Iterator<Item = (&'a BaselineId, String)> {
    admissible(protocol, entries).filter_map(move |baseline| {
        let cases = protocol.cases.iter();
        let pilots = cases.filter_map(|case| pilot_of(entries, &case.case, baseline));
        let mut texts = pilots.filter_map(|pilot| what(&pilot.timed));
        Some((baseline, texts.next()?))
    })
}

/// Why a baseline that counts has no time although it could have one; then nothing is claimed.
pub(super) fn untold(protocol: &Protocol, entries: &[Entry]) -> Option<String> {
    let what = |timed: &Timed| match timed {
        Timed::Void(why) => Some(why.clone()),
        Timed::Failed(verdict) => Some(format!("{verdict}: {}", verdict.detail)),
        Timed::Measured { .. } | Timed::NotAvailable(_) => None,
    };
    // Not while it is still being tried.
    let open = |baseline: &BaselineId| {
        protocol.cases.iter().any(|case| is_lacking(entries, &case.case, baseline))
    };
    let (baseline, why) = said(protocol, entries, &what).find(|(baseline, _)| !open(baseline))?;
    Some(format!("{baseline} was not told: its pilot was void {PILOT_TRIES_MAX} times: {why}"))
}

/// Baselines that count and cannot be run here, a line each.
pub(super) fn not_timed(protocol: &Protocol, entries: &[Entry]) -> Vec<String> {
    let what = |timed: &Timed| match timed {
        Timed::NotAvailable(why) => Some(why.clone()),
        Timed::Measured { .. } | Timed::Void(_) | Timed::Failed(_) => None,
    };
    let lines = said(protocol, entries, &what);
    lines.map(|(baseline, why)| format!("{baseline} not timed: {why}")).collect()
}

/// The baselines that enter the rounds: the fastest that counts for the class, by the pilot, and
/// every other within 5 % of it, and the one of a claim that is looked at again. Empty where none
/// could be timed.
#[must_use]
pub fn joined(protocol: &Protocol, entries: &[Entry]) -> Vec<BaselineId> {
    let time = |baseline: &BaselineId| -> Option<f64> {
        let cases = protocol.cases.iter().map(|case| {
            let record = pilot_of(entries, &case.case, baseline)?;
            Some(case.weight * record.median_ns()?)
        });
        cases.sum()
    };
    let mut timed: Vec<(f64, &BaselineId)> = admissible(protocol, entries)
        .filter_map(|baseline| Some((time(baseline)?, baseline)))
        .collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fastest = timed.first().map_or(0.0, |(time, _)| *time);
    let claimed = |baseline: &BaselineId| protocol.claimed_against.as_ref() == Some(baseline);
    let near = timed
        .into_iter()
        .filter(|(time, baseline)| *time <= JOINING_SHARE_MAX * fastest || claimed(baseline));
    near.map(|(_, baseline)| baseline.clone()).collect()
}

/// Whether a case's rounds are taken without a gate: a baseline that joined them has to be, by its
/// pilot, and then everybody is.
#[must_use]
pub fn is_ungated(protocol: &Protocol, entries: &[Entry], case: &str) -> bool {
    let joined = joined(protocol, entries);
    let mut pilots = joined.iter().filter_map(|baseline| pilot_of(entries, case, baseline));
    pilots.any(|pilot| pilot.ungated)
}
