//! What a device does: holds buffers, loads a module, runs launches one after another.
//!
//! A launch that faults is a value ([`LaunchEnd`]); an error is a misuse of the device or a broken
//! machine. Implementations: [`crate::sim`] and [`crate::cuda`]. [`conformance`] is the suite that
//! each must pass.

pub mod conformance;
mod tensor_map;

pub use tensor_map::{TensorMap, TensorMapElement, TensorMapEnd, TensorSwizzle};

/// A device with its memory and at most one loaded module.
///
/// Buffers live as long as the device. After a launch that did not complete, memory holds whatever
/// was written until then, and only [`Device::download`] may follow.
pub trait Device {
    /// Loads a module so that `entries` can be launched; variables of the module start fresh.
    ///
    /// # Errors
    /// An image that is broken, as opposed to one that this device cannot run.
    fn load(&mut self, image: &Image<'_>, entries: &[&str]) -> Result<LoadEnd, DeviceError>;

    /// Makes a buffer; its content is unspecified.
    ///
    /// # Errors
    /// More memory than there is.
    fn allocate(&mut self, name: &str, bytes: u64, access: Access) -> Result<Buffer, DeviceError>;

    /// Copies into a buffer from `offset` on, whatever its access.
    ///
    /// # Errors
    /// A range outside the buffer.
    fn upload(&mut self, buffer: Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Sets every byte of a buffer.
    ///
    /// # Errors
    /// A buffer of another device.
    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), DeviceError>;

    /// Copies a buffer's bytes out, from `offset` on.
    ///
    /// # Errors
    /// A range outside the buffer.
    fn download_part(&self, buffer: Buffer, offset: u64, out: &mut [u8])
    -> Result<(), DeviceError>;

    /// Copies a buffer's first bytes out.
    ///
    /// # Errors
    /// More bytes than the buffer has.
    fn download(&self, buffer: Buffer, out: &mut [u8]) -> Result<(), DeviceError> {
        self.download_part(buffer, 0, out)
    }

    /// What launches wrote beside buffers since these were made, on a device that cannot stop it at
    /// once; elsewhere such a write is a fault and this is empty.
    ///
    /// # Errors
    /// Breakage, or a launch that has faulted.
    fn breaches(&self) -> Result<Vec<Breach>, DeviceError>;

    /// True for a device that counts and never times.
    fn is_simulated(&self) -> bool;

    /// Runs one launch to its end.
    ///
    /// # Errors
    /// Only breakage; everything that the kernel does is in the result.
    fn launch(&mut self, launch: &KernelLaunch<'_>) -> Result<Launched, DeviceError>;

    /// Makes the 128 bytes that a kernel takes as its tensor map; nothing runs.
    ///
    /// # Errors
    /// Only breakage; a map that breaks a limit is [`TensorMapEnd::Refused`].
    fn encode_tensor_map(&mut self, map: &TensorMap<'_>) -> Result<TensorMapEnd, DeviceError>;
}

/// One compiled module.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub ptx: &'a str,
    pub cubin: &'a [u8],
}

/// How loading ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadEnd {
    Loaded,
    /// The device cannot run this module; names the instruction.
    Unsupported {
        what: String,
        /// The instruction's place in the source, where it is known.
        site: Option<Box<ptx_sim::Site>>,
    },
}

/// What device code may do with a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// A buffer of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    pub address: u64,
    pub bytes: u64,
}

impl Buffer {
    /// An error if `bytes` from `offset` on do not lie inside.
    pub(crate) fn check_range(self, offset: u64, bytes: u64) -> Result<(), DeviceError> {
        match offset.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(DeviceError::Range { offset, bytes, buffer_bytes: self.bytes }),
        }
    }
}

/// Bytes outside of buffers that changed, on one side of one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    pub buffer: String,
    /// From the buffer's first byte to the first byte that changed.
    pub offset: i64,
    /// How many bytes changed on this side.
    pub bytes: u64,
}

impl std::fmt::Display for Breach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { buffer, offset, bytes } = self;
        write!(f, "{bytes} bytes beside `{buffer}` were written, first at byte {offset} of it")
    }
}

/// One kernel launch; arguments are the raw bytes of each parameter, little-endian.
#[derive(Clone, Copy, Debug)]
pub struct KernelLaunch<'a> {
    pub entry: &'a str,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub shared_bytes: u32,
    pub cooperative: bool,
    /// May start before the launch before it has ended (programmatic dependent launch).
    pub pdl: bool,
    pub args: &'a [Vec<u8>],
    /// Byte that fills shared memory before each block starts.
    pub shared_poison: u8,
    /// Asks for an unusual order of warps and blocks, where the device can choose one.
    pub reversed: bool,
    /// Linear indices of the blocks to run; `None` runs all. Only a simulator can run a part.
    pub sampled_blocks: Option<&'a [u64]>,
}

/// What a launch did.
#[derive(Clone, Debug, PartialEq)]
pub struct Launched {
    pub end: LaunchEnd,
    /// Counts, where the device counts.
    pub counters: Option<ptx_sim::Counters>,
    pub remarks: Vec<Remark>,
    /// What `printf` wrote, capped; empty where the device does not catch it.
    pub printed: String,
}

/// How a launch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchEnd {
    Completed,
    /// The launch was not legal; nothing ran.
    Refused(String),
    /// This device cannot run it; names what is missing.
    Unsupported(String),
    Faulted {
        fault: Fault,
        message: String,
        /// Where, on a device that knows.
        site: Option<Box<ptx_sim::Site>>,
    },
}

/// Kinds of faults, as far as a verdict depends on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// An access outside every buffer it may touch.
    OutOfBounds,
    /// A write to a buffer that is read-only.
    ReadOnlyWrite,
    /// It did not end within its budget, or can never end.
    Hang,
    /// Anything else: misalignment, a trap, a broken collective.
    Crash,
}

/// Something noticed that did not stop the launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remark {
    pub severity: ptx_sim::Severity,
    pub message: String,
    pub count: u64,
    /// True for a read behind the end of a buffer, inside the padding that follows it.
    pub past_end: bool,
    /// Where it was first noticed, on a device that knows.
    pub site: Option<Box<ptx_sim::Site>>,
}

/// Why a device could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    #[error("buffer `{name}` of {bytes} bytes cannot be had: {why}")]
    Allocate { name: String, bytes: u64, why: String },
    #[error("a copy of {bytes} bytes at {offset} does not fit the buffer of {buffer_bytes}")]
    Range { offset: u64, bytes: u64, buffer_bytes: u64 },
    #[error("the module is broken: {0}")]
    Module(String),
    #[error("no module is loaded")]
    NotLoaded,
    #[error("the device failed: {0}")]
    Failed(String),
}
