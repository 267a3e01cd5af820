//! The processes around a child that has a namespace of processes.
//!
//! The one that the parent started stays outside and waits. The first one inside reaps whatever is
//! left to it; when it ends, the kernel ends everything in there. The worker is the second: the
//! first would not be killed by signals of its own. The worker's status travels over a pipe, and
//! whoever waits ends in the same way.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::error::SandboxError;
use crate::{spawn, system};

/// Exit code of a child that could not say how it ended.
const EXIT_LOST: i32 = 125;

/// Makes this process's death follow its parent's. Any change of user or capabilities undoes it.
pub(super) fn end_with_parent(inside: bool) -> Result<(), SandboxError> {
    let failed = |error| SandboxError::system("follow the parent's end", error);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    // Inside a namespace the parent is its first process, with which everything ends.
    if !inside && rustix::process::getppid().is_none() {
        return Err(failed(Errno::SRCH));
    }
    Ok(())
}

/// Forks the first process of a new namespace, and in it the worker, in which this returns.
pub(super) fn fork_worker() -> Result<(), SandboxError> {
    end_with_parent(true)?;
    let (status, status_end) = spawn::pipe()?;
    if let Some(first) = system::fork()? {
        drop(status_end);
        wait_outside(first, status);
    }
    drop(status);
    end_with_parent(true)?;
    rustix::process::setsid().map_err(|error| SandboxError::system("make a session", error))?;
    match system::fork()? {
        Some(worker) => wait_inside(worker, status_end),
        None => Ok(()),
    }
}

/// Waits until everything inside has ended, then ends as the worker did. The signal to terminate
/// ends all that is inside, and the wait goes on until it is gone.
fn wait_outside(first: Pid, status: OwnedFd) -> ! {
    system::kill_when_terminated(first);
    system::keep_only(&status);
    let mut told = [0; 4];
    let worker = File::from(status).read_exact(&mut told);
    while let Err(Errno::INTR) = rustix::process::waitpid(Some(first), WaitOptions::empty()) {}
    match worker {
        Ok(()) => mirror(i32::from_le_bytes(told)),
        // It was killed, as were all.
        Err(_) => mirror(libc::SIGKILL),
    }
}

/// Reaps everybody who is left here until the worker has ended.
fn wait_inside(worker: Pid, status_end: OwnedFd) -> ! {
    system::keep_only(&status_end);
    // What the worker runs must not look into this process.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == worker => {
                let told = status.as_raw().to_le_bytes();
                let told = File::from(status_end).write_all(&told);
                system::end(if told.is_ok() { 0 } else { EXIT_LOST });
            }
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => system::end(EXIT_LOST),
        }
    }
}

/// Ends this process as one with this status ended.
pub(crate) fn mirror(status: i32) -> ! {
    let status = ExitStatus::from_raw(status);
    if let Some(code) = status.code() {
        system::end(code);
    }
    system::end_by(status.signal().unwrap_or(libc::SIGKILL));
    system::end(EXIT_LOST)
}
