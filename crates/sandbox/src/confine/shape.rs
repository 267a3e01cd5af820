//! The processes around a child that has a namespace of processes.
//!
//! The one that the parent started stays outside and waits. The first one inside reaps whatever is
//! left to it; when it ends, the kernel ends everything in there. The worker is the second: the
//! first would not be killed by signals of its own. The worker's status travels over a pipe, and
//! whoever waits ends in the same way.
#![allow(unsafe_code, reason = "fork, signal handlers and ends without exit handlers")]

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{DumpableBehavior, Pid, Signal, WaitOptions};

use crate::error::SandboxError;
use crate::spawn;

/// First descriptor that is no standard stream.
const FIRST_FD: libc::c_uint = 3;
/// Exit code of a child that could not say how it ended.
const EXIT_LOST: i32 = 125;

/// The first process of the namespace, for the handler.
static FIRST_INSIDE: AtomicI32 = AtomicI32::new(0);

/// Makes this process's death follow its parent's. Any change of user or capabilities undoes it.
pub(super) fn end_with_parent(inside: bool) -> Result<(), SandboxError> {
    let failed = |error| SandboxError::system("follow the parent's end", error);
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(failed)?;
    // Inside a namespace the parent is its first process, with which everything ends.
    if !inside && rustix::process::getppid().is_none() {
        return Err(failed(rustix::io::Errno::SRCH));
    }
    Ok(())
}

/// Forks the first process of a new namespace, and in it the worker, in which this returns.
pub(super) fn fork_worker() -> Result<(), SandboxError> {
    end_with_parent(true)?;
    let (status, status_end) = spawn::pipe()?;
    if let Some(first) = fork()? {
        drop(status_end);
        wait_outside(first, status);
    }
    drop(status);
    end_with_parent(true)?;
    rustix::process::setsid().map_err(|error| SandboxError::system("make a session", error))?;
    match fork()? {
        Some(worker) => wait_inside(worker, status_end),
        None => Ok(()),
    }
}

/// The new process's number, or `None` in it.
fn fork() -> Result<Option<Pid>, SandboxError> {
    // SAFETY: this process has one thread, so the new one may go on as this one does.
    match unsafe { libc::fork() } {
        -1 => Err(SandboxError::system("fork", std::io::Error::last_os_error())),
        number => Ok(Pid::from_raw(number)),
    }
}

/// Waits until everything inside has ended, then ends as the worker did.
fn wait_outside(first: Pid, status: OwnedFd) -> ! {
    FIRST_INSIDE.store(first.as_raw_pid(), Ordering::Release);
    // SAFETY: the handler makes one call that is allowed in a handler.
    unsafe { libc::signal(libc::SIGTERM, end_inside as *const () as libc::sighandler_t) };
    keep_only(&status);
    let mut told = [0; 4];
    let worker = File::from(status).read_exact(&mut told);
    while rustix::process::waitpid(Some(first), WaitOptions::empty())
        .is_err_and(|error| error == rustix::io::Errno::INTR)
    {}
    match worker {
        Ok(()) => mirror(i32::from_le_bytes(told)),
        // It was killed, as were all.
        Err(_) => mirror(libc::SIGKILL),
    }
}

/// Ends all that is inside; the wait goes on until it is gone.
extern "C" fn end_inside(_: libc::c_int) {
    let first = FIRST_INSIDE.load(Ordering::Acquire);
    // SAFETY: it is a child of this process that is not reaped before this process ends.
    unsafe { libc::kill(first, libc::SIGKILL) };
}

/// Reaps everybody who is left here until the worker has ended.
fn wait_inside(worker: Pid, status_end: OwnedFd) -> ! {
    keep_only(&status_end);
    // What the worker runs must not look into this process.
    let _ = rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable);
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((ended, status))) if ended == worker => {
                let told = status.as_raw().to_le_bytes();
                let told = File::from(status_end).write_all(&told);
                end(if told.is_ok() { 0 } else { EXIT_LOST });
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => end(EXIT_LOST),
        }
    }
}

/// Closes everything but the standard streams and one descriptor.
fn keep_only(kept: &OwnedFd) {
    let kept = kept.as_raw_fd().unsigned_abs();
    // SAFETY: whoever owned these descriptors lives on in another process; this one never goes
    // back to its code.
    unsafe {
        if kept > FIRST_FD {
            libc::close_range(FIRST_FD, kept - 1, 0);
        }
        libc::close_range(kept + 1, libc::c_uint::MAX, 0);
    }
}

/// Ends this process as one with this status ended.
pub(crate) fn mirror(status: i32) -> ! {
    let status = ExitStatus::from_raw(status);
    if let Some(code) = status.code() {
        end(code);
    }
    let signal = status.signal().unwrap_or(libc::SIGKILL);
    // SAFETY: the default action of a signal replaces a handler; the signal goes to this process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
    end(EXIT_LOST)
}

/// Ends without exit handlers.
fn end(code: i32) -> ! {
    // SAFETY: it takes a number and does not return; nothing of ours needs an exit handler.
    unsafe { libc::_exit(code) }
}
