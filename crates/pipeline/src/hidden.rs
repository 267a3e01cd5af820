//! Shapes that nobody was shown: drawn from the task's ranges, inside the plan's domain.
//!
//! Kinds take turns: primes in every dimension, very small, anything, and at every other turn large
//! ones, each long in another dimension, since a kernel that is wrong only there passes all others.
//! Start at [`draw`].

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::inputs::MasterSeed;
use crate::limits::{HIDDEN_BYTES_USUAL_MAX, HIDDEN_TRIES_MAX};
use crate::task::spec::{Place, TaskSpec};

/// Dimensions with their extents.
pub type Dims = BTreeMap<String, i64>;

/// What a hidden shape is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShapeKind {
    /// A prime in every dimension whose range has one.
    Prime,
    /// Below one tile.
    Small,
    /// Near the end of one dimension's range, and as large as may be in the others.
    Large,
    Any,
}

impl ShapeKind {
    const TURNS: [Self; 6] =
        [Self::Prime, Self::Large, Self::Small, Self::Large, Self::Any, Self::Large];
}

/// A shape that was drawn.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HiddenShape {
    pub kind: ShapeKind,
    pub dims: Dims,
}

/// Draws up to `count` distinct shapes of at most `bytes_max` bytes in all tensors together, and of
/// fewer where a shape need not be large, none of them public, for which `admits` is true. Fewer
/// shapes come where the domain leaves fewer.
#[must_use]
pub fn draw(
    spec: &TaskSpec,
    place: Place,
    bytes_max: u64,
    seed: &MasterSeed,
    count: usize,
    admits: &dyn Fn(&Dims) -> bool,
) -> Vec<HiddenShape> {
    let mut random = ChaCha8Rng::from_seed(seed.derive("hidden-shapes").0);
    let bytes_max = bytes_max.min(spec.hidden.bytes_max);
    let bytes_of = |kind: ShapeKind| match kind {
        ShapeKind::Large => bytes_max,
        ShapeKind::Prime | ShapeKind::Small | ShapeKind::Any => {
            bytes_max.min(HIDDEN_BYTES_USUAL_MAX)
        }
    };
    let mut found: Vec<HiddenShape> = Vec::new();
    let first_long = random.next_u32() as usize;
    let mut failed = 0u32;
    for _ in 0..HIDDEN_TRIES_MAX {
        if found.len() == count {
            break;
        }
        let kind = ShapeKind::TURNS[found.len() % ShapeKind::TURNS.len()];
        // A kind that the domain excludes must not use up all tries.
        let kind = if failed > 0 && failed.is_multiple_of(8) { ShapeKind::Any } else { kind };
        failed += 1;
        let Some(mut dims) = shape(spec, place, kind, &mut random) else { continue };
        if kind == ShapeKind::Large {
            let long = found.iter().filter(|shape| shape.kind == ShapeKind::Large).count();
            let long = first_long.wrapping_add(long) % spec.dims.len().max(1);
            lengthen(spec, place, bytes_max, &mut dims, long, &mut random);
        }
        let known = spec.cases.iter().any(|case| case.dims == dims)
            || found.iter().any(|shape| shape.dims == dims);
        let fits = tensor_bytes(spec, &dims).is_some_and(|bytes| bytes <= bytes_of(kind));
        if !known && fits && admits(&dims) {
            found.push(HiddenShape { kind, dims });
            failed = 0;
        }
    }
    found
}

/// Bytes of all inputs and outputs; `None` where a tensor has no size.
#[must_use]
pub fn tensor_bytes(spec: &TaskSpec, dims: &Dims) -> Option<u64> {
    let inputs = spec.inputs.iter().map(|it| (it.dtype, &it.shape));
    let outputs = spec.outputs.iter().map(|it| (it.dtype, &it.shape));
    inputs.chain(outputs).try_fold(0u64, |sum, (dtype, shape)| {
        sum.checked_add(TaskSpec::tensor_bytes(dtype, shape, dims).ok()?)
    })
}

fn range(spec: &TaskSpec, place: Place, dim: &str) -> Option<[i64; 2]> {
    let own = || spec.hidden.ranges.get(dim);
    let range = match place {
        Place::Gpu => own(),
        Place::Sim => spec.hidden.sim.get(dim).or_else(own),
    };
    range.copied()
}

fn shape(spec: &TaskSpec, place: Place, kind: ShapeKind, random: &mut ChaCha8Rng) -> Option<Dims> {
    let extent = |dim: &String| {
        let [low, high] = range(spec, place, dim)?;
        Some((dim.clone(), drawn_extent(kind, low, high, random)))
    };
    spec.dims.iter().map(extent).collect()
}

/// Makes one dimension nearly as long as it may be, and then others shorter until all fits.
fn lengthen(
    spec: &TaskSpec,
    place: Place,
    bytes_max: u64,
    dims: &mut Dims,
    long: usize,
    random: &mut ChaCha8Rng,
) {
    let Some(long) = spec.dims.get(long) else { return };
    let Some([low, high]) = range(spec, place, long) else { return };
    let spare = (high - low) / NEAR_THE_END;
    let extent = high - i64::from(random.next_u32()).rem_euclid(spare + 1);
    dims.insert(long.clone(), extent);
    let fits = |dims: &Dims| tensor_bytes(spec, dims).is_some_and(|bytes| bytes <= bytes_max);
    while !fits(dims) {
        let low_of = |dim: &String| range(spec, place, dim).map_or(1, |[low, _]| low.max(1));
        let others = dims.iter_mut().filter(|(dim, extent)| *dim != long && **extent > low_of(dim));
        let Some((dim, extent)) = others.max_by_key(|(_, extent)| **extent) else { return };
        *extent = (*extent - *extent / 4 - 1).max(low_of(dim));
    }
}

/// A long dimension lacks at most this part of its range.
const NEAR_THE_END: i64 = 16;

/// Log-uniform in the part of low..=high that the kind is about.
fn drawn_extent(kind: ShapeKind, low: i64, high: i64, random: &mut ChaCha8Rng) -> i64 {
    let share = f64::from(random.next_u32()) / f64::from(u32::MAX);
    let (from, to) = match kind {
        ShapeKind::Small => (0.0, 0.3),
        ShapeKind::Large => (0.7, 1.0),
        ShapeKind::Prime | ShapeKind::Any => (0.0, 1.0),
    };
    let (log_low, log_high) = ((low as f64).ln(), (high as f64).ln());
    let at = log_low + (from + (to - from) * share) * (log_high - log_low);
    let extent = (at.exp().round() as i64).clamp(low, high);
    match kind {
        ShapeKind::Prime => prime_near(extent, low, high).unwrap_or(extent),
        ShapeKind::Small | ShapeKind::Large | ShapeKind::Any => extent,
    }
}

/// The next odd prime downwards, else upwards, within the range.
fn prime_near(extent: i64, low: i64, high: i64) -> Option<i64> {
    // Gaps between primes of this size are far below this.
    const GAP: i64 = 1 << 10;
    let odd_prime = |value: &i64| *value > 2 && is_prime(*value);
    let mut below = (low.max(extent - GAP)..=extent).rev();
    below.find(odd_prime).or_else(|| (extent..=high.min(extent + GAP)).find(odd_prime))
}

/// True for primes; exact for every extent that a tensor can have.
#[must_use]
pub fn is_prime(value: i64) -> bool {
    value > 1 && (2..).take_while(|d| d * d <= value).all(|d| value % d != 0)
}

#[cfg(test)]
mod tests {
    use super::{Dims, NEAR_THE_END, ShapeKind, draw, is_prime, range, tensor_bytes};
    use crate::inputs::MasterSeed;
    use crate::task::spec::Place;
    use crate::task::tests::softmax;

    #[test]
    fn shapes_are_distinct_hidden_and_of_every_kind() {
        let task = softmax();
        let shapes = draw(&task.spec, Place::Gpu, 1 << 28, &MasterSeed([5; 32]), 8, &|_| true);
        assert_eq!(shapes.len(), 8);
        for (index, shape) in shapes.iter().enumerate() {
            assert!(tensor_bytes(&task.spec, &shape.dims).unwrap() <= 1 << 28);
            assert!(task.spec.cases.iter().all(|case| case.dims != shape.dims));
            assert!(shapes[..index].iter().all(|other| other.dims != shape.dims));
            let [low, high] = task.spec.hidden.ranges["cols"];
            assert!((low..=high).contains(&shape.dims["cols"]));
        }
        let primes = shapes.iter().filter(|shape| shape.kind == ShapeKind::Prime);
        let mut primes = primes.flat_map(|shape| shape.dims.values());
        assert!(primes.all(|extent| is_prime(*extent)));
        let other = draw(&task.spec, Place::Gpu, 1 << 28, &MasterSeed([6; 32]), 8, &|_| true);
        assert_ne!(shapes, other);
        let sim = draw(&task.spec, Place::Sim, 1 << 28, &MasterSeed([5; 32]), 8, &|_| true);
        let [_, high] = task.spec.hidden.sim["cols"];
        assert!(sim.iter().all(|shape| shape.dims["cols"] <= high));
    }

    /// Each of two dimensions is nearly as long as it may be, in what a promote draws already.
    #[test]
    fn large_shapes_are_long_in_one_dimension_after_the_other() {
        let task = softmax();
        for (place, bytes_max) in [(Place::Gpu, 64 << 20), (Place::Sim, 128 << 10)] {
            for seed in 0..20 {
                let shapes =
                    draw(&task.spec, place, bytes_max, &MasterSeed([seed; 32]), 4, &|_| true);
                let long = |dim: &&String| {
                    let [_, high] = range(&task.spec, place, dim).unwrap();
                    shapes.iter().any(|shape| shape.dims[*dim] >= high - high / NEAR_THE_END)
                };
                assert_eq!(task.spec.dims.iter().filter(long).count(), 2, "{place:?} {shapes:?}");
            }
        }
    }

    #[test]
    fn a_domain_narrows_what_is_drawn_down_to_nothing() {
        let task = softmax();
        let admitted = |admits: &dyn Fn(&Dims) -> bool| {
            draw(&task.spec, Place::Gpu, 1 << 28, &MasterSeed([5; 32]), 4, admits)
        };
        let fours = admitted(&|dims| dims["cols"] % 4 == 0);
        assert_eq!(fours.len(), 4);
        assert!(fours.iter().all(|shape| shape.dims["cols"] % 4 == 0));
        assert_eq!(admitted(&|_| false), Vec::new());
        let one = admitted(&|dims| dims["cols"] == 128 && dims["rows"] == 2);
        assert!(one.len() <= 1);
    }
}
