//! The pure core: the nouns of a run and the functions between them.
//!
//! Files follow the data: a [`task`] becomes a [`prompt`], a reply becomes a [`candidate`] with a
//! [`plan`], a build passes the [`gate`], outputs the [`check`], and [`next_step`] asks again.
//! Nothing here reads files, clocks, the environment or randomness: seeds and texts are passed in.
//! Start at [`task`] for what a user writes, at [`next_step`] for the search policy.

pub mod acceptance;
pub mod admission;
pub mod allotment;
pub mod amdahl;
pub mod attempt;
pub mod baseline;
pub mod big_shape;
pub mod breaker;
pub mod budget;
pub mod build;
pub mod candidate;
pub mod card_time;
pub mod check;
pub mod closing;
pub mod comparison;
pub mod completions;
pub mod confinement;
pub mod defence;
pub mod device_facts;
pub mod digest;
pub mod dtype;
pub mod energy;
pub mod estimate;
pub mod expression;
pub mod feedback;
pub mod gate;
pub mod growth;
pub mod hardware;
pub mod hidden;
pub mod inputs;
pub mod lanes;
pub mod launch;
pub mod lengths;
pub mod limits;
pub mod memory;
pub mod metamorphic;
pub mod next_step;
pub mod notice;
pub mod plan;
pub mod price;
pub mod promotion;
pub mod prompt;
pub mod reply;
pub mod report;
pub mod reproduction;
pub mod schedule;
pub mod scope;
pub mod scrub;
pub mod standing;
pub mod survey;
pub mod task;
pub mod tell;
pub mod template;
pub mod tiles;
pub mod timing;
pub mod toml_error;
pub mod transcript;
pub mod verdict;
pub mod visible;
