//! The program: flags, wiring, terminal, reports.
//!
//! `main` serves a child's request first, before anything is opened; everything else goes through
//! [`cli`] to one file per command. Exit codes are in [`outcome`], environment variables in
//! [`environment`].

mod admission;
mod claims;
mod cli;
mod commands;
mod confinement;
mod detach;
mod embedded;
mod environment;
mod goals;
mod gpus;
mod handed;
mod known;
mod limits;
mod live;
mod notify;
mod outcome;
mod privacy;
mod progress;
mod providers;
mod python;
mod reporting;
mod runtime;
mod seeds;
mod selector;
mod selftest;
mod settings;
mod signals;
mod survey;
mod terminal;
mod wiring;

use std::process::ExitCode;

use clap::Parser;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Shared memories, pipes and connections take more descriptors than the customary limit, which is
/// low for programs of another kind; children have limits of their own.
fn take_all_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    // Where it is refused, what there is has to do.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}

fn main() -> ExitCode {
    privacy::keep_files_private();
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == sandbox::CHILD_COMMAND) {
        let kind = arguments.next().unwrap_or_default();
        sandbox::inside::serve(&kind.to_string_lossy(), runner::run_child);
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == sandbox::CONFINED_COMMAND) {
        sandbox::launch();
    }
    take_all_descriptors();
    sandbox::outlive_file_limits();
    runtime::end_at_panics();
    sandbox::remove_left_folders();
    let cli = match cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let json = std::env::args_os().any(|argument| argument == "--json");
            return outcome::finish_usage(&error, json);
        }
    };
    let command = &cli.command;
    let json = command.prints_records() || (cli.json && !command.prints_a_file());
    let result = runtime::build().and_then(|it| it.block_on(commands::perform(cli)));
    outcome::finish(result, json)
}
