//! The pin: package versions and hashes, embedded, and the toolchain id made from them.

use serde::{Deserialize, Serialize};

use super::ToolchainError;

/// NVRTC's full version in the pin.
pub const PINNED_VERSION: &str = "13.0.88";

/// The pin as pip reads it.
pub(super) const REQUIREMENTS: &str = include_str!("../../toolchain/13.0.88.txt");

const ID_HASH_LENGTH: usize = 12;

/// One package of the pin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
}

impl Package {
    /// The start of the wheel's file name.
    pub(super) fn wheel_prefix(&self) -> String {
        format!("{}-{}-", self.name.replace('-', "_"), self.version)
    }
}

/// The id of the pinned toolchain: its version and a hash of the pin.
pub fn pinned_id() -> String {
    let hash = blake3::hash(REQUIREMENTS.as_bytes()).to_hex();
    format!("{PINNED_VERSION}-{}", &hash[..ID_HASH_LENGTH])
}

/// The id of a toolchain of any version.
pub(super) fn id_of(version: &str) -> String {
    if version == PINNED_VERSION { pinned_id() } else { format!("{version}-unpinned") }
}

/// The packages of the embedded pin.
pub(super) fn packages() -> Result<Vec<Package>, ToolchainError> {
    REQUIREMENTS
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| package(line).ok_or_else(|| ToolchainError::BadPin { line: line.to_owned() }))
        .collect()
}

fn package(line: &str) -> Option<Package> {
    let (name, rest) = line.split_once("==")?;
    let (version, sha256) = rest.split_once(" --hash=sha256:")?;
    let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hash.then(|| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        sha256: sha256.to_ascii_lowercase(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_embedded_pin_is_complete() {
        let packages = packages().unwrap();
        assert_eq!(packages.len(), 4);
        assert_eq!(packages[0].name, "nvidia-cuda-nvrtc");
        assert_eq!(packages[0].version, PINNED_VERSION);
        assert_eq!(packages[0].wheel_prefix(), "nvidia_cuda_nvrtc-13.0.88-");
    }

    #[test]
    fn ids_tell_pinned_from_other() {
        assert_eq!(pinned_id(), id_of(PINNED_VERSION));
        assert!(pinned_id().starts_with("13.0.88-"));
        assert_eq!(id_of("12.9.86"), "12.9.86-unpinned");
    }

    #[test]
    fn a_pin_without_a_hash_is_refused() {
        assert_eq!(package("nvidia-cuda-nvrtc==13.0.88"), None);
        assert_eq!(package("nvidia-cuda-nvrtc==13.0.88 --hash=sha256:abc"), None);
    }
}
