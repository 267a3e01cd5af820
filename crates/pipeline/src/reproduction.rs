//! What a second look at a claim says: a stranger's reproduction, and a recheck on a later day.
//!
//! Nothing here measures. [`reproduced`] compares a claim with a fresh acceptance of the same
//! kernel by somebody else, [`rechecked`] with one of today; [`confirms`] says whether the second
//! look was independent of the first.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::acceptance::{Claim, Conclusion, Entry};
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
    match again.comparison {
        Some(Comparison::Noisy) => return Reproduction::NotComparable(again.cause.clone()),
        Some(Comparison::Suspect(_)) => return failed(again.cause.clone()),
        Some(Comparison::Faster | Comparison::Same | Comparison::Slower) => {}
        None => return Reproduction::NotComparable(again.cause.clone()),
    }
    let same = again.against.iter().find(|it| it.baseline == claim.against.baseline);
    let Some(same) = same else {
        let why = format!("{} was not timed here", claim.against.baseline);
        return Reproduction::NotComparable(why);
    };
    if let Some(why) = other_kind(claim, again) {
        return failed(why);
    }
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

/// Class or determinism of another kind than claimed, where the second look told them.
fn other_kind(claim: &Claim, again: &Conclusion) -> Option<String> {
    let found = again.claim.as_ref()?;
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
    match again.comparison {
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
mod tests {
    use std::collections::BTreeSet;

    use super::{
        Circumstances, Conditions, Recheck, Reproduction, confirms, incomparable, rechecked,
        reproduced,
    };
    use crate::acceptance::{Against, Claim, Conclusion, Scope};
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
        }
    }

    /// A second look that found this ratio.
    fn found(ratio: f64, comparison: Comparison) -> Conclusion {
        let faster = comparison == Comparison::Faster;
        Conclusion {
            verdict: Verdict::correct(),
            against: vec![against(ratio, 0.01)],
            comparison: Some(comparison),
            claim: faster.then(|| claim(ratio)),
            cause: "in numbers".to_owned(),
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
        let wrong = |again: &mut Conclusion, _: &mut Conditions| {
            again.verdict = Verdict::failed(Reason::Shape, "at a hidden shape");
        };
        assert_eq!(look(&wrong), "not");
        let lacking = |again: &mut Conclusion, _: &mut Conditions| {
            again.verdict = Verdict::failed(Reason::Unsupported, "killed by signal 9");
        };
        assert_eq!(look(&lacking), "incomparable");
        let class = |again: &mut Conclusion, _: &mut Conditions| {
            again.claim.as_mut().unwrap().class = Precision::Tf32;
        };
        assert_eq!(look(&class), "not");
        let unstable = |again: &mut Conclusion, _: &mut Conditions| {
            again.claim.as_mut().unwrap().deterministic = false;
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
}
