//! The child's side: what a child does first, how it reads its request and writes its report.
//!
//! A child calls [`Inside::begin`] as the first thing in `main`, before any thread and before any
//! file is opened. It is confined before the request arrives.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use command_fds::inherited::take_fd_ownership;
use pipeline::confinement::Confinement;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::confine::{self, Setup};
use crate::error::SandboxError;
use crate::frame::{self, LENGTH_BYTES};
use crate::limits::{MESSAGE_BYTES_MAX, REASON_CHARS_MAX};
use crate::memfd::Memfd;
use crate::{
    BULK_FD, CHILD_COMMAND, ChildKind, EXIT_NOT_A_CHILD, EXIT_NOT_AVAILABLE, EXIT_OUR_BUG,
    EXIT_REPORTED, REPORT_FD, REQUEST_FD, WATCHED, system,
};

/// The channels of a child.
#[derive(Debug)]
pub struct Inside {
    request: File,
    report: File,
    /// What holds this process; `None` where somebody watches it, who knows.
    held: Option<Confinement>,
}

/// True for a child that another program watches. It has threads and descriptors of its watcher's,
/// it was started by one of the watcher's processes, and its watcher must see its end.
fn is_watched() -> bool {
    std::env::args_os().nth(3).is_some_and(|word| word == WATCHED)
}

impl Inside {
    /// Takes over the channels, confines this process and tells what holds it. What goes on from
    /// here may be a grandchild of the process that called.
    ///
    /// # Errors
    ///
    /// A process that was not started by [`crate::run_child`] or has other threads, a second call,
    /// or a failing system call.
    pub fn begin() -> Result<Inside, SandboxError> {
        be_first(CHILD_COMMAND)?;
        let held = if is_watched() {
            // It is confined as its watcher is.
            eprintln!("the watched child: it begins");
            None
        } else {
            Some(be_confined(&word(SETUP_WORD)?)?.1)
        };
        let request = take(REQUEST_FD, OpenOptions::new().read(true))?.into();
        let report = take(REPORT_FD, OpenOptions::new().write(true))?.into();
        Ok(Inside { request, report, held })
    }

    /// From here on no file is opened or found by its name but those below these folders: before
    /// foreign text can name files, and after all else was loaded, while there is one thread. True
    /// where each folder now has the name that stands beside it, and only that; else the folders
    /// keep their own, and the other layers hold what they hold. Nothing undoes it.
    ///
    /// # Errors
    ///
    /// A folder that cannot be opened, or a layer that holds this child but cannot be narrowed.
    pub fn leave_folders(&self, folders: &[(PathBuf, PathBuf)]) -> Result<bool, SandboxError> {
        self.held.as_ref().map_or(Ok(false), |held| confine::leave_folders(held, folders))
    }

    /// Reads the request. What the type does not know is refused if it denies unknown fields.
    ///
    /// # Errors
    ///
    /// A request that is cut short, too long, or of another form.
    pub fn read_request<T: DeserializeOwned>(&mut self) -> Result<T, SandboxError> {
        let failed = |error| SandboxError::system("read the request", error);
        let mut length = [0; LENGTH_BYTES];
        self.request.read_exact(&mut length).map_err(failed)?;
        let bytes = u32::from_le_bytes(length) as usize;
        if bytes > MESSAGE_BYTES_MAX {
            let bytes_max = MESSAGE_BYTES_MAX;
            return Err(SandboxError::TooLong { what: "request", bytes, bytes_max });
        }
        let mut text = vec![0; bytes];
        self.request.read_exact(&mut text).map_err(failed)?;
        serde_json::from_slice(&text).map_err(|error| not_valid("request", &error))
    }

    /// The bulk memory at `index`, in the order of the request; each can be taken once.
    ///
    /// # Errors
    ///
    /// A memory that was not passed or was taken before.
    pub fn bulk(&self, index: usize) -> Result<Memfd, SandboxError> {
        let fd = i32::try_from(index).unwrap_or(i32::MAX).saturating_add(BULK_FD);
        Memfd::from_fd(take(fd, OpenOptions::new().read(true).write(true))?)
    }

    /// Writes the one report and gives the exit code that says so.
    ///
    /// # Errors
    ///
    /// A report that is too long or cannot be encoded, or a parent that is gone.
    pub fn write_report<T: Serialize>(mut self, report: &T) -> Result<u8, SandboxError> {
        self.write(report)?;
        Ok(EXIT_REPORTED)
    }

    /// Says that this machine lacks what the request needs.
    pub fn not_available(mut self, reason: &str) -> u8 {
        self.write_reason(reason);
        EXIT_NOT_AVAILABLE
    }

    /// Says that there is a bug of ours.
    pub fn our_bug(mut self, reason: &str) -> u8 {
        self.write_reason(reason);
        EXIT_OUR_BUG
    }

    fn write_reason(&mut self, reason: &str) {
        let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
        if is_watched() {
            // The exit code and the report that arrive are the watcher's.
            eprintln!("the watched child: {reason}");
        }
        // The exit code says the same without the reason.
        let _ = self.write(&reason);
    }

    fn write<T: Serialize>(&mut self, report: &T) -> Result<(), SandboxError> {
        let text = serde_json::to_vec(report).map_err(|error| not_valid("report", &error))?;
        let framed = frame::encode("report", &text)?;
        self.report
            .write_all(&framed)
            .map_err(|error| SandboxError::system("write the report", error))
    }
}

/// Place of the setup among the words of a child's command line.
const SETUP_WORD: usize = 3;

/// A word of the command line.
pub(crate) fn word(index: usize) -> Result<String, SandboxError> {
    let word = std::env::args_os().nth(index).and_then(|word| word.into_string().ok());
    let missing = || not_a_child("a word of its command line is missing");
    word.ok_or_else(missing)
}

/// Takes over the descriptors, confines this process as its command line says, and tells what holds
/// it now.
pub(crate) fn be_confined(setup: &str) -> Result<(Setup, Confinement), SandboxError> {
    let setup: Setup = serde_json::from_str(setup).map_err(|error| not_valid("setup", &error))?;
    system::take_over_descriptors()?;
    let entered = confine::enter(&setup);
    let told = entered.as_ref().map_err(ToString::to_string);
    let text = serde_json::to_vec(&told).map_err(|error| not_valid("confinement", &error))?;
    let fd = setup.told_fd;
    let pipe = take_fd_ownership(fd)
        .map_err(|error| SandboxError::MissingFd { fd, reason: error.to_string() })?;
    let tell = |error: io::Error| SandboxError::system("tell what holds the child", error);
    File::from(pipe).write_all(&text).map_err(tell)?;
    entered.map(|told| (setup, told.confinement))
}

/// The number by which the rest of the machine knows this process, which in a namespace of its own
/// is another than [`std::process::id`].
#[must_use]
pub fn outer_process_id() -> u32 {
    confine::outer_process_id()
}

fn not_a_child(why: &str) -> SandboxError {
    SandboxError::MissingFd { fd: REQUEST_FD, reason: why.to_owned() }
}

/// Refuses to take over descriptors that somebody else may own already.
pub(crate) fn be_first(command: &str) -> Result<(), SandboxError> {
    static BEGUN: AtomicBool = AtomicBool::new(false);
    if std::env::args_os().nth(1).is_none_or(|word| word != command) {
        return Err(not_a_child("this process is no child"));
    }
    if BEGUN.swap(true, Ordering::AcqRel) {
        return Err(not_a_child("the channels are taken already"));
    }
    if is_watched() {
        return Ok(());
    }
    let threads = std::fs::read_dir("/proc/self/task")
        .map_err(|error| SandboxError::system("count the threads", error))?
        .count();
    if threads == 1 { Ok(()) } else { Err(not_a_child("there are other threads")) }
}

/// Serves one request as a child of the kind that its command line names. Must be the first thing
/// that `main` does; a process that was not started as a child gets an exit code, nothing more.
///
/// The process ends here, without exit handlers: those of a GPU driver wait for kernels that may
/// never end. Only who watches is told of the end by its handler.
pub fn serve(kind: &str, handler: fn(ChildKind, Inside) -> u8) -> ! {
    let code = match (ChildKind::parse(kind), Inside::begin()) {
        (Some(kind), Ok(inside)) => handler(kind, inside),
        (None, _) => EXIT_NOT_A_CHILD,
        (_, Err(error)) => {
            if is_watched() {
                eprintln!("the watched child: {error}");
            }
            EXIT_NOT_A_CHILD
        }
    };
    if is_watched() {
        eprintln!("the watched child: it ends with code {code}");
        std::process::exit(i32::from(code));
    }
    system::end(i32::from(code))
}

/// A channel, opened in this way where it is a file.
fn take(fd: i32, options: &OpenOptions) -> Result<OwnedFd, SandboxError> {
    let taken = match is_watched() {
        true => options.open(fd.to_string()).map(OwnedFd::from).map_err(|error| error.to_string()),
        false => take_fd_ownership(fd).map_err(|error| error.to_string()),
    };
    taken.map_err(|reason| SandboxError::MissingFd { fd, reason })
}

fn not_valid(what: &'static str, error: &serde_json::Error) -> SandboxError {
    SandboxError::Message { what, reason: error.to_string() }
}
