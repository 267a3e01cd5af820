//! Runs PTX on the CPU: PTX text and bytes in; bytes, counters or a trap out.
//!
//! Pure: no files, environment, processes, clocks or randomness. The same text, bytes and launch
//! always give the same report. It models results and counts, never time.
//!
//! Start at [`syntax::parse`], then [`Program::decode`], then [`Machine::launch`].

pub mod facts;
pub mod limits;
pub mod syntax;

mod exec;
mod machine;
mod numeric;
mod program;
mod report;
mod target;

pub use machine::{Access, BlockSelection, Launch, Machine, MachineError};
pub use program::{DecodeError, Program};
pub use report::{
    Counters, Finding, FindingKind, LaunchReport, Location, Outcome, Severity, Site, Trap, TrapKind,
};
pub use target::Target;
