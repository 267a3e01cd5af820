//! A device's buffers: each alone in its mapping, with the rest of the mapping filled and watched.
//!
//! Start at [`Buffers::allocate`] and [`Buffers::breaches`].

use std::rc::Rc;

use super::driver::{CallError, Mapping, Primary, Stream};
use super::faults;
use super::placement::{Layout, Placement, changed};
use crate::execute::{Breach, Buffer, DeviceError};

#[derive(Debug)]
struct Owned {
    name: String,
    mapping: Mapping,
    layout: Layout,
}

/// Every buffer of one device.
#[derive(Debug)]
pub(super) struct Buffers {
    owned: Vec<Owned>,
    granularity: u64,
    placement: Placement,
}

impl Buffers {
    pub(super) fn new(primary: &Primary, placement: Placement) -> Result<Buffers, CallError> {
        Ok(Buffers { owned: Vec::new(), granularity: primary.granularity()?, placement })
    }

    /// Makes a buffer; queues the filling of what surrounds it.
    pub(super) fn allocate(
        &mut self,
        primary: &Rc<Primary>,
        stream: &Stream,
        name: &str,
        bytes: u64,
    ) -> Result<Buffer, DeviceError> {
        let failed = |why: String| DeviceError::Allocate { name: name.to_owned(), bytes, why };
        let layout = Layout::new(bytes, self.granularity, self.placement)
            .ok_or_else(|| failed("no GPU has that much memory".to_owned()))?;
        let refused = |error: CallError| match faults::kernel_fault(error.code) {
            Some((_, message)) => DeviceError::Failed(format!("a kernel faulted: {message}")),
            None => failed(super::CudaError::from(error).to_string()),
        };
        let mapping = Mapping::new(primary, layout.mapped).map_err(refused)?;
        for (start, len) in layout.slack() {
            let address = mapping.start() + start;
            stream.fill(address, self.placement.slack_byte(), len).map_err(refused)?;
        }
        let buffer = Buffer { address: mapping.start() + layout.offset, bytes };
        self.owned.push(Owned { name: name.to_owned(), mapping, layout });
        Ok(buffer)
    }

    /// Whether `buffer` was made here.
    pub(super) fn own(&self, buffer: Buffer) -> bool {
        self.owned.iter().any(|owned| {
            owned.mapping.start() + owned.layout.offset == buffer.address
                && owned.layout.bytes == buffer.bytes
        })
    }

    /// Size of all mappings in bytes.
    pub(super) fn mapped_bytes(&self) -> u64 {
        self.owned.iter().map(|owned| owned.mapping.bytes()).sum()
    }

    pub(super) fn clear(&mut self) {
        self.owned.clear();
    }

    /// What changed around the buffers; waits for the stream.
    pub(super) fn breaches(&self, stream: &Stream) -> Result<Vec<Breach>, CallError> {
        let mut found = Vec::new();
        let mut slack = Vec::new();
        for owned in &self.owned {
            for (start, len) in owned.layout.slack() {
                slack.resize(usize::try_from(len).unwrap_or(0), 0);
                stream.download(&mut slack, owned.mapping.start() + start)?;
                if let Some((first, bytes)) = changed(&slack, self.placement.slack_byte()) {
                    let offset = (start + first) as i64 - owned.layout.offset as i64;
                    found.push(Breach { buffer: owned.name.clone(), offset, bytes });
                }
            }
        }
        Ok(found)
    }
}
