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
/// What the GPU's driver asks for before it lets a process read the counters of a card.
const COUNTERS: CapabilitySet = CapabilitySet::SYS_ADMIN;
/// Capabilities that any kernel knows.
const CAPABILITIES_MAX: u32 = 63;

/// Becomes a user of its own, where root started it.
pub(super) fn take_own_user(set: &ConfinementSet) -> LayerState {
    let started_by = rustix::process::geteuid();
    if !started_by.is_root() {
        return LayerState::Enforced(format!("user {}, as it was started", started_by.as_raw()));
    }
    if set.keeps_capabilities {
        return not_available("the tool needs the user that started it, and one capability");
    }
    if set.keeps_user {
        return LayerState::Enforced("user 0, whose files it needs, without any capability".into());
    }
    let closed = set.readable.iter().find_map(|path| closed_to_others(path));
    if let Some(path) = closed.or_else(|| set.writable.iter().find_map(|it| closed_device(it))) {
        return not_available(format!("others may not use {path}, so it stays user 0"));
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
        let own = if *part == real { READ } else { 0 };
        part.metadata().is_ok_and(|it| {
            let wanted = if it.is_dir() { own | SEARCH } else { own };
            it.mode() & wanted != wanted
        })
    });
    closed.map(|part| part.display().to_string())
}

/// A device that only its owner and its group may use, where the path is one.
fn closed_device(path: &Path) -> Option<String> {
    const USE: u32 = 0o006;
    let found = path.metadata().ok()?;
    let closed = found.file_type().is_char_device() && found.mode() & USE != USE;
    closed.then(|| path.display().to_string())
}

/// True for the users that children of root get.
pub(crate) fn is_of_child(user: u32) -> bool {
    user == NOBODY || user >= FIRST_USER
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

/// Gives up every capability for good, also what a program that is started later would get; but
/// for those that read a card's counters, where they are kept and there.
pub(super) fn drop_capabilities(keep_counters: bool) -> Result<(), SandboxError> {
    let failed = |error| SandboxError::system("drop capabilities", error);
    let kept = if keep_counters { COUNTERS } else { CapabilitySet::empty() };
    rustix::thread::clear_ambient_capability_set().map_err(failed)?;
    for index in 0..CAPABILITIES_MAX {
        let capability = CapabilitySet::from_bits_retain(1 << index);
        if !kept.contains(capability) {
            // Numbers that this kernel does not know, and a process that may not, change nothing.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    let had = rustix::thread::capabilities(None).map_err(failed)?;
    let kept = had.permitted & kept;
    let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
    rustix::thread::set_capabilities(None, sets).map_err(failed)?;
    own_proc_files().map_err(|error| SandboxError::system("drop capabilities", error))
}
