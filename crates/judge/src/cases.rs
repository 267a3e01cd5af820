//! Inputs and expected outputs of one case, in sealed memory.
//!
//! Nothing of this is ever written to a disk: what a search must not see is not there to be seen.

use std::collections::BTreeMap;
use std::sync::Arc;

use pipeline::dtype::Dtype;
use pipeline::expression::Expression;
use pipeline::hidden::tensor_bytes;
use pipeline::inputs::{Distribution, InputStream, MasterSeed};
use pipeline::scope::Scope;
use pipeline::task::Task;
use pipeline::task::signature::reference_outputs;
use pipeline::task::spec::{Case, Input, Role, TaskSpec, extents};
use rayon::prelude::*;
use sandbox::wire::Slice;
use sandbox::{CancelFlag, Memfd};

use crate::limits::{BATCHED_BYTES_MAX, BATCHED_RUNS_MAX, DRAW_ELEMENTS, TENSOR_ALIGN};
use crate::{Judge, JudgeError};

/// Tensors of one run in one memfd.
#[derive(Debug)]
pub(crate) struct Tensors {
    pub(crate) memfd: Memfd,
    /// Offset and bytes by name.
    pub(crate) places: BTreeMap<String, (u64, u64)>,
}

/// Inputs and expected outputs, both sealed against writing.
#[derive(Debug)]
pub(crate) struct CaseData {
    pub(crate) inputs: Tensors,
    pub(crate) expected: Tensors,
}

impl Tensors {
    /// Room for tensors of the given sizes, each aligned.
    pub(crate) fn room(
        name: &str,
        sizes: impl Iterator<Item = (String, u64)>,
    ) -> Result<Self, JudgeError> {
        let mut places = BTreeMap::new();
        let mut end = 0u64;
        for (tensor, bytes) in sizes {
            places.insert(tensor, (end, bytes));
            end = (end + bytes).next_multiple_of(TENSOR_ALIGN);
        }
        let memfd =
            Memfd::create(name, usize::try_from(end.max(TENSOR_ALIGN)).unwrap_or(usize::MAX))?;
        Ok(Self { memfd, places })
    }

    /// The bytes of a tensor in a map of the memfd; none of one that is not there.
    pub(crate) fn of<'m>(&self, map: &'m [u8], tensor: &str) -> &'m [u8] {
        let (offset, bytes) = self.places.get(tensor).copied().unwrap_or((0, 0));
        map.get(offset as usize..(offset + bytes) as usize).unwrap_or_default()
    }

    /// The slice of a tensor when the memfd has this index in a request.
    pub(crate) fn slice(&self, bulk: u32, tensor: &str) -> Option<Slice> {
        let (offset, bytes) = *self.places.get(tensor)?;
        Some(Slice { bulk, offset, bytes })
    }
}

impl Judge {
    /// Inputs and expected outputs for one shape, distribution and master seed.
    pub(crate) fn case_data(
        &self,
        task: &Task,
        dims: &BTreeMap<String, i64>,
        distribution: Distribution,
        master: &MasterSeed,
        cancel: &CancelFlag,
    ) -> Result<Arc<CaseData>, JudgeError> {
        self.cases.get_or_make(&case_key(task, dims, distribution, master), || {
            let inputs = drawn_inputs(task, dims, distribution, master)?;
            let expected = self.expected_outputs(task, dims, &inputs, cancel)?;
            Ok(CaseData { inputs, expected })
        })
    }

    /// Makes what is missing of several contents, so many in one child as its caps allow; large
    /// ones are left to be made alone.
    pub(crate) fn make_cases<'c>(
        &self,
        task: &Task,
        contents: impl Iterator<Item = (&'c Case, Distribution, &'c MasterSeed)>,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        let mut missing = BTreeMap::new();
        for (case, distribution, master) in contents {
            let key = case_key(task, &case.dims, distribution, master);
            let bytes = tensor_bytes(&task.spec, &case.dims);
            let small = bytes.is_some_and(|bytes| bytes <= BATCHED_BYTES_MAX);
            if small && !self.cases.holds(&key) {
                missing.insert(key, (case, distribution, master));
            }
        }
        if missing.len() < 2 {
            return Ok(());
        }
        let build = self.reference_build(task, cancel)?;
        let missing: Vec<_> = missing.into_iter().collect();
        for batch in missing.chunks(BATCHED_RUNS_MAX) {
            let inputs = batch.iter().map(|(_, (case, distribution, master))| {
                drawn_inputs(task, &case.dims, *distribution, master)
            });
            let inputs: Vec<Tensors> = inputs.collect::<Result<_, _>>()?;
            let asked = batch.iter().zip(&inputs);
            let asked: Vec<_> = asked.map(|((_, (case, ..)), it)| (&case.dims, it)).collect();
            let expected = self.run_references(task, &build, &asked, cancel)?;
            for (((key, _), inputs), expected) in batch.iter().zip(inputs).zip(expected) {
                self.cases.put(key, CaseData { inputs, expected })?;
            }
        }
        Ok(())
    }
}

/// The task, the shape, and what its contents are drawn from.
fn case_key(
    task: &Task,
    dims: &BTreeMap<String, i64>,
    distribution: Distribution,
    master: &MasterSeed,
) -> String {
    format!("{} {dims:?} {distribution:?} {}", task.hash, master.digest())
}

impl CaseData {
    /// What it takes of the machine's memory.
    pub(crate) fn bytes(&self) -> u64 {
        (self.inputs.memfd.bytes() + self.expected.memfd.bytes()) as u64
    }
}

/// A poisoned lock only means that another evaluation panicked; the cache itself is whole.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Inputs without what is expected of them, for windows whose outputs nobody compares.
pub(crate) fn uncompared(
    task: &Task,
    case: &Case,
    distribution: Distribution,
    master: &MasterSeed,
) -> Result<Arc<CaseData>, JudgeError> {
    let inputs = drawn_inputs(task, &case.dims, distribution, master)?;
    let expected = Tensors::room("nothing", std::iter::empty())?;
    Ok(Arc::new(CaseData { inputs, expected }))
}

pub(crate) fn drawn_inputs(
    task: &Task,
    dims: &BTreeMap<String, i64>,
    distribution: Distribution,
    master: &MasterSeed,
) -> Result<Tensors, JudgeError> {
    let broken = |why: String| JudgeError::Reference { task: task.spec.name.clone(), why };
    let sizes = input_sizes(&task.spec, dims).map_err(broken)?;
    let mut tensors = Tensors::room("inputs", sizes.into_iter())?;
    {
        let mut map = tensors.memfd.map_mut()?;
        for input in &task.spec.inputs {
            let parameter = role_parameter(input, dims).map_err(broken)?;
            let mut stream = InputStream::new(master, distribution, input, parameter);
            let shape = extents(&input.shape, dims).map_err(|error| broken(error.to_string()))?;
            if let [.., _, columns] = shape[..] {
                stream = stream.with_row(columns);
            }
            let (offset, bytes) = tensors.places[&input.name];
            draw(&stream, input.dtype, &mut map[offset as usize..(offset + bytes) as usize]);
        }
    }
    tensors.memfd.seal_write()?;
    Ok(tensors)
}

fn draw(stream: &InputStream, dtype: Dtype, out: &mut [u8]) {
    let chunk_bytes = DRAW_ELEMENTS * dtype.bits() as usize / 8;
    out.par_chunks_mut(chunk_bytes)
        .enumerate()
        .for_each(|(index, chunk)| stream.fill((index * DRAW_ELEMENTS) as u64, chunk));
}

/// Name and bytes of each input at a shape.
pub(crate) fn input_sizes(
    spec: &TaskSpec,
    dims: &BTreeMap<String, i64>,
) -> Result<Vec<(String, u64)>, String> {
    let size = |input: &Input| {
        let bytes = TaskSpec::tensor_bytes(input.dtype, &input.shape, dims);
        bytes.map(|bytes| (input.name.clone(), bytes)).map_err(|error| error.to_string())
    };
    spec.inputs.iter().map(size).collect()
}

/// Name and bytes of each output of a candidate at a shape.
pub(crate) fn output_sizes(
    spec: &TaskSpec,
    dims: &BTreeMap<String, i64>,
) -> Result<Vec<(String, u64)>, String> {
    let size = |output: &pipeline::task::spec::Output| {
        let bytes = TaskSpec::tensor_bytes(output.dtype, &output.shape, dims);
        bytes.map(|bytes| (output.name.clone(), bytes)).map_err(|error| error.to_string())
    };
    spec.outputs.iter().map(size).collect()
}

/// Name, type and bytes of each output of the reference at a shape.
pub(crate) fn reference_sizes(
    spec: &TaskSpec,
    dims: &BTreeMap<String, i64>,
) -> Result<Vec<(String, Dtype, u64)>, String> {
    let size = |(name, dtype, shape): (String, Dtype, Vec<String>)| {
        let bytes = TaskSpec::tensor_bytes(dtype, &shape, dims);
        bytes.map(|bytes| (name, dtype, bytes)).map_err(|error| error.to_string())
    };
    reference_outputs(spec).into_iter().map(size).collect()
}

/// True for inputs that a plan may prepare.
pub(crate) fn is_weight(input: &Input) -> bool {
    matches!(input.role, Role::Weight(_) | Role::NormWeight | Role::Bias | Role::Table)
}

/// Value of the expression in an input's role; 1 for roles without one.
pub(crate) fn role_parameter(input: &Input, dims: &BTreeMap<String, i64>) -> Result<i64, String> {
    let (Role::Weight(text) | Role::Index(text) | Role::Lengths(text)) = &input.role else {
        return Ok(1);
    };
    let names = dims.keys().cloned().collect();
    let parsed = Expression::parse(text, &names).map_err(|error| error.to_string())?;
    parsed.integer(&Scope::of_dims(dims)).map_err(|error| error.to_string())
}
