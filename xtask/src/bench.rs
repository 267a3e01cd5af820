//! Long tests with full counts, one at a time: `cargo xtask bench NAME --full`.
//!
//! Each is a test that CI runs too, with as many repetitions as CI has time for; `--full` sets the
//! variable that says how many. The test prints what it did.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::{report, shell};

/// One of them.
struct Bench {
    name: &'static str,
    package: &'static str,
    /// Target and filter of the test.
    test: [&'static str; 2],
    /// Variable and value of the full count.
    full: (&'static str, &'static str),
    deadline: Duration,
}

const BENCHES: [Bench; 1] = [Bench {
    name: "crashes",
    package: "warpwright",
    test: ["it", "crashes::kills"],
    full: ("WARPWRIGHT_CRASH_KILLS", "200"),
    deadline: Duration::from_secs(60 * 60),
}];

/// Runs the one with this name; true if it is good.
pub(crate) fn run(root: &Path, name: &str, full: bool) -> anyhow::Result<bool> {
    let known = || BENCHES.map(|bench| bench.name).join(", ");
    let bench = BENCHES.iter().find(|bench| bench.name == name);
    let bench = bench.ok_or_else(|| anyhow::anyhow!("no bench `{name}`; there is {}", known()))?;
    let [target, filter] = bench.test;
    let arguments = ["test", "--profile", "ci", "--locked", "--package", bench.package];
    let mut command = shell::cargo(&arguments);
    command.args(["--test", target, "--", "--nocapture", filter]).current_dir(root);
    if full {
        command.env(bench.full.0, bench.full.1);
    }
    report::say(&format!("== {name}{}", if full { ", in full" } else { "" }));
    shell::run(command, Instant::now() + bench.deadline)
}
