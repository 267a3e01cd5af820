//! Chooses a toolchain: the named one, then our cache, then the machine's, pinned version only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::pin::PINNED_VERSION;
use super::{Origin, Toolchain, ToolchainError, install, layout};

const SITE_PACKAGES_SCRIPT: &str =
    "import sys; print('\\n'.join(p for p in sys.path if p.endswith('-packages')))";

/// Which toolchain the user wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// The pinned version, wherever it is.
    #[default]
    Pinned,
    /// The pinned version if there is one, else the first of any version.
    Any,
    /// The toolchain in this folder, whatever its version.
    Path(PathBuf),
}

/// Where to look besides the cache, in order.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Roots of CUDA toolkits.
    pub toolkits: Vec<PathBuf>,
    /// Python's package folders.
    pub site_packages: Vec<PathBuf>,
}

impl Places {
    /// The places of this machine: `CUDA_HOME`, `CUDA_PATH`, `/usr/local/cuda`, and the package
    /// folders of `python3`, which is started once to ask.
    pub fn of_this_machine() -> Places {
        let mut toolkits: Vec<PathBuf> = ["CUDA_HOME", "CUDA_PATH"]
            .iter()
            .filter_map(std::env::var_os)
            .map(Into::into)
            .collect();
        toolkits.push("/usr/local/cuda".into());
        toolkits.dedup();
        Places { toolkits, site_packages: site_packages() }
    }

    fn roots(&self) -> impl Iterator<Item = (PathBuf, Origin)> {
        let toolkits = self.toolkits.iter().map(|root| (root.clone(), Origin::Toolkit));
        let wheels = self
            .site_packages
            .iter()
            .map(|folder| (folder.join("nvidia/cu13"), Origin::SitePackages));
        toolkits.chain(wheels)
    }
}

/// Finds a toolchain: the named path; our cache; then the machine's.
///
/// # Errors
///
/// [`ToolchainError::NotFound`] lists the versions that were seen and refused.
pub fn find(choice: &Choice, cache_dir: &Path) -> Result<Toolchain, ToolchainError> {
    if let Choice::Path(root) = choice {
        return layout::read(root, Origin::Explicit);
    }
    // Asking Python costs a process: only when the cache has nothing.
    find_in(choice, cache_dir, &Places::default())
        .or_else(|_| find_in(choice, cache_dir, &Places::of_this_machine()))
}

/// As [`find`], in places given by the caller.
///
/// # Errors
///
/// As [`find`].
pub fn find_in(
    choice: &Choice,
    cache_dir: &Path,
    places: &Places,
) -> Result<Toolchain, ToolchainError> {
    if let Choice::Path(root) = choice {
        return layout::read(root, Origin::Explicit);
    }
    if let Some(cached) = install::installed(cache_dir) {
        return Ok(cached);
    }
    let mut others = Vec::new();
    for (root, origin) in places.roots() {
        match layout::read(&root, origin) {
            Ok(found) if found.version == PINNED_VERSION => return Ok(found),
            Ok(found) => others.push(found),
            Err(_) => {}
        }
    }
    if *choice == Choice::Any && !others.is_empty() {
        return Ok(others.swap_remove(0));
    }
    let others = others.iter().map(describe).collect();
    Err(ToolchainError::NotFound { others })
}

fn describe(found: &Toolchain) -> String {
    format!("{} at {}", found.version, found.nvrtc.display())
}

/// The toolchains that are installed in the cache.
///
/// # Errors
///
/// When the cache exists and cannot be read.
pub fn list(cache_dir: &Path) -> Result<Vec<Toolchain>, ToolchainError> {
    let folder = install::toolchains_dir(cache_dir);
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&folder).map_err(ToolchainError::io("read", &folder))?;
    let mut found: Vec<Toolchain> = entries
        .filter_map(|entry| {
            let root = entry.ok()?.path();
            install::read_manifest(&root)?;
            layout::read(&root, Origin::Cache).ok()
        })
        .collect();
    found.sort_by(|a, b| a.version.cmp(&b.version));
    Ok(found)
}

fn site_packages() -> Vec<PathBuf> {
    let output = Command::new("python3")
        .args(["-c", SITE_PACKAGES_SCRIPT])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).lines().map(PathBuf::from).collect()
        }
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn toolkit(root: &Path, version: &str) {
        let minor = version.rsplit_once('.').unwrap().0;
        for folder in ["lib", "include"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        fs::write(root.join("include/cuda_fp16.h"), "").unwrap();
        fs::write(root.join(format!("lib/libnvrtc.so.{version}")), "").unwrap();
        fs::write(root.join(format!("lib/libnvrtc-builtins.so.{minor}")), "").unwrap();
    }

    #[test]
    fn only_the_pinned_version_is_taken_unless_any_is_asked() {
        let temp = tempfile::tempdir().unwrap();
        let (old, pinned) = (temp.path().join("old"), temp.path().join("pinned"));
        toolkit(&old, "12.9.86");
        toolkit(&pinned, PINNED_VERSION);
        let cache = temp.path().join("cache");
        let mut places = Places { toolkits: vec![old.clone()], site_packages: Vec::new() };

        let error = find_in(&Choice::Pinned, &cache, &places).unwrap_err().to_string();
        assert!(error.contains("12.9.86 at") && error.contains("toolchain install"), "{error}");
        let any = find_in(&Choice::Any, &cache, &places).unwrap();
        assert_eq!(any.id, "12.9.86-unpinned");

        places.toolkits.push(pinned);
        for choice in [Choice::Pinned, Choice::Any] {
            assert_eq!(find_in(&choice, &cache, &places).unwrap().version, PINNED_VERSION);
        }
        let named = find_in(&Choice::Path(old), &cache, &places).unwrap();
        assert_eq!((named.version.as_str(), named.origin), ("12.9.86", Origin::Explicit));
    }

    #[test]
    fn nothing_anywhere_says_what_to_do() {
        let temp = tempfile::tempdir().unwrap();
        let error = find_in(&Choice::Any, temp.path(), &Places::default()).unwrap_err();
        assert!(error.to_string().contains("warpwright toolchain install"));
        assert!(list(temp.path()).unwrap().is_empty());
    }
}
