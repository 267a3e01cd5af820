//! A control group for each child, where the machine lets us make one: a limit of memory and of
//! processes for all of them together, and one word that ends them all.
//!
//! Only version 2. The group is made beside our own, in a folder that somebody has handed to this
//! user with the controllers switched on, as systemd does for services and user sessions.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use pipeline::confinement::LayerState;

use super::not_available;
use super::set::ConfinementSet;
use crate::child::ChildLimits;
use crate::limits::{GROUP_END_POLL, GROUP_END_WAIT, GROUP_SPARE_BYTES};

/// A folder whose processes are not gone yet.
const BUSY: Option<i32> = Some(libc::EBUSY);

/// Where version 2 is mounted, alone or beside version 1.
const MOUNTS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];
/// The controllers that are needed.
const CONTROLLERS: [&str; 2] = ["memory", "pids"];

/// A group of one child; it ends with this.
#[derive(Debug)]
pub(crate) struct Group {
    folder: PathBuf,
}

impl Group {
    /// Makes a group with the limits of a child; what it shares with us counts as its own.
    ///
    /// # Errors
    ///
    /// Why there is none, in words for the record.
    pub(crate) fn make(
        set: &ConfinementSet,
        limits: &ChildLimits,
        shared_bytes: u64,
    ) -> Result<Group, String> {
        let name = &own_name();
        let own = fs::read_to_string("/proc/self/cgroup").map_err(|error| error.to_string())?;
        let mut why = "no cgroup v2 is mounted".to_owned();
        for mount in MOUNTS.map(Path::new) {
            if mount.join("cgroup.controllers").is_file() {
                match place(&own, mount).and_then(|place| usable(&place).map(|()| place)) {
                    Ok(place) => return Group::within(&place, set, limits, shared_bytes, name),
                    Err(reason) => why = reason,
                }
            }
        }
        Err(why)
    }

    fn within(
        place: &Path,
        set: &ConfinementSet,
        limits: &ChildLimits,
        shared_bytes: u64,
        name: &str,
    ) -> Result<Group, String> {
        let folder = place.join(name);
        let failed = |error: io::Error| format!("{}: {error}", folder.display());
        fs::create_dir(&folder).map_err(failed)?;
        let group = Group { folder: folder.clone() };
        let bytes = limits.data_bytes.saturating_add(shared_bytes);
        let memory = bytes.saturating_add(GROUP_SPARE_BYTES);
        for (file, limit) in
            [("memory.max", memory), ("memory.swap.max", 0), ("pids.max", set.processes_max)]
        {
            match fs::write(folder.join(file), limit.to_string()) {
                // A kernel without swap has no such file.
                Err(_) if file == "memory.swap.max" => {}
                written => written.map_err(failed)?,
            }
        }
        Ok(group)
    }

    /// What a child writes its number to.
    pub(crate) fn members(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }

    /// Ends every process in it.
    pub(crate) fn kill(&self) {
        let _ = fs::write(self.folder.join("cgroup.kill"), "1");
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
        // The kernel takes a moment to end what was in it; what outlasts that stays behind, empty.
        let started = Instant::now();
        while fs::remove_dir(&self.folder).is_err_and(|error| error.raw_os_error() == BUSY)
            && started.elapsed() < GROUP_END_WAIT
        {
            std::thread::sleep(GROUP_END_POLL);
        }
    }
}

/// A name that no other group of this machine has, also after this number is another process's.
fn own_name() -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    format!("warpwright-{}-{since}-{count}", std::process::id())
}

/// The folder that our own group is in.
fn place(own: &str, mount: &Path) -> Result<PathBuf, String> {
    let line = own.lines().find_map(|line| line.strip_prefix("0::"));
    let path = line.ok_or("this process is in no group of cgroup v2")?;
    let parent = Path::new(path.trim_start_matches('/')).parent();
    let parent = parent.ok_or("this process is in the topmost group of cgroup v2")?;
    Ok(mount.join(parent))
}

/// Whether limits can be set for groups in a folder.
fn usable(place: &Path) -> Result<(), String> {
    let path = place.join("cgroup.subtree_control");
    let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let missing = CONTROLLERS.iter().find(|name| text.split_whitespace().all(|it| it != **name));
    match missing {
        Some(name) => Err(format!("no controller `{name}` is handed down in {}", place.display())),
        None => Ok(()),
    }
}

/// Moves this process into its group.
pub(super) fn join(group: Result<&PathBuf, &String>) -> LayerState {
    match group.map(|members| fs::write(members, "0")) {
        Ok(Ok(())) => LayerState::Enforced("memory and processes of all together".to_owned()),
        Ok(Err(error)) => not_available(format!("its group: {error}")),
        Err(why) => not_available(why),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::{Group, place, usable};
    use crate::child::ChildKind;
    use crate::confine::set::ConfinementSet;

    #[test]
    fn groups_are_made_beside_our_own() {
        let mount = Path::new("/sys/fs/cgroup");
        let own = "12:pids:/x\n0::/user.slice/app.slice/shell.scope\n";
        assert_eq!(place(own, mount), Ok(PathBuf::from("/sys/fs/cgroup/user.slice/app.slice")));
        assert!(place("0::/\n", mount).unwrap_err().contains("topmost"));
        assert!(place("3:memory:/x\n", mount).unwrap_err().contains("no group"));
    }

    #[test]
    fn a_folder_needs_both_controllers() {
        let folder = tempfile::tempdir().unwrap();
        assert!(usable(folder.path()).is_err());
        for (text, usable_here) in [("", false), ("cpu pids", false), ("cpu memory pids", true)] {
            fs::write(folder.path().join("cgroup.subtree_control"), text).unwrap();
            assert_eq!(usable(folder.path()).is_ok(), usable_here, "{text}");
        }
    }

    #[test]
    fn a_group_has_the_limits_of_its_child() {
        let place = tempfile::tempdir().unwrap();
        let set = ConfinementSet::of_child(ChildKind::Candidate, false);
        let limits = crate::child::ChildLimits {
            deadline: std::time::Duration::from_secs(1),
            cpu_s: 1,
            data_bytes: 1 << 30,
            file_bytes: 0,
            open_files: 64,
        };
        let group = Group::within(place.path(), &set, &limits, 1 << 20, "child-1").unwrap();
        let read = |name: &str| fs::read_to_string(place.path().join("child-1").join(name));
        let memory: u64 = read("memory.max").unwrap().parse().unwrap();
        assert!(memory > (1 << 30) + (1 << 20));
        assert_eq!(read("pids.max").unwrap(), set.processes_max.to_string());
        group.kill();
        assert_eq!(read("cgroup.kill").unwrap(), "1");
        let taken = Group::within(place.path(), &set, &limits, 0, "child-1").unwrap_err();
        assert!(taken.contains("exists"), "{taken}");
    }
}
