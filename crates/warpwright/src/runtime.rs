//! What this process needs of the system before it does anything: threads, and an end that is told.
//!
//! A runtime that gets too few threads waits for ever, and a panic in one of its tasks may do the
//! same; a file that may not grow ends a process without a word. Each becomes a message here.

use tokio::runtime::{Builder, Runtime};

use crate::limits::{BLOCKING_THREADS_MAX, PANIC_SECONDS, THREADS_MIN, WORKER_THREADS};
use crate::outcome::not_available;
use crate::{environment, terminal};

/// The runtime of every command.
///
/// # Errors
/// Fewer threads than this program needs.
pub(crate) fn build() -> anyhow::Result<Runtime> {
    let started = startable(THREADS_MIN);
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

    use super::{build, end_at_panics, startable};

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
}
