//! Downloads the pinned wheels with whichever pip this machine has.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::super::ToolchainError;
use super::super::pin::REQUIREMENTS;
use crate::limits::{INSTALLER_ERROR_BYTES_MAX, tail};

const CANDIDATES: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];

const OPTIONS: [&str; 7] = [
    "download",
    "--quiet",
    "--no-input",
    "--disable-pip-version-check",
    "--no-deps",
    "--require-hashes",
    "--only-binary=:all:",
];

/// Downloads the wheels into `wheels`; the requirements file is written into `partial`.
pub(super) fn download(partial: &Path, wheels: &Path) -> Result<(), ToolchainError> {
    let requirements = partial.join("requirements.txt");
    fs::write(&requirements, REQUIREMENTS).map_err(ToolchainError::io("write", &requirements))?;
    let program = CANDIDATES.into_iter().find(|program| runs(program));
    let program = program.ok_or(ToolchainError::NoPip)?;
    let output = command(program)
        .args(OPTIONS)
        .arg("-r")
        .arg(&requirements)
        .arg("-d")
        .arg(wheels)
        .output()
        .map_err(ToolchainError::io("run", program[0]))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let error_tail = tail(text.trim(), INSTALLER_ERROR_BYTES_MAX);
    Err(ToolchainError::Download { program: program.join(" "), error_tail })
}

fn runs(program: &[&str]) -> bool {
    command(program).arg("--version").output().is_ok_and(|output| output.status.success())
}

fn command(program: &[&str]) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).stdin(Stdio::null());
    command
}
