//! One process drives a run: an advisory lock on a file beside the ledger.
//!
//! The kernel drops the lock when its process dies, however it dies. The file holds the process
//! id, for the message that the next one gets. Who drives holds the lock alone; who only asks
//! whether somebody does shares it for a moment, so that nobody who asks is taken for a driver.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::error::StoreError;
use crate::limits::{LOCK_PAUSE, LOCK_TRIES, PID_LOOKS};
use crate::{Result, RunId};

/// Stands for the number of a process that has not written it.
const NOBODY_KNOWS: &str = "(unknown)";

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
        let pid = match try_lock(&path)? {
            Ok(file) => return Ok(RunLock { _file: file }),
            Err(pid) => pid,
        };
        // What can be shared is held by nobody but those who ask, each for a moment.
        tries -= 1;
        if tries == 0 || driver(&path)?.is_some() {
            return Err(StoreError::RunLocked { run: id.to_owned(), pid });
        }
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// The process that drives a run, if one does.
pub(crate) fn driver_of(ledger: &Path, run: &RunId) -> Result<Option<String>> {
    driver(&beside(ledger, run.as_str()))
}

/// The process that holds the lock `path` alone. Whoever asks keeps no other one out for longer
/// than it takes, and neither makes nor removes the file.
fn driver(path: &Path) -> Result<Option<String>> {
    let failed = |why| StoreError::LockFile { path: path.to_owned(), why };
    let mut unnamed = PID_LOOKS;
    loop {
        let mut file = match File::open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(failed(why)),
        };
        match file.try_lock_shared() {
            Ok(()) if is_still_named(&file, path).map_err(failed)? => return Ok(None),
            // Somebody has made it anew meanwhile.
            Ok(()) => continue,
            Err(TryLockError::Error(why)) => return Err(failed(why)),
            Err(TryLockError::WouldBlock) => {}
        }
        let pid = holder(&mut file);
        if pid != NOBODY_KNOWS || unnamed == 0 {
            return Ok(Some(pid));
        }
        // Locked, and its number is about to be written.
        unnamed -= 1;
        std::thread::sleep(LOCK_PAUSE);
    }
}

/// Tries to lock `path`; `Ok(Err(pid))` names the process that holds it.
pub(crate) fn try_lock(path: &Path) -> Result<std::result::Result<LockFile, String>> {
    let failed = |why| of_file(path, why);
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

/// A lock file is small, but a full disk has no room for it either.
fn of_file(path: &Path, why: std::io::Error) -> StoreError {
    use std::io::ErrorKind::{QuotaExceeded, StorageFull};
    match why.kind() {
        StorageFull | QuotaExceeded => {
            StoreError::DiskFull { ledger: format!("lock file {}", path.display()) }
        }
        _ => StoreError::LockFile { path: path.to_owned(), why },
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
    if read.is_ok() && !text.is_empty() { text } else { NOBODY_KNOWS.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn who_asks_whether_a_run_is_on_keeps_nobody_from_starting_it() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, run) = (folder.path().join("ledger.db"), RunId::from("run".to_owned()));
        let over = Arc::new(AtomicBool::new(false));
        let askers: Vec<_> = (0..8)
            .map(|_| {
                let (ledger, run, over) = (ledger.clone(), run.clone(), Arc::clone(&over));
                std::thread::spawn(move || {
                    while !over.load(Ordering::SeqCst) {
                        driver_of(&ledger, &run).unwrap();
                    }
                })
            })
            .collect();
        let own = std::process::id().to_string();
        for round in 0..100 {
            let lock = lock_run(&ledger, &run).unwrap_or_else(|error| panic!("{round}: {error}"));
            assert_eq!(driver_of(&ledger, &run).unwrap().as_ref(), Some(&own), "{round}");
            drop(lock);
        }
        over.store(true, Ordering::SeqCst);
        askers.into_iter().for_each(|asker| asker.join().unwrap());
    }

    #[test]
    fn only_a_lock_that_is_held_alone_is_a_driver() {
        let folder = tempfile::tempdir().unwrap();
        let (ledger, run) = (folder.path().join("ledger.db"), RunId::from("run".to_owned()));
        let path = beside(&ledger, run.as_str());
        assert_eq!(driver_of(&ledger, &run).unwrap(), None);
        assert!(!path.exists());
        // What a killed process leaves, and somebody who asks at this moment.
        std::fs::write(&path, "7").unwrap();
        let asks = File::open(&path).unwrap();
        asks.try_lock_shared().unwrap();
        assert_eq!(driver_of(&ledger, &run).unwrap(), None);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "7");
        drop(asks);
        let lock = lock_run(&ledger, &run).unwrap();
        assert_eq!(driver_of(&ledger, &run).unwrap(), Some(std::process::id().to_string()));
        assert!(matches!(lock_run(&ledger, &run), Err(StoreError::RunLocked { .. })));
        drop(lock);
        assert_eq!(driver_of(&ledger, &run).unwrap(), None);
    }
}
