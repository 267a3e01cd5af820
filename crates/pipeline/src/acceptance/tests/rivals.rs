//! No rival is left out in silence, and no round holds unlike windows against each other.

use super::{compiled, eager, measured, play, protocol, windows};
use crate::acceptance::{
    Check, Entry, Found, Protocol, RaisedBy, Subject, Timed, WindowRecord, conclude, joined,
    reviewed,
};
use crate::baseline::BaselineId;
use crate::comparison::{Comparison, Suspicion};
use crate::limits::PILOT_TRIES_MAX;
use crate::memory::{Fitted, Memory, Rung};
use crate::report::GpuRecord;

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

/// A window's card, driver, shape and versions.
fn conditioned(entry: &mut Entry, uuid: &str, driver: &str, rows: i64, torch: &str) {
    let Entry::Window(record) = entry else { return };
    let memory = Fitted {
        rung: Rung::SmallerShape,
        dims: [("rows".to_owned(), rows)].into(),
        largest: 256,
        need: Memory { device: 8, host: 8 },
        free: Memory { device: 10, host: 10 },
        why: String::new(),
    };
    record.gpu = Some(GpuRecord {
        uuid: uuid.to_owned(),
        driver: driver.to_owned(),
        before: None,
        after: None,
        cold: Vec::new(),
        warm: Vec::new(),
        cost: Vec::new(),
        memory: Some(memory),
    });
    if record.subject != Subject::Candidate {
        record.versions = vec![("torch".to_owned(), torch.to_owned())];
    }
}

#[test]
fn a_round_of_unlike_windows_is_void() {
    // Another card in the middle of round 2 is one thing; another for all of it is none.
    for (middle, other, word) in [
        (true, ("GPU-2", "580", 64, "2.9"), Some("card")),
        (false, ("GPU-2", "580", 64, "2.9"), None),
        (false, ("GPU-1", "581", 64, "2.9"), Some("driver")),
        (false, ("GPU-1", "580", 32, "2.9"), Some("shape")),
        (false, ("GPU-1", "580", 64, "2.8"), Some("versions")),
    ] {
        let entries = play(&protocol(), 800.0, &|_, entry| {
            let Entry::Window(record) = &entry else { return };
            let spoilt = record.round == 2 && (!middle || record.position == 1);
            let (uuid, driver, rows, torch) =
                if spoilt { other } else { ("GPU-1", "580", 64, "2.9") };
            conditioned(entry, uuid, driver, rows, torch);
        });
        let rounds = 7 + u32::from(word.is_some());
        let last = windows(&entries).iter().map(|record| record.round).max();
        assert_eq!(last, Some(rounds), "{word:?}");
        is_of_seven_rounds_at_the_first_shape(&entries);
    }
}

fn is_of_seven_rounds_at_the_first_shape(entries: &[Entry]) {
    let conclusion = conclude(&protocol(), entries);
    let claim = conclusion.claim.unwrap();
    assert_eq!(claim.against.interval.rounds, 7);
    assert_eq!(claim.cases[0].dims, [("rows".to_owned(), 64)].into());
    assert_eq!(conclusion.kind.unwrap().shapes["small"], claim.cases[1].dims);
}

#[test]
fn where_no_round_is_of_a_kind_it_says_why() {
    let entries = play(&protocol(), 800.0, &|index, entry| {
        conditioned(entry, ["GPU-1", "GPU-2"][index % 2], "580", 64, "2.9");
    });
    let conclusion = conclude(&protocol(), &entries);
    let wanted = "the card changed from GPU-";
    assert!(conclusion.cause.contains(wanted), "{}", conclusion.cause);
    assert_eq!(conclusion.comparison, Some(Comparison::Noisy));
}

#[test]
fn the_baseline_of_a_claim_joins_the_rounds_of_a_second_look() {
    let again = Protocol { claimed_against: Some(eager()), ..protocol() };
    let entries = play(&again, 800.0, &|_, _| {});
    assert_eq!(joined(&again, &entries), [compiled(), eager()]);
    let against = conclude(&again, &entries).against;
    assert_eq!(against.iter().map(|it| &it.baseline).collect::<Vec<_>>(), [&compiled(), &eager()]);
    // Not where it cannot be timed.
    let absent = Protocol { baselines: vec![compiled()], ..again };
    assert_eq!(joined(&absent, &play(&absent, 800.0, &|_, _| {})), [compiled()]);
}

#[test]
fn every_suspicion_is_told_and_accepted_by_name() {
    let entries = play(&protocol(), 800.0, &|_, entry| match entry {
        Entry::Checked { found, .. } => {
            *found = Found::Audits { detail: "an odd access".to_owned() };
        }
        Entry::Window(record) if record.subject == Subject::Candidate => {
            if let Timed::Measured { suspicion, .. } = &mut record.timed {
                *suspicion = Some((Suspicion::Physics, "0.91 of the floor".to_owned()));
            }
        }
        Entry::Window(_) | Entry::Pilot(_) | Entry::Trials(_) | Entry::Rebuilt { .. } => {}
    });
    let conclusion = conclude(&protocol(), &entries);
    assert_eq!(conclusion.comparison, Some(Comparison::Suspect(Suspicion::Physics)));
    let by: Vec<_> = conclusion.raised.iter().map(|it| it.by).collect();
    assert_eq!(by, [RaisedBy::Times, RaisedBy::Check(Check::Memcheck)]);
    let claim = reviewed(&protocol(), &entries, "read it").unwrap();
    assert_eq!(claim.accepted, conclusion.raised);
    for (word, at) in [("0.91 of the floor", 0), ("an odd access", 1)] {
        assert!(conclusion.cause.contains(word), "{}", conclusion.cause);
        assert!(claim.notes[at].contains(word) && claim.notes[at].contains("read it"));
    }
}

#[test]
fn without_a_baseline_there_is_nothing_to_claim() {
    let protocol = Protocol { baselines: Vec::new(), ..protocol() };
    let conclusion = conclude(&protocol, &play(&protocol, 800.0, &|_, _| {}));
    assert!(conclusion.verdict.is_correct() && conclusion.comparison.is_none());
    assert!(conclusion.claim.is_none() && conclusion.cause.contains("no baseline"));
}
