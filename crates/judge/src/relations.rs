//! Relations between calls that a task states: no reference is needed to see them broken.
//!
//! What is stated and what follows from it is in `pipeline::metamorphic`; here the calls are made
//! and their outputs held against each other. Start at [`Judge::related_calls`].

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::build::BuildFacts;
use pipeline::defence::Defence;
use pipeline::inputs::{Distribution, MasterSeed, Poison};
use pipeline::metamorphic::{
    Array, Change, Relation, changed_input, is_exact, order, predicted, relations, split,
    with_bits_of,
};
use pipeline::plan::form::Algorithm;
use pipeline::task::Task;
use pipeline::task::spec::{Case, Role, TaskSpec, extents};
use pipeline::verdict::{Reason, Verdict};
use sandbox::CancelFlag;
use sandbox::wire::VerifyItem;

use crate::cases::{CaseData, Tensors, drawn_inputs, input_sizes, output_sizes};
use crate::compared::{Bulk, Compared, Declared, verify_items};
use crate::evaluate::Evaluation;
use crate::hidden::Group;
use crate::limits::SPREAD_SHARE_MAX;
use crate::trials::Trial;
use crate::{Judge, JudgeError};

/// Extents from which a permutation shows something.
const ROWS_MIN: i64 = 5;

/// A call with its inputs.
pub(crate) struct Call {
    pub(crate) case: Case,
    pub(crate) distribution: Distribution,
    pub(crate) inputs: Tensors,
}

/// A relation with the calls that it is about, by their indices.
pub(crate) struct Probe {
    pub(crate) relation: Relation,
    /// New index to old index, of a permutation.
    pub(crate) order: Vec<usize>,
    pub(crate) before: Vec<usize>,
    pub(crate) last: usize,
}

/// The calls of several relations on one case; what is drawn is drawn once.
pub(crate) struct Calls<'a> {
    task: &'a Task,
    /// The task with every float input an activation, so that small integers stay integers.
    plain: Task,
    case: &'a Case,
    secret: &'a MasterSeed,
    pub(crate) made: Vec<Call>,
    /// Index of the call on inputs as they were drawn, and the second draw.
    drawn: BTreeMap<Distribution, (usize, Tensors)>,
}

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

impl<'a> Calls<'a> {
    pub(crate) fn new(task: &'a Task, case: &'a Case, secret: &'a MasterSeed) -> Self {
        let mut plain = task.clone();
        for input in plain.spec.inputs.iter_mut().filter(|input| input.dtype.is_float()) {
            input.role = Role::Activation;
        }
        let (made, drawn) = (Vec::new(), BTreeMap::new());
        Self { task, plain, case, secret, made, drawn }
    }

    /// Makes the calls of a relation, which the case has something to show with.
    pub(crate) fn probe(&mut self, relation: Relation) -> Result<Probe, JudgeError> {
        // Sums of small integers are exact in any order.
        let linear = self.task.spec.metamorphic.is_linear();
        let distribution = match &relation {
            Relation::Permuted { .. } | Relation::Split { .. } if !linear => Distribution::D1,
            Relation::Permuted { .. } | Relation::Split { .. } => Distribution::D4,
            Relation::Added { .. } => Distribution::D4,
            Relation::Scaled { .. } => Distribution::D1,
        };
        let base = self.base(distribution)?;
        let mut indices = Vec::new();
        let (mut before, mut last) = (vec![base], None);
        match &relation {
            Relation::Permuted { dim } => {
                indices = order(self.case.dims[dim] as usize, self.secret);
                last = Some(self.call(distribution, &Change::Order { dim, order: &indices })?);
            }
            Relation::Split { dim } => {
                let Some((at, _)) = split(&self.case.dims, dim) else {
                    let (task, why) =
                        (self.task.spec.name.clone(), format!("`{dim}` has no parts"));
                    return Err(JudgeError::Reference { task, why });
                };
                let whole = self.case.dims[dim] as usize;
                let first = self.call(distribution, &Change::Part { dim, from: 0, to: at })?;
                let rest = self.call(distribution, &Change::Part { dim, from: at, to: whole })?;
                before = vec![first, rest];
            }
            Relation::Scaled { inputs } => {
                last = Some(self.call(distribution, &Change::Scale { inputs })?);
            }
            Relation::Added { inputs } => {
                before.push(self.call(distribution, &Change::Other { inputs })?);
                last = Some(self.call(distribution, &Change::Sum { inputs })?);
            }
        }
        Ok(Probe { relation, order: indices, before, last: last.unwrap_or(base) })
    }

    /// The call on inputs as they are drawn.
    fn base(&mut self, distribution: Distribution) -> Result<usize, JudgeError> {
        if let Some((index, _)) = self.drawn.get(&distribution) {
            return Ok(*index);
        }
        let task = if distribution == Distribution::D4 { &self.plain } else { self.task };
        let draw =
            |label| drawn_inputs(task, &self.case.dims, distribution, &self.secret.derive(label));
        let (inputs, other) = (draw("relation")?, draw("another draw")?);
        self.made.push(Call { case: self.case.clone(), distribution, inputs });
        self.drawn.insert(distribution, (self.made.len() - 1, other));
        Ok(self.made.len() - 1)
    }

    /// A call on changed inputs; what they are changed from was drawn before.
    fn call(
        &mut self,
        distribution: Distribution,
        change: &Change<'_>,
    ) -> Result<usize, JudgeError> {
        let spec = &self.task.spec;
        let broken = |why: String| JudgeError::Reference { task: spec.name.clone(), why };
        let mut case = self.case.clone();
        if let Change::Part { dim, from, to } = change {
            case.dims.insert((*dim).to_owned(), (to - from) as i64);
        }
        let Some((base, other)) = self.drawn.get(&distribution) else {
            return Err(broken("nothing was drawn".to_owned()));
        };
        let own = &self.made[*base].inputs;
        let sizes = input_sizes(spec, &case.dims).map_err(broken)?;
        let mut inputs = Tensors::room("related", sizes.into_iter())?;
        {
            let (own_map, other_map) = (own.memfd.map()?, other.memfd.map()?);
            for input in &spec.inputs {
                let dims = &self.case.dims;
                let extents = extents(&input.shape, dims).map_err(|it| broken(it.to_string()))?;
                let array = Array {
                    dtype: input.dtype,
                    extents: &extents,
                    bytes: own.of(&own_map, &input.name),
                };
                let second = other.of(&other_map, &input.name);
                let changed = changed_input(&input.name, &input.shape, array, second, change);
                let (offset, _) = inputs.places[&input.name];
                inputs.memfd.fill(offset as usize, &changed)?;
            }
        }
        inputs.memfd.seal_write()?;
        self.made.push(Call { case, distribution, inputs });
        Ok(self.made.len() - 1)
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
