//! One run of a program: bytes in, bytes out, and nothing left of its process group afterwards.
//!
//! What leaves the group by starting a session of its own is out of reach. The program is reaped
//! last, so that the group's number cannot have become somebody else's when it is signalled.

use std::env;
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use pipeline::limits::capped;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::CommandSettings;
use crate::error::{Charge, ErrorClass, LlmError};
use crate::limits::{
    COMMAND_DRAIN_MS, COMMAND_EXIT_POLL_MS, COMMAND_GRACE_MS, COMMAND_KILL_WAIT_MS,
    COMMAND_STDERR_BYTES_MAX, ERROR_BYTES_MAX, REPLY_BYTES_MAX,
};

/// Variables that every program gets, beside `LC_*` and `SSL_CERT_*`.
const VARIABLES: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TERM", "TMPDIR"];
const VARIABLE_PREFIXES: [&str; 2] = ["LC_", "SSL_CERT_"];
/// Bytes of one read.
const CHUNK_BYTES: usize = 16 << 10;

/// A program that was started; dropping it kills its group.
#[derive(Debug)]
pub(super) struct Running {
    group: Group,
    child: Child,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By itself, or by a signal from elsewhere; nothing when the system did not tell how.
    Exited(Option<ExitStatus>),
    /// Killed, because it wrote more than a reply may have.
    Flood,
    /// Killed at the deadline.
    Deadline,
    /// Killed, because nobody wants the reply any more.
    GivenUp,
}

/// What a run left behind.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) end: End,
    pub(super) stdout: Vec<u8>,
    /// The end of it.
    pub(super) stderr: Vec<u8>,
}

/// Starts the program.
///
/// # Errors
/// `LocalFile` for a program or folder that cannot be used, `Unavailable` when the machine is short
/// of something.
pub(super) fn start(settings: &CommandSettings) -> Result<Running, LlmError> {
    let failed = |class, why: String| {
        let why = format!("{}: {why}", settings.name);
        LlmError::new(class, capped(&why, ERROR_BYTES_MAX)).charged(Charge::Nothing).of_program()
    };
    if let Some(folder) = settings.working_folder.as_ref().filter(|folder| !folder.is_dir()) {
        let why = format!("the working folder {} is no folder", folder.display());
        return Err(failed(ErrorClass::LocalFile, why));
    }
    let child = command(settings).spawn().map_err(|error| {
        let program = settings.argv.first().map_or("", String::as_str);
        let path = env::var("PATH").unwrap_or_default();
        let why = format!("cannot start {program}: {error}; PATH is {path}");
        failed(start_error_class(&error), why)
    })?;
    let pid = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    match pid {
        Some(pid) => Ok(Running { group: Group { pid, reaped: false }, child }),
        None => Err(failed(ErrorClass::Unavailable, "it has no process id".to_owned())),
    }
}

fn command(settings: &CommandSettings) -> Command {
    let (program, arguments) = settings.argv.split_first().unwrap_or((&settings.name, &[]));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(passed_on(&settings.environment));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.process_group(0).kill_on_drop(true);
    if let Some(folder) = &settings.working_folder {
        command.current_dir(folder);
    }
    command
}

fn passed_on(named: &[String]) -> impl Iterator<Item = (OsString, OsString)> {
    env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| {
            VARIABLES.contains(&name)
                || VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
                || named.iter().any(|each| each == name)
        })
    })
}

fn start_error_class(error: &Error) -> ErrorClass {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::OutOfMemory | ErrorKind::ExecutableFileBusy => {
            ErrorClass::Unavailable
        }
        _ => ErrorClass::LocalFile,
    }
}

impl Running {
    /// Writes `input`, reads what comes, and ends the run at the latest after `limit` or when
    /// `stopped` is used or its other end is dropped.
    pub(super) async fn finish(
        mut self,
        input: &[u8],
        limit: Duration,
        stopped: oneshot::Receiver<()>,
    ) -> Finished {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let early = {
            let pipes = (self.child.stdin.take(), self.child.stdout.take());
            let talk = talk(pipes, self.child.stderr.take(), input, &mut stdout, &mut stderr);
            let mut whole = pin!(self.group.listen(talk));
            let early = tokio::select! {
                biased;
                _ = stopped => Some(End::GivenUp),
                heard = &mut whole => heard.err(),
                () = sleep(limit) => Some(End::Deadline),
            };
            if early.is_some() {
                self.group.signal(Signal::TERM);
            }
            // A program that writes while it tidies up must not die of a closed pipe.
            if matches!(early, Some(End::GivenUp | End::Deadline)) {
                let _ = timeout(Duration::from_millis(COMMAND_GRACE_MS), whole).await;
            }
            early
        };
        if early == Some(End::Flood) {
            let _ = timeout(Duration::from_millis(COMMAND_GRACE_MS), self.group.leader()).await;
        }
        let status = self.reap().await;
        Finished { end: early.unwrap_or(End::Exited(status)), stdout, stderr }
    }

    /// Kills what is left of the group and reaps the program.
    async fn reap(mut self) -> Option<ExitStatus> {
        self.group.signal(Signal::KILL);
        let wait = Duration::from_millis(COMMAND_KILL_WAIT_MS);
        let status = timeout(wait, self.child.wait()).await.ok()?;
        self.group.reaped = true;
        status.ok()
    }
}

/// A process group, by its leader.
#[derive(Debug)]
struct Group {
    pid: Pid,
    reaped: bool,
}

impl Group {
    /// A group that is gone already is what was wanted.
    fn signal(&self, signal: Signal) {
        let _ = kill_process_group(self.pid, signal);
    }

    /// Returns when the leader has ended and `talk` too, or has had the time for it.
    async fn listen(&self, talk: impl Future<Output = Result<(), End>>) -> Result<(), End> {
        let left_open = async {
            self.leader().await;
            sleep(Duration::from_millis(COMMAND_DRAIN_MS)).await;
        };
        tokio::select! {
            biased;
            talked = talk => talked?,
            () = left_open => {}
        }
        self.leader().await;
        Ok(())
    }

    /// Returns when the leader has ended; it stays to be reaped.
    async fn leader(&self) {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        while matches!(waitid(WaitId::Pid(self.pid), look), Ok(None)) {
            sleep(Duration::from_millis(COMMAND_EXIT_POLL_MS)).await;
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.reaped {
            self.signal(Signal::KILL);
        }
    }
}

/// Serves all pipes at once until they are closed, so that none blocks the program.
async fn talk(
    (stdin, from): (Option<ChildStdin>, Option<ChildStdout>),
    errors: Option<ChildStderr>,
    input: &[u8],
    stdout: &mut Vec<u8>,
    stderr: &mut Vec<u8>,
) -> Result<(), End> {
    let (to, from) = (write(stdin, input), read(from, stdout));
    tokio::try_join!(to, from, read_tail(errors, stderr)).map(|_| ())
}

/// A program need not read what it is given.
async fn write(pipe: Option<ChildStdin>, input: &[u8]) -> Result<(), End> {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(input).await;
    }
    Ok(())
}

async fn read(pipe: Option<impl AsyncRead + Unpin>, into: &mut Vec<u8>) -> Result<(), End> {
    let Some(pipe) = pipe else { return Ok(()) };
    // What was read before an error stays: the exit code says what it is worth.
    let _ = pipe.take(REPLY_BYTES_MAX as u64 + 1).read_to_end(into).await;
    if into.len() > REPLY_BYTES_MAX { Err(End::Flood) } else { Ok(()) }
}

async fn read_tail(pipe: Option<impl AsyncRead + Unpin>, tail: &mut Vec<u8>) -> Result<(), End> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut chunk).await {
        tail.extend_from_slice(chunk.get(..count).unwrap_or_default());
        let excess = tail.len().saturating_sub(COMMAND_STDERR_BYTES_MAX);
        tail.drain(..excess);
    }
    Ok(())
}
