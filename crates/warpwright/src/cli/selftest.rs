//! Flags of the self-test.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::selftest::{PARTS, Part};

/// What `selftest` runs, and how it ends.
fn selftest_help() -> String {
    let names = |parts: &mut dyn Iterator<Item = &Part>| {
        parts.map(|part| part.name).collect::<Vec<_>>().join(", ")
    };
    format!(
        "Parts: {}; on the simulator: {}. Exit codes: 0 nothing failed; 3 an item failed; 4 \
         nothing could be proved here; 5 the deadline came first, and the same command goes on.",
        names(&mut PARTS.iter()),
        names(&mut PARTS.iter().filter(|part| part.simulated))
    )
}

#[derive(Debug, Subcommand)]
pub(crate) enum SelftestCommand {
    /// Run the GPU suite, about ten minutes: conformance, wrong, good and hostile kernels, costs,
    /// clocks (against ncu where it is there)
    #[command(after_help = selftest_help())]
    Gpu(SelftestArgs),
    /// Run the parts of it that need no GPU, about a quarter of an hour on two cores: the judge
    /// against known cheats
    #[command(after_help = selftest_help())]
    Sim(SelftestArgs),
}

#[derive(Debug, Args)]
pub(crate) struct SelftestArgs {
    /// Only these parts; give it again for several, or separate them by commas
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Of these parts only the items whose names contain this; give it again for several, or
    /// separate them by commas
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) item: Vec<String>,
    /// Where rows and the page go; a call with the same folder goes on where the last one ended
    #[arg(long, value_name = "DIR", default_value = "selftest")]
    pub(crate) out: PathBuf,
    /// Begin no further item after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) deadline: Option<u32>,
}
