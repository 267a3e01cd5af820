//! The groups of trials of an acceptance: more shapes and distributions than a promote has, races,
//! a history, the public cases once more.

use pipeline::acceptance::Scope;
use pipeline::inputs::{MasterSeed, Poison};
use pipeline::launch::ResolvedPlan;
use pipeline::task::spec::Case;
use sandbox::CancelFlag;

use crate::evaluate::Evaluation;
use crate::hidden::{Group, Runs, garbage};
use crate::lengths;
use crate::limits::{ACCEPT_DISTRIBUTIONS, ACCEPT_SHAPES, RACES_GPU, RACES_SIM};
use crate::promote::{as_state, nothing_inside};
use crate::trials::TrialSpec;
use crate::{Judge, JudgeError};

const SHAPE: &str = "shape ";
const PUBLIC: &str = "public ";
/// Calls on related inputs.
const RELATIONS: &str = "relations";
const HISTORY: &str = "history";
const RACES: &str = "races ";

/// What an acceptance of this candidate consists of besides its times.
pub(super) struct Groups {
    /// Their names, in their order.
    pub(super) names: Vec<String>,
    pub(super) scope: Scope,
}

impl Judge {
    /// The groups: hidden shapes and public cases inside the plan's domain, a history, races.
    pub(super) fn accept_groups(&self, evaluation: &Evaluation<'_>) -> Groups {
        let shapes = self.accept_cases(evaluation).len();
        let spec = &evaluation.task.spec;
        let here = spec.cases.iter().filter(|case| self.is_looked_at(spec, case));
        let (inside, outside): (Vec<&Case>, _) =
            here.partition(|case| self.is_inside(evaluation, case));
        let shape_names = (1..=shapes).map(|index| format!("{SHAPE}{index}"));
        let public = inside.iter().map(|case| format!("{PUBLIC}{}", case.name));
        let [races, _] = self.races();
        let race_names = (1..=races).map(|index| format!("{RACES}{index}"));
        let others = [RELATIONS, HISTORY].map(str::to_owned);
        let domain = evaluation.candidate.plan.domain.iter();
        Groups {
            names: shape_names
                .chain(public)
                .chain(self.length_groups(evaluation))
                .chain(others)
                .chain(race_names)
                .collect(),
            scope: Scope {
                domain: domain.map(|condition| condition.text().to_owned()).collect(),
                hidden_shapes: shapes,
                left_out: outside.iter().map(|case: &&Case| case.name.clone()).collect(),
            },
        }
    }

    /// Runs one group.
    pub(super) fn accept_group(
        &self,
        evaluation: &Evaluation<'_>,
        group: &str,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let shapes = self.accept_cases(evaluation);
        if group == RELATIONS {
            return self.related_calls(evaluation, &shapes, usize::MAX, secret, cancel);
        }
        if lengths::is_without_length(group) {
            return Ok(lengths::without_length());
        }
        if let Some(length) = lengths::of_group(group) {
            return self.length_group(evaluation, length, secret, cancel);
        }
        let Some((case, turn)) = self.case_of_group(evaluation, &shapes, group)? else {
            return Ok(Group::early(nothing_inside()));
        };
        let plan = match self.plan_at(evaluation, self.facts_of(evaluation)?, case) {
            Ok(plan) => plan,
            Err(verdict) => return Ok(Group::early(verdict)),
        };
        match group {
            HISTORY => {
                let runs = self.history_runs(case, &plan, secret);
                let mut group = self.run_group(evaluation, runs, cancel)?;
                group.verdict = as_state(&group);
                Ok(group)
            }
            races if races.starts_with(RACES) => {
                self.run_group(evaluation, self.race_runs(case, &plan, secret), cancel)
            }
            _ => {
                let runs = self.shape_runs(evaluation, (case, turn), &plan, secret);
                self.run_group(evaluation, runs, cancel)
            }
        }
    }

    /// The case that a group runs, and which turn of the distributions it has; `None` where the
    /// plan's domain holds no case.
    fn case_of_group<'c>(
        &self,
        evaluation: &Evaluation<'c>,
        shapes: &'c [Case],
        group: &str,
    ) -> Result<Option<(&'c Case, usize)>, JudgeError> {
        let spec = &evaluation.task.spec;
        let unknown = || JudgeError::Child {
            child: "accept",
            why: format!("there is no group `{group}` of trials"),
        };
        if let Some(name) = group.strip_prefix(PUBLIC) {
            let index = spec.cases.iter().position(|case| case.name == name).ok_or_else(unknown)?;
            Ok(Some((&spec.cases[index], ACCEPT_SHAPES + index)))
        } else if let Some(number) = group.strip_prefix(SHAPE) {
            let number: usize = number.parse().map_err(|_| unknown())?;
            Ok(Some((shapes.get(number.wrapping_sub(1)).ok_or_else(unknown)?, number)))
        } else {
            // Every other group of races has an odd shape.
            let number = group.strip_prefix(RACES).and_then(|number| number.parse::<usize>().ok());
            let odd = number.is_some_and(|number| number % 2 == 0);
            Ok(self.smallest_inside(evaluation, shapes, odd).map(|case| (case, 0)))
        }
    }

    /// Groups of races here, and the runs of each.
    fn races(&self) -> [usize; 2] {
        if self.config.gpus.is_some() { RACES_GPU } else { RACES_SIM }
    }

    /// The same shapes for every group of one acceptance.
    fn accept_cases(&self, evaluation: &Evaluation<'_>) -> Vec<Case> {
        let secret = MasterSeed(evaluation.seed.0).derive("accept");
        let shapes = self.hidden_cases(evaluation, &secret, ACCEPT_SHAPES, self.hidden_bytes());
        shapes.into_iter().map(|(case, _)| case).collect()
    }

    /// Histories and races need runs, not size. With `odd`, a shape without an even extent goes
    /// before all others.
    fn smallest_inside<'c>(
        &self,
        evaluation: &Evaluation<'c>,
        shapes: &'c [Case],
        odd: bool,
    ) -> Option<&'c Case> {
        let spec = &evaluation.task.spec;
        let public = spec.cases.iter().filter(|case| self.is_looked_at(spec, case));
        let inside = public.filter(|case| self.is_inside(evaluation, case));
        let is_even = |case: &Case| case.dims.values().any(|extent| extent % 2 == 0);
        let size = |case: &Case| pipeline::hidden::tensor_bytes(spec, &case.dims);
        shapes.iter().chain(inside).min_by_key(|case| (odd && is_even(case), size(case)))
    }

    /// Six distributions, each run twice; the first once more in a process of its own. `turn`
    /// varies which of them a case meets.
    fn shape_runs<'a>(
        &self,
        evaluation: &Evaluation<'_>,
        (case, turn): (&'a Case, usize),
        plan: &ResolvedPlan,
        secret: &MasterSeed,
    ) -> Runs<'a> {
        let mut others = self.other_distributions(evaluation);
        let count = others.len().max(1);
        others.rotate_left(turn * (ACCEPT_DISTRIBUTIONS - 1) % count);
        let mut distributions = vec![self.plain_distribution()];
        distributions.extend(others.into_iter().take(ACCEPT_DISTRIBUTIONS - 1));
        let mut runs = self.case_runs(case, plan, &distributions, secret);
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
        runs
    }

    /// Many runs on equal inputs, each with other garbage, order and place.
    fn race_runs<'a>(&self, case: &'a Case, plan: &ResolvedPlan, secret: &MasterSeed) -> Runs<'a> {
        let spec = |index: usize| TrialSpec {
            case,
            plan: plan.clone(),
            distribution: self.plain_distribution(),
            master: *secret,
            poison: match index % 10 {
                0 => Poison::Ones,
                _ => garbage(&secret.derive(&format!("race {index}"))),
            },
            continues: false,
            twin_of: (index > 0).then_some(0),
        };
        let [_, runs] = self.races();
        let specs: Vec<_> = (0..runs).map(spec).collect();
        Runs { fresh_from: specs.len(), specs }
    }
}
