//! The changed arrays: outputs and inputs as each kind of mutant makes them.

use pipeline::dtype::Dtype;
use pipeline::task::Task;
use pipeline::task::spec::{Input, Output, Precision, extents};

use super::mutants::{Mutant, Rounding};
use super::{Setting, broken, reference_name};
use crate::JudgeError;
use crate::cases::{Tensors, input_sizes};

/// Rows and columns of the tile that a kernel leaves out at the end.
const TILE: usize = 16;

/// Inputs under an input mutant; `None` where it changes nothing or does not apply.
pub(super) fn changed_inputs(
    task: &Task,
    mutant: &Mutant,
    setting: &Setting<'_>,
) -> Result<Option<Tensors>, JudgeError> {
    let sizes =
        input_sizes(&task.spec, &setting.case.dims).map_err(|error| broken(task, &error))?;
    let mut changed = Tensors::room("mutant", sizes.into_iter())?;
    let (own, other) = (setting.inputs.memfd.map()?, setting.other_inputs.memfd.map()?);
    let mut applies = false;
    for input in &task.spec.inputs {
        let (offset, bytes) = changed.places[&input.name];
        let range = offset as usize..(offset + bytes) as usize;
        let content = match mutant {
            Mutant::IndependentInput(name) if *name == input.name => other[range.clone()].to_vec(),
            Mutant::ConstantInput(name, value) if *name == input.name => {
                constant(input, *value, bytes)
            }
            Mutant::RoundedInputs(to) if input.dtype.bits() > 16 => {
                rounded(input, *to, &own[range.clone()])
            }
            _ => own[range.clone()].to_vec(),
        };
        applies |= content != own[range];
        changed.memfd.fill(offset as usize, &content)?;
    }
    changed.memfd.seal_write()?;
    Ok(applies.then_some(changed))
}

fn constant(input: &Input, value: f64, bytes: u64) -> Vec<u8> {
    let width = (input.dtype.bits() / 8).max(1) as usize;
    let element = input.dtype.encode(value).to_le_bytes();
    element[..width].iter().copied().cycle().take(bytes as usize).collect()
}

fn rounded(input: &Input, to: Rounding, bytes: &[u8]) -> Vec<u8> {
    if !input.dtype.is_float() {
        return bytes.to_vec();
    }
    let width = (input.dtype.bits() / 8) as usize;
    let elements = bytes.chunks_exact(width).map(|element| {
        let value = input.dtype.decode(input.dtype.element_bits(element, 0).unwrap_or(0));
        input.dtype.encode(to.round(value))
    });
    elements.flat_map(|bits| bits.to_le_bytes().into_iter().take(width)).collect()
}

impl Rounding {
    fn round(self, value: f64) -> f64 {
        let through = |dtype: Dtype| dtype.decode(dtype.encode(value));
        match self {
            // The tensor core drops the low 13 bits of an operand that nobody converted.
            Self::Tf32 => f64::from(f32::from_bits((value as f32).to_bits() & !0x1fff)),
            Self::F16 => through(Dtype::F16),
            Self::Bf16 => through(Dtype::Bf16),
        }
    }
}

/// Outputs under an array mutant; `None` where it does not apply.
pub(super) fn changed_outputs(
    task: &Task,
    mutant: &Mutant,
    class: Precision,
    setting: &Setting<'_>,
) -> Result<Option<Tensors>, JudgeError> {
    let places = setting.expected.places.iter();
    let sizes = places.map(|(name, (_, bytes))| (name.clone(), *bytes));
    let mut changed = Tensors::room("mutant", sizes)?;
    let expected = setting.expected.memfd.map()?;
    let inputs = setting.inputs.memfd.map()?;
    for output in &task.spec.outputs {
        let (offset, bytes) = setting.expected.places[&reference_name(output)];
        let words = &expected[offset as usize..(offset + bytes) as usize];
        let values: Vec<u64> = words.chunks_exact(8).map(word_bits).collect();
        let shape = extents(&output.shape, &setting.case.dims).map_err(|e| broken(task, &e))?;
        let changed_values = match mutant {
            Mutant::CopyOfInput(name) => copied(task, output, name, setting, &inputs),
            other => {
                let tolerance =
                    middle_tolerance(task, output, class, setting, &expected, values.len());
                changed_array(other, output, &values, &shape, tolerance)
            }
        };
        let Some(changed_values) = changed_values else { return Ok(None) };
        let content: Vec<u8> = changed_values.iter().flat_map(|bits| bits.to_le_bytes()).collect();
        let (offset, _) = changed.places[&reference_name(output)];
        changed.memfd.fill(offset as usize, &content)?;
    }
    changed.memfd.seal_write()?;
    Ok(Some(changed))
}

fn word_bits(word: &[u8]) -> u64 {
    Dtype::F64.element_bits(word, 0).unwrap_or(0)
}

fn changed_array(
    mutant: &Mutant,
    output: &Output,
    values: &[u64],
    shape: &[u64],
    tolerance: f64,
) -> Option<Vec<u64>> {
    let float = output.dtype.is_float();
    let mut changed = values.to_vec();
    let last = changed.len().checked_sub(1)?;
    match mutant {
        Mutant::Zeros => changed.fill(0),
        // A single value is its own mean.
        Mutant::Mean if last > 0 => changed.fill(mean(values, float)),
        Mutant::RolledByOne => changed.rotate_right(1),
        Mutant::LastElementUnwritten => changed[last] = 0,
        Mutant::LastColumnUnwritten => {
            let columns = usize::try_from(*shape.last()?).ok()?.max(1);
            changed.iter_mut().skip(columns - 1).step_by(columns).for_each(|bits| *bits = 0);
        }
        Mutant::LastRowUnwritten => {
            let row = usize::try_from(*shape.last()?).ok()?.min(changed.len());
            changed[last + 1 - row..].fill(0);
        }
        Mutant::LastTileUnwritten => {
            let columns = usize::try_from(*shape.last()?).ok()?.clamp(1, changed.len());
            let rows = changed.len() / columns;
            for row in changed.chunks_mut(columns).skip(rows.saturating_sub(TILE)) {
                row[columns.saturating_sub(TILE)..].fill(0);
            }
        }
        Mutant::Transposed => changed = transposed(values, shape)?,
        Mutant::OneElementOff if float => {
            let value = f64::from_bits(changed[last / 2]);
            // Without a tolerance, the next value of the output's type.
            let next = output.dtype.decode(output.dtype.encode(value).wrapping_add(1));
            let off = if tolerance > 0.0 { value + 2.0 * tolerance } else { next };
            changed[last / 2] = off.to_bits();
        }
        Mutant::OneElementOff => changed[last / 2] ^= 1,
        Mutant::Mean | Mutant::CopyOfInput(_) | Mutant::IndependentInput(_) => return None,
        Mutant::ConstantInput(..) | Mutant::RoundedInputs(_) => return None,
        Mutant::PreviousOutput | Mutant::Program(..) => return None,
    }
    Some(changed)
}

fn mean(values: &[u64], float: bool) -> u64 {
    let count = values.len();
    if float {
        let sum: f64 = values.iter().map(|bits| f64::from_bits(*bits)).sum();
        return (sum / count as f64).to_bits();
    }
    let sum: i128 = values.iter().map(|bits| i128::from(*bits as i64)).sum();
    (sum / count as i128) as u64
}

/// The last two extents exchanged: what a kernel with swapped indices writes.
fn transposed(values: &[u64], shape: &[u64]) -> Option<Vec<u64>> {
    let [.., rows, columns] = shape else { return None };
    let (rows, columns) = (usize::try_from(*rows).ok()?, usize::try_from(*columns).ok()?);
    let matrix = rows.checked_mul(columns).filter(|size| *size > 0)?;
    let exchange = |matrix: &[u64]| -> Vec<u64> {
        let places = (0..columns).flat_map(|column| (0..rows).map(move |row| (row, column)));
        places.map(|(row, column)| matrix[row * columns + column]).collect()
    };
    Some(values.chunks_exact(matrix).flat_map(exchange).collect())
}

/// Tolerance of the middle element; 0 where the comparison is exact.
fn middle_tolerance(
    task: &Task,
    output: &Output,
    class: Precision,
    setting: &Setting<'_>,
    expected: &[u8],
    elements: usize,
) -> f64 {
    let bound = setting.expected.places.get(&format!("{}_bound", output.name));
    let (Some((offset, _)), Some(last)) = (bound, elements.checked_sub(1)) else { return 0.0 };
    let at = |offset: u64| word_value(expected, offset as usize + 8 * (last / 2));
    let value = at(setting.expected.places[&reference_name(output)].0);
    task.spec.accumulation_unit(class) * at(*offset)
        + 1.01 * output.dtype.unit_roundoff() * value.abs()
        + output.dtype.smallest_subnormal()
}

fn word_value(bytes: &[u8], start: usize) -> f64 {
    bytes.get(start..start + 8).map_or(0.0, |word| f64::from_bits(word_bits(word)))
}

/// An input of the output's own shape, as if it had been copied there.
fn copied(
    task: &Task,
    output: &Output,
    name: &str,
    setting: &Setting<'_>,
    inputs: &[u8],
) -> Option<Vec<u64>> {
    let input = task.spec.inputs.iter().find(|input| input.name == name)?;
    if input.shape != output.shape || input.dtype != output.dtype {
        return None;
    }
    let (offset, bytes) = *setting.inputs.places.get(name)?;
    let content = &inputs[offset as usize..(offset + bytes) as usize];
    let width = (input.dtype.bits() / 8).max(1) as usize;
    let values = content.chunks_exact(width).map(|element| {
        let bits = input.dtype.element_bits(element, 0).unwrap_or(0);
        if input.dtype.is_float() { input.dtype.decode(bits).to_bits() } else { bits }
    });
    Some(values.collect())
}
