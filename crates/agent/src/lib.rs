//! The loop: ask for the next step, perform it, persist it, repeat.
//!
//! [`Engine::run`] is the loop, and it fits on a screen. What to do next is decided by
//! `pipeline::next_step`; how an attempt moves from one durable state to the next is in `advance`,
//! and its paid part in `calls`. Kernels of a person, many at once, are in `several`.
//! A kill at any point loses at most the call in flight: the loop begins with the attempt in hand.

mod advance;
mod calls;
mod engine;
mod error;
mod here;
mod in_flight;
mod interrupt;
pub mod limits;
mod promote;
mod retry;
mod several;
#[cfg(test)]
mod tests;
mod told;

pub use engine::{Engine, INTERRUPTED, Operator, Progress, Promotes, RunEnd};
pub use error::AgentError;
pub use here::Here;
pub use in_flight::InFlight;
pub use interrupt::Interrupt;
pub use several::{Handed, Handover};
