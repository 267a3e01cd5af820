//! Admission: what a task showed of itself before anybody spends a token on it.
//!
//! The judge tries wrong answers and wrong kernels; this says what follows from how they fared.
//! [`Admission::tier`] is the rule.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// A mutant must exceed the tolerance by this factor somewhere.
pub const RATIO_MIN: f64 = 10.0;

/// What a task showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdmissionTier {
    /// Everything wrong is told from right.
    Proven,
    /// Some mutant would pass, or nothing wrong was tried.
    Weak,
    /// The reference or a wrong kernel does not do what it must, or an answer that needs no work
    /// is right or would pass.
    Refused,
}

/// How one mutant fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MutantReport {
    pub name: String,
    /// True for answers that no input needs to be looked at for: zeros, a mean, a copy, the
    /// previous call's output.
    pub idle: bool,
    pub outcome: MutantOutcome,
    /// Largest error over its tolerance, as far as it was tried; at most `f64::MAX`.
    pub ratio: f64,
    /// Where it was largest: case and distribution; empty where nothing differed.
    pub place: String,
}

/// What a mutant says about the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MutantOutcome {
    /// It differs enough to be told.
    Killed,
    /// It gives what the reference gives, bit for bit, on all data: it proves nothing.
    Equivalent,
    /// It is of a precision class that the task admits, and is expected to pass.
    Admitted,
    /// It is wrong and would pass.
    Survived,
}

/// How a kernel of `wrong/` fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrongReport {
    pub name: String,
    pub verdict: Verdict,
    /// What its `[expect]` says, in words; empty where an older program stored it.
    #[serde(default)]
    pub expected: String,
    pub as_expected: bool,
}

/// Everything that was tried.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Golden values that the reference does not give.
    pub deviations: u64,
    pub wrong: Vec<WrongReport>,
    pub mutants: Vec<MutantReport>,
    /// Cases and distributions where the reference is not finite: they tell nothing.
    pub silent: Vec<String>,
    /// Relations that the task states and its reference breaks, in words.
    #[serde(default)]
    pub broken_relations: Vec<String>,
}

impl AdmissionTier {
    pub const ALL: [Self; 3] = [Self::Proven, Self::Weak, Self::Refused];

    /// The name, as in files and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Proven => "proven",
            Self::Weak => "weak",
            Self::Refused => "refused",
        }
    }
}

impl Admission {
    /// What the task showed by all of it.
    #[must_use]
    pub fn tier(&self) -> AdmissionTier {
        if !self.refusals().is_empty() {
            AdmissionTier::Refused
        } else if !self.weaknesses().is_empty() {
            AdmissionTier::Weak
        } else {
            AdmissionTier::Proven
        }
    }

    /// Why nothing may be judged by the task; empty where something may.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let mut why = Vec::new();
        if self.deviations > 0 {
            why.push(format!("the reference does not give {} golden values", self.deviations));
        }
        let odd = self.wrong.iter().filter(|wrong| !wrong.as_expected);
        why.extend(odd.map(|it| {
            let (found, detail) =
                (&it.verdict, it.verdict.detail.lines().next().unwrap_or_default());
            format!("wrong/{} ends as {found} {detail}, expected is {}", it.name, it.expected)
        }));
        why.extend(self.broken_relations.iter().map(|words| format!("`metamorphic`: {words}")));
        let idle = self.survivors().filter(|mutant| mutant.idle);
        why.extend(idle.map(|it| format!("an answer without any work would pass: {}", it.name)));
        why
    }

    /// What a task that is not refused leaves open, a line each; empty for one that is proven.
    #[must_use]
    pub fn weaknesses(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let names: Vec<_> = self.survivors().map(|mutant| mutant.name.as_str()).collect();
        if !names.is_empty() {
            lines.push(format!("wrong answers that would pass: {}", names.join("; ")));
        }
        if !self.mutants.iter().any(|mutant| mutant.outcome == MutantOutcome::Killed) {
            lines.push("no mutant was told apart".to_owned());
        }
        if self.wrong.is_empty() {
            lines.push("no wrong kernel was rejected: nothing shows what would be".to_owned());
        }
        lines
    }

    fn survivors(&self) -> impl Iterator<Item = &MutantReport> {
        self.mutants.iter().filter(|mutant| mutant.outcome == MutantOutcome::Survived)
    }
}

#[cfg(test)]
mod tests {
    use super::{Admission, AdmissionTier, MutantOutcome, MutantReport, WrongReport};
    use crate::verdict::{Reason, Verdict};

    fn mutant(name: &str, idle: bool, outcome: MutantOutcome) -> MutantReport {
        MutantReport { name: name.to_owned(), idle, outcome, ratio: 1.0, place: String::new() }
    }

    fn proven() -> Admission {
        Admission {
            wrong: vec![WrongReport {
                name: "zeros".to_owned(),
                verdict: Verdict::failed(Reason::Mismatch, "all"),
                expected: "Wrong/MISMATCH".to_owned(),
                as_expected: true,
            }],
            mutants: vec![
                mutant("zeros", true, MutantOutcome::Killed),
                mutant("copy of `x`", true, MutantOutcome::Equivalent),
                mutant("inputs rounded to tf32", false, MutantOutcome::Admitted),
            ],
            ..Admission::default()
        }
    }

    #[test]
    fn what_survives_decides_the_tier() {
        let spoil = |change: &dyn Fn(&mut Admission)| {
            let mut admission = proven();
            change(&mut admission);
            (admission.tier(), admission.refusals(), admission.weaknesses())
        };
        let (tier, refusals, weaknesses) = spoil(&|_| {});
        assert_eq!((tier, refusals.len(), weaknesses.len()), (AdmissionTier::Proven, 0, 0));
        let survivor = mutant("inputs rounded to bf16", false, MutantOutcome::Survived);
        let (tier, _, weaknesses) = spoil(&|it| it.mutants.push(survivor.clone()));
        assert_eq!(tier, AdmissionTier::Weak);
        assert_eq!(weaknesses, ["wrong answers that would pass: inputs rounded to bf16"]);
        let (tier, refusals, _) = spoil(&|it| it.mutants[0].outcome = MutantOutcome::Survived);
        assert_eq!(tier, AdmissionTier::Refused);
        assert_eq!(refusals, ["an answer without any work would pass: zeros"]);
        for (change, tier) in [
            (&|it: &mut Admission| it.wrong.clear() as _, AdmissionTier::Weak),
            (&|it| it.mutants.clear(), AdmissionTier::Weak),
            (&|it| it.mutants.retain(|it| !it.idle), AdmissionTier::Weak),
            (&|it| it.wrong[0].as_expected = false, AdmissionTier::Refused),
            (&|it| it.deviations = 1, AdmissionTier::Refused),
            (&|it| it.broken_relations.push("rows".to_owned()), AdmissionTier::Refused),
        ] as [(&dyn Fn(&mut Admission), AdmissionTier); 6]
        {
            assert_eq!(spoil(change).0, tier);
        }
        let (_, refusals, _) = spoil(&|it| it.wrong[0].as_expected = false);
        let words = "wrong/zeros ends as Wrong/MISMATCH all, expected is Wrong/MISMATCH";
        assert_eq!(refusals, [words]);
    }
}
