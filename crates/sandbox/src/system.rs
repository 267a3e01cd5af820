//! System calls of this crate for which there is no safe form, shared memory apart: each is a
//! function that is safe to call as its words say.
#![allow(unsafe_code, reason = "forks, descriptors by number, handlers, calls with addresses")]

pub(crate) mod gate;

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};

use command_fds::inherited::init_inherited_fds;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::{AddressFamily, SocketType};
use rustix::process::Pid;
use rustix::thread::UnshareFlags;

use crate::error::SandboxError;
use crate::limits::OPEN_FILES_MAX;

/// First descriptor that is no standard stream.
const FIRST_FD: libc::c_uint = 3;

/// The process that the handler ends.
static ENDED_BY_HANDLER: AtomicI32 = AtomicI32::new(0);

/// Makes what the command starts the leader of a session of its own.
pub(crate) fn in_own_session(command: &mut Command) {
    // SAFETY: between fork and exec it makes one system call and takes no lock.
    unsafe { command.pre_exec(|| Ok(rustix::process::setsid().map(|_| ())?)) };
}

/// Descriptors that this process inherited from its own parent must not reach a child.
///
/// What Rust opens closes on exec by itself; what a shell or a job server left open does not.
pub(crate) fn close_inherited_on_exec() -> Result<(), SandboxError> {
    let failed = |error| SandboxError::system("list the open descriptors", error);
    let entries = fs::read_dir("/proc/self/fd").map_err(failed)?;
    let numbers = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    for number in numbers.filter(|number| *number > 2) {
        // SAFETY: the number is only used for two calls that change nothing but a flag; if another
        // thread closed it meanwhile, they fail or mark a descriptor that has the flag anyway.
        let fd = unsafe { BorrowedFd::borrow_raw(number) };
        if let Ok(flags) = fcntl_getfd(fd)
            && !flags.contains(FdFlags::CLOEXEC)
        {
            let _ = fcntl_setfd(fd, flags | FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

/// Takes over what a child was given. Only the first thing that a process does.
pub(crate) fn take_over_descriptors() -> Result<(), SandboxError> {
    // SAFETY: this is the first call in a process of one thread that was started as a child, so no
    // descriptor besides the standard streams has an owner.
    unsafe { init_inherited_fds() }
        .map_err(|error| SandboxError::system("take over the descriptors", error))
}

/// Forks a process that has one thread: the new one's number, or `None` in it.
pub(crate) fn fork() -> Result<Option<Pid>, SandboxError> {
    // SAFETY: this process has one thread, so the new one may go on as this one does.
    match unsafe { libc::fork() } {
        -1 => Err(SandboxError::system("fork", io::Error::last_os_error())),
        number => Ok(Pid::from_raw(number)),
    }
}

/// Enters new namespaces, in a process that has one thread.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    // SAFETY: the descriptors stay shared, and this process has one thread.
    Ok(unsafe { rustix::thread::unshare_unsafe(flags) }?)
}

/// Keeps the signal to terminate waiting, or lets it come.
pub(crate) fn hold_termination(hold: bool) {
    let how = if hold { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
    // SAFETY: the set is a value of numbers that the first two calls fill and the last one reads.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGTERM);
        libc::sigprocmask(how, &raw const set, std::ptr::null_mut());
    }
}

/// Has the signal to terminate kill a child of this process, until [`ignore_termination`].
pub(crate) fn kill_when_terminated(child: Pid) {
    ENDED_BY_HANDLER.store(child.as_raw_pid(), Ordering::Release);
    // SAFETY: the handler makes one call that is allowed in a handler.
    unsafe { libc::signal(libc::SIGTERM, kill_it as *const () as libc::sighandler_t) };
}

/// From here on the signal to terminate does nothing: what it would kill may be reaped.
pub(crate) fn ignore_termination() {
    // SAFETY: a signal that is ignored runs no code.
    unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
}

extern "C" fn kill_it(_: libc::c_int) {
    // SAFETY: it is a child of this process that is reaped only once this handler is gone.
    unsafe { libc::kill(ENDED_BY_HANDLER.load(Ordering::Acquire), libc::SIGKILL) };
}

/// Closes everything but the standard streams and one descriptor. Only where this process never
/// goes back to the code that owned them.
pub(crate) fn keep_only(kept: &OwnedFd) {
    let kept = kept.as_raw_fd().unsigned_abs();
    if kept > FIRST_FD {
        close_all(FIRST_FD, kept - 1);
    }
    close_all(kept + 1, libc::c_uint::MAX);
}

/// Closes the descriptors of a range, also where the kernel, or a filter, has no call for that.
fn close_all(first: libc::c_uint, last: libc::c_uint) {
    // SAFETY: whoever owned these descriptors lives on in another process.
    let closed = unsafe { libc::close_range(first, last, 0) } == 0;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let end = limit.map_or(OPEN_FILES_MAX, |limit| limit.min(OPEN_FILES_MAX));
    for fd in (u64::from(first)..=u64::from(last)).take_while(|fd| !closed && *fd < end) {
        // SAFETY: as above.
        unsafe { libc::close(fd as libc::c_int) };
    }
}

/// Has a file that may not grow any more be an error of the write, not the end of this process.
///
/// The signal gets a handler instead of being ignored: what this process starts has the default
/// again.
pub fn outlive_file_limits() {
    // SAFETY: the handler does nothing.
    unsafe { libc::signal(libc::SIGXFSZ, do_nothing as *const () as libc::sighandler_t) };
}

extern "C" fn do_nothing(_: libc::c_int) {}

/// Has the kernel end this process after so many seconds, whatever its threads wait for.
pub fn end_after(seconds: u32) {
    // SAFETY: it takes a number; the signal has its default action.
    unsafe { libc::alarm(seconds) };
}

/// Ends this process by a signal, whatever handler it has.
pub(crate) fn end_by(signal: i32) {
    // SAFETY: the default action of a signal replaces a handler; the signal goes to this process.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::kill(libc::getpid(), signal);
    }
}

/// Ends without exit handlers.
pub(crate) fn end(code: i32) -> ! {
    // SAFETY: it takes a number and does not return; nothing of ours needs an exit handler.
    unsafe { libc::_exit(code) }
}

/// A new network has a loopback interface that is down.
pub(crate) fn bring_loopback_up() -> io::Result<()> {
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    // SAFETY: all of its fields are numbers, for which zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = libc::IFF_UP as libc::c_short;
    // SAFETY: the kernel reads a structure of this type, which lives until the call is over.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
