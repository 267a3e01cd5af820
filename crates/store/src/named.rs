//! Whether the open file is still the one that its path names: what is written into a file that was
//! removed is lost without a word.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::Result;
use crate::error::StoreError;

/// Device and inode of the file that was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Named(Option<(u64, u64)>);

impl Named {
    /// The file that `path` names now.
    pub(crate) fn of(path: &Path) -> Self {
        Self(std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino())))
    }

    /// Fails where `path` names another file by now, or none.
    pub(crate) fn check(self, path: &Path) -> Result<()> {
        let now = Self::of(path);
        if now == self {
            return Ok(());
        }
        let what = match now.0 {
            Some(_) => "another file is in its place",
            None => "it is not there any more",
        };
        Err(StoreError::Gone { ledger: String::new(), what }.at(path))
    }
}

/// Whether a log with something in it lies beside a ledger.
pub(crate) fn has_log(path: &Path) -> bool {
    log_of(path).metadata().is_ok_and(|found| found.len() > 0)
}

fn log_of(path: &Path) -> PathBuf {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    PathBuf::from(log)
}

/// Fails where the log of an open transaction is gone: a commit would go with it.
pub(crate) fn check_log(path: &Path) -> Result<()> {
    if log_of(path).exists() {
        return Ok(());
    }
    Err(StoreError::Gone { ledger: String::new(), what: "its -wal file was removed" }.at(path))
}
