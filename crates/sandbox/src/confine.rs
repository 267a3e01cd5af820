//! Confinement of a child: which layers hold it, and how each is applied.
//!
//! [`set`] is the policy and nothing but data: what is wanted for each kind of child and for each
//! named tool. The parent chooses a set and sends it on the command line; the child applies it as
//! the first thing that it does, while it has one thread and has read no request, and tells the
//! parent what holds before foreign code runs. Start at [`enter`]; every layer has a file.

mod calls;
mod cgroup;
mod identity;
mod landlock;
mod namespaces;
mod rlimits;
mod seccomp;
pub(crate) mod set;
mod shape;

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use pipeline::confinement::{Confinement, Layer, LayerState};
use serde::{Deserialize, Serialize};

pub(crate) use cgroup::Group;
pub(crate) use identity::is_of_child;
pub(crate) use namespaces::outer_process_id;
pub(crate) use shape::mirror;

use crate::child::ChildLimits;
use crate::error::SandboxError;
use crate::system::gate;
use set::ConfinementSet;

/// What the parent tells a child on its command line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Setup {
    pub(crate) set: ConfinementSet,
    pub(crate) limits: ChildLimits,
    /// The number of the parent, with which this process ends; `None` for a server, which ends with
    /// its socket: the kernel would end it with the thread that started it.
    pub(crate) parent: Option<u32>,
    /// Where the child tells what holds it.
    pub(crate) told_fd: i32,
    /// The group that it joins, or why there is none.
    pub(crate) cgroup: Result<PathBuf, String>,
}

/// What a child tells before it reads its request.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Told {
    pub(crate) confinement: Confinement,
    /// True where the process that the parent started only waits for the first one of a namespace,
    /// and ends when everything in there has ended.
    pub(crate) waits: bool,
}

/// Applies the layers of a set. It returns in the process that is confined, which may be a
/// grandchild of the one that called; that one stays behind, waits, and ends as it ends.
///
/// # Errors
///
/// What must not fail does: a limit, or the end with the parent. A layer that is not to be had is
/// no error: the record says so.
pub(crate) fn enter(setup: &Setup) -> Result<Told, SandboxError> {
    let set = &setup.set;
    let wants = |layer: Layer| set.layers.contains(&layer);
    let started_by = rustix::process::geteuid();
    let mut states = Vec::new();
    if wants(Layer::Cgroup) {
        states.push((Layer::Cgroup, cgroup::join(setup.cgroup.as_ref())));
    }
    // Processes are counted by user, so that limit waits until this is no longer root.
    if wants(Layer::Rlimits) {
        rlimits::of_resources(&setup.limits)?;
    }
    if wants(Layer::Identity) {
        states.push((Layer::Identity, identity::take_own_user(set)));
    }
    let mut waits = false;
    if wants(Layer::Namespaces) {
        let entered = namespaces::enter(set, setup.parent)?;
        waits = entered.waits;
        states.push((Layer::Namespaces, entered.state));
    }
    if wants(Layer::Rlimits) {
        let in_own_world = states.iter().any(|(layer, state)| {
            *layer == Layer::Namespaces && matches!(state, LayerState::Enforced(_))
        });
        let own_user = in_own_world || rustix::process::geteuid() != started_by;
        states.push((Layer::Rlimits, rlimits::of_processes(set, own_user)?));
    }
    if wants(Layer::Identity) {
        identity::drop_capabilities(set.keeps_capabilities)?;
    }
    let failed = |error| SandboxError::system("confine the child", error);
    rustix::thread::set_no_new_privs(true).map_err(failed)?;
    match (waits, setup.parent) {
        (true, _) => shape::end_with_parent(None)?,
        (false, Some(parent)) => shape::end_with_parent(Some(parent))?,
        (false, None) => {}
    }
    if wants(Layer::Landlock) {
        states.push((Layer::Landlock, landlock::restrict(set)));
    }
    if wants(Layer::Seccomp) {
        states.push((Layer::Seccomp, seccomp::filter(set.calls)));
    }
    let own = "own session, given descriptors and environment, no new privileges".to_owned();
    states.push((Layer::Process, LayerState::Enforced(own)));
    Ok(Told { confinement: Confinement::new(&set.name, states), waits })
}

/// Leaves a confined process no files by name but those below some folders, each under a name of
/// our own where there is a filter of calls, which says the result. Nothing undoes it.
///
/// # Errors
///
/// A folder that cannot be opened, or a layer that holds this process and does not take more rules.
pub(crate) fn leave_folders(
    held: &Confinement,
    folders: &[(PathBuf, PathBuf)],
) -> Result<bool, SandboxError> {
    let paths = folders.iter().map(|(path, _)| open_folder(path));
    let opened: Vec<OwnedFd> = paths.collect::<Result<_, _>>()?;
    let failed = |why: String| SandboxError::system("close files", std::io::Error::other(why));
    if held.has(Layer::Landlock) {
        landlock::restrict_to_folders(&opened).map_err(failed)?;
    }
    let gated = held.has(Layer::Seccomp);
    if gated {
        let names = folders.iter().map(|(_, name)| name.as_path());
        gate::open(names.zip(opened)).map_err(failed)?;
        seccomp::behind_the_gate().map_err(|error| failed(error.to_string()))?;
    }
    Ok(gated)
}

fn open_folder(path: &Path) -> Result<OwnedFd, SandboxError> {
    use rustix::fs::{Mode, OFlags};
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let failed = |error: rustix::io::Errno| {
        let words = format!("{}: {}", path.display(), std::io::Error::from(error));
        SandboxError::system("open a folder of headers", std::io::Error::other(words))
    };
    rustix::fs::open(path, flags, Mode::empty()).map_err(failed)
}

/// A layer that is not to be had, in words.
fn not_available(why: impl std::fmt::Display) -> LayerState {
    LayerState::NotAvailable(why.to_string())
}
