//! Every environment variable that this program reads, named here and nowhere else.

/// Overrides the ledger's path.
pub(crate) const LEDGER: &str = "WARPWRIGHT_LEDGER";
/// Overrides the cache folder.
pub(crate) const CACHE: &str = "WARPWRIGHT_CACHE";
/// Overrides where the settings file is.
pub(crate) const SETTINGS: &str = "WARPWRIGHT_SETTINGS";
/// Overrides the CUDA compiler to use.
pub(crate) const TOOLCHAIN: &str = "WARPWRIGHT_TOOLCHAIN";
/// Overrides the model.
pub(crate) const MODEL: &str = "WARPWRIGHT_MODEL";
/// Override the limits of a run.
pub(crate) const ATTEMPTS: &str = "WARPWRIGHT_ATTEMPTS";
pub(crate) const TOKENS: &str = "WARPWRIGHT_TOKENS";
pub(crate) const DOLLARS: &str = "WARPWRIGHT_DOLLARS";
pub(crate) const HOURS: &str = "WARPWRIGHT_HOURS";
pub(crate) const GPU_SECONDS: &str = "WARPWRIGHT_GPU_SECONDS";
/// Overrides who judges.
pub(crate) const EVALUATOR: &str = "WARPWRIGHT_EVALUATOR";
/// Overrides whether a person approves claims before they go out.
pub(crate) const REQUIRE_REVIEW: &str = "WARPWRIGHT_REQUIRE_REVIEW";
/// Overrides what runs the kernels.
pub(crate) const DEVICE: &str = "WARPWRIGHT_DEVICE";
/// Overrides the level of confinement below which nothing is judged.
pub(crate) const REQUIRE_CONFINEMENT: &str = "WARPWRIGHT_REQUIRE_CONFINEMENT";
/// Leaves out the layers of confinement above a level, for machines where something fails under
/// them.
pub(crate) const CONFINEMENT: &str = "WARPWRIGHT_CONFINEMENT";
/// Names the Python whose PyTorch is compared with.
const PYTHON: &str = "WARPWRIGHT_PYTHON";
/// Which GPUs the driver shows, and how it numbers them.
const VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";
const DEVICE_ORDER: &str = "CUDA_DEVICE_ORDER";
/// Where programs look for libraries, the driver's among them.
const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
/// The key and the server of `openai:MODEL`, as every OpenAI client names them.
pub(crate) const OPENAI_API_KEY: &str = "OPENAI_API_KEY";
pub(crate) const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";
/// For tests: `POINT:SEQ` kills this process with SIGKILL right after that point of the attempt. A
/// point is a durable state, or `submitted`, `ticketed`, `failed`, `lost`. A worker dies at `taken`
/// or `answered`.
pub(crate) const KILL_AT: &str = "WARPWRIGHT_KILL_AT";
/// For tests: a file to which a replayed model appends one line for each question.
pub(crate) const REPLAY_JOURNAL: &str = "WARPWRIGHT_REPLAY_JOURNAL";
/// What the terminal is; `dumb` cannot rewrite lines.
const TERM: &str = "TERM";
/// Set by people whose terminal, or who themselves, want plain output.
const NO_COLOR: &str = "NO_COLOR";
const DATA_HOME: &str = "XDG_DATA_HOME";
const CACHE_HOME: &str = "XDG_CACHE_HOME";
const CONFIG_HOME: &str = "XDG_CONFIG_HOME";
const HOME: &str = "HOME";
const USER: &str = "USER";
const LOGNAME: &str = "LOGNAME";
const PATH: &str = "PATH";
/// Set by cargo for what it runs.
const CARGO: &str = "CARGO";

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The value of a variable; `None` when it is unset or empty.
pub(crate) fn value(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// False where lines that rewrite themselves are no help.
pub(crate) fn wants_live_lines() -> bool {
    value(TERM).is_some_and(|term| term != "dumb") && value(NO_COLOR).is_none()
}

/// How a person calls this program, for hints.
pub(crate) fn program_name() -> &'static str {
    if value(CARGO).is_some() { "cargo run --release --" } else { "warpwright" }
}

/// Where user data goes: `$XDG_DATA_HOME`, `~/.local/share`, or `./.warpwright` without a home.
pub(crate) fn data_folder() -> PathBuf {
    folder(DATA_HOME, ".local/share")
}

/// Where caches go: `$XDG_CACHE_HOME`, `~/.cache`, or `./.warpwright` without a home.
pub(crate) fn cache_folder() -> PathBuf {
    folder(CACHE_HOME, ".cache")
}

/// What a child needs of this environment to find the GPU driver; nothing else goes to a child.
pub(crate) fn of_gpu_children() -> Vec<(String, String)> {
    let names = [LIBRARY_PATH, VISIBLE_DEVICES, DEVICE_ORDER];
    // An empty list of devices means none, so emptiness counts here.
    let set = names.map(|name| Some((name.to_owned(), std::env::var(name).ok()?)));
    set.into_iter().flatten().collect()
}

/// How baselines of Python are found.
pub(crate) fn baselines() -> judge::BaselineConfig {
    judge::BaselineConfig { python: python(), cache_folder: None }
}

/// The Python that is named for baselines.
pub(crate) fn python() -> Option<PathBuf> {
    value(PYTHON).map(PathBuf::from)
}

/// The name of this machine; empty where the kernel does not say it.
pub(crate) fn host_name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// The home folder, where there is one.
pub(crate) fn home() -> Option<String> {
    value(HOME)
}

/// The names that variables have for who sits here.
pub(crate) fn user_names() -> Vec<String> {
    [USER, LOGNAME].into_iter().filter_map(value).collect()
}

/// Every variable as text, where bytes that are none are replaced.
pub(crate) fn variables() -> Vec<(String, String)> {
    as_text(std::env::vars_os())
}

fn as_text(variables: impl Iterator<Item = (OsString, OsString)>) -> Vec<(String, String)> {
    let text = |value: OsString| value.to_string_lossy().into_owned();
    variables.map(|(name, value)| (text(name), text(value))).collect()
}

/// Who sits here, as variables say it, with the number that the system knows them by.
pub(crate) fn user_name() -> String {
    let id = rustix::process::getuid().as_raw();
    let name = user_names().into_iter().next();
    name.map_or_else(|| format!("uid {id}"), |name| format!("{name} (uid {id})"))
}

/// Memory that new processes could have, in bytes, by the kernel's own estimate; 0 if it says none.
pub(crate) fn memory_available_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

/// True when a program may be there: on the path, at an absolute place, or at a relative one, which
/// nobody knows before it runs in its folder.
pub(crate) fn has_program(program: &str) -> bool {
    if program.contains('/') {
        return !program.starts_with('/') || Path::new(program).is_file();
    }
    let path = std::env::var_os(PATH).unwrap_or_default();
    !program.is_empty() && std::env::split_paths(&path).any(|it| it.join(program).is_file())
}

/// A library by the start of its file's name, where programs look for libraries or a CUDA toolkit
/// has them; the system's linker may know more places.
pub(crate) fn library(name: &str) -> Option<PathBuf> {
    let path = value(LIBRARY_PATH).unwrap_or_default();
    let usual = ["/usr/local/cuda/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    let folders = std::env::split_paths(&path).chain(usual.map(PathBuf::from));
    let entries = folders.filter_map(|folder| std::fs::read_dir(folder).ok()).flatten().flatten();
    let mut files = entries.map(|entry| entry.path());
    files.find(|file| file.file_name().is_some_and(|it| it.to_string_lossy().starts_with(name)))
}

/// Where the user's settings are.
pub(crate) fn settings_folder() -> PathBuf {
    folder(CONFIG_HOME, ".config")
}

/// A path with a leading `~` replaced by the home folder.
pub(crate) fn expand_home(path: &Path) -> PathBuf {
    match (path.strip_prefix("~"), value(HOME)) {
        (Ok(below), Some(home)) => PathBuf::from(home).join(below),
        (Ok(_) | Err(_), _) => path.to_owned(),
    }
}

fn folder(xdg: &str, below_home: &str) -> PathBuf {
    let below = |home: String| PathBuf::from(home).join(below_home);
    value(xdg)
        .map(PathBuf::from)
        .or_else(|| value(HOME).map(below))
        .map_or_else(|| PathBuf::from(".warpwright"), |parent| parent.join("warpwright"))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::as_text;

    #[test]
    fn a_variable_that_is_no_text_is_none_the_less_read() {
        let (name, value) = (OsString::from("MY_KEY"), OsString::from_vec(b"a\xffb".to_vec()));
        let read = as_text([(name, value)].into_iter());
        assert_eq!(read, [("MY_KEY".to_owned(), "a\u{fffd}b".to_owned())]);
    }
}
