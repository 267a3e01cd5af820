//! Finds the commit that is built, for `--version`.

use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-changed=../../.git/refs");
    // Where the sources are without their history, whoever builds may name the commit.
    println!("cargo:rerun-if-env-changed=WARPWRIGHT_COMMIT");
    if let Some(hash) = std::env::var("WARPWRIGHT_COMMIT").ok().filter(|it| !it.is_empty()) {
        println!("cargo:rustc-env=WARPWRIGHT_COMMIT={hash}");
        return;
    }
    let output = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let hash = output.ok().filter(|output| output.status.success());
    let hash = hash.and_then(|output| String::from_utf8(output.stdout).ok());
    let hash = hash.map_or_else(|| "unknown".to_owned(), |text| text.trim().to_owned());
    println!("cargo:rustc-env=WARPWRIGHT_COMMIT={hash}");
}
