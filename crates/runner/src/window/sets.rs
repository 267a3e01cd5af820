//! The buffer sets of a window: made once, refilled and poisoned for each sample.

use device::execute::{Access, Device, DeviceError, LoadEnd};
use pipeline::inputs::Poison;
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::plan::form::Lifetime;
use pipeline::timing::SampleSpec;
use sandbox::wire::RunEnd;

use super::{Ended, Running, queue};
use crate::RunnerError;
use crate::session::access;
use crate::steps::{Bound, DeviceStep, poison_byte};

/// A buffer set with the plan's steps for it.
pub(super) struct Set<'a> {
    pub(super) bound: Bound,
    prepare: Vec<DeviceStep<'a>>,
    pub(super) steps: Vec<DeviceStep<'a>>,
}

impl Running<'_> {
    /// Loads the module, uploads every content, makes the buffer sets.
    pub(super) fn prepare_device(&mut self) -> Result<Ended, RunnerError> {
        let work = self.work;
        let plan = &work.request.plan;
        let entries = work.names.entries_of(plan)?;
        if let LoadEnd::Unsupported { what, .. } = self.device.load(&work.image, &entries)? {
            return Ok(Some(RunEnd::Unsupported(capped(&what, MESSAGE_BYTES_MAX))));
        }
        for content in &work.request.contents {
            let mut buffers = Vec::new();
            for input in content {
                let data = work.maps.get(input.data)?;
                let name = format!("content of {}", input.name);
                let buffer = self.device.allocate(&name, input.data.bytes, Access::ReadOnly);
                let buffer = buffer.map_err(no_room)?;
                self.device.upload(buffer, 0, data)?;
                buffers.push(buffer);
            }
            self.contents.push(buffers);
        }
        for _ in 0..work.request.window.sets {
            if let Some(end) = self.make_set()? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn make_set(&mut self) -> Result<Ended, RunnerError> {
        let work = self.work;
        let plan = &work.request.plan;
        let mut bound = Bound::default();
        for input in work.request.contents.first().into_iter().flatten() {
            let access = access(input.writable);
            bound
                .allocate(&mut self.device, &input.name, input.data.bytes, access)
                .map_err(no_room_of)?;
        }
        for output in &work.request.outputs {
            bound
                .allocate(&mut self.device, &output.name, output.data.bytes, Access::ReadWrite)
                .map_err(no_room_of)?;
        }
        match bound.make_workspaces(&mut self.device, plan, Poison::Ones) {
            Err(RunnerError::Device(error @ DeviceError::Allocate { .. })) => {
                let sets = work.request.window.sets;
                let why = format!("{error} (timing needs {sets} sets of all buffers)");
                return Ok(Some(RunEnd::Refused(capped(&why, MESSAGE_BYTES_MAX))));
            }
            other => other?,
        }
        if let Some(end) = bound.make_maps(&mut self.device, plan)? {
            return Ok(Some(end));
        }
        let prepare = work.names.steps(&plan.prepare, &bound)?;
        let steps = work.names.steps(&plan.steps, &bound)?;
        self.sets.push(Set { bound, prepare, steps });
        Ok(None)
    }

    pub(super) fn set(&self, set: u32) -> Result<&Set<'_>, RunnerError> {
        let found = self.sets.get(set as usize);
        found.ok_or_else(|| RunnerError::Request(format!("no buffer set {set}")))
    }

    /// Copies a content into a set's inputs, then prepares what the plan keeps.
    pub(super) fn refill(&mut self, spec: &SampleSpec) -> Result<Ended, RunnerError> {
        let work = self.work;
        let named = work.request.contents.first().into_iter().flatten();
        let content = self.contents.get(spec.content as usize).cloned().unwrap_or_default();
        for (input, from) in named.zip(content) {
            let to = self.set(spec.set)?.bound.buffer(&input.name)?;
            self.device.copy_async(to, from)?;
        }
        let set = spec.set as usize;
        let plan = &work.request.plan;
        let bytes =
            self.set(spec.set)?.bound.workspace_bytes(plan, Poison::Ones, &Lifetime::Prepared)?;
        for (buffer, byte) in bytes {
            self.device.fill_async(buffer, byte)?;
        }
        queue(&mut self.device, &self.sets[set].prepare)
    }

    pub(super) fn poison(&mut self, set: u32) -> Result<Ended, RunnerError> {
        let work = self.work;
        let bound = &self.set(set)?.bound;
        let mut fills = bound.workspace_bytes(&work.request.plan, Poison::Ones, &Lifetime::Call)?;
        for output in &work.request.outputs {
            fills.push((bound.buffer(&output.name)?, poison_byte(Poison::Ones)));
        }
        for (buffer, byte) in fills {
            self.device.fill_async(buffer, byte)?;
        }
        Ok(None)
    }
}

/// The task's own buffers do not fit: this GPU cannot time it.
fn no_room(error: DeviceError) -> RunnerError {
    match error {
        error @ DeviceError::Allocate { .. } => RunnerError::NotAvailable(error.to_string()),
        other => other.into(),
    }
}

fn no_room_of(error: RunnerError) -> RunnerError {
    match error {
        RunnerError::Device(error) => no_room(error),
        other => other,
    }
}
