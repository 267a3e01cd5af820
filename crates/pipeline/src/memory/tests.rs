use proptest::prelude::*;

use super::{CaseBytes, Memory, Rung, Wanted, WindowWanted, fit, halved};
use crate::hidden::Dims;
use crate::task::tests::softmax;

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

fn dims(rows: i64, cols: i64) -> Dims {
    [("rows".to_owned(), rows), ("cols".to_owned(), cols)].into()
}

/// Tensors of 4 bytes an element, one in and one out, and a workspace that does not shrink.
fn bytes_at(workspaces: u64) -> impl Fn(&Dims) -> Option<CaseBytes> {
    move |dims| {
        let elements = u64::try_from(dims.values().product::<i64>()).ok()?;
        let (inputs, outputs, expected) = (4 * elements, 4 * elements, 16 * elements);
        let largest = inputs;
        Some(CaseBytes { inputs, outputs, expected, workspaces, reference_workspaces: 0, largest })
    }
}

const WINDOW: Wanted = Wanted {
    contents: 2,
    kept_outputs: 2,
    kept_bytes_max: 4 * GIB,
    tile_bytes: 256 * MIB,
    window: Some(WindowWanted { sets: 4, flush_bytes: 0 }),
};

const TRIAL: Wanted = Wanted { kept_bytes_max: u64::MAX, window: None, ..WINDOW };

#[test]
fn sizes_are_those_of_the_task() {
    let spec = softmax().spec;
    let bytes = CaseBytes::of(&spec, &dims(3, 5), 256).unwrap();
    let wanted = CaseBytes {
        inputs: 256,
        outputs: 256,
        expected: 512,
        workspaces: 0,
        reference_workspaces: 0,
        largest: 60,
    };
    assert_eq!(bytes, wanted);
    let exact = CaseBytes::of(&spec, &dims(3, 5), 1).unwrap();
    assert_eq!((exact.inputs, exact.outputs, exact.expected), (60, 60, 240));
    assert!(CaseBytes::of(&spec, &dims(1 << 39, 1 << 39), 1).is_err());
}

/// One tensor has 1 GiB. A window wants 4 sets of 2 GiB and 2 masters on the device, and 2 inputs,
/// 2 outputs and 2 times 4 GiB of expected values on the host.
#[test]
fn what_is_short_decides_what_gives_way() {
    let asked = dims(1 << 14, 1 << 14);
    for (wanted, device, host, rung, rows_cols) in [
        (WINDOW, 10 * GIB, 12 * GIB, Rung::Everything, (1 << 14, 1 << 14)),
        (WINDOW, 10 * GIB, 12 * GIB - 1, Rung::ReferenceInTiles, (1 << 14, 1 << 14)),
        (WINDOW, 10 * GIB, 4 * GIB + 256 * MIB, Rung::ReferenceInTiles, (1 << 14, 1 << 14)),
        (WINDOW, 10 * GIB - 1, 12 * GIB, Rung::MastersOnHost, (1 << 14, 1 << 14)),
        (WINDOW, 8 * GIB, 12 * GIB, Rung::MastersOnHost, (1 << 14, 1 << 14)),
        (WINDOW, 8 * GIB - 1, 12 * GIB, Rung::TwoSets, (1 << 14, 1 << 14)),
        // The reference alone needs 5 GiB there.
        (WINDOW, 5 * GIB, 12 * GIB, Rung::TwoSets, (1 << 14, 1 << 14)),
        (WINDOW, 5 * GIB - 1, 12 * GIB, Rung::SmallerShape, (1 << 14, 1 << 13)),
        (WINDOW, 10 * GIB, 4 * GIB + 256 * MIB - 1, Rung::SmallerShape, (1 << 14, 1 << 13)),
        (TRIAL, 5 * GIB, 12 * GIB, Rung::Everything, (1 << 14, 1 << 14)),
        (TRIAL, 5 * GIB, 12 * GIB - 1, Rung::ReferenceInTiles, (1 << 14, 1 << 14)),
        (TRIAL, 5 * GIB / 4, 12 * GIB, Rung::SmallerShape, (1 << 13, 1 << 13)),
    ] {
        let free = Memory { device, host };
        let found = fit(&asked, &wanted, free, &|_| 1, &bytes_at(0)).unwrap();
        let (rows, cols) = rows_cols;
        assert_eq!((found.rung, &found.dims), (rung, &dims(rows, cols)), "{free:?}");
        assert!(found.need.fits(free), "{found:?}");
        assert_eq!(found.why.is_empty(), rung == Rung::Everything, "{found:?}");
    }
}

#[test]
fn outputs_too_large_to_be_kept_shrink_the_shape() {
    let wanted = Wanted { kept_bytes_max: GIB, ..WINDOW };
    let free = Memory { device: u64::MAX, host: u64::MAX };
    let found = fit(&dims(1 << 14, 1 << 14), &wanted, free, &|_| 1, &bytes_at(0)).unwrap();
    assert_eq!((found.rung, &found.dims), (Rung::SmallerShape, &dims(1 << 14, 1 << 13)));
    assert_eq!(
        found.describe("headline timed").unwrap(),
        "headline timed at cols = 8192, rows = 16384, smaller than asked because outputs of \
         1073741824 bytes cannot be kept in 1073741824 bytes"
    );
}

#[test]
fn nothing_is_said_where_nothing_gave_way_and_no_room_is_an_error() {
    let free = Memory { device: 12 * GIB, host: 12 * GIB };
    let asked = dims(1 << 14, 1 << 14);
    let found = fit(&asked, &WINDOW, free, &|_| 1, &bytes_at(0)).unwrap();
    assert_eq!(found.describe("headline timed"), None);
    let found = fit(&asked, &WINDOW, Memory { device: 9 * GIB, ..free }, &|_| 1, &bytes_at(0));
    assert_eq!(
        found.unwrap().describe("headline timed").unwrap(),
        "headline timed with the masters on the host because with the reference in tiles \
         it takes 10737418240 bytes of device memory, 9663676416 are free"
    );
    // A workspace that never fits.
    let error = fit(&asked, &WINDOW, free, &|_| 1, &bytes_at(13 * GIB)).unwrap_err();
    assert!(error.starts_with("no shape down to cols = 1, rows = 1 fits: "), "{error}");
    // A shape has a least extent.
    let least = |name: &str| if name == "rows" { 1 << 14 } else { 1 << 13 };
    let small = Memory { device: 2 * GIB, ..free };
    assert!(fit(&asked, &WINDOW, small, &least, &bytes_at(0)).is_err());
}

#[test]
fn what_a_plan_wants_besides_never_changes_the_shape() {
    let asked = dims(1 << 14, 1 << 14);
    let free = Memory { device: 10 * GIB, host: 12 * GIB };
    let found = fit(&asked, &WINDOW, free, &|_| 1, &bytes_at(0)).unwrap();
    for (workspaces, rung) in [
        (0, Some(Rung::Everything)),
        (GIB / 2, Some(Rung::MastersOnHost)),
        (3 * GIB, Some(Rung::TwoSets)),
        (4 * GIB, None),
    ] {
        let again = found.refitted(&WINDOW, &bytes_at(workspaces)(&asked).unwrap());
        assert_eq!(again.as_ref().map(|it| it.rung), rung, "{workspaces}");
        assert!(again.is_none_or(|it| it.need.fits(free) && it.dims == asked));
    }
    let small = fit(&asked, &WINDOW, Memory { device: 3 * GIB, ..free }, &|_| 1, &bytes_at(0));
    let small = small.unwrap();
    let bytes = bytes_at(GIB / 4)(&small.dims).unwrap();
    assert_eq!(small.rung, Rung::SmallerShape);
    assert_eq!(small.refitted(&WINDOW, &bytes).unwrap().dims, small.dims);
    assert_eq!(small.refitted(&WINDOW, &bytes_at(GIB)(&small.dims).unwrap()), None);
}

#[test]
fn the_largest_dimension_is_halved_down_to_its_least() {
    assert_eq!(halved(&dims(4, 9), &|_| 1), Some(dims(4, 4)));
    assert_eq!(halved(&dims(4, 4), &|_| 1), Some(dims(4, 2)));
    assert_eq!(halved(&dims(4, 9), &|_| 6), Some(dims(4, 6)));
    assert_eq!(halved(&dims(1, 1), &|_| 1), None);
    assert_eq!(halved(&dims(9, 4), &|name| if name == "rows" { 9 } else { 1 }), Some(dims(9, 2)));
}

proptest! {
    /// What is chosen fits, and no rung above it does; a smaller shape is the largest of its chain.
    #[test]
    fn the_first_rung_that_fits_is_chosen(
        rows in 1i64..5000,
        cols in 1i64..5000,
        device in 0u64..1_000_000_000,
        host in 0u64..1_000_000_000,
        kept_bytes_max in 1_000u64..1_000_000_000,
        workspaces in 0u64..100_000_000,
        sets in 2u32..17,
        timed: bool,
    ) {
        let window = timed.then_some(WindowWanted { sets, flush_bytes: 1_000_000 });
        let wanted =
            Wanted { contents: 2, kept_outputs: 3, kept_bytes_max, tile_bytes: 4096, window };
        let (asked, free) = (dims(rows, cols), Memory { device, host });
        let at = bytes_at(workspaces);
        let fits = |dims: &Dims, rung: Rung| {
            let bytes = at(dims).unwrap();
            wanted.need(&bytes, rung).fits(free) && 2 * bytes.outputs <= kept_bytes_max
        };
        let shrunk = || std::iter::successors(halved(&asked, &|_| 1), |it| halved(it, &|_| 1));
        match fit(&asked, &wanted, free, &|_| 1, &at) {
            Ok(found) => {
                prop_assert!(fits(&found.dims, found.rung));
                prop_assert_eq!(found.need, wanted.need(&at(&found.dims).unwrap(), found.rung));
                for rung in Rung::ALL.into_iter().filter(|rung| *rung < found.rung) {
                    prop_assert!(!fits(&asked, rung));
                }
                if found.rung == Rung::SmallerShape {
                    let first = shrunk().find(|dims| fits(dims, Rung::SmallerShape));
                    prop_assert_eq!(first, Some(found.dims));
                } else {
                    prop_assert_eq!(found.dims, asked);
                }
            }
            Err(_) => {
                for rung in Rung::ALL {
                    prop_assert!(!fits(&asked, rung));
                }
                prop_assert!(shrunk().all(|dims| !fits(&dims, Rung::SmallerShape)));
            }
        }
    }

    /// No rung takes more than the one above it.
    #[test]
    fn every_rung_takes_at_most_as_much(rows in 1i64..5000, cols in 1i64..5000, sets in 2u32..17) {
        let wanted = Wanted {
            window: Some(WindowWanted { sets, flush_bytes: 1 << 20 }),
            tile_bytes: 4096,
            ..WINDOW
        };
        let bytes = bytes_at(77)(&dims(rows, cols)).unwrap();
        let needs = Rung::ALL.map(|rung| wanted.need(&bytes, rung));
        prop_assert!(needs.windows(2).all(|pair| pair[1].fits(pair[0])));
    }
}
