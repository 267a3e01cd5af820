//! One hidden shape so large that 32-bit arithmetic on places goes wrong: a tensor of more than
//! 2^31 elements where the task's ranges have such a shape, else of more than 2^31 bytes.
//!
//! Most tasks' ranges have none, and then there is no such case. Start at [`draw_big`].

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
use crate::hidden::{Dims, tensor_bytes};
use crate::inputs::MasterSeed;
use crate::limits::{BIG_ALIGNED_EXTENT, BIG_TRIES_MAX};
use crate::task::spec::{Place, TaskSpec};

/// What of a tensor goes beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Beyond {
    /// Its bytes: an offset in bytes does not fit into 32 bits with a sign.
    Bytes,
    /// Its elements: an index does not either.
    Elements,
}

/// Draws a shape inside the task's ranges one of whose tensors goes beyond `limit`, hardly more.
/// `admits` is true where it may be used: the plan's domain, and what memory there is. `None` where
/// the ranges have no such shape, or none was found.
#[must_use]
pub fn draw_big(
    spec: &TaskSpec,
    place: Place,
    beyond: Beyond,
    limit: u64,
    seed: &MasterSeed,
    admits: &dyn Fn(&Dims) -> bool,
) -> Option<Dims> {
    let ranges: Vec<(&String, [i64; 2])> =
        spec.dims.iter().map(|dim| Some((dim, range(spec, place, dim)?))).collect::<Option<_>>()?;
    let reaches = |dims: &Dims| largest(spec, dims, beyond).is_some_and(|size| size > limit);
    let highest = ranges.iter().map(|(dim, [_, high])| ((*dim).clone(), *high)).collect();
    if !reaches(&highest) {
        return None;
    }
    let mut random = ChaCha8Rng::from_seed(seed.derive("big-shape").0);
    (0..BIG_TRIES_MAX).find_map(|_| {
        let dims = drawn(&ranges, &reaches, &mut random)?;
        let fits = tensor_bytes(spec, &dims).is_some_and(|bytes| bytes <= spec.hidden.bytes_max);
        (fits && admits(&dims)).then_some(dims)
    })
}

/// The largest input or output at a shape, in bytes or elements.
#[must_use]
pub fn largest(spec: &TaskSpec, dims: &Dims, beyond: Beyond) -> Option<u64> {
    let inputs = spec.inputs.iter().map(|it| (it.dtype, &it.shape));
    let outputs = spec.outputs.iter().map(|it| (it.dtype, &it.shape));
    let size = |(dtype, shape): (Dtype, &Vec<String>)| match beyond {
        Beyond::Bytes => TaskSpec::tensor_bytes(dtype, shape, dims).ok(),
        Beyond::Elements => TaskSpec::elements(shape, dims).ok(),
    };
    inputs.chain(outputs).try_fold(0, |most: u64, tensor| Some(most.max(size(tensor)?)))
}

fn range(spec: &TaskSpec, place: Place, dim: &str) -> Option<[i64; 2]> {
    let own = spec.hidden.ranges.get(dim).copied();
    match place {
        Place::Gpu => own,
        Place::Sim => spec.hidden.sim.get(dim).copied().or(own),
    }
}

/// All dimensions but one from the upper half of their ranges, by magnitude; that one as small as
/// reaches the limit, and up to a sixteenth more.
fn drawn(
    ranges: &[(&String, [i64; 2])],
    reaches: &dyn Fn(&Dims) -> bool,
    random: &mut ChaCha8Rng,
) -> Option<Dims> {
    let free = random.next_u32() as usize % ranges.len().max(1);
    // Many kernels ask for multiples of some power of two, and others must meet none.
    let aligned = random.next_u32().is_multiple_of(2);
    let extent = |wanted: i64, [low, high]: [i64; 2]| {
        let step = if aligned { BIG_ALIGNED_EXTENT } else { 1 };
        let wanted = (wanted + step - 1) / step * step;
        if wanted <= high { wanted.max(low) } else { high }
    };
    let mut share = || f64::from(random.next_u32()) / f64::from(u32::MAX);
    let upper = |[low, high]: [i64; 2], share: f64| {
        let (from, to) = ((low as f64).ln(), (high as f64).ln());
        (from + (0.5 + 0.5 * share) * (to - from)).exp().round() as i64
    };
    let of_range = |(dim, range): &(&String, [i64; 2])| {
        ((*dim).clone(), extent(upper(*range, share()), *range))
    };
    let mut dims: Dims = ranges.iter().map(of_range).collect();
    let (dim, [low, high]) = ranges.get(free)?;
    let mut with = |extent: i64| {
        dims.insert((*dim).clone(), extent);
        reaches(&dims)
    };
    if !with(*high) {
        return None;
    }
    let (mut below, mut enough) = (low - 1, *high);
    while enough - below > 1 {
        let middle = below + (enough - below) / 2;
        if with(middle) { enough = middle } else { below = middle }
    }
    let more = (share() * (enough as f64 / 16.0)) as i64;
    let found = extent((enough + more).min(*high), [*low, *high]);
    with(found).then_some(dims)
}

#[cfg(test)]
mod tests {
    use super::{Beyond, draw_big, largest};
    use crate::hidden::tensor_bytes;
    use crate::inputs::MasterSeed;
    use crate::task::Task;
    use crate::task::spec::Place;
    use crate::task::tests::{softmax, task_files};

    const LIMIT: u64 = 1 << 31;

    fn task(name: &str) -> Task {
        Task::from_files(&task_files(name)).unwrap()
    }

    #[test]
    fn a_tensor_goes_beyond_the_limit_and_hardly_more() {
        let spec = task("reduce_sum_rows").spec;
        for index in 0..20 {
            let seed = MasterSeed([index; 32]);
            let draw = |beyond| draw_big(&spec, Place::Gpu, beyond, LIMIT, &seed, &|_| true);
            let dims = draw(Beyond::Bytes).unwrap();
            let bytes = largest(&spec, &dims, Beyond::Bytes).unwrap();
            assert!(bytes > LIMIT && bytes < LIMIT + LIMIT / 4, "{dims:?}");
            assert!(tensor_bytes(&spec, &dims).unwrap() <= spec.hidden.bytes_max);
            for (dim, extent) in &dims {
                let [low, high] = spec.hidden.ranges[dim];
                assert!((low..=high).contains(extent), "{dims:?}");
            }
            // Not within 4 GiB.
            assert_eq!(draw(Beyond::Elements), None);
        }
    }

    #[test]
    fn ranges_domains_and_memory_leave_out_what_they_must() {
        let spec = task("reduce_sum_rows").spec;
        let seed = MasterSeed([7; 32]);
        let draw = |admits: &dyn Fn(&crate::hidden::Dims) -> bool| {
            draw_big(&spec, Place::Gpu, Beyond::Bytes, LIMIT, &seed, admits)
        };
        let aligned = draw(&|dims| dims.values().all(|extent| extent % 128 == 0)).unwrap();
        assert!(aligned.values().all(|extent| extent % 128 == 0));
        let odd = draw(&|dims| dims.values().all(|extent| extent % 2 == 1)).unwrap();
        assert!(odd.values().all(|extent| extent % 2 == 1));
        assert_eq!(draw(&|_| false), None);
        // Exactly 2^31 bytes are the most that the ranges have, or there is no such tensor at all.
        for spec in [softmax().spec, task("matmul_f32").spec, task("vector_add").spec] {
            assert_eq!(draw_big(&spec, Place::Gpu, Beyond::Bytes, LIMIT, &seed, &|_| true), None);
        }
        let sim = draw_big(&spec, Place::Sim, Beyond::Elements, 1 << 16, &seed, &|_| true).unwrap();
        assert!(sim["rows"] <= 64 && sim["rows"] * sim["cols"] > 1 << 16, "{sim:?}");
    }
}
