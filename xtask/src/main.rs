//! Chores in Rust: test, tidy, bless, bench.
//!
//! `test` is the whole of CI and what people run; `bench` runs single tests of it in full. `tidy`
//! holds the house rules that the compiler does not. `bless` takes over changed snapshots. Nothing
//! here is part of the program.

mod bench;
mod bless;
mod report;
mod shell;
mod test;
mod tidy;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test    install the toolchain, check form and rules, build, run every test, print times
  tidy    check the house rules
  bless   run the tests, take over changed snapshots, lower the ratchet
  bench NAME [--full]
          run a long test with the count of CI or, with --full, in full: crashes, soak
  bench night [SECONDS [ATTEMPTS TASKS]]
          measure, against bounds, how busy a lease is while there is work for it, and what the
          loop itself costs with many tasks and a long ledger";

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report::warn(&format!("xtask: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<bool> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("no workspace folder")?;
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["test"] => test::run(root),
        ["tidy"] => tidy::run(root),
        ["bless"] => bless::run(root),
        ["bench", name, ref more @ ..] => bench::run(root, name, more),
        ["help" | "--help" | "-h"] => {
            report::say(USAGE);
            Ok(true)
        }
        _ => anyhow::bail!("unknown command\n{USAGE}"),
    }
}
