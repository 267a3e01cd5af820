//! What can end a run that is not the model's or the candidate's doing.

use judge::JudgeError;
use pipeline::template::TemplateError;
use store::StoreError;

/// Why a run could not go on. Everything stored stays; `resume` goes on from there.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Judge(#[from] JudgeError),
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("attempt {seq} lacks its {what} in the ledger; verify the ledger")]
    Incomplete { seq: u32, what: &'static str },
    #[error("a worker thread of this program died: {0}")]
    Worker(String),
}
