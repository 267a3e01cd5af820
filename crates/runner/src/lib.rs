//! The code that lives inside the children: one request in, one report out, exit.
//!
//! [`run_child`] is called first thing in `main` of a child. Each kind has a file: [`build`]
//! compiles, [`run`] executes a plan for the reference or a candidate, [`verify`] compares. What a
//! kernel does wrong is in the report; an error here is a bug of ours and ends with its own code.

mod build;
mod bulk;
mod limits;
mod run;
mod sample;
mod verify;

use std::process::ExitCode;

use sandbox::inside::Inside;
use sandbox::{ChildKind, SandboxError};

/// Why a child could not do its work.
#[derive(Debug, thiserror::Error)]
enum RunnerError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Device(#[from] device::execute::DeviceError),
    #[error("{0}")]
    Request(String),
    /// Something that this machine lacks.
    #[error("{0}")]
    NotAvailable(String),
}

/// Serves one request of the given kind and gives the exit code of the process.
#[must_use]
pub fn run_child(kind: ChildKind, mut inside: Inside) -> ExitCode {
    let report = match kind {
        ChildKind::Build => build::serve(&mut inside).map(|report| json(&report)),
        ChildKind::Reference | ChildKind::Candidate => {
            run::serve(&mut inside).map(|report| json(&report))
        }
        ChildKind::Verify => verify::serve(&mut inside).map(|report| json(&report)),
        ChildKind::Baseline | ChildKind::Probe => Err(RunnerError::NotAvailable(format!(
            "children of kind `{}` do not exist in this version",
            kind.as_str()
        ))),
    };
    match report {
        Ok(report) => inside.write_report(&report).unwrap_or(ExitCode::from(sandbox::EXIT_OUR_BUG)),
        Err(RunnerError::NotAvailable(why)) => inside.not_available(&why),
        Err(error) => inside.our_bug(&error.to_string()),
    }
}

/// A report as a JSON value; reports are plain data, whose encoding cannot fail.
fn json<T: serde::Serialize>(report: &T) -> serde_json::Value {
    serde_json::to_value(report).unwrap_or_default()
}
