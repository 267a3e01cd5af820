//! What hidden cases said of a candidate, as much of it as anybody is told.
//!
//! A model that learns which hidden shape failed learns the hidden set. So one coarse word goes
//! back, and every failure costs its lineage a strike: see [`strikes_left`].

use serde::{Deserialize, Serialize};

use crate::attempt::Attempt;
use crate::limits::STRIKES;
use crate::verdict::{Reason, Verdict};

/// How a promote ended.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Promotion {
    /// It is right where nobody was shown, and replaces the incumbent; by the times side by side it
    /// is so many times as fast, where there was an incumbent and a GPU.
    Passed {
        ratio: Option<f64>,
    },
    /// It is right, and not faster than the incumbent beside it.
    NotFaster {
        ratio: f64,
    },
    Failed(Coarse),
}

/// All that is told of a hidden failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coarse {
    HiddenShape,
    HiddenDistribution,
    Determinism,
    Precision,
    Physics,
}

impl Coarse {
    /// The word for a failure that hidden cases showed.
    #[must_use]
    pub fn of(reason: Reason) -> Self {
        match reason {
            Reason::Dist | Reason::Nonfinite => Self::HiddenDistribution,
            Reason::Nondet | Reason::State => Self::Determinism,
            Reason::Precision => Self::Precision,
            Reason::Shape | Reason::Guard | Reason::Crash | Reason::Timeout => Self::HiddenShape,
            Reason::Mismatch | Reason::Poison | Reason::Input | Reason::Launch => Self::HiddenShape,
            Reason::Reply | Reason::Plan | Reason::Static | Reason::Compile => Self::HiddenShape,
            Reason::Unsupported => Self::HiddenShape,
        }
    }

    /// The word, as in files and prompts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::HiddenShape => "hidden-shape",
            Self::HiddenDistribution => "hidden-distribution",
            Self::Determinism => "determinism",
            Self::Precision => "precision",
            Self::Physics => "physics",
        }
    }

    /// What the model is told.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::HiddenShape => "it fails at a shape that is not among the public cases",
            Self::HiddenDistribution => "it fails on other inputs at a shape where plain ones pass",
            Self::Determinism => {
                "equal inputs gave other results: far ones, or other bits without \
                 `deterministic = false` in the plan"
            }
            Self::Precision => "it is less exact than its declared precision class",
            Self::Physics => "it takes less time than the work can take",
        }
    }
}

/// The verdict that an attempt ends with after a hidden failure: one for each word, so that its
/// kind and reason tell no more than the word does.
#[must_use]
pub fn told(coarse: Coarse) -> Verdict {
    let reason = match coarse {
        Coarse::HiddenShape => Reason::Shape,
        Coarse::HiddenDistribution => Reason::Dist,
        Coarse::Determinism => Reason::Nondet,
        Coarse::Precision => Reason::Precision,
        Coarse::Physics => Reason::Mismatch,
    };
    Verdict::failed(reason, format!("{}: {}", coarse.name(), coarse.describe()))
}

/// Failed promotes that the lineage of the newest attempt may still have: its chain of parents back
/// to the last candidate that was promoted.
#[must_use]
pub fn strikes_left(attempts: &[Attempt]) -> u32 {
    let mut left = STRIKES;
    let mut next = attempts.last();
    while let Some(attempt) = next {
        match attempt.promotion {
            Some(Promotion::Passed { .. }) => break,
            Some(Promotion::Failed(_)) => left = left.saturating_sub(1),
            Some(Promotion::NotFaster { .. }) | None => {}
        }
        // A parent is always older, so this ends.
        let parent = attempt.parent.filter(|parent| *parent < attempt.seq);
        next = parent.and_then(|parent| attempts.iter().find(|other| other.seq == parent));
    }
    left
}

#[cfg(test)]
mod tests {
    use super::{Coarse, told};
    use crate::verdict::{Reason, Verdict};

    const WORDS: [Coarse; 5] = [
        Coarse::HiddenShape,
        Coarse::HiddenDistribution,
        Coarse::Determinism,
        Coarse::Precision,
        Coarse::Physics,
    ];

    #[test]
    fn nothing_but_the_word_is_told() {
        let shape = told(Coarse::HiddenShape);
        assert_eq!(
            shape.detail,
            "hidden-shape: it fails at a shape that is not among the public cases"
        );
        // A hang, a fault and poison at a hidden shape end in one verdict.
        let mut ends: Vec<Verdict> = Vec::new();
        for end in Reason::ALL.map(|reason| told(Coarse::of(reason))) {
            if !ends.contains(&end) {
                ends.push(end);
            }
        }
        assert_eq!(ends.len(), WORDS.len() - 1, "{ends:?}");
        for word in WORDS {
            let end = told(word);
            assert!(!end.is_correct() && end.detail.starts_with(word.name()), "{end:?}");
        }
    }
}
