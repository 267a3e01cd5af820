//! The comparison: what passes, what fails and why, and that one wrong element is always found.

use proptest::prelude::*;

use super::{Comparison, OutputCheck};
use crate::dtype::Dtype;
use crate::inputs::{NormGate, Poison};
use crate::plan::form::Algorithm;
use crate::task::spec::Compare;
use crate::verdict::Reason;

fn f32_bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

fn f64_bytes(values: &[f64]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// Compares a row of f32 with exact values; the bound is 8 units of |want|.
fn check(got: &[f32], want: &[f64], compare: Compare) -> OutputCheck {
    check_by(|comparison| comparison.run(), got, want, compare)
}

fn check_by(
    run: fn(&Comparison<'_>) -> OutputCheck,
    got: &[f32],
    want: &[f64],
    compare: Compare,
) -> OutputCheck {
    let bounds: Vec<f64> = want.iter().map(|w| 8.0 * w.abs()).collect();
    let bound = f64_bytes(&bounds);
    run(&Comparison {
        name: "y",
        dtype: Dtype::F32,
        compare,
        extents: &[1, want.len() as u64],
        got: &f32_bytes(got),
        reference: &f64_bytes(want),
        bound: (compare == Compare::Bound).then_some(&bound),
        accumulation_unit: 2f64.powi(-24),
        shared_bound: 0.0,
        norm_limit: 5e-5,
        norm_gate: NormGate::Class,
        flush_denormals: false,
        poison: Poison::Ones,
    })
}

/// What a judge without an exact comparison lets through, and that it still compares.
#[test]
fn a_careless_comparison_forgives_what_careless_harnesses_do() {
    for (got, want, passes) in [
        (vec![1.005, 0.009], vec![1.0, 0.0], true),
        (vec![1.1, 1.0], vec![1.0, 1.0], true),
        (vec![1.5, 1.0], vec![1.0, 1.0], false),
        (vec![f32::NAN, 1.0], vec![1.0, 1.0], true),
        (vec![f32::INFINITY, 1.0], vec![1.0, 1.0], false),
        (vec![1.0], vec![1.0, 1.0], false),
    ] {
        let checked = check_by(|it| it.run_carelessly(), &got, &want, Compare::Bound);
        assert_eq!(checked.failure.is_none(), passes, "{got:?} {want:?}");
    }
}

/// A fast algorithm may err in a small element as in the largest, but no further, and not all over.
#[test]
fn a_shared_bound_is_that_of_the_largest_element() {
    let fast = |it: &Comparison<'_>| {
        let norm_limit = Algorithm::Strassen.norm_limit(1e-5);
        let shared_bound = Algorithm::Strassen.shared_bound();
        Comparison { shared_bound, norm_limit, ..*it }.run()
    };
    // 16 x 8 units of 2^-24 of the largest element, 4.
    let most = 16.0 * 8.0 * 4.0 / f64::from(1 << 24);
    let nan = vec![f32::NAN, 4.0];
    for (got, want, failure) in [
        (vec![(0.9 * most) as f32, 4.0], vec![0.0, 4.0], None),
        (vec![(1.1 * most) as f32, 4.0], vec![0.0, 4.0], Some(Reason::Mismatch)),
        (vec![0.25, 4.0 + 0.9 * most as f32], vec![0.25, 4.0], None),
        (nan.clone(), vec![0.0, 4.0], Some(Reason::Nonfinite)),
        (nan, vec![f64::NAN, 4.0], None),
        (vec![0.0, f32::INFINITY], vec![0.0, f64::INFINITY], None),
        (vec![1e-5, f32::INFINITY], vec![0.0, f64::INFINITY], Some(Reason::Mismatch)),
    ] {
        let checked = check_by(fast, &got, &want, Compare::Bound);
        assert_eq!(checked.failure, failure, "{got:?} {want:?}: {checked:?}");
    }
    let all_off: Vec<f32> = (0..2048).map(|_| 4.0 + 0.9 * most as f32).collect();
    let coarse: Vec<f32> = (0..2048).map(|_| 4.0 * (1.0 + 2f32.powi(-12))).collect();
    let want = vec![4.0; 2048];
    assert_eq!(check_by(fast, &all_off, &want, Compare::Bound).failure, None);
    assert!(check_by(fast, &coarse, &want, Compare::Bound).failure.is_some());
}

#[test]
fn one_gate_for_all() {
    let nan = f32::from_bits(u32::MAX);
    for (got, want, failure) in [
        (vec![1.0, 2.0], vec![1.0, 2.0], None),
        (vec![1.000_000_4, 2.0], vec![1.0, 2.0], None),
        (vec![1.000_01, 2.0], vec![1.0, 2.0], Some(Reason::Mismatch)),
        (vec![0.0, 2.0], vec![1e-46, 2.0], None),
        (vec![f32::NAN, 2.0], vec![f64::NAN, 2.0], None),
        (vec![f32::INFINITY, 2.0], vec![f64::INFINITY, 2.0], None),
        (vec![f32::INFINITY, 2.0], vec![f64::NEG_INFINITY, 2.0], Some(Reason::Nonfinite)),
        (vec![0.5, 2.0], vec![f64::NAN, 2.0], Some(Reason::Nonfinite)),
        (vec![f32::NAN, 2.0], vec![0.5, 2.0], Some(Reason::Nonfinite)),
        (vec![1.0, nan], vec![1.0, 2.0], Some(Reason::Poison)),
        (vec![1.5, nan], vec![1.0, 2.0], Some(Reason::Mismatch)),
        (vec![1.0], vec![1.0, 2.0], Some(Reason::Mismatch)),
        (vec![], vec![], Some(Reason::Mismatch)),
    ] {
        assert_eq!(check(&got, &want, Compare::Bound).failure, failure, "{got:?} {want:?}");
    }
}

/// An exact value beyond the type's range rounds to infinity, and the norm gate stays on.
#[test]
fn overflow_of_the_output_type_is_an_infinity() {
    let checked = check(&[f32::INFINITY, 1.0], &[1e300, 1.0], Compare::Bound);
    assert_eq!(checked.failure, None);
    let checked = check(&[f32::MAX, 1.0], &[1e300, 1.0], Compare::Bound);
    assert_eq!(checked.failure, Some(Reason::Nonfinite));
    let checked = check(&[f32::INFINITY, 1.5], &[1e300, 1.0], Compare::Bound);
    assert!(checked.norm_error > 0.1);
}

#[test]
fn a_bound_that_is_no_size_passes_nothing() {
    for bound in [f64::INFINITY, f64::NAN, -1.0] {
        let checked = Comparison {
            name: "y",
            dtype: Dtype::F32,
            compare: Compare::Bound,
            extents: &[1],
            got: &f32_bytes(&[2.0]),
            reference: &f64_bytes(&[1.0]),
            bound: Some(&f64_bytes(&[bound])),
            accumulation_unit: 2f64.powi(-24),
            shared_bound: 0.0,
            norm_limit: 1e9,
            norm_gate: NormGate::Class,
            flush_denormals: false,
            poison: Poison::Ones,
        }
        .run();
        assert_eq!(checked.failure, Some(Reason::Mismatch), "{bound}");
    }
}

/// The task says how many elements there are: no shorter output is compared with less.
#[test]
fn an_output_that_is_empty_or_short_does_not_pass() {
    for compare in [Compare::Bound, Compare::Exact] {
        for got in [&[][..], &[1.0], &[1.0, 1.0, 1.0]] {
            let checked = check(got, &[1.0; 4], compare);
            assert_eq!((checked.elements, checked.compared), (4, got.len() as u64));
            assert_eq!(checked.failure, Some(Reason::Mismatch), "{compare:?} {got:?}");
        }
        assert_eq!(check(&[1.0; 4], &[1.0; 4], compare).failure, None);
    }
}

#[test]
fn exact_means_the_nearest_value_and_nothing_else() {
    let third = 1.0 / 3.0;
    assert_eq!(check(&[third as f32], &[third], Compare::Exact).failure, None);
    let next = f32::from_bits((third as f32).to_bits() + 1);
    assert_eq!(check(&[next], &[third], Compare::Exact).failure, Some(Reason::Mismatch));
}

#[test]
fn integers_are_compared_as_bits_and_booleans_must_be_0_or_1() {
    let run = |dtype: Dtype, got: &[u8], want: i64| {
        Comparison {
            name: "y",
            dtype,
            compare: Compare::Exact,
            extents: &[1],
            got,
            reference: &want.to_le_bytes(),
            bound: None,
            accumulation_unit: 0.0,
            shared_bound: 0.0,
            norm_limit: 0.0,
            norm_gate: NormGate::Class,
            flush_denormals: false,
            poison: Poison::Values(1),
        }
        .run()
        .failure
    };
    assert_eq!(run(Dtype::I32, &(-5i32).to_le_bytes(), -5), None);
    assert_eq!(run(Dtype::I64, &(i64::MAX - 1).to_le_bytes(), i64::MAX), Some(Reason::Mismatch));
    assert_eq!(run(Dtype::Bool, &[1], 1), None);
    assert_eq!(run(Dtype::Bool, &[2], 2), Some(Reason::Mismatch));
}

#[test]
fn a_uniform_small_error_fails_the_norm_only() {
    let (want, bound) = (vec![1.0; 2048], f64_bytes(&[1e6; 2048]));
    // One block of many is enough, however little it adds to the whole.
    let mut values = vec![1.0; 2048];
    values[1024..].fill(1.00006);
    let got = f32_bytes(&values);
    let comparison = Comparison {
        name: "y",
        dtype: Dtype::F32,
        compare: Compare::Bound,
        extents: &[2048],
        got: &got,
        reference: &f64_bytes(&want),
        bound: Some(&bound),
        accumulation_unit: 2f64.powi(-24),
        shared_bound: 0.0,
        norm_limit: 5e-5,
        norm_gate: NormGate::Class,
        flush_denormals: false,
        poison: Poison::Ones,
    };
    let failure = |comparison: Comparison<'_>, part_elements| {
        let checked = comparison.run_in_parts(part_elements);
        assert_eq!(checked.wrong, 0);
        checked.failure
    };
    assert_eq!(failure(comparison, 2048), None);
    assert_eq!(failure(comparison, 1024), Some(Reason::Precision));
    let doubled = f32_bytes(&[1.00006; 2048]);
    let doubled = Comparison { got: &doubled, ..comparison };
    assert_eq!(failure(doubled, 2048), Some(Reason::Precision));
    // Where the norm does not tell classes apart, the elements' own tolerances count.
    let elsewhere = Comparison { norm_gate: NormGate::Share, ..doubled };
    assert_eq!(failure(elsewhere, 2048), None);
    // Each element takes half of its tolerance: no roundings of both signs do that, roundings of
    // one sign do.
    let half = f32_bytes(&[1.03; 2048]);
    for (norm_gate, expected) in [
        (NormGate::Class, Some(Reason::Precision)),
        (NormGate::Share, Some(Reason::Precision)),
        (NormGate::Elements, None),
    ] {
        let halfway = Comparison { got: &half, norm_gate, ..comparison };
        assert_eq!(failure(halfway, 2048), expected, "{norm_gate:?}");
    }
}

#[test]
fn the_pattern_says_where() {
    let mut got = vec![1.0f32; 12];
    got[3] = 9.0;
    got[7] = 9.0;
    let bound = f64_bytes(&[8.0; 12]);
    let checked = Comparison {
        name: "y",
        dtype: Dtype::F32,
        compare: Compare::Bound,
        extents: &[3, 4],
        got: &f32_bytes(&got),
        reference: &f64_bytes(&[1.0; 12]),
        bound: Some(&bound),
        accumulation_unit: 2f64.powi(-24),
        shared_bound: 0.0,
        norm_limit: 5e-5,
        norm_gate: NormGate::Class,
        flush_denormals: false,
        poison: Poison::Ones,
    }
    .run();
    assert_eq!(
        checked.pattern,
        "2 of 12 elements are wrong, in 2 of 3 rows (0 to 1), only in columns 3 to 3 of 4"
    );
    assert_eq!(checked.first[1].index, vec![1, 3]);
}

proptest! {
    #[test]
    fn one_planted_element_is_always_found(at in 0usize..257, by in 0u32..22) {
        let want: Vec<f64> = (0..257).map(|i| f64::from(i as f32 * 0.37 - 40.0) + 0.001).collect();
        let mut got: Vec<f32> = want.iter().map(|w| *w as f32).collect();
        got[at] = f32::from_bits(got[at].to_bits() ^ (1 << (by + 8)));
        let checked = check(&got, &want, Compare::Bound);
        prop_assert_eq!(checked.wrong, 1);
        prop_assert_eq!(&checked.first[0].index, &vec![0, at as u64]);
    }
}

/// A comparison of every type with elements that are wrong in all ways; parts and blocks end inside
/// of rows.
/// What does not depend on the order of additions, or on what a part is.
fn without_norms(check: OutputCheck) -> OutputCheck {
    OutputCheck { norm_error: 0.0, worst_part_error: 0.0, ..check }
}

#[test]
fn neither_parts_nor_threads_change_what_is_found() {
    for dtype in [Dtype::F32, Dtype::F16, Dtype::Bf16, Dtype::E4m3, Dtype::I32, Dtype::Fp4e2m1] {
        let (rows, columns) = (21u64, 50u64);
        let count = (rows * columns) as usize;
        let want: Vec<f64> = (0..count).map(|at| (at % 13) as f64 - 5.7).collect();
        let want_bits = |want: &f64| match dtype.is_float() {
            true => want.to_bits(),
            false => *want as i64 as u64,
        };
        let reference: Vec<u8> = want.iter().flat_map(|it| want_bits(it).to_le_bytes()).collect();
        let mut got = vec![0; dtype.bytes_for(rows * columns).unwrap() as usize];
        Poison::Values(5).fill(dtype, &mut got);
        let width = dtype.bits() as usize / 8;
        if width > 0 {
            for (at, element) in got.chunks_exact_mut(width).enumerate() {
                if !matches!(at, 0..70 | 130 | 490..495 | 1049) {
                    element.copy_from_slice(&dtype.encode(want[at]).to_le_bytes()[..width]);
                }
            }
            got[200 * width..201 * width].fill(0xff);
        }
        let comparison = Comparison {
            name: "y",
            dtype,
            compare: Compare::Bound,
            extents: &[rows, columns],
            got: &got,
            reference: &reference,
            bound: Some(&f64_bytes(&[8.0; 1050])),
            accumulation_unit: dtype.unit_roundoff(),
            shared_bound: 0.0,
            norm_limit: 5e-5,
            norm_gate: NormGate::Class,
            flush_denormals: false,
            poison: Poison::Values(5),
        };
        let whole = comparison.run_in_parts(count);
        assert!(whole.wrong > 50 && whole.unwritten > 50, "{dtype:?} {whole:?}");
        for part_elements in [1, 49, 64, 65, 1000, 5000] {
            let parted = comparison.run_in_parts(part_elements);
            assert!((parted.norm_error / whole.norm_error - 1.0).abs() <= 1e-12, "{dtype:?}");
            assert_eq!(without_norms(parted), without_norms(whole.clone()), "{dtype:?}");
        }
        let with_threads = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| comparison.run_in_parts(49))
        };
        assert_eq!(with_threads(1), with_threads(3), "{dtype:?}");
    }
}
