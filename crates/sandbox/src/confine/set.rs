//! The policy: what is wanted for each kind of child and for each tool. Only data, names of paths
//! and who we are; nothing here is applied.

use std::path::PathBuf;

use pipeline::confinement::{LEVEL_MAX, Layer};
use serde::{Deserialize, Serialize};

use crate::child::ChildKind;
use crate::limits::PROCESSES_MAX;

/// Which layers hold a child, and what they leave to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConfinementSet {
    /// Its name, as in records.
    pub name: String,
    pub layers: Vec<Layer>,
    /// Files and folders that it may read and execute.
    pub readable: Vec<PathBuf>,
    /// Files and folders in which it may do anything.
    pub writable: Vec<PathBuf>,
    pub calls: Calls,
    pub namespaces: Vec<Namespace>,
    /// True for what must find its own files as the user that started it.
    pub keeps_user: bool,
    /// True for what does not work without the capabilities of who started it.
    pub keeps_capabilities: bool,
    /// Processes and threads that it may have.
    pub processes_max: u64,
    /// A child below this level, or below what the set can reach where that is less, is refused.
    pub required_level: u8,
}

/// Which system calls are left to a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Calls {
    /// A list of what computing in threads takes, and nothing else.
    Computing,
    /// As that, and what it takes to narrow itself once the compiler is loaded; from then on it
    /// opens headers alone.
    Compiling,
    /// All but a list of what no GPU driver needs.
    Driver,
    /// As the driver's, for programs that start other programs in groups of their own.
    Programs,
    /// As those, for tools that look into the process that they watch and talk to it.
    Watching,
}

/// A namespace that a child has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Namespace {
    User,
    Mount,
    Pid,
    Ipc,
    Uts,
    /// Without any interface that is up.
    Network,
    /// With nothing but the loopback interface.
    Loopback,
}

const NAMESPACES: [Namespace; 6] = [
    Namespace::User,
    Namespace::Mount,
    Namespace::Pid,
    Namespace::Ipc,
    Namespace::Uts,
    Namespace::Network,
];

/// Where the libraries of the system are.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
/// What the linker and the C library read.
const LINKER: [&str; 5] =
    ["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/dev/urandom"];
/// What a GPU driver reads besides; of processes only the child itself.
const DRIVER: [&str; 13] = [
    "/usr",
    "/opt",
    "/sys",
    "/etc/nvidia",
    "/proc/cpuinfo",
    "/proc/devices",
    "/proc/driver",
    "/proc/filesystems",
    "/proc/meminfo",
    "/proc/modules",
    "/proc/self",
    "/proc/stat",
    "/proc/version",
];
/// What it writes: at start it gives its threads names.
const DRIVER_WRITES: [&str; 5] =
    ["/proc/self/task", "/dev/null", "/dev/zero", "/dev/full", "/dev/random"];
/// Where its devices are.
const DEVICES: &str = "/dev";
const DEVICE_PREFIXES: [&str; 2] = ["nvidia", "dxg"];
/// What programs of others need of a system; of its settings, who is who and which program it is.
const SYSTEM: [&str; 10] = [
    "/usr",
    "/bin",
    "/sbin",
    "/opt",
    "/sys",
    "/etc/alternatives",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/nvidia",
    "/etc/passwd",
];
const SETTINGS: &str = "/etc";
const SETTINGS_PREFIXES: [&str; 1] = ["python3"];
const SYSTEM_WRITES: [&str; 6] =
    ["/proc", "/tmp", "/dev/null", "/dev/zero", "/dev/full", "/dev/shm"];

impl ConfinementSet {
    /// What holds a child of this program; with a card it may use the driver.
    #[must_use]
    pub fn of_child(kind: ChildKind, with_gpu: bool) -> Self {
        let mut set = Self::new(kind.as_str(), Calls::Computing);
        set.readable = paths(&LIBRARIES).chain(paths(&LINKER)).collect();
        if kind == ChildKind::Build {
            set.calls = Calls::Compiling;
        }
        if with_gpu {
            set.calls = Calls::Driver;
            set.readable.extend(paths(&DRIVER));
            set.writable = paths(&DRIVER_WRITES).chain(gpu_devices()).collect();
            // The driver tells who else uses the card only to those who see all processes.
            set.namespaces.retain(|namespace| *namespace != Namespace::Pid);
        }
        set
    }

    /// For compute-sanitizer with the child that it watches.
    #[must_use]
    pub fn of_sanitizer() -> Self {
        let mut set = Self::of_system("compute-sanitizer", Calls::Watching);
        set.namespaces = with_loopback();
        set
    }

    /// For ncu with the child that it watches: reading a card's counters takes a capability of who
    /// started it, which counts only among the machine's own users. So there is a world of its own
    /// only where root started it.
    #[must_use]
    pub fn of_profiler() -> Self {
        let mut set = Self::of_system("ncu", Calls::Watching);
        set.namespaces = with_loopback();
        set.namespaces.retain(|namespace| *namespace != Namespace::User);
        if !rustix::process::geteuid().is_root() {
            set.layers.retain(|layer| *layer != Layer::Namespaces);
        }
        set.keeps_user = true;
        set.keeps_capabilities = true;
        set
    }

    /// For PyTorch and Triton, which start compilers: the server that forks their windows.
    #[must_use]
    pub fn of_python() -> Self {
        let mut set = Self::of_system("python", Calls::Programs);
        // Its windows are known by their numbers, so they stay among ours.
        set.namespaces = with_loopback();
        set.namespaces.retain(|namespace| *namespace != Namespace::Pid);
        set.keeps_user = true;
        set
    }

    /// No layer but that of the process itself.
    #[must_use]
    pub fn of_nothing() -> Self {
        Self::new("nothing", Calls::Computing).only(&[])
    }

    fn new(name: &str, calls: Calls) -> Self {
        Self {
            name: name.to_owned(),
            layers: Layer::ALL.to_vec(),
            readable: Vec::new(),
            writable: Vec::new(),
            calls,
            namespaces: NAMESPACES.to_vec(),
            keeps_user: false,
            keeps_capabilities: false,
            processes_max: PROCESSES_MAX,
            required_level: 0,
        }
    }

    fn of_system(name: &str, calls: Calls) -> Self {
        let mut set = Self::new(name, calls);
        set.readable = paths(&LIBRARIES).chain(paths(&LINKER)).chain(paths(&SYSTEM)).collect();
        set.readable.extend(named(SETTINGS, &SETTINGS_PREFIXES));
        // What it starts with is the working folder.
        let own = [PathBuf::from(".")];
        set.writable = paths(&SYSTEM_WRITES).chain(gpu_devices()).chain(own).collect();
        set
    }

    /// Adds what it may read and execute.
    #[must_use]
    pub fn reading(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.readable.extend(paths);
        self
    }

    /// Adds where it may do anything.
    #[must_use]
    pub fn writing(mut self, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        self.writable.extend(paths);
        self
    }

    /// Refuses children below this level. What the set cannot reach is not asked of it.
    #[must_use]
    pub fn requiring(mut self, level: u8) -> Self {
        self.required_level = level.min(self.level_max());
        self
    }

    /// Leaves out the layers above a level.
    #[must_use]
    pub fn up_to(mut self, level: u8) -> Self {
        self.layers.retain(|layer| layer.level() <= level);
        self
    }

    /// Leaves out all layers but these and that of the process.
    #[must_use]
    pub fn only(mut self, layers: &[Layer]) -> Self {
        self.layers.retain(|layer| *layer == Layer::Process || layers.contains(layer));
        self
    }

    /// The highest level that its layers make.
    #[must_use]
    pub fn level_max(&self) -> u8 {
        let missing = Layer::ALL.into_iter().filter(|layer| !self.layers.contains(layer));
        let levels = missing.map(Layer::level).filter(|level| *level > 0);
        levels.map(|level| level - 1).min().unwrap_or(LEVEL_MAX)
    }
}

fn paths<const N: usize>(words: &'static [&'static str; N]) -> impl Iterator<Item = PathBuf> {
    words.iter().map(PathBuf::from)
}

fn with_loopback() -> Vec<Namespace> {
    let replaced = NAMESPACES.into_iter().filter(|namespace| *namespace != Namespace::Network);
    replaced.chain([Namespace::Loopback]).collect()
}

/// The devices of the driver that there are now.
fn gpu_devices() -> Vec<PathBuf> {
    named(DEVICES, &DEVICE_PREFIXES)
}

/// What there is in a folder whose name begins like that.
fn named(folder: &str, prefixes: &[&str]) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| {
        let name = entry.file_name();
        prefixes.iter().any(|prefix| name.to_string_lossy().starts_with(prefix))
    });
    named.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pipeline::confinement::Layer;

    use super::{Calls, ConfinementSet, Namespace};
    use crate::child::ChildKind;

    #[test]
    fn children_without_a_card_write_nowhere_and_see_no_device() {
        for kind in ChildKind::ALL {
            let set = ConfinementSet::of_child(kind, false);
            assert_eq!(set.level_max(), 4, "{kind:?}");
            let calls = match kind {
                ChildKind::Build => Calls::Compiling,
                _ => Calls::Computing,
            };
            assert!(set.writable.is_empty() && set.calls == calls, "{kind:?}");
            let closed = ["/", "/root", "/home", "/proc", "/tmp", "/dev", "/etc", "/usr"];
            assert!(set.readable.iter().all(|path| !closed.contains(&path.to_str().unwrap())));
        }
    }

    #[test]
    fn no_set_opens_a_home_or_the_root() {
        let of_gpu = ConfinementSet::of_child(ChildKind::Candidate, true);
        let tools = [
            ConfinementSet::of_sanitizer(),
            ConfinementSet::of_profiler(),
            ConfinementSet::of_python(),
        ];
        for set in tools.into_iter().chain([of_gpu]) {
            for path in set.readable.iter().chain(&set.writable) {
                let closed = ["/", "/root", "/home", "/etc", "/dev", "/run", "/var"];
                assert!(!closed.map(Path::new).contains(&path.as_path()));
            }
        }
    }

    #[test]
    fn what_a_set_cannot_reach_is_not_asked_of_it() {
        let without = ConfinementSet::of_profiler().up_to(2);
        assert_eq!(without.level_max(), 2);
        assert_eq!(without.requiring(3).required_level, 2);
        let child = ConfinementSet::of_child(ChildKind::Build, false).requiring(3).up_to(1);
        assert_eq!((child.required_level, child.level_max()), (3, 1));
        assert!(!child.layers.contains(&Layer::Landlock));
        assert_eq!(ConfinementSet::of_nothing().layers, [Layer::Process]);
    }

    #[test]
    fn who_asks_for_other_processes_sees_them() {
        for (with_gpu, own) in [(true, false), (false, true)] {
            let set = ConfinementSet::of_child(ChildKind::Candidate, with_gpu);
            assert_eq!(set.namespaces.contains(&Namespace::Pid), own, "{with_gpu}");
        }
    }

    #[test]
    fn windows_of_python_keep_their_numbers() {
        let set = ConfinementSet::of_python();
        assert!(!set.namespaces.contains(&Namespace::Pid));
        assert!(set.namespaces.contains(&Namespace::Loopback));
        assert!(!set.namespaces.contains(&Namespace::Network));
    }
}
