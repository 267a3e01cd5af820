//! What travels only where there is a GPU: the timing window and the probes.

use pipeline::baseline::gemm::GemmCall;
use pipeline::hardware::{Ceilings, HardwareSheet};
use pipeline::launch::ResolvedPlan;
use pipeline::report::{GpuState, PartCost};
use pipeline::timing::{Sample, Window};
use serde::{Deserialize, Serialize};

use super::{InputTensor, OutputTensor, RunEnd, Slice};

/// The headline case for timing: contents from memfds, outputs of chosen samples copied out.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowRequest {
    pub subject: WindowSubject,
    /// Empty where something else is timed.
    pub plan: ResolvedPlan,
    /// True when the module has variables, whose values must not pass from call to call.
    pub has_variables: bool,
    /// Content 0 is timed.
    pub contents: Vec<Vec<InputTensor>>,
    /// Name, type and place of each output within a slot.
    pub outputs: Vec<OutputTensor>,
    /// Slots for outputs, one after the other in the memfd that `outputs` name.
    pub slots: u32,
    pub slot_bytes: u64,
    pub window: Window,
    /// Room behind buffers, which nobody looks at: 0 but for tests of the judge itself.
    pub slack_bytes: u64,
    /// The harness's cubin.
    pub harness: Slice,
}

/// What is timed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum WindowSubject {
    /// The steps of the plan, in the module of the request.
    Plan,
    /// A matrix product of the vendor's library; there is no module.
    Gemm(GemmCall),
    /// The driver's copy of one tensor into another of its size; there is no module.
    Copy { from: String, to: String },
}

/// What a window gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WindowResult {
    pub end: RunEnd,
    pub cold: Vec<Sample>,
    pub warm: Vec<Sample>,
    pub event_pair_ns: f64,
    /// Content and hash of what each slot holds, in order.
    pub slots: Vec<SlotContent>,
    pub before: Option<GpuState>,
    pub after: Option<GpuState>,
    /// Energy of one call in millijoules, where it was wanted and the card's counter moved.
    pub energy_mj: Option<f64>,
    /// How the parts took their time.
    pub cost: Vec<PartCost>,
}

/// Whose outputs a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlotContent {
    pub content: u32,
    pub hash: [u64; 2],
}

/// Look at the hardware.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ProbeRequest {
    /// Every GPU that the driver shows.
    List,
    /// A known kernel with a known result.
    Health { harness: Slice },
    /// Bandwidth, arithmetic, launches.
    Ceilings { harness: Slice },
    /// Device memory that is free while nothing else of ours runs.
    FreeMemory,
    /// Fills memory with a pattern and ends.
    LeavePattern { bytes: u64 },
    /// Looks for that pattern in fresh memory.
    ScanForPattern { bytes: u64, harness: Slice },
    /// One test of the suite that every device must pass.
    Conformance { test: String, ptx: Slice, cubin: Slice },
    /// Tries to reach what no child may.
    Reach(ReachTargets),
}

/// What a child tries to reach, all of it the judge's own.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReachTargets {
    /// Its process.
    pub process: u32,
    /// Its home folder; none where it has none.
    pub home: Option<String>,
    /// Ports of this machine on which it listens, where it can.
    pub tcp_port: Option<u16>,
    pub udp_port: Option<u16>,
    /// True to open a context first: where there is a driver, the attempts are made beside it.
    pub with_context: bool,
}

/// What a probe saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum ProbeReport {
    Gpus(Vec<HardwareSheet>),
    /// `None` when it is healthy.
    Health(Option<String>),
    Ceilings(Box<Ceilings>),
    /// In bytes.
    FreeMemory(u64),
    PatternLeft,
    /// Words of the pattern that were found.
    PatternFound(u64),
    /// `None` when it passed.
    Conformance(Option<String>),
    /// What was tried, and what stopped it; `None` where nothing did.
    Reached(Vec<(String, Option<String>)>),
}
