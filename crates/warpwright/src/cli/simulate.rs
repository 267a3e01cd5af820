//! The flags of `simulate`.

use std::path::PathBuf;

use clap::Args;

use crate::limits::{SIMULATED_DEADLINE_S_MAX, SIMULATED_LAUNCH_BUDGET_MAX};

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SimulateArgs {
    /// The CUDA source; name nothing else to see its kernels and a command line for each
    pub(crate) source: PathBuf,
    /// The kernel to launch, such as add or 'tile<64, float>'; needed when the file has several
    #[arg(long, value_name = "NAME", help_heading = LAUNCH)]
    pub(crate) kernel: Option<String>,
    /// Blocks to launch; numbers, or expressions over --arg integers and --dim, as in
    /// 'ceil_div(n, 256)'
    #[arg(long, value_name = "X[,Y[,Z]]", help_heading = LAUNCH)]
    pub(crate) grid: Option<String>,
    /// Threads of each block, written like --grid
    #[arg(long, value_name = "X[,Y[,Z]]", help_heading = LAUNCH)]
    pub(crate) block: Option<String>,
    /// Dynamic shared memory of each block, in bytes
    #[arg(long, value_name = "BYTES", help_heading = LAUNCH)]
    pub(crate) shared_bytes: Option<String>,
    /// Blocks of one cluster, written like --grid (the simulator runs only 1 yet)
    #[arg(long, value_name = "X[,Y[,Z]]", help_heading = LAUNCH)]
    pub(crate) cluster: Option<String>,
    /// Launch cooperatively: the grid may synchronise, and must fit on the device at once
    #[arg(long, help_heading = LAUNCH)]
    pub(crate) cooperative: bool,
    /// A launch plan with several steps or workspaces instead of the flags above; its arguments are
    /// what --arg and --dim declare
    #[arg(long, value_name = "FILE", help_heading = LAUNCH, conflicts_with_all = [
        "kernel", "grid", "block", "shared_bytes", "cluster", "cooperative",
    ])]
    pub(crate) plan: Option<PathBuf>,
    /// One argument of the kernel; repeat it in the kernel's order.
    ///
    ///   n=1024                an integer, or an expression over earlier ones: m=n//2
    ///   eps=1e-5              a float
    ///   'x=f32[1024]'         an input buffer of normally distributed values
    ///   'x=f32[rows,cols]:zeros'   or ones, iota (0, 1, 2 ...), normal, ints (-4 to 4),
    ///                         wide (large and small), index(N) (0 to N-1), or a number
    ///   'x=f32[1024]@x.bin'   an input buffer from a file: raw bytes, or a .npy file;
    ///                         x=@x.npy takes type and shape from the file
    ///   'y=out:f32[1024]'     an output: it starts as garbage, and unwritten elements are found
    ///   'y=inout:f32[8]:zeros'   a buffer that the kernel reads and writes
    ///
    /// Types: f64 f32 f16 bf16 e4m3 e5m2 i64 i32 i16 i8 u64 u32 u16 u8 bool; also float, half, int.
    #[arg(long, value_name = "NAME=VALUE", verbatim_doc_comment, help_heading = VALUES)]
    pub(crate) arg: Vec<String>,
    /// An integer that shapes, --grid, --block and a plan may name, and no argument of the kernel
    #[arg(long, value_name = "NAME=N", help_heading = VALUES)]
    pub(crate) dim: Vec<String>,
    /// A macro with an integer value for the compiler; chooses the value of a plan's tunable
    #[arg(short = 'D', value_name = "NAME=N", help_heading = VALUES)]
    pub(crate) define: Vec<String>,
    /// From which number generated inputs are drawn: the same number, the same inputs
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = VALUES)]
    pub(crate) seed: u64,
    /// Show the first elements of a buffer that the kernel wrote: y, or y:100
    #[arg(long, value_name = "NAME[:COUNT]", help_heading = RESULTS)]
    pub(crate) print: Vec<String>,
    /// Write such a buffer to a file: raw bytes, or with its shape when FILE ends in .npy
    #[arg(long, value_name = "NAME=FILE", help_heading = RESULTS)]
    pub(crate) out: Vec<String>,
    /// The architecture to compile for: 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121
    #[arg(long, value_name = "SM", default_value = "90", help_heading = LIMITS)]
    pub(crate) sm: String,
    /// Warp instructions that one launch may execute before it counts as endless
    #[arg(long, value_name = "N", default_value_t = 100_000_000, help_heading = LIMITS,
        value_parser = clap::value_parser!(u64).range(1..=SIMULATED_LAUNCH_BUDGET_MAX))]
    pub(crate) budget: u64,
    /// Seconds after which the simulation is given up
    #[arg(long, value_name = "SECONDS", default_value_t = 60, help_heading = LIMITS,
        value_parser = clap::value_parser!(u64).range(1..=SIMULATED_DEADLINE_S_MAX))]
    pub(crate) deadline: u64,
}

const LAUNCH: &str = "Launch";
const VALUES: &str = "Arguments";
const RESULTS: &str = "Results";
const LIMITS: &str = "Device and limits";

const EXAMPLES: &str = "\
Examples:
  warpwright simulate add.cu
      the kernels of the file, with a command line for each
  warpwright simulate add.cu --grid 'ceil_div(n, 256)' --block 256 \\
      --arg 'x=f32[n]' --arg 'y=out:f32[n]' --arg n=1000 --print y

Everything printed is a result or a count; the simulator gives no times.
Exit codes: 0 clean; 3 the kernel did not compile, faulted, hung, or has errors; 4 the simulator \
lacks something that it names; 2 the command line or a file does not fit.";
