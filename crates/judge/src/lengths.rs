//! The precision class of a kernel at several accumulation lengths.

use pipeline::build::BuildFacts;
use pipeline::check::OutputCheck;
use pipeline::defence::Defence;
use pipeline::inputs::MasterSeed;
use pipeline::lengths::{lengths, tells_classes};
use pipeline::limits::NORM_ELEMENTS_MIN;
use pipeline::report::{CaseReport, CaseStatus};
use pipeline::task::spec::{Case, Place, Precision};
use pipeline::verdict::Reason;
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::hidden::Group;
use crate::{Judge, JudgeError};

/// Operand types of matrix instructions that round what was stored in fp32.
const ROUNDING_TYPES: [&str; 3] = ["tf32", "bf16", "f16"];
/// What the names of these groups begin with.
const GROUP: &str = "class at length ";
/// The group of a task that has no shape for any length.
const NO_LENGTH: &str = "class at any length";

/// The length that a group measures at; `None` for other groups.
pub(crate) fn of_group(name: &str) -> Option<i64> {
    name.strip_prefix(GROUP)?.parse().ok()
}

/// True for the group that stands for lengths where there are none.
pub(crate) fn is_without_length(name: &str) -> bool {
    name == NO_LENGTH
}

/// What that group comes to.
pub(crate) fn without_length() -> Group {
    Group::unprobed("no shape of any length is in the task's ranges and the plan's domain")
}

impl Judge {
    /// Names of the groups that measure the class, shortest length first; none where the task's
    /// error does not tell classes apart.
    pub(crate) fn length_groups(&self, evaluation: &Evaluation<'_>) -> Vec<String> {
        let cases = self.length_cases(evaluation);
        let nowhere = cases.is_empty() && tells_classes(&evaluation.task.spec);
        let names = cases.iter().map(|(length, _)| format!("{GROUP}{length}"));
        names.chain(nowhere.then(|| NO_LENGTH.to_owned())).collect()
    }

    /// A shape for each length at which the class is measured, shortest first; none where the
    /// task's error does not tell classes apart.
    pub(crate) fn length_cases(&self, evaluation: &Evaluation<'_>) -> Vec<(i64, Case)> {
        if !self.config.policy.has(Defence::F) {
            return Vec::new();
        }
        let place = if self.config.gpus.is_some() { Place::Gpu } else { Place::Sim };
        let at = |dims| Case { name: "length".to_owned(), dims, weight: 0.0, on: vec![place] };
        let admits = |dims: &pipeline::hidden::Dims| self.is_inside(evaluation, &at(dims.clone()));
        let found = lengths(&evaluation.task.spec, place, self.hidden_bytes(), &admits);
        let case = |(length, dims)| {
            let name = format!("length {length}");
            (length, Case { name, ..at(dims) })
        };
        found.into_iter().map(case).collect()
    }

    /// Plain data at one length, compared in the declared class: what is less exact fails.
    pub(crate) fn length_group(
        &self,
        evaluation: &Evaluation<'_>,
        length: i64,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let cases = self.length_cases(evaluation);
        let case = cases.iter().find(|(other, _)| *other == length);
        let Some((_, case)) = case else {
            let why = format!("there is no shape of length {length}");
            return Err(JudgeError::Child { child: "accept", why });
        };
        match self.plan_at(evaluation, self.facts_of(evaluation)?, case) {
            Ok(plan) => {
                let plain = [self.plain_distribution()];
                let runs = self.case_runs(case, &plan, &plain, secret);
                let mut group = self.run_group(evaluation, runs, cancel)?;
                if group.verdict.is_correct() && group.errors.is_empty() {
                    let why = format!("no output has {NORM_ELEMENTS_MIN} elements for a norm");
                    group.unprobed.push(why);
                }
                Ok(group)
            }
            Err(verdict) => Ok(Group::early(verdict)),
        }
    }

    /// The lengths that a promote looks at: where a plan promises fp32 and its program has
    /// instructions that round operands. Splitting them is fine, and shown to be by this.
    ///
    /// # Errors
    /// A build without facts.
    pub(crate) fn doubted_lengths(
        &self,
        evaluation: &Evaluation<'_>,
    ) -> Result<Vec<i64>, JudgeError> {
        if doubted_types(evaluation, self.facts_of(evaluation)?).is_empty() {
            return Ok(Vec::new());
        }
        Ok(self.length_cases(evaluation).into_iter().map(|(length, _)| length).collect())
    }
}

/// Names the class where a plan promises fp32, its program has instructions that round operands,
/// and rounding explains what is wrong.
pub(crate) fn name_rounding(evaluation: &Evaluation<'_>, cases: &mut [CaseReport]) {
    let facts = evaluation.build.facts.as_ref();
    renamed(&facts.map_or_else(Vec::new, |facts| doubted_types(evaluation, facts)), cases);
}

fn renamed(types: &[&str], cases: &mut [CaseReport]) {
    if types.is_empty() {
        return;
    }
    for case in cases {
        let CaseStatus::Failed { reason, detail } = &mut case.status else { continue };
        let mut failed = case.checks.iter().filter(|check| check.failure.is_some());
        if *reason == Reason::Mismatch && failed.clone().all(OutputCheck::is_like_rounding) {
            *reason = Reason::Precision;
            let error = failed.next().map_or(0.0, |check| check.norm_error);
            let types = types.join(", ");
            *detail += &format!(
                "; its matrix instructions round operands ({types}), which explains such errors: \
                 norm-wise {error:.1e}"
            );
        }
    }
}

/// Operand types that round what was stored in fp32, where the plan promises fp32.
fn doubted_types<'a>(evaluation: &Evaluation<'_>, facts: &'a BuildFacts) -> Vec<&'a str> {
    let rounds = |name: &&String| ROUNDING_TYPES.iter().any(|kind| name.contains(kind));
    let inputs = &evaluation.task.spec.inputs;
    let wide = inputs.iter().any(|it| it.dtype.is_float() && it.dtype.bits() > 16);
    if !wide || evaluation.candidate.plan.precision > Precision::Fp32 {
        return Vec::new();
    }
    facts.mma_types.iter().filter(rounds).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use pipeline::check::OutputCheck;
    use pipeline::inputs::Distribution;
    use pipeline::report::{CaseReport, CaseStatus};
    use pipeline::verdict::Reason;

    use super::renamed;

    fn case(norm_error: f64, unwritten: u64) -> CaseReport {
        let check = OutputCheck {
            output: "c".to_owned(),
            elements: 1961,
            compared: 1961,
            wrong: 1891,
            unwritten,
            nonfinite: 0,
            first: Vec::new(),
            worst_ratio: 65.7,
            norm_error,
            norm_limit: 1e-5,
            worst_part_error: norm_error,
            pattern: String::new(),
            failure: Some(Reason::Mismatch),
        };
        CaseReport {
            case: "ragged".to_owned(),
            dims: BTreeMap::new(),
            distribution: Distribution::D1,
            status: CaseStatus::Failed { reason: Reason::Mismatch, detail: "far".to_owned() },
            checks: vec![check],
            counters: None,
            findings: Vec::new(),
        }
    }

    #[test]
    fn errors_of_rounding_are_called_so_and_no_others() {
        for (norm_error, unwritten, types, reason) in [
            (2.9e-4, 0, vec!["tf32"], Reason::Precision),
            (2.9e-4, 0, vec![], Reason::Mismatch),
            (2.9e-4, 1, vec!["tf32"], Reason::Mismatch),
            (0.3, 0, vec!["tf32"], Reason::Mismatch),
        ] {
            let mut cases = [case(norm_error, unwritten)];
            renamed(&types, &mut cases);
            let CaseStatus::Failed { reason: found, detail } = &cases[0].status else { panic!() };
            assert_eq!(*found, reason, "{norm_error} {unwritten} {types:?}");
            assert_eq!(detail.contains("(tf32)"), reason == Reason::Precision, "{detail}");
        }
    }
}
