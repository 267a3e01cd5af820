//! What can go wrong with a ledger, each with the way out.

use std::path::{Path, PathBuf};

use sqlx::error::DatabaseError;

/// Why the ledger could not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{ledger} is being written by another process; wait until it is done, then try again")]
    Locked { ledger: String },
    #[error("run {run} is driven by process {pid}; stop that process first, or only read the run")]
    RunLocked { run: String, pid: String },
    #[error(
        "{ledger} is damaged: {what}; put back a copy, or move the file away to start a new one"
    )]
    Damaged { ledger: String, what: String },
    #[error(
        "{ledger} has schema {found}, and this program knows {known}; use the newer program or \
         another ledger"
    )]
    NewerSchema { ledger: String, found: i64, known: i64 },
    #[error(
        "{ledger} has schema {found}, this program reads {known}, and it may not be written; copy \
         it to where it may be, then read that"
    )]
    OlderSchema { ledger: String, found: i64, known: i64 },
    #[error("no space left for {ledger}; free some, then resume: nothing stored was lost")]
    DiskFull { ledger: String },
    #[error(
        "{ledger} could not be written ({why}): see that its disk has room and works, and that \
         files may be so long (`ulimit -f`), then resume: nothing stored was lost"
    )]
    CannotWrite { ledger: String, why: String },
    #[error(
        "{ledger} was removed or replaced while it was open ({what}); put it back, with the -wal \
         that belongs to it, then resume: what was stored since is lost"
    )]
    Gone { ledger: String, what: &'static str },
    #[error("{ledger} or its folder may not be written; change its permissions or copy it")]
    ReadOnly { ledger: String },
    #[error("{ledger} does not exist; check the path, or start a run to create it")]
    Absent { ledger: String },
    #[error("{ledger} holds nothing: whoever made it ended too early; start a run to complete it")]
    Unfinished { ledger: String },
    #[error("{ledger} cannot be opened: {why}; check the path and its permissions")]
    CannotOpen { ledger: String, why: String },
    #[error("{path} is there already; name another file, or move that away first")]
    Taken { path: String },
    #[error("no folder {folder} to write into; make it, or name another")]
    NoFolder { folder: String },
    #[error("lock file {path} cannot be used: {why}; check the permissions of its folder")]
    LockFile { path: PathBuf, why: std::io::Error },
    #[error(
        "no run `{selector}` in the ledger; `@last` is the newest, a prefix of an id also does"
    )]
    UnknownRun { selector: String },
    #[error("`{selector}` is the start of several ids: {candidates}; give more of it")]
    Ambiguous { selector: String, candidates: String },
    #[error("no attempt {attempt} in the ledger; list the attempts of its run")]
    UnknownAttempt { attempt: String },
    #[error("no task {hash} in the ledger; start a run from its folder first")]
    UnknownTask { hash: String },
    #[error(
        "no claim or acceptance `{selector}` in the ledger; `report` lists the claims of a run"
    )]
    UnknownClaim { selector: String },
    #[error("attempt {seq} cannot be {action}: it is {found}; read it again and go on from there")]
    WrongState { seq: u32, action: &'static str, found: String },
    #[error("{what} cannot be stored: {why}; this is a defect of the caller")]
    Unstorable { what: &'static str, why: String },
    #[error(
        "{what} cannot be stored: {found} stands in it where only a fixed word may; rename that"
    )]
    Private { what: &'static str, found: String },
    #[error("{what}; `review list` shows what waits")]
    NotWaiting { what: String },
    #[error("{ledger}: {why}; if it happens again, check the disk and the file")]
    Failed { ledger: String, why: String },
}

/// Ids that an error lists before it counts the rest.
const CANDIDATES_MAX: usize = 8;

/// What an error calls the ledger when it does not know the path.
const UNNAMED: &str = "the ledger";

impl StoreError {
    pub(crate) fn damaged(what: impl Into<String>) -> Self {
        Self::Damaged { ledger: UNNAMED.to_owned(), what: what.into() }
    }

    pub(crate) fn failed(why: impl Into<String>) -> Self {
        Self::Failed { ledger: UNNAMED.to_owned(), why: why.into() }
    }

    /// Several things have ids that begin like `selector`; each is named with its kind.
    pub(crate) fn ambiguous(selector: &str, found: &[String]) -> Self {
        let mut candidates = found[..found.len().min(CANDIDATES_MAX)].join(", ");
        if let Some(more @ 1..) = found.len().checked_sub(CANDIDATES_MAX) {
            candidates += &format!(" and {more} more");
        }
        Self::Ambiguous { selector: selector.to_owned(), candidates }
    }

    /// Names the ledger by its path in the variants that speak of it.
    #[must_use]
    pub fn at(mut self, path: &Path) -> Self {
        match &mut self {
            Self::Locked { ledger }
            | Self::Damaged { ledger, .. }
            | Self::NewerSchema { ledger, .. }
            | Self::OlderSchema { ledger, .. }
            | Self::DiskFull { ledger }
            | Self::CannotWrite { ledger, .. }
            | Self::ReadOnly { ledger }
            | Self::Gone { ledger, .. }
            | Self::Absent { ledger }
            | Self::Unfinished { ledger }
            | Self::CannotOpen { ledger, .. }
            | Self::Failed { ledger, .. } => *ledger = format!("ledger {}", path.display()),
            Self::RunLocked { .. }
            | Self::LockFile { .. }
            | Self::Taken { .. }
            | Self::NoFolder { .. }
            | Self::UnknownRun { .. }
            | Self::Ambiguous { .. }
            | Self::UnknownAttempt { .. }
            | Self::UnknownTask { .. }
            | Self::UnknownClaim { .. }
            | Self::WrongState { .. }
            | Self::Unstorable { .. }
            | Self::Private { .. }
            | Self::NotWaiting { .. } => {}
        }
        self
    }

    /// The same where a ledger of an older schema may not be written, which to read it would take.
    pub(crate) fn of_older(self, found: i64, known: i64) -> Self {
        match self {
            Self::ReadOnly { ledger } | Self::CannotOpen { ledger, .. } => {
                Self::OlderSchema { ledger, found, known }
            }
            Self::LockFile { .. } => Self::OlderSchema { ledger: UNNAMED.to_owned(), found, known },
            other => other,
        }
    }

    /// The same for an operating-system error at `path`.
    pub(crate) fn of_io(error: &std::io::Error, path: &Path) -> Self {
        use std::io::ErrorKind as Kind;
        let ledger = UNNAMED.to_owned();
        let found = match error.kind() {
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::ReadOnly { ledger },
            Kind::StorageFull | Kind::QuotaExceeded => Self::DiskFull { ledger },
            Kind::NotFound => Self::Absent { ledger },
            _ => Self::CannotOpen { ledger, why: error.to_string() },
        };
        found.at(path)
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(inner) => Self::of_database(inner.as_ref()),
            sqlx::Error::PoolTimedOut => Self::Locked { ledger: UNNAMED.to_owned() },
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => {
                Self::damaged(error.to_string())
            }
            sqlx::Error::Io(io) => Self::of_io(io, Path::new("")),
            _ => Self::failed(error.to_string()),
        }
    }
}

impl StoreError {
    /// What the operating system refused, by the extended codes of SQLite.
    fn of_disk(code: u32, ledger: String) -> Self {
        let why = match code >> 8 {
            1 | 2 | 33 => {
                let what = "a part of it cannot be read from the disk".to_owned();
                return Self::Damaged { ledger, what };
            }
            3 => "writing failed",
            4 | 5 => "it could not be brought to the disk",
            6 => "its length could not be changed",
            12 => "there is no memory for it",
            18..=21 | 24 => "its -shm file could not be used",
            _ => "its disk failed",
        };
        Self::CannotWrite { ledger, why: why.to_owned() }
    }

    fn of_database(error: &dyn DatabaseError) -> Self {
        let ledger = UNNAMED.to_owned();
        let code = error.code().and_then(|code| code.parse::<u32>().ok()).unwrap_or(0);
        // The low byte is SQLite's primary result code.
        match code & 0xff {
            5 | 6 => Self::Locked { ledger },
            8 => Self::ReadOnly { ledger },
            10 => Self::of_disk(code, ledger),
            11 | 26 => Self::Damaged { ledger, what: error.message().to_owned() },
            13 => Self::DiskFull { ledger },
            14 => Self::CannotOpen { ledger, why: error.message().to_owned() },
            _ => Self::Failed { ledger, why: error.message().to_owned() },
        }
    }
}
