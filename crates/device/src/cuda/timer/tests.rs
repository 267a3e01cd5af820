use super::*;

/// The number that a line `name = number` of the other interpreter gives a name.
fn other(name: &str) -> u64 {
    let python = include_str!("../../../../judge/src/baseline/python/cuda.py");
    let start = format!("{name} = ");
    let value = python.lines().find_map(|line| line.strip_prefix(&start)).unwrap_or_default();
    let value = value.replace('_', "");
    let hexadecimal = value.strip_prefix("0x").map(|digits| u64::from_str_radix(digits, 16));
    hexadecimal.unwrap_or_else(|| value.parse()).unwrap()
}

#[test]
fn the_other_interpreter_of_windows_has_the_same_numbers() {
    for (name, expected) in [
        ("GATE_MINIMUM_NS", GATE_MINIMUM.as_nanos() as u64),
        ("GATE_TIMEOUT_NS", GATE_TIMEOUT.as_nanos() as u64),
        ("HASHES_MAX", HASHES_MAX),
        ("RECORD", RECORD as u64),
        ("RECORD_WORDS", RECORD_WORDS as u64),
        ("NEVER", u64::from(NEVER)),
        ("SINK_BYTES", SINK_BYTES),
        ("HASH_BYTES", HASH_BYTES),
        ("BLOCK_THREADS", u64::from(BLOCK_THREADS)),
    ] {
        assert_eq!(other(name), expected, "{name}");
    }
}
