//! The flags of `task new` and `task check`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

const TASK_CHECK_HELP: &str = "\
Exit codes: 0 every task is proven or weak (a weak one can be used, and claims by it say what \
would pass too; --json tells each tier); 2 a file of a task is missing or does not read, \
reference.py included; 3 a task is refused, or its reference does not compile or run; 4 not \
available here.";

#[derive(Debug, Subcommand)]
pub(crate) enum TaskCommand {
    /// Make a task folder of your own from a working example
    New(TaskNewArgs),
    /// Let a task prove itself: golden case, wrong kernels, and mutants of its reference
    #[command(after_help = TASK_CHECK_HELP)]
    Check {
        /// Built-in tasks or task folders, a folder first where both are there; all built-in ones
        /// when none is named
        tasks: Vec<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct TaskNewArgs {
    /// The task's name: lower-case letters, digits and `_`
    pub(crate) name: String,
    /// What your operator is like: elementwise, rowwise (a reduction or norm over rows), gemm (a
    /// product of matrices), or a built-in task to start from a copy of it
    #[arg(long, value_name = "SHAPE", default_value = "elementwise")]
    pub(crate) like: String,
    /// The folder to make [default: ./NAME]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}
