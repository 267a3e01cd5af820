//! The same evaluation on another machine.
//!
//! A folder carries it: a run writes jobs, a worker writes results, each by rename, so that either
//! may be killed and started again at any point. [`FolderEvaluator`] is the run's side and
//! [`Worker`] the other; [`archive`] is what travels. Nothing here decides about kernels: the
//! worker asks the same judge that a run on its own machine would ask. [`bundle`] is a claim with
//! everything that a stranger needs to get it too.

mod announcement;
pub mod archive;
pub mod bundle;
mod error;
mod evaluator;
mod files;
mod layout;
pub mod limits;
#[cfg(test)]
mod tests;
mod worker;

pub use announcement::announced;
pub use error::FleetError;
pub use evaluator::FolderEvaluator;
pub use worker::{Drained, Worker, WorkerEvent};
