//! The first values of buffers, generated or from files, and the results that go to files.

use std::path::Path;

use judge::{Content, SimulatedOutput, Tensor};
use pipeline::device_facts::DeviceFacts;
use pipeline::dtype::Dtype;
use pipeline::inputs::{Distribution, InputStream, MasterSeed};
use pipeline::task::spec::{Input, Role};

use super::arguments::{BufferSpec, Declared, Direction, Fill, Source};
use super::npy;
use crate::limits::SIMULATED_BYTES_MAX;
use crate::outcome::bad_input;
use crate::wiring::read_capped;

/// A buffer with its shape in numbers.
#[derive(Debug)]
pub(crate) struct Shaped {
    pub(crate) tensor: Tensor,
    pub(crate) shape: Vec<u64>,
}

/// Makes every declared buffer.
pub(crate) fn tensors(
    declared: &Declared,
    device: &DeviceFacts,
    seed: u64,
) -> anyhow::Result<Vec<Shaped>> {
    let mut bytes_total = 0_u64;
    let mut made = Vec::new();
    for (name, spec) in declared.buffers() {
        let failed = |why: String| bad_input(format!("`--arg {name}=…`: {why}"));
        let (shaped, bytes) = shaped(name, spec, declared, device, seed).map_err(failed)?;
        bytes_total = bytes_total.saturating_add(bytes);
        if bytes_total > SIMULATED_BYTES_MAX {
            let why = format!("all buffers together exceed {SIMULATED_BYTES_MAX} bytes");
            return Err(failed(why));
        }
        made.push(shaped);
    }
    Ok(made)
}

fn shaped(
    name: &str,
    spec: &BufferSpec,
    declared: &Declared,
    device: &DeviceFacts,
    seed: u64,
) -> Result<(Shaped, u64), String> {
    let file = match &spec.source {
        Source::File(path) => {
            Some(read_capped(path, SIMULATED_BYTES_MAX).map_err(|error| error.to_string())?)
        }
        Source::Fill(_) => None,
    };
    let (dtype, shape) = match (&spec.form, &file) {
        (Some((dtype, shape)), _) => (*dtype, extents(shape, declared, device)?),
        (None, Some(file)) => form_of_file(file)?,
        (None, None) => return Err("give a type and a shape, as in f32[1024]".to_owned()),
    };
    let elements = shape.iter().try_fold(1_u64, |product, extent| product.checked_mul(*extent));
    let elements = elements.ok_or("it has more elements than can be counted")?;
    let bytes = dtype.bytes_for(elements).ok_or("it ends in half a byte")?;
    if bytes == 0 {
        return Err("it has no elements".to_owned());
    }
    if bytes > SIMULATED_BYTES_MAX {
        return Err(format!("{bytes} bytes are too many: at most {SIMULATED_BYTES_MAX} fit"));
    }
    let values = || match (&spec.source, &file) {
        (Source::Fill(fill), _) => filled(name, dtype, elements, fill, declared, device, seed),
        (Source::File(path), Some(file)) => from_file(path, file, dtype, &shape, bytes),
        (Source::File(_), None) => Err("its file was not read".to_owned()),
    };
    let content = match spec.direction {
        Direction::In => Content::Input(values()?),
        Direction::InOut => Content::Updated(values()?),
        Direction::Out => Content::Output,
    };
    Ok((
        Shaped { tensor: Tensor { name: name.to_owned(), dtype, elements, content }, shape },
        bytes,
    ))
}

fn extents(
    shape: &[String],
    declared: &Declared,
    device: &DeviceFacts,
) -> Result<Vec<u64>, String> {
    let extent = |text: &String| {
        let value = declared.evaluate(text, device)?;
        let positive = u64::try_from(value).ok().filter(|value| *value > 0);
        positive.ok_or_else(|| format!("the extent `{text}` is {value}; it must be at least 1"))
    };
    shape.iter().map(extent).collect()
}

fn form_of_file(file: &[u8]) -> Result<(Dtype, Vec<u64>), String> {
    if !npy::is_npy(file) {
        return Err("only a .npy file tells its type; write f32[1024]@FILE".to_owned());
    }
    let array = npy::read(file)?;
    let dtype = array.dtype.ok_or_else(|| format!("buffers have no type {}", array.descr))?;
    let shape = if array.shape.is_empty() { vec![1] } else { array.shape };
    Ok((dtype, shape))
}

fn from_file(
    path: &Path,
    file: &[u8],
    dtype: Dtype,
    shape: &[u64],
    bytes: u64,
) -> Result<Vec<u8>, String> {
    let name = path.display();
    let data = if npy::is_npy(file) {
        let array = npy::read(file).map_err(|why| format!("{name}: {why}"))?;
        if !npy::holds(&array, dtype) {
            return Err(format!("{name} holds {}, not {dtype:?}", array.descr).to_lowercase());
        }
        let elements = |shape: &[u64]| shape.iter().try_fold(1u64, |all, it| all.checked_mul(*it));
        if elements(&array.shape).is_none() || elements(&array.shape) != elements(shape) {
            return Err(format!("{name} has the shape {:?}, not {shape:?}", array.shape));
        }
        array.data
    } else {
        file
    };
    if data.len() as u64 != bytes {
        return Err(format!("{name} has {} bytes of data; {bytes} are needed", data.len()));
    }
    Ok(data.to_vec())
}

fn filled(
    name: &str,
    dtype: Dtype,
    elements: u64,
    fill: &Fill,
    declared: &Declared,
    device: &DeviceFacts,
    seed: u64,
) -> Result<Vec<u8>, String> {
    let (distribution, role, parameter) = match fill {
        Fill::Iota => return Ok(packed(dtype, elements, |index| dtype.encode(index as f64))),
        Fill::Constant(value) => return Ok(packed(dtype, elements, |_| dtype.encode(*value))),
        Fill::Normal => (Distribution::D1, Role::Activation, 1),
        Fill::Wide => (Distribution::D2, Role::Activation, 1),
        Fill::Ints => (Distribution::D4, Role::Activation, 1),
        Fill::Index(bound) => {
            let value = declared.evaluate(bound, device)?;
            if value < 1 {
                return Err(format!("index({bound}) is index({value}); it must be at least 1"));
            }
            (Distribution::D1, Role::Index(bound.clone()), value)
        }
    };
    let input = Input { name: name.to_owned(), dtype, shape: Vec::new(), role };
    let mut master = [0; 32];
    master[..8].copy_from_slice(&seed.to_le_bytes());
    let mut out = packed(dtype, elements, |_| 0);
    InputStream::new(&MasterSeed(master), distribution, &input, parameter).fill(0, &mut out);
    Ok(out)
}

/// Elements as bytes, two of 4 bits in one.
fn packed(dtype: Dtype, elements: u64, bits: impl Fn(u64) -> u64) -> Vec<u8> {
    if dtype.bits() == 4 {
        let byte = |pair: u64| (bits(2 * pair) & 15) as u8 | ((bits(2 * pair + 1) & 15) << 4) as u8;
        return (0..elements / 2).map(byte).collect();
    }
    let width = (dtype.bits() / 8) as usize;
    let mut out = Vec::with_capacity(width * elements as usize);
    for index in 0..elements {
        out.extend_from_slice(&bits(index).to_le_bytes()[..width]);
    }
    out
}

/// Writes what a kernel left in a buffer.
pub(crate) fn write(path: &Path, output: &SimulatedOutput, shape: &[u64]) -> anyhow::Result<()> {
    let is_npy = path.extension().is_some_and(|extension| extension == "npy");
    let mut content = if is_npy { npy::header(output.dtype, shape) } else { Vec::new() };
    content.extend_from_slice(&output.bytes);
    std::fs::write(path, content)
        .map_err(|error| bad_input(format!("cannot write {}: {error}", path.display())))
}
