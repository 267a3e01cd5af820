//! How a command ends: exit codes, and the last line of JSON.

use std::fmt;
use std::process::ExitCode;

use agent::AgentError;
use device::toolchain::ToolchainError;
use judge::JudgeError;
use sandbox::SandboxError;
use serde_json::json;
use store::StoreError;

use crate::terminal;

/// A way in which a command can end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    OurError,
    BadInput,
    DidNotPass,
    NotAvailable,
    BudgetEnded,
    NotReproduced,
    LedgerTrouble,
    Interrupted,
}

impl Exit {
    fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::OurError => 1,
            Self::BadInput => 2,
            Self::DidNotPass => 3,
            Self::NotAvailable => 4,
            Self::BudgetEnded => 5,
            Self::NotReproduced => 6,
            Self::LedgerTrouble => 7,
            Self::Interrupted => 130,
        }
    }

    /// The way that ends with this code.
    pub(crate) fn of_code(code: u8) -> Option<Self> {
        const ALL: [Exit; 9] = [
            Exit::Done,
            Exit::OurError,
            Exit::BadInput,
            Exit::DidNotPass,
            Exit::NotAvailable,
            Exit::BudgetEnded,
            Exit::NotReproduced,
            Exit::LedgerTrouble,
            Exit::Interrupted,
        ];
        ALL.into_iter().find(|exit| exit.code() == code)
    }

    fn kind(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::OurError => "error",
            Self::BadInput => "bad-input",
            Self::DidNotPass => "did-not-pass",
            Self::NotAvailable => "not-available",
            Self::BudgetEnded => "budget-ended",
            Self::NotReproduced => "not-reproduced",
            Self::LedgerTrouble => "ledger",
            Self::Interrupted => "interrupted",
        }
    }
}

/// The end of a command that did not break.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) exit: Exit,
    /// Why, in words; empty when done.
    pub(crate) reason: String,
    /// What a script wants besides: ids, counts.
    pub(crate) details: serde_json::Map<String, serde_json::Value>,
}

impl Outcome {
    /// Done and positive.
    pub(crate) fn done() -> Self {
        Self::ended(Exit::Done, "")
    }

    /// Ended in another way, which the output has already explained.
    pub(crate) fn ended(exit: Exit, reason: impl Into<String>) -> Self {
        Self { exit, reason: reason.into(), details: serde_json::Map::new() }
    }

    /// Adds a detail to the closing JSON.
    pub(crate) fn with(mut self, name: &str, value: impl Into<serde_json::Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }
}

/// Bad input of the user, with the way out.
#[derive(Debug)]
pub(crate) struct BadInput(pub(crate) String);

impl fmt::Display for BadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadInput {}

/// An error that says that the input is at fault.
pub(crate) fn bad_input(why: impl fmt::Display) -> anyhow::Error {
    BadInput(why.to_string()).into()
}

/// An error that says that this machine lacks something.
pub(crate) fn not_available(why: impl fmt::Display) -> anyhow::Error {
    JudgeError::NotAvailable(why.to_string()).into()
}

/// Prints an error or the closing JSON, and gives the exit code.
pub(crate) fn finish(result: anyhow::Result<Outcome>, json: bool) -> ExitCode {
    let outcome = result.unwrap_or_else(|error| {
        let reason = words_of(&error);
        terminal::error(&reason);
        Outcome::ended(exit_of(&error), reason)
    });
    if json {
        print_closing(&outcome);
    }
    if terminal::output_lost() {
        terminal::error("the output could not be written whole; is the disk full?");
        return ExitCode::from(Exit::OurError.code());
    }
    ExitCode::from(outcome.exit.code())
}

/// An error with its causes; one that says the words of its cause itself says them once.
fn words_of(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.contains(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// What the system says where this process has used up what it may have.
const USED_UP: [rustix::io::Errno; 4] = [
    rustix::io::Errno::MFILE,
    rustix::io::Errno::NFILE,
    rustix::io::Errno::NOMEM,
    rustix::io::Errno::AGAIN,
];

/// Whether an error comes of a limit of this process or machine.
fn is_used_up(cause: &(dyn std::error::Error + 'static)) -> bool {
    let code = cause.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error);
    let code = code.or_else(|| Some(cause.downcast_ref::<rustix::io::Errno>()?.raw_os_error()));
    USED_UP.iter().any(|it| Some(it.raw_os_error()) == code)
}

/// Prints what the command line was rejected for, or the help that it asked for.
pub(crate) fn finish_usage(error: &clap::Error, json: bool) -> ExitCode {
    let _ = error.print();
    if !error.use_stderr() {
        return ExitCode::SUCCESS;
    }
    if json {
        print_closing(&Outcome::ended(Exit::BadInput, usage_reason(&error.to_string())));
    }
    ExitCode::from(Exit::BadInput.code())
}

/// What a usage error says before it explains the usage, in one line.
fn usage_reason(error: &str) -> String {
    let ends =
        |line: &&str| !["Usage:", "For more information"].iter().any(|it| line.starts_with(it));
    let lines = error.lines().map(str::trim).take_while(ends).filter(|line| !line.is_empty());
    let text = lines.collect::<Vec<_>>().join(" ");
    text.strip_prefix("error: ").map(str::to_owned).unwrap_or(text)
}

fn print_closing(outcome: &Outcome) {
    terminal::json(&record(outcome));
}

/// An end as a line of JSON says it.
pub(crate) fn record(outcome: &Outcome) -> serde_json::Value {
    let mut line = json!({
        "exit": outcome.exit.code(),
        "kind": outcome.exit.kind(),
        "reason": outcome.reason,
    });
    if let Some(object) = line.as_object_mut() {
        object.extend(outcome.details.clone());
    }
    line
}

pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    match exit_by_kind(error) {
        Exit::OurError if error.chain().any(is_used_up) => Exit::NotAvailable,
        exit => exit,
    }
}

fn exit_by_kind(error: &anyhow::Error) -> Exit {
    if error.downcast_ref::<BadInput>().is_some() {
        return Exit::BadInput;
    }
    if error.downcast_ref::<ToolchainError>().is_some() {
        return Exit::NotAvailable;
    }
    if let Some(error) = error.downcast_ref::<StoreError>() {
        return exit_of_store(error);
    }
    if let Some(error) = error.downcast_ref::<JudgeError>() {
        return exit_of_judge(error);
    }
    error.downcast_ref::<AgentError>().map_or(Exit::OurError, exit_of_agent)
}

/// How a run ends that met this error.
pub(crate) fn exit_of_agent(error: &AgentError) -> Exit {
    match error {
        AgentError::Store(error) => exit_of_store(error),
        AgentError::Judge(error) => exit_of_judge(error),
        AgentError::Template(_) => Exit::BadInput,
        AgentError::Incomplete { .. } => Exit::LedgerTrouble,
        AgentError::Worker(_) => Exit::OurError,
    }
}

fn exit_of_judge(error: &JudgeError) -> Exit {
    match error {
        JudgeError::NotAvailable(_) => Exit::NotAvailable,
        JudgeError::Reference { .. } | JudgeError::Refused(_) => Exit::DidNotPass,
        JudgeError::Cancelled => Exit::Interrupted,
        JudgeError::Elsewhere { .. } => Exit::NotAvailable,
        JudgeError::Sandbox(SandboxError::FileLimit { .. }) => Exit::NotAvailable,
        JudgeError::UnknownJob { .. } | JudgeError::Sandbox(_) | JudgeError::Child { .. } => {
            Exit::OurError
        }
    }
}

fn exit_of_store(error: &StoreError) -> Exit {
    match error {
        StoreError::Locked { .. } | StoreError::RunLocked { .. } => Exit::LedgerTrouble,
        StoreError::Damaged { .. } | StoreError::NewerSchema { .. } => Exit::LedgerTrouble,
        StoreError::OlderSchema { .. } => Exit::LedgerTrouble,
        StoreError::DiskFull { .. } | StoreError::ReadOnly { .. } => Exit::LedgerTrouble,
        StoreError::CannotWrite { .. } | StoreError::Gone { .. } => Exit::LedgerTrouble,
        StoreError::CannotOpen { .. } | StoreError::LockFile { .. } => Exit::LedgerTrouble,
        StoreError::Absent { .. } | StoreError::UnknownRun { .. } => Exit::BadInput,
        StoreError::Taken { .. } | StoreError::NoFolder { .. } => Exit::BadInput,
        StoreError::Ambiguous { .. } | StoreError::UnknownAttempt { .. } => Exit::BadInput,
        StoreError::UnknownTask { .. } | StoreError::UnknownClaim { .. } => Exit::BadInput,
        StoreError::Unfinished { .. } | StoreError::NotWaiting { .. } => Exit::BadInput,
        StoreError::WrongState { .. } | StoreError::Private { .. } => Exit::OurError,
        StoreError::Unstorable { .. } | StoreError::Failed { .. } => Exit::OurError,
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;

    use super::*;

    #[test]
    fn what_a_limit_refuses_is_not_available_and_said_once() {
        let of = |code: i32| std::io::Error::from_raw_os_error(code);
        for (code, exit) in
            [(24, Exit::NotAvailable), (12, Exit::NotAvailable), (5, Exit::OurError)]
        {
            let said = format!("making a pipe: {}", of(code));
            let error = Err::<(), _>(of(code)).context(said.clone()).unwrap_err();
            assert_eq!((exit_of(&error), words_of(&error)), (exit, said));
        }
        let error = Err::<(), _>(of(5)).context("a log").unwrap_err();
        assert_eq!(words_of(&error), format!("a log: {}", of(5)));
    }
}
