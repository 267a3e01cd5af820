//! Working directories of children: made, and taken away also when their owner was killed.
//!
//! The owner holds a lock on each of its folders, which the kernel drops when it dies, however it
//! dies. So whoever gets the lock may take the folder away; process numbers, which are used again
//! and differ from one container to the next, play no part.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use tempfile::TempDir;

use crate::confine::is_of_child;
use crate::error::SandboxError;
use crate::limits::{FOLDER_TRIES_MAX, FOLDERS_SEEN_MAX};

/// What the names of all of them begin with. Versions that held no locks wrote a hyphen, and theirs
/// are left alone.
const PREFIXES: [&str; 2] = [CHILD, SERVER];
/// The folder of a child.
pub(crate) const CHILD: &str = "warpwright-child.";
/// The folder of a fork server.
pub(crate) const SERVER: &str = "warpwright-server.";

/// An empty directory that is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    folder: TempDir,
    /// Holds the lock; after the folder, which is taken away under it.
    _lock: File,
}

impl WorkFolder {
    /// Makes one among the temporary files.
    pub(crate) fn new(prefix: &str) -> Result<Self, SandboxError> {
        Self::new_in(&std::env::temp_dir(), prefix)
    }

    fn new_in(parent: &Path, prefix: &str) -> Result<Self, SandboxError> {
        let failed = |error| SandboxError::system("create a working directory", error);
        for _ in 0..FOLDER_TRIES_MAX {
            let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent);
            let folder = folder.map_err(failed)?;
            // Another program that tidies up may have been faster.
            if let Some(lock) = locked(folder.path()) {
                return Ok(Self { folder, _lock: lock });
            }
        }
        Err(failed(io::ErrorKind::ResourceBusy.into()))
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Takes it away.
    pub(crate) fn close(self) -> Result<(), SandboxError> {
        let Self { folder, _lock } = self;
        folder.close().map_err(|error| SandboxError::system("remove the working directory", error))
    }
}

/// Takes away the working directories of programs that were killed; gives how many those were.
/// Only this user's, never what a link leads to, and never one whose owner lives.
pub fn remove_left_folders() -> usize {
    remove_left_in(&std::env::temp_dir())
}

fn remove_left_in(parent: &Path) -> usize {
    let Ok(entries) = parent.read_dir() else { return 0 };
    let is_ours = |name: &str| PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let named = entries.take(FOLDERS_SEEN_MAX).flatten();
    let named = named.filter(|entry| entry.file_name().to_str().is_some_and(is_ours));
    named.filter(|entry| remove_if_left(&entry.path())).count()
}

fn remove_if_left(path: &Path) -> bool {
    let Some(lock) = locked(path) else { return false };
    let owner = lock.metadata().map(|found| found.uid());
    let own = rustix::process::geteuid().as_raw();
    // What root starts gets a user of its own, who then owns its folder.
    let is_own = owner.is_ok_and(|owner| owner == own || own == 0 && is_of_child(owner));
    is_own && std::fs::remove_dir_all(path).is_ok()
}

/// The folder with a lock on it, if it is one, nobody holds it, and it is still there.
fn locked(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    let (held, named) = (file.metadata().ok()?, path.symlink_metadata().ok()?);
    ((held.dev(), held.ino()) == (named.dev(), named.ino())).then_some(file)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    #[test]
    fn folders_of_the_dead_go_and_all_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let at = |name: &str| parent.path().join(name);
        let alive = WorkFolder::new_in(parent.path(), CHILD).unwrap();
        for left in ["warpwright-child.1", "warpwright-server.2", "another-3"] {
            std::fs::create_dir_all(at(left).join("below")).unwrap();
            std::fs::write(at(left).join("below/file"), "x").unwrap();
        }
        std::fs::write(at("warpwright-child.file"), "x").unwrap();
        symlink(at("another-3"), at("warpwright-child.link")).unwrap();
        let mut kept = 4;
        if rustix::process::geteuid().is_root() {
            // One of a person, and one of a child that root started.
            std::fs::create_dir(at("warpwright-child.person")).unwrap();
            chown(at("warpwright-child.person"), Some(1_000), Some(1_000)).unwrap();
            std::fs::create_dir(at("warpwright-child.own")).unwrap();
            chown(at("warpwright-child.own"), Some(0x7000_1234), None).unwrap();
            kept += 1;
            assert_eq!(remove_left_in(parent.path()), 3);
        } else {
            assert_eq!(remove_left_in(parent.path()), 2);
        }
        assert_eq!(parent.path().read_dir().unwrap().count(), kept);
        assert!(at("another-3/below/file").is_file() && alive.path().is_dir());
        let path = alive.path().to_owned();
        alive.close().unwrap();
        assert!(!path.exists());
    }

    #[test]
    fn a_folder_whose_owner_forgot_it_is_free_once_the_lock_is() {
        let parent = tempfile::tempdir().unwrap();
        let WorkFolder { folder, _lock } = WorkFolder::new_in(parent.path(), SERVER).unwrap();
        let path = folder.keep();
        assert_eq!(remove_left_in(parent.path()), 0);
        drop(_lock);
        assert_eq!(remove_left_in(parent.path()), 1);
        assert!(!path.exists());
    }
}
