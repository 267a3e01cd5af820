//! The flags of `task new`.

use std::path::PathBuf;

use clap::Args;

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
