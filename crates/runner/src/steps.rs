//! From a plan in numbers to what a device launches: buffers found, arguments encoded.

use std::collections::BTreeMap;

use device::execute::{
    Access, Buffer, Device, KernelLaunch, TensorMap, TensorMapElement, TensorMapEnd, TensorSwizzle,
};
use pipeline::build::{EntryFacts, ParamFacts};
use pipeline::dtype::Dtype;
use pipeline::inputs::Poison;
use pipeline::launch::{Launch, ResolvedPlan, ResolvedStep, ResolvedTensorMap, Value};
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::plan::form::{Initial, Lifetime, OutOfBounds, Swizzle};
use sandbox::wire::RunEnd;

use crate::RunnerError;

/// What names of a plan mean in one module.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    /// Name expression → entry.
    pub(crate) lowered: &'a [(String, String)],
    pub(crate) entries: &'a [EntryFacts],
}

/// What names of a plan mean on one device: its buffers and the maps made for them.
#[derive(Default)]
pub(crate) struct Bound {
    pub(crate) buffers: BTreeMap<String, Buffer>,
    maps: BTreeMap<String, Box<[u8; 128]>>,
}

/// One step, ready for the device.
pub(crate) enum DeviceStep<'a> {
    Memset { buffer: Buffer, byte: u8 },
    Kernel(KernelStep<'a>),
}

pub(crate) struct KernelStep<'a> {
    pub(crate) launch: &'a Launch,
    entry: &'a str,
    args: Vec<Vec<u8>>,
}

/// How a launch is to be run, besides what the plan says.
#[derive(Clone, Copy)]
pub(crate) struct LaunchMode<'a> {
    pub(crate) poison: Poison,
    pub(crate) reversed: bool,
    pub(crate) sampled_blocks: Option<&'a [u64]>,
}

impl<'a> Names<'a> {
    /// The entry that a name expression of the plan stands for.
    pub(crate) fn entry(&self, kernel: &str) -> Result<&'a str, RunnerError> {
        let mut found = self.lowered.iter().filter(|(expression, _)| expression == kernel);
        let entry = found.next().map(|(_, entry)| entry.as_str());
        entry.ok_or_else(|| RunnerError::Request(format!("no entry for `{kernel}`")))
    }

    /// Every entry that a plan launches.
    pub(crate) fn entries_of(&self, plan: &ResolvedPlan) -> Result<Vec<&'a str>, RunnerError> {
        let kernels = plan.prepare.iter().chain(&plan.steps).filter_map(|step| match step {
            ResolvedStep::Kernel(launch) => Some(self.entry(&launch.kernel)),
            ResolvedStep::Memset { .. } => None,
        });
        kernels.collect()
    }

    pub(crate) fn steps<'s>(
        &self,
        steps: &'s [ResolvedStep],
        bound: &Bound,
    ) -> Result<Vec<DeviceStep<'s>>, RunnerError>
    where
        'a: 's,
    {
        steps.iter().map(|step| self.step(step, bound)).collect()
    }

    pub(crate) fn step<'s>(
        &self,
        step: &'s ResolvedStep,
        bound: &Bound,
    ) -> Result<DeviceStep<'s>, RunnerError>
    where
        'a: 's,
    {
        let launch = match step {
            ResolvedStep::Memset { buffer, byte } => {
                return Ok(DeviceStep::Memset { buffer: bound.buffer(buffer)?, byte: *byte });
            }
            ResolvedStep::Kernel(launch) => launch,
        };
        let entry = self.entry(&launch.kernel)?;
        let facts = self.entries.iter().find(|facts| facts.name == entry);
        let facts = facts.ok_or_else(|| RunnerError::Request(format!("no entry `{entry}`")))?;
        let pairs = launch.args.iter().zip(&facts.params);
        let args = pairs.map(|(value, param)| bound.encode(value, param));
        Ok(DeviceStep::Kernel(KernelStep { launch, entry, args: args.collect::<Result<_, _>>()? }))
    }
}

impl KernelStep<'_> {
    pub(crate) fn on_device<'b>(&'b self, mode: &LaunchMode<'b>) -> KernelLaunch<'b> {
        KernelLaunch {
            entry: self.entry,
            grid: self.launch.grid,
            block: self.launch.block,
            cluster: self.launch.cluster,
            shared_bytes: self.launch.shared_bytes,
            cooperative: self.launch.cooperative,
            pdl: self.launch.pdl,
            args: &self.args,
            shared_poison: poison_byte(mode.poison),
            reversed: mode.reversed,
            sampled_blocks: mode.sampled_blocks,
        }
    }
}

impl Bound {
    pub(crate) fn allocate(
        &mut self,
        device: &mut impl Device,
        name: &str,
        bytes: u64,
        access: Access,
    ) -> Result<Buffer, RunnerError> {
        let buffer = device.allocate(name, bytes, access)?;
        self.buffers.insert(name.to_owned(), buffer);
        Ok(buffer)
    }

    pub(crate) fn make_workspaces(
        &mut self,
        device: &mut impl Device,
        plan: &ResolvedPlan,
        poison: Poison,
    ) -> Result<(), RunnerError> {
        for workspace in &plan.workspaces {
            self.allocate(device, &workspace.name, workspace.bytes, Access::ReadWrite)?;
        }
        for (buffer, byte) in self.workspace_bytes(plan, poison, &Lifetime::Prepared)? {
            device.fill(buffer, byte)?;
        }
        Ok(())
    }

    /// What each workspace holds before a call: zero where the plan asks for it, else poison. Those
    /// that last no longer than `longest`.
    pub(crate) fn workspace_bytes(
        &self,
        plan: &ResolvedPlan,
        poison: Poison,
        longest: &Lifetime,
    ) -> Result<Vec<(Buffer, u8)>, RunnerError> {
        let chosen = plan.workspaces.iter().filter(|workspace| match workspace.lifetime {
            Lifetime::Call => true,
            Lifetime::Prepared => *longest == Lifetime::Prepared,
        });
        let byte = |initial| match initial {
            Initial::Zero => 0,
            Initial::None => poison_byte(poison),
        };
        chosen.map(|it| Ok((self.buffer(&it.name)?, byte(it.init)))).collect()
    }

    /// Encodes the plan's tensor maps; gives an end where one is not possible.
    pub(crate) fn make_maps(
        &mut self,
        device: &mut impl Device,
        plan: &ResolvedPlan,
    ) -> Result<Option<RunEnd>, RunnerError> {
        for map in &plan.tensor_maps {
            let name = &map.name;
            let said =
                |why: &str| capped(&format!("tensor map `{name}`: {why}"), MESSAGE_BYTES_MAX);
            let Some(element) = element(map.dtype) else {
                let why = format!("elements of type {:?} are not possible", map.dtype);
                return Ok(Some(RunEnd::Refused(said(&why))));
            };
            match device.encode_tensor_map(&self.tensor_map(map, element)?)? {
                TensorMapEnd::Encoded(bytes) => {
                    self.maps.insert(name.clone(), bytes);
                }
                TensorMapEnd::Refused(why) => return Ok(Some(RunEnd::Refused(said(&why)))),
                TensorMapEnd::Unsupported(why) => return Ok(Some(RunEnd::Unsupported(said(&why)))),
            }
        }
        Ok(None)
    }

    fn tensor_map<'b>(
        &self,
        map: &'b ResolvedTensorMap,
        element: TensorMapElement,
    ) -> Result<TensorMap<'b>, RunnerError> {
        Ok(TensorMap {
            buffer: self.buffer(&map.tensor)?,
            element,
            dims: &map.dims,
            strides: &map.strides,
            box_dims: &map.box_dims,
            swizzle: match map.swizzle {
                Swizzle::None => TensorSwizzle::None,
                Swizzle::Bytes32 => TensorSwizzle::B32,
                Swizzle::Bytes64 => TensorSwizzle::B64,
                Swizzle::Bytes128 => TensorSwizzle::B128,
            },
            oob_nan: map.oob == OutOfBounds::Nan,
        })
    }

    pub(crate) fn buffer(&self, name: &str) -> Result<Buffer, RunnerError> {
        let buffer = self.buffers.get(name).copied();
        buffer.ok_or_else(|| RunnerError::Request(format!("no buffer `{name}`")))
    }

    fn encode(&self, value: &Value, param: &ParamFacts) -> Result<Vec<u8>, RunnerError> {
        let width = param.width as usize;
        let bits = match value {
            Value::Buffer(name) => self.buffer(name)?.address,
            Value::Integer(integer) => integer_bits(*integer, param)?,
            Value::Float(bits) if width == 4 => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            Value::Float(bits) => *bits,
            Value::TensorMap(name) => {
                let bytes = self.maps.get(name).map(|bytes| bytes.to_vec());
                return bytes.ok_or_else(|| RunnerError::Request(format!("no map `{name}`")));
            }
        };
        let bytes = bits.to_le_bytes();
        let encoded = bytes.get(..width).map(<[u8]>::to_vec);
        encoded.ok_or_else(|| RunnerError::Request(format!("a parameter of {width} bytes")))
    }
}

/// The value was checked already; what does not fit is never cut.
fn integer_bits(integer: i64, param: &ParamFacts) -> Result<u64, RunnerError> {
    let low = || -(1i64 << (8 * param.width - 1));
    let fits = param.width >= 8 || (low()..1i64 << (8 * param.width)).contains(&integer);
    let bits = fits.then_some(integer as u64);
    bits.ok_or_else(|| RunnerError::Request(format!("{integer} in {} bytes", param.width)))
}

/// What garbage repeats: floats that are huge or small, of either sign, and integers alike. A
/// minimum over garbage is not told by what is large, a maximum not by what is small.
const GARBAGE: [u8; 4] = [0x7b, 0xfb, 0x3c, 0xbc];

/// Shared memory and workspaces take one byte: a NaN and a negative integer, or garbage that the
/// seed chooses.
pub(crate) fn poison_byte(poison: Poison) -> u8 {
    match poison {
        Poison::Ones => 0xff,
        Poison::Zeros => 0,
        Poison::Values(seed) => GARBAGE[(seed % 4) as usize],
    }
}

/// The element type of a tensor map; `None` for types that TMA cannot address.
fn element(dtype: Dtype) -> Option<TensorMapElement> {
    Some(match dtype {
        Dtype::F64 => TensorMapElement::F64,
        Dtype::F32 => TensorMapElement::F32,
        Dtype::F16 => TensorMapElement::F16,
        Dtype::Bf16 => TensorMapElement::Bf16,
        Dtype::I64 => TensorMapElement::I64,
        Dtype::U64 => TensorMapElement::U64,
        Dtype::I32 => TensorMapElement::I32,
        Dtype::U32 => TensorMapElement::U32,
        Dtype::I16 | Dtype::U16 => TensorMapElement::U16,
        Dtype::I8 | Dtype::U8 | Dtype::Bool => TensorMapElement::U8,
        Dtype::E4m3 | Dtype::E5m2 | Dtype::Ue8m0 => TensorMapElement::U8,
        Dtype::Int4 | Dtype::Fp4e2m1 => return None,
    })
}

#[cfg(test)]
mod tests {
    use pipeline::inputs::Poison;

    use super::poison_byte;

    #[test]
    fn garbage_is_no_number_or_huge_or_small_of_either_sign() {
        let float = |poison| f32::from_le_bytes([poison_byte(poison); 4]);
        assert!(float(Poison::Ones).is_nan());
        let all = [0, 1, 2, 3].map(|seed| float(Poison::Values(seed)));
        assert!(all.iter().all(|it| it.is_finite()));
        assert!(all[0] > 1e30 && all[1] < -1e30, "{all:?}");
        assert!((0.0..0.1).contains(&all[2]) && (-0.1..0.0).contains(&all[3]), "{all:?}");
    }
}
