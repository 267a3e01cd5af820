//! Limits of one process. Address space is never limited: a GPU driver reserves far more of it
//! than there is memory.

use pipeline::confinement::LayerState;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::set::ConfinementSet;
use crate::child::ChildLimits;
use crate::error::SandboxError;

/// Limits what the kernel counts for each process.
pub(super) fn of_resources(limits: &ChildLimits) -> Result<(), SandboxError> {
    let hard_cpu_s = limits.cpu_s.saturating_add(1);
    let all = [
        // The soft limit ends the child with a signal of its own, which tells the cause.
        (Resource::Cpu, limits.cpu_s, hard_cpu_s),
        (Resource::Data, limits.data_bytes, limits.data_bytes),
        (Resource::Fsize, limits.file_bytes, limits.file_bytes),
        (Resource::Nofile, limits.open_files, limits.open_files),
        // One byte is too little for a file; of 0 a program that takes cores through a pipe, as
        // several systems have one, would not take any notice.
        (Resource::Core, 1, 1),
        (Resource::Msgqueue, 0, 0),
    ];
    all.into_iter().try_for_each(|(resource, current, maximum)| set(resource, current, maximum))
}

/// Limits processes, which the kernel counts for each user: only where the user is the child's own
/// do those of others not count. That of root is never counted. Says what is limited by now.
pub(super) fn of_processes(
    wanted: &ConfinementSet,
    own_user: bool,
) -> Result<LayerState, SandboxError> {
    let mut limited = vec!["processor time, memory, files, descriptors, core dumps".to_owned()];
    if own_user && !rustix::process::getuid().is_root() {
        set(Resource::Nproc, wanted.processes_max, wanted.processes_max)?;
        limited.push(format!("{} processes", wanted.processes_max));
    } else {
        limited.push("not processes, for lack of a user of its own".to_owned());
    }
    Ok(LayerState::Enforced(limited.join(", ")))
}

/// Sets a limit, or a lower one where this process may have no higher one.
fn set(resource: Resource, current: u64, maximum: u64) -> Result<(), SandboxError> {
    let highest = getrlimit(resource).maximum.unwrap_or(u64::MAX);
    let at_most = |wanted: u64| Some(wanted.min(highest));
    let limit = Rlimit { current: at_most(current), maximum: at_most(maximum) };
    setrlimit(resource, limit).map_err(|error| SandboxError::system("limit the child", error))
}
