//! Reads a folder that may hold a toolchain: which libraries, which headers, which full version.
//!
//! Wheels, toolkits and our cache differ in small ways: `lib`, `lib64` or `targets/…/lib`, and the
//! full version in a file name, in `version.json` or in the name of a `dist-info` folder.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{Origin, Toolchain, ToolchainError, pin};
use crate::limits::MANIFEST_BYTES_MAX;

const LIBRARY_FOLDERS: [&str; 3] = ["lib", "lib64", "targets/x86_64-linux/lib"];
const INCLUDE_FOLDERS: [&str; 2] = ["include", "targets/x86_64-linux/include"];

/// Reads the toolchain under `root`, which holds a library folder and an include folder.
pub(super) fn read(root: &Path, origin: Origin) -> Result<Toolchain, ToolchainError> {
    let missing = |what: &str| ToolchainError::NotAToolchain {
        path: root.to_owned(),
        missing: what.to_owned(),
    };
    let root = &std::path::absolute(root).map_err(ToolchainError::io("resolve", root))?;
    let (nvrtc, builtins) = LIBRARY_FOLDERS
        .iter()
        .find_map(|folder| libraries(&root.join(folder)))
        .ok_or_else(|| missing("libnvrtc.so with libnvrtc-builtins.so"))?;
    let include = INCLUDE_FOLDERS
        .iter()
        .map(|folder| root.join(folder))
        .find(|folder| folder.join("cuda_fp16.h").is_file())
        .ok_or_else(|| missing("include/cuda_fp16.h"))?;
    let version =
        full_version(root, &nvrtc).ok_or_else(|| missing("a record of NVRTC's version"))?;
    let cccl = include.join("cccl");
    let mut include_dirs = vec![include];
    if cccl.is_dir() {
        include_dirs.push(cccl);
    }
    Ok(Toolchain { id: pin::id_of(&version), version, nvrtc, builtins, include_dirs, origin })
}

/// NVRTC and the builtins of the same minor version in one folder; the newest major wins.
fn libraries(folder: &Path) -> Option<(PathBuf, PathBuf)> {
    let names = file_names(folder);
    let mut majors: Vec<u32> = suffixes(&names, "libnvrtc.so.")
        .filter_map(|suffix| suffix.split('.').next()?.parse().ok())
        .collect();
    majors.sort_unstable();
    let major = majors.pop()?;
    let library = shortest(&names, "libnvrtc.so.", &major.to_string())?;
    let builtins = shortest(&names, "libnvrtc-builtins.so.", &format!("{major}."))?;
    Some((folder.join(library), folder.join(builtins)))
}

fn suffixes<'a>(names: &'a [String], prefix: &'a str) -> impl Iterator<Item = &'a str> {
    names.iter().filter_map(move |name| name.strip_prefix(prefix))
}

fn shortest<'a>(names: &'a [String], prefix: &str, start: &str) -> Option<&'a String> {
    names
        .iter()
        .filter(|name| name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(start)))
        .min_by_key(|name| name.len())
}

fn file_names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The full version from our manifest, the library's own name, `version.json`, or `dist-info`.
fn full_version(root: &Path, nvrtc: &Path) -> Option<String> {
    manifest_version(root)
        .or_else(|| name_version(nvrtc))
        .or_else(|| json_version(root))
        .or_else(|| wheel_version(root))
}

fn manifest_version(root: &Path) -> Option<String> {
    super::install::read_manifest(root).map(|manifest| manifest.version)
}

fn name_version(nvrtc: &Path) -> Option<String> {
    let real = fs::canonicalize(nvrtc).ok()?;
    let version = real.file_name()?.to_str()?.strip_prefix("libnvrtc.so.")?;
    (version.matches('.').count() >= 2).then(|| version.to_owned())
}

fn json_version(root: &Path) -> Option<String> {
    #[derive(Deserialize)]
    struct Versions {
        cuda_nvrtc: Component,
    }
    #[derive(Deserialize)]
    struct Component {
        version: String,
    }
    let path = root.join("version.json");
    if fs::metadata(&path).ok()?.len() > MANIFEST_BYTES_MAX {
        return None;
    }
    let versions: Versions = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some(versions.cuda_nvrtc.version)
}

/// Wheels unpack to `site-packages/nvidia/cu13`, their records lie in `site-packages`.
fn wheel_version(root: &Path) -> Option<String> {
    let site_packages = root.parent()?.parent()?;
    let names = file_names(site_packages);
    suffixes(&names, "nvidia_cuda_nvrtc-")
        .find_map(|rest| rest.strip_suffix(".dist-info"))
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(root: &Path, files: &[&str]) {
        for file in files {
            let path = root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }

    #[test]
    fn a_toolkit_is_read_by_the_name_of_its_library() {
        let root = tempfile::tempdir().unwrap();
        touch(
            root.path(),
            &[
                "lib64/libnvrtc.so.13.0.88",
                "lib64/libnvrtc-builtins.so.13.0",
                "lib64/libnvrtc-builtins.so.13.0.88",
                "include/cuda_fp16.h",
                "include/cccl/cub/cub.cuh",
            ],
        );
        std::os::unix::fs::symlink("libnvrtc.so.13.0.88", root.path().join("lib64/libnvrtc.so.13"))
            .unwrap();
        let found = read(root.path(), Origin::Toolkit).unwrap();
        assert_eq!(found.version, "13.0.88");
        assert_eq!(found.id, pin::pinned_id());
        assert!(found.nvrtc.ends_with("lib64/libnvrtc.so.13"));
        assert!(found.builtins.ends_with("lib64/libnvrtc-builtins.so.13.0"));
        assert_eq!(found.include_dirs.len(), 2);
    }

    #[test]
    fn wheels_are_read_by_their_record() {
        let site = tempfile::tempdir().unwrap();
        touch(
            site.path(),
            &[
                "nvidia/cu13/lib/libnvrtc.so.13",
                "nvidia/cu13/lib/libnvrtc-builtins.so.13.2",
                "nvidia/cu13/include/cuda_fp16.h",
                "nvidia_cuda_nvrtc-13.2.51.dist-info/RECORD",
            ],
        );
        let found = read(&site.path().join("nvidia/cu13"), Origin::SitePackages).unwrap();
        assert_eq!((found.version.as_str(), found.id.as_str()), ("13.2.51", "13.2.51-unpinned"));
    }

    #[test]
    fn a_toolkit_may_say_its_version_in_json() {
        let root = tempfile::tempdir().unwrap();
        touch(
            root.path(),
            &["lib/libnvrtc.so.12", "lib/libnvrtc-builtins.so.12.9", "include/cuda_fp16.h"],
        );
        let text = r#"{"cuda": {"version": "12.9.1"}, "cuda_nvrtc": {"version": "12.9.86"}}"#;
        fs::write(root.path().join("version.json"), text).unwrap();
        assert_eq!(read(root.path(), Origin::Toolkit).unwrap().version, "12.9.86");
    }

    #[test]
    fn what_is_missing_is_named() {
        let root = tempfile::tempdir().unwrap();
        let error = read(root.path(), Origin::Explicit).unwrap_err().to_string();
        assert!(error.contains("libnvrtc.so"), "{error}");
        touch(root.path(), &["lib/libnvrtc.so.13", "lib/libnvrtc-builtins.so.13.0"]);
        let error = read(root.path(), Origin::Explicit).unwrap_err().to_string();
        assert!(error.contains("cuda_fp16.h"), "{error}");
    }
}
