//! Starts a child, talks to it, enforces its deadline, kills its group, reads one report.
//!
//! Foreign code runs in a child process that may do anything: hang, crash, flood, fork. Each of
//! these is a [`ChildOutcome`]; a [`SandboxError`] means that the machine or the caller is broken.
//! Nothing here knows what a request or a report says. What holds a child is a [`ConfinementSet`].
//! Start at [`run_child`]; the child's side of the same protocol is [`inside`]. A program that is
//! slow to start is a [`ForkServer`] instead.

mod cancel;
mod child;
mod confine;
mod error;
mod folder;
mod frame;
pub mod inside;
mod launch;
mod limits;
mod memfd;
mod server;
mod spawn;
mod system;
mod watch;
pub mod wire;

pub use cancel::CancelFlag;
pub use child::{ChildKind, ChildLimits, ChildOutcome, ChildRun, ChildSpec, TimeLimit};
pub use confine::set::{Calls, ConfinementSet, Namespace};
pub use error::SandboxError;
pub use folder::remove_left_folders;
pub use launch::launch;
pub use limits::{BULK_MAX, MESSAGE_BYTES_MAX, STDERR_BYTES_MAX};
pub use memfd::{Map, MapMut, Memfd};
pub use server::{ForkServer, ServerSpec, WindowCall};
pub use system::{end_after, outlive_file_limits};

/// The first argument of every child.
pub const CHILD_COMMAND: &str = "__child";

/// The first argument of a process that confines itself and starts another program.
pub const CONFINED_COMMAND: &str = "__confined";

/// The third argument of a child that another program watches. Such a child finds its channels as
/// files of its working directory, named by their numbers: who watches may close descriptors.
pub const WATCHED: &str = "watched";

/// Descriptor of the request in the child.
pub const REQUEST_FD: i32 = 3;
/// Descriptor of the report in the child.
pub const REPORT_FD: i32 = 4;
/// First descriptor of the bulk memory in the child.
pub const BULK_FD: i32 = 5;

/// The child's report is valid.
pub const EXIT_REPORTED: u8 = 0;
/// The child found a bug of ours.
pub const EXIT_OUR_BUG: u8 = 70;
/// The process was not started as a child of this program.
pub const EXIT_NOT_A_CHILD: u8 = 2;
/// What the child needs is not available on this machine.
pub const EXIT_NOT_AVAILABLE: u8 = 71;

/// Ends this process now, without exit handlers, whatever its threads do.
pub fn end_at_once(code: u8) -> ! {
    system::end(i32::from(code))
}

/// Runs one child to its end, whatever the end is: when this returns, its process
/// group is killed, its working directory is gone, and the child is reaped. Only a child that
/// cannot die is not, which is [`ChildOutcome::Unreaped`].
///
/// The child is `program __child KIND` with an empty working directory, only the given
/// environment, no standard streams, and only the descriptors of the protocol. It confines itself
/// and tells what holds it before it receives the request, so it cannot run foreign code without
/// (a watcher is confined together with the child that it starts). Without namespaces, a grandchild
/// that leaves the process group survives; it cannot delay this call beyond the deadline. The child
/// is killed by the kernel when the calling thread ends, so call this from a thread that waits.
///
/// # Errors
///
/// A request or bulk list that is too long, a program that does not start, a machine that does not
/// confine as required, or a failing system call. Nothing that the child does is an error.
pub fn run_child(spec: &ChildSpec<'_>) -> Result<ChildRun, SandboxError> {
    spawn::check(spec)?;
    let started = std::time::Instant::now();
    let folder = folder::WorkFolder::new(folder::CHILD)?;
    let running = spawn::start(spec, folder.path())?;
    let end = watch::until_end(running, spec, started)?;
    let wall = started.elapsed();
    folder.close()?;
    let watch::End { outcome, stderr_tail, confinement } = end;
    Ok(ChildRun { outcome, wall, stderr_tail, confinement })
}
