//! The files of a mailbox: named by id and kind, written whole, read without waiting for anyone.
//!
//! Errors are in words and name the file. What a file means is not known here.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

/// Where answered and given up questions go.
const DONE: &str = "done";
const LOCK: &str = "mailbox.lock";
const TEMPORARY: &str = ".tmp";
/// Longest text of the lock file that is read, in bytes.
const LOCK_BYTES_MAX: u64 = 32;

/// A kind of file that a question has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum File {
    Prompt,
    ReadablePrompt,
    Reply,
    Refusal,
    Counts,
}

/// Where a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Open,
    Done,
}

/// One look at a file that may still be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sight {
    pub(super) is_file: bool,
    pub(super) bytes: u64,
    /// True when its name is younger than its content: it was renamed, and so is whole.
    pub(super) renamed: bool,
    modified: (i64, i64),
    inode: u64,
}

/// Why a file was not read.
#[derive(Debug)]
pub(super) enum Unread {
    /// It is not what an answer may be.
    Answer(String),
    /// This machine did not let us.
    Machine(String),
}

/// A mailbox that is ours.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held for as long as this lives.
    _lock: Lock,
}

impl File {
    fn ending(self) -> &'static str {
        match self {
            Self::Prompt => ".prompt.json",
            Self::ReadablePrompt => ".prompt.md",
            Self::Reply => ".reply.md",
            Self::Refusal => ".refuse",
            Self::Counts => ".usage.json",
        }
    }
}

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        let done = path.join(DONE);
        fs::create_dir_all(&done).map_err(|error| named(&done, &error))?;
        let lock = Lock::take(&path.join(LOCK))?;
        let folder = Self { path: path.to_owned(), _lock: lock };
        folder.sweep().map_err(|error| named(path, &error))?;
        Ok(folder)
    }

    /// Removes our own half-written files; those of others may still be written.
    fn sweep(&self) -> io::Result<()> {
        let endings = [File::Prompt, File::ReadablePrompt].map(|file| temporary(file.ending()));
        for entry in fs::read_dir(&self.path)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if endings.iter().any(|ending| name.ends_with(ending)) {
                // One that stays does no harm.
                let _ = fs::remove_file(&path);
            }
        }
        Ok(())
    }

    pub(super) fn path(&self, place: Place, id: &str, file: File) -> PathBuf {
        let name = format!("{id}{}", file.ending());
        match place {
            Place::Open => self.path.join(name),
            Place::Done => self.path.join(DONE).join(name),
        }
    }

    pub(super) fn exists(&self, place: Place, id: &str, file: File) -> Result<bool, String> {
        Ok(metadata(&self.path(place, id, file))?.is_some())
    }

    /// Writes a file that is whole whenever it is there, and stays when the power goes.
    pub(super) fn write(&self, id: &str, file: File, text: &str) -> Result<(), String> {
        let path = self.path(Place::Open, id, file);
        let half = self.path.join(temporary(&format!("{id}{}", file.ending())));
        let written = write_through(&half, text).and_then(|()| fs::rename(&half, &path));
        written.map_err(|error| {
            let _ = fs::remove_file(&half);
            named(&path, &error)
        })?;
        let synced = fs::File::open(&self.path).and_then(|folder| folder.sync_all());
        synced.map_err(|error| named(&self.path, &error))
    }

    /// What can be seen of a file from outside.
    pub(super) fn look(&self, id: &str, file: File) -> Result<Option<Sight>, String> {
        let seen = metadata(&self.path(Place::Open, id, file))?;
        Ok(seen.map(|seen| {
            let modified = (seen.mtime(), seen.mtime_nsec());
            Sight {
                is_file: seen.is_file(),
                bytes: seen.len(),
                renamed: (seen.ctime(), seen.ctime_nsec()) > modified,
                modified,
                inode: seen.ino(),
            }
        }))
    }

    /// Moves a file to the done ones; none is no error.
    pub(super) fn put_away(&self, id: &str, file: File) -> Result<(), String> {
        let path = self.path(Place::Open, id, file);
        let to = self.path(Place::Done, id, file);
        // A person may tidy up while a question is open.
        if let Some(done) = to.parent() {
            fs::create_dir_all(done).map_err(|error| named(done, &error))?;
        }
        match fs::rename(&path, to) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            moved => moved.map_err(|error| named(&path, &error)),
        }
    }

    /// Reads a file that was put away.
    pub(super) fn read(&self, id: &str, file: File, bytes_max: usize) -> Result<Vec<u8>, Unread> {
        let path = self.path(Place::Done, id, file);
        let failed = |error: io::Error| Unread::Machine(named(&path, &error));
        let seen = fs::symlink_metadata(&path).map_err(failed)?;
        check_file(&path, &seen)?;
        // It may have become something else since: that must not make us wait or follow it.
        let opened = OpenOptions::new().read(true).custom_flags(cautious()).open(&path);
        let opened = opened.map_err(failed)?;
        check_file(&path, &opened.metadata().map_err(failed)?)?;
        let mut bytes = Vec::new();
        opened.take(bytes_max as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
        if bytes.len() > bytes_max {
            let why = format!("{} has more than {bytes_max} bytes", path.display());
            return Err(Unread::Answer(why));
        }
        Ok(bytes)
    }

    /// How long a question has been open; `None` where nobody knows.
    pub(super) fn age_ms(&self, id: &str) -> Option<u64> {
        let seen = fs::symlink_metadata(self.path(Place::Open, id, File::Prompt)).ok()?;
        let age = seen.modified().ok()?.elapsed().ok()?;
        u64::try_from(age.as_millis()).ok()
    }

    /// Milliseconds between a question and its reply, which were put away; 0 where that is not
    /// known.
    pub(super) fn latency_ms(&self, id: &str) -> u64 {
        let modified = |file| {
            let seen = fs::symlink_metadata(self.path(Place::Done, id, file)).ok()?;
            seen.modified().ok()
        };
        let (asked, replied) = (modified(File::Prompt), modified(File::Reply));
        let took =
            asked.zip(replied).and_then(|(asked, replied)| replied.duration_since(asked).ok());
        took.map_or(0, |took| u64::try_from(took.as_millis()).unwrap_or(u64::MAX))
    }
}

/// The right to use a mailbox, which ends with the process at the latest.
#[derive(Debug)]
struct Lock {
    file: fs::File,
}

impl Lock {
    fn take(path: &Path) -> Result<Self, String> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).custom_flags(cautious());
        let mut file = options.open(path).map_err(|error| named(path, &error))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(held(path, &mut file)),
            Err(error) => return Err(named(path, &error.into())),
        }
        let lock = Self { file };
        lock.sign().map_err(|error| named(path, &error))?;
        Ok(lock)
    }

    /// Says whose the mailbox is.
    fn sign(&self) -> io::Result<()> {
        self.file.set_len(0)?;
        (&self.file).write_all(format!("{}\n", std::process::id()).as_bytes())
    }
}

impl Drop for Lock {
    /// Closing is not enough where a child that is about to start has the file open too.
    fn drop(&mut self) {
        let _ = self.file.set_len(0);
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

fn held(path: &Path, file: &mut fs::File) -> String {
    let mut text = String::new();
    let _ = file.take(LOCK_BYTES_MAX).read_to_string(&mut text);
    let holder = match text.trim().parse::<u32>() {
        Ok(pid) => format!("process {pid}"),
        Err(_) => "another process".to_owned(),
    };
    let shown = path.display();
    format!("{holder} uses this mailbox and holds {shown}: end it, or use another folder")
}

fn temporary(name: &str) -> String {
    format!("{name}{TEMPORARY}")
}

fn cautious() -> i32 {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    i32::try_from(flags.bits()).unwrap_or(0)
}

fn write_through(path: &Path, text: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(cautious());
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

fn metadata(path: &Path) -> Result<Option<Metadata>, String> {
    match fs::symlink_metadata(path) {
        Ok(seen) => Ok(Some(seen)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(path, &error)),
    }
}

fn check_file(path: &Path, seen: &Metadata) -> Result<(), Unread> {
    let kind = seen.file_type();
    if kind.is_file() {
        return Ok(());
    }
    let what = if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a folder"
    } else if kind.is_fifo() {
        "a FIFO"
    } else {
        "no plain file"
    };
    Err(Unread::Answer(format!("{} is {what}; an answer is a plain file", path.display())))
}

fn named(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}
