//! What this process needs of the system before it does anything: threads, files, and an end that
//! is told.
//!
//! A runtime that gets too few threads waits for ever, and a panic in one of its tasks may do the
//! same; a file that may not grow ends a process without a word. Each becomes a message here.

use std::thread::JoinHandle;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::{Builder, Runtime};

use crate::limits::{
    BLOCKING_THREADS_MAX, FILES_MIN, PANIC_SECONDS, THREAD_BYTES, THREADS_MIN, WORKER_THREADS,
};
use crate::outcome::not_available;
use crate::{environment, terminal};

/// The runtime of every command.
///
/// # Errors
/// Fewer threads than this program needs.
pub(crate) fn build() -> anyhow::Result<Runtime> {
    let files = files_allowed();
    if files < FILES_MIN {
        return Err(not_available(format!(
            "this process may open {files} files at once, and needs {FILES_MIN}: raise that limit \
             (`ulimit -n`)"
        )));
    }
    // Counted before any is started: one that gets its stack and then no more would break.
    let started = match threads_in_memory() {
        Some(few) if few < THREADS_MIN => few,
        Some(_) | None => startable(THREADS_MIN),
    };
    if started < THREADS_MIN {
        return Err(not_available(format!(
            "this system lets the program start {started} of the {THREADS_MIN} threads that it \
             needs: raise its limits of processes and memory (`ulimit -u`, `ulimit -d`, the pids \
             limit of a container, TasksMax of a service), or end other programs"
        )));
    }
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(WORKER_THREADS).max_blocking_threads(BLOCKING_THREADS_MAX);
    Ok(builder.enable_all().build()?)
}

/// A thread of this program's own; one that cannot be had is this machine's lack, no defect.
///
/// # Errors
/// No thread is left.
pub(crate) fn spawn<T: Send + 'static>(
    what: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> anyhow::Result<JoinHandle<T>> {
    std::thread::Builder::new().spawn(work).map_err(|error| {
        not_available(format!(
            "no thread can be started that {what} ({error}): raise the limits of processes and \
             memory (`ulimit -u`, `ulimit -d`), or end other programs"
        ))
    })
}

/// How many files this process may have open; where it may raise that to what is needed, it does.
fn files_allowed() -> u64 {
    let allowed = getrlimit(Resource::Nofile);
    let current = allowed.current.unwrap_or(u64::MAX);
    let raised = Rlimit { current: Some(FILES_MIN), ..allowed };
    if current < FILES_MIN && setrlimit(Resource::Nofile, raised).is_ok() {
        return FILES_MIN;
    }
    current
}

/// How many more threads fit into the limits of this process's memory; `None` without any limit.
fn threads_in_memory() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let limits = [("VmData:", Resource::Data), ("VmSize:", Resource::As)];
    let room =
        |(name, resource): (&str, Resource)| fitting(getrlimit(resource).current?, &status, name);
    limits.into_iter().filter_map(room).min()
}

/// Threads that fit below a limit, where so much is used by the line of that name.
fn fitting(limit: u64, status: &str, name: &str) -> Option<usize> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let used_kib: u64 = line.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    let room = limit.saturating_sub(used_kib.saturating_mul(1024));
    usize::try_from(room / THREAD_BYTES).ok()
}

/// How many threads can be had at once, of so many.
fn startable(wanted: usize) -> usize {
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let mut started = Vec::new();
    for _ in 0..wanted {
        let held = std::sync::Arc::clone(&held);
        // Each waits until the sender is gone.
        let wait = move || drop(held.lock().map(|held| held.recv()));
        match std::thread::Builder::new().spawn(wait) {
            Ok(thread) => started.push(thread),
            Err(_) => break,
        }
    }
    drop(hold);
    let count = started.len();
    for thread in started {
        let _ = thread.join();
    }
    count
}

/// Has every panic end this process with a message: what is stored is whole, and nothing waits for
/// what a dead task would have done.
pub(crate) fn end_at_panics() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        // Where there is no memory, even a message may not come to its end.
        sandbox::end_after(PANIC_SECONDS);
        print(info);
        let program = environment::program_name();
        terminal::error(&format!(
            "this is a defect of warpwright: please report the lines above; what is stored is \
             whole, and `{program} resume` goes on with a run"
        ));
        sandbox::end_at_once(1);
    }));
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{THREAD_BYTES, build, end_at_panics, fitting, startable};

    const PANICS: &str = "WARPWRIGHT_TEST_PANICS";

    /// Does nothing unless another test started it.
    #[test]
    fn other_process() {
        if std::env::var_os(PANICS).is_none() {
            return;
        }
        end_at_panics();
        let runtime = build().unwrap();
        runtime.block_on(async {
            tokio::spawn(async { panic!("the task's own words") });
            // Nobody waits for that task; this would last for ever.
            std::future::pending::<()>().await;
        });
    }

    #[test]
    fn a_panic_ends_the_process_with_a_message() {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "runtime::tests::other_process", "--nocapture"]);
        let ended = command.env(PANICS, "1").output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(said.contains("the task's own words") && said.contains("resume"), "{said}");
    }

    #[test]
    fn threads_are_counted() {
        assert_eq!(startable(3), 3);
    }

    #[test]
    fn a_thread_needs_room_for_its_stacks() {
        let status = "Name:\tx\nVmSize:\t  9000 kB\nVmData:\t  1000 kB\n";
        let used = 1000 << 10;
        for (limit, threads) in [
            (used, Some(0)),
            (0, Some(0)),
            (used + THREAD_BYTES - 1, Some(0)),
            (used + 9 * THREAD_BYTES, Some(9)),
        ] {
            assert_eq!(fitting(limit, status, "VmData:"), threads, "{limit}");
        }
        assert_eq!(fitting(1, status, "VmPeak:"), None);
    }
}
