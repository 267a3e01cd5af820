//! One GPU as a [`Device`]: buffers, one module, launches that are queued and waited for.
//!
//! Single-threaded, one stream. A kernel's fault is a value: it is kept from whichever call first
//! shows it and told by [`CudaDevice::synchronise`]; afterwards the device is of no use. Start at
//! [`CudaDevice::new`].

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::buffers::Buffers;
use super::driver::{CallError, Primary, Stream, encode_tensor_map};
use super::legality::Limits;
use super::module::LoadedModule;
use super::{Context, CudaError, Placement, faults};
use crate::execute::{
    Access, Breach, Buffer, Device, DeviceError, Fault, Image, KernelLaunch, LaunchEnd, Launched,
    LoadEnd, TensorMap, TensorMapEnd,
};
use crate::limits::{POLL_SLEEP_MAX, POLL_SLEEP_MIN, POLL_SPIN};

/// A GPU.
///
/// A buffer is aligned to 256 bytes and padded to as many; the pages around its mapping are
/// unmapped, so that far accesses fault. Kernels can write any buffer: [`Access::ReadOnly`] is not
/// enforced, and whoever wants to know compares the content afterwards.
#[derive(Debug)]
pub struct CudaDevice {
    module: Option<LoadedModule>,
    buffers: Buffers,
    stream: Rc<Stream>,
    context: Rc<Context>,
    launch_deadline: Duration,
    /// The first fault that any call showed.
    fault: RefCell<Option<(Fault, String)>>,
}

impl CudaDevice {
    /// A device without buffers and without a module.
    ///
    /// # Errors
    /// A context that is broken.
    pub fn new(
        context: &Rc<Context>,
        launch_deadline: Duration,
        placement: Placement,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            module: None,
            buffers: Buffers::new(&context.primary, placement)?,
            stream: Rc::new(Stream::new(&context.primary)?),
            context: Rc::clone(context),
            launch_deadline,
            fault: RefCell::new(None),
        })
    }

    /// Queues a launch without waiting; an end if it was not queued: refused, not supported, or
    /// because an earlier launch has faulted.
    ///
    /// # Errors
    /// Only breakage.
    pub fn enqueue(&mut self, launch: &KernelLaunch<'_>) -> Result<Option<LaunchEnd>, DeviceError> {
        let module = self.module.as_ref().ok_or(DeviceError::NotLoaded)?;
        if launch.sampled_blocks.is_some() {
            let why = "only a simulator runs a part of a grid".to_owned();
            return Ok(Some(LaunchEnd::Unsupported(why)));
        }
        if let Some(end) = self.faulted() {
            return Ok(Some(end));
        }
        let Some(entry) = module.entry(launch.entry) else {
            let why = format!("the module has no loaded entry `{}`", launch.entry);
            return Ok(Some(LaunchEnd::Refused(why)));
        };
        if let Some(why) = entry.refusal(&self.limits(), launch) {
            return Ok(Some(LaunchEnd::Refused(why)));
        }
        match entry.start(&self.stream, launch) {
            Ok(()) => Ok(None),
            Err(error) => self.not_queued(error).map(Some),
        }
    }

    fn not_queued(&self, error: CallError) -> Result<LaunchEnd, DeviceError> {
        if let Some(why) = faults::launch_refusal(error.code) {
            return Ok(LaunchEnd::Refused(why));
        }
        self.absorb(error)?;
        self.faulted().ok_or_else(|| error.into())
    }

    /// Waits until everything queued has ended: completed, or the first fault; a hang once the
    /// launch deadline is over, after which nothing of this context can be freed and the process
    /// should end without waiting for the driver.
    ///
    /// # Errors
    /// Only breakage: of the driver, the memory or a link.
    pub fn synchronise(&mut self) -> Result<LaunchEnd, DeviceError> {
        self.wait()?;
        Ok(self.faulted().unwrap_or(LaunchEnd::Completed))
    }

    /// Queues the filling of a buffer.
    ///
    /// # Errors
    /// A buffer of another device, or breakage.
    pub fn fill_async(&mut self, buffer: Buffer, byte: u8) -> Result<(), DeviceError> {
        self.own(buffer)?;
        self.queue(|stream| stream.fill(buffer.address, byte, buffer.bytes))
    }

    /// Queues a copy of all of `from` to the start of `to`.
    ///
    /// # Errors
    /// Buffers of another device, a `to` that is shorter, or breakage.
    pub fn copy_async(&mut self, to: Buffer, from: Buffer) -> Result<(), DeviceError> {
        self.own(to)?;
        self.own(from)?;
        to.check_range(0, from.bytes)?;
        self.queue(|stream| stream.copy(to.address, from.address, from.bytes))
    }

    /// Frees every buffer, after what is queued has ended.
    pub fn free_buffers(&mut self) {
        let _ = self.wait();
        self.buffers.clear();
    }

    /// Device memory that the buffers take with their mappings, in bytes.
    #[must_use]
    pub fn mapped_bytes(&self) -> u64 {
        self.buffers.mapped_bytes()
    }

    pub(super) fn stream(&self) -> &Rc<Stream> {
        &self.stream
    }

    /// Queues something; nothing after a fault, which is kept rather than told.
    pub(super) fn queue(
        &self,
        call: impl FnOnce(&Stream) -> Result<(), CallError>,
    ) -> Result<(), DeviceError> {
        if self.fault.borrow().is_some() {
            return Ok(());
        }
        call(&self.stream).or_else(|error| self.absorb(error))
    }

    /// Keeps the fault that an error stands for; any other error is breakage.
    fn absorb(&self, error: CallError) -> Result<(), DeviceError> {
        let fault = faults::kernel_fault(error.code).ok_or(error)?;
        self.fault.borrow_mut().get_or_insert(fault);
        Ok(())
    }

    fn faulted(&self) -> Option<LaunchEnd> {
        let (fault, message) = self.fault.borrow().clone()?;
        Some(LaunchEnd::Faulted { fault, message, site: None })
    }

    /// Waits until the stream is empty, a fault shows or the deadline is over.
    fn wait(&self) -> Result<(), DeviceError> {
        let start = Instant::now();
        while self.fault.borrow().is_none() {
            match self.stream.is_idle() {
                Ok(true) => break,
                Ok(false) => {}
                Err(error) => return self.absorb(error),
            }
            let waited = start.elapsed();
            if waited >= self.launch_deadline {
                self.primary().abandon();
                let seconds = self.launch_deadline.as_secs_f64();
                let message = format!("the kernel did not end within {seconds} s");
                *self.fault.borrow_mut() = Some((Fault::Hang, message));
            }
            pause(waited);
        }
        Ok(())
    }

    /// Waits; an error if a launch has faulted, because then nothing can be copied.
    fn usable(&self) -> Result<(), DeviceError> {
        self.wait()?;
        match &*self.fault.borrow() {
            Some((_, message)) => Err(DeviceError::Failed(format!("a kernel faulted: {message}"))),
            None => Ok(()),
        }
    }

    fn own(&self, buffer: Buffer) -> Result<(), DeviceError> {
        if self.buffers.own(buffer) {
            return Ok(());
        }
        Err(DeviceError::Failed("the buffer is of another device".to_owned()))
    }

    pub(super) fn primary(&self) -> &Rc<Primary> {
        &self.context.primary
    }

    fn limits(&self) -> Limits {
        let info = self.context.info();
        Limits {
            threads_per_block: u64::try_from(info.max_threads_per_block).unwrap_or(0),
            shared_per_block: u64::try_from(info.shared_per_block_optin).unwrap_or(0),
            clusters: info.compute.0 >= 9,
            cooperative: info.cooperative_launch,
        }
    }
}

/// Spins at first, then sleeps a tenth of what was waited.
fn pause(waited: Duration) {
    if waited < POLL_SPIN {
        std::hint::spin_loop();
    } else {
        std::thread::sleep((waited / 10).clamp(POLL_SLEEP_MIN, POLL_SLEEP_MAX));
    }
}

fn unsupported(what: String) -> Result<LoadEnd, DeviceError> {
    Ok(LoadEnd::Unsupported { what, site: None })
}

impl Device for CudaDevice {
    /// Loads the CUBIN; the module loaded before is unloaded first.
    fn load(&mut self, image: &Image<'_>, entries: &[&str]) -> Result<LoadEnd, DeviceError> {
        self.usable()?;
        self.module = None;
        let error = match LoadedModule::new(self.primary(), image, entries) {
            Ok(module) => {
                self.module = Some(module);
                return Ok(LoadEnd::Loaded);
            }
            Err(error) => error,
        };
        if let Some(why) = faults::load_refusal(error.code) {
            return unsupported(why);
        }
        if faults::is_broken_image(error.code) {
            return Err(DeviceError::Module(CudaError::from(error).to_string()));
        }
        Err(error.into())
    }

    fn allocate(&mut self, name: &str, bytes: u64, _: Access) -> Result<Buffer, DeviceError> {
        if self.fault.borrow().is_some() {
            self.usable()?;
        }
        self.buffers.allocate(&self.context.primary, &self.stream, name, bytes)
    }

    /// Copies into a buffer, after what is queued has ended. Fails after a fault.
    fn upload(&mut self, buffer: Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        buffer.check_range(offset, bytes.len() as u64)?;
        self.own(buffer)?;
        self.usable()?;
        self.queue(|stream| stream.upload(buffer.address + offset, bytes))?;
        self.usable()
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), DeviceError> {
        self.fill_async(buffer, byte)?;
        self.usable()
    }

    /// Copies out, after what is queued has ended. Fails after a fault: the context is gone.
    fn download_part(
        &self,
        buffer: Buffer,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        buffer.check_range(offset, out.len() as u64)?;
        self.own(buffer)?;
        self.usable()?;
        Ok(self.stream.download(out, buffer.address + offset)?)
    }

    /// Queues one launch and waits for it; poison and order are not the GPU's to choose.
    fn launch(&mut self, launch: &KernelLaunch<'_>) -> Result<Launched, DeviceError> {
        let end = match self.enqueue(launch)? {
            Some(end) => end,
            None => self.synchronise()?,
        };
        Ok(Launched { end, counters: None, remarks: Vec::new(), printed: String::new() })
    }

    fn breaches(&self) -> Result<Vec<Breach>, DeviceError> {
        self.usable()?;
        Ok(self.buffers.breaches(&self.stream)?)
    }

    fn is_simulated(&self) -> bool {
        false
    }

    fn encode_tensor_map(&mut self, map: &TensorMap<'_>) -> Result<TensorMapEnd, DeviceError> {
        if self.context.info().compute.0 < 9 {
            return Ok(TensorMapEnd::Unsupported("the GPU has no tensor maps".to_owned()));
        }
        if let Some(flaw) = map.flaw() {
            return Ok(TensorMapEnd::Refused(flaw));
        }
        match encode_tensor_map(map) {
            Ok(bytes) => Ok(TensorMapEnd::Encoded(Box::new(bytes))),
            Err(error) => match faults::launch_refusal(error.code) {
                Some(_) => {
                    let why = format!("the driver refused the tensor map ({:?})", error.code);
                    Ok(TensorMapEnd::Refused(why))
                }
                None => Err(error.into()),
            },
        }
    }
}

impl Drop for CudaDevice {
    fn drop(&mut self) {
        // Freeing waits for kernels without an end; waiting here has one.
        let _ = self.wait();
    }
}
