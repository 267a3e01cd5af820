//! What a folder's workers judge on, so that a machine without that device can build for it.

use std::path::Path;

use pipeline::device_facts::DeviceFacts;

use crate::error::FleetError;
use crate::layout::{Layout, read_if_there, write_whole};

/// Tells what a worker judges on; the last worker that began is the one that is read.
pub(crate) fn announce(layout: &Layout, device: &DeviceFacts) -> Result<(), FleetError> {
    let path = layout.device();
    let bytes = serde_json::to_vec_pretty(device).map_err(|error| FleetError::io(&path, error))?;
    write_whole(&path, &bytes)
}

/// What the workers of a folder judge on; `None` before the first one began.
///
/// # Errors
/// A folder that cannot be made or read, or an announcement of another version.
pub fn announced(root: &Path) -> Result<Option<DeviceFacts>, FleetError> {
    let path = Layout::open(root)?.device();
    let Some(bytes) = read_if_there(&path)? else { return Ok(None) };
    let device = serde_json::from_slice(&bytes).map_err(|error| FleetError::io(&path, error))?;
    Ok(Some(device))
}
