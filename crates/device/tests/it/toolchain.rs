//! The pinned toolchain as it lies in the cache.

use device::toolchain::{Choice, Origin, PINNED_VERSION, find, install, list, pinned_id};

use crate::{cache_dir, pinned};

#[test]
fn an_installed_toolchain_is_found_and_listed() {
    let installed = pinned();
    assert_eq!(installed.version, PINNED_VERSION);
    assert_eq!(installed.id, pinned_id());
    assert_eq!(installed.origin, Origin::Cache);
    assert_eq!(&find(&Choice::Pinned, &cache_dir()).unwrap(), installed);
    assert!(list(&cache_dir()).unwrap().contains(installed));
    for header in ["cuda_fp16.h", "mma.h", "crt/mma.h", "cooperative_groups.h"] {
        assert!(installed.include_dirs[0].join(header).is_file(), "{header}");
    }
    assert!(installed.include_dirs[1].join("cub/cub.cuh").is_file());
}

#[test]
fn installing_again_does_nothing() {
    pinned();
    let mut steps = Vec::new();
    install(&cache_dir(), &mut |step| steps.push(step)).unwrap();
    assert!(!steps.iter().any(|step| format!("{step:?}").contains("Downloading")), "{steps:?}");
}

#[test]
fn a_toolchain_survives_the_way_to_a_child() {
    let text = serde_json::to_string(pinned()).unwrap();
    let back: device::toolchain::Toolchain = serde_json::from_str(&text).unwrap();
    assert_eq!(&back, pinned());
}

#[test]
fn the_named_folder_is_taken_as_it_is() {
    let root = pinned().nvrtc.parent().unwrap().parent().unwrap().to_owned();
    let found = find(&Choice::Path(root), &cache_dir()).unwrap();
    assert_eq!((found.id.as_str(), found.origin), (pinned().id.as_str(), Origin::Explicit));
}
