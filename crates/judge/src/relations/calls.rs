//! The calls that relations are about, and how their inputs are made. Start at [`Calls::probe`].

use std::collections::BTreeMap;

use pipeline::inputs::{Distribution, MasterSeed};
use pipeline::metamorphic::{Array, Change, Relation, changed_input, order, split};
use pipeline::task::Task;
use pipeline::task::spec::{Case, Role, extents};

use crate::JudgeError;
use crate::cases::{Tensors, drawn_inputs, input_sizes};

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
