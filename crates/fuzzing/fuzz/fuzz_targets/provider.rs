#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some(target) = fuzzing::target("provider") {
        (target.run)(bytes);
    }
});
