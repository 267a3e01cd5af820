//! A world of a child's own: users, mounts, processes, network, names and shared memory.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use pipeline::confinement::LayerState;
use rustix::fs::CWD;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountFlags, MountPropagationFlags, MoveMountFlags,
};
use rustix::thread::UnshareFlags;

use super::set::{ConfinementSet, Namespace};
use super::{identity, not_available, shape};
use crate::error::SandboxError;
use crate::limits::{WORK_FOLDER_BYTES_MAX, WORK_FOLDER_FILES_MAX};
use crate::system;

/// What the machine is called in there.
const HOST_NAME: &[u8] = b"warpwright";
/// A folder of `/proc` where a file system may be mounted without hiding anything.
const HARMLESS_MOUNT: &str = "/proc/sys/fs/binfmt_misc";

/// Parts of `/proc` that are of the whole machine: whoever is root there may write them without any
/// capability.
const OF_THE_MACHINE: [&str; 4] = ["/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus"];
/// Where the servers of a machine have their sockets.
const SERVERS: &str = "/run";

/// The number of this process where it is not in a namespace of its own; 0 where it is.
static OUTER_NUMBER: AtomicU32 = AtomicU32::new(0);

/// What came of it.
pub(super) struct Entered {
    pub(super) state: LayerState,
    /// True in a process of a new namespace; the one that entered waits for it outside.
    pub(super) waits: bool,
}

/// The number by which the rest of the machine knows this process.
pub(crate) fn outer_process_id() -> u32 {
    match OUTER_NUMBER.load(Ordering::Relaxed) {
        0 => std::process::id(),
        number => number,
    }
}

/// Enters the namespaces of the set. Where there is one for processes, it returns in a grandchild.
pub(super) fn enter(set: &ConfinementSet, parent: Option<u32>) -> Result<Entered, SandboxError> {
    let mut wanted = set.namespaces.clone();
    let mut lacks = Vec::new();
    if wanted.contains(&Namespace::Pid)
        && let Some(place) = masked_part()
    {
        lacks.push(format!("no fresh /proc, since {place} is masked here"));
        wanted.retain(|namespace| *namespace != Namespace::Pid);
    }
    let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
    if let Err(error) = unshare(&wanted) {
        let state = not_available(format!("the kernel refuses them: {error}"));
        return Ok(Entered { state, waits: false });
    }
    let mut held = wanted.clone();
    let mut done = |namespace: Namespace, result: io::Result<()>| {
        if let Err(error) = result {
            lacks.push(format!("{}: {error}", name(namespace)));
            held.retain(|it| *it != namespace);
        }
    };
    if wanted.contains(&Namespace::User) {
        done(Namespace::User, map_user(user.as_raw(), group.as_raw()));
    }
    let waits = wanted.contains(&Namespace::Pid);
    if waits {
        shape::fork_worker(parent)?;
        OUTER_NUMBER.store(own_number().unwrap_or(0), Ordering::Relaxed);
    }
    if wanted.contains(&Namespace::Mount) {
        done(Namespace::Mount, mount_own(set, waits));
    }
    if wanted.contains(&Namespace::Uts) {
        done(Namespace::Uts, rustix::system::sethostname(HOST_NAME).map_err(io::Error::from));
    }
    if wanted.contains(&Namespace::Loopback) {
        done(Namespace::Loopback, system::bring_loopback_up());
    }
    let state = match lacks.as_slice() {
        [] => LayerState::Enforced(names(&wanted)),
        _ => not_available(format!("{}; the rest holds: {}", lacks.join("; "), names(&held))),
    };
    Ok(Entered { state, waits })
}

fn names(namespaces: &[Namespace]) -> String {
    namespaces.iter().map(|namespace| name(*namespace)).collect::<Vec<_>>().join(", ")
}

fn name(namespace: Namespace) -> &'static str {
    match namespace {
        Namespace::User => "user",
        Namespace::Mount => "mount",
        Namespace::Pid => "pid",
        Namespace::Ipc => "ipc",
        Namespace::Uts => "uts",
        Namespace::Network => "net",
        Namespace::Loopback => "net with loopback",
    }
}

fn unshare(wanted: &[Namespace]) -> io::Result<()> {
    let flag = |namespace: &Namespace| match namespace {
        Namespace::User => UnshareFlags::NEWUSER,
        Namespace::Mount => UnshareFlags::NEWNS,
        Namespace::Pid => UnshareFlags::NEWPID,
        Namespace::Ipc => UnshareFlags::NEWIPC,
        Namespace::Uts => UnshareFlags::NEWUTS,
        Namespace::Network | Namespace::Loopback => UnshareFlags::NEWNET,
    };
    let flags = wanted.iter().map(flag).fold(UnshareFlags::empty(), |all, one| all | one);
    system::unshare(flags)
}

/// The same user inside as outside, and nobody else.
fn map_user(user: u32, group: u32) -> io::Result<()> {
    identity::own_proc_files()?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/gid_map", format!("{group} {group} 1"))?;
    fs::write("/proc/self/uid_map", format!("{user} {user} 1"))
}

/// A part of `/proc` over which something is mounted: then the kernel allows no fresh one.
fn masked_part() -> Option<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut places = text.lines().filter_map(|line| line.split(' ').nth(4));
    let masked = places.find(|it| it.starts_with("/proc/") && !it.starts_with(HARMLESS_MOUNT));
    masked.map(str::to_owned)
}

/// This process's number as the mounted `/proc` has it.
fn own_number() -> Option<u32> {
    fs::read_link("/proc/self").ok()?.to_str()?.parse().ok()
}

/// Mounts what only this child sees: the processes of its namespace, the switches of the machine
/// for reading alone, no socket of a server, and its working directory in memory, with a size.
/// Nothing that it mounts is seen outside.
fn mount_own(set: &ConfinementSet, with_processes: bool) -> io::Result<()> {
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    if with_processes {
        rustix::mount::mount("proc", "/proc", "proc", flags, None)?;
    }
    if Path::new(HARMLESS_MOUNT).join("register").exists() {
        mount_memory(HARMLESS_MOUNT)?;
    }
    for part in OF_THE_MACHINE.iter().filter(|part| Path::new(part).exists()) {
        rustix::mount::mount_bind_recursive(*part, *part)?;
        rustix::mount::mount_remount(*part, MountFlags::BIND | MountFlags::RDONLY | flags, "")?;
    }
    let needed = set.readable.iter().chain(&set.writable).any(|path| path.starts_with(SERVERS));
    if Path::new(SERVERS).is_dir() && !needed {
        mount_memory(SERVERS)?;
    }
    let folder = mount_memory(".")?;
    Ok(rustix::process::fchdir(&folder)?)
}

/// Mounts an empty folder in memory, with a size, over another.
fn mount_memory(place: &str) -> io::Result<OwnedFd> {
    let folder = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in [
        ("size", WORK_FOLDER_BYTES_MAX.to_string()),
        ("nr_inodes", WORK_FOLDER_FILES_MAX.to_string()),
        ("mode", "0700".to_owned()),
    ] {
        rustix::mount::fsconfig_set_string(&folder, key, value)?;
    }
    rustix::mount::fsconfig_create(&folder)?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mounted = rustix::mount::fsmount(&folder, FsMountFlags::FSMOUNT_CLOEXEC, attributes)?;
    let whole = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
    rustix::mount::move_mount(&mounted, "", CWD, place, whole)?;
    Ok(mounted)
}
