//! Hashes every source that a verdict depends on, the versions of the libraries included, so that
//! a change of any of them makes cached verdicts void.

use std::path::{Path, PathBuf};

/// Crates whose code decides: the pure rules, the simulator, the children, the judge itself.
const DECIDING: [&str; 6] = ["device", "judge", "pipeline", "ptx-sim", "runner", "sandbox"];

fn main() -> std::io::Result<()> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for name in DECIDING {
        for folder in ["src", "headers", "toolchain"] {
            collect(&crates.join(name).join(folder), &mut files)?;
        }
    }
    files.push(crates.join("../Cargo.lock"));
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for path in &files {
        println!("cargo:rerun-if-changed={}", path.display());
        let name = path.strip_prefix(&crates).unwrap_or(path).to_string_lossy().into_owned();
        let content = std::fs::read(path)?;
        for part in [name.as_bytes(), &content] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    println!("cargo:rustc-env=WARPWRIGHT_JUDGE_HASH={}", hasher.finalize().to_hex());
    Ok(())
}

/// Every file below a folder but tests and snapshots; a missing folder has none.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if !folder.is_dir() {
        return Ok(());
    }
    println!("cargo:rerun-if-changed={}", folder.display());
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        match path.is_dir() {
            true if name == "tests" || name == "snapshots" => {}
            true => collect(&path, files)?,
            false if name == "tests.rs" => {}
            false => files.push(path),
        }
    }
    Ok(())
}
