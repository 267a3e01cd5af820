//! A fork server: a process that is slow to start and, once it is ready, forks a child for each
//! window of work.
//!
//! The server is another program, such as an interpreter; it speaks this protocol on descriptor 3,
//! one JSON message a packet:
//!
//! | who | message | then |
//! |---|---|---|
//! | server | `{"ready": VALUE}` or `{"not_available": WHY}` | once |
//! | we | `{"window": REQUEST}` and descriptors: the report's pipe, bulk memories | it forks |
//! | server | `{"pid": N}` or `{"refused": WHY}` | the child is the leader of a group of its own |
//! | we | `{"reap": N}` once that child has ended | it waits for it |
//! | server | `{"status": N}` | as `waitpid` has it |
//!
//! A child writes one report to its pipe as every child of this crate does, and ends as they do.
//! Because only we say when a child is reaped, its number stays its own until we are done with it.
//! Start at [`ForkServer::window`].

mod link;
mod window;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline::confinement::Confinement;

use crate::CancelFlag;
use crate::child::{ChildLimits, ChildOutcome, ChildRun};
use crate::confine::set::ConfinementSet;
use crate::error::SandboxError;
use crate::limits::{BULK_MAX, SERVER_REQUEST_BYTES_MAX};
use crate::spawn;
use link::{Answer, Link, Lost};
use window::Forked;

/// What a server is.
#[derive(Clone, Debug)]
pub struct ServerSpec {
    /// This program, which confines itself and becomes the server.
    pub launcher: PathBuf,
    /// What holds the server and its children.
    pub confinement: ConfinementSet,
    /// The program, an absolute path.
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// Its whole environment.
    pub environment: Vec<(String, String)>,
    /// What it and each of its children may use. Its processor time counts as long as it lives, and
    /// the deadline is that of each window.
    pub limits: ChildLimits,
    /// Until when it must have said that it is ready.
    pub start_deadline: Duration,
}

/// One window of work.
#[derive(Clone, Copy, Debug)]
pub struct WindowCall<'a> {
    /// JSON.
    pub request: &'a [u8],
    /// Shared memories, in the order that the request names them.
    pub bulk: &'a [BorrowedFd<'a>],
    /// Wall time from the fork until the child's group is killed.
    pub deadline: Duration,
    /// Ends it early when set.
    pub cancel: &'a CancelFlag,
}

/// A server that is started when it is first needed and started again when it has died. Dropping it
/// kills it and its children.
#[derive(Debug)]
pub struct ForkServer {
    spec: ServerSpec,
    link: Mutex<Option<Link>>,
}

/// Why there is no child; its outcome says so.
type NoChild = ChildOutcome;

impl ForkServer {
    /// A server that is not started yet.
    #[must_use]
    pub fn new(spec: ServerSpec) -> ForkServer {
        ForkServer { spec, link: Mutex::new(None) }
    }

    /// What the server said when it was ready, as JSON; starts it.
    ///
    /// # Errors
    ///
    /// A program that does not start, or a failing system call. That it is not available here, or
    /// was cancelled, is the inner value.
    pub fn ready(&self, cancel: &CancelFlag) -> Result<Result<String, ChildOutcome>, SandboxError> {
        let mut link = self.lock();
        Ok(self.started(&mut link, cancel)?.map(|link| link.ready().to_owned()))
    }

    /// Runs one window to its end, whatever the end is; several may run at once.
    ///
    /// # Errors
    ///
    /// A request or bulk list that is too long, a program that does not start, or a failing system
    /// call. Nothing that the server or the child does is an error.
    pub fn window(&self, call: &WindowCall<'_>) -> Result<ChildRun, SandboxError> {
        check(call)?;
        let started = Instant::now();
        let outcome = match self.fork(call)? {
            Ok(forked) => forked.until_end(self, call)?,
            Err(outcome) => outcome,
        };
        let confinement = self.confinement();
        let wall = started.elapsed();
        Ok(ChildRun { outcome, wall, stderr_tail: String::new(), confinement })
    }

    /// What holds the server and its children; `None` where it does not run.
    pub fn confinement(&self) -> Option<Confinement> {
        self.lock().as_ref().map(|link| link.confinement().clone())
    }

    /// Has the server fork a child; a server that died is started again, once.
    fn fork(&self, call: &WindowCall<'_>) -> Result<Result<Forked, NoChild>, SandboxError> {
        let (report, report_write) = spawn::pipe()?;
        spawn::never_block(report.as_fd())?;
        for _ in 0..2 {
            let mut slot = self.lock();
            let link = match self.started(&mut slot, call.cancel)? {
                Ok(link) => link,
                Err(outcome) => return Ok(Err(outcome)),
            };
            let mut fds = vec![report_write.as_fd()];
            fds.extend(call.bulk);
            match link.ask_for_window(call.request, &fds)? {
                Ok(Answer::Pid(pid)) => return Forked::new(pid, report, link),
                Ok(Answer::Refused(why)) => return Ok(Err(ChildOutcome::OurBug(why))),
                Ok(_) => return Ok(Err(ChildOutcome::OurBug("it answered otherwise".to_owned()))),
                Err(Lost) => *slot = None,
            }
        }
        let why = "the server of the windows died twice before it forked".to_owned();
        Ok(Err(ChildOutcome::OurBug(why)))
    }

    /// The link to a server that is ready.
    fn started<'a>(
        &self,
        slot: &'a mut Option<Link>,
        cancel: &CancelFlag,
    ) -> Result<Result<&'a mut Link, NoChild>, SandboxError> {
        if slot.is_none() {
            match Link::start(&self.spec, cancel)? {
                Ok(link) => *slot = Some(link),
                Err(outcome) => return Ok(Err(outcome)),
            }
        }
        let gone = || ChildOutcome::OurBug("no link to the server".to_owned());
        Ok(slot.as_mut().ok_or_else(gone))
    }

    /// A poisoned lock only means that another window panicked between two messages.
    fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Refuses what the protocol does not allow.
fn check(call: &WindowCall<'_>) -> Result<(), SandboxError> {
    let (bytes, bytes_max) = (call.request.len(), SERVER_REQUEST_BYTES_MAX);
    if bytes > bytes_max {
        return Err(SandboxError::TooLong { what: "request", bytes, bytes_max });
    }
    let (count, count_max) = (call.bulk.len(), BULK_MAX);
    if count > count_max {
        return Err(SandboxError::TooManyBulk { count, count_max });
    }
    Ok(())
}

/// A second handle of a descriptor.
fn duplicate(fd: BorrowedFd<'_>) -> Result<OwnedFd, SandboxError> {
    fd.try_clone_to_owned().map_err(|error| SandboxError::system("duplicate a descriptor", error))
}
