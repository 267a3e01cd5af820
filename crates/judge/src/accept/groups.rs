//! The groups of trials of an acceptance: more shapes and distributions than a promote has, races,
//! a history, the public cases once more.

use pipeline::inputs::{MasterSeed, Poison};
use pipeline::task::spec::{Case, TaskSpec};
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::hidden::{Group, Runs, garbage};
use crate::limits::{
    ACCEPT_DISTRIBUTIONS, ACCEPT_SHAPES, HIDDEN_BYTES_GPU, HIDDEN_BYTES_SIM, RACES,
};
use crate::promote::as_state;
use crate::trials::TrialSpec;
use crate::{Judge, JudgeError};

/// Names of the groups, in their order.
pub(super) fn names(spec: &TaskSpec) -> Vec<String> {
    let shapes = (1..=ACCEPT_SHAPES).map(|index| format!("shape {index}"));
    let public = spec.cases.iter().map(|case| format!("public {}", case.name));
    let others = ["history", "races"].map(str::to_owned);
    shapes.chain(public).chain(others).collect()
}

impl Judge {
    /// Runs one group.
    pub(super) fn accept_group(
        &self,
        evaluation: &Evaluation<'_>,
        group: &str,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        if let Some(name) = group.strip_prefix("public ") {
            let spec = &evaluation.task.spec;
            let case = spec.cases.iter().enumerate().find(|(_, case)| case.name == name);
            let looked_at =
                |case: &Case| self.is_looked_at(spec, case) && self.is_inside(evaluation, case);
            return match case.filter(|(_, case)| looked_at(case)) {
                Some((index, case)) => {
                    let turn = ACCEPT_SHAPES + index;
                    self.case_group(evaluation, case, turn, secret, cancel)
                }
                // The headline is verified in every window; others are outside the plan's domain.
                None => Ok(Group::passed()),
            };
        }
        let number = group.strip_prefix("shape ").and_then(|text| text.parse::<usize>().ok());
        let cases = self.accept_cases(evaluation);
        if let Some(number) = number {
            let case = cases.get(number - 1);
            return match case {
                Some(case) => self.case_group(evaluation, case, number, secret, cancel),
                // A narrow domain has fewer shapes; the claim says so.
                None => Ok(Group::passed()),
            };
        }
        let spec = &evaluation.task.spec;
        let size = |case: &&Case| pipeline::hidden::tensor_bytes(spec, &case.dims);
        let public = spec.cases.iter().filter(|case| self.is_looked_at(spec, case));
        let inside = |case: &&Case| self.is_inside(evaluation, case);
        let smallest = cases.iter().chain(public).filter(inside).min_by_key(size);
        let Some(case) = smallest else { return Ok(Group::passed()) };
        match group {
            "history" => self.history_group(evaluation, case, secret, cancel),
            _ => self.races(evaluation, case, secret, cancel),
        }
    }

    /// The same shapes for every group of one acceptance.
    fn accept_cases(&self, evaluation: &Evaluation<'_>) -> Vec<Case> {
        let secret = MasterSeed(evaluation.seed.0).derive("accept");
        let bytes_max = match self.config.gpus {
            Some(_) => HIDDEN_BYTES_GPU,
            None => HIDDEN_BYTES_SIM,
        };
        let shapes = self.hidden_cases(evaluation, &secret, ACCEPT_SHAPES, bytes_max);
        shapes.into_iter().map(|(case, _)| case).collect()
    }

    fn case_group(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        turn: usize,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let Some(facts) = &evaluation.build.facts else { return Ok(Group::passed()) };
        let plan = match self.plan_at(evaluation, facts, case) {
            Ok(plan) => plan,
            Err(verdict) => return Ok(Group::early(verdict)),
        };
        let mut others = self.other_distributions(evaluation);
        let count = others.len().max(1);
        others.rotate_left(turn * (ACCEPT_DISTRIBUTIONS - 1) % count);
        let mut distributions = vec![self.plain_distribution()];
        distributions.extend(others.into_iter().take(ACCEPT_DISTRIBUTIONS - 1));
        let mut runs = self.case_runs(case, &plan, &distributions, secret);
        // Once more in a process of its own.
        let again = runs.specs.first().map(|first| TrialSpec {
            case,
            plan: plan.clone(),
            distribution: first.distribution,
            master: first.master,
            poison: first.poison,
            continues: false,
            twin_of: Some(0),
        });
        runs.specs.extend(again);
        self.run_group(evaluation, runs, cancel)
    }

    fn history_group(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let Some(facts) = &evaluation.build.facts else { return Ok(Group::passed()) };
        let plan = match self.plan_at(evaluation, facts, case) {
            Ok(plan) => plan,
            Err(verdict) => return Ok(Group::early(verdict)),
        };
        let runs = self.history_runs(case, &plan, secret);
        let mut group = self.run_group(evaluation, runs, cancel)?;
        group.verdict = as_state(&group);
        Ok(group)
    }

    /// Many runs on equal inputs, each with other garbage, order and place.
    fn races(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let Some(facts) = &evaluation.build.facts else { return Ok(Group::passed()) };
        let plan = match self.plan_at(evaluation, facts, case) {
            Ok(plan) => plan,
            Err(verdict) => return Ok(Group::early(verdict)),
        };
        let spec = |index: usize| TrialSpec {
            case,
            plan: plan.clone(),
            distribution: self.plain_distribution(),
            master: *secret,
            poison: match index % 2 {
                0 => Poison::Ones,
                _ => garbage(&secret.derive(&format!("race {index}"))),
            },
            continues: false,
            twin_of: (index > 0).then_some(0),
        };
        let specs: Vec<_> = (0..RACES).map(spec).collect();
        self.run_group(evaluation, Runs { fresh_from: specs.len(), specs }, cancel)
    }
}
