//! The loop: ask for the next step, perform it, persist it, repeat.
//!
//! The loop is in `drive`, and it fits on a screen. Whose turn it is is decided by
//! `pipeline::schedule`, what is asked by `pipeline::next_step`, whether it may be asked now in
//! `asking`; how an attempt moves from one durable state to the next is in `advance`, and its paid
//! part in `calls`. Kernels of a person, many at once, are in `several`. Best kernels are
//! measured and claimed beside all that: when is decided by `pipeline::closing`, and `closing` does
//! it.
//! A kill at any point loses at most the calls in flight: the loop begins with what is in hand.

mod advance;
mod asking;
mod board;
mod bounds;
mod calls;
mod card_time;
mod cards;
mod closer;
mod closing;
mod disk;
mod drive;
mod engine;
mod error;
mod here;
mod in_flight;
mod interrupt;
pub mod limits;
mod memory;
mod models;
mod pools;
mod promote;
mod several;
mod shortage;
#[cfg(test)]
mod tests;
mod told;

pub use card_time::{Cards, Desk};
pub use closer::{CardPace, Claims, Closer, Doing, Done, Looked, Pace};
pub use engine::{Engine, INTERRUPTED, Known, Operator, Progress, Promotes, RunEnd};
pub use error::AgentError;
pub use here::Here;
pub use in_flight::InFlight;
pub use interrupt::Interrupt;
pub use models::{ModelOrder, ModelUse, Models};
pub use pools::Pools;
pub use several::{Handed, Handover};
