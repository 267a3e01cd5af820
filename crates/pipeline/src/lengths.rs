//! Shapes that differ in their accumulation length: what tells precision classes apart.
//!
//! Errors of a class that rounds operands do not depend on the length, errors of a narrow
//! accumulator grow with it. The shapes follow from the task's ranges alone; nobody needs to be
//! kept from knowing them. Start at [`lengths`].

use crate::expression::Expression;
use crate::hidden::{Dims, tensor_bytes};
use crate::limits::NORM_ELEMENTS_MIN;
use crate::scope::Scope;
use crate::task::spec::{Place, TaskSpec};

/// Families whose error tells classes apart at every length.
const FAMILIES: [&str; 3] = ["gemm", "conv", "linear"];
/// The shortest length is this share of the range, and at least so long.
const SHORT_SHARE: i64 = 32;
const SHORT_MIN: i64 = 16;
/// Extents of the other dimensions, until an output is large enough for a norm.
const OTHER_EXTENTS: [i64; 4] = [64, 256, 1024, 4096];

/// True for tasks whose error tells classes apart at every length.
#[must_use]
pub fn tells_classes(spec: &TaskSpec) -> bool {
    let summed = spec.dims.iter().any(|dim| names(&spec.gate.k, dim));
    summed && FAMILIES.contains(&spec.family.as_str())
}

/// A short, a middle and a long accumulation length with a shape for each, shortest first; fewer
/// where the ranges, the bytes or `admits` leave fewer, none for families that need none.
#[must_use]
pub fn lengths(
    spec: &TaskSpec,
    place: Place,
    bytes_max: u64,
    admits: &dyn Fn(&Dims) -> bool,
) -> Vec<(i64, Dims)> {
    let Ok(length) = Expression::parse(&spec.gate.k, &spec.dim_names()) else { return Vec::new() };
    let range = |dim: &String| range_of(spec, place, dim);
    let summed = spec.dims.iter().filter(|dim| names(&spec.gate.k, dim));
    let Some(main) = summed.max_by_key(|dim| range(dim).map_or(0, |[_, high]| high)) else {
        return Vec::new();
    };
    let (true, Some([low, high])) = (tells_classes(spec), range(main)) else {
        return Vec::new();
    };
    let fits = |dims: &Dims| tensor_bytes(spec, dims).is_some_and(|bytes| bytes <= bytes_max);
    let at = |extent: i64| {
        let shape = |other: i64| shape(spec, place, main, extent, other);
        let shapes =
            || OTHER_EXTENTS.into_iter().filter_map(shape).filter(|it| fits(it) && admits(it));
        let dims = shapes().find(|dims| has_norm(spec, dims)).or_else(|| shapes().next())?;
        Some((length.integer(&Scope::of_dims(&dims)).ok()?, dims))
    };
    let extents = (0..31).map(|power| 1i64 << power).filter(|it| (low..=high).contains(it));
    let found: Vec<_> = extents.filter_map(at).collect();
    chosen(&found, (high / SHORT_SHARE).max(SHORT_MIN))
}

/// The first of at least `short`, the last, and the one between them.
fn chosen(found: &[(i64, Dims)], short: i64) -> Vec<(i64, Dims)> {
    let Some(last) = found.len().checked_sub(1) else { return Vec::new() };
    let first = found.iter().position(|(length, _)| *length >= short).unwrap_or(last);
    let mut places = vec![first, first.midpoint(last), last];
    places.dedup();
    places.into_iter().map(|at| found[at].clone()).collect()
}

fn shape(spec: &TaskSpec, place: Place, main: &str, extent: i64, other: i64) -> Option<Dims> {
    let of = |dim: &String| {
        let [low, high] = range_of(spec, place, dim)?;
        let wanted = if names(&spec.gate.k, dim) { OTHER_EXTENTS[0] } else { other };
        Some((dim.clone(), if dim == main { extent } else { wanted.clamp(low, high) }))
    };
    spec.dims.iter().map(of).collect()
}

/// True where every output has enough elements for a norm that says something.
fn has_norm(spec: &TaskSpec, dims: &Dims) -> bool {
    let elements = spec.outputs.iter().map(|it| TaskSpec::elements(&it.shape, dims).unwrap_or(0));
    elements.min().is_some_and(|fewest| fewest >= NORM_ELEMENTS_MIN)
}

fn range_of(spec: &TaskSpec, place: Place, dim: &String) -> Option<[i64; 2]> {
    let own = || spec.hidden.ranges.get(dim);
    match place {
        Place::Gpu => own().copied(),
        Place::Sim => spec.hidden.sim.get(dim).or_else(own).copied(),
    }
}

fn names(expression: &str, dim: &str) -> bool {
    expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').any(|word| word == dim)
}

#[cfg(test)]
mod tests {
    use super::{lengths, tells_classes};
    use crate::task::Task;
    use crate::task::spec::{Place, TaskSpec};
    use crate::task::tests::task_files;

    fn shipped_spec(name: &str) -> TaskSpec {
        Task::from_files(&task_files(name)).unwrap().spec
    }

    fn of(spec: &TaskSpec, place: Place, bytes_max: u64, multiple: i64) -> Vec<i64> {
        let admits = |dims: &crate::hidden::Dims| dims.values().all(|it| it % multiple == 0);
        lengths(spec, place, bytes_max, &admits).into_iter().map(|(length, _)| length).collect()
    }

    #[test]
    fn lengths_lie_apart_as_far_as_ranges_bytes_and_domain_allow() {
        let mut spec = shipped_spec("matmul_f32");
        for (place, bytes_max, multiple, wanted) in [
            (Place::Gpu, 64 << 20, 1, &[256, 1024, 8192][..]),
            (Place::Gpu, 1 << 20, 1, &[256, 512, 1024]),
            (Place::Sim, 128 << 10, 1, &[16, 32, 128]),
            (Place::Sim, 128 << 10, 64, &[64, 128]),
            (Place::Sim, 128 << 10, 7, &[]),
        ] {
            assert_eq!(of(&spec, place, bytes_max, multiple), wanted, "{place:?} {bytes_max}");
        }
        spec.family = "elementwise".to_owned();
        assert_eq!(of(&spec, Place::Sim, 128 << 10, 1), [0; 0]);
        assert_eq!(of(&shipped_spec("vector_add"), Place::Sim, 128 << 10, 1), [0; 0]);
        assert!(!tells_classes(&spec) && !tells_classes(&shipped_spec("vector_add")));
        // A domain without a power of two leaves none, and yet there would be something to tell.
        assert!(tells_classes(&shipped_spec("matmul_f32")));
    }

    #[test]
    fn outputs_are_large_enough_for_a_norm() {
        let mut spec = shipped_spec("matmul_f32");
        spec.hidden.sim.insert("n".to_owned(), [1, 4]);
        spec.hidden.sim.insert("m".to_owned(), [1, 4096]);
        let found = lengths(&spec, Place::Sim, 16 << 20, &|_| true);
        assert_eq!(found.len(), 3);
        assert!(found.iter().all(|(_, dims)| dims["m"] * dims["n"] >= 1024), "{found:?}");
    }
}
