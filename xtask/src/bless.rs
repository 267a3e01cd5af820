//! Takes over changed snapshots and lowers the ratchet; a person then reads the difference.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::{report, shell, tidy};

/// Every variable that makes a test write what it would compare.
const VARIABLES: [(&str, &str); 4] = [
    ("INSTA_UPDATE", "always"),
    ("INSTA_FORCE_PASS", "1"),
    ("UPDATE_EXPECT", "1"),
    ("WARPWRIGHT_BLESS", "1"),
];

const DEADLINE: Duration = Duration::from_secs(60 * 60);

/// Runs the tests; true if they passed.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let mut command = shell::cargo(&["test", "--workspace", "--no-fail-fast"]);
    command.args(["--profile", "ci", "--locked"]).current_dir(root).envs(VARIABLES);
    let good = shell::run(command, Instant::now() + DEADLINE)?;
    tidy::lower_ratchet(root)?;
    report::say("snapshots are written: read `git diff` before you commit, every line of it");
    Ok(good)
}
