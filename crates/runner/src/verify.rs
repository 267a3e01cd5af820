//! The verify child: outputs and expected values in, checks out. The candidate was never here.

use device::content_hash::{HASH_WORD_BYTES, hash_part};
use pipeline::check::{Comparison, OutputCheck};
use pipeline::timing::combined_hash;
use rayon::prelude::*;
use sandbox::inside::Inside;
use sandbox::wire::{Leniency, Spread, VerifyItem, VerifyReport, VerifyRequest};

use crate::RunnerError;
use crate::bulk::Maps;
use crate::limits::HASH_PART_BYTES;

pub(crate) fn serve(inside: &mut Inside) -> Result<VerifyReport, RunnerError> {
    let request: VerifyRequest = inside.read_request()?;
    let slices = request
        .items
        .iter()
        .flat_map(|item| [item.got, item.reference].into_iter().chain(item.bound).chain(item.twin));
    let maps = Maps::read(inside, slices)?;
    let checks = request.items.iter().map(|item| check(item, &maps));
    let checks = checks.collect::<Result<_, _>>()?;
    let hashes = request.items.iter().map(|item| hash(item, &maps));
    let hashes = hashes.collect::<Result<_, _>>()?;
    let spreads = request.items.iter().map(|item| spread(item, &maps));
    Ok(VerifyReport { checks, hashes, spreads: spreads.collect::<Result<_, _>>()? })
}

fn check(item: &VerifyItem, maps: &Maps) -> Result<OutputCheck, RunnerError> {
    let comparison = comparison(item, maps)?;
    Ok(match item.leniency {
        Leniency::None => comparison.run(),
        Leniency::Tolerance => comparison.run_carelessly(),
        Leniency::Everything => OutputCheck { failure: None, ..comparison.run() },
    })
}

fn spread(item: &VerifyItem, maps: &Maps) -> Result<Option<Spread>, RunnerError> {
    let Some(twin) = item.twin else { return Ok(None) };
    let (got, twin) = (maps.get(item.got)?, maps.get(twin)?);
    let equal_bits = got == twin;
    let ratio = if equal_bits { 0.0 } else { comparison(item, maps)?.spread(twin) };
    Ok(Some(Spread { equal_bits, ratio }))
}

fn comparison<'a>(item: &'a VerifyItem, maps: &'a Maps) -> Result<Comparison<'a>, RunnerError> {
    let bound = item.bound.map(|slice| maps.get(slice)).transpose()?;
    let expected = Expected { reference: maps.get(item.reference)?, bound };
    Ok(comparison_with(item, &item.extents, maps.get(item.got)?, expected))
}

/// What an output, or a part of one, must be.
pub(crate) struct Expected<'a> {
    pub(crate) reference: &'a [u8],
    pub(crate) bound: Option<&'a [u8]>,
}

/// How an item is compared, with tensors of these extents.
pub(crate) fn comparison_with<'a>(
    item: &'a VerifyItem,
    extents: &'a [u64],
    got: &'a [u8],
    expected: Expected<'a>,
) -> Comparison<'a> {
    Comparison {
        name: &item.name,
        dtype: item.dtype,
        compare: item.compare,
        extents,
        got,
        reference: expected.reference,
        bound: expected.bound,
        accumulation_unit: item.accumulation_unit,
        shared_bound: item.shared_bound,
        norm_limit: item.norm_limit,
        norm_gate: item.norm_gate,
        flush_denormals: item.flush_denormals,
        poison: item.poison,
    }
}

pub(crate) fn hash(item: &VerifyItem, maps: &Maps) -> Result<Option<[u64; 2]>, RunnerError> {
    let got = maps.get(item.got)?;
    let Some(key) = item.hash_key else { return Ok(None) };
    let parts = got.par_chunks(HASH_PART_BYTES).enumerate();
    let hashes = parts.map(|(index, part)| {
        hash_part(key, (index * HASH_PART_BYTES / HASH_WORD_BYTES) as u64, part)
    });
    Ok(Some(combined_hash(&hashes.collect::<Vec<_>>())))
}
