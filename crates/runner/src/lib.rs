//! The code that lives inside the children: one request in, one report out, exit.
//!
//! [`run_child`] is called first thing in `main` of a child. Each kind has a file: [`build`]
//! compiles, [`run`] executes a plan for the reference or a candidate and has it timed by
//! [`window`], [`verify`] compares, and [`tiles`] where expected values are too large for the host;
//! [`probe`] looks at the hardware. What a kernel does wrong is in the report; an error here is a
//! bug of ours and ends with its own code.

mod build;
mod bulk;
mod details;
mod limits;
mod probe;
mod reach;
mod run;
mod sample;
mod session;
mod steps;
mod tiles;
mod verify;
mod window;

use std::panic::{AssertUnwindSafe, catch_unwind};

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
    #[error("this program panicked: {0}")]
    Panic(String),
    /// Something that this machine lacks.
    #[error("{0}")]
    NotAvailable(String),
}

/// Serves one request of the given kind and gives the exit code of the process.
#[must_use]
pub fn run_child(kind: ChildKind, mut inside: Inside) -> u8 {
    // A panic here is ours, never the candidate's: it must not be mistaken for a crash of its code.
    let served = catch_unwind(AssertUnwindSafe(|| serve(kind, &mut inside)));
    let report = served.unwrap_or_else(|panic| Err(RunnerError::Panic(panic_text(&*panic))));
    match report {
        Ok(report) => inside.write_report(&report).unwrap_or(sandbox::EXIT_OUR_BUG),
        Err(RunnerError::NotAvailable(why)) => inside.not_available(&why),
        Err(error) => inside.our_bug(&error.to_string()),
    }
}

fn serve(kind: ChildKind, inside: &mut Inside) -> Result<serde_json::Value, RunnerError> {
    match kind {
        ChildKind::Build => json(&build::serve(inside)?),
        ChildKind::Reference | ChildKind::Candidate => json(&run::serve(inside)?),
        ChildKind::Verify => json(&verify::serve(inside)?),
        ChildKind::Probe => json(&probe::serve(inside)?),
        ChildKind::Baseline => Err(RunnerError::NotAvailable(format!(
            "children of kind `{}` do not exist in this version",
            kind.as_str()
        ))),
    }
}

fn json<T: serde::Serialize>(report: &T) -> Result<serde_json::Value, RunnerError> {
    serde_json::to_value(report).map_err(|error| RunnerError::Request(format!("report: {error}")))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}
