use super::{Array, Change, Relation, changed_input, order, predicted, split, with_bits_of};
use crate::dtype::Dtype;
use crate::inputs::MasterSeed;

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Row sums of a matrix of three columns, from inputs as the calls of a relation see them.
fn sums(input: &[u8]) -> Vec<u8> {
    let value = |at: usize| f32::from_le_bytes(input[4 * at..4 * at + 4].try_into().unwrap());
    let rows = 0..input.len() / 12;
    bytes(&rows.map(|row| (0..3).map(|at| value(3 * row + at)).sum()).collect::<Vec<f32>>())
}

#[test]
fn a_permutation_moves_something_wherever_it_can() {
    for count in [2, 3, 4] {
        for seed in 0..32 {
            let mut order = order(count, &MasterSeed([seed; 32]));
            assert!(!order.is_sorted(), "{count} {seed}");
            order.sort_unstable();
            assert!(order.into_iter().eq(0..count), "{count} {seed}");
        }
    }
    assert_eq!([order(0, &MasterSeed([0; 32])), order(1, &MasterSeed([0; 32]))], [vec![], vec![0]]);
}

#[test]
fn sums_of_rows_keep_every_relation_and_others_do_not() {
    let own: Vec<f32> = (0..15).map(|at| (at * at % 7) as f32 - 3.0).collect();
    let (own, other) = (bytes(&own), bytes(&(0..15).map(|at| at as f32).collect::<Vec<_>>()));
    let (shape, dim) = (["rows".to_owned(), "3".to_owned()], "rows".to_owned());
    let group = vec!["x".to_owned()];
    let array = |bytes, extents| Array { dtype: Dtype::F32, extents, bytes };
    let input =
        |change: &Change<'_>| changed_input("x", &shape, array(&own, &[5, 3]), &other, change);
    let permutation = order(5, &MasterSeed([3; 32]));
    assert_ne!(permutation, [0, 1, 2, 3, 4]);
    let part = |from, to| input(&Change::Part { dim: "rows", from, to });
    let summed = sums(&own);
    let [first, second] = [part(0, 2), part(2, 5)].map(|it| sums(&it));
    let (of_other, whole) = (sums(&other), array(&summed, &[5]));
    for (relation, got, before) in [
        (
            Relation::Permuted { dim: dim.clone() },
            sums(&input(&Change::Order { dim: "rows", order: &permutation })),
            vec![whole],
        ),
        (
            Relation::Scaled { inputs: group.clone() },
            sums(&input(&Change::Scale { inputs: &group })),
            vec![whole],
        ),
        (
            Relation::Added { inputs: group.clone() },
            sums(&input(&Change::Sum { inputs: &group })),
            vec![whole, array(&of_other, &[5])],
        ),
        (Relation::Split { dim }, summed.clone(), vec![array(&first, &[2]), array(&second, &[3])]),
    ] {
        let must = predicted(&relation, &shape[..1], &permutation, &before).unwrap();
        assert_eq!(must, got, "{relation:?}");
        let mut changed = before;
        let wrong = bytes(&[9.0; 5]);
        changed[0].bytes = &wrong[..changed[0].bytes.len()];
        let not = predicted(&relation, &shape[..1], &permutation, &changed).unwrap();
        assert_ne!(not, got, "{relation:?}");
    }
}

#[test]
fn only_the_sign_of_a_zero_is_no_difference() {
    let got = bytes(&[-0.0, 1.0, f32::NAN]);
    let must = with_bits_of(Dtype::F32, bytes(&[0.0, 1.000_000_1, 2.0]), &got);
    assert_eq!(must, bytes(&[-0.0, 1.000_000_1, 2.0]));
}

#[test]
fn an_inner_axis_is_reordered_within_each_row() {
    let shape = ["m".to_owned(), "n".to_owned()];
    let own = bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let array = Array { dtype: Dtype::F32, extents: &[2, 3], bytes: &own };
    let change = Change::Order { dim: "n", order: &[2, 0, 1] };
    let changed = changed_input("x", &shape, array, &[], &change);
    assert_eq!(changed, bytes(&[3.0, 1.0, 2.0, 6.0, 4.0, 5.0]));
    let dims = [("m".to_owned(), 2), ("n".to_owned(), 11)].into();
    let (at, [first, second]) = split(&dims, "n").unwrap();
    assert_eq!((at, first["n"], second["n"], second["m"]), (4, 4, 7, 2));
    assert!(split(&[("m".to_owned(), 1)].into(), "m").is_none());
}
