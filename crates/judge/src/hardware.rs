//! What GPUs there are, and what one of them can do: probes in children, never in this process.

use std::path::Path;
use std::process::Command;

use pipeline::hardware::{Ceilings, HardwareSheet};
use sandbox::wire::{ProbeReport, ProbeRequest, Slice};
use sandbox::{CancelFlag, ChildKind};

use crate::children::Call;
use crate::gpu::{Lease, reported, sealed};
use crate::limits::{PATTERN_BYTES, PROBE_LIMITS};
use crate::{ConfinementConfig, Judge, JudgeError};

/// Lists the GPUs of this machine, without ceilings. Needs no lease: no context is made.
///
/// # Errors
/// [`JudgeError::NotAvailable`] without a driver or GPU.
pub fn find_gpus(
    program: &Path,
    environment: &[(String, String)],
    confinement: &ConfinementConfig,
) -> Result<Vec<HardwareSheet>, JudgeError> {
    make_device_nodes();
    let kind = ChildKind::Probe;
    let confinement = confinement.of_child(kind, true, environment);
    let limits = &PROBE_LIMITS;
    let call = Call { program, watched_by: &[], kind, limits, environment, confinement };
    let performed = call.perform(&ProbeRequest::List, &[], &CancelFlag::default())?;
    match reported(performed.end)? {
        ProbeReport::Gpus(sheets) => Ok(sheets),
        _ => Err(unexpected()),
    }
}

/// After a start of the machine the driver's devices are made by the first program that needs them,
/// with a helper that runs as root whoever calls it. A confined child may not call it.
fn make_device_nodes() {
    let driver = Path::new("/proc/driver/nvidia/version");
    if driver.exists() && !Path::new("/dev/nvidia-uvm").exists() {
        // Where it fails, the child says what is missing.
        let _ = Command::new("nvidia-modprobe").args(["-c", "0", "-u"]).status();
    }
}

/// What a probe says while it works.
pub type Probing<'a> = &'a dyn Fn(&str);

impl Judge {
    /// Measures every card of this judge, one after the other; each is leased meanwhile.
    ///
    /// # Errors
    /// A card that cannot be measured.
    pub fn measure_gpus(
        &self,
        probing: Probing<'_>,
        cancel: &CancelFlag,
    ) -> Result<Vec<HardwareSheet>, JudgeError> {
        let Some(config) = &self.config.gpus else { return Ok(Vec::new()) };
        let mut sheets = Vec::new();
        // One at a time: whoever holds one card and waits for another may wait for ever.
        for (index, sheet) in config.sheets.iter().enumerate() {
            let lease = self.pool.lease(config, Some(index), cancel)?;
            probing(&format!("measuring {} ({})", sheet.facts.model, sheet.uuid));
            let ceilings = self.measure(&lease, cancel)?;
            sheets.push(HardwareSheet { ceilings: Some(ceilings), ..sheet.clone() });
        }
        Ok(sheets)
    }

    fn measure(&self, lease: &Lease<'_>, cancel: &CancelFlag) -> Result<Ceilings, JudgeError> {
        let harness = self.harness(cancel)?;
        let slice = Slice { bulk: 0, offset: 0, bytes: harness.bytes() as u64 };
        let request = ProbeRequest::Ceilings { harness: slice };
        let ProbeReport::Ceilings(ceilings) = self.probe(&request, &[&*harness], lease, cancel)?
        else {
            return Err(unexpected());
        };
        if let Some(flaw) = ceilings.flaw() {
            let uuid = &lease.sheet.uuid;
            return Err(JudgeError::NotAvailable(format!(
                "{uuid} could not be measured: {flaw}; does another program use it?"
            )));
        }
        Ok(Ceilings { memory_scrubbed: self.memory_is_scrubbed(lease, cancel)?, ..*ceilings })
    }

    /// One process leaves a pattern in memory, the next one looks for it.
    fn memory_is_scrubbed(
        &self,
        lease: &Lease<'_>,
        cancel: &CancelFlag,
    ) -> Result<bool, JudgeError> {
        let bytes = PATTERN_BYTES;
        self.probe(&ProbeRequest::LeavePattern { bytes }, &[], lease, cancel)?;
        let harness = self.harness(cancel)?;
        let slice = Slice { bulk: 0, offset: 0, bytes: harness.bytes() as u64 };
        let request = ProbeRequest::ScanForPattern { bytes, harness: slice };
        match self.probe(&request, &[&*harness], lease, cancel)? {
            ProbeReport::PatternFound(words) => Ok(words == 0),
            _ => Err(unexpected()),
        }
    }

    /// The cubin of the program's own kernels.
    ///
    /// # Errors
    /// A compiler that fails on them.
    pub fn harness_cubin(&self, cancel: &CancelFlag) -> Result<Vec<u8>, JudgeError> {
        Ok(self.harness(cancel)?.map()?.to_vec())
    }

    /// Does something with a card that nobody else uses meanwhile.
    ///
    /// # Errors
    /// No card to be had.
    pub fn with_gpu<T>(
        &self,
        cancel: &CancelFlag,
        work: impl FnOnce(&HardwareSheet) -> T,
    ) -> Result<T, JudgeError> {
        let lease = self.lease(cancel)?;
        let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
        Ok(work(lease.sheet))
    }

    /// Runs one test of the suite that every device must pass, in a process of its own.
    ///
    /// # Errors
    /// A child that gives no report; what the test found is the value.
    pub fn conformance(
        &self,
        test: &str,
        ptx: &[u8],
        cubin: &[u8],
        cancel: &CancelFlag,
    ) -> Result<Option<String>, JudgeError> {
        let lease = self.lease(cancel)?;
        let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
        let whole = |bulk, bytes: &[u8]| Slice { bulk, offset: 0, bytes: bytes.len() as u64 };
        let request = ProbeRequest::Conformance {
            test: test.to_owned(),
            ptx: whole(0, ptx),
            cubin: whole(1, cubin),
        };
        let bulk = [sealed("ptx", ptx)?, sealed("cubin", cubin)?];
        match self.probe(&request, &[&bulk[0], &bulk[1]], &lease, cancel)? {
            ProbeReport::Conformance(failure) => Ok(failure),
            _ => Err(unexpected()),
        }
    }
}

fn unexpected() -> JudgeError {
    let why = "it answered another question".to_owned();
    JudgeError::Child { child: "probe", why }
}
