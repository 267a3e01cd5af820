//! What a report says of the card that was used.

use serde::{Deserialize, Serialize};

use crate::memory::Fitted;
use crate::timing::Sample;

/// The card that an evaluation used, and how its process left it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuRecord {
    pub uuid: String,
    pub driver: String,
    /// State before and after the window, where the driver tells.
    pub before: Option<GpuState>,
    pub after: Option<GpuState>,
    /// Every sample of the window, cold ones first.
    pub cold: Vec<Sample>,
    pub warm: Vec<Sample>,
    /// How the parts of the evaluation took their time.
    pub cost: Vec<PartCost>,
    /// The shape that was timed, and what had to give way for want of memory.
    #[serde(default)]
    pub memory: Option<Fitted>,
}

/// Wall time of one part of an evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PartCost {
    pub part: String,
    pub ms: f64,
}

/// What the driver says about a card at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GpuState {
    pub sm_clock_hz: f64,
    pub memory_clock_hz: f64,
    pub temperature_c: u32,
    pub power_w: f64,
    /// Why the clocks are not higher, in the driver's words.
    pub throttle: Vec<String>,
    /// Other processes that use the card; `None` where the driver does not tell.
    #[serde(default)]
    pub foreign_processes: Option<u32>,
}
