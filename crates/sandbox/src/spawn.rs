//! Starts a child: pipes, descriptors, limits, its own process group.
#![allow(unsafe_code, reason = "borrows inherited descriptors by number")]

use std::fs;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, Signal};

use crate::child::{ChildLimits, ChildSpec};
use crate::error::SandboxError;
use crate::limits::{BULK_MAX, MESSAGE_BYTES_MAX, REAP_WAIT};
use crate::server::ServerSpec;
use crate::{BULK_FD, CHILD_COMMAND, REPORT_FD, REQUEST_FD, WATCHED, frame};

/// A child that runs. Dropping it kills its group and reaps it, as [`Running::reap`] does.
#[derive(Debug)]
pub(crate) struct Running {
    /// Gone once it was reaped, or left to a thread of its own.
    child: Option<Child>,
    pid: Pid,
    pub(crate) pidfd: OwnedFd,
    /// The request with its length, still to be written.
    pub(crate) request: Vec<u8>,
    pub(crate) request_pipe: Option<OwnedFd>,
    pub(crate) report_pipe: Option<OwnedFd>,
    pub(crate) stderr_pipe: Option<OwnedFd>,
    /// What a watched child opens by its number here, held open until it ends.
    _channels: Vec<OwnedFd>,
}

impl Running {
    /// Kills the child and every process of its group. Only before it is reaped: until then its
    /// number cannot belong to another group.
    pub(crate) fn kill(&self) {
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }

    /// Kills what is left of the group and reaps the child; `None` if it was reaped before, or if
    /// it does not die: then a thread of its own waits for it.
    pub(crate) fn reap(&mut self) -> Result<Option<ExitStatus>, SandboxError> {
        if self.child.is_none() {
            return Ok(None);
        }
        self.kill();
        let ended = ends_within(self.pidfd.as_fd(), REAP_WAIT);
        let Some(mut child) = self.child.take() else { return Ok(None) };
        if !matches!(ended, Ok(true)) {
            leave(child);
            return ended.map(|_| None);
        }
        let status = child.wait();
        status.map(Some).map_err(|error| SandboxError::system("wait for the child", error))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.reap();
    }
}

/// Whether a process has ended, or does so in this time.
pub(crate) fn ends_within(pidfd: BorrowedFd<'_>, time: Duration) -> Result<bool, SandboxError> {
    happens_within(pidfd, PollFlags::IN, time)
}

/// Whether something happens to a descriptor in this time.
pub(crate) fn happens_within(
    fd: impl AsFd,
    what: PollFlags,
    time: Duration,
) -> Result<bool, SandboxError> {
    let started = Instant::now();
    loop {
        let mut fds = [PollFd::from_borrowed_fd(fd.as_fd(), what)];
        let left = time.saturating_sub(started.elapsed());
        if let Some(count) = poll_within(&mut fds, left)? {
            return Ok(count > 0);
        }
    }
}

/// Waits for one of several descriptors; `None` when a signal ended the wait.
pub(crate) fn poll_within(
    fds: &mut [PollFd<'_>],
    time: Duration,
) -> Result<Option<usize>, SandboxError> {
    let timeout = Timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: time.subsec_nanos().into(),
    };
    match poll(fds, Some(&timeout)) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::INTR) => Ok(None),
        Err(error) => Err(SandboxError::system("wait for the child", error)),
    }
}

/// Leaves a child that does not die to a thread; without one it stays a zombie until we end.
fn leave(mut child: Child) {
    let name = "unreaped-child".to_owned();
    let _ = std::thread::Builder::new().name(name).spawn(move || child.wait());
}

/// Refuses what the protocol does not allow.
pub(crate) fn check(spec: &ChildSpec<'_>) -> Result<(), SandboxError> {
    if spec.request.len() > MESSAGE_BYTES_MAX {
        let (bytes, bytes_max) = (spec.request.len(), MESSAGE_BYTES_MAX);
        return Err(SandboxError::TooLong { what: "request", bytes, bytes_max });
    }
    if spec.bulk.len() > BULK_MAX {
        let (count, count_max) = (spec.bulk.len(), BULK_MAX);
        return Err(SandboxError::TooManyBulk { count, count_max });
    }
    Ok(())
}

/// Starts the child; it waits for its request, which is not written yet.
pub(crate) fn start(spec: &ChildSpec<'_>, folder: &Path) -> Result<Running, SandboxError> {
    let request = frame::encode("request", spec.request)?;
    let (request_read, request_write) = pipe()?;
    let (report_read, report_write) = pipe()?;
    let mut mappings = vec![
        FdMapping { parent_fd: request_read, child_fd: REQUEST_FD },
        FdMapping { parent_fd: report_write, child_fd: REPORT_FD },
    ];
    for (bulk, child_fd) in spec.bulk.iter().zip(BULK_FD..) {
        let parent_fd = bulk
            .try_clone_to_owned()
            .map_err(|error| SandboxError::system("duplicate a bulk descriptor", error))?;
        mappings.push(FdMapping { parent_fd, child_fd });
    }
    close_inherited_on_exec()?;
    let mut channels = Vec::new();
    if !spec.watched_by.is_empty() {
        channels = name_channels(folder, mappings.drain(..))?;
    }
    let mut child = spawn(spec, folder, mappings)?;
    let stderr_pipe = child.stderr.take().map(OwnedFd::from);
    let (pid, pidfd) = identify(&mut child)?;
    let running = Running {
        child: Some(child),
        pid,
        pidfd,
        request,
        request_pipe: Some(request_write),
        report_pipe: Some(report_read),
        stderr_pipe,
        _channels: channels,
    };
    for pipe in [&running.request_pipe, &running.report_pipe, &running.stderr_pipe] {
        pipe.as_ref().map_or(Ok(()), |pipe| never_block(pipe.as_fd()))?;
    }
    set_limits(running.pid, spec.limits)?;
    Ok(running)
}

/// Starts a fork server with its end of the socket as descriptor 3.
pub(crate) fn start_server(
    spec: &ServerSpec,
    folder: &Path,
    socket: OwnedFd,
) -> Result<Running, SandboxError> {
    close_inherited_on_exec()?;
    let mut command = Command::new(&spec.program);
    command
        .args(&spec.arguments)
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0);
    let start = |source| SandboxError::Start { program: spec.program.clone(), source };
    let mapping = FdMapping { parent_fd: socket, child_fd: REQUEST_FD };
    command.fd_mappings(vec![mapping]).map_err(|error| start(std::io::Error::other(error)))?;
    let mut child = command.spawn().map_err(start)?;
    let (pid, pidfd) = identify(&mut child)?;
    Ok(Running {
        child: Some(child),
        pid,
        pidfd,
        request: Vec::new(),
        request_pipe: None,
        report_pipe: None,
        stderr_pipe: None,
        _channels: Vec::new(),
    })
}

/// Gives a watched child its channels by their names: links to what this process holds open.
fn name_channels(
    folder: &Path,
    mappings: impl Iterator<Item = FdMapping>,
) -> Result<Vec<OwnedFd>, SandboxError> {
    let mut channels = Vec::new();
    for mapping in mappings {
        let number = mapping.parent_fd.as_raw_fd();
        let target = format!("/proc/{}/fd/{number}", std::process::id());
        rustix::fs::symlink(target, folder.join(mapping.child_fd.to_string()))
            .map_err(|error| SandboxError::system("name a channel", error))?;
        channels.push(mapping.parent_fd);
    }
    Ok(channels)
}

fn spawn(
    spec: &ChildSpec<'_>,
    folder: &Path,
    mappings: Vec<FdMapping>,
) -> Result<Child, SandboxError> {
    let mut command = match spec.watched_by {
        [] => Command::new(spec.program),
        [watcher, words @ ..] => {
            let mut command = Command::new(watcher);
            command.args(words).arg(spec.program);
            command
        }
    };
    command.args([CHILD_COMMAND, spec.kind.as_str()]);
    if !spec.watched_by.is_empty() {
        command.arg(WATCHED);
    }
    command
        .env_clear()
        .envs(spec.environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if spec.keep_stderr { Stdio::piped() } else { Stdio::null() })
        .process_group(0);
    let start = |source| SandboxError::Start { program: spec.program.to_owned(), source };
    command.fd_mappings(mappings).map_err(|error| start(std::io::Error::other(error)))?;
    // Dropping the command closes our copies of the child's ends, so that its end is seen.
    command.spawn().map_err(start)
}

fn identify(child: &mut Child) -> Result<(Pid, OwnedFd), SandboxError> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let found = pid.ok_or(Errno::SRCH).and_then(|pid| {
        rustix::process::pidfd_open(pid, PidfdFlags::empty()).map(|pidfd| (pid, pidfd))
    });
    found.map_err(|error| {
        let _ = child.kill();
        let _ = child.wait();
        SandboxError::system("open the child's pidfd", error)
    })
}

/// Sets the limits from outside: the child has no request yet and cannot skip them.
fn set_limits(pid: Pid, limits: &ChildLimits) -> Result<(), SandboxError> {
    let hard_cpu_s = limits.cpu_s.saturating_add(1);
    let all = [
        // The soft limit ends the child with a signal of its own, which tells the cause.
        (Resource::Cpu, limits.cpu_s, hard_cpu_s),
        (Resource::Data, limits.data_bytes, limits.data_bytes),
        (Resource::Fsize, limits.file_bytes, limits.file_bytes),
        (Resource::Nofile, limits.open_files, limits.open_files),
        (Resource::Core, 0, 0),
    ];
    for (resource, current, maximum) in all {
        let limit = Rlimit { current: Some(current), maximum: Some(maximum) };
        match rustix::process::prlimit(Some(pid), resource, limit) {
            // It is gone already; its status tells why.
            Ok(_) | Err(Errno::SRCH) => {}
            Err(error) => return Err(SandboxError::system("limit the child", error)),
        }
    }
    Ok(())
}

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| SandboxError::system("make a pipe", error))
}

pub(crate) fn never_block(pipe: BorrowedFd<'_>) -> Result<(), SandboxError> {
    fcntl_getfl(pipe)
        .and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK))
        .map_err(|error| SandboxError::system("configure a pipe", error))
}

/// Descriptors that this process inherited from its own parent must not reach the child.
///
/// What Rust opens closes on exec by itself; what a shell or a job server left open does not.
fn close_inherited_on_exec() -> Result<(), SandboxError> {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper() -> (Child, Pid, OwnedFd) {
        let mut child = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let (pid, pidfd) = identify(&mut child).unwrap();
        (child, pid, pidfd)
    }

    #[test]
    fn the_wait_for_an_end_has_a_bound() {
        let (mut child, _, pidfd) = sleeper();
        let started = Instant::now();
        assert!(!ends_within(pidfd.as_fd(), Duration::from_millis(50)).unwrap());
        assert!(started.elapsed() >= Duration::from_millis(50));
        assert!(started.elapsed() < Duration::from_secs(20));
        child.kill().unwrap();
        assert!(ends_within(pidfd.as_fd(), Duration::from_secs(60)).unwrap());
        child.wait().unwrap();
    }

    #[test]
    fn a_child_that_was_left_is_reaped_when_it_ends() {
        let (child, pid, pidfd) = sleeper();
        leave(child);
        rustix::process::pidfd_send_signal(&pidfd, Signal::KILL).unwrap();
        let folder = format!("/proc/{}", pid.as_raw_nonzero());
        let started = Instant::now();
        while Path::new(&folder).exists() {
            assert!(started.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}
