//! The ledger: every attempt with its provenance, in SQLite.
//!
//! One file holds runs, attempts, calls, candidates, builds, verdicts and an append-only log of
//! events. Each step of an attempt is one transaction that is on disk before the call returns, so
//! that a killed process loses no more than the call in flight. Nothing here decides what to do
//! next or talks to a model, and nothing outside [`tables`] knows SQL.
//!
//! Start at [`Store::open`]; then `runs.rs` for runs, `steps.rs` for the life of an attempt,
//! `reading.rs` for what is read back, `acceptances.rs` and `claims.rs` for what is claimed,
//! `verify.rs` for whether anybody changed something.

mod acceptances;
mod card_time;
mod chronicle;
mod claims;
mod clock;
mod error;
mod ids;
pub mod limits;
mod lock;
mod named;
mod notes;
mod open;
mod promotion;
mod reading;
mod rows;
mod runs;
mod scrubbing;
mod steps;
mod summary;
mod surveys;
mod tables;
mod tells;
#[cfg(test)]
mod tests;
mod verify;

pub use acceptances::framework;
pub use chronicle::{Accepted, BookedCall, Chronicle, Judged};
pub use clock::Clock;
pub use error::StoreError;
pub use ids::{AcceptanceId, AttemptId, CallId, CardHold, ClaimId, RunId};
pub use lock::RunLock;
pub use notes::{NotedModel, Pause};
pub use open::{BoundaryHook, Store};
pub use rows::*;
pub use summary::{Booking, Bookings, CardTime, RunSummary, TaskSummary};

/// What every call of the ledger returns.
pub type Result<T> = std::result::Result<T, StoreError>;
