//! The device as its user sees it: buffers, module variables, launches.
//!
//! Execution is in `exec`, the bytes themselves in `shared_memory`, the address map in `address`;
//! here are the host side of memory and the checks before a launch.

pub(crate) mod address;
pub(crate) mod checks;
pub(crate) mod shared_memory;

use crate::limits::MEMORY_BYTES_MAX;
use std::sync::Arc;

use crate::exec;
use crate::program::Program;
use crate::program::ir::ProgramData;
use crate::report::LaunchReport;
use crate::target::Target;
use address::{BufferKind, GlobalMemory};

/// What kernels may do with a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Access {
    /// Loads only; a store traps.
    ReadOnly,
    /// Loads and stores.
    ReadWrite,
}

/// Why a request of the host could not be met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// Over the cap on memory.
    #[error(
        "buffer `{name}` of {bytes} bytes exceeds the memory limit of {MEMORY_BYTES_MAX} bytes"
    )]
    OutOfMemory {
        /// Buffer.
        name: String,
        /// Bytes asked for.
        bytes: u64,
    },
    /// The host named bytes outside every buffer.
    #[error("host access of {len} bytes at {address:#x} is outside every buffer")]
    BadRange {
        /// First byte.
        address: u64,
        /// Length in bytes.
        len: usize,
    },
}

/// Which blocks of the grid to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum BlockSelection {
    /// The whole grid.
    #[default]
    All,
    /// These linear block indices, in this order.
    Sample(Vec<u64>),
}

/// One launch.
#[derive(Debug, Clone)]
pub struct Launch<'a> {
    /// Name of the entry.
    pub kernel: &'a str,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Dynamic shared memory, in bytes.
    pub shared_bytes: u32,
    /// One entry for each `.param`, little endian, of exact width.
    pub params: &'a [Vec<u8>],
    /// Warp instructions that all blocks may execute together.
    pub budget: u64,
    /// Which blocks to run.
    pub blocks: BlockSelection,
    /// Byte that fills shared memory before each block starts.
    pub shared_poison: u8,
    /// Whether the launch is co-operative: refused if the grid cannot be resident at once.
    pub cooperative: bool,
    /// Runs the warps of a block, and blocks that do not communicate, in reverse order: a right
    /// kernel gives the same results.
    pub reversed: bool,
    /// Worker threads for blocks that do not communicate; 0 and 1 mean sequential.
    pub threads: usize,
}

/// Memory, module variables and the limits of one target.
#[derive(Debug)]
pub struct Machine {
    target: Target,
    memory: GlobalMemory,
    loaded: Option<Loaded>,
}

/// The program whose module variables exist.
#[derive(Debug)]
struct Loaded {
    program: Arc<ProgramData>,
    /// Address of each module variable, by index.
    addresses: Vec<u64>,
}

impl Machine {
    /// A machine with no buffers.
    pub fn new(target: Target) -> Machine {
        Machine { target, memory: GlobalMemory::default(), loaded: None }
    }

    /// The limits that launches are checked against.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// Makes a buffer of zero bytes and gives its device address, a multiple of 256.
    ///
    /// # Errors
    /// [`MachineError::OutOfMemory`] over [`MEMORY_BYTES_MAX`] in total.
    pub fn allocate(
        &mut self,
        name: &str,
        bytes: usize,
        access: Access,
    ) -> Result<u64, MachineError> {
        self.memory.allocate(name, bytes as u64, BufferKind::User(access))
    }

    /// Copies bytes into a buffer, also a read-only one.
    ///
    /// # Errors
    /// [`MachineError::BadRange`] unless all bytes lie in one buffer.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), MachineError> {
        let target = self.memory.host_bytes_mut(address, bytes.len())?;
        target.copy_from_slice(bytes);
        Ok(())
    }

    /// The bytes of a buffer.
    ///
    /// # Errors
    /// [`MachineError::BadRange`] unless all bytes lie in one buffer.
    pub fn read(&self, address: u64, len: usize) -> Result<&[u8], MachineError> {
        self.memory.host_bytes(address, len)
    }

    /// Sets bytes of a buffer to one value.
    ///
    /// # Errors
    /// [`MachineError::BadRange`] unless all bytes lie in one buffer.
    pub fn fill(&mut self, address: u64, len: usize, byte: u8) -> Result<(), MachineError> {
        self.memory.host_bytes_mut(address, len)?.fill(byte);
        Ok(())
    }

    /// Creates the module variables of a program anew, with their initial values. Those of the
    /// program loaded before are gone; their addresses trap from now on.
    ///
    /// # Errors
    /// [`MachineError::OutOfMemory`] over [`MEMORY_BYTES_MAX`] in total.
    pub fn load(&mut self, program: &Program) -> Result<(), MachineError> {
        if let Some(old) = self.loaded.take() {
            old.addresses.iter().for_each(|a| self.memory.release(*a));
        }
        let data = Arc::clone(&program.data);
        let addresses = self.memory.load_variables(&data.variables)?;
        self.loaded = Some(Loaded { program: data, addresses });
        Ok(())
    }

    /// Address and size in bytes of a loaded `.global` or `.const` variable.
    pub fn variable(&self, name: &str) -> Option<(u64, usize)> {
        let loaded = self.loaded.as_ref()?;
        let index = loaded.program.variables.iter().position(|v| v.name == name)?;
        Some((*loaded.addresses.get(index)?, loaded.program.variables.get(index)?.image.len()))
    }

    /// Runs a kernel. Loads the program first if it is not the one loaded.
    pub fn launch(&mut self, program: &Program, launch: &Launch<'_>) -> LaunchReport {
        let is_loaded =
            self.loaded.as_ref().is_some_and(|l| Arc::ptr_eq(&l.program, &program.data));
        if !is_loaded && let Err(error) = self.load(program) {
            return exec::refused(error.to_string(), launch.budget);
        }
        let addresses = self.loaded.as_ref().map_or(&[][..], |l| &l.addresses);
        match checks::plan(&self.target, &program.data, launch, addresses) {
            Err(reason) => exec::refused(reason, launch.budget),
            Ok(plan) => exec::run(&program.data, &self.memory, &plan),
        }
    }
}
