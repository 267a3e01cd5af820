//! Counting the headline case on a sample of its blocks.
//!
//! Only counts come out, scaled to the whole grid. Contents are drawn from a fixed seed and
//! repeated, so a kernel whose work depends on its data is counted on typical data.

use device::execute::{Access, Image};
use pipeline::inputs::{Distribution, InputStream, MasterSeed, Poison};
use pipeline::launch::Launch;
use sandbox::wire::{RunEnd, SampleCase, SampleInput, SampleResult};

use crate::RunnerError;
use crate::limits::{SAMPLE_CONTENT_BYTES, SAMPLED_BLOCKS_MAX};
use crate::run::{Session, access, memory_end};

pub(crate) fn count(
    session: &mut Session<'_>,
    case: &SampleCase,
    image: &Image<'_>,
) -> Result<SampleResult, RunnerError> {
    let mut blocks = [0, 0];
    let end = run(session, case, image, &mut blocks)?;
    let in_first_kernel = session.launches <= 1;
    Ok(SampleResult { end, counters: session.counters, blocks, in_first_kernel })
}

fn run(
    session: &mut Session<'_>,
    case: &SampleCase,
    image: &Image<'_>,
    blocks: &mut [u64; 2],
) -> Result<RunEnd, RunnerError> {
    if let Some(end) = session.load(image, &case.plan)? {
        return Ok(end);
    }
    let inputs = case.inputs.iter().map(|input| input.bytes);
    let outputs = case.outputs.iter().map(|(_, bytes)| *bytes);
    if let Some(end) = memory_end(inputs.chain(outputs), &case.plan) {
        return Ok(end);
    }
    for input in &case.inputs {
        fill_input(session, input)?;
    }
    for (name, bytes) in &case.outputs {
        session.allocate(name, *bytes, Access::ReadWrite)?;
    }
    session.make_workspaces(&case.plan, Poison::Ones)?;
    session.perform(&case.plan, Poison::Ones, &mut |launch| {
        let total = blocks_of(launch);
        let chosen = chosen_blocks(total);
        *blocks = [blocks[0] + chosen.len() as u64, blocks[1] + total];
        Some(chosen)
    })
}

/// Blocks of a launch.
pub(crate) fn blocks_of(launch: &Launch) -> u64 {
    launch.grid.iter().map(|extent| u64::from(*extent)).product()
}

/// All blocks of a small grid; otherwise the first, the last, and some spread evenly between.
fn chosen_blocks(total: u64) -> Vec<u64> {
    if total <= SAMPLED_BLOCKS_MAX {
        return (0..total).collect();
    }
    let last = total - 1;
    (0..SAMPLED_BLOCKS_MAX)
        .map(|i| (u128::from(last) * u128::from(i) / u128::from(SAMPLED_BLOCKS_MAX - 1)) as u64)
        .collect()
}

fn fill_input(session: &mut Session<'_>, sample: &SampleInput) -> Result<(), RunnerError> {
    let access = access(sample.writable);
    let buffer = session.allocate(&sample.input.name, sample.bytes, access)?;
    let mut content = vec![0; SAMPLE_CONTENT_BYTES.min(sample.bytes as usize)];
    InputStream::new(&MasterSeed([0; 32]), Distribution::D1, &sample.input, sample.parameter)
        .fill(0, &mut content);
    let mut offset = 0;
    while offset < sample.bytes {
        let part = (sample.bytes - offset).min(content.len() as u64) as usize;
        session.device.upload(buffer, offset, &content[..part])?;
        offset += part as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::chosen_blocks;

    #[test]
    fn samples_are_spread_and_never_repeat() {
        assert_eq!(chosen_blocks(3), vec![0, 1, 2]);
        let spread = chosen_blocks(4096);
        assert_eq!((spread.len(), spread[0], spread[7]), (8, 0, 4095));
        assert!(chosen_blocks(9).windows(2).all(|pair| pair[0] < pair[1]));
    }
}
