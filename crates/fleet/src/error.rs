//! What can go wrong between a run and a worker.

use std::path::PathBuf;

/// Why a folder or a file in it cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FleetError {
    #[error("{path}: {why}; check the folder")]
    Io { path: PathBuf, why: String },
    #[error(
        "{path}: the folder's workers judge on {theirs}, this one would on {ours}; give it another \
         folder, or remove that file if nobody judges there any more"
    )]
    OtherDevice { path: PathBuf, theirs: String, ours: String },
    /// This machine lacks something that judging needs; the job stays for another worker.
    #[error("{0}; the job stays")]
    NotAvailable(String),
}

impl FleetError {
    pub(crate) fn io(path: impl Into<PathBuf>, why: impl std::fmt::Display) -> Self {
        Self::Io { path: path.into(), why: why.to_string() }
    }
}
