//! What takes long enough, or depends enough on the machine, to be no test of every day:
//! `cargo xtask bench NAME`.
//!
//! Some are tests that CI runs too, with as many repetitions as CI has time for; `--full` sets the
//! variable that says how many. Others measure. Each prints what it did.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::{report, shell};

/// Longest of them.
const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// One of them.
struct Bench {
    name: &'static str,
    package: &'static str,
    what: What,
}

enum What {
    /// A test: its filter, and the variable and value of the full count.
    Test { filter: &'static str, full: (&'static str, &'static str) },
    /// A program that measures, with arguments of its own.
    Example,
}

const BENCHES: [Bench; 3] = [
    Bench {
        name: "crashes",
        package: "warpwright",
        what: What::Test { filter: "crashes::kills", full: ("WARPWRIGHT_CRASH_KILLS", "200") },
    },
    Bench {
        name: "soak",
        package: "warpwright",
        what: What::Test {
            filter: "night::a_night_of_faults",
            full: ("WARPWRIGHT_FULL_TESTS", "1"),
        },
    },
    Bench { name: "night", package: "warpwright", what: What::Example },
];

/// Runs the one with this name, with what follows it on the command line; true if it is good.
pub(crate) fn run(root: &Path, name: &str, more: &[&str]) -> anyhow::Result<bool> {
    let known = || BENCHES.iter().map(|bench| bench.name).collect::<Vec<_>>().join(", ");
    let bench = BENCHES.iter().find(|bench| bench.name == name);
    let bench = bench.ok_or_else(|| anyhow::anyhow!("no bench `{name}`; there is {}", known()))?;
    let fixed = ["--profile", "ci", "--locked", "--package", bench.package];
    let command = match (&bench.what, more) {
        (What::Test { filter, full }, [] | ["--full"]) => {
            let mut command = shell::cargo(&["test"]);
            command.args(fixed).args(["--test", "it", "--", "--nocapture", filter]);
            if !more.is_empty() {
                command.env(full.0, full.1);
            }
            command
        }
        (What::Test { .. }, _) => anyhow::bail!("after `bench {name}` only --full may follow"),
        (What::Example, more) => {
            let mut command = shell::cargo(&["run"]);
            command.args(fixed).args(["--example", name, "--"]).args(more);
            command
        }
    };
    report::say(&format!("== {name} {}", more.join(" ")));
    let mut command = command;
    command.current_dir(root);
    shell::run(command, Instant::now() + DEADLINE)
}
