//! What a folder's workers judge on, so that a machine without that device can build for it.

use std::path::Path;

use pipeline::device_facts::DeviceFacts;

use crate::error::FleetError;
use crate::layout::{Layout, read_if_there, write_whole};

/// Tells what a worker judges on. A folder has workers of one device: jobs are built for that one,
/// and a worker of another would only refuse them.
pub(crate) fn announce(layout: &Layout, device: &DeviceFacts) -> Result<(), FleetError> {
    let path = layout.device();
    if let Some(other) = read_if_there(&path)?.and_then(|bytes| parsed(&bytes))
        && (other.model != device.model || other.arch != device.arch)
    {
        return Err(FleetError::OtherDevice {
            path,
            theirs: format!("{} ({})", other.model, other.arch),
            ours: format!("{} ({})", device.model, device.arch),
        });
    }
    let bytes = serde_json::to_vec_pretty(device).map_err(|error| FleetError::io(&path, error))?;
    write_whole(&path, &bytes)
}

fn parsed(bytes: &[u8]) -> Option<DeviceFacts> {
    serde_json::from_slice(bytes).ok()
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
