//! Everything that CI checks, in parts with a time budget each.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::shell::{self, Counts};
use crate::{report, tidy};

/// No run takes longer, whatever the budgets of its parts.
const HARD_STOP: Duration = Duration::from_secs(60 * 60);

const PROFILE: [&str; 3] = ["--profile", "ci", "--locked"];

/// How one part ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Good,
    Bad,
    NotAvailable,
}

/// One part and how long it took.
#[derive(Debug)]
struct Part {
    name: &'static str,
    budget: Duration,
    took: Duration,
    end: End,
}

struct Parts {
    started: Instant,
    done: Vec<Part>,
}

/// Runs every part; true if all are good and within budget. A failed part does not stop the others.
pub(crate) fn run(root: &Path) -> anyhow::Result<bool> {
    let mut parts = Parts { started: Instant::now(), done: Vec::new() };
    let at_root = |mut command: Command| {
        command.current_dir(root);
        command
    };
    parts.run("toolchain", 25, |deadline| {
        let arguments = ["run", "--package", "warpwright", "--profile", "ci", "--locked"];
        let mut command = at_root(shell::cargo(&arguments));
        command.args(["--", "toolchain", "install"]);
        ended(shell::run(command, deadline))
    })?;
    parts.run("format", 1, |deadline| {
        component(root, &["fmt", "--all", "--", "--check"], "fmt", deadline)
    })?;
    parts.run("clippy", 15, |deadline| {
        let mut arguments = vec!["clippy", "--workspace", "--all-targets"];
        // What only such programs hold is compiled nowhere else.
        arguments.extend(["--features", "warpwright/judge-mutation"]);
        arguments.extend(PROFILE);
        arguments.extend(["--", "-D", "warnings"]);
        component(root, &arguments, "clippy", deadline)
    })?;
    parts.run("tidy", 1, |_| ended(tidy::run(root)))?;
    parts.run("deny", 3, |deadline| {
        component(root, &["deny", "check", "licenses", "bans", "sources"], "deny", deadline)
    })?;
    parts.run("build", 25, |deadline| {
        let mut command = at_root(shell::cargo(&["test", "--workspace", "--no-run"]));
        command.args(PROFILE);
        ended(shell::run(command, deadline))
    })?;
    let mut counts = Counts::default();
    parts.run("tests", 40, |deadline| {
        let mut command = at_root(shell::cargo(&["test", "--workspace", "--no-fail-fast"]));
        command.args(PROFILE);
        let (good, found) = shell::run_tests(command, deadline)?;
        counts = found;
        ended(Ok(good && found.passed > 0))
    })?;
    Ok(parts.print(counts))
}

fn ended(result: anyhow::Result<bool>) -> anyhow::Result<End> {
    Ok(if result? { End::Good } else { End::Bad })
}

/// Runs a component of the Rust toolchain, if this toolchain has it.
fn component(
    root: &Path,
    arguments: &[&str],
    name: &str,
    deadline: Instant,
) -> anyhow::Result<End> {
    if !shell::is_available(shell::cargo(&[name, "--version"])) {
        report::warn(&format!("xtask: `cargo {name}` is NOT AVAILABLE HERE; this is not checked"));
        return Ok(End::NotAvailable);
    }
    let mut command = shell::cargo(arguments);
    command.current_dir(root);
    ended(shell::run(command, deadline))
}

impl Parts {
    fn run(
        &mut self,
        name: &'static str,
        budget_minutes: u64,
        body: impl FnOnce(Instant) -> anyhow::Result<End>,
    ) -> anyhow::Result<()> {
        report::say(&format!("== {name}"));
        let budget = Duration::from_secs(60 * budget_minutes);
        let start = Instant::now();
        let end = body((self.started + HARD_STOP).min(start + budget))?;
        self.done.push(Part { name, budget, took: start.elapsed(), end });
        Ok(())
    }

    /// Prints the table and, last, the sum in the form of `cargo test`.
    fn print(&self, counts: Counts) -> bool {
        let total = self.started.elapsed();
        report::say(&table(&self.done, total));
        let good = self.done.iter().all(is_good) && total <= HARD_STOP && counts.failed == 0;
        report::say(&closing_line(good, counts, total));
        good
    }
}

fn is_good(part: &Part) -> bool {
    part.end != End::Bad && part.took <= part.budget
}

fn table(parts: &[Part], total: Duration) -> String {
    let mut text = format!("\n{:<12}{:>9}{:>9}  result\n", "part", "seconds", "budget");
    for part in parts {
        let result = match part.end {
            End::Good if part.took > part.budget => "OVER BUDGET",
            End::Good => "ok",
            End::Bad => "FAILED",
            End::NotAvailable => "not available here",
        };
        let (took, budget) = (part.took.as_secs_f64(), part.budget.as_secs());
        text += &format!("{:<12}{took:>9.1}{budget:>9}  {result}\n", part.name);
    }
    let (total, stop) = (total.as_secs_f64(), HARD_STOP.as_secs());
    text + &format!("{:<12}{total:>9.1}{stop:>9}\n", "all")
}

fn closing_line(good: bool, counts: Counts, total: Duration) -> String {
    format!(
        "test result: {}. {} passed; {} failed; {} ignored; 0 measured; 0 filtered out; \
         finished in {:.2}s",
        if good { "ok" } else { "FAILED" },
        counts.passed,
        counts.failed,
        counts.ignored,
        total.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(took_s: u64, end: End) -> Part {
        let took = Duration::from_secs(took_s);
        Part { name: "part", budget: Duration::from_secs(60), took, end }
    }

    #[test]
    fn a_part_must_be_good_and_within_budget() {
        assert!(is_good(&part(60, End::Good)));
        assert!(is_good(&part(1, End::NotAvailable)));
        assert!(!is_good(&part(1, End::Bad)));
        assert!(!is_good(&part(61, End::Good)));
        let text = table(&[part(61, End::Good), part(1, End::Bad)], Duration::from_secs(62));
        assert!(text.contains("OVER BUDGET") && text.contains("FAILED"), "{text}");
    }

    #[test]
    fn the_last_line_reads_like_that_of_cargo_test() {
        let counts = Counts { passed: 5, failed: 0, ignored: 1 };
        let line = closing_line(true, counts, Duration::from_millis(1500));
        let expected = "test result: ok. 5 passed; 0 failed; 1 ignored; 0 measured; \
                        0 filtered out; finished in 1.50s";
        assert_eq!(line, expected);
    }
}
