//! The buffer sets of a window: made once, refilled and poisoned for each sample.

use device::execute::{Access, Buffer, Device, DeviceError, LoadEnd};
use pipeline::inputs::Poison;
use pipeline::limits::{MESSAGE_BYTES_MAX, capped};
use pipeline::plan::form::Lifetime;
use pipeline::timing::SampleSpec;
use sandbox::wire::{RunEnd, WindowSubject};

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
        let end = match &work.request.subject {
            WindowSubject::Plan => self.load_module()?,
            WindowSubject::Gemm(_) => self.open_vendor()?,
            WindowSubject::Copy { .. } => None,
        };
        if let Some(end) = end {
            return Ok(Some(end));
        }
        let kept = &work.request.contents;
        let kept = if work.request.window.masters_on_host { &[][..] } else { kept };
        for content in kept {
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
        let mut bounds = Vec::new();
        for _ in 0..work.request.window.sets {
            bounds.push(self.make_tensors()?);
        }
        // The task's own tensors come first: what is refused after them is the plan's wish.
        for bound in bounds {
            if let Some(end) = self.make_set(bound)? {
                return Ok(Some(end));
            }
        }
        for output in &work.request.outputs {
            let Some(initial) = output.initial else { continue };
            for set in &self.sets {
                let buffer = set.bound.buffer(&output.name)?;
                self.device.upload(buffer, 0, work.maps.get(initial)?)?;
            }
        }
        Ok(None)
    }

    /// The inputs and outputs of one set.
    fn make_tensors(&mut self) -> Result<Bound, RunnerError> {
        let request = self.work.request;
        let mut bound = Bound::default();
        let inputs = request.contents.first().into_iter().flatten();
        let inputs = inputs.map(|it| (&it.name, it.data.bytes, access(it.writable)));
        let outputs = request.outputs.iter().map(|it| (&it.name, it.data.bytes, Access::ReadWrite));
        for (name, bytes, access) in inputs.chain(outputs) {
            let bytes = bytes + request.slack_bytes;
            bound.allocate(&mut self.device, name, bytes, access).map_err(no_room_of)?;
        }
        Ok(bound)
    }

    fn make_set(&mut self, mut bound: Bound) -> Result<Ended, RunnerError> {
        let work = self.work;
        let plan = &work.request.plan;
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

    /// Copies a content into a set's inputs. Where the plan prepares, that happens when only the
    /// weights are there, so that it cannot do the work of a call.
    pub(super) fn refill(&mut self, spec: &SampleSpec) -> Result<Ended, RunnerError> {
        let set = spec.set as usize;
        self.set(spec.set)?;
        if !self.sets[set].prepare.is_empty() {
            self.copy_inputs(spec, &|weight| weight, false)?;
            self.copy_inputs(spec, &|weight| !weight, true)?;
            let plan = &self.work.request.plan;
            let bound = &self.sets[set].bound;
            let bytes = bound.workspace_bytes(plan, Poison::Ones, &Lifetime::Prepared)?;
            for (buffer, byte) in bytes {
                self.device.fill_async(buffer, byte)?;
            }
            if let Some(end) = queue(&mut self.device, &self.sets[set].prepare)? {
                return Ok(Some(end));
            }
            if let Some(end) = self.wait()? {
                return Ok(Some(end));
            }
        }
        self.copy_inputs(spec, &|_| true, false)?;
        Ok(None)
    }

    /// Fills the chosen inputs of a set: with a content, or with poison.
    fn copy_inputs(
        &mut self,
        spec: &SampleSpec,
        chosen: &dyn Fn(bool) -> bool,
        poison: bool,
    ) -> Result<(), RunnerError> {
        let work = self.work;
        let content = work.request.contents.get(spec.content as usize);
        let content =
            content.ok_or_else(|| RunnerError::Request(format!("no content {}", spec.content)))?;
        for (index, input) in content.iter().enumerate().filter(|(_, it)| chosen(it.weight)) {
            let to = self.set(spec.set)?.bound.buffer(&input.name)?;
            if poison {
                self.device.fill_async(to, poison_byte(Poison::Ones))?;
            } else {
                self.fill_input(to, spec.content as usize, index)?;
            }
        }
        Ok(())
    }

    /// Copies one input of a content to where it is wanted, from where it is kept.
    pub(super) fn fill_input(
        &mut self,
        to: Buffer,
        content: usize,
        index: usize,
    ) -> Result<(), RunnerError> {
        let work = self.work;
        if let Some(kept) = self.contents.get(content) {
            return Ok(self.device.copy_async(to, kept[index])?);
        }
        let data = work.maps.get(work.request.contents[content][index].data)?;
        Ok(self.device.upload(to, 0, data)?)
    }

    /// Gives the module's variables their first values.
    pub(super) fn reset_module(&mut self) -> Result<Ended, RunnerError> {
        if !self.work.request.has_variables {
            return Ok(None);
        }
        self.load_module()
    }

    pub(super) fn load_module(&mut self) -> Result<Ended, RunnerError> {
        let entries = self.work.names.entries_of(&self.work.request.plan)?;
        Ok(match self.device.load(&self.work.image, &entries)? {
            LoadEnd::Loaded => None,
            LoadEnd::Unsupported { what, .. } => {
                Some(RunEnd::Unsupported(capped(&what, MESSAGE_BYTES_MAX)))
            }
        })
    }

    pub(super) fn poison(&mut self, set: u32) -> Result<Ended, RunnerError> {
        self.fill_workspaces(set)?;
        for output in &self.work.request.outputs {
            let buffer = self.set(set)?.bound.buffer(&output.name)?;
            self.device.fill_async(buffer, poison_byte(Poison::Ones))?;
        }
        Ok(None)
    }

    /// Fills a set's workspaces with what the plan asks for.
    pub(super) fn fill_workspaces(&mut self, set: u32) -> Result<(), RunnerError> {
        let plan = &self.work.request.plan;
        let bound = &self.set(set)?.bound;
        for (buffer, byte) in bound.workspace_bytes(plan, Poison::Ones, &Lifetime::Call)? {
            self.device.fill_async(buffer, byte)?;
        }
        Ok(())
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
