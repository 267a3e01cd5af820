//! The flat generic address space: tagged buffers and the windows of the other spaces.
//!
//! Buffer `i` starts at `((i + 1) << 36) + 2^35`. The tag survives pointer arithmetic, so an error
//! of up to 32 GiB either way is still attributed to the right buffer, byte exact.

use super::shared_memory::Words;
use super::{Access, MEMORY_BYTES_MAX, MachineError};
use crate::program::ir::ModuleVariable;

/// Bits below the tag.
const TAG_SHIFT: u32 = 36;
/// Where a buffer starts within its tag.
const START: u64 = 1 << 35;
/// Buffers are padded to a multiple of this, as the CUDA allocator does.
const PADDING: u64 = 256;
/// Byte that fills the padding.
const PADDING_BYTE: u8 = 0xff;

/// First generic address of shared memory.
pub(crate) const SHARED_WINDOW: u64 = 1 << 32;
/// First generic address of local memory.
pub(crate) const LOCAL_WINDOW: u64 = 2 << 32;
/// First generic address of entry parameters.
pub(crate) const PARAM_WINDOW: u64 = 3 << 32;
/// Size of each window.
pub(crate) const WINDOW_BYTES: u64 = 1 << 32;
/// Addresses below are taken for null pointers with an offset.
pub(crate) const NULL_PAGE: u64 = 1 << 16;

/// Who made a buffer and what may be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BufferKind {
    User(Access),
    ModuleGlobal,
    ModuleConst,
}

impl BufferKind {
    /// Whether kernels may store.
    pub(crate) fn is_writable(self) -> bool {
        match self {
            BufferKind::User(access) => access == Access::ReadWrite,
            BufferKind::ModuleGlobal => true,
            BufferKind::ModuleConst => false,
        }
    }
}

/// One allocation.
#[derive(Debug)]
pub(crate) struct Buffer {
    pub(crate) name: String,
    pub(crate) base: u64,
    /// Bytes asked for.
    pub(crate) bytes: u64,
    /// Bytes with padding.
    pub(crate) padded: u64,
    pub(crate) kind: BufferKind,
    pub(crate) words: Words,
}

/// All allocations, by tag.
#[derive(Debug, Default)]
pub(crate) struct GlobalMemory {
    buffers: Vec<Option<Buffer>>,
    total: u64,
}

impl GlobalMemory {
    /// Makes a zeroed buffer.
    pub(crate) fn allocate(
        &mut self,
        name: &str,
        bytes: u64,
        kind: BufferKind,
    ) -> Result<u64, MachineError> {
        let refused = || MachineError::OutOfMemory { name: name.to_owned(), bytes };
        let padded = bytes.checked_next_multiple_of(PADDING).ok_or_else(refused)?;
        if padded.saturating_add(self.total) > MEMORY_BYTES_MAX || self.buffers.len() >= 1 << 26 {
            return Err(refused());
        }
        let base = ((self.buffers.len() as u64 + 1) << TAG_SHIFT) + START;
        let mut words = Words::zeroed(padded as usize);
        if let Some(padding) = words.bytes_mut().get_mut(bytes as usize..) {
            padding.fill(PADDING_BYTE);
        }
        self.total += padded;
        let name = name.to_owned();
        self.buffers.push(Some(Buffer { name, base, bytes, padded, kind, words }));
        Ok(base)
    }

    /// Forgets a buffer; its tag is not used again.
    pub(crate) fn release(&mut self, address: u64) {
        let slot = tag(address).and_then(|t| self.buffers.get_mut(t));
        if let Some(buffer) = slot.and_then(Option::take) {
            self.total -= buffer.padded;
        }
    }

    /// Makes the variables of a module and patches addresses into their images.
    pub(crate) fn load_variables(
        &mut self,
        variables: &[ModuleVariable],
    ) -> Result<Vec<u64>, MachineError> {
        let mut addresses = Vec::with_capacity(variables.len());
        for variable in variables {
            let kind =
                if variable.constant { BufferKind::ModuleConst } else { BufferKind::ModuleGlobal };
            let bytes = variable.image.len() as u64;
            addresses.push(self.allocate(&variable.name, bytes, kind)?);
        }
        for (variable, address) in variables.iter().zip(&addresses) {
            let mut image = variable.image.clone();
            for (offset, bytes, target, addend) in &variable.patches {
                let value = addresses.get(*target as usize).copied().unwrap_or(0);
                let value = value.wrapping_add_signed(*addend).to_le_bytes();
                let start = *offset as usize;
                let range = start..start + usize::from(*bytes);
                if let (Some(to), Some(from)) = (image.get_mut(range), value.get(..(*bytes).into()))
                {
                    to.copy_from_slice(from);
                }
            }
            self.host_bytes_mut(*address, image.len())?.copy_from_slice(&image);
        }
        Ok(addresses)
    }

    /// The live buffer that an address is tagged with.
    #[inline(always)]
    pub(crate) fn buffer(&self, address: u64) -> Option<&Buffer> {
        self.buffers.get(tag(address)?)?.as_ref()
    }

    /// Bytes of one buffer, for the host.
    pub(crate) fn host_bytes(&self, address: u64, len: usize) -> Result<&[u8], MachineError> {
        let bad = MachineError::BadRange { address, len };
        let buffer = self.buffer(address).ok_or(bad.clone())?;
        let range = host_range(buffer, address, len).ok_or(bad.clone())?;
        buffer.words.bytes().get(range).ok_or(bad)
    }

    /// Bytes of one buffer, for the host to change.
    pub(crate) fn host_bytes_mut(
        &mut self,
        address: u64,
        len: usize,
    ) -> Result<&mut [u8], MachineError> {
        let bad = MachineError::BadRange { address, len };
        let slot = tag(address).and_then(|t| self.buffers.get_mut(t));
        let buffer = slot.and_then(Option::as_mut).ok_or(bad.clone())?;
        let range = host_range(buffer, address, len).ok_or(bad.clone())?;
        buffer.words.bytes_mut().get_mut(range).ok_or(bad)
    }
}

/// Index of the buffer that an address belongs to.
#[inline(always)]
fn tag(address: u64) -> Option<usize> {
    usize::try_from((address >> TAG_SHIFT).checked_sub(1)?).ok()
}

fn host_range(buffer: &Buffer, address: u64, len: usize) -> Option<std::ops::Range<usize>> {
    let start = address.checked_sub(buffer.base)?;
    let end = start.checked_add(len as u64)?;
    (end <= buffer.bytes).then_some(start as usize..end as usize)
}
