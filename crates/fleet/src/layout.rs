//! Where things are in the folder, and how they get there whole.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::error::FleetError;
use crate::limits::{FILE_BYTES_MAX, WAITING_MAX};

/// The folder between a run and a worker.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Opens the folder; makes it where it is missing.
    pub(crate) fn open(root: &Path) -> Result<Self, FleetError> {
        let layout = Self { root: root.to_owned() };
        for folder in [layout.jobs(), layout.results()] {
            std::fs::create_dir_all(&folder).map_err(|error| FleetError::io(&folder, error))?;
        }
        Ok(layout)
    }

    pub(crate) fn jobs(&self) -> PathBuf {
        self.root.join("jobs")
    }

    fn results(&self) -> PathBuf {
        self.root.join("results")
    }

    pub(crate) fn job(&self, key: &str) -> PathBuf {
        self.jobs().join(format!("{key}.job"))
    }

    /// A job that nobody could read.
    pub(crate) fn bad_job(&self, key: &str) -> PathBuf {
        self.jobs().join(format!("{key}.bad"))
    }

    pub(crate) fn result(&self, key: &str) -> PathBuf {
        self.results().join(format!("{key}.result"))
    }

    /// A result that nobody could read.
    pub(crate) fn bad_result(&self, key: &str) -> PathBuf {
        self.results().join(format!("{key}.bad"))
    }

    /// Why a worker could not judge a job.
    pub(crate) fn failure(&self, key: &str) -> PathBuf {
        self.results().join(format!("{key}.failed"))
    }

    /// What the folder's workers judge on.
    pub(crate) fn device(&self) -> PathBuf {
        self.root.join("device.json")
    }

    /// Keys of the jobs that wait, in order.
    pub(crate) fn waiting(&self) -> Result<Vec<String>, FleetError> {
        let folder = self.jobs();
        let entries = std::fs::read_dir(&folder).map_err(|error| FleetError::io(&folder, error))?;
        let mut keys = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| FleetError::io(&folder, error))?.file_name();
            let name = name.to_string_lossy();
            if keys.len() >= WAITING_MAX {
                break;
            }
            keys.extend(name.strip_suffix(".job").filter(|key| is_key(key)).map(str::to_owned));
        }
        keys.sort();
        Ok(keys)
    }
}

/// Keys are hashes, and become file names.
pub(crate) fn is_key(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Writes a file that is there whole or not at all, also after a power cut.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FleetError> {
    let failed = |error: std::io::Error| FleetError::io(path, error);
    let beside = path.with_extension(format!("tmp{}", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(&beside)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&beside);
    }
    written.map_err(failed)
}

/// Opens a plain file, if it is there; a folder can hold anything, and nothing else is waited for
/// or followed.
pub(crate) fn open_plain(path: &Path) -> Result<Option<File>, FleetError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let opened = OpenOptions::new()
        .read(true)
        .custom_flags(i32::try_from(flags.bits()).unwrap_or(0))
        .open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(FleetError::io(path, error)),
    };
    let is_file = file.metadata().map_err(|error| FleetError::io(path, error))?.is_file();
    if is_file { Ok(Some(file)) } else { Err(FleetError::io(path, "it is not a plain file")) }
}

/// Reads a file, if it is there.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<Vec<u8>>, FleetError> {
    open_plain(path)?.map(|file| read_open(&file, path)).transpose()
}

/// Reads an open file.
pub(crate) fn read_open(file: &File, path: &Path) -> Result<Vec<u8>, FleetError> {
    let mut bytes = Vec::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes);
    read.map_err(|error| FleetError::io(path, error))?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(FleetError::io(path, format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

/// Removes a file; one that is gone is no error.
pub(crate) fn remove(path: &Path) -> Result<(), FleetError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(FleetError::io(path, error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}
