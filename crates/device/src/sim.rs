//! The simulator as a device: PTX runs on the CPU, every access is checked, everything is counted.
//!
//! No times come out of here. Start at [`SimDevice::new`].

use ptx_sim::{
    BlockSelection, DecodeError, FindingKind, Launch, LaunchReport, Machine, Outcome, Program,
    Site, Target, TrapKind,
};

use crate::execute::{
    Access, Breach, Buffer, Device, DeviceError, Fault, Image, KernelLaunch, LaunchEnd, Launched,
    LoadEnd, Remark, TensorMap, TensorMapEnd,
};

/// A simulated GPU.
#[derive(Debug)]
pub struct SimDevice {
    machine: Machine,
    program: Option<Program>,
    /// Warp instructions that one launch may execute.
    launch_budget: u64,
}

impl SimDevice {
    /// A device of the given architecture, such as `sm_90a`.
    ///
    /// # Errors
    /// An architecture that the simulator does not know.
    pub fn new(arch: &str, launch_budget: u64) -> Result<Self, DeviceError> {
        let target = Target::for_arch(arch)
            .ok_or_else(|| DeviceError::Failed(format!("the simulator does not know `{arch}`")))?;
        Ok(Self { machine: Machine::new(target), program: None, launch_budget })
    }
}

fn lacking(why: &str, site: Option<Site>) -> LoadEnd {
    let source = site.as_ref().and_then(|site| site.source.as_ref());
    let place = source.map_or_else(String::new, |source| format!(", at {source}"));
    LoadEnd::Unsupported { what: format!("{why}{place}"), site: site.map(Box::new) }
}

fn unsupported_site(error: DecodeError) -> Option<Site> {
    let DecodeError::Unsupported { instruction, ptx_line, source_location, kernel } = error else {
        return None;
    };
    Some(Site {
        kernel,
        source: source_location,
        ptx_line,
        ptx_text: instruction,
        ..Site::default()
    })
}

/// Limits of an architecture such as `sm_90a`; `None` when the simulator does not know it.
#[must_use]
pub fn limits(arch: &str) -> Option<Target> {
    Target::for_arch(arch)
}

impl Device for SimDevice {
    fn load(&mut self, image: &Image<'_>, entries: &[&str]) -> Result<LoadEnd, DeviceError> {
        // The compiler accepted this module, so what cannot be read or decoded is lacking here.
        let module = match ptx_sim::syntax::parse(image.ptx) {
            Ok(module) => module,
            Err(error) => return Ok(lacking(&error.to_string(), None)),
        };
        let program = match Program::decode(&module, entries) {
            Ok(program) => program,
            Err(error @ DecodeError::Malformed { .. }) => {
                return Ok(lacking(&error.to_string(), None));
            }
            Err(error @ DecodeError::Unsupported { .. }) => {
                return Ok(lacking(&error.to_string(), unsupported_site(error)));
            }
            Err(error @ DecodeError::NoEntry { .. }) => {
                return Err(DeviceError::Module(error.to_string()));
            }
        };
        self.machine.load(&program).map_err(|error| DeviceError::Failed(error.to_string()))?;
        self.program = Some(program);
        Ok(LoadEnd::Loaded)
    }

    fn allocate(&mut self, name: &str, bytes: u64, access: Access) -> Result<Buffer, DeviceError> {
        let failed = |why: String| DeviceError::Allocate { name: name.to_owned(), bytes, why };
        let access = match access {
            Access::ReadOnly => ptx_sim::Access::ReadOnly,
            Access::ReadWrite => ptx_sim::Access::ReadWrite,
        };
        let len = usize::try_from(bytes).map_err(|error| failed(error.to_string()))?;
        let allocated = self.machine.allocate(name, len, access);
        let address = allocated.map_err(|error| failed(error.to_string()))?;
        Ok(Buffer { address, bytes })
    }

    fn upload(&mut self, buffer: Buffer, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        buffer.check_range(offset, bytes.len() as u64)?;
        self.machine
            .write(buffer.address + offset, bytes)
            .map_err(|error| DeviceError::Failed(error.to_string()))
    }

    fn fill(&mut self, buffer: Buffer, byte: u8) -> Result<(), DeviceError> {
        self.machine
            .fill(buffer.address, buffer.bytes as usize, byte)
            .map_err(|error| DeviceError::Failed(error.to_string()))
    }

    fn download_part(
        &self,
        buffer: Buffer,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), DeviceError> {
        buffer.check_range(offset, out.len() as u64)?;
        let bytes = self.machine.read(buffer.address + offset, out.len());
        out.copy_from_slice(bytes.map_err(|error| DeviceError::Failed(error.to_string()))?);
        Ok(())
    }

    fn breaches(&self) -> Result<Vec<Breach>, DeviceError> {
        Ok(Vec::new())
    }

    fn is_simulated(&self) -> bool {
        true
    }

    fn launch(&mut self, launch: &KernelLaunch<'_>) -> Result<Launched, DeviceError> {
        if launch.cluster != [1, 1, 1] {
            let end = LaunchEnd::Unsupported("clusters are not simulated".to_owned());
            return Ok(Launched {
                end,
                counters: None,
                remarks: Vec::new(),
                printed: String::new(),
            });
        }
        let program = self.program.as_ref().ok_or(DeviceError::NotLoaded)?;
        let blocks = launch
            .sampled_blocks
            .map_or(BlockSelection::All, |blocks| BlockSelection::Sample(blocks.to_vec()));
        let report = self.machine.launch(
            program,
            &Launch {
                kernel: launch.entry,
                grid: launch.grid,
                block: launch.block,
                shared_bytes: launch.shared_bytes,
                params: launch.args,
                budget: self.launch_budget,
                blocks,
                shared_poison: launch.shared_poison,
                cooperative: launch.cooperative,
                reversed: launch.reversed,
                threads: 1,
            },
        );
        Ok(launched(report))
    }

    fn encode_tensor_map(&mut self, _: &TensorMap<'_>) -> Result<TensorMapEnd, DeviceError> {
        Ok(TensorMapEnd::Unsupported("tensor maps are not simulated".to_owned()))
    }
}

fn launched(report: LaunchReport) -> Launched {
    let end = match report.outcome {
        Outcome::Completed => LaunchEnd::Completed,
        Outcome::Refused(why) => LaunchEnd::Refused(why),
        Outcome::Trapped(trap) => LaunchEnd::Faulted {
            fault: fault(trap.kind),
            message: trap.message,
            site: Some(Box::new(trap.site)),
        },
    };
    let remarks = report.findings.into_iter().map(|finding| Remark {
        severity: finding.kind.severity(),
        message: finding.message,
        count: finding.count,
        past_end: finding.kind == FindingKind::PaddingRead,
        site: Some(Box::new(finding.site)),
    });
    Launched {
        end,
        counters: Some(report.counters),
        remarks: remarks.collect(),
        printed: report.printed,
    }
}

fn fault(kind: TrapKind) -> Fault {
    match kind {
        TrapKind::OutOfBounds | TrapKind::PaddingWrite | TrapKind::Unallocated => {
            Fault::OutOfBounds
        }
        TrapKind::ReadOnlyWrite => Fault::ReadOnlyWrite,
        TrapKind::Budget | TrapKind::Deadlock => Fault::Hang,
        TrapKind::Misaligned | TrapKind::Collective | TrapKind::TrapInstruction => Fault::Crash,
        TrapKind::Assertion | TrapKind::StackOverflow => Fault::Crash,
    }
}
