//! Relations between calls that a task states: no reference is needed to see them broken.
//!
//! What is stated and what follows from it is in `pipeline::metamorphic`; here the calls are made
//! and their outputs held against each other. Start at [`Judge::related_calls`].

pub(crate) mod calls;

use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::defence::Defence;
use pipeline::inputs::{MasterSeed, Poison};
use pipeline::metamorphic::{Array, Relation, is_exact, predicted, relations, split, with_bits_of};
use pipeline::plan::form::Algorithm;
use pipeline::task::spec::{Case, TaskSpec, extents};
use pipeline::verdict::{Reason, Verdict};
use sandbox::CancelFlag;
use sandbox::wire::VerifyItem;

use self::calls::{Call, Calls, Probe};
use crate::cases::{CaseData, Tensors, output_sizes};
use crate::compared::{Bulk, Compared, Declared, verify_items};
use crate::evaluate::Evaluation;
use crate::hidden::Group;
use crate::limits::SPREAD_SHARE_MAX;
use crate::trials::Trial;
use crate::{Judge, JudgeError};

/// Extents from which a permutation shows something.
const ROWS_MIN: i64 = 5;

/// True for a case that has something to permute and to split along every dimension of rows.
pub(crate) fn is_rich(spec: &TaskSpec, case: &Case) -> bool {
    let rows = &spec.metamorphic.rows;
    rows.iter().all(|dim| case.dims.get(dim).is_some_and(|extent| *extent >= ROWS_MIN))
}

impl Judge {
    /// Tries up to so many of the relations that the task states, on the first case that has
    /// something to permute and to split, else on the first.
    pub(crate) fn related_calls(
        &self,
        evaluation: &Evaluation<'_>,
        cases: &[Case],
        count_max: usize,
        secret: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let spec = &evaluation.task.spec;
        let here = |case: &&Case| self.is_looked_at(spec, case) && self.is_inside(evaluation, case);
        let public: Vec<&Case> = spec.cases.iter().filter(here).collect();
        let mut all = cases.iter().chain(public.iter().copied());
        let found = all.clone().find(|case| is_rich(spec, case)).or_else(|| all.next());
        match found {
            Some(case) => self.relations_group(evaluation, case, secret, count_max, cancel),
            None => Ok(Group::unprobed("no case that runs here is inside the plan's domain")),
        }
    }

    fn relations_group(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        secret: &MasterSeed,
        count_max: usize,
        cancel: &CancelFlag,
    ) -> Result<Group, JudgeError> {
        let wanted = relations(&evaluation.task.spec.metamorphic);
        if wanted.is_empty() {
            return Ok(Group::unprobed("the task states no relation between calls"));
        }
        if !self.config.policy.has(Defence::F) {
            return Ok(Group::unprobed("relations are off"));
        }
        let mut calls = Calls::new(evaluation.task, case, secret);
        let (mut probes, mut unprobed) = (Vec::new(), Vec::new());
        for relation in wanted {
            if probes.len() == count_max {
                break;
            }
            match self.shows_nothing(evaluation, case, &relation) {
                Some(why) => unprobed.push(format!("{}: {why}", relation.name())),
                None => probes.push(calls.probe(relation)?),
            }
        }
        if probes.is_empty() {
            return Ok(Group { unprobed, ..Group::passed() });
        }
        let made = std::mem::take(&mut calls.made);
        let cases: Vec<Case> = made.iter().map(|call| call.case.clone()).collect();
        let runs = cases.iter().map(|case| (case, true));
        match self.check_room(evaluation.task, runs, cancel) {
            Err(JudgeError::NotAvailable(why)) => return Ok(Group::unprobed(&why)),
            other => other?,
        }
        let trials = match self.relation_trials(evaluation, made, &cases, cancel)? {
            Ok(trials) => trials,
            Err(verdict) => return Ok(Group::early(verdict)),
        };
        let mut group = self.run_trials(evaluation, &trials, trials.len(), cancel)?;
        group.unprobed = unprobed;
        // A crash that is forgiven has left nothing to compare.
        if group.verdict.is_correct() && !group.cases.is_empty() {
            group.verdict = self.related(evaluation, &trials, &probes, cancel)?;
        }
        Ok(group)
    }

    /// Why a case has nothing to show a relation with; `None` where it has.
    fn shows_nothing(
        &self,
        evaluation: &Evaluation<'_>,
        case: &Case,
        relation: &Relation,
    ) -> Option<&'static str> {
        let single = |dim: &String| case.dims.get(dim).is_none_or(|extent| *extent < 2);
        let floats = || evaluation.task.spec.outputs.iter().any(|it| it.dtype.is_float());
        match relation {
            Relation::Permuted { dim } | Relation::Split { dim } if single(dim) => {
                Some("the case has a single index")
            }
            Relation::Split { dim } if !self.splits_inside(evaluation, case, dim) => {
                Some("a part is outside the plan's domain or the task's ranges")
            }
            Relation::Added { .. } if !floats() => Some("no output has floats"),
            Relation::Permuted { .. } | Relation::Split { .. } => None,
            Relation::Scaled { .. } | Relation::Added { .. } => None,
        }
    }

    /// False where a part of the shape is outside the plan's domain or the task's ranges.
    fn splits_inside(&self, evaluation: &Evaluation<'_>, case: &Case, dim: &str) -> bool {
        let low = evaluation.task.spec.hidden.ranges.get(dim).map_or(1, |[low, _]| *low);
        split(&case.dims, dim).is_some_and(|(_, parts)| {
            parts.into_iter().all(|dims| {
                let part = Case { dims, ..case.clone() };
                part.dims[dim] >= low && self.is_inside(evaluation, &part)
            })
        })
    }

    fn relation_trials<'c>(
        &self,
        evaluation: &Evaluation<'_>,
        made: Vec<Call>,
        cases: &'c [Case],
        cancel: &CancelFlag,
    ) -> Result<Result<Vec<Trial<'c>>, Verdict>, JudgeError> {
        let facts = self.facts_of(evaluation)?;
        let calls = made.into_iter().zip(cases);
        calls
            .map(|(call, case)| self.relation_trial(evaluation, facts, call, case, cancel))
            .collect()
    }

    fn relation_trial<'c>(
        &self,
        evaluation: &Evaluation<'_>,
        facts: &BuildFacts,
        call: Call,
        case: &'c Case,
        cancel: &CancelFlag,
    ) -> Result<Result<Trial<'c>, Verdict>, JudgeError> {
        let task = evaluation.task;
        let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
        let plan = match self.plan_at(evaluation, facts, case) {
            Ok(plan) => plan,
            Err(verdict) => return Ok(Err(verdict)),
        };
        let expected = self.expected_outputs(task, &case.dims, &call.inputs, cancel)?;
        let data = Arc::new(CaseData { inputs: call.inputs, expected });
        let sizes = output_sizes(&task.spec, &case.dims).map_err(broken)?;
        let outputs = Tensors::room("outputs", sizes.into_iter())?;
        Ok(Ok(Trial::on(case, call.distribution, plan, data, outputs)))
    }

    /// Holds the outputs of the calls against each other; the first broken relation.
    fn related(
        &self,
        evaluation: &Evaluation<'_>,
        trials: &[Trial<'_>],
        probes: &[Probe],
        cancel: &CancelFlag,
    ) -> Result<Verdict, JudgeError> {
        let foretold = probes.iter().map(|probe| foretell(evaluation, trials, probe));
        let foretold = foretold.collect::<Result<Vec<Tensors>, _>>()?;
        let mut bulk = Bulk::default();
        let mut items = Vec::new();
        let mut owners: Vec<&Probe> = Vec::new();
        for (probe, tensors) in probes.iter().zip(&foretold) {
            let last = &trials[probe.last];
            let expected = bulk.index(&last.data.expected.memfd);
            let compared = Compared {
                case: last.case,
                distribution: last.distribution,
                outputs: (&last.outputs, bulk.index(&last.outputs.memfd)),
                expected: (&last.data.expected, expected),
                poison: Poison::Ones,
                declared: Declared::of(&evaluation.candidate.plan),
            };
            let at = bulk.index(&tensors.memfd);
            for item in verify_items(evaluation, &compared)? {
                let twin = tensors.slice(at, &item.name);
                owners.extend(twin.is_some().then_some(probe));
                items.extend(twin.map(|twin| VerifyItem { twin: Some(twin), ..item }));
            }
        }
        let spreads = self.verified(items, &bulk.0, cancel)?.spreads;
        let spreads: Vec<f64> = spreads.into_iter().flatten().map(|spread| spread.ratio).collect();
        let seen = |probe: &Probe| owners.iter().any(|owner| std::ptr::eq(*owner, probe));
        if spreads.len() != owners.len() || !probes.iter().all(seen) {
            let why = "it left out a relation".to_owned();
            return Err(JudgeError::Child { child: "verify", why });
        }
        let broken = owners.iter().zip(spreads).find_map(|(probe, apart)| {
            let exact = exactly(evaluation, &probe.relation);
            (apart > if exact { 0.0 } else { SPREAD_SHARE_MAX }).then_some((probe, apart))
        });
        Ok(broken.map_or_else(Verdict::correct, |(probe, apart)| {
            let case = &trials[probe.last].case.name;
            let words = probe.relation.describe();
            let detail = format!("case `{case}`: {words}: {apart:.2e} tolerances apart");
            Verdict::failed(Reason::Mismatch, detail)
        }))
    }
}

/// What the last call of a probe must have given, as far as that follows from the calls before.
fn foretell(
    evaluation: &Evaluation<'_>,
    trials: &[Trial<'_>],
    probe: &Probe,
) -> Result<Tensors, JudgeError> {
    let spec = &evaluation.task.spec;
    let broken = |why: String| JudgeError::Reference { task: spec.name.clone(), why };
    let mut contents = Vec::new();
    let maps = probe.before.iter().map(|index| trials[*index].outputs.memfd.map());
    let maps = maps.collect::<Result<Vec<_>, _>>()?;
    let last = trials[probe.last].outputs.memfd.map()?;
    for output in &spec.outputs {
        let shapes = probe.before.iter().map(|at| extents(&output.shape, &trials[*at].case.dims));
        let shapes = shapes.collect::<Result<Vec<_>, _>>().map_err(|it| broken(it.to_string()))?;
        let calls = probe.before.iter().zip(&maps).zip(&shapes);
        let before = calls.map(|((index, map), extents)| {
            let bytes = trials[*index].outputs.of(map, &output.name);
            Array { dtype: output.dtype, extents, bytes }
        });
        let before: Vec<_> = before.collect();
        let must = predicted(&probe.relation, &output.shape, &probe.order, &before);
        let got = trials[probe.last].outputs.of(&last, &output.name);
        let must = must.map(|bytes| with_bits_of(output.dtype, bytes, got));
        contents.extend(must.map(|bytes| (output.name.clone(), bytes)));
    }
    let sizes = contents.iter().map(|(name, bytes)| (name.clone(), bytes.len() as u64));
    let mut tensors = Tensors::room("foretold", sizes)?;
    for (name, bytes) in &contents {
        let (offset, _) = tensors.places[name];
        tensors.memfd.fill(offset as usize, bytes)?;
    }
    tensors.memfd.seal_write()?;
    Ok(tensors)
}

/// True where a relation must hold without any difference. Half precision has so few exponents
/// that a power of two changes its roundings.
fn exactly(evaluation: &Evaluation<'_>, relation: &Relation) -> bool {
    let plan = &evaluation.candidate.plan;
    let ptx = String::from_utf8_lossy(&evaluation.build.ptx);
    let narrow = [".f16", ".e4m3", ".e5m2"].iter().any(|name| ptx.contains(name));
    let direct = plan.algorithm == Algorithm::Direct;
    let (spec, precision) = (&evaluation.task.spec, plan.precision);
    is_exact(relation, spec, precision, (direct, plan.deterministic, narrow))
}
