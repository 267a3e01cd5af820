//! Typed calls of children: a request goes out, a report or one of a few ends comes back.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use pipeline::confinement::Confinement;
use pipeline::verdict::{Reason, Verdict};
use sandbox::{
    CancelFlag, ChildKind, ChildLimits, ChildOutcome, ChildSpec, ConfinementSet, Memfd, TimeLimit,
    run_child,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::gpu::Lease;
use crate::{Judge, JudgeError};

/// The verdict on a candidate that this program cannot handle: neither pass nor fail.
pub(crate) fn broken_here(why: &str) -> Verdict {
    let detail = format!("this program failed on it, which is not the kernel's fault: {why}");
    Verdict::failed(Reason::Unsupported, detail)
}

/// A child of ours that gets no memory aborts; no kernel can make it, but a source the compiler.
pub(crate) const ABORT: i32 = 6;
const KILL: i32 = 9;
const TERMINATE: i32 = 15;

/// How a child ended, apart from ends that are never the candidate's.
pub(crate) enum ChildEnd<T> {
    Reported(T),
    /// It reached a limit of time.
    TimedOut(TimeLimit),
    /// Ended by a signal or an unexpected code, or its report was unreadable.
    Crashed(String),
    /// This program failed on the request: a defect of ours, or a machine too small. One candidate
    /// must not end a night, so the caller decides what it means for the candidate.
    Broken(String),
    /// Ended by a signal that only another process sends: an administrator or the kernel.
    Killed(String),
}

impl Judge {
    /// Runs a child of this program; with a lease, on that card.
    pub(crate) fn call<Q: Serialize, R: DeserializeOwned>(
        &self,
        kind: ChildKind,
        request: &Q,
        bulk: &[&Memfd],
        limits: &ChildLimits,
        lease: Option<&Lease<'_>>,
        cancel: &CancelFlag,
    ) -> Result<ChildEnd<R>, JudgeError> {
        let environment = lease.map_or_else(Vec::new, Lease::environment);
        let child = Call {
            program: &self.config.program,
            watched_by: &[],
            kind,
            limits,
            environment: &environment,
            confinement: self.config.confinement.of_child(kind, lease.is_some(), &environment),
        };
        let performed = child.perform(request, bulk, cancel)?;
        self.note_confinement(performed.confinement);
        Ok(performed.end)
    }
}

/// One child to be run.
pub(crate) struct Call<'a> {
    pub(crate) program: &'a Path,
    /// Words before the program: another one that watches it.
    pub(crate) watched_by: &'a [String],
    pub(crate) kind: ChildKind,
    pub(crate) limits: &'a ChildLimits,
    pub(crate) environment: &'a [(String, String)],
    pub(crate) confinement: ConfinementSet,
}

/// One child that ran.
pub(crate) struct Performed<T> {
    pub(crate) end: ChildEnd<T>,
    /// The end of what it wrote to its standard error, where that is kept: a compiler's, or that of
    /// who watches.
    pub(crate) said: String,
    /// What held it, where it ran anything.
    pub(crate) confinement: Option<Confinement>,
}

impl Call<'_> {
    pub(crate) fn perform<Q: Serialize, R: DeserializeOwned>(
        &self,
        request: &Q,
        bulk: &[&Memfd],
        cancel: &CancelFlag,
    ) -> Result<Performed<R>, JudgeError> {
        let child = self.kind.as_str();
        let broken = |why: String| JudgeError::Child { child, why };
        let request = serde_json::to_vec(request).map_err(|error| broken(error.to_string()))?;
        let bulk: Vec<BorrowedFd<'_>> = bulk.iter().map(|memfd| memfd.as_fd()).collect();
        let run = run_child(&ChildSpec {
            program: self.program,
            watched_by: self.watched_by,
            kind: self.kind,
            request: &request,
            bulk: &bulk,
            limits: self.limits,
            keep_stderr: self.kind == ChildKind::Build || !self.watched_by.is_empty(),
            environment: self.environment,
            confinement: &self.confinement,
            cancel,
        })?;
        let (said, confinement) = (run.stderr_tail, run.confinement);
        Ok(Performed { end: ended(run.outcome)?, said, confinement })
    }
}

pub(crate) fn killed_by(signal: i32) -> String {
    format!("killed by signal {signal}")
}

/// The outcome of a child with its report decoded.
pub(crate) fn ended<R: DeserializeOwned>(outcome: ChildOutcome) -> Result<ChildEnd<R>, JudgeError> {
    match outcome {
        ChildOutcome::Reported(report) => match serde_json::from_slice(&report) {
            Ok(report) => Ok(ChildEnd::Reported(report)),
            Err(error) => Ok(ChildEnd::Broken(format!("its report is not valid: {error}"))),
        },
        ChildOutcome::TimedOut(limit) => Ok(ChildEnd::TimedOut(limit)),
        ChildOutcome::NotAvailable(why) => Err(JudgeError::NotAvailable(why)),
        ChildOutcome::OurBug(why) => Ok(ChildEnd::Broken(why)),
        ChildOutcome::Cancelled => Err(JudgeError::Cancelled),
        ChildOutcome::Crashed { signal: Some(signal @ (ABORT | KILL | TERMINATE)), .. } => {
            Ok(ChildEnd::Killed(killed_by(signal)))
        }
        ChildOutcome::Crashed { signal, code } => Ok(ChildEnd::Crashed(match (signal, code) {
            (Some(signal), _) => killed_by(signal),
            (None, Some(code)) => format!("exit code {code}"),
            (None, None) => "no exit status".to_owned(),
        })),
        ChildOutcome::Flooded => Ok(ChildEnd::Broken("its report was too long".to_owned())),
        ChildOutcome::BadReport(why) => Ok(ChildEnd::Broken(why)),
        ChildOutcome::Unreaped => Ok(ChildEnd::Broken(
            "its process does not die, so the driver or the kernel holds it".to_owned(),
        )),
    }
}
