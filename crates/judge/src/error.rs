//! What can break that is not the candidate's fault.

use sandbox::SandboxError;

/// Why an evaluation could not be made. Never teaches, never counts against a candidate.
#[derive(Debug, thiserror::Error)]
pub enum JudgeError {
    #[error(transparent)]
    Sandbox(SandboxError),
    #[error("not available here: {0}")]
    NotAvailable(String),
    #[error("the {child} child ended without a report: {why}")]
    Child { child: &'static str, why: String },
    #[error("the reference of task `{task}` does not work here: {why}")]
    Reference { task: String, why: String },
    /// A task that nothing can be judged by, in words.
    #[error("{0}")]
    Refused(String),
    #[error("the evaluator knows no job `{ticket}`; hand it over again")]
    UnknownJob { ticket: String },
    /// An evaluator that is not this machine could not do its part.
    #[error("{place}: {why}")]
    Elsewhere { place: String, why: String },
    #[error("cancelled")]
    Cancelled,
}

impl From<SandboxError> for JudgeError {
    /// What cannot be confined as it must be is not to be had on this machine; the rest is broken.
    fn from(error: SandboxError) -> Self {
        match error {
            SandboxError::Unconfined { .. } => Self::NotAvailable(error.to_string()),
            other => Self::Sandbox(other),
        }
    }
}
