//! What can go wrong on our side.

use std::io;
use std::path::PathBuf;

/// The caller, the machine or this crate is broken; never something that a child did.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SandboxError {
    /// A message is longer than the protocol allows.
    #[error("the {what} has {bytes} bytes, {bytes_max} are allowed; move bulk data into a memfd")]
    TooLong {
        /// Request or report.
        what: &'static str,
        /// Its length.
        bytes: usize,
        /// The longest allowed.
        bytes_max: usize,
    },
    /// Too many bulk memories.
    #[error("the child is given {count} bulk memories, {count_max} are allowed")]
    TooManyBulk {
        /// How many.
        count: usize,
        /// The most allowed.
        count_max: usize,
    },
    /// The program does not start.
    #[error("cannot start {program}: {source}; see that the file exists and may be executed")]
    Start {
        /// The program.
        program: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A message cannot be decoded or encoded.
    #[error("the {what} is not valid: {reason}")]
    Message {
        /// Request or report.
        what: &'static str,
        /// The decoder's words.
        reason: String,
    },
    /// A descriptor of the protocol is missing.
    #[error("descriptor {fd} is missing ({reason}); children are started by the program itself")]
    MissingFd {
        /// Its number.
        fd: i32,
        /// Why.
        reason: String,
    },
    /// This machine cannot confine a child as it was required; nothing was run.
    #[error(
        "confinement of level {required} is required and `{set}` has {why}; nothing was run \
         (--require-confinement, WARPWRIGHT_REQUIRE_CONFINEMENT)"
    )]
    Unconfined {
        /// Name of the set.
        set: String,
        /// The level that is required.
        required: u8,
        /// What it has.
        why: String,
    },
    /// A child could not confine itself as it must; nothing was run.
    #[error("a child cannot be confined as `{set}`: {why}; nothing was run")]
    NotConfined {
        /// Name of the set.
        set: String,
        /// What failed.
        why: String,
    },
    /// A memory is mapped for reading while others may write it.
    #[error("the shared memory may still be written; seal it before it is read")]
    NotSealed,
    /// A memory has no bytes, or too many.
    #[error("a shared memory of {bytes} bytes cannot be made")]
    BadSize {
        /// The size.
        bytes: u64,
    },
    /// Files of this process, which shared memories are to the kernel, may not be so large.
    #[error(
        "a shared memory of {bytes} bytes is larger than the files that this process may write: \
         raise that limit (`ulimit -f unlimited`; LimitFSIZE of a service)"
    )]
    FileLimit {
        /// The size.
        bytes: u64,
    },
    /// A range outside of the memory.
    #[error("bytes {start}..{end} are outside of a shared memory of {bytes} bytes")]
    OutOfRange {
        /// Its start.
        start: usize,
        /// Its end.
        end: usize,
        /// The size of the memory.
        bytes: usize,
    },
    /// A system call failed.
    #[error("cannot {action}: {source}")]
    System {
        /// The verb.
        action: &'static str,
        /// The cause.
        source: io::Error,
    },
}

impl SandboxError {
    pub(crate) fn system(action: &'static str, source: impl Into<io::Error>) -> SandboxError {
        SandboxError::System { action, source: source.into() }
    }
}
