//! `init`: a commented settings file to start from.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};

use crate::cli::InitArgs;
use crate::outcome::{Outcome, bad_input};
use crate::settings::reference;
use crate::{environment, terminal};

/// Writes the file, or prints the list of all settings.
pub(crate) fn perform(args: &InitArgs) -> anyhow::Result<Outcome> {
    if args.reference {
        terminal::line(reference::markdown().trim_end());
        return Ok(Outcome::done());
    }
    let path = args.file.display();
    let made = OpenOptions::new().write(true).create_new(true).open(&args.file);
    let mut file = made.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            bad_input(format!("{path} is there already; it was left as it is"))
        }
        _ => bad_input(format!("{path}: {error}")),
    })?;
    let written = file.write_all(reference::commented_file().as_bytes());
    written.map_err(|error| bad_input(format!("{path}: {error}")))?;
    let program = environment::program_name();
    terminal::line(&format!("wrote {path}; name your model and its price in it, then:"));
    terminal::line(&format!("  {program} doctor --model gpt"));
    terminal::line(&format!("  {program} run softmax_rows --dollars 1"));
    Ok(Outcome::done())
}
