use std::collections::{BTreeMap, BTreeSet};

use super::{
    Circumstances, Conditions, Recheck, Reproduction, confirms, incomparable, rechecked, reproduced,
};
use crate::acceptance::{
    Against, CaseTime, Check, Claim, Conclusion, Kind, Raised, RaisedBy, Scope,
};
use crate::baseline::{BaselineId, BaselineKind, MathMode};
use crate::comparison::{Comparison, Confidence, Interval, Suspicion};
use crate::task::spec::Precision;
use crate::verdict::{Reason, Verdict};

fn against(ratio: f64, half_width: f64) -> Against {
    let confidence = Confidence::P95;
    Against {
        baseline: BaselineId { kind: BaselineKind::Eager, math: MathMode::Strict },
        comparison: Comparison::Faster,
        interval: Interval { log_ratio: ratio.ln(), half_width, rounds: 7, confidence },
        candidate_ns: 1000.0,
        baseline_ns: 1000.0 * ratio,
    }
}

fn claim(ratio: f64) -> Claim {
    Claim {
        against: against(ratio, 0.01),
        cases: Vec::new(),
        class: Precision::Fp32,
        deterministic: true,
        scope: Scope { domain: Vec::new(), hidden_shapes: 6, left_out: Vec::new() },
        over_framework: true,
        steady: Vec::new(),
        not_available: Vec::new(),
        notes: Vec::new(),
        weaknesses: Vec::new(),
        lengths: Vec::new(),
        accepted: Vec::new(),
    }
}

/// A second look that found this ratio.
fn found(ratio: f64, comparison: Comparison) -> Conclusion {
    let faster = comparison == Comparison::Faster;
    let half_width = if comparison == Comparison::Noisy { 0.2 } else { 0.01 };
    Conclusion {
        verdict: Verdict::correct(),
        against: vec![Against { comparison, ..against(ratio, half_width) }],
        comparison: Some(comparison),
        claim: faster.then(|| claim(ratio)),
        cause: "in numbers".to_owned(),
        kind: Some(Kind { class: Precision::Fp32, deterministic: true, shapes: BTreeMap::new() }),
        raised: Vec::new(),
    }
}

fn conditions() -> Conditions {
    Conditions {
        device_model: "H200".to_owned(),
        toolchain_id: "13.0".to_owned(),
        ptx_hash: "abc".to_owned(),
    }
}

fn named(outcome: &Reproduction) -> &'static str {
    match outcome {
        Reproduction::Reproduced { .. } => "reproduced",
        Reproduction::NotReproduced(_) => "not",
        Reproduction::NotComparable(_) => "incomparable",
    }
}

#[test]
fn a_claim_is_reproduced_within_a_fifth_and_above_one() {
    use Comparison::{Faster, Noisy, Same, Slower, Suspect};
    for (claimed, ratio, comparison, expected) in [
        (1.50, 1.50, Faster, "reproduced"),
        (1.50, 1.27, Faster, "reproduced"),
        (1.50, 1.24, Faster, "not"),
        (1.50, 1.78, Faster, "reproduced"),
        (1.50, 1.81, Faster, "not"),
        (1.10, 1.02, Same, "reproduced"),
        (1.10, 1.00, Same, "not"),
        (1.10, 0.93, Slower, "not"),
        (1.50, 1.50, Noisy, "incomparable"),
        (1.50, 1.50, Suspect(Suspicion::Audit), "not"),
    ] {
        let outcome = reproduced(
            (&claim(claimed), &conditions()),
            (&found(ratio, comparison), &conditions()),
        );
        assert_eq!(named(&outcome), expected, "{claimed} {ratio} {comparison:?}");
    }
}

#[test]
fn another_program_class_or_baseline_is_no_reproduction() {
    let look = |spoil: &dyn Fn(&mut Conclusion, &mut Conditions)| {
        let (mut again, mut here) = (found(1.5, Comparison::Faster), conditions());
        spoil(&mut again, &mut here);
        named(&reproduced((&claim(1.5), &conditions()), (&again, &here)))
    };
    assert_eq!(look(&|_, _| {}), "reproduced");
    assert_eq!(look(&|_, here| here.ptx_hash = "other".to_owned()), "not");
    // Another compiler gives another program, and the times are still compared.
    let other_compiler = |_: &mut Conclusion, here: &mut Conditions| {
        here.ptx_hash = "other".to_owned();
        here.toolchain_id = "12.9".to_owned();
    };
    assert_eq!(look(&other_compiler), "reproduced");
    let lacking = |again: &mut Conclusion, _: &mut Conditions| {
        again.verdict = Verdict::failed(Reason::Unsupported, "killed by signal 9");
    };
    assert_eq!(look(&lacking), "incomparable");
    let wrong = |again: &mut Conclusion, _: &mut Conditions| {
        again.verdict = Verdict::failed(Reason::Shape, "at a hidden shape");
    };
    assert_eq!(look(&wrong), "not");
    let class = |again: &mut Conclusion, _: &mut Conditions| {
        again.kind.as_mut().unwrap().class = Precision::Tf32;
    };
    assert_eq!(look(&class), "not");
    let unstable = |again: &mut Conclusion, _: &mut Conditions| {
        again.kind.as_mut().unwrap().deterministic = false;
    };
    assert_eq!(look(&unstable), "not");
    let untimed = |again: &mut Conclusion, _: &mut Conditions| again.against.clear();
    assert_eq!(look(&untimed), "incomparable");
    let nothing = |again: &mut Conclusion, _: &mut Conditions| again.comparison = None;
    assert_eq!(look(&nothing), "incomparable");
}

#[test]
fn other_cards_and_compilers_are_not_comparable() {
    let here = conditions();
    let other_card = Conditions { device_model: "A100".to_owned(), ..conditions() };
    let other_compiler = Conditions { toolchain_id: "12.9".to_owned(), ..conditions() };
    for (claimed, any, comparable) in [
        (&here, false, true),
        (&other_card, false, false),
        (&other_card, true, false),
        (&other_compiler, false, false),
        (&other_compiler, true, true),
    ] {
        assert_eq!(incomparable(claimed, &here, any).is_none(), comparable, "{claimed:?}");
    }
}

#[test]
fn what_a_recheck_says() {
    use Comparison::{Faster, Noisy, Same};
    for (ratio, comparison, expected) in [
        (1.50, Faster, "holds"),
        (1.60, Faster, "holds"),
        (1.48, Faster, "holds"),
        (1.40, Faster, "weaker"),
        (1.01, Same, "lost"),
        (1.50, Noisy, "incomparable"),
    ] {
        let name = match rechecked(&claim(1.5), &found(ratio, comparison)) {
            Recheck::Holds { .. } => "holds",
            Recheck::Weaker { .. } => "weaker",
            Recheck::Lost(why) => {
                assert_eq!(why, "in numbers");
                "lost"
            }
            Recheck::NotComparable(_) => "incomparable",
        };
        assert_eq!(name, expected, "{ratio} {comparison:?}");
    }
    let mut wrong = found(1.5, Comparison::Faster);
    wrong.verdict = Verdict::failed(Reason::Mismatch, "off");
    assert!(matches!(rechecked(&claim(1.5), &wrong), Recheck::Lost(_)));
    wrong.verdict = Verdict::failed(Reason::Unsupported, "killed by signal 9");
    assert!(matches!(rechecked(&claim(1.5), &wrong), Recheck::NotComparable(_)));
}

#[test]
fn only_an_independent_look_confirms() {
    let cards = |uuid: &str| BTreeSet::from([uuid.to_owned()]);
    let at = |process: &str, day, uuid: &str| Circumstances {
        process: process.to_owned(),
        day,
        cards: cards(uuid),
    };
    let first = at("a", 10, "GPU-1");
    for (again, expected) in [
        (at("a", 11, "GPU-2"), false),
        (at("b", 10, "GPU-1"), false),
        (at("b", 11, "GPU-1"), true),
        (at("b", 10, "GPU-2"), true),
        (Circumstances { cards: BTreeSet::new(), ..at("b", 10, "GPU-1") }, false),
    ] {
        assert_eq!(confirms(&first, &again), expected, "{again:?}");
    }
}

#[test]
fn class_and_determinism_are_compared_without_a_second_claim_too() {
    let look = |spoil: &dyn Fn(&mut Kind)| {
        let mut again = found(1.02, Comparison::Same);
        assert_eq!(again.claim, None);
        spoil(again.kind.as_mut().unwrap());
        named(&reproduced((&claim(1.1), &conditions()), (&again, &conditions())))
    };
    assert_eq!(look(&|_| {}), "reproduced");
    assert_eq!(look(&|kind| kind.class = Precision::Tf32), "not");
    assert_eq!(look(&|kind| kind.deterministic = false), "not");
}

/// An interval across the border at 3 % is a measurement like any other.
#[test]
fn a_narrow_interval_is_compared_whatever_it_says() {
    let mut again = found(1.03, Comparison::Noisy);
    again.against[0].interval.half_width = 0.01;
    for (claimed, expected) in [(1.1, "reproduced"), (1.5, "not")] {
        let outcome = reproduced((&claim(claimed), &conditions()), (&again, &conditions()));
        assert_eq!(named(&outcome), expected, "{claimed}");
    }
}

#[test]
fn a_rival_that_the_claimant_lacked_may_not_be_faster_than_the_kernel() {
    for (rival_ratio, expected) in [(0.7, "not"), (0.97, "not"), (1.2, "reproduced")] {
        let mut again = found(1.5, Comparison::Faster);
        let rival = BaselineId { kind: BaselineKind::Compile, math: MathMode::Strict };
        let comparison = Comparison::Slower;
        let stronger = Against { baseline: rival, comparison, ..against(rival_ratio, 0.01) };
        again.against.insert(0, stronger);
        let outcome = reproduced((&claim(1.5), &conditions()), (&again, &conditions()));
        assert_eq!(named(&outcome), expected, "{rival_ratio}: {outcome:?}");
        if let Reproduction::NotReproduced(why) = &outcome {
            assert!(why.contains("torch.compile"), "{why}");
        }
    }
}

#[test]
fn another_shape_is_not_comparable() {
    let dims = |rows| BTreeMap::from([("rows".to_owned(), rows)]);
    for (rows, expected) in [(64, "reproduced"), (32, "incomparable")] {
        let mut claimed = claim(1.5);
        claimed.cases.push(CaseTime {
            case: "headline".to_owned(),
            weight: 1.0,
            dims: dims(64),
            candidate_ns: 1000.0,
            baseline_ns: 1500.0,
            candidate_mj: None,
            baseline_mj: None,
        });
        let mut again = found(1.5, Comparison::Faster);
        again.kind.as_mut().unwrap().shapes.insert("headline".to_owned(), dims(rows));
        let outcome = reproduced((&claimed, &conditions()), (&again, &conditions()));
        assert_eq!(named(&outcome), expected, "{outcome:?}");
    }
}

#[test]
fn what_a_person_let_pass_is_no_failure_the_second_time() {
    let raised = |suspicion, by| Raised { suspicion, by, detail: "odd".to_owned() };
    let timers = || raised(Suspicion::Audit, RaisedBy::Check(Check::Timers));
    let times = || raised(Suspicion::Physics, RaisedBy::Times);
    let growth = || raised(Suspicion::Audit, RaisedBy::Check(Check::Growth));
    for (accepted, again, ratio, expected) in [
        (vec![timers()], vec![timers()], 1.5, ("reproduced", true)),
        (vec![timers(), times()], vec![timers()], 1.5, ("reproduced", true)),
        (vec![timers()], vec![timers()], 1.1, ("not", true)),
        // Another check, another kind, or one more than was looked at.
        (vec![timers()], vec![growth()], 1.5, ("not", false)),
        (vec![timers()], vec![times()], 1.5, ("not", false)),
        (vec![timers()], vec![timers(), times()], 1.5, ("not", false)),
        (Vec::new(), vec![timers()], 1.5, ("not", false)),
    ] {
        let accepted = Claim { accepted, ..claim(1.5) };
        let suspect = Comparison::Suspect(again[0].suspicion);
        let fresh = found(ratio, Comparison::Faster);
        let second = Conclusion { comparison: Some(suspect), claim: None, raised: again, ..fresh };
        let outcome = reproduced((&accepted, &conditions()), (&second, &conditions()));
        let held = !matches!(rechecked(&accepted, &second), Recheck::Lost(_));
        assert_eq!((named(&outcome), held), expected, "{accepted:?} {second:?}");
    }
}
