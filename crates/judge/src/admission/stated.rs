//! The relations that a task states, held against its own reference: one that the reference breaks
//! would condemn right kernels.

use pipeline::check::Comparison;
use pipeline::inputs::Poison;
use pipeline::metamorphic::{Array, Relation, predicted, relations, split};
use pipeline::task::Task;
use pipeline::task::spec::{Case, Compare, Output, Place, Precision, TaskSpec, extents};
use sandbox::CancelFlag;

use super::{broken, narrowed, reference_name};
use crate::cases::Tensors;
use crate::relations::calls::{Call, Calls, Probe};
use crate::relations::is_rich;
use crate::{Judge, JudgeError, RunSeed};

/// A call, and what the reference gives for it.
type Answered = (Call, Tensors);

impl Judge {
    /// What the reference says against relations of `[metamorphic]`, a line each; tried at one
    /// simulated case.
    ///
    /// # Errors
    /// A reference that does not build or run here.
    pub fn broken_relations(
        &self,
        task: &Task,
        seed: &RunSeed,
        cancel: &CancelFlag,
    ) -> Result<Vec<String>, JudgeError> {
        let spec = &task.spec;
        let Some(case) = task.cases(Place::Sim).find(|case| is_rich(spec, case)) else {
            return Ok(Vec::new());
        };
        let secret = seed.master("relations", 0);
        let mut calls = Calls::new(task, case, &secret);
        let mut probes = Vec::new();
        for relation in relations(&spec.metamorphic) {
            if is_shown(spec, case, &relation) {
                probes.push(calls.probe(relation)?);
            }
        }
        let mut answered: Vec<Answered> = Vec::new();
        for call in calls.made {
            let given = self.expected_outputs(task, &call.case.dims, &call.inputs, cancel)?;
            answered.push((call, given));
        }
        let mut lines = Vec::new();
        for probe in &probes {
            for output in &spec.outputs {
                let ratio = apart(task, output, &answered, probe)?;
                lines.extend(ratio.map(|ratio| {
                    let (words, output) = (probe.relation.describe(), &output.name);
                    format!(
                        "{words}, but in its reference `{output}` is {ratio:.1e} tolerances off"
                    )
                }));
            }
        }
        Ok(lines)
    }
}

/// False where the parts of a case are outside the task's ranges.
fn is_shown(spec: &TaskSpec, case: &Case, relation: &Relation) -> bool {
    let Relation::Split { dim } = relation else { return true };
    let low = spec.hidden.ranges.get(dim).map_or(1, |[low, _]| *low);
    split(&case.dims, dim).is_some_and(|(_, parts)| parts.iter().all(|part| part[dim] >= low))
}

/// How many tolerances the reference's answer is from what the relation foretells; `None` where
/// the gate passes, and where nothing is foretold.
fn apart(
    task: &Task,
    output: &Output,
    answered: &[Answered],
    probe: &Probe,
) -> Result<Option<f64>, JudgeError> {
    let name = reference_name(output);
    let extents_of = |at: usize| {
        let (call, _) = &answered[at];
        extents(&output.shape, &call.case.dims).map_err(|error| broken(task, &error))
    };
    let values_of = |at: usize| -> Result<Vec<u8>, JudgeError> {
        let (_, given) = &answered[at];
        Ok(narrowed(output.dtype, given.of(&given.memfd.map()?, &name)))
    };
    let values = probe.before.iter().map(|at| Ok((extents_of(*at)?, values_of(*at)?)));
    let values: Vec<_> = values.collect::<Result<_, JudgeError>>()?;
    let before =
        values.iter().map(|(extents, bytes)| Array { dtype: output.dtype, extents, bytes });
    let before: Vec<_> = before.collect();
    let Some(must) = predicted(&probe.relation, &output.shape, &probe.order, &before) else {
        return Ok(None);
    };
    let (last, given) = &answered[probe.last];
    let map = given.memfd.map()?;
    let class = task.spec.classes.first().copied().unwrap_or(Precision::Fp32);
    let check = Comparison {
        name: &output.name,
        dtype: output.dtype,
        compare: output.compare,
        extents: &extents_of(probe.last)?,
        got: &must,
        reference: given.of(&map, &name),
        bound: (output.compare == Compare::Bound)
            .then(|| given.of(&map, &format!("{}_bound", output.name))),
        accumulation_unit: task.spec.accumulation_unit(class),
        shared_bound: 0.0,
        norm_limit: task.spec.norm_limit(class),
        norm_gate: last.distribution.norm_gate(),
        flush_denormals: task.spec.flush_denormals,
        poison: Poison::Ones,
    }
    .run();
    Ok(check.failure.map(|_| check.worst_ratio))
}
