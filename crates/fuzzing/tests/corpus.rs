//! Every target on its kept corpus and on seeded changes of it.

use std::io;
use std::path::{Path, PathBuf};

use fuzzing::{INPUT_BYTES_MAX, TARGETS};

/// Changes of each file.
const CHANGES: u64 = 40;

fn files(target: &str) -> io::Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files = std::fs::read_dir(&folder)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<PathBuf>>>()?;
    files.sort();
    Ok(files)
}

/// The finaliser of splitmix64.
fn mix(mut state: u64) -> u64 {
    state = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    state = (state ^ (state >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ (state >> 31)
}

/// Removes, doubles or replaces a part, as `seed` says.
fn changed(bytes: &[u8], seed: u64) -> Vec<u8> {
    let at = |salt: u64, below: usize| (mix(seed ^ mix(salt)) % below.max(1) as u64) as usize;
    let start = at(1, bytes.len());
    let end = (start + 1 + at(2, 24)).min(bytes.len());
    let part = &bytes[start.min(end)..end];
    let middle: Vec<u8> = match at(3, 4) {
        0 => Vec::new(),
        1 => [part, part].concat(),
        2 => part.iter().map(|byte| byte ^ mix(seed) as u8).collect(),
        _ => [&b"99999999999999999999"[..], part].concat(),
    };
    [&bytes[..start.min(end)], &middle, &bytes[end..]].concat()
}

#[test]
fn no_input_of_a_corpus_or_near_it_breaks_a_target() -> io::Result<()> {
    for target in TARGETS {
        let files = files(target.name)?;
        assert!(files.len() >= 3, "{}: {} files", target.name, files.len());
        for (index, file) in files.iter().enumerate() {
            let bytes = std::fs::read(file)?;
            assert!(bytes.len() <= INPUT_BYTES_MAX, "{}", file.display());
            (target.run)(&bytes);
            for change in 0..CHANGES {
                (target.run)(&changed(&bytes, index as u64 * CHANGES + change));
            }
        }
    }
    Ok(())
}

#[test]
fn each_target_has_a_program_for_the_fuzzer() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/fuzz_targets");
    for target in TARGETS {
        let text = std::fs::read_to_string(folder.join(format!("{}.rs", target.name)))?;
        assert!(text.contains(&format!("\"{}\"", target.name)), "{}", target.name);
    }
    assert!(fuzzing::target("none").is_none());
    Ok(())
}
