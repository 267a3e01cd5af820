//! A forked child from its start to its end.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

use super::link::Link;
use super::{ForkServer, NoChild, WindowCall, duplicate};
use crate::child::{ChildOutcome, TimeLimit};
use crate::error::SandboxError;
use crate::frame::{Arrived, LENGTH_BYTES, decode};
use crate::limits::{CANCEL_POLL_MS, MESSAGE_BYTES_MAX, REAP_WAIT};
use crate::spawn::{self, ends_within};
use crate::watch::{self, Stop, read_some};

/// A child of the server. Dropping it kills it.
pub(super) struct Forked {
    pid: Pid,
    pidfd: OwnedFd,
    server: OwnedFd,
    pipe: Option<OwnedFd>,
    report: Vec<u8>,
}

impl Forked {
    /// The child that the server announced. Where the server has died since, that is the outcome.
    pub(super) fn new(
        pid: i32,
        pipe: OwnedFd,
        link: &Link,
    ) -> Result<Result<Forked, NoChild>, SandboxError> {
        match Forked::announced(pid, pipe, link) {
            Ok(forked) => Ok(Ok(forked)),
            Err(_) if ends_within(link.process.pidfd.as_fd(), Duration::ZERO)? => Ok(Err(died())),
            Err(error) => Err(error),
        }
    }

    fn announced(pid: i32, pipe: OwnedFd, link: &Link) -> Result<Forked, SandboxError> {
        let failed = |error| SandboxError::system("open the child's pidfd", error);
        let pid = Pid::from_raw(pid).ok_or(Errno::SRCH).map_err(failed)?;
        let pidfd = rustix::process::pidfd_open(pid, PidfdFlags::empty()).map_err(failed)?;
        // Its word is not enough for a kill: foreign code ran in children of the server.
        if !is_leader_under(pid, link.process.pid()) {
            return Err(SandboxError::Message {
                what: "number of the window's process",
                reason: "it is no leader of a group that the server started".to_owned(),
            });
        }
        let server = duplicate(link.process.pidfd.as_fd())?;
        Ok(Forked { pid, pidfd, server, pipe: Some(pipe), report: Vec::new() })
    }

    /// Watches the child to its end and has it reaped.
    pub(super) fn until_end(
        mut self,
        server: &ForkServer,
        call: &WindowCall<'_>,
    ) -> Result<ChildOutcome, SandboxError> {
        let stop = self.watch(call)?;
        self.kill();
        let flooded = self.drain()?;
        if !ends_within(self.pidfd.as_fd(), REAP_WAIT)? {
            return Ok(ChildOutcome::Unreaped);
        }
        let status = match &mut *server.lock() {
            // After a restart it is nobody's child that we know.
            Some(link) => link.ask_for_status(self.pid.as_raw_pid())?,
            None => None,
        };
        Ok(match (stop, status) {
            (Stop::Cancelled, _) => ChildOutcome::Cancelled,
            (Stop::TimedOut, _) => ChildOutcome::TimedOut(TimeLimit::Wall),
            (Stop::Flooded, _) => ChildOutcome::Flooded,
            (Stop::Exited, _) if flooded => ChildOutcome::Flooded,
            (Stop::Exited, Some(status)) => {
                watch::outcome(ExitStatus::from_raw(status), std::mem::take(&mut self.report), "")
            }
            (Stop::Exited, None) => died(),
        })
    }

    fn watch(&mut self, call: &WindowCall<'_>) -> Result<Stop, SandboxError> {
        let deadline = Instant::now().checked_add(call.deadline);
        loop {
            if call.cancel.is_cancelled() {
                return Ok(Stop::Cancelled);
            }
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::MAX,
            };
            if left.is_zero() {
                return Ok(Stop::TimedOut);
            }
            let exited = self.wait(left.min(Duration::from_millis(CANCEL_POLL_MS)))?;
            if self.drain()? {
                return Ok(Stop::Flooded);
            }
            if exited {
                return Ok(Stop::Exited);
            }
        }
    }

    /// Waits until something happens; true if the child or its server ended.
    fn wait(&self, timeout: Duration) -> Result<bool, SandboxError> {
        let mut fds =
            vec![PollFd::new(&self.pidfd, PollFlags::IN), PollFd::new(&self.server, PollFlags::IN)];
        fds.extend(self.pipe.iter().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        spawn::poll_within(&mut fds, timeout)?;
        Ok(fds[..2].iter().any(|fd| !fd.revents().is_empty()))
    }

    /// Reads what is there now; true if the report is too long.
    fn drain(&mut self) -> Result<bool, SandboxError> {
        let bytes_max = LENGTH_BYTES + MESSAGE_BYTES_MAX;
        let report = &mut self.report;
        read_some(&mut self.pipe, &mut |bytes| {
            report.extend_from_slice(bytes);
            report.len() <= bytes_max
        })?;
        Ok(report.len() > bytes_max || decode(report) == Arrived::TooLong)
    }

    /// Kills the child's group. Nobody reaps the child before it is dropped, so its number is its
    /// own; where its server died, the kernel may have reaped it, and then only the handle is safe.
    fn kill(&self) {
        let server_lives = !matches!(ends_within(self.server.as_fd(), Duration::ZERO), Ok(true));
        if server_lives {
            let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
        }
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}

/// What a window comes to whose server is gone.
fn died() -> NoChild {
    ChildOutcome::OurBug("the server of the windows died under it".to_owned())
}

/// Whether a process is a child of another one and leads a group.
fn is_leader_under(pid: Pid, parent: Pid) -> bool {
    let pid = pid.as_raw_pid();
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The name before may hold anything but ends with the last of these.
    let numbers = text.rsplit_once(')').map_or("", |(_, numbers)| numbers);
    let mut numbers = numbers.split_whitespace().skip(1).map(str::parse);
    numbers.next() == Some(Ok(parent.as_raw_pid())) && numbers.next() == Some(Ok(pid))
}

impl Drop for Forked {
    fn drop(&mut self) {
        let _ = rustix::process::pidfd_send_signal(&self.pidfd, Signal::KILL);
    }
}
