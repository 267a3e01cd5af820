//! The user and the capabilities of a child.
//!
//! A child that root started gets a user number that no other living process has, so that the
//! kernel keeps it from the files, memory and signals of everybody, other children included, and
//! counts its processes apart. It keeps its capabilities for a moment: entering namespaces and
//! mounting in them takes some; [`drop_capabilities`] ends that.

use std::os::unix::fs::{FileTypeExt, MetadataExt, chown};
use std::path::Path;

use pipeline::confinement::LayerState;
use rustix::fs::{Gid, Uid};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::not_available;
use super::set::ConfinementSet;
use crate::error::SandboxError;

/// First number of the users that children get; the number of the process is added to it. Far from
/// what systems give to people, services and containers.
const FIRST_USER: u32 = 0x7000_0000;
/// The user of nobody, for containers that know few numbers.
const NOBODY: u32 = 65_534;
/// Capabilities that any kernel knows.
const CAPABILITIES_MAX: u32 = 63;

/// Becomes a user of its own, where root started it.
pub(super) fn take_own_user(set: &ConfinementSet) -> LayerState {
    let started_by = rustix::process::geteuid();
    if !started_by.is_root() {
        return LayerState::Enforced(format!("user {}, as it was started", started_by.as_raw()));
    }
    if set.keeps_capabilities {
        return not_available("the tool needs the user and the capabilities that started it");
    }
    if set.keeps_user {
        return LayerState::Enforced("user 0, whose files it needs, without any capability".into());
    }
    if let Some(path) = set.readable.iter().find_map(|path| closed_to_others(path)) {
        return not_available(format!("only root may read {path}, so it stays user 0"));
    }
    let own = FIRST_USER.saturating_add(std::process::id());
    // Records of equal children are equal, so the number is not in them.
    let became = become_user(own).map(|()| "a user of its own");
    match became.or_else(|_| become_user(NOBODY).map(|()| "the user of nobody")) {
        Ok(user) => LayerState::Enforced(format!("{user}, no capability")),
        Err(error) => not_available(format!("it stays user 0: {error}")),
    }
}

/// The first folder on the way to a path, or the path itself, that only its owner may use.
fn closed_to_others(path: &Path) -> Option<String> {
    const SEARCH: u32 = 0o001;
    const READ: u32 = 0o004;
    let real = path.canonicalize().ok()?;
    let closed = real.ancestors().find(|part| {
        let wanted = if *part == real { READ } else { SEARCH };
        part.metadata().is_ok_and(|metadata| metadata.mode() & wanted == 0)
    });
    closed.map(|part| part.display().to_string())
}

fn become_user(number: u32) -> std::io::Result<()> {
    let (user, group) = (Uid::from_raw(number), Gid::from_raw(number));
    chown(".", Some(number), Some(number))?;
    hand_over_pipes(number)?;
    rustix::thread::set_keep_capabilities(true)?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_res_gid(group, group, group)?;
    rustix::thread::set_thread_res_uid(user, user, user)?;
    let mut sets = rustix::thread::capabilities(None)?;
    sets.effective = sets.permitted;
    rustix::thread::set_capabilities(None, sets)?;
    own_proc_files()
}

/// Pipes belong to who made them; a tool opens them again by their names.
fn hand_over_pipes(number: u32) -> std::io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")?.flatten() {
        if std::fs::metadata(entry.path()).is_ok_and(|it| it.file_type().is_fifo()) {
            chown(entry.path(), Some(number), Some(number))?;
        }
    }
    Ok(())
}

/// Changing the user hands the files of this process in `/proc` to root; this gives them back.
pub(super) fn own_proc_files() -> std::io::Result<()> {
    Ok(set_dumpable_behavior(DumpableBehavior::Dumpable)?)
}

/// Gives up every capability for good, also what a program that is started later would get.
pub(super) fn drop_capabilities() -> Result<(), SandboxError> {
    let failed = |error| SandboxError::system("drop capabilities", error);
    rustix::thread::clear_ambient_capability_set().map_err(failed)?;
    for index in 0..CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << index);
        // Numbers that this kernel does not know, and a process that may not, change nothing.
        let _ = rustix::thread::remove_capability_from_bounding_set(capability);
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).map_err(failed)?;
    own_proc_files().map_err(|error| SandboxError::system("drop capabilities", error))
}
