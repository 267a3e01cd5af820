//! What a child is given, and how it may end.

use std::os::fd::BorrowedFd;
use std::path::Path;
use std::time::Duration;

use pipeline::confinement::Confinement;
use serde::{Deserialize, Serialize};

use crate::CancelFlag;
use crate::confine::set::ConfinementSet;

/// What a child is for; the second argument of its command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChildKind {
    /// Compiles a source.
    Build,
    /// Computes the right answer.
    Reference,
    /// Runs the candidate.
    Candidate,
    /// Compares outputs.
    Verify,
    /// Runs a baseline of another framework.
    Baseline,
    /// Looks at the hardware.
    Probe,
}

impl ChildKind {
    /// Every kind.
    pub const ALL: [ChildKind; 6] = [
        ChildKind::Build,
        ChildKind::Reference,
        ChildKind::Candidate,
        ChildKind::Verify,
        ChildKind::Baseline,
        ChildKind::Probe,
    ];

    /// The word on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            ChildKind::Build => "build",
            ChildKind::Reference => "reference",
            ChildKind::Candidate => "candidate",
            ChildKind::Verify => "verify",
            ChildKind::Baseline => "baseline",
            ChildKind::Probe => "probe",
        }
    }

    /// The kind of a word on the command line.
    pub fn parse(word: &str) -> Option<ChildKind> {
        ChildKind::ALL.into_iter().find(|kind| kind.as_str() == word)
    }
}

/// What a child may use. Core dumps are always off.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ChildLimits {
    /// Wall time from the start of the process until its whole group is killed.
    pub deadline: Duration,
    /// Processor time of the child, in seconds.
    pub cpu_s: u64,
    /// Private writable memory, in bytes. Device memory and address space do not count.
    pub data_bytes: u64,
    /// Longest file that it may write, in bytes.
    pub file_bytes: u64,
    /// Descriptors that it may hold.
    pub open_files: u64,
}

/// One child to run.
#[derive(Clone, Copy, Debug)]
pub struct ChildSpec<'a> {
    /// The program, an absolute path.
    pub program: &'a Path,
    /// Words before the program: another one that watches it. Empty for none. It may put threads
    /// into the child, close descriptors, and answer with an exit code of its own.
    pub watched_by: &'a [String],
    /// Its part.
    pub kind: ChildKind,
    /// The request, JSON.
    pub request: &'a [u8],
    /// Shared memories, in the order that the request names them.
    pub bulk: &'a [BorrowedFd<'a>],
    /// What it may use.
    pub limits: &'a ChildLimits,
    /// What holds it; one that is watched is held together with its watcher.
    pub confinement: &'a ConfinementSet,
    /// Whether the tail of its standard error is kept.
    pub keep_stderr: bool,
    /// Its whole environment.
    pub environment: &'a [(String, String)],
    /// Ends it early when set.
    pub cancel: &'a CancelFlag,
}

/// One child that ran; it is reaped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChildRun {
    /// How it ended.
    pub outcome: ChildOutcome,
    /// Wall time from its start until it was reaped or given up.
    pub wall: Duration,
    /// The tail of its standard error; empty unless it was kept.
    pub stderr_tail: String,
    /// What held it; `None` where it ended before it was confined, and so ran nothing.
    pub confinement: Option<Confinement>,
}

/// Which limit of time a child reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// Its deadline, which also passes while others have the processors.
    Wall,
    /// Its own processor time.
    Processor,
}

/// How a child ended. None of these is an error of the caller's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildOutcome {
    /// It exited with 0 after one whole report, given here as it was written.
    Reported(Vec<u8>),
    /// It needs what this machine does not have.
    NotAvailable(String),
    /// It found a bug of ours.
    OurBug(String),
    /// It was ended by a signal or by another exit code.
    Crashed {
        /// The signal, if one ended it.
        signal: Option<i32>,
        /// The exit code, if it exited.
        code: Option<i32>,
    },
    /// It reached a limit of time.
    TimedOut(TimeLimit),
    /// It wrote more than one report may have; it was killed at once.
    Flooded,
    /// It exited with 0 and its report is missing, cut short, or followed by more.
    BadReport(String),
    /// The caller cancelled it.
    Cancelled,
    /// It was killed and did not die within seconds, as when a driver or the kernel holds it. It
    /// is reaped in the background if it ever ends, and until then holds what it held.
    Unreaped,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_words_agree() {
        for kind in ChildKind::ALL {
            assert_eq!(ChildKind::parse(kind.as_str()), Some(kind));
        }
        assert_eq!(ChildKind::parse("other"), None);
    }
}
