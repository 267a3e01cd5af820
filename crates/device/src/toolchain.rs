//! The pinned CUDA toolchain: what it is, where it may be found, how it is installed.
//!
//! A toolchain is NVRTC, its builtins and the headers that kernels include. It is data, so that it
//! travels to a child process unchanged. Nothing is loaded here; see [`crate::nvrtc`] for that.
//! Start at [`find`]; [`install`] downloads the pin from PyPI, since NVIDIA's files may not be
//! redistributed.

mod find;
mod install;
mod layout;
mod pin;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::nvrtc::SOURCE_FOLDER;

pub use find::{Choice, Places, find, find_in, list};
pub use install::{Progress, install, install_from_wheels};
pub use pin::{PINNED_VERSION, pinned_id};

/// A compiler that can be loaded, with its headers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Toolchain {
    /// Short name of the toolchain, the same on every machine that has the same versions.
    pub id: String,
    /// Full version of NVRTC, such as `13.0.88`.
    pub version: String,
    /// Absolute path of `libnvrtc.so`.
    pub nvrtc: PathBuf,
    /// Absolute path of `libnvrtc-builtins.so`, of the same minor version.
    pub builtins: PathBuf,
    /// Absolute paths of the header folders, in search order.
    pub include_dirs: Vec<PathBuf>,
    /// Where it was found.
    pub origin: Origin,
}

impl Toolchain {
    /// The header folders, each with a name that is the same on every machine. No file of any
    /// machine has it: who compiles with these names answers for them.
    #[must_use]
    pub fn named_include_dirs(&self) -> Vec<(PathBuf, PathBuf)> {
        let first = PathBuf::from(format!("{SOURCE_FOLDER}<cuda>"));
        let within = |folder: &PathBuf| -> Option<PathBuf> {
            let rest = folder.strip_prefix(self.include_dirs.first()?).ok()?;
            Some(first.components().chain(rest.components()).collect())
        };
        let other = |i: usize| PathBuf::from(format!("{SOURCE_FOLDER}<cuda-{i}>"));
        let folders = self.include_dirs.iter().enumerate();
        folders.map(|(i, dir)| (dir.clone(), within(dir).unwrap_or_else(|| other(i)))).collect()
    }
}

/// Where a toolchain was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The path that the user named.
    Explicit,
    /// Our own cache.
    Cache,
    /// A CUDA toolkit of the machine.
    Toolkit,
    /// NVIDIA's wheels in a Python installation.
    SitePackages,
}

impl Origin {
    /// The word used in messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Origin::Explicit => "the given path",
            Origin::Cache => "the cache",
            Origin::Toolkit => "a CUDA toolkit",
            Origin::SitePackages => "Python's site-packages",
        }
    }
}

/// Why no toolchain is at hand.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ToolchainError {
    /// Nothing usable was found.
    #[error(
        "no CUDA toolchain {} found{}; run `warpwright toolchain install`, or name one with \
         `--toolchain PATH`",
        PINNED_VERSION,
        seen(others)
    )]
    NotFound {
        /// Toolchains of another version, as `version at path`.
        others: Vec<String>,
    },
    /// A folder was named that holds no toolchain.
    #[error(
        "{path} holds no CUDA toolchain: {missing} is missing; name a folder with lib and include"
    )]
    NotAToolchain {
        /// The folder.
        path: PathBuf,
        /// What was looked for.
        missing: String,
    },
    /// No pip on the path.
    #[error(
        "the toolchain is installed with pip, and neither `python3 -m pip`, `pip3` nor `pip` runs; \
         install it (on Debian: apt-get install python3-pip) and try again"
    )]
    NoPip,
    /// pip ran and failed.
    #[error(
        "{program} could not download the toolchain: {error_tail}; check the network and the \
         package index"
    )]
    Download {
        /// The command.
        program: String,
        /// The tail of its error output.
        error_tail: String,
    },
    /// A package was not among the downloaded files.
    #[error("no wheel of {package} was downloaded; run the installation again")]
    WheelMissing {
        /// Package and version.
        package: String,
    },
    /// A file is not the pinned one.
    #[error("{path} has sha256 {found}, but {expected} is pinned; delete it and download again")]
    HashMismatch {
        /// The wheel.
        path: PathBuf,
        /// Its hash.
        found: String,
        /// The hash in the pin.
        expected: String,
    },
    /// A wheel could not be unpacked.
    #[error("cannot unpack {path}: {reason}; delete it and install again")]
    Unpack {
        /// The wheel.
        path: PathBuf,
        /// What was wrong.
        reason: String,
    },
    /// The embedded pin cannot be read.
    #[error("the embedded pin is malformed at `{line}`; this build is broken")]
    BadPin {
        /// The line.
        line: String,
    },
    /// A file operation failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// The verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
}

impl ToolchainError {
    fn io(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| ToolchainError::Io { action, path, source }
    }
}

fn seen(others: &[String]) -> String {
    if others.is_empty() {
        return String::new();
    }
    format!(" (other versions need `--toolchain any`: {})", others.join(", "))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::{Origin, Toolchain};

    #[test]
    fn header_folders_have_names_that_say_nothing_of_the_machine() {
        let named = |folders: &[&str]| {
            let toolchain = Toolchain {
                id: String::new(),
                version: String::new(),
                nvrtc: PathBuf::new(),
                builtins: PathBuf::new(),
                include_dirs: folders.iter().map(PathBuf::from).collect(),
                origin: Origin::Cache,
            };
            let named = toolchain.named_include_dirs();
            assert!(named.iter().map(|(folder, _)| folder).eq(&toolchain.include_dirs));
            named.into_iter().map(|(_, name)| name.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(
            named(&["/home/a/include", "/home/a/include/cccl", "/opt/b"]),
            ["/dev/null/<cuda>", "/dev/null/<cuda>/cccl", "/dev/null/<cuda-2>"]
        );
        assert!(named(&[]).is_empty());
    }
}
