//! An output that is compared tile by tile: where each begins, and what all of them say together.
//!
//! For tensors whose expected values are never whole anywhere. A tile is a range of elements; its
//! comparison knows no rows, so the pattern of what is wrong is told in elements and tiles.

use std::ops::Range;

use crate::check::{OutputCheck, WrongElement};
use crate::limits::{CHECK_PART_ELEMENTS, WRONG_ELEMENTS_MAX};
use crate::verdict::Reason;

/// Bytes of an expected value, and of a bound.
const VALUE_BYTES: u64 = 8;

/// The ranges of elements that are compared at a time, in order. `tile_bytes` is what
/// expected values and bounds of one may take together; a tile has whole parts of a comparison, at
/// least one.
#[must_use]
pub fn tiles(elements: u64, has_bound: bool, tile_bytes: u64) -> Vec<Range<u64>> {
    let each = VALUE_BYTES * (1 + u64::from(has_bound));
    let part = CHECK_PART_ELEMENTS as u64;
    let step = (tile_bytes / each / part * part).max(part);
    let starts = (0..elements.div_ceil(step)).map(|tile| tile * step);
    starts.map(|start| start..elements.min(start + step)).collect()
}

/// Raises the bounds of a tile, f64, to the least one that is shared by the whole output.
pub fn raise_bounds(bounds: &mut [u8], least: f64) {
    for bytes in bounds.as_chunks_mut().0 {
        let bound = f64::from_le_bytes(*bytes);
        // What is no size stays none.
        if (0.0..least).contains(&bound) {
            *bytes = least.to_le_bytes();
        }
    }
}

/// The largest finite bound of a tile.
#[must_use]
pub fn largest_bound(bounds: &[u8]) -> f64 {
    let sizes = bounds.as_chunks().0.iter().map(|bytes| f64::from_le_bytes(*bytes));
    sizes.filter(|bound| bound.is_finite()).fold(0.0, f64::max)
}

/// The check of a whole output from those of its tiles, in order; `found` has one for each range.
///
/// Errors by norm are those of the worst tile, each against its own limit: stricter than the whole.
#[must_use]
pub fn joined(name: &str, extents: &[u64], found: Vec<(Range<u64>, OutputCheck)>) -> OutputCheck {
    let elements: u64 = extents.iter().product();
    let count = found.len();
    let mut whole = OutputCheck {
        output: name.to_owned(),
        elements,
        compared: 0,
        wrong: 0,
        unwritten: 0,
        nonfinite: 0,
        first: Vec::new(),
        worst_ratio: 0.0,
        norm_error: 0.0,
        norm_limit: f64::MAX,
        worst_part_error: 0.0,
        pattern: String::new(),
        failure: None,
    };
    let mut precision = None;
    let mut bad_tiles: Vec<usize> = Vec::new();
    for (tile, (range, check)) in found.into_iter().enumerate() {
        if check.failure.is_some() {
            bad_tiles.push(tile + 1);
        }
        precision = precision.or(check.failure.filter(|_| check.wrong == 0));
        whole.compared += check.compared;
        whole.wrong += check.wrong;
        whole.unwritten += check.unwritten;
        whole.nonfinite += check.nonfinite;
        whole.worst_ratio = whole.worst_ratio.max(check.worst_ratio);
        whole.norm_limit = whole.norm_limit.min(check.norm_limit);
        whole.norm_error = whole.norm_error.max(check.norm_error);
        whole.worst_part_error = whole.worst_part_error.max(check.worst_part_error);
        let room = WRONG_ELEMENTS_MAX.saturating_sub(whole.first.len());
        let moved = |wrong: WrongElement| moved(wrong, range.start, extents);
        whole.first.extend(check.first.into_iter().take(room).map(moved));
    }
    whole.pattern = pattern(&whole, &bad_tiles, count);
    whole.failure = failure(&whole, precision);
    whole
}

/// Where the wrong elements are; empty where there are none.
fn pattern(whole: &OutputCheck, bad_tiles: &[usize], count: usize) -> String {
    let OutputCheck { wrong, elements, first, .. } = whole;
    let (Some(first), [low, ..]) = (first.first(), bad_tiles) else { return String::new() };
    let (index, high, bad) = (&first.index, bad_tiles[bad_tiles.len() - 1], bad_tiles.len());
    format!(
        "{wrong} of {elements} elements are wrong, the first at {index:?}, in {bad} of {count} \
         tiles ({low} to {high})"
    )
}

fn failure(whole: &OutputCheck, precision: Option<Reason>) -> Option<Reason> {
    if whole.compared != whole.elements || whole.elements == 0 {
        return Some(Reason::Mismatch);
    }
    if whole.wrong == 0 {
        return precision;
    }
    if whole.unwritten == whole.wrong {
        return Some(Reason::Poison);
    }
    Some(if whole.nonfinite == whole.wrong { Reason::Nonfinite } else { Reason::Mismatch })
}

/// A wrong element of a tile that begins at `start`, with its place in the whole.
fn moved(wrong: WrongElement, start: u64, extents: &[u64]) -> WrongElement {
    let mut at = start + wrong.index.first().copied().unwrap_or(0);
    let mut index: Vec<u64> = Vec::with_capacity(extents.len());
    for extent in extents.iter().rev() {
        index.push(at % extent.max(&1));
        at /= extent.max(&1);
    }
    index.reverse();
    WrongElement { index, ..wrong }
}

#[cfg(test)]
mod tests {
    use super::{joined, largest_bound, raise_bounds, tiles};
    use crate::check::{Comparison, OutputCheck};
    use crate::dtype::Dtype;
    use crate::inputs::{NormGate, Poison};
    use crate::limits::CHECK_PART_ELEMENTS;
    use crate::task::spec::Compare;
    use crate::verdict::Reason;

    const ROWS: u64 = 5;
    const COLUMNS: u64 = 40_000;
    const TILE_BYTES: u64 = 16 * CHECK_PART_ELEMENTS as u64;

    /// Values that are right within their bounds.
    fn tensors() -> (Vec<f32>, Vec<f64>, Vec<f64>) {
        let want = |index: u64| (index % 977) as f64 * 0.37 - 100.0;
        let want: Vec<f64> = (0..ROWS * COLUMNS).map(want).collect();
        let bound = want.iter().map(|want| 16.0 * want.abs()).collect();
        (want.iter().map(|want| *want as f32).collect(), want, bound)
    }

    fn compared(got: &[f32], want: &[f64], bound: &[f64], extents: &[u64]) -> OutputCheck {
        let wide = |values: &[f64]| values.iter().flat_map(|it| it.to_le_bytes()).collect();
        let (want, bound): (Vec<u8>, Vec<u8>) = (wide(want), wide(bound));
        let comparison = Comparison {
            name: "y",
            dtype: Dtype::F32,
            compare: Compare::Bound,
            extents,
            got: &got.iter().flat_map(|it| it.to_le_bytes()).collect::<Vec<u8>>(),
            reference: &want,
            bound: Some(&bound),
            accumulation_unit: 2f64.powi(-24),
            shared_bound: 0.0,
            norm_limit: 5e-7,
            norm_gate: NormGate::Class,
            flush_denormals: false,
            poison: Poison::Ones,
        };
        comparison.run()
    }

    /// The whole at once, and in tiles.
    fn both(change: impl Fn(&mut Vec<f32>)) -> (OutputCheck, OutputCheck) {
        let (mut got, want, bound) = tensors();
        change(&mut got);
        let extents = [ROWS, COLUMNS];
        let of_tile = |range: std::ops::Range<u64>| {
            let at = range.start as usize..range.end as usize;
            let (got, want) = (&got[at.clone()], &want[at.clone()]);
            let check = compared(got, want, &bound[at], &[range.end - range.start]);
            (range, check)
        };
        let ranges = tiles(ROWS * COLUMNS, true, TILE_BYTES);
        assert_eq!(ranges.len(), 4);
        let in_tiles = joined("y", &extents, ranges.into_iter().map(of_tile).collect());
        (compared(&got, &want, &bound, &extents), in_tiles)
    }

    #[test]
    fn tiles_cover_every_element_once() {
        let part = CHECK_PART_ELEMENTS as u64;
        for (elements, has_bound, tile_bytes, count) in [
            (1, true, 1, 1),
            (part, true, TILE_BYTES, 1),
            (part + 1, true, TILE_BYTES, 2),
            (3 * part, false, TILE_BYTES, 2),
            (10 * part - 1, true, 3 * TILE_BYTES + 7, 4),
            (0, true, TILE_BYTES, 0),
        ] {
            let ranges = tiles(elements, has_bound, tile_bytes);
            assert_eq!(ranges.len(), count, "{elements} {tile_bytes}");
            let mut next = 0;
            for range in ranges {
                assert_eq!(range.start, next);
                assert!(range.end > range.start && range.start % part == 0);
                next = range.end;
            }
            assert_eq!(next, elements);
        }
    }

    #[test]
    fn tiles_say_what_the_whole_says() {
        let spoilt = |places: &'static [usize], value: f32| {
            move |got: &mut Vec<f32>| places.iter().for_each(|at| got[*at] = value)
        };
        let poison = f32::from_bits(u32::MAX);
        for (places, value, reason) in [
            (&[][..], 0.0, None),
            (&[0], 1e6, Some(Reason::Mismatch)),
            (&[131_071, 131_072, 199_999], 7.5, Some(Reason::Mismatch)),
            (&[70_000, 150_000], poison, Some(Reason::Poison)),
            (&[199_999], f32::INFINITY, Some(Reason::Nonfinite)),
        ] {
            let (whole, parts) = both(spoilt(places, value));
            assert_eq!(parts.failure, reason);
            assert_eq!(whole.failure, reason);
            assert_eq!(parts.first, whole.first);
            assert_eq!(
                (parts.elements, parts.compared, parts.wrong, parts.unwritten, parts.nonfinite),
                (whole.elements, whole.compared, whole.wrong, whole.unwritten, whole.nonfinite)
            );
            assert_eq!(parts.worst_ratio.to_bits(), whole.worst_ratio.to_bits());
            assert!(parts.norm_error >= whole.norm_error);
            assert_eq!(parts.pattern.is_empty(), places.is_empty());
        }
        let (_, parts) = both(spoilt(&[131_072], 7.5));
        let said =
            "1 of 200000 elements are wrong, the first at [3, 11072], in 1 of 4 tiles (3 to 3)";
        assert_eq!(parts.pattern, said);
    }

    #[test]
    fn a_bound_that_is_shared_raises_only_sizes_below_it() {
        let bounds = [0.0, 1.0, f64::NAN, 3.0, f64::INFINITY, -1.0];
        let mut bytes: Vec<u8> = bounds.iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(largest_bound(&bytes).to_bits(), 3f64.to_bits());
        raise_bounds(&mut bytes, 2.0);
        let raised = bytes.as_chunks().0.iter().map(|it| f64::from_le_bytes(*it));
        let wanted = [2.0, 2.0, f64::NAN, 3.0, f64::INFINITY, -1.0].map(f64::to_bits);
        assert_eq!(raised.map(f64::to_bits).collect::<Vec<_>>(), wanted);
    }

    #[test]
    fn an_error_of_the_norm_and_a_missing_tile_fail() {
        let (_, parts) = both(|got| {
            for value in &mut got[140_000..190_000] {
                *value *= 1.0 + 0.7e-6;
            }
        });
        assert_eq!(parts.failure, Some(Reason::Precision), "{parts:?}");
        let (got, want, bound) = tensors();
        let half = (ROWS * COLUMNS / 2) as usize;
        let check = compared(&got[..half], &want[..half], &bound[..half], &[half as u64]);
        let parts = joined("y", &[ROWS, COLUMNS], vec![(0..half as u64, check)]);
        assert_eq!(parts.failure, Some(Reason::Mismatch));
    }
}
