//! `completions` and `man`: made from the flags themselves.

use clap::CommandFactory;

use crate::cli::Cli;
use crate::outcome::Outcome;
use crate::terminal;

/// Prints a completion script.
pub(crate) fn completions(shell: clap_complete::Shell) -> anyhow::Result<Outcome> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "warpwright", &mut script);
    terminal::file(String::from_utf8(script)?.trim_end());
    Ok(Outcome::done())
}

/// Prints the manual page.
pub(crate) fn page() -> anyhow::Result<Outcome> {
    let mut page = Vec::new();
    clap_mangen::Man::new(Cli::command()).render(&mut page)?;
    terminal::file(String::from_utf8(page)?.trim_end());
    Ok(Outcome::done())
}
