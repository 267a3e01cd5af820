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
use rustix::process::{DumpableBehavior, Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::error::SandboxError;
use crate::{spawn, system};

/// Exit code of a child that could not say how it ended.
const EXIT_LOST: i32 = 125;

/// Makes this process's death follow its parent's. Any change of user or capabilities undoes it.
/// Inside a namespace the parent is its first process, with which everything ends, and has no
/// number that is known here.
pub(super) fn end_with_parent(parent: Option<u32>) -> Result<(), SandboxError> {
    let failed = |error| SandboxError::system("follow the parent's end", error);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    let now = rustix::process::getppid().map(|parent| parent.as_raw_pid().unsigned_abs());
    // It may have ended before.
    if parent.is_some_and(|parent| now != Some(parent)) {
        return Err(failed(Errno::SRCH));
    }
    Ok(())
}

/// Forks the first process of a new namespace, and in it the worker, in which this returns.
pub(super) fn fork_worker(parent: Option<u32>) -> Result<(), SandboxError> {
    end_with_parent(parent)?;
    let (status, status_end) = spawn::pipe()?;
    // A kill that comes now waits until there is somebody to be killed.
    system::hold_termination(true);
    if let Some(first) = system::fork()? {
        drop(status_end);
        wait_outside(first, status);
    }
    drop(status);
    system::hold_termination(false);
    end_with_parent(None)?;
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
    system::hold_termination(false);
    system::keep_only(&status);
    let mut told = [0; 4];
    let worker = File::from(status).read_exact(&mut told);
    let ended = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while let Err(Errno::INTR) = rustix::process::waitid(WaitId::Pid(first), ended) {}
    // Once it is reaped its number may be another's.
    system::ignore_termination();
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
