//! Compares outputs with what a reference left on the device: its values are copied out tile by
//! tile, so that this process never holds more of them than one tile has. The candidate was never
//! here.

use device::execute::{Buffer, Device};
use pipeline::check::{Comparison, OutputCheck};
use pipeline::task::spec::Compare;
use pipeline::tiles::{joined, largest_bound, raise_bounds, tiles};
use sandbox::wire::{TilesRequest, VerifyItem, VerifyReport};

use crate::RunnerError;
use crate::bulk::Maps;
use crate::session::Session;
use crate::verify::{Expected, comparison_with, hash};

/// Bytes of a value of the reference, and of a bound.
const VALUE_BYTES: u64 = 8;

/// Compares every item; the session has just run the reference.
pub(crate) fn compare(
    session: &Session<'_, impl Device>,
    request: &TilesRequest,
    maps: &Maps,
) -> Result<VerifyReport, RunnerError> {
    let mut report = VerifyReport { checks: Vec::new(), hashes: Vec::new(), spreads: Vec::new() };
    for item in &request.items {
        report.checks.push(check(session, item, request.tile_bytes, maps)?);
        report.hashes.push(hash(item, maps)?);
        report.spreads.push(None);
    }
    Ok(report)
}

fn check(
    session: &Session<'_, impl Device>,
    item: &VerifyItem,
    tile_bytes: u64,
    maps: &Maps,
) -> Result<OutputCheck, RunnerError> {
    let has_bound = item.compare == Compare::Bound;
    let reference = session.bound.buffer(&format!("{}_ref", item.name))?;
    let bound_name = format!("{}_bound", item.name);
    let bound = has_bound.then(|| session.bound.buffer(&bound_name)).transpose()?;
    let got = maps.get(item.got)?;
    let mut found = Vec::new();
    let (mut values, mut bounds) = (Vec::new(), Vec::new());
    let ranges = tiles(item.extents.iter().product(), has_bound, tile_bytes);
    let mut largest = 0.0;
    // Where the largest element rules the others, it may be in another tile.
    if let Some(bound) = bound.filter(|_| item.shared_bound > 0.0) {
        for range in &ranges {
            let of_values = [VALUE_BYTES * range.start, VALUE_BYTES * (range.end - range.start)];
            copy_out(session, bound, of_values, &mut bounds)?;
            largest = largest_bound(&bounds).max(largest);
        }
    }
    for range in ranges {
        let count = range.end - range.start;
        let of_values = [VALUE_BYTES * range.start, VALUE_BYTES * count];
        copy_out(session, reference, of_values, &mut values)?;
        if let Some(bound) = bound {
            copy_out(session, bound, of_values, &mut bounds)?;
            raise_bounds(&mut bounds, item.shared_bound * largest);
        }
        let expected = Expected { reference: &values, bound: has_bound.then_some(&bounds[..]) };
        // A tile begins at a whole byte, also of elements of 4 bits.
        let place =
            |elements| item.dtype.bytes_for(elements).and_then(|it| usize::try_from(it).ok());
        let part = place(range.start).zip(place(range.end)).and_then(|(a, b)| got.get(a..b));
        let extents = [count];
        let comparison = comparison_with(item, &extents, part.unwrap_or_default(), expected);
        found.push((range, Comparison { shared_bound: 0.0, ..comparison }.run()));
    }
    Ok(joined(&item.name, &item.extents, found))
}

/// Copies bytes of a buffer, from a place on.
fn copy_out(
    session: &Session<'_, impl Device>,
    buffer: Buffer,
    [offset, bytes]: [u64; 2],
    out: &mut Vec<u8>,
) -> Result<(), RunnerError> {
    out.resize(usize::try_from(bytes).unwrap_or(usize::MAX), 0);
    Ok(session.device.download_part(buffer, offset, out)?)
}
