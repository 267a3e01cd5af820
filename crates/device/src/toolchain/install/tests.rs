//! Unpacking and repair, on small wheels made here; the real download is an integration test.

use std::io::Write;

use super::*;

fn wheel(path: &Path, files: &[(&str, &str)]) {
    let mut writer = zip::ZipWriter::new(File::create(path).unwrap());
    for (name, text) in files {
        writer.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        writer.write_all(text.as_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

fn quiet() -> impl FnMut(Progress) {
    |_| {}
}

#[test]
fn only_libraries_and_headers_are_unpacked() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.whl");
    wheel(
        &path,
        &[
            ("nvidia/cu13/lib/libnvrtc.so.13", "library"),
            ("nvidia/cu13/lib/libnvrtc.alt.so.13", "other"),
            ("nvidia/cu13/include/crt/mma.h", "header"),
            ("nvidia/cu13/bin/tool", "tool"),
            ("a.dist-info/RECORD", "record"),
        ],
    );
    let root = temp.path().join("root");
    assert_eq!(unpack(&path, &root).unwrap(), 2);
    assert_eq!(fs::read_to_string(root.join("include/crt/mma.h")).unwrap(), "header");
    assert!(!root.join("lib/libnvrtc.alt.so.13").exists());
    assert!(!root.join("bin").exists());
}

#[test]
fn what_was_unpacked_may_be_read_by_others() {
    let temp = tempfile::tempdir().unwrap();
    let (folder, file) = (temp.path().join("root/lib"), temp.path().join("root/lib/a.so"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(&file, "library").unwrap();
    for (path, mode) in [(&temp.path().join("root"), 0o700), (&folder, 0o700), (&file, 0o600)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    open_tree(&temp.path().join("root")).unwrap();
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&folder), mode(&file)), (0o755, 0o644));
    fs::set_permissions(temp.path(), fs::Permissions::from_mode(0o700)).unwrap();
    open_to_others(temp.path(), SEARCH).unwrap();
    assert_eq!(mode(temp.path()), 0o711);
}

#[test]
fn an_entry_that_leaves_the_folder_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let path = temp.path().join("a.whl");
    wheel(&path, &[("../outside", "x")]);
    let error = unpack(&path, temp.path()).unwrap_err().to_string();
    assert!(error.contains("leaves the folder"), "{error}");
}

#[test]
fn a_wheel_that_is_not_the_pinned_one_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    let wheels = temp.path().join("wheels");
    fs::create_dir(&wheels).unwrap();
    let cache = temp.path().join("cache");
    let missing = install_from_wheels(&cache, &wheels, &mut quiet()).unwrap_err();
    assert!(matches!(missing, ToolchainError::WheelMissing { .. }), "{missing}");

    wheel(&wheels.join("nvidia_cuda_nvrtc-13.0.88-py3-none-any.whl"), &[("a", "b")]);
    let wrong = install_from_wheels(&cache, &wheels, &mut quiet()).unwrap_err();
    assert!(matches!(wrong, ToolchainError::HashMismatch { .. }), "{wrong}");
    let left: Vec<_> = fs::read_dir(toolchains_dir(&cache)).unwrap().collect();
    assert_eq!(left.len(), 1, "only the lock file stays: {left:?}");
}

#[test]
fn leftovers_of_an_interrupted_install_are_removed() {
    let temp = tempfile::tempdir().unwrap();
    for name in [".partial-x/root/lib", "13.0.88/lib", "12.9.86/lib"] {
        fs::create_dir_all(temp.path().join(name)).unwrap();
    }
    remove_leftovers(temp.path()).unwrap();
    let left: Vec<_> = fs::read_dir(temp.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].file_name(), "12.9.86");
}

#[test]
fn a_folder_without_a_manifest_is_not_installed() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir_all(toolchains_dir(temp.path()).join("13.0.88/lib")).unwrap();
    assert_eq!(installed(temp.path()), None);
}

#[test]
fn a_second_process_waits_for_the_lock() {
    let temp = tempfile::tempdir().unwrap();
    let held = lock(temp.path(), &mut quiet()).unwrap();
    let folder = temp.path().to_owned();
    let (sender, receiver) = std::sync::mpsc::channel();
    let waiter =
        std::thread::spawn(move || lock(&folder, &mut |step| sender.send(step).unwrap()).map(drop));
    assert_eq!(receiver.recv().unwrap(), Progress::Waiting);
    drop(held);
    waiter.join().unwrap().unwrap();
}
