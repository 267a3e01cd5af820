//! What travels between the judge and its children, as JSON; bulk data travels in memfds.
//!
//! Decoding is strict: an unknown field is an error. Offsets and sizes are in bytes, and every
//! [`Slice`] names a memfd by its index in the order of the request.

mod baseline;
mod gpu;

use std::collections::BTreeMap;

use pipeline::build::{BuildFacts, Diagnostic, EntryFacts};
use pipeline::check::OutputCheck;
use pipeline::dtype::Dtype;
use pipeline::inputs::{NormGate, Poison};
use pipeline::launch::ResolvedPlan;
use pipeline::report::{Counters, Finding, PartCost};
use pipeline::task::spec::{Compare, Input};
use serde::{Deserialize, Serialize};

pub use baseline::{BaselineReport, BaselineRequest, BaselineTensor};
pub use gpu::{
    ProbeReport, ProbeRequest, ReachTargets, SlotContent, WindowRequest, WindowResult,
    WindowSubject,
};

/// A part of a memfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slice {
    pub bulk: u32,
    pub offset: u64,
    pub bytes: u64,
}

/// Compile a source. Memfds: source, room for the PTX, room for the cubin.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildRequest {
    /// The device crate's toolchain; opaque on this side.
    pub toolchain: serde_json::Value,
    pub arch: String,
    pub defines: BTreeMap<String, i64>,
    pub kernel_names: Vec<String>,
    pub source: BuildSource,
    pub ptx_room: Slice,
    pub cubin_room: Slice,
}

/// What is compiled.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum BuildSource {
    Given(Slice),
    /// This program's own kernels that time others.
    Harness,
}

/// How a compile ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildReport {
    /// `None` when it did not compile.
    pub facts: Option<BuildFacts>,
    pub diagnostics: Vec<Diagnostic>,
    /// The compiler's log, capped.
    pub log: String,
    pub ptx_bytes: u64,
    pub cubin_bytes: u64,
    /// Set when the output was larger than the room for it, or too large to describe.
    pub too_large: bool,
    /// Why the compiler's PTX could not be read, where it could not: this program lacks something.
    pub unreadable: Option<String>,
}

/// Run a plan, for a candidate or for the reference.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRequest {
    pub device: DeviceChoice,
    pub ptx: Slice,
    pub cubin: Slice,
    /// Name expression of the plan → entry.
    pub lowered_names: Vec<(String, String)>,
    pub entries: Vec<EntryFacts>,
    pub runs: Vec<RunCase>,
    /// Count the headline case on a sample of blocks after all runs completed.
    pub sample: Option<SampleCase>,
    /// Time the headline case after all runs completed; only on a GPU.
    pub window: Option<WindowRequest>,
    /// What the only run, a reference's, gives is compared instead of copied out.
    pub tiles: Option<TilesRequest>,
    /// Report also places and what was printed; a report of many runs has no room for them.
    pub detailed: bool,
}

/// What executes.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum DeviceChoice {
    Simulator {
        arch: String,
        /// Warp instructions that one launch may execute.
        launch_budget: u64,
    },
    /// The one GPU that the child's environment shows it.
    Cuda {
        uuid: String,
        /// How long the kernels of one run may take before they count as hung.
        launch_deadline_ms: u64,
    },
}

/// One run of the plan on one set of inputs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCase {
    pub plan: ResolvedPlan,
    pub inputs: Vec<InputTensor>,
    pub outputs: Vec<OutputTensor>,
    pub poison: Poison,
    /// Asks the device for an unusual order of warps and blocks, where it can choose.
    pub reversed: bool,
    /// Another call on the device of the run before: same module, same buffers, filled anew.
    pub continues: bool,
    /// False leaves in outputs and workspaces what is there. Only where a test wants to see a cheat
    /// succeed, as is the next.
    pub refills: bool,
    /// Room behind every buffer that belongs to it, in bytes.
    pub slack_bytes: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InputTensor {
    pub name: String,
    pub data: Slice,
    pub writable: bool,
    /// True for what `prepare` may read.
    pub weight: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutputTensor {
    pub name: String,
    pub dtype: Dtype,
    /// Where the result is copied to.
    pub data: Slice,
    /// What it holds before the run; poison where there is nothing.
    pub initial: Option<Slice>,
}

/// The headline case for counting: contents are made by the child from a fixed seed, repeated.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleCase {
    pub plan: ResolvedPlan,
    pub inputs: Vec<SampleInput>,
    /// Name and size of each output.
    pub outputs: Vec<(String, u64)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleInput {
    pub input: Input,
    /// Value of the role's expression.
    pub parameter: i64,
    pub bytes: u64,
    pub writable: bool,
}

/// How the runs ended, in their order. After one that did not complete, none follows.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunReport {
    pub runs: Vec<RunResult>,
    pub sample: Option<SampleResult>,
    /// `None` where none was asked for, or a run before it did not complete.
    pub window: Option<WindowResult>,
    /// The same holds here.
    pub tiles: Option<VerifyReport>,
    /// How the parts took their time, the window's own apart.
    pub cost: Vec<PartCost>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    pub end: RunEnd,
    pub counters: Option<Counters>,
    pub findings: Vec<Noted>,
    /// Where a fault arose, in a detailed report.
    pub place: Option<Place>,
    /// What `printf` wrote, in a detailed report.
    pub printed: String,
}

/// A finding of the device.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    pub finding: Finding,
    /// True for a read behind the end of a buffer that hit only padding.
    pub past_end: bool,
    /// Where it was first noticed, in a detailed report.
    pub place: Option<Place>,
}

/// A place in the source and in the grid, with the memory that it concerns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    pub kernel: String,
    /// As the compiler named it; with its line, from 1.
    pub source: Option<(String, u32)>,
    /// `file:line` of each call into which it was inlined, innermost first.
    pub inlined_at: Vec<(String, u32)>,
    /// The PTX instruction.
    pub instruction: String,
    pub block: [u32; 3],
    pub thread: [u32; 3],
    pub buffer: Option<String>,
    /// From the start of the buffer, in bytes; negative before it.
    pub offset: Option<i64>,
    /// Bytes that one thread accessed.
    pub bytes: u32,
}

/// How one run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum RunEnd {
    Completed,
    /// A launch was not legal.
    Refused(String),
    /// The device lacks an instruction or feature.
    Unsupported(String),
    OutOfBounds(String),
    ReadOnlyWrite(String),
    Hang(String),
    Crash(String),
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleResult {
    pub end: RunEnd,
    /// Counts scaled to the whole grid; they mean something only when the sample completed.
    pub counters: Counters,
    /// Blocks run, of how many.
    pub blocks: [u64; 2],
    /// True when no kernel ran before the one that ended: its blocks then saw exactly what they
    /// see in a whole run, and a fault is a fault.
    pub in_first_kernel: bool,
}

/// Compare outputs; everything is mapped read-only.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyRequest {
    pub items: Vec<VerifyItem>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyItem {
    pub name: String,
    pub dtype: Dtype,
    pub compare: Compare,
    pub extents: Vec<u64>,
    pub got: Slice,
    pub reference: Slice,
    pub bound: Option<Slice>,
    pub accumulation_unit: f64,
    pub shared_bound: f64,
    pub norm_limit: f64,
    pub norm_gate: NormGate,
    pub flush_denormals: bool,
    pub poison: Poison,
    pub leniency: Leniency,
    /// Asks for the keyed hash of `got`: it shows that what was compared is what was timed.
    pub hash_key: Option<[u64; 2]>,
    /// The same output from another run on the same inputs.
    pub twin: Option<Slice>,
}

/// Compare outputs with what a reference gives on the device, a part of it at a time.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TilesRequest {
    /// Their references and bounds are the run's outputs; what they name here is not read.
    pub items: Vec<VerifyItem>,
    /// Expected values and bounds that the host holds at once, in bytes.
    pub tile_bytes: u64,
}

/// One check for each item, in order.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VerifyReport {
    pub checks: Vec<OutputCheck>,
    /// The hash of each item that asked for one, in order.
    pub hashes: Vec<Option<[u64; 2]>>,
    /// How far the twin of each item that has one is from it.
    pub spreads: Vec<Option<Spread>>,
}

/// What a comparison forgives: nothing, unless a test wants to see a cheat succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Leniency {
    None,
    /// What careless harnesses forgive.
    Tolerance,
    Everything,
}

/// How far two runs on the same inputs are apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spread {
    pub equal_bits: bool,
    /// Largest difference over the element's tolerance, at most `f64::MAX`.
    pub ratio: f64,
}
