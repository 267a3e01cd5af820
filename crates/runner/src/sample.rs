//! Counting the headline case on a sample of its blocks.
//!
//! Only counts come out, scaled to the whole grid. Contents are drawn from a fixed seed and
//! repeated, so a kernel whose work depends on its data is counted on typical data.

use device::execute::{Access, Device, Image};
use pipeline::inputs::{Distribution, InputStream, MasterSeed, Poison};
use pipeline::launch::{Launch, ResolvedPlan, ResolvedStep};
use pipeline::report::Counters;
use sandbox::wire::{RunEnd, SampleCase, SampleInput, SampleResult};

use crate::RunnerError;
use crate::limits::{SAMPLE_CONTENT_BYTES, SAMPLED_BLOCKS_MAX};
use crate::session::{Session, access, memory_end};

pub(crate) fn count(
    session: &mut Session<'_, impl Device>,
    case: &SampleCase,
    image: &Image<'_>,
) -> Result<SampleResult, RunnerError> {
    let mut blocks = [0, 0];
    let end = run(session, case, image, &mut blocks)?;
    let in_first_kernel = session.launches <= 1;
    Ok(SampleResult { end, counters: session.counters, blocks, in_first_kernel })
}

fn run(
    session: &mut Session<'_, impl Device>,
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
    if let Some(end) = session.make_scratch(&case.plan, Poison::Ones)? {
        return Ok(end);
    }
    if waits_for_all_blocks(&case.plan) {
        let why = "blocks of a co-operative launch wait for all others, which a sample leaves out";
        return Ok(RunEnd::Unsupported(why.to_owned()));
    }
    // What runs once for many calls is run whole and counts for none of them.
    let prepared = session.perform(&case.plan.prepare, Poison::Ones, &mut |_| None)?;
    if prepared != RunEnd::Completed {
        return Ok(prepared);
    }
    (session.counters, session.launches) = (Counters::default(), 0);
    session.perform(&case.plan.steps, Poison::Ones, &mut |launch| {
        let total = blocks_of(launch);
        let parts = chosen_parts(total);
        let run: usize = parts.iter().map(|part| part.blocks.len()).sum();
        *blocks = [blocks[0] + run as u64, blocks[1] + total];
        Some(parts)
    })
}

/// True when some kernel launches co-operatively with more blocks than a sample has.
fn waits_for_all_blocks(plan: &ResolvedPlan) -> bool {
    plan.steps.iter().any(|step| match step {
        ResolvedStep::Kernel(launch) => {
            launch.cooperative && blocks_of(launch) > SAMPLED_BLOCKS_MAX
        }
        ResolvedStep::Memset { .. } => false,
    })
}

/// Blocks that are run together, and how many times over they are counted.
pub(crate) struct SamplePart {
    pub(crate) blocks: Vec<u64>,
    pub(crate) weight: f64,
}

/// Blocks of a launch.
fn blocks_of(launch: &Launch) -> u64 {
    launch.grid.iter().map(|extent| u64::from(*extent)).product()
}

/// All blocks of a small grid. Of a large one the first and some spread evenly stand for all but
/// the last, which is often only partly filled and stands for itself.
fn chosen_parts(total: u64) -> Vec<SamplePart> {
    if total <= SAMPLED_BLOCKS_MAX {
        return vec![SamplePart { blocks: (0..total).collect(), weight: 1.0 }];
    }
    let last = total - 1;
    let spread = SAMPLED_BLOCKS_MAX - 1;
    let block = |i: u64| (u128::from(last) * u128::from(i) / u128::from(spread)) as u64;
    let blocks: Vec<u64> = (0..spread).map(block).collect();
    let weight = last as f64 / blocks.len() as f64;
    vec![SamplePart { blocks, weight }, SamplePart { blocks: vec![last], weight: 1.0 }]
}

fn fill_input(
    session: &mut Session<'_, impl Device>,
    sample: &SampleInput,
) -> Result<(), RunnerError> {
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
    use super::chosen_parts;

    #[test]
    fn samples_are_spread_never_repeat_and_stand_for_the_whole_grid() {
        let all = chosen_parts(3);
        assert_eq!((all.len(), &all[0].blocks[..], all[0].weight), (1, &[0, 1, 2][..], 1.0));
        for total in [9, 10, 4096, 1 << 40] {
            let parts = chosen_parts(total);
            let blocks: Vec<u64> = parts.iter().flat_map(|part| part.blocks.clone()).collect();
            assert!(blocks.windows(2).all(|pair| pair[0] < pair[1]), "{total}");
            assert_eq!((blocks.len(), blocks[0], blocks[7]), (8, 0, total - 1));
            let stands_for: f64 =
                parts.iter().map(|part| part.blocks.len() as f64 * part.weight).sum();
            assert!((stands_for / total as f64 - 1.0).abs() < 1e-12, "{total}");
        }
    }
}
