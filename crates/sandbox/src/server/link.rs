//! The process of a fork server and the socket to it.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use pipeline::confinement::Confinement;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags,
    SocketType, recv, sendmsg, socketpair,
};
use serde::Deserialize;

use super::{NoChild, ServerSpec};
use crate::CancelFlag;
use crate::child::ChildOutcome;
use crate::error::SandboxError;
use crate::folder::{self, WorkFolder};
use crate::limits::{
    CANCEL_POLL_MS, REASON_CHARS_MAX, SERVER_ANSWER_BYTES_MAX, SERVER_ANSWER_WAIT,
};
use crate::spawn::{self, Running};
use crate::watch;

/// What a server says.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Answer {
    Ready(serde_json::Value),
    NotAvailable(String),
    Pid(i32),
    Refused(String),
    Status(i32),
}

/// The server has ended, or says what it must not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lost;

/// A server that is ready.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) process: Running,
    socket: OwnedFd,
    ready: String,
    /// What holds it and its children.
    confinement: Confinement,
    /// Its working directory; gone after it.
    _folder: WorkFolder,
}

impl Link {
    /// Starts a server and waits until it is ready.
    pub(super) fn start(
        spec: &ServerSpec,
        cancel: &CancelFlag,
    ) -> Result<Result<Link, NoChild>, SandboxError> {
        let folder = WorkFolder::new(folder::SERVER)?;
        let flags = SocketFlags::CLOEXEC;
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)
            .map_err(|error| SandboxError::system("make a socket", error))?;
        let process = spawn::start_server(spec, folder.path(), theirs)?;
        let confinement = Confinement::new(&spec.confinement.name, Vec::new());
        let ready = String::new();
        let mut link = Link { process, socket, ready, confinement, _folder: folder };
        let deadline = Instant::now() + spec.start_deadline;
        link.hear(spec, deadline)?;
        while !link.has_answer(Duration::from_millis(CANCEL_POLL_MS))? {
            if cancel.is_cancelled() {
                return Ok(Err(ChildOutcome::Cancelled));
            }
            if Instant::now() >= deadline {
                let why = format!("it was not ready after {:?}", spec.start_deadline);
                return Ok(Err(ChildOutcome::NotAvailable(why)));
            }
        }
        let why = match link.answer()? {
            Ok(Answer::Ready(value)) => {
                link.ready = value.to_string();
                return Ok(Ok(link));
            }
            Ok(Answer::NotAvailable(why)) => why.chars().take(REASON_CHARS_MAX).collect(),
            Ok(_) | Err(Lost) => "it ended before it was ready".to_owned(),
        };
        Ok(Err(ChildOutcome::NotAvailable(why)))
    }

    /// What the process tells before it becomes the server. One that is held by less than required
    /// is ended here.
    fn hear(&mut self, spec: &ServerSpec, deadline: Instant) -> Result<(), SandboxError> {
        let mut text = Vec::new();
        while let Some(pipe) = &self.process.told_pipe {
            let left = deadline.saturating_duration_since(Instant::now());
            if !spawn::happens_within(pipe, PollFlags::IN, left)? {
                break;
            }
            let told = watch::read_told(&mut self.process.told_pipe, &mut text, &spec.confinement)?;
            if let Some(told) = told {
                self.confinement = told.confinement;
                return Ok(());
            }
        }
        Err(SandboxError::system("hear what holds the server", Errno::NODATA))
    }

    /// What holds it.
    pub(super) fn confinement(&self) -> &Confinement {
        &self.confinement
    }

    /// What it said when it was ready, as JSON.
    pub(super) fn ready(&self) -> &str {
        &self.ready
    }

    /// Asks for a child that does one window.
    pub(super) fn ask_for_window(
        &mut self,
        request: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Result<Answer, Lost>, SandboxError> {
        self.ask(&[b"{\"window\":", request, b"}"], fds)
    }

    /// Asks for the status of a child that has ended; `None` if the server is lost.
    pub(super) fn ask_for_status(&mut self, pid: i32) -> Result<Option<i32>, SandboxError> {
        let message = format!("{{\"reap\":{pid}}}");
        Ok(match self.ask(&[message.as_bytes()], &[])? {
            Ok(Answer::Status(status)) => Some(status),
            Ok(_) | Err(Lost) => None,
        })
    }

    fn ask(
        &mut self,
        parts: &[&[u8]],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Result<Answer, Lost>, SandboxError> {
        let parts: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(fds.len()))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(SandboxError::system("pass descriptors", Errno::NOBUFS));
        }
        match sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL) {
            Ok(_) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => return Ok(Err(Lost)),
            Err(error) => return Err(SandboxError::system("write to the server", error)),
        }
        if self.has_answer(SERVER_ANSWER_WAIT)? { self.answer() } else { Ok(Err(Lost)) }
    }

    /// Whether there is an answer, or an end, within this time.
    fn has_answer(&self, time: Duration) -> Result<bool, SandboxError> {
        spawn::happens_within(&self.socket, PollFlags::IN, time)
    }

    fn answer(&mut self) -> Result<Result<Answer, Lost>, SandboxError> {
        let mut buffer = vec![0; SERVER_ANSWER_BYTES_MAX];
        let length = loop {
            match recv(self.socket.as_fd(), &mut buffer[..], RecvFlags::empty()) {
                Ok((length, _)) => break length,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(Err(Lost)),
                Err(error) => return Err(SandboxError::system("read from the server", error)),
            }
        };
        Ok(serde_json::from_slice(&buffer[..length]).map_err(|_| Lost))
    }
}
