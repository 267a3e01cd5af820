//! The precision class of a kernel at several accumulation lengths.

use pipeline::defence::Defence;
use pipeline::inputs::MasterSeed;
use pipeline::lengths::{lengths, tells_classes};
use pipeline::limits::NORM_ELEMENTS_MIN;
use pipeline::task::spec::{Case, Place, Precision};
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
        let facts = self.facts_of(evaluation)?;
        let spec = &evaluation.task.spec;
        let rounds = |name: &String| ROUNDING_TYPES.iter().any(|kind| name.contains(kind));
        let wide = spec.inputs.iter().any(|it| it.dtype.is_float() && it.dtype.bits() > 16);
        let promised = evaluation.candidate.plan.precision <= Precision::Fp32;
        if !(wide && promised && facts.mma_types.iter().any(rounds)) {
            return Ok(Vec::new());
        }
        Ok(self.length_cases(evaluation).into_iter().map(|(length, _)| length).collect())
    }
}
