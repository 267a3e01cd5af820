//! Memory that two processes share: sized by its maker, sealed so that it can neither grow nor
//! shrink, and read only once nobody can write it.
#![allow(unsafe_code, reason = "maps memory")]

use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::thread;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap};

use crate::error::SandboxError;
use crate::limits::{PREPARE_BYTES_MIN, PREPARE_THREADS_MAX, SEAL_TRIES_MAX, SEAL_WAIT};

/// A multiple of a page, whatever its size.
const PART_ALIGN: usize = 64 << 10;

/// One shared memory.
///
/// The rule that makes reading sound is enforced: [`Memfd::map`] demands the seal against writing,
/// and the kernel refuses that seal while any process has the memory mapped for writing. So the
/// parent seals and maps a child's output only after the child is reaped.
#[derive(Debug)]
pub struct Memfd {
    fd: OwnedFd,
    bytes: usize,
}

impl Memfd {
    /// Makes a memory of `bytes` zeros that can neither grow nor shrink.
    ///
    /// # Errors
    ///
    /// No bytes, or a system call that failed.
    pub fn create(name: &str, bytes: usize) -> Result<Memfd, SandboxError> {
        let length = u64::try_from(bytes).unwrap_or(u64::MAX);
        if bytes == 0 || i64::try_from(length).is_err() {
            return Err(SandboxError::BadSize { bytes: length });
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags)
            .map_err(|error| SandboxError::system("make a shared memory", error))?;
        ftruncate(&fd, length)
            .and_then(|()| fcntl_add_seals(&fd, SealFlags::SHRINK | SealFlags::GROW))
            .map_err(|error| match error {
                // Shared memories are files to the kernel.
                rustix::io::Errno::FBIG => SandboxError::FileLimit { bytes: length },
                error => SandboxError::system("size a shared memory", error),
            })?;
        Ok(Memfd { fd, bytes })
    }

    /// Takes a memory that another process made.
    ///
    /// # Errors
    ///
    /// A descriptor that is no memory, or one whose size may still change: then a mapping could
    /// lose its pages under us.
    pub fn from_fd(fd: OwnedFd) -> Result<Memfd, SandboxError> {
        let seals = fcntl_get_seals(&fd)
            .map_err(|error| SandboxError::system("read the seals of a shared memory", error))?;
        if !seals.contains(SealFlags::SHRINK | SealFlags::GROW) {
            return Err(SandboxError::NotSealed);
        }
        let size = fstat(&fd)
            .map_err(|error| SandboxError::system("size a shared memory", error))?
            .st_size;
        let bytes = usize::try_from(size).unwrap_or(0);
        if bytes == 0 {
            return Err(SandboxError::BadSize { bytes: size.unsigned_abs() });
        }
        Ok(Memfd { fd, bytes })
    }

    /// Its size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes `data` at `start`, in bytes.
    ///
    /// # Errors
    ///
    /// A range outside of the memory, or a memory that is sealed against writing.
    pub fn fill(&mut self, start: usize, data: &[u8]) -> Result<(), SandboxError> {
        let end = start.saturating_add(data.len());
        if end > self.bytes {
            return Err(SandboxError::OutOfRange { start, end, bytes: self.bytes });
        }
        let mut done = 0;
        while done < data.len() {
            let offset = u64::try_from(start + done).unwrap_or(u64::MAX);
            match rustix::io::pwrite(&self.fd, &data[done..], offset) {
                Ok(count) => done += count,
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(SandboxError::system("fill a shared memory", error)),
            }
        }
        Ok(())
    }

    /// Forbids writing for good, to every process.
    ///
    /// # Errors
    ///
    /// Some process still has it mapped for writing, a second later.
    pub fn seal_write(&self) -> Result<(), SandboxError> {
        for _ in 0..SEAL_TRIES_MAX {
            match fcntl_add_seals(&self.fd, SealFlags::WRITE) {
                // A child that another thread just forked still has our maps until it executes.
                Err(rustix::io::Errno::BUSY) => std::thread::sleep(SEAL_WAIT),
                other => {
                    return other
                        .map_err(|error| SandboxError::system("seal a shared memory", error));
                }
            }
        }
        Err(SandboxError::system("seal a shared memory", rustix::io::Errno::BUSY))
    }

    /// Maps it for reading; only after [`Memfd::seal_write`].
    ///
    /// # Errors
    ///
    /// [`SandboxError::NotSealed`] while it may be written, or a system call that failed.
    pub fn map(&self) -> Result<Map, SandboxError> {
        let seals = fcntl_get_seals(&self.fd)
            .map_err(|error| SandboxError::system("read the seals of a shared memory", error))?;
        if !seals.contains(SealFlags::WRITE) {
            return Err(SandboxError::NotSealed);
        }
        Region::new(self, ProtFlags::READ).map(Map)
    }

    /// Maps it for writing. Others must not read it before the map is dropped and it is sealed.
    ///
    /// # Errors
    ///
    /// A memory that is sealed against writing, or a system call that failed.
    pub fn map_mut(&mut self) -> Result<MapMut, SandboxError> {
        Region::new(self, ProtFlags::READ | ProtFlags::WRITE).map(MapMut)
    }
}

impl AsFd for Memfd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Bytes of a sealed memory.
#[derive(Debug)]
pub struct Map(Region);

/// Bytes of a memory that this process writes.
#[derive(Debug)]
pub struct MapMut(Region);

impl MapMut {
    /// Gives a range its pages at once, by several threads when it is large: a write into fresh
    /// memory waits for each page, which takes longer than the copy.
    ///
    /// # Errors
    ///
    /// A range outside of the memory, or no room for its pages; without this call, a write without
    /// room would kill the process.
    pub fn prepare(&mut self, range: Range<usize>) -> Result<(), SandboxError> {
        let Range { start, end } = range;
        if start > end || end > self.0.bytes {
            return Err(SandboxError::OutOfRange { start, end, bytes: self.0.bytes });
        }
        let start = start - start % PART_ALIGN;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let parts = (end - start).div_ceil(PREPARE_BYTES_MIN).clamp(1, PREPARE_THREADS_MAX);
        let bytes = (end - start).div_ceil(parts.min(cores)).next_multiple_of(PART_ALIGN);
        let region = &self.0;
        thread::scope(|scope| {
            let mut others = Vec::new();
            for first in (start..end).step_by(bytes.max(1)).skip(1) {
                let part = move || region.populate(first..end.min(first + bytes));
                // A machine that has no thread left gets the pages when they are written.
                others.extend(thread::Builder::new().spawn_scoped(scope, part).ok());
            }
            let own = region.populate(start..end.min(start + bytes));
            let ends = others.into_iter().map(|other| other.join().unwrap_or(Ok(())));
            ends.fold(own, Result::and)
        })
    }
}

/// A mapping; unmapped when dropped.
#[derive(Debug)]
struct Region {
    start: NonNull<u8>,
    bytes: usize,
}

impl Region {
    fn new(memory: &Memfd, protection: ProtFlags) -> Result<Region, SandboxError> {
        let bytes = memory.bytes;
        // SAFETY: the kernel picks an unused address; the memory is at least `bytes` long and can
        // never shrink, since every `Memfd` carries that seal.
        let start =
            unsafe { mmap(ptr::null_mut(), bytes, protection, MapFlags::SHARED, &memory.fd, 0) };
        let start = start.map_err(|error| SandboxError::system("map a shared memory", error))?;
        let start = NonNull::new(start.cast()).ok_or(SandboxError::BadSize { bytes: 0 })?;
        let region = Region { start, bytes };
        // SAFETY: the range is mapped, and nothing forked by this process uses its memory.
        unsafe { madvise(region.start.as_ptr().cast(), bytes, Advice::LinuxDontFork) }
            .map_err(|error| SandboxError::system("keep a shared memory from forks", error))?;
        Ok(region)
    }

    /// Gives a part of a writable mapping its pages; its start is a multiple of a page.
    fn populate(&self, part: Range<usize>) -> Result<(), SandboxError> {
        // SAFETY: the part is inside of the mapping, and its content stays as it is.
        let done = unsafe {
            let start = self.start.as_ptr().add(part.start);
            madvise(start.cast(), part.len(), Advice::LinuxPopulateWrite)
        };
        match done {
            // Linux before 5.14 does not know the advice: pages come when they are written.
            Ok(()) | Err(rustix::io::Errno::INVAL) => Ok(()),
            Err(error) => Err(SandboxError::system("find room for a shared memory", error)),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: this very range was mapped in `new`, and no borrow of it outlives the region.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the region is owned memory; nothing in it is tied to a thread.
unsafe impl Send for Region {}
// SAFETY: shared access only reads.
unsafe impl Sync for Region {}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped and sealed against writing, so the bytes do not change.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.bytes) }
    }
}

impl Deref for MapMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range is mapped; by contract only this process writes it meanwhile.
        unsafe { std::slice::from_raw_parts(self.0.start.as_ptr(), self.0.bytes) }
    }
}

impl DerefMut for MapMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for reading, and the borrow of the map is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.bytes) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memory_is_filled_sealed_and_read() {
        let mut memory = Memfd::create("test", 10_000).unwrap();
        memory.fill(9_998, b"ab").unwrap();
        assert!(matches!(memory.map(), Err(SandboxError::NotSealed)));
        {
            let mut map = memory.map_mut().unwrap();
            map[0] = 7;
            assert!(memory.seal_write().is_err(), "it is mapped for writing");
        }
        memory.seal_write().unwrap();
        let map = memory.map().unwrap();
        assert_eq!((map.len(), map[0], &map[9_998..]), (10_000, 7, &b"ab"[..]));
        assert!(memory.fill(0, b"x").is_err());
        assert!(memory.map_mut().is_err());
    }

    #[test]
    fn a_range_that_is_prepared_keeps_its_content() {
        let bytes = 5 * PREPARE_BYTES_MIN + 3;
        let mut memory = Memfd::create("test", bytes).unwrap();
        memory.fill(bytes - 2, b"ab").unwrap();
        let mut map = memory.map_mut().unwrap();
        for range in [0..0, 0..bytes, 70_001..70_002, bytes - 1..bytes, bytes..bytes] {
            map.prepare(range.clone()).unwrap();
            assert_eq!((map[0], &map[bytes - 2..]), (0, &b"ab"[..]), "{range:?}");
        }
        for range in [0..bytes + 1, bytes + 1..bytes + 1, Range { start: 2, end: 1 }] {
            assert!(matches!(map.prepare(range), Err(SandboxError::OutOfRange { .. })));
        }
    }

    #[test]
    fn its_size_never_changes() {
        let memory = Memfd::create("test", 4096).unwrap();
        assert!(ftruncate(&memory.fd, 1).is_err());
        assert!(ftruncate(&memory.fd, 8192).is_err());
        let again = Memfd::from_fd(memory.fd.try_clone().unwrap()).unwrap();
        assert_eq!(again.bytes(), 4096);
    }

    #[test]
    fn odd_memories_are_refused() {
        assert!(matches!(Memfd::create("test", 0), Err(SandboxError::BadSize { bytes: 0 })));
        let file = tempfile::tempfile().unwrap();
        assert!(Memfd::from_fd(file.into()).is_err());
        let free = rustix::fs::memfd_create("free", MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(matches!(Memfd::from_fd(free), Err(SandboxError::NotSealed)));
        let mut memory = Memfd::create("test", 4).unwrap();
        assert!(matches!(memory.fill(3, b"ab"), Err(SandboxError::OutOfRange { .. })));
    }
}
