//! Runs the real program in a private folder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pipeline::transcript::{Entry, Usage, write};
use serde_json::Value;
use tempfile::TempDir;

/// A seed that makes runs comparable.
pub(crate) const SEED: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// The program with its own ledger, home and working directory; the compiler's cache is shared.
pub(crate) struct Program {
    folder: TempDir,
}

/// How a call of the program ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) signal: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Where tests keep the compiler: shared with every other test of this workspace.
pub(crate) fn cache() -> PathBuf {
    std::env::var_os("WARPWRIGHT_CACHE").map_or_else(
        || Path::new(env!("CARGO_TARGET_TMPDIR")).join("warpwright-cache"),
        PathBuf::from,
    )
}

impl Program {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn ledger(&self) -> PathBuf {
        self.path("ledger.db")
    }

    pub(crate) fn call(&self, arguments: &[&str]) -> Ended {
        self.call_with(arguments, &[])
    }

    pub(crate) fn call_with(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Ended {
        let mut command = self.command(env!("CARGO_BIN_EXE_warpwright"));
        command.args(arguments).envs(environment.iter().copied());
        Ended::of(command.output().unwrap())
    }

    /// Runs a script of the shell in which `"$@"` is the program with these arguments.
    pub(crate) fn in_shell(&self, script: &str, arguments: &[&str]) -> Ended {
        let mut command = self.command("sh");
        command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_warpwright")]).args(arguments);
        Ended::of(command.output().unwrap())
    }

    /// Any program, in this folder and with nothing of this process's environment but the path.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("WARPWRIGHT_CACHE", cache())
            // The same on every machine.
            .env("WARPWRIGHT_DEVICE", "sim")
            .env("WARPWRIGHT_LEDGER", self.ledger());
        command
    }

    /// Writes a transcript of replies to softmax_rows, one for each attempt.
    pub(crate) fn transcript(&self, replies: &[String]) -> String {
        let entries: Vec<_> =
            replies.iter().zip(1..).map(|(reply, seq)| entry(seq, reply)).collect();
        self.transcript_of(&entries)
    }

    pub(crate) fn transcript_of(&self, entries: &[Entry]) -> String {
        let path = self.path("replies.jsonl");
        std::fs::write(&path, write(entries)).unwrap();
        format!("replay:{}", path.display())
    }

    /// The part of the last run's report that is about its first task.
    pub(crate) fn report(&self) -> Value {
        self.run_report()["tasks"][0].clone()
    }

    /// The last run's report as JSON.
    pub(crate) fn run_report(&self) -> Value {
        let ended = self.call(&["report", "@last", "--json"]);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        serde_json::from_str(ended.stdout.lines().next().unwrap()).unwrap()
    }

    /// `Kind/REASON detail` of each attempt of the last run.
    pub(crate) fn verdicts(&self) -> Vec<String> {
        verdicts_of(&self.report())
    }
}

impl Ended {
    fn of(output: Output) -> Self {
        use std::os::unix::process::ExitStatusExt;
        Self {
            code: output.status.code(),
            signal: output.status.signal(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// The closing line of `--json`.
    pub(crate) fn closing(&self) -> Value {
        serde_json::from_str(self.stdout.lines().last().unwrap()).unwrap()
    }
}

pub(crate) fn verdicts_of(report: &Value) -> Vec<String> {
    let verdict = |attempt: &Value| {
        let verdict = &attempt["verdict"];
        let kind = verdict["kind"].as_str().unwrap();
        let reason =
            verdict["reason"].as_str().map_or(String::new(), |reason| format!("/{reason}"));
        format!("{kind}{reason} {}", verdict["detail"].as_str().unwrap())
    };
    report["attempts"].as_array().unwrap().iter().map(verdict).collect()
}

/// A run's report without what is new in every run: its id, which commands name too, and times.
pub(crate) fn comparable(mut report: Value) -> Value {
    for name in ["run", "timeline"] {
        assert!(report.as_object_mut().unwrap().remove(name).is_some(), "{name}");
    }
    for task in report["tasks"].as_array_mut().unwrap() {
        task["command"] = Value::Null;
        for attempt in task["attempts"].as_array_mut().unwrap() {
            // Which children a program had to start depends on what was stored when it began.
            if let Some(report) = attempt["report"].as_object_mut() {
                assert!(report.remove("held").is_some(), "{report:?}");
            }
        }
    }
    report
}

/// A transcript entry for softmax_rows.
pub(crate) fn entry(seq: u32, reply: &str) -> Entry {
    Entry {
        task: "softmax_rows".to_owned(),
        seq,
        mode: String::new(),
        prompt_hash: String::new(),
        reply: reply.to_owned(),
        finish_reason: "stop".to_owned(),
        usage: Usage::of(100, 10),
        model: "test".to_owned(),
        latency_ms: 1,
        error: None,
    }
}

/// The replies of the demo, in order.
pub(crate) fn demo_replies() -> Vec<String> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/softmax_rows.transcript.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    pipeline::transcript::parse(&text).unwrap().into_iter().map(|entry| entry.reply).collect()
}
