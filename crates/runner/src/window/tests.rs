use pipeline::limits::ENERGY_PATIENCE;

use super::{EVENT_PAIRS, YARDSTICK_MS, foreign};
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
    assert_eq!(foreign(Some(&listed), 7, true), Some(1));
    assert_eq!(foreign(Some(&listed), 9, true), None);
    assert_eq!(foreign(Some(&listed), 9, false), Some(2));
    assert_eq!(foreign(Some(&[]), 9, true), None);
    assert_eq!(foreign(Some(&[]), 9, false), Some(0));
    assert_eq!(foreign(None, 7, false), None);
}
