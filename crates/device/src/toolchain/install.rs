//! Installs the pin into the cache: download with pip, check, unpack, publish by one rename.
//!
//! Two processes may install at once: a lock file makes the second wait and find the work done.
//! Work happens in a temporary folder beside its destination, so an interrupted install leaves
//! nothing that counts as a toolchain, and the next one removes the leftovers.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::pin::{self, PINNED_VERSION, Package};
use super::{Origin, Toolchain, ToolchainError, layout};
use crate::limits::{MANIFEST_BYTES_MAX, UNPACKED_FILE_BYTES_MAX, UNPACKED_FILES_MAX};

mod pip;

const MANIFEST_NAME: &str = "manifest.json";
const PARTIAL_PREFIX: &str = ".partial-";
const WHEEL_ROOT: &str = "nvidia/cu13/";
const WHEEL_FOLDERS: [&str; 2] = ["lib/", "include/"];
/// Permissions of everybody, the owner included.
const READ: u32 = 0o444;
const SEARCH: u32 = 0o111;
const HASH_BUFFER_BYTES: usize = 1 << 20;

/// What an installation is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Another process installs; this one waits for it.
    Waiting,
    /// pip downloads this many packages.
    Downloading {
        /// How many.
        packages: usize,
    },
    /// A wheel is checked and unpacked.
    Unpacking {
        /// Package and version.
        package: String,
    },
    /// The toolchain is in place.
    Ready,
}

/// What an installed toolchain says about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    pub(super) version: String,
    id: String,
    packages: Vec<Package>,
    files: usize,
    nvrtc_bytes: u64,
}

/// Installs the pinned toolchain into the cache with pip, or returns the one that is there.
///
/// # Errors
///
/// [`ToolchainError::NoPip`], [`ToolchainError::Download`], a hash that differs from the pin, or a
/// file operation that failed. The cache is unchanged after an error.
pub fn install(
    cache_dir: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Toolchain, ToolchainError> {
    install_with(cache_dir, progress, &mut |partial, progress| {
        let wheels = partial.join("wheels");
        progress(Progress::Downloading { packages: pin::packages()?.len() });
        pip::download(partial, &wheels)?;
        Ok(wheels)
    })
}

/// As [`install`], from a folder that holds the pinned wheels already; needs no network.
///
/// # Errors
///
/// As [`install`], and [`ToolchainError::WheelMissing`].
pub fn install_from_wheels(
    cache_dir: &Path,
    wheels: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<Toolchain, ToolchainError> {
    install_with(cache_dir, progress, &mut |_, _| Ok(wheels.to_owned()))
}

type Fetch<'a> =
    &'a mut dyn FnMut(&Path, &mut dyn FnMut(Progress)) -> Result<PathBuf, ToolchainError>;

fn install_with(
    cache_dir: &Path,
    progress: &mut dyn FnMut(Progress),
    fetch: Fetch<'_>,
) -> Result<Toolchain, ToolchainError> {
    let folder = toolchains_dir(cache_dir);
    fs::create_dir_all(&folder).map_err(ToolchainError::io("create", &folder))?;
    open_to_others(cache_dir, SEARCH)?;
    open_to_others(&folder, SEARCH)?;
    let _lock = lock(&folder, progress)?;
    if let Some(found) = installed(cache_dir) {
        progress(Progress::Ready);
        return Ok(found);
    }
    remove_leftovers(&folder)?;
    let partial = tempfile::Builder::new()
        .prefix(PARTIAL_PREFIX)
        .tempdir_in(&folder)
        .map_err(ToolchainError::io("create a folder in", &folder))?;
    let wheels = fetch(partial.path(), progress)?;
    let root = partial.path().join("root");
    build_root(&root, &wheels, progress)?;
    open_tree(&root)?;
    let target = folder.join(PINNED_VERSION);
    fs::rename(&root, &target).map_err(ToolchainError::io("rename into", &target))?;
    let found = layout::read(&target, Origin::Cache)?;
    progress(Progress::Ready);
    Ok(found)
}

/// Lets others into a folder, whatever the umask is: a compiler is confined as another user.
fn open_to_others(path: &Path, bits: u32) -> Result<(), ToolchainError> {
    let failed = ToolchainError::io("change the permissions of", path);
    let mode = fs::metadata(path).map_or(0, |found| found.permissions().mode());
    if mode & bits == bits {
        return Ok(());
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode | bits)).map_err(failed)
}

/// Lets others read what was unpacked, which everybody can download.
fn open_tree(folder: &Path) -> Result<(), ToolchainError> {
    open_to_others(folder, READ | SEARCH)?;
    for entry in fs::read_dir(folder).map_err(ToolchainError::io("list", folder))? {
        let entry = entry.map_err(ToolchainError::io("list", folder))?;
        let kind = entry.file_type().map_err(ToolchainError::io("list", folder))?;
        if kind.is_dir() {
            open_tree(&entry.path())?;
        } else if kind.is_file() {
            open_to_others(&entry.path(), READ)?;
        }
    }
    Ok(())
}

/// The folder of the cache that holds toolchains.
pub(super) fn toolchains_dir(cache_dir: &Path) -> PathBuf {
    cache_dir.join("toolchain")
}

/// The pinned toolchain of the cache, if it is complete.
pub(super) fn installed(cache_dir: &Path) -> Option<Toolchain> {
    let root = toolchains_dir(cache_dir).join(PINNED_VERSION);
    let manifest = read_manifest(&root)?;
    let found = layout::read(&root, Origin::Cache).ok()?;
    let nvrtc_bytes = fs::metadata(&found.nvrtc).ok()?.len();
    let complete = manifest.id == pin::pinned_id() && manifest.nvrtc_bytes == nvrtc_bytes;
    complete.then_some(found)
}

/// The manifest of one installed toolchain; none if it is missing or malformed.
pub(super) fn read_manifest(root: &Path) -> Option<Manifest> {
    let path = root.join(MANIFEST_NAME);
    if fs::metadata(&path).ok()?.len() > MANIFEST_BYTES_MAX {
        return None;
    }
    serde_json::from_str(&fs::read_to_string(path).ok()?).ok()
}

/// Takes the lock of the folder; it is released when the file is dropped.
fn lock(folder: &Path, progress: &mut dyn FnMut(Progress)) -> Result<File, ToolchainError> {
    let path = folder.join(".lock");
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .map_err(ToolchainError::io("open", &path))?;
    if file.try_lock().is_err() {
        progress(Progress::Waiting);
        file.lock().map_err(ToolchainError::io("lock", &path))?;
    }
    Ok(file)
}

/// Removes what an interrupted install left, and a toolchain that is not complete.
fn remove_leftovers(folder: &Path) -> Result<(), ToolchainError> {
    let entries = fs::read_dir(folder).map_err(ToolchainError::io("read", folder))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(PARTIAL_PREFIX) || name == PINNED_VERSION {
            let path = entry.path();
            fs::remove_dir_all(&path).map_err(ToolchainError::io("remove", &path))?;
        }
    }
    Ok(())
}

fn build_root(
    root: &Path,
    wheels: &Path,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), ToolchainError> {
    fs::create_dir_all(root).map_err(ToolchainError::io("create", root))?;
    let packages = pin::packages()?;
    let mut files = 0;
    for package in &packages {
        let label = format!("{} {}", package.name, package.version);
        progress(Progress::Unpacking { package: label });
        let wheel = find_wheel(wheels, package)?;
        check_hash(&wheel, &package.sha256)?;
        files += unpack(&wheel, root)?;
    }
    write_manifest(root, packages, files)
}

fn write_manifest(root: &Path, packages: Vec<Package>, files: usize) -> Result<(), ToolchainError> {
    let nvrtc = root.join("lib/libnvrtc.so.13");
    let nvrtc_bytes = fs::metadata(&nvrtc).map_err(ToolchainError::io("read", &nvrtc))?.len();
    let manifest = Manifest {
        version: PINNED_VERSION.to_owned(),
        id: pin::pinned_id(),
        packages,
        files,
        nvrtc_bytes,
    };
    let path = root.join(MANIFEST_NAME);
    let text = serde_json::to_string_pretty(&manifest)
        .map_err(|error| ToolchainError::io("encode", &path)(error.into()))?;
    fs::write(&path, text).map_err(ToolchainError::io("write", &path))
}

fn find_wheel(folder: &Path, package: &Package) -> Result<PathBuf, ToolchainError> {
    let prefix = package.wheel_prefix();
    let entries = fs::read_dir(folder).map_err(ToolchainError::io("read", folder))?;
    entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(&prefix) && name.ends_with(".whl")
        })
        .ok_or_else(|| ToolchainError::WheelMissing {
            package: format!("{}=={}", package.name, package.version),
        })
}

fn check_hash(path: &Path, expected: &str) -> Result<(), ToolchainError> {
    let found = sha256(path).map_err(ToolchainError::io("read", path))?;
    if found == expected {
        return Ok(());
    }
    let expected = expected.to_owned();
    Err(ToolchainError::HashMismatch { path: path.to_owned(), found, expected })
}

fn sha256(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; HASH_BUFFER_BYTES];
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Unpacks the libraries and headers of one wheel into `root`; returns how many files.
fn unpack(wheel: &Path, root: &Path) -> Result<usize, ToolchainError> {
    let failed = |reason: String| ToolchainError::Unpack { path: wheel.to_owned(), reason };
    let file = File::open(wheel).map_err(ToolchainError::io("open", wheel))?;
    let mut archive = zip::ZipArchive::new(file).map_err(|error| failed(error.to_string()))?;
    if archive.len() > UNPACKED_FILES_MAX {
        return Err(failed(format!("it holds {} files", archive.len())));
    }
    let mut files = 0;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index).map_err(|error| failed(error.to_string()))?;
        let Some(path) = entry.enclosed_name() else {
            return Err(failed(format!("entry {index} leaves the folder")));
        };
        let Some(inner) = wanted(&path) else { continue };
        if entry.is_dir() {
            continue;
        }
        let size = entry.size();
        if size > UNPACKED_FILE_BYTES_MAX {
            return Err(failed(format!("{} has {size} bytes", path.display())));
        }
        write_entry(&mut (&mut entry).take(size), &root.join(inner))?;
        files += 1;
    }
    Ok(files)
}

/// The path inside the toolchain, for a file that belongs there.
fn wanted(path: &Path) -> Option<&Path> {
    let inner = path.strip_prefix(WHEEL_ROOT).ok()?;
    let text = inner.to_str()?;
    // The alternative builds of the compiler are as large as the compiler and never used.
    let unused = text.contains(".alt.") || text.ends_with(".a") || text.contains("lib/cmake/");
    (WHEEL_FOLDERS.iter().any(|folder| text.starts_with(folder)) && !unused).then_some(inner)
}

fn write_entry(source: &mut impl Read, path: &Path) -> Result<(), ToolchainError> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(ToolchainError::io("create", folder))?;
    }
    let mut file = File::create(path).map_err(ToolchainError::io("create", path))?;
    io::copy(source, &mut file).map_err(ToolchainError::io("write", path))?;
    Ok(())
}

#[cfg(test)]
mod tests;
