//! Checks before a launch, and the plan that the executor follows.
//!
//! A refusal is a sentence for the author of the launch; nothing here touches memory.

use super::{BlockSelection, Launch};
use crate::limits::{BLOCK_MAX, GRID_MAX};
use crate::program::ir::{Kernel, ProgramData, align_up};
use crate::target::Target;

/// A launch that is legal, with everything resolved.
#[derive(Debug)]
pub(crate) struct Plan<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) threads_per_block: u32,
    pub(crate) dynamic_shared: u32,
    /// Static and dynamic shared memory of one block, in bytes.
    pub(crate) shared_bytes: u32,
    pub(crate) params: Vec<u8>,
    pub(crate) budget: u64,
    /// Linear block indices to run.
    pub(crate) blocks: Blocks<'a>,
    pub(crate) shared_poison: u8,
    pub(crate) workers: usize,
    /// Warps and independent blocks run last to first.
    pub(crate) reversed: bool,
    /// Blocks that may be resident at once.
    pub(crate) resident: u64,
    pub(crate) sm_count: u32,
    pub(crate) variable_addresses: &'a [u64],
}

/// The blocks to run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Blocks<'a> {
    All(u64),
    Sample(&'a [u64]),
}

impl Blocks<'_> {
    /// How many blocks run.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Blocks::All(count) => *count,
            Blocks::Sample(list) => list.len() as u64,
        }
    }

    /// The linear index of the n-th block to run.
    pub(crate) fn get(&self, n: u64) -> u64 {
        match self {
            Blocks::All(_) => n,
            Blocks::Sample(list) => list.get(n as usize).copied().unwrap_or(0),
        }
    }
}

/// Checks a launch against the entry and the target.
pub(crate) fn plan<'a>(
    target: &Target,
    program: &'a ProgramData,
    launch: &'a Launch<'_>,
    variable_addresses: &'a [u64],
) -> Result<Plan<'a>, String> {
    let kernel = program
        .kernels
        .iter()
        .find(|k| k.name == launch.kernel)
        .ok_or_else(|| format!("the program has no decoded entry `{}`", launch.kernel))?;
    let threads_per_block = check_shape(target, kernel, launch)?;
    let shared_bytes = check_shared(target, kernel, launch)?;
    let params = pack_params(kernel, launch.params)?;
    let count = launch.grid.iter().map(|g| u64::from(*g)).product();
    let resident = target.resident_blocks(threads_per_block, shared_bytes);
    if launch.cooperative && count > resident {
        return Err(format!(
            "a co-operative launch of {count} blocks exceeds the {resident} that can be resident"
        ));
    }
    Ok(Plan {
        kernel,
        grid: launch.grid,
        block: launch.block,
        threads_per_block,
        dynamic_shared: launch.shared_bytes,
        shared_bytes,
        params,
        budget: launch.budget,
        blocks: select_blocks(&launch.blocks, count)?,
        shared_poison: launch.shared_poison,
        workers: launch.threads,
        reversed: launch.reversed,
        resident,
        sm_count: target.sm_count,
        variable_addresses,
    })
}

/// Checks grid and block extents; gives the threads of a block.
fn check_shape(target: &Target, kernel: &Kernel, launch: &Launch<'_>) -> Result<u32, String> {
    let name = &kernel.name;
    for (axis, extent) in ["x", "y", "z"].iter().enumerate() {
        for (what, dims, limits) in
            [("grid", launch.grid, GRID_MAX), ("block", launch.block, BLOCK_MAX)]
        {
            if dims[axis] == 0 || dims[axis] > limits[axis] {
                return Err(format!(
                    "{what}.{extent} is {}, must be 1 to {}",
                    dims[axis], limits[axis]
                ));
            }
        }
    }
    let threads: u64 = launch.block.iter().map(|b| u64::from(*b)).product();
    if threads > u64::from(target.max_threads_per_block) {
        return Err(format!(
            "a block of {threads} threads exceeds the limit of {}",
            target.max_threads_per_block
        ));
    }
    if let Some(required) = kernel.reqntid
        && required != launch.block
    {
        return Err(format!("`{name}` requires blocks of {required:?}, got {:?}", launch.block));
    }
    let bound = kernel.maxntid.map(|m| m.iter().map(|b| u64::from(*b)).product::<u64>());
    if let Some(bound) = bound.filter(|b| threads > *b) {
        return Err(format!(
            "a block of {threads} threads exceeds the launch bound {bound} of `{name}`"
        ));
    }
    Ok(threads as u32)
}

/// Checks shared memory; gives the bytes of a block.
fn check_shared(target: &Target, kernel: &Kernel, launch: &Launch<'_>) -> Result<u32, String> {
    let fixed = kernel.static_shared;
    let base =
        if launch.shared_bytes > 0 { align_up(fixed, kernel.dynamic_align.max(1)) } else { fixed };
    if fixed > 48 << 10 {
        return Err(format!(
            "{fixed} bytes of static shared memory exceed the limit of {} bytes",
            48 << 10
        ));
    }
    let total = base.saturating_add(launch.shared_bytes);
    if total > target.shared_per_block_optin {
        return Err(format!(
            "{fixed} bytes static and {} bytes dynamic shared memory exceed the {} bytes that one \
             block may use on {}",
            launch.shared_bytes, target.shared_per_block_optin, target.arch
        ));
    }
    Ok(total)
}

/// Lays the parameters out as the kernel reads them.
fn pack_params(kernel: &Kernel, params: &[Vec<u8>]) -> Result<Vec<u8>, String> {
    if params.len() != kernel.params.len() {
        return Err(format!(
            "`{}` takes {} parameters, got {}",
            kernel.name,
            kernel.params.len(),
            params.len()
        ));
    }
    let mut packed = vec![0; kernel.param_bytes as usize];
    for (index, (param, bytes)) in kernel.params.iter().zip(params).enumerate() {
        let start = param.offset as usize;
        let room = packed.get_mut(start..start + param.bytes as usize);
        match room {
            Some(room) if room.len() == bytes.len() => room.copy_from_slice(bytes),
            _ => {
                return Err(format!(
                    "parameter {index} (`{}`) of `{}` takes {} bytes, got {}",
                    param.name,
                    kernel.name,
                    param.bytes,
                    bytes.len()
                ));
            }
        }
    }
    Ok(packed)
}

fn select_blocks(selection: &BlockSelection, count: u64) -> Result<Blocks<'_>, String> {
    match selection {
        BlockSelection::All => Ok(Blocks::All(count)),
        BlockSelection::Sample(list) => match list.iter().find(|b| **b >= count) {
            Some(block) => {
                Err(format!("sampled block {block} is outside the grid of {count} blocks"))
            }
            None => Ok(Blocks::Sample(list)),
        },
    }
}
