//! Runs commands with a deadline, and counts what `cargo test` says.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::report;

const POLL: Duration = Duration::from_millis(100);

/// The sums of all `test result` lines of one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) ignored: u64,
}

/// `cargo` with these arguments.
pub(crate) fn cargo(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    command.args(arguments);
    command
}

/// Whether the command exists and ends well; it prints nothing.
pub(crate) fn is_available(mut command: Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs the command to its end or to the deadline; true if it ended well.
pub(crate) fn run(mut command: Command, deadline: Instant) -> anyhow::Result<bool> {
    let mut child =
        command.stdin(Stdio::null()).spawn().with_context(|| format!("cannot run {command:?}"))?;
    wait(&mut child, deadline)
}

/// As [`run`], and counts the tests while it passes the output on.
pub(crate) fn run_tests(mut command: Command, deadline: Instant) -> anyhow::Result<(bool, Counts)> {
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {command:?}"))?;
    let output = child.stdout.take().context("no output")?;
    let reader = thread::spawn(move || pass_on(output, &report::say));
    let good = wait(&mut child, deadline)?;
    let counts = reader.join().unwrap_or_default();
    Ok((good, counts))
}

fn wait(child: &mut Child, deadline: Instant) -> anyhow::Result<bool> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if Instant::now() >= deadline {
            kill_tree(child.id())?;
            child.wait()?;
            report::warn("xtask: the command was killed at its deadline");
            return Ok(false);
        }
        thread::sleep(POLL);
    }
}

/// Kills a process and all below it. Not by process group: with a group of their own the commands
/// would survive a Ctrl-C at the terminal.
fn kill_tree(pid: u32) -> anyhow::Result<()> {
    let mut tree = vec![pid.to_string()];
    let parents = parents();
    let mut at = 0;
    while let Some(parent) = tree.get(at).cloned() {
        tree.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| pid.clone()));
        at += 1;
    }
    Command::new("kill").arg("-KILL").args(&tree).stderr(Stdio::null()).status()?;
    Ok(())
}

/// Every process with its parent.
fn parents() -> Vec<(String, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().into_string().ok()?;
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let parent = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.to_owned();
            Some((pid, parent))
        })
        .collect()
}

fn pass_on(output: impl Read, say: &dyn Fn(&str)) -> Counts {
    let mut sum = Counts::default();
    for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        say(&line);
        if let Some(counts) = counts(&line) {
            sum.passed += counts.passed;
            sum.failed += counts.failed;
            sum.ignored += counts.ignored;
        }
    }
    sum
}

/// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn counts(line: &str) -> Option<Counts> {
    let rest = line.strip_prefix("test result: ")?.split_once(". ")?.1;
    let mut found = Counts::default();
    for part in rest.split("; ") {
        match part.split_once(' ') {
            Some((count, "passed")) => found.passed = count.parse().ok()?,
            Some((count, "failed")) => found.failed = count.parse().ok()?,
            Some((count, "ignored")) => found.ignored = count.parse().ok()?,
            _ => {}
        }
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_lines_are_summed() {
        let text = "running 2 tests\n\
            test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out\n\
            test result: FAILED. 3 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out\n";
        let counts = pass_on(text.as_bytes(), &|_| {});
        assert_eq!(counts, Counts { passed: 5, failed: 4, ignored: 1 });
    }

    #[test]
    fn a_command_ends_at_its_deadline() {
        // The grandchild holds the pipe open, so the reader ends only if it is killed too.
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & wait"]);
        let deadline = Instant::now() + Duration::from_millis(300);
        assert!(!run_tests(command, deadline).unwrap().0);
        assert!(run(Command::new("true"), Instant::now() + Duration::from_secs(60)).unwrap());
    }
}
