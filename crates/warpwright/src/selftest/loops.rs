//! The program itself on a GPU: whole runs with recorded replies, and what their ledgers say.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use pipeline::transcript::Entry;
use serde_json::Value;
use tempfile::TempDir;

use super::{Bench, Found};
use crate::limits::SELFTEST_ROWS_BYTES_MAX;
use crate::{embedded, wiring};

/// What a model might answer in the night that the second run stands for, with the verdicts that
/// the ledger must hold afterwards; the last one is a good kernel.
const NIGHT: [(&str, &str); 5] = [
    ("endless", "Hung/TIMEOUT"),
    ("far_write", "Faulted/GUARD"),
    ("near_write", "Faulted/GUARD"),
    ("memory_hog", "Correct"),
    ("trap", "Faulted/CRASH"),
];
const NIGHT_TASK: &str = "softmax_rows";
/// The task whose good kernel is claimed; without PyTorch the rival is its naive kernel.
const CLAIM_TASK: &str = "layer_norm";
/// The claim as a file, in the folder of the self-test.
const BUNDLE: &str = "claim.bundle";
const NO_TORCH: (&str, &str) = ("WARPWRIGHT_PYTHON", "/nonexistent");

pub(super) fn run(bench: &mut Bench<'_>) -> anyhow::Result<()> {
    bench.item("a claim within a run", claim)?;
    bench.item("all tasks, naive then good", all_tasks)?;
    bench.item("a night of hostile replies", night)
}

/// A run that makes a claim by itself: it is in the ledger and the report, a program is told of it,
/// and the search had ended before.
fn claim(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let kernels = embedded::selftest_kernels().into_iter();
    let good = kernels.filter(|(task, name, _)| task == CLAIM_TASK && name == "good");
    let replies: Vec<Entry> =
        good.map(|(task, _, reply)| wiring::person_entry(&task, 1, reply)).collect();
    let folder = tempfile::tempdir()?;
    let heard = folder.path().join("heard.jsonl");
    let notify = format!("tee -a {}", heard.display());
    let flags = ["--hours", "0.25", "--notify", &notify, "--accept"];
    let ran = Ran::with(bench, (CLAIM_TASK, replies.len()), &replies, &flags, &[NO_TORCH])?;
    let task = ran.report.pointer("/tasks/0").cloned().unwrap_or_default();
    let text = |pointer: &str| {
        task.pointer(pointer).map_or_else(|| "none".to_owned(), ToString::to_string)
    };
    let told = std::fs::read_to_string(&heard).unwrap_or_default();
    let first_claims = told.matches("\"event\":\"first_claim\"").count();
    let claimed = task.get("standing").and_then(Value::as_str) == Some("claimed");
    // Kept, so that another machine on another day can reproduce it.
    let bundle = bench.folder.join(BUNDLE);
    if bundle.exists() {
        std::fs::remove_file(&bundle)?;
    }
    let words = ["export", "@last", "--out", &bundle.display().to_string()];
    let (exported, _) = ran.ask(bench, &words)?;
    let ended = ran.exit == Some(0) && exported == Some(0);
    Ok(Found::new(ended && claimed && first_claims == 1)
        .with("exit", format!("{:?}", ran.exit))
        .with("exit of the export", format!("{exported:?}"))
        .with("standing in the report", text("/standing"))
        .with("factor", text("/factor"))
        .with("why", text("/why"))
        .with("first claims told", first_claims.to_string())
        .with("seconds", format!("{:.1}", ran.seconds)))
}

fn all_tasks(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let number = |name: &str| if name == "good" { 2 } else { 1 };
    let kernels = embedded::selftest_kernels().into_iter();
    let replies: Vec<Entry> = kernels
        .map(|(task, name, reply)| wiring::person_entry(&task, number(&name), reply))
        .collect();
    let ran = Ran::of(bench, "all", &replies)?;
    let tasks = ran.report.get("tasks").and_then(Value::as_array).cloned().unwrap_or_default();
    let best = |task: &Value| task.get("best").and_then(Value::as_u64) == Some(2);
    let all_measured = tasks.iter().all(|task| is_measured(task, 1));
    let passed = ran.exit == Some(0) && tasks.len() * 2 == replies.len() && all_measured;
    Ok(Found::new(passed && tasks.iter().all(best))
        .with("exit", format!("{:?}", ran.exit))
        .with("tasks whose good kernel is the best", count(&tasks, &best))
        .with("attempts", replies.len().to_string())
        .with("seconds", format!("{:.1}", ran.seconds)))
}

fn night(bench: &Bench<'_>) -> anyhow::Result<Found> {
    let hostile = embedded::selftest_hostile();
    let text = |name: &str| hostile.iter().find(|(other, _)| other == name).map(|it| it.1.clone());
    let numbered = NIGHT.iter().zip(1..);
    let mut replies: Vec<Entry> = numbered
        .filter_map(|((name, _), seq)| Some(wiring::person_entry(NIGHT_TASK, seq, text(name)?)))
        .collect();
    let kernels = embedded::selftest_kernels().into_iter();
    let good = kernels.filter(|(task, name, _)| task == NIGHT_TASK && name == "good");
    let last = NIGHT.len() as u32 + 1;
    replies.extend(good.map(|(task, _, reply)| wiring::person_entry(&task, last, reply)));
    let ran = Ran::of(bench, NIGHT_TASK, &replies)?;
    let task = ran.report.pointer("/tasks/0").cloned().unwrap_or_default();
    let verdicts = verdicts(&task);
    let mut expected: Vec<&str> = NIGHT.iter().map(|(_, verdict)| *verdict).collect();
    expected.push("Correct");
    let passed = ran.exit == Some(0) && verdicts == expected;
    Ok(Found::new(passed && is_measured(&task, NIGHT.len()))
        .with("exit", format!("{:?}", ran.exit))
        .with("verdicts in the ledger", verdicts.join(", "))
        .with("seconds", format!("{:.1}", ran.seconds)))
}

pub(super) fn count(tasks: &[Value], of: &dyn Fn(&Value) -> bool) -> String {
    format!("{} of {}", tasks.iter().filter(|task| of(task)).count(), tasks.len())
}

/// True when the attempt at this place was measured.
fn is_measured(task: &Value, attempt: usize) -> bool {
    task.pointer(&format!("/attempts/{attempt}/report/score/Measured")).is_some()
}

/// Kind and reason of each attempt, in the order of their numbers.
pub(super) fn verdicts(task: &Value) -> Vec<String> {
    let attempts = task.get("attempts").and_then(Value::as_array).cloned().unwrap_or_default();
    let verdict = |attempt: &Value| {
        let part =
            |name: &str| attempt.pointer(&format!("/verdict/{name}")).and_then(Value::as_str);
        match (part("kind"), part("reason")) {
            (Some(kind), Some(reason)) => format!("{kind}/{reason}"),
            (Some(kind), None) => kind.to_owned(),
            (None, _) => "none".to_owned(),
        }
    };
    attempts.iter().map(verdict).collect()
}

/// A run that ended, with its report from the ledger.
pub(super) struct Ran {
    pub(super) exit: Option<i32>,
    pub(super) report: Value,
    pub(super) seconds: f64,
    folder: TempDir,
}

impl Ran {
    /// Runs a task, or all of them, with as many attempts as there are replies and no claims.
    pub(super) fn of(bench: &Bench<'_>, task: &str, replies: &[Entry]) -> anyhow::Result<Self> {
        Self::with(bench, (task, replies.len()), replies, &["--no-accept"], &[])
    }

    /// Runs a task, or all of them, until so many attempts are made.
    pub(super) fn with(
        bench: &Bench<'_>,
        (task, attempts): (&str, usize),
        replies: &[Entry],
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let transcript = folder.path().join("replies.jsonl");
        std::fs::write(&transcript, transcript_of(replies)?)?;
        let model = format!("replay:{}", transcript.display());
        let attempts = attempts.to_string();
        let started = Instant::now();
        let words = ["run", task, "--model", &model, "--attempts", &attempts, "--plateau", "0"];
        let words = [&words[..], flags].concat();
        let (exit, _) = program(bench, folder.path(), &words, environment)?;
        let seconds = started.elapsed().as_secs_f64();
        let (_, report) = program(bench, folder.path(), &["--json", "report", "@last"], &[])?;
        let first = report.lines().next().unwrap_or_default();
        let report = serde_json::from_str(first).unwrap_or_default();
        Ok(Self { exit, report, seconds, folder })
    }

    /// What another command says of its ledger, with the exit code.
    pub(super) fn ask(
        &self,
        bench: &Bench<'_>,
        words: &[&str],
    ) -> anyhow::Result<(Option<i32>, String)> {
        program(bench, self.folder.path(), words, &[])
    }
}

fn transcript_of(replies: &[Entry]) -> anyhow::Result<String> {
    let mut lines = vec!["{\"transcript\":1}".to_owned()];
    for entry in replies {
        lines.push(serde_json::to_string(entry)?);
    }
    Ok(lines.join("\n") + "\n")
}

/// This program with a ledger of its own, on the cards of the self-test.
fn program(
    bench: &Bench<'_>,
    folder: &Path,
    words: &[&str],
    environment: &[(&str, &str)],
) -> anyhow::Result<(Option<i32>, String)> {
    let first = bench.sheets.first().map(|sheet| format!("cuda:{}", sheet.uuid));
    let output = Command::new(std::env::current_exe()?)
        .arg("--ledger")
        .arg(folder.join("ledger.db"))
        .args(["--device", &first.unwrap_or_default()])
        .args(words)
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()?;
    let kept = output.stdout.len().min(SELFTEST_ROWS_BYTES_MAX as usize);
    Ok((output.status.code(), String::from_utf8_lossy(&output.stdout[..kept]).into_owned()))
}
