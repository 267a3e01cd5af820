//! Streams and timing events, destroyed on drop.

use std::ptr;
use std::rc::Rc;

use cudarc::driver::sys;

use super::{CallError, Code, Primary, check};

/// `CU_EVENT_DEFAULT`: the event takes times.
const EVENT_DEFAULT: u32 = 0;
const STREAM_NON_BLOCKING: u32 = 1;

/// The first version of the call: the bindings have only the second, which old drivers lack.
type ElapsedTime = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> sys::CUresult;

/// A stream that does not wait for the default stream.
#[derive(Debug)]
pub(in crate::cuda) struct Stream {
    pub(super) raw: sys::CUstream,
    primary: Rc<Primary>,
}

impl Stream {
    pub(in crate::cuda) fn new(primary: &Rc<Primary>) -> Result<Stream, CallError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` outlives the call, and the context is current on this thread.
        check("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut raw, STREAM_NON_BLOCKING) })?;
        Ok(Stream { raw, primary: Rc::clone(primary) })
    }

    /// Whether everything queued so far has ended.
    pub(in crate::cuda) fn is_idle(&self) -> Result<bool, CallError> {
        // SAFETY: the stream is alive.
        match unsafe { sys::cuStreamQuery(self.raw) } {
            Code::CUDA_ERROR_NOT_READY => Ok(false),
            code => check("cuStreamQuery", code).map(|()| true),
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.primary.is_abandoned() {
            // SAFETY: the stream is alive and not used afterwards.
            let _ = unsafe { sys::cuStreamDestroy_v2(self.raw) };
        }
    }
}

/// An event that takes the time when the stream comes to it.
#[derive(Debug)]
pub(in crate::cuda) struct Event {
    raw: sys::CUevent,
    primary: Rc<Primary>,
}

impl Event {
    pub(in crate::cuda) fn new(primary: &Rc<Primary>) -> Result<Event, CallError> {
        let mut raw = ptr::null_mut();
        // SAFETY: `raw` outlives the call, and the context is current on this thread.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, EVENT_DEFAULT) })?;
        Ok(Event { raw, primary: Rc::clone(primary) })
    }

    pub(in crate::cuda) fn record(&self, stream: &Stream) -> Result<(), CallError> {
        // SAFETY: event and stream are alive and of one context.
        check("cuEventRecord", unsafe { sys::cuEventRecord(self.raw, stream.raw) })
    }

    /// Nanoseconds from `earlier` to this event; both must have passed.
    pub(in crate::cuda) fn since(&self, earlier: &Event) -> Result<u64, CallError> {
        let mut milliseconds = 0f32;
        // SAFETY: the symbol has this type in every driver; both events are alive, and
        // `milliseconds` outlives the call.
        let code = unsafe {
            match sys::culib().get::<ElapsedTime>(c"cuEventElapsedTime".to_bytes_with_nul()) {
                Ok(elapsed) => elapsed(&mut milliseconds, earlier.raw, self.raw),
                Err(_) => Code::CUDA_ERROR_NOT_FOUND,
            }
        };
        check("cuEventElapsedTime", code)?;
        Ok((f64::from(milliseconds) * 1e6).round().max(0.0) as u64)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if !self.primary.is_abandoned() {
            // SAFETY: the event is alive and not used afterwards.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw) };
        }
    }
}
