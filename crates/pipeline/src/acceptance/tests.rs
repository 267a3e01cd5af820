mod rivals;
mod unprobed;

use super::{
    Check, Entry, Found, LengthError, Protocol, Scope, Step, Subject, Timed, TrialsRecord,
    WeightedCase, WindowRecord, conclude, is_ungated, joined, next_step, reviewed,
};
use crate::baseline::{BaselineId, BaselineKind, MathMode};
use crate::comparison::{Comparison, Confidence, Suspicion};
use crate::task::spec::Precision;
use crate::timing::Spread;
use crate::verdict::{Reason, Verdict};

fn baseline(kind: BaselineKind, math: MathMode) -> BaselineId {
    BaselineId { kind, math }
}

fn eager() -> BaselineId {
    baseline(BaselineKind::Eager, MathMode::Strict)
}

fn compiled() -> BaselineId {
    baseline(BaselineKind::Compile, MathMode::Strict)
}

fn fast() -> BaselineId {
    baseline(BaselineKind::Compile, MathMode::Fast)
}

fn protocol() -> Protocol {
    let case = |case: &str, weight| WeightedCase { case: case.to_owned(), weight };
    Protocol {
        groups: vec!["shapes".to_owned(), "history".to_owned()],
        checks: vec![Check::Memcheck],
        cases: vec![case("headline", 1.0), case("small", 10.0)],
        baselines: vec![eager(), compiled(), fast()],
        class: Precision::Fp32,
        rounds_max: 15,
        confidence: Confidence::P95,
        scope: Scope { domain: Vec::new(), hidden_shapes: 6, left_out: Vec::new() },
        weaknesses: Vec::new(),
        claimed_against: None,
        confinement: Vec::new(),
    }
}

fn measured(ns: f64) -> Timed {
    let cold = Spread { median_ns: ns, p10_ns: ns, p90_ns: ns, samples: 50, dropped: 0 };
    Timed::Measured { cold, warm: None, suspicion: None }
}

/// Times by subject: candidate, eager, compiled, fast; the small case takes a tenth.
fn window(case: &str, subject: Subject, place: (u32, u32), ns: f64) -> WindowRecord {
    let scale = if case == "small" { 0.1 } else { 1.0 };
    WindowRecord {
        case: case.to_owned(),
        subject,
        round: place.0,
        position: place.1,
        timed: measured(scale * ns),
        gpu: None,
        flags_before: Vec::new(),
        flags_after: Vec::new(),
        versions: Vec::new(),
        error: None,
        steady: Vec::new(),
        ungated: false,
        energy_mj: None,
    }
}

/// Plays an acceptance whose windows take these times; `spoil` may change an entry.
fn play(protocol: &Protocol, candidate_ns: f64, spoil: &dyn Fn(usize, &mut Entry)) -> Vec<Entry> {
    let time = |subject: &Subject| match subject {
        Subject::Candidate => candidate_ns,
        Subject::Baseline(id) if *id == eager() => 2000.0,
        Subject::Baseline(id) if *id == compiled() => 1000.0,
        Subject::Baseline(_) => 500.0,
    };
    let mut entries = Vec::new();
    for index in 0..1000 {
        let mut entry = match next_step(protocol, &entries) {
            Step::Rebuild => Entry::Rebuilt { same: true },
            Step::Trials(group) => Entry::Trials(TrialsRecord {
                group: protocol.groups[group].clone(),
                cases: Vec::new(),
                verdict: Verdict::correct(),
                deterministic: true,
                class: Some(Precision::Fp32),
                length: None,
                unprobed: Vec::new(),
            }),
            Step::Check(check) => Entry::Checked { check, found: Found::Clean },
            Step::Pilot { case, baseline } => {
                let subject = Subject::Baseline(baseline);
                let ns = time(&subject);
                Entry::Pilot(window(&case, subject, (0, 0), ns))
            }
            Step::Window { case, round, position, subject } => {
                let ns = time(&subject);
                Entry::Window(window(&case, subject, (round, position), ns))
            }
            Step::Done => return entries,
        };
        spoil(index, &mut entry);
        entries.push(entry);
    }
    panic!("an acceptance without an end");
}

#[test]
fn energy_of_the_first_round_stands_beside_the_times_and_decides_nothing() {
    let protocol = protocol();
    let spent = |entry: &mut Entry| {
        if let Entry::Window(record) = entry
            && record.round == 1
        {
            let own = record.subject == Subject::Candidate;
            record.energy_mj = Some(if own { 5.0 } else { 3.0 } + f64::from(record.position % 2));
        }
    };
    let claim = conclude(&protocol, &play(&protocol, 800.0, &|_, entry| spent(entry))).claim;
    let without = conclude(&protocol, &play(&protocol, 800.0, &|_, _| {})).claim.unwrap();
    let claim = claim.unwrap();
    for (case, bare) in claim.cases.iter().zip(&without.cases) {
        assert_eq!((case.candidate_mj, case.baseline_mj), (Some(5.5), Some(3.5)));
        assert_eq!((bare.candidate_mj, bare.baseline_mj), (None, None));
        assert_eq!(case.candidate_ns, bare.candidate_ns);
    }
}

#[test]
fn one_ungated_baseline_in_the_rounds_makes_everybody_ungated_and_is_told() {
    let protocol = protocol();
    let mark = |baseline: &BaselineId, entry: &mut Entry| {
        if let Entry::Pilot(record) = entry
            && record.case == "small"
            && record.subject == Subject::Baseline(baseline.clone())
        {
            record.ungated = true;
        }
    };
    for (baseline, expected) in [(compiled(), true), (eager(), false)] {
        let mut entries = play(&protocol, 800.0, &|_, entry| mark(&baseline, entry));
        assert_eq!(is_ungated(&protocol, &entries, "small"), expected, "{baseline}");
        assert!(!is_ungated(&protocol, &entries, "headline"));
        for entry in &mut entries {
            if let Entry::Window(record) = entry {
                record.ungated = expected;
            }
        }
        let claim = conclude(&protocol, &entries).claim.unwrap();
        assert_eq!(claim.notes.iter().any(|note| note.contains("ungated")), expected);
    }
    let slower = play(&protocol, 1500.0, &|_, entry| {
        if let Entry::Window(record) = entry {
            record.ungated = true;
        }
    });
    assert!(conclude(&protocol, &slower).cause.contains("ungated"));
}

#[test]
fn the_profiler_looks_at_the_rounds_when_they_are_over() {
    let checks = vec![Check::ProfilerClock, Check::Memcheck];
    let protocol = Protocol { checks, ..protocol() };
    let apart = Found::Audits { detail: "100 µs by events, 80 µs by ncu".to_owned() };
    let entries = play(&protocol, 800.0, &|_, entry| {
        if let Entry::Checked { check: Check::ProfilerClock, found } = entry {
            *found = apart.clone();
        }
    });
    let last = entries.last().unwrap();
    assert!(matches!(last, Entry::Checked { check: Check::ProfilerClock, .. }), "{last:?}");
    let conclusion = conclude(&protocol, &entries);
    assert_eq!(conclusion.comparison, Some(Comparison::Suspect(Suspicion::Audit)));
    assert!(conclusion.cause.contains("80 µs by ncu"), "{}", conclusion.cause);
    assert!(reviewed(&protocol, &entries, "the clocks were looked at").is_some());
}

fn windows(entries: &[Entry]) -> Vec<&WindowRecord> {
    let mut found = Vec::new();
    for entry in entries {
        if let Entry::Window(record) = entry {
            found.push(record);
        }
    }
    found
}

#[test]
fn the_weakest_class_at_any_length_counts() {
    let lengths = [(256, 1e-6, Precision::Fp32), (8192, 3e-4, Precision::Tf32)];
    let groups = lengths.map(|(length, ..)| format!("class at length {length}"));
    let protocol = Protocol { groups: groups.to_vec(), ..protocol() };
    let entries = play(&protocol, 400.0, &|_, entry| {
        let Entry::Trials(record) = entry else { return };
        let at = usize::from(record.group == groups[1]);
        let (length, norm_error, class) = lengths[at];
        (record.length, record.class) = (Some(LengthError { length, norm_error }), Some(class));
    });
    let claim = conclude(&protocol, &entries).claim.unwrap();
    let of_claim = claim.lengths.iter().map(|it| (it.length, it.norm_error, it.class));
    assert_eq!(of_claim.collect::<Vec<_>>(), lengths);
    // And so the rounding baseline is what it has to beat.
    assert_eq!((claim.class, claim.against.baseline), (Precision::Tf32, fast()));
}

#[test]
fn a_whole_acceptance_ends_in_a_claim_against_the_fastest_admissible_baseline() {
    let protocol = protocol();
    let entries = play(&protocol, 800.0, &|_, _| {});
    // Build, two groups, one check, three pilots of two cases; seven rounds of four windows each.
    assert_eq!(entries.len(), 1 + 2 + 1 + 6 + 7 * 2 * 4);
    let order: Vec<_> = windows(&entries)[..4].iter().map(|it| it.subject.clone()).collect();
    let compiled_one = Subject::Baseline(compiled());
    let ends = Subject::Candidate;
    assert_eq!(order, [ends.clone(), compiled_one.clone(), compiled_one, ends]);
    let conclusion = conclude(&protocol, &entries);
    assert_eq!(conclusion.comparison, Some(Comparison::Faster), "{}", conclusion.cause);
    let claim = conclusion.claim.unwrap();
    assert_eq!(claim.against.baseline, compiled());
    assert!((claim.against.interval.ratio() - 1.25).abs() < 1e-9);
    assert!((claim.against.candidate_ns - 1600.0).abs() < 1e-6);
    assert_eq!(claim.cases[1].case, "small");
    assert!((claim.cases[1].baseline_ns - 100.0).abs() < 1e-9);
    assert!(claim.over_framework && claim.deterministic);
}

#[test]
fn a_weaker_measured_class_must_beat_the_fast_baseline() {
    let protocol = protocol();
    let entries = play(&protocol, 800.0, &|_, entry| {
        if let Entry::Trials(record) = entry {
            record.class = Some(Precision::Tf32);
        }
    });
    assert_eq!(joined(&protocol, &entries), [fast()]);
    let conclusion = conclude(&protocol, &entries);
    assert_eq!(conclusion.comparison, Some(Comparison::Slower));
    assert!(conclusion.claim.is_none());
}

#[test]
fn baselines_within_five_percent_all_enter_the_rounds() {
    let protocol = protocol();
    let entries = play(&protocol, 800.0, &|_, entry| {
        if let Entry::Pilot(record) = entry
            && record.subject == Subject::Baseline(eager())
        {
            let scale = if record.case == "small" { 0.1 } else { 1.0 };
            record.timed = measured(scale * 1040.0);
        }
    });
    assert_eq!(joined(&protocol, &entries), [compiled(), eager()]);
    assert_eq!(windows(&entries).len(), 7 * 2 * 6);
    // The claim is against the fastest in the rounds, not in the pilot.
    let claim = conclude(&protocol, &entries).claim.unwrap();
    assert_eq!(claim.against.baseline, compiled());
}

#[test]
fn whatever_is_wrong_ends_it_at_once() {
    let protocol = protocol();
    let wrong = || Verdict::failed(Reason::Shape, "at a hidden shape");
    type Spoil<'a> = &'a dyn Fn(&mut Entry);
    let rejected: [(Spoil<'_>, Reason); 4] = [
        (&|entry| *entry = Entry::Rebuilt { same: false }, Reason::State),
        (
            &|entry| {
                if let Entry::Trials(record) = entry {
                    record.verdict = wrong();
                }
            },
            Reason::Shape,
        ),
        (
            &|entry| {
                if let Entry::Checked { found, .. } = entry {
                    *found = Found::Fails { reason: Reason::Guard, detail: "read".to_owned() };
                }
            },
            Reason::Guard,
        ),
        (
            &|entry| {
                if let Entry::Window(record) = entry
                    && record.subject == Subject::Candidate
                {
                    record.timed = Timed::Failed(wrong());
                }
            },
            Reason::Shape,
        ),
    ];
    for (spoil, reason) in rejected {
        let entries = play(&protocol, 800.0, &|_, entry| spoil(entry));
        let conclusion = conclude(&protocol, &entries);
        assert_eq!(conclusion.verdict.reason, Some(reason));
        assert!(conclusion.claim.is_none() && !conclusion.cause.is_empty());
        let last = entries.len();
        assert_eq!(next_step(&protocol, &entries[..last]), Step::Done);
    }
}

#[test]
fn void_windows_void_their_round_and_never_make_a_claim_of_nothing() {
    let protocol = protocol();
    let void = |entry: &mut Entry| {
        if let Entry::Window(record) = entry {
            record.timed = Timed::Void("another process used the GPU".to_owned());
        }
    };
    let entries = play(&protocol, 800.0, &|_, entry| void(entry));
    assert_eq!(windows(&entries).len(), 15);
    let conclusion = conclude(&protocol, &entries);
    assert_eq!(conclusion.comparison, Some(Comparison::Noisy));
    assert!(conclusion.cause.contains("another process"), "{}", conclusion.cause);
    let some = play(&protocol, 800.0, &|index, entry| {
        if index == 20 {
            void(entry);
        }
    });
    assert_eq!(conclude(&protocol, &some).comparison, Some(Comparison::Faster));
}

#[test]
fn nothing_that_needs_a_person_becomes_a_claim() {
    let protocol = protocol();
    let physics = play(&protocol, 800.0, &|_, entry| {
        if let Entry::Window(record) = entry
            && let Timed::Measured { suspicion, .. } = &mut record.timed
            && record.subject == Subject::Candidate
        {
            *suspicion = Some((Suspicion::Physics, "0.91 of the floor".to_owned()));
        }
    });
    let audit = play(&protocol, 800.0, &|_, entry| {
        if let Entry::Checked { found, .. } = entry {
            *found = Found::Audits { detail: "step 2 changes nothing".to_owned() };
        }
    });
    let unwatched = play(&protocol, 50.0, &|_, entry| {
        if let Entry::Checked { found, .. } = entry {
            *found = Found::NotAvailable { why: "no compute-sanitizer".to_owned() };
        }
    });
    for (entries, suspicion, word) in [
        (physics, Suspicion::Physics, "floor"),
        (audit, Suspicion::Audit, "step 2"),
        (unwatched, Suspicion::Audit, "sanitizer"),
    ] {
        let conclusion = conclude(&protocol, &entries);
        assert_eq!(conclusion.comparison, Some(Comparison::Suspect(suspicion)));
        assert!(conclusion.claim.is_none());
        assert!(conclusion.cause.contains(word), "{}", conclusion.cause);
        let claim = reviewed(&protocol, &entries, "read it").unwrap();
        assert!(claim.notes.last().unwrap().contains("read it"), "{:?}", claim.notes);
    }
    let slower = play(&protocol, 2000.0, &|_, entry| {
        if let Entry::Checked { found, .. } = entry {
            *found = Found::Audits { detail: "step 2 changes nothing".to_owned() };
        }
    });
    assert_eq!(reviewed(&protocol, &slower, "read it"), None);
    let watched = play(&protocol, 50.0, &|_, _| {});
    assert!(conclude(&protocol, &watched).claim.is_some());
}

#[test]
fn entries_survive_storing() {
    for entry in play(&protocol(), 800.0, &|_, _| {}) {
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
    }
}

/// One round beside what needs no compiling: a number without an interval, and never a claim.
#[test]
fn a_measurement_is_one_round_and_claims_nothing() {
    let short = protocol().shortened();
    assert_eq!((short.cases.len(), &short.baselines), (1, &vec![eager()]));
    let entries = play(&short, 800.0, &|_, _| ());
    let windows = entries.iter().filter(|entry| matches!(entry, Entry::Window(_))).count();
    assert_eq!((windows, entries.len()), (4, 6));
    let conclusion = conclude(&short, &entries);
    assert_eq!((conclusion.comparison, &conclusion.claim), (Some(Comparison::Noisy), &None));
    let measured = conclusion.measurement().unwrap();
    assert_eq!(measured.baseline, eager());
    assert!((measured.ratio - 2.5).abs() < 1e-9, "{measured:?}");
    let void = play(&short, 800.0, &|_, entry| {
        if let Entry::Window(record) = entry {
            record.timed = Timed::Void("somebody else".to_owned());
        }
    });
    assert_eq!(conclude(&short, &void).measurement(), None);
}
