//! What travels to the child of another framework that times a baseline, and back.

use std::collections::BTreeMap;

use pipeline::baseline::{BaselineId, Flags};
use pipeline::dtype::Dtype;
use pipeline::timing::Window;
use serde::{Deserialize, Serialize};

use super::{Slice, WindowResult};

/// Time a module or function of Python on one card.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineRequest {
    pub baseline: BaselineId,
    /// `module:function`; the task's `Model` where there is none.
    pub function: Option<String>,
    /// Text of the task's `reference.py`.
    pub module: Option<Slice>,
    pub inputs: Vec<BaselineTensor>,
    pub outputs: Vec<BaselineTensor>,
    /// Offered by name to the constructor or the function.
    pub scalars: BTreeMap<String, f64>,
    pub dims: BTreeMap<String, i64>,
    /// The inputs of each content in their order; content 0 is timed.
    pub contents: Vec<Vec<Slice>>,
    /// Place of each output within a slot.
    pub rooms: Vec<Slice>,
    pub slots: u32,
    pub slot_bytes: u64,
    pub window: Window,
    /// The harness's cubin.
    pub harness: Slice,
    pub gpu_uuid: String,
    /// Where compilers may keep what they made, also for later windows.
    pub cache_folder: String,
    /// Set before the window, read back before and after it.
    pub flags: Flags,
    /// Variables of the environment that are read back as well.
    pub environment: Vec<String>,
}

/// A dense tensor of a framework.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineTensor {
    pub name: String,
    pub dtype: Dtype,
    pub extents: Vec<u64>,
}

/// What such a window gave.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BaselineReport {
    pub window: WindowResult,
    pub flags_before: Flags,
    pub flags_after: Flags,
    /// Of the framework and what it stands on, by name.
    pub versions: BTreeMap<String, String>,
}
