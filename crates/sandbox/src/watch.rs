//! Watches a child until its end: writes the request, reads the report, minds the deadline.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use pipeline::confinement::Confinement;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use crate::child::{ChildOutcome, ChildSpec, TimeLimit};
use crate::confine::Told;
use crate::confine::set::ConfinementSet;
use crate::error::SandboxError;
use crate::frame::{Arrived, LENGTH_BYTES, decode};
use crate::limits::{
    CANCEL_POLL_MS, MESSAGE_BYTES_MAX, READ_BYTES, READS_MAX, REASON_CHARS_MAX, STDERR_BYTES_MAX,
    TOLD_BYTES_MAX,
};
use crate::spawn::{Running, poll_within};
use crate::{EXIT_NOT_AVAILABLE, EXIT_OUR_BUG, EXIT_REPORTED};

/// Signal of the limit of processor time.
const SIGXCPU: i32 = 24;

/// How a child ended, and what it said.
#[derive(Debug)]
pub(crate) struct End {
    pub(crate) outcome: ChildOutcome,
    pub(crate) stderr_tail: String,
    pub(crate) confinement: Option<Confinement>,
}

/// Why the watch stopped.
pub(crate) enum Stop {
    Exited,
    TimedOut,
    Flooded,
    Cancelled,
}

/// Runs the child to its end and reaps it, unless it cannot die.
pub(crate) fn until_end(
    running: Running,
    spec: &ChildSpec<'_>,
    started: Instant,
) -> Result<End, SandboxError> {
    let deadline = started.checked_add(spec.limits.deadline);
    let mut watch = Watch {
        running,
        report: Vec::new(),
        stderr: VecDeque::new(),
        written: 0,
        told: Vec::new(),
        confinement: None,
    };
    let stop = watch.run(spec, deadline)?;
    // The rest of the group goes first; then only what is in the pipes already can be read.
    watch.running.kill();
    let flooded = watch.drain()?;
    let status = watch.running.reap()?;
    let stderr_tail = watch.stderr_tail();
    let outcome = match (stop, status) {
        (Stop::Cancelled, _) => ChildOutcome::Cancelled,
        (_, None) => ChildOutcome::Unreaped,
        (Stop::TimedOut, _) => ChildOutcome::TimedOut(TimeLimit::Wall),
        (Stop::Flooded, _) => ChildOutcome::Flooded,
        (Stop::Exited, _) if flooded => ChildOutcome::Flooded,
        (Stop::Exited, Some(status)) => match outcome(status, watch.report, &stderr_tail) {
            // A machine that lacks something, or a bug, is said as it was told.
            outcome @ (ChildOutcome::NotAvailable(_) | ChildOutcome::OurBug(_)) => outcome,
            // Nothing foreign ran, whatever ended it.
            outcome if watch.confinement.is_none() => ChildOutcome::OurBug(format!(
                "it ended before it said what holds it ({outcome:?}): {stderr_tail}"
            )),
            outcome => outcome,
        },
    };
    Ok(End { outcome, stderr_tail, confinement: watch.confinement })
}

struct Watch {
    running: Running,
    report: Vec<u8>,
    stderr: VecDeque<u8>,
    written: usize,
    told: Vec<u8>,
    /// Once the child told it; only then is the request written.
    confinement: Option<Confinement>,
}

impl Watch {
    fn run(
        &mut self,
        spec: &ChildSpec<'_>,
        deadline: Option<Instant>,
    ) -> Result<Stop, SandboxError> {
        loop {
            if spec.cancel.is_cancelled() {
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
            self.hear(spec.confinement)?;
            self.write_request()?;
            if self.drain()? {
                return Ok(Stop::Flooded);
            }
            if exited {
                return Ok(Stop::Exited);
            }
        }
    }

    /// Waits until something happens; true if the child exited.
    fn wait(&self, timeout: Duration) -> Result<bool, SandboxError> {
        let running = &self.running;
        let mut fds = vec![PollFd::new(&running.pidfd, PollFlags::IN)];
        let readers = [&running.report_pipe, &running.stderr_pipe, &running.told_pipe];
        fds.extend(readers.into_iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let request = running.request_pipe.iter().filter(|_| self.confinement.is_some());
        fds.extend(request.map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        poll_within(&mut fds, timeout)?;
        Ok(!fds[0].revents().is_empty())
    }

    /// Reads what the child tells of what holds it, and refuses too little.
    fn hear(&mut self, set: &ConfinementSet) -> Result<(), SandboxError> {
        if let Some(told) = read_told(&mut self.running.told_pipe, &mut self.told, set)? {
            self.running.waits = told.waits;
            self.confinement = Some(told.confinement);
        }
        Ok(())
    }

    fn write_request(&mut self) -> Result<(), SandboxError> {
        if self.confinement.is_none() {
            return Ok(());
        }
        while let Some(pipe) = &self.running.request_pipe {
            match rustix::io::write(pipe, &self.running.request[self.written..]) {
                Ok(count) => self.written += count,
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR) => {}
                // It does not want the rest.
                Err(Errno::PIPE) => self.running.request_pipe = None,
                Err(error) => return Err(SandboxError::system("write the request", error)),
            }
            if self.written == self.running.request.len() {
                self.running.request_pipe = None;
            }
        }
        Ok(())
    }

    /// Reads what is there now; true if the report is too long.
    fn drain(&mut self) -> Result<bool, SandboxError> {
        let report = &mut self.report;
        read_some(&mut self.running.report_pipe, &mut |bytes| {
            report.extend_from_slice(bytes);
            report.len() <= LENGTH_BYTES + MESSAGE_BYTES_MAX
        })?;
        let stderr = &mut self.stderr;
        read_some(&mut self.running.stderr_pipe, &mut |bytes| {
            stderr.extend(bytes);
            stderr.drain(..stderr.len().saturating_sub(STDERR_BYTES_MAX));
            true
        })?;
        let too_long = self.report.len() > LENGTH_BYTES + MESSAGE_BYTES_MAX;
        Ok(too_long || decode(&self.report) == Arrived::TooLong)
    }

    fn stderr_tail(&mut self) -> String {
        String::from_utf8_lossy(self.stderr.make_contiguous()).into_owned()
    }
}

/// Reads what a child tells before it runs anything of others'; `None` until all of it is there, or
/// if it ended without. A child that could not confine itself as it must is our breakage.
pub(crate) fn read_told(
    pipe: &mut Option<OwnedFd>,
    told: &mut Vec<u8>,
    set: &ConfinementSet,
) -> Result<Option<Told>, SandboxError> {
    if pipe.is_none() {
        return Ok(None);
    }
    read_some(pipe, &mut |bytes| {
        told.extend_from_slice(bytes);
        told.len() <= TOLD_BYTES_MAX
    })?;
    let failed = |reason| SandboxError::Message { what: "account of what holds the child", reason };
    if told.len() > TOLD_BYTES_MAX {
        return Err(failed(format!("it has over {TOLD_BYTES_MAX} bytes")));
    }
    // Its end is told by its form: children that are started meanwhile may hold the pipe open.
    let told: Result<Told, String> = match serde_json::from_slice(told) {
        Err(error) if error.is_eof() && (pipe.is_some() || told.is_empty()) => return Ok(None),
        parsed => parsed.map_err(|error| failed(error.to_string()))?,
    };
    *pipe = None;
    let told = told.map_err(|why| SandboxError::NotConfined { set: set.name.clone(), why })?;
    let (level, required) = (told.confinement.level, set.required_level);
    if level < required {
        let (set, why) = (set.name.clone(), told.confinement.to_string());
        return Err(SandboxError::Unconfined { set, required, why });
    }
    Ok(Some(told))
}

/// Reads a pipe until it is empty, closed, had its turn, or `take` has enough.
pub(crate) fn read_some(
    pipe: &mut Option<OwnedFd>,
    take: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<(), SandboxError> {
    let mut buffer = [0; READ_BYTES];
    for _ in 0..READS_MAX {
        let Some(fd) = pipe else { return Ok(()) };
        match rustix::io::read(fd.as_fd(), &mut buffer) {
            Ok(0) => *pipe = None,
            Ok(count) if take(&buffer[..count]) => {}
            Ok(_) | Err(Errno::AGAIN) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(SandboxError::system("read from the child", error)),
        }
    }
    Ok(())
}

pub(crate) fn outcome(status: ExitStatus, report: Vec<u8>, stderr_tail: &str) -> ChildOutcome {
    const REPORTED: i32 = EXIT_REPORTED as i32;
    const OUR_BUG: i32 = EXIT_OUR_BUG as i32;
    const NOT_AVAILABLE: i32 = EXIT_NOT_AVAILABLE as i32;
    match (status.code(), status.signal()) {
        (Some(REPORTED), _) => reported(report),
        (Some(OUR_BUG), _) => ChildOutcome::OurBug(reason(&report, stderr_tail)),
        (Some(NOT_AVAILABLE), _) => ChildOutcome::NotAvailable(reason(&report, stderr_tail)),
        (_, Some(SIGXCPU)) => ChildOutcome::TimedOut(TimeLimit::Processor),
        (code, signal) => ChildOutcome::Crashed { signal, code },
    }
}

fn reported(mut report: Vec<u8>) -> ChildOutcome {
    let bad = match decode(&report) {
        Arrived::Whole(_) => return ChildOutcome::Reported(report.split_off(LENGTH_BYTES)),
        Arrived::Part if report.is_empty() => "it is missing".to_owned(),
        Arrived::Part => format!("it was cut short after {} bytes", report.len()),
        Arrived::Trailing => "more follows after it".to_owned(),
        Arrived::TooLong => return ChildOutcome::Flooded,
    };
    ChildOutcome::BadReport(bad)
}

/// The reason that a child gave in place of a report, as a JSON string; else its last words.
fn reason(report: &[u8], stderr_tail: &str) -> String {
    let given = match decode(report) {
        Arrived::Whole(text) => serde_json::from_slice::<String>(text).ok(),
        Arrived::Part | Arrived::Trailing | Arrived::TooLong => None,
    };
    let last = || stderr_tail.trim().lines().last().unwrap_or_default().to_owned();
    let text: String = given.unwrap_or_else(last).chars().take(REASON_CHARS_MAX).collect();
    if text.is_empty() { "the child gave no reason".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::encode;

    #[test]
    fn exit_codes_are_told_apart() {
        let whole = || encode("report", b"\"why\"").unwrap();
        let exit = |code: i32| ExitStatus::from_raw(code << 8);
        let cases = [
            (exit(0), whole(), ChildOutcome::Reported(b"\"why\"".to_vec())),
            (exit(70), whole(), ChildOutcome::OurBug("why".to_owned())),
            (exit(71), whole(), ChildOutcome::NotAvailable("why".to_owned())),
            (exit(71), Vec::new(), ChildOutcome::NotAvailable("last words".to_owned())),
            (exit(3), whole(), ChildOutcome::Crashed { signal: None, code: Some(3) }),
            (
                ExitStatus::from_raw(11),
                whole(),
                ChildOutcome::Crashed { signal: Some(11), code: None },
            ),
            (ExitStatus::from_raw(SIGXCPU), whole(), ChildOutcome::TimedOut(TimeLimit::Processor)),
        ];
        for (status, report, expected) in cases {
            assert_eq!(outcome(status, report, "first\nlast words\n"), expected, "{status:?}");
        }
    }
    #[test]
    fn what_a_child_told_is_whole_although_others_hold_the_pipe_open() {
        let told = Told { confinement: Confinement::new("nothing", Vec::new()), waits: false };
        let text = serde_json::to_vec(&Ok::<_, String>(&told)).unwrap();
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
        let (mut pipe, mut heard, set) = (Some(reader), Vec::new(), ConfinementSet::of_nothing());
        for part in text.chunks(text.len() / 2) {
            assert!(read_told(&mut pipe, &mut heard, &set).unwrap().is_none());
            rustix::io::write(&writer, part).unwrap();
        }
        let whole = read_told(&mut pipe, &mut heard, &set).unwrap().unwrap();
        assert_eq!(whole.confinement, told.confinement);
        assert!(pipe.is_none(), "it is not read again");
    }
}
