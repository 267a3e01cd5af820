use pipeline::limits::ENERGY_PATIENCE;

use sandbox::wire::{InputTensor, Slice};

use super::{EVENT_PAIRS, YARDSTICK_MS, foreign, updates_inputs};
use crate::limits::ENERGY_BATCH_MS;

#[test]
fn the_other_interpreter_of_windows_has_the_same_numbers() {
    let python = include_str!("../../../judge/src/baseline/python/window.py");
    for (name, value) in [
        ("EVENT_PAIRS", EVENT_PAIRS),
        ("YARDSTICK_MS", YARDSTICK_MS),
        ("ENERGY_PATIENCE", ENERGY_PATIENCE),
        ("ENERGY_BATCH_MS", ENERGY_BATCH_MS as u32),
    ] {
        let line = format!("{name} = {value}");
        assert!(python.lines().any(|it| it == line), "{line}");
    }
}

#[test]
fn only_who_is_listed_can_be_told_from_others() {
    let listed = [(7, 1), (8, 1)];
    assert_eq!(foreign(Some(&listed), &[7], true), Some(1));
    assert_eq!(foreign(Some(&listed), &[9], true), None);
    assert_eq!(foreign(Some(&listed), &[9], false), Some(2));
    assert_eq!(foreign(Some(&[]), &[9], true), None);
    assert_eq!(foreign(Some(&[]), &[9], false), Some(0));
    assert_eq!(foreign(None, &[7], false), None);
}

#[test]
fn calls_that_write_an_input_of_any_content_need_it_filled_anew() {
    let input = |writable| InputTensor {
        name: "x".to_owned(),
        data: Slice { bulk: 0, offset: 0, bytes: 4 },
        writable,
        weight: false,
    };
    for (contents, expected) in [
        (vec![], false),
        (vec![vec![input(false)], vec![input(false), input(false)]], false),
        (vec![vec![input(false), input(true)], vec![input(false), input(true)]], true),
    ] {
        assert_eq!(updates_inputs(&contents), expected);
    }
}
