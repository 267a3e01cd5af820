//! The ledger as a whole, on files in temporary folders.

mod approving;
mod card_time;
mod chain;
mod chronicle;
mod claiming;
mod closing;
mod dying;
mod fixtures;
mod opening;
mod private;
mod round_trip;
mod running;
mod stepping;
mod storing;
mod telling;
mod torn;
