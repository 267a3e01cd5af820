//! A program that is not ours, confined: this program starts, confines itself, and then starts the
//! other or becomes it.
//!
//! A tool that watches a child of ours may close descriptors, so this process stays, holds the
//! channels open and gives them names in the working directory; it ends as the tool ends.

use std::fs::File;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;

use command_fds::inherited::take_fd_ownership;
use rustix::io::{FdFlags, fcntl_setfd};

use crate::error::SandboxError;
use crate::inside::{be_confined, be_first, word};
use crate::{CONFINED_COMMAND, EXIT_NOT_A_CHILD, REQUEST_FD, confine};

/// Words for what becomes of the process: it stays and waits, or it becomes the other program.
pub(crate) const HELD: &str = "held";
pub(crate) const REPLACED: &str = "replaced";

/// Where the words are: `program __confined SETUP HOW PROGRAM ARGUMENTS`.
const SETUP_WORD: usize = 2;
const HOW_WORD: usize = 3;
const PROGRAM_WORD: usize = 4;

/// Confines this process and has it start the program of its command line. Must be the first thing
/// that `main` does where the first argument is [`CONFINED_COMMAND`]; it does not return.
pub fn launch() -> ! {
    if let Err(error) = launched() {
        eprintln!("the confined process: {error}");
    }
    std::process::exit(i32::from(EXIT_NOT_A_CHILD))
}

fn launched() -> Result<(), SandboxError> {
    be_first(CONFINED_COMMAND)?;
    let how = word(HOW_WORD)?;
    let program = word(PROGRAM_WORD)?;
    let (setup, _) = be_confined(&word(SETUP_WORD)?)?;
    let mut command = Command::new(&program);
    command.args(std::env::args_os().skip(PROGRAM_WORD + 1));
    let start = |source| SandboxError::Start { program: program.clone().into(), source };
    if how == REPLACED {
        let failed = |error| SandboxError::system("hand on the socket", error);
        let fd =
            take_fd_ownership(REQUEST_FD).map_err(|error| failed(std::io::Error::other(error)))?;
        fcntl_setfd(&fd, FdFlags::empty()).map_err(|error| failed(error.into()))?;
        let _kept = File::from(fd);
        return Err(start(command.exec()));
    }
    for number in REQUEST_FD..setup.told_fd {
        let target = format!("/proc/{}/fd/{number}", std::process::id());
        rustix::fs::symlink(target, number.to_string())
            .map_err(|error| SandboxError::system("name a channel", error))?;
    }
    let status = command.status().map_err(start)?;
    confine::mirror(status.into_raw())
}
