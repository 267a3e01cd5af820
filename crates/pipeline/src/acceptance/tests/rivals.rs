//! No rival is left out in silence, and no round holds unlike windows against each other.

use super::{compiled, eager, measured, play, protocol, windows};
use crate::acceptance::{Entry, Subject, Timed, WindowRecord, conclude, joined};
use crate::baseline::BaselineId;
use crate::comparison::Comparison;
use crate::limits::PILOT_TRIES_MAX;

/// Pilots of a baseline in order; the first `void` of each case come to `timed`.
fn spoilt(baseline: &BaselineId, void: usize, timed: &Timed) -> Vec<Entry> {
    let counts = std::cell::RefCell::new(std::collections::BTreeMap::new());
    play(&protocol(), 800.0, &|_, entry| {
        let Entry::Pilot(record) = entry else { return };
        if record.subject != Subject::Baseline(baseline.clone()) {
            return;
        }
        let mut counts = counts.borrow_mut();
        let count = counts.entry(record.case.clone()).or_insert(0);
        if *count < void {
            record.timed = timed.clone();
        }
        *count += 1;
    })
}

#[test]
fn a_void_pilot_is_taken_again_and_one_that_stays_void_ends_without_a_claim() {
    let void = Timed::Void("another process used the GPU".to_owned());
    for tries in 1..PILOT_TRIES_MAX {
        let entries = spoilt(&compiled(), tries, &void);
        assert_eq!(joined(&protocol(), &entries), [compiled()], "{tries}");
        let claim = conclude(&protocol(), &entries).claim.unwrap();
        assert_eq!((claim.against.baseline, claim.not_available), (compiled(), Vec::new()));
    }
    // Eager alone would be 2.5 times as slow: no claim is made of what compile might have said.
    let entries = spoilt(&compiled(), usize::MAX, &void);
    assert_eq!(windows(&entries), Vec::<&WindowRecord>::new());
    let conclusion = conclude(&protocol(), &entries);
    assert_eq!((conclusion.comparison, &conclusion.claim), (Some(Comparison::Noisy), &None));
    assert!(conclusion.is_worth_another_try());
    for word in ["torch.compile", "pilot was void 3 times", "another process used the GPU"] {
        assert!(conclusion.cause.contains(word), "{word}: {}", conclusion.cause);
    }
}

#[test]
fn a_rival_that_cannot_run_here_is_named_in_the_claim() {
    let lacking = Timed::NotAvailable("triton is not there".to_owned());
    let entries = spoilt(&compiled(), usize::MAX, &lacking);
    let claim = conclude(&protocol(), &entries).claim.unwrap();
    assert_eq!(claim.against.baseline, eager());
    let wanted = format!("{} not timed: triton is not there", compiled());
    assert_eq!(claim.not_available, [wanted]);
    // One that does not count for the class is not missed.
    let entries = spoilt(&super::fast(), usize::MAX, &lacking);
    assert_eq!(conclude(&protocol(), &entries).claim.unwrap().not_available, [""; 0]);
}

#[test]
fn an_interval_across_a_border_is_undecided_and_not_tried_again() {
    let entries = play(&protocol(), 1000.0 / 1.03, &|index, entry| {
        if let Entry::Window(record) = entry
            && record.subject == Subject::Candidate
            && let Timed::Measured { cold, .. } = &record.timed
        {
            let sway = if index % 3 == 0 { 1.004 } else { 0.996 };
            record.timed = measured(cold.median_ns * sway);
        }
    });
    assert_eq!(windows(&entries).len(), 7 * 2 * 4);
    let conclusion = conclude(&protocol(), &entries);
    assert_eq!(conclusion.comparison, Some(Comparison::Noisy));
    assert!(conclusion.cause.starts_with("undecided"), "{}", conclusion.cause);
    assert!(!conclusion.is_worth_another_try());
}

/// A bundle may say any number of a round.
#[test]
fn a_round_of_a_huge_number_is_computed_like_any_other() {
    let begun = WindowRecord::begun("headline", Subject::Candidate, u32::MAX, 0);
    let mut entries = play(&protocol(), 800.0, &|_, _| {});
    entries.push(Entry::Window(begun));
    assert!(conclude(&protocol(), &entries).claim.is_some());
}
