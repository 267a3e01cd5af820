//! Benchmarks: what takes long enough or depends enough on the machine to be no test.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::shell;

/// Longest benchmark.
const DEADLINE: Duration = Duration::from_secs(3_600);

/// Runs the benchmark `name` with its own arguments; true if it ended well.
pub(crate) fn run(root: &Path, name: &str, more: &[&str]) -> anyhow::Result<bool> {
    let (package, example) = match name {
        "night" => ("agent", "night"),
        other => anyhow::bail!("no benchmark `{other}`: there is night"),
    };
    let fixed = ["run", "--profile", "ci", "--locked", "--package", package, "--example", example];
    let mut arguments: Vec<&str> = fixed.to_vec();
    arguments.push("--");
    arguments.extend(more);
    let mut command = shell::cargo(&arguments);
    command.current_dir(root);
    shell::run(command, Instant::now() + DEADLINE)
}
