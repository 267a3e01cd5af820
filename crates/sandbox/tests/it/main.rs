//! Real children: scripts that misbehave, and a program that speaks the protocol.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod concurrency;
mod endings;
mod escape;
mod headers;
mod protocol;
mod server;

use std::path::{Path, PathBuf};
use std::time::Duration;

use sandbox::{
    CancelFlag, ChildKind, ChildLimits, ChildOutcome, ChildRun, ChildSpec, ConfinementSet,
    run_child,
};

const CHILD: &str = env!("CARGO_BIN_EXE_sandbox-test-child");

/// Long enough for a busy machine, short enough to notice a hang.
const PATIENCE: Duration = Duration::from_secs(60);

fn limits(deadline: Duration) -> ChildLimits {
    ChildLimits { deadline, cpu_s: 50, data_bytes: 1 << 30, file_bytes: 1 << 20, open_files: 64 }
}

fn script(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(format!("{name}.sh"))
}

fn path_variable() -> Vec<(String, String)> {
    vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())]
}

fn run_script(name: &str, deadline: Duration) -> ChildRun {
    run_script_with(name, deadline, b"{}", &CancelFlag::new())
}

fn run_script_with(
    name: &str,
    deadline: Duration,
    request: &[u8],
    cancel: &CancelFlag,
) -> ChildRun {
    let mut environment = path_variable();
    environment.push(("SCRIPT".to_owned(), script(name).to_str().unwrap().to_owned()));
    run_child(&ChildSpec {
        program: Path::new(CHILD),
        watched_by: &[],
        kind: ChildKind::Build,
        request,
        bulk: &[],
        limits: &limits(deadline),
        confinement: &ConfinementSet::of_nothing(),
        keep_stderr: true,
        environment: &environment,
        cancel,
    })
    .unwrap()
}

fn reported(run: &ChildRun) -> &str {
    match &run.outcome {
        ChildOutcome::Reported(report) => std::str::from_utf8(report).unwrap(),
        other => panic!("{other:?}, {}", run.stderr_tail),
    }
}
