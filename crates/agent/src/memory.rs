//! Memory of this machine: builds and evaluations wait for it instead of being ended by the kernel
//! in the middle of their work, which says nothing of a candidate.
//!
//! What is left is the least of what the kernel says is available and of what the limits of this
//! process's control groups leave. Looked at before each build and each evaluation, since both
//! start processes of their own; a question to a model needs hardly any.

use std::path::{Path, PathBuf};

use llm::Llm;
use store::RunId;

use crate::engine::Engine;
use crate::error::AgentError;
use crate::limits::{MEMORY_FLOOR_BYTES, MEMORY_POLL};
use crate::shortage::Watched;

/// Gives a small file of the kernel's as text.
type Read<'a> = &'a dyn Fn(&Path) -> Option<String>;

impl<L: Llm + Sync> Engine<L> {
    /// Returns once there is memory for another build or evaluation; false where somebody ends the
    /// run instead. One waits for all, so that people hear of it once.
    pub(crate) async fn has_memory(&self, run: &RunId) -> Result<bool, AgentError> {
        let _turn = self.here.memory_turn().await;
        let look = || self.here.memory.bytes();
        let watched = Watched {
            what: "the memory of this machine",
            look: &look,
            floor: MEMORY_FLOOR_BYTES,
            poll: MEMORY_POLL,
            words: &in_words,
        };
        self.wait_for(run, &watched).await
    }
}

fn in_words(left: u64) -> String {
    format!(
        "{} MiB of memory are left on this machine or to this program's control group, and builds \
         and evaluations begin from {} on: end something else or raise the limit, and the run goes \
         on by itself",
        left >> 20,
        MEMORY_FLOOR_BYTES >> 20
    )
}

/// What is left here, in bytes.
pub(crate) fn left_here() -> Option<u64> {
    left(&|path| std::fs::read_to_string(path).ok())
}

fn left(read: Read<'_>) -> Option<u64> {
    let machine = read(Path::new("/proc/meminfo"))
        .and_then(|text| field(&text, "MemAvailable:"))
        .map(|kib| kib.saturating_mul(1024));
    let groups = read(Path::new("/proc/self/cgroup")).unwrap_or_default();
    let of_groups = groups.lines().filter_map(|line| left_to_group(read, line));
    machine.into_iter().chain(of_groups).min()
}

/// Pages of files and of the kernel's lists, which give way where memory is wanted: their names in
/// `memory.stat` of either form.
const CAN_BE_HAD_BACK: [&str; 3] = ["inactive_file", "active_file", "slab_reclaimable"];
const CAN_BE_HAD_BACK_OLDER: [&str; 2] = ["total_inactive_file", "total_active_file"];

/// What the limits of a control group and of those around it leave, by its line in
/// `/proc/self/cgroup`: `0::/a/b`, or `4:memory:/a/b` in the older form.
fn left_to_group(read: Read<'_>, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (root, names, idle): (_, _, &[&str]) = match controllers {
        "" => ("/sys/fs/cgroup", ["memory.max", "memory.current"], &CAN_BE_HAD_BACK),
        _ if controllers.split(',').any(|it| it == "memory") => (
            "/sys/fs/cgroup/memory",
            ["memory.limit_in_bytes", "memory.usage_in_bytes"],
            &CAN_BE_HAD_BACK_OLDER,
        ),
        _ => return None,
    };
    let folder = PathBuf::from(root).join(path.trim_start_matches('/'));
    let around = folder.ancestors().take_while(|it| it.starts_with(root));
    around.filter_map(|folder| left_in(read, folder, names, idle)).min()
}

/// What one group's limit leaves.
fn left_in(read: Read<'_>, folder: &Path, [limit, used]: [&str; 2], idle: &[&str]) -> Option<u64> {
    let number = |name: &str| read(&folder.join(name))?.trim().parse::<u64>().ok();
    // `max` is no number: no limit.
    let (limit, used) = (number(limit)?, number(used)?);
    let stat = read(&folder.join("memory.stat")).unwrap_or_default();
    let idle = idle.iter().filter_map(|name| field(&stat, name)).fold(0, u64::saturating_add);
    Some(limit.saturating_sub(used.saturating_sub(idle)))
}

/// The number after a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.next() == Some(name)).then(|| words.next())?
    });
    line?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &str = "MemTotal: 100 kB\nMemFree: 5 kB\nMemAvailable:   40 kB\n";

    const STAT: &str = "anon 5\nactive_file 50\ninactive_file 200\nslab_reclaimable 50\n";

    #[test]
    fn the_least_of_all_limits_is_left() {
        for (files, wanted) in [
            (&[][..], None),
            (&[("/proc/meminfo", MEMINFO)], Some(40 * 1024)),
            // A kernel that does not estimate it.
            (&[("/proc/meminfo", "MemTotal: 100 kB\n")], None),
            // Version 2, in a group of its own: the one around it binds.
            (
                &[
                    ("/proc/meminfo", MEMINFO),
                    ("/proc/self/cgroup", "0::/a/b\n"),
                    ("/sys/fs/cgroup/a/b/memory.max", "max\n"),
                    ("/sys/fs/cgroup/a/b/memory.current", "7\n"),
                    ("/sys/fs/cgroup/a/memory.max", "1000\n"),
                    ("/sys/fs/cgroup/a/memory.current", "900\n"),
                    ("/sys/fs/cgroup/a/memory.stat", STAT),
                ],
                Some(400),
            ),
            // A container sees its own group as the root.
            (
                &[
                    ("/proc/meminfo", MEMINFO),
                    ("/proc/self/cgroup", "0::/\n"),
                    ("/sys/fs/cgroup/memory.max", "1000\n"),
                    ("/sys/fs/cgroup/memory.current", "1200\n"),
                ],
                Some(0),
            ),
            // Version 1, beside a controller that is not asked.
            (
                &[
                    ("/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n"),
                    ("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "500\n"),
                    ("/sys/fs/cgroup/memory/x/memory.usage_in_bytes", "100\n"),
                    ("/sys/fs/cgroup/memory/x/memory.stat", "total_inactive_file 50\n"),
                    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
                    ("/sys/fs/cgroup/memory/memory.usage_in_bytes", "100\n"),
                ],
                Some(450),
            ),
            (&[("/proc/meminfo", "MemAvailable: x kB"), ("/proc/self/cgroup", "odd")], None),
        ] {
            let read = |path: &Path| {
                let found = files.iter().find(|(name, _)| Path::new(name) == path);
                found.map(|(_, text)| (*text).to_owned())
            };
            assert_eq!(left(&read), wanted, "{files:?}");
        }
    }

    #[test]
    fn this_machine_has_some() {
        assert!(left_here().unwrap() > 0);
        let said = in_words(3 << 20);
        assert!(said.starts_with("3 MiB of memory") && said.contains("256 on"), "{said}");
    }
}
