//! Starts a child: pipes, descriptors, its own session, and what confines it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use command_fds::{CommandFdExt, FdMapping};
use pipeline::confinement::Layer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal};

use crate::child::{ChildLimits, ChildSpec};
use crate::confine::set::ConfinementSet;
use crate::confine::{Group, Setup};
use crate::error::SandboxError;
use crate::limits::{BULK_MAX, MESSAGE_BYTES_MAX, REAP_WAIT};
use crate::server::ServerSpec;
use crate::{CHILD_COMMAND, CONFINED_COMMAND, REQUEST_FD, WATCHED, frame, launch, system};

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
    /// Where it tells what holds it.
    pub(crate) told_pipe: Option<OwnedFd>,
    /// True once it told that it only waits for those inside a namespace.
    pub(crate) waits: bool,
    /// Where it has a control group; after the child, which it may still hold.
    group: Option<Group>,
}

impl Running {
    /// Its number.
    pub(crate) fn pid(&self) -> Pid {
        self.pid
    }

    /// Kills the child and every process of its group. Only before it is reaped: until then its
    /// number cannot belong to another group. One that waits for a namespace has that killed by a
    /// signal, and ends when everything in there has ended: only then is a card free.
    pub(crate) fn kill(&self) {
        if self.waits {
            let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::TERM);
            return;
        }
        if let Some(group) = &self.group {
            group.kill();
        }
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
    let (told_read, told_write) = pipe()?;
    let mut shared_bytes = 0;
    let mut fds = vec![request_read, report_write];
    for bulk in spec.bulk {
        let failed = |error| SandboxError::system("duplicate a bulk descriptor", error);
        fds.push(bulk.try_clone_to_owned().map_err(failed)?);
        shared_bytes += rustix::fs::fstat(bulk).map_or(0, |stat| stat.st_size.unsigned_abs());
    }
    fds.push(told_write);
    let setup = setup(spec.confinement, spec.limits, fds.len());
    let setup = Setup { parent: Some(std::process::id()), ..setup };
    let (setup, group) = with_group(setup, shared_bytes)?;
    let command = match spec.watched_by {
        [] => own_child(spec, &setup),
        words => watched_child(spec, words, &setup),
    };
    let mut running =
        spawn(command, spec.program, spec.environment, folder, fds, spec.keep_stderr)?;
    running.request = request;
    running.request_pipe = Some(request_write);
    running.report_pipe = Some(report_read);
    running.told_pipe = Some(told_read);
    running.group = group;
    for pipe in [&running.request_pipe, &running.report_pipe, &running.told_pipe] {
        pipe.as_ref().map_or(Ok(()), |pipe| never_block(pipe.as_fd()))?;
    }
    Ok(running)
}

/// Starts a fork server with its end of the socket as descriptor 3.
pub(crate) fn start_server(
    spec: &ServerSpec,
    folder: &Path,
    socket: OwnedFd,
) -> Result<Running, SandboxError> {
    let (told_read, told_write) = pipe()?;
    let (setup, group) = with_group(setup(&spec.confinement, &spec.limits, 2), 0)?;
    let mut command = Command::new(&spec.launcher);
    command.args([CONFINED_COMMAND, &setup, launch::REPLACED]).arg(&spec.program);
    command.args(&spec.arguments);
    let fds = vec![socket, told_write];
    let mut running = spawn(command, &spec.launcher, &spec.environment, folder, fds, false)?;
    never_block(told_read.as_fd())?;
    running.told_pipe = Some(told_read);
    running.group = group;
    Ok(running)
}

/// What a child without a parent or a group is told. So many descriptors are given to it, the last
/// of which is where it tells what holds it.
fn setup(set: &ConfinementSet, limits: &ChildLimits, fds: usize) -> Setup {
    let last = i32::try_from(fds).unwrap_or(i32::MAX).saturating_sub(1);
    let told_fd = REQUEST_FD.saturating_add(last);
    let cgroup = Err("it is not wanted".to_owned());
    Setup { set: set.clone(), limits: limits.clone(), parent: None, told_fd, cgroup }
}

/// What the child is told on its command line, and its control group.
fn with_group(
    mut setup: Setup,
    shared_bytes: u64,
) -> Result<(String, Option<Group>), SandboxError> {
    let wanted = setup.set.layers.contains(&Layer::Cgroup);
    let made = wanted.then(|| Group::make(&setup.set, &setup.limits, shared_bytes));
    if let Some(made) = &made {
        setup.cgroup = made.as_ref().map(Group::members).map_err(Clone::clone);
    }
    let failed = |error: serde_json::Error| SandboxError::Message {
        what: "setup",
        reason: error.to_string(),
    };
    let text = serde_json::to_string(&setup).map_err(failed)?;
    Ok((text, made.and_then(Result::ok)))
}

fn own_child(spec: &ChildSpec<'_>, setup: &str) -> Command {
    let mut command = Command::new(spec.program);
    command.args([CHILD_COMMAND, spec.kind.as_str(), setup]);
    command
}

/// This program confines itself, then starts the watcher, which starts this program again.
fn watched_child(spec: &ChildSpec<'_>, words: &[String], setup: &str) -> Command {
    let mut command = Command::new(spec.program);
    command.args([CONFINED_COMMAND, setup, launch::HELD]).args(words);
    command.arg(spec.program).args([CHILD_COMMAND, spec.kind.as_str(), WATCHED]);
    command
}

/// Starts a process as the leader of a session, with these descriptors from 3 on.
fn spawn(
    mut command: Command,
    program: &Path,
    environment: &[(String, String)],
    folder: &Path,
    fds: Vec<OwnedFd>,
    keep_stderr: bool,
) -> Result<Running, SandboxError> {
    system::close_inherited_on_exec()?;
    command
        .env_clear()
        .envs(environment.iter().map(|(name, value)| (name, value)))
        .current_dir(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(if keep_stderr { Stdio::piped() } else { Stdio::null() });
    system::in_own_session(&mut command);
    let start = |source| SandboxError::Start { program: program.to_owned(), source };
    let mappings = fds.into_iter().zip(REQUEST_FD..);
    let mappings = mappings.map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd });
    let mapped = command.fd_mappings(mappings.collect());
    mapped.map_err(|error| start(std::io::Error::other(error)))?;
    let mut child = command.spawn().map_err(start)?;
    // Closes our copies of the child's ends, so that its end is seen.
    drop(command);
    let stderr_pipe = child.stderr.take().map(OwnedFd::from);
    stderr_pipe.as_ref().map_or(Ok(()), |pipe| never_block(pipe.as_fd()))?;
    let (pid, pidfd) = identify(&mut child)?;
    Ok(Running {
        child: Some(child),
        pid,
        pidfd,
        request: Vec::new(),
        request_pipe: None,
        report_pipe: None,
        stderr_pipe,
        told_pipe: None,
        waits: false,
        group: None,
    })
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

pub(crate) fn pipe() -> Result<(OwnedFd, OwnedFd), SandboxError> {
    pipe_with(PipeFlags::CLOEXEC).map_err(|error| SandboxError::system("make a pipe", error))
}

pub(crate) fn never_block(pipe: BorrowedFd<'_>) -> Result<(), SandboxError> {
    fcntl_getfl(pipe)
        .and_then(|flags| fcntl_setfl(pipe, flags | OFlags::NONBLOCK))
        .map_err(|error| SandboxError::system("configure a pipe", error))
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt;

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
