//! One process drives a run: an advisory lock on a file beside the ledger.
//!
//! The kernel drops the lock when its process dies, however it dies. The file holds the process
//! id, for the message that the next one gets.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::StoreError;
use crate::{Result, RunId};

/// Tries before a run counts as driven by another process, and the pause between them.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Held while a process drives a run; dropping it lets another one.
#[derive(Debug)]
pub struct RunLock {
    _file: LockFile,
}

#[derive(Debug)]
pub(crate) struct LockFile {
    path: PathBuf,
    _file: File,
}

impl Drop for LockFile {
    fn drop(&mut self) {
        // Still locked here: whoever opened the file meanwhile sees that its name is gone.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Takes the lock of a run.
pub(crate) fn lock_run(ledger: &Path, run: &RunId) -> Result<RunLock> {
    lock_named(ledger, run.as_str())
}

/// Takes the lock of a run by its id, or of a program's acceptances.
pub(crate) fn lock_named(ledger: &Path, id: &str) -> Result<RunLock> {
    let path = beside(ledger, id);
    let mut tries = LOCK_TRIES;
    loop {
        match try_lock(&path)? {
            Ok(file) => return Ok(RunLock { _file: file }),
            // A reader that asks whether the run is alive holds the lock for a moment.
            Err(_) if tries > 1 => std::thread::sleep(LOCK_PAUSE),
            Err(pid) => return Err(StoreError::RunLocked { run: id.to_owned(), pid }),
        }
        tries -= 1;
    }
}

/// Tries to lock `path`; `Ok(Err(pid))` names the process that holds it.
pub(crate) fn try_lock(path: &Path) -> Result<std::result::Result<LockFile, String>> {
    let failed = |why| StoreError::LockFile { path: path.to_owned(), why };
    loop {
        let mut file = open_lock_file(path).map_err(failed)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(Err(holder(&mut file))),
            Err(TryLockError::Error(why)) => return Err(failed(why)),
        }
        if is_still_named(&file, path).map_err(failed)? {
            write_pid(&mut file).map_err(failed)?;
            return Ok(Ok(LockFile { path: path.to_owned(), _file: file }));
        }
    }
}

/// The lock file named `name` of the ledger: beside the file itself, whatever links lead to it.
pub(crate) fn beside(ledger: &Path, name: &str) -> PathBuf {
    let real = std::fs::canonicalize(ledger).unwrap_or_else(|_| ledger.to_owned());
    let mut path = real.into_os_string();
    path.push(format!(".{name}.lock"));
    PathBuf::from(path)
}

fn open_lock_file(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

fn is_still_named(file: &File, path: &Path) -> std::io::Result<bool> {
    match std::fs::metadata(path) {
        Ok(named) => {
            let held = file.metadata()?;
            Ok((held.dev(), held.ino()) == (named.dev(), named.ino()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_pid(file: &mut File) -> std::io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    file.write_all(std::process::id().to_string().as_bytes())
}

fn holder(file: &mut File) -> String {
    let mut text = String::new();
    let read = file.take(20).read_to_string(&mut text);
    if read.is_ok() && !text.is_empty() { text } else { "(unknown)".to_owned() }
}
