//! What memory there is here for a case, asked before anything is allocated.
//!
//! What follows from it is decided in [`pipeline::memory`]. A case that is timed may give way down
//! to a smaller shape ([`Judge::fitted_case`]); one that is only run fits or is not available
//! ([`Judge::check_room`]).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pipeline::digest::Digest;
use pipeline::hidden::Dims;
use pipeline::memory::{CaseBytes, Fitted, Memory, Rung, Wanted, WindowWanted, fit};
use pipeline::task::Task;
use pipeline::task::spec::Case;
use pipeline::timing::buffer_sets;
use sandbox::CancelFlag;
use sandbox::wire::{ProbeReport, ProbeRequest};

use crate::cases::lock;
use crate::limits::{
    BIG_ABOVE, CONTENTS, DEVICE_GRAIN, DEVICE_SPARE_BYTES, HOST_SPARE_BYTES, SIMULATED_BYTES_MAX,
    SIMULATED_GRAIN, SLOTS_BYTES_MAX, TILE_BYTES,
};
use crate::{Judge, JudgeError};

/// What a judge may use of this machine's memory, and what it takes for large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryCaps {
    /// Device memory, in bytes; less where less is free.
    pub device_bytes: u64,
    /// Host memory, in bytes, likewise.
    pub host_bytes: u64,
    /// Above so many bytes or elements of one tensor, 32-bit arithmetic goes wrong.
    pub big_above: u64,
    /// Expected values that the host holds at once where they come in tiles, in bytes.
    pub tile_bytes: u64,
}

impl Default for MemoryCaps {
    fn default() -> Self {
        Self {
            device_bytes: u64::MAX,
            host_bytes: u64::MAX,
            big_above: BIG_ABOVE,
            tile_bytes: TILE_BYTES,
        }
    }
}

/// What a judge found out about memory so far.
#[derive(Debug, Default)]
pub(crate) struct KnownMemory {
    pub(crate) caps: MemoryCaps,
    /// Free on a card when nothing of ours runs there, in bytes.
    device_free: Mutex<Option<u64>>,
    /// Shapes are decided once: times at different ones cannot be compared.
    fitted: Mutex<HashMap<String, Result<Fitted, String>>>,
}

/// A case as it can be timed here.
#[derive(Clone, Debug)]
pub(crate) struct FittedCase<'a> {
    pub(crate) case: Cow<'a, Case>,
    pub(crate) fitted: Fitted,
}

impl Judge {
    /// The same judge with other caps: so that a test sees what gives way where memory is short.
    #[must_use]
    pub fn with_memory(mut self, caps: MemoryCaps) -> Self {
        self.memory = Arc::new(KnownMemory { caps, ..KnownMemory::default() });
        self
    }

    /// Identity of caps that are not everybody's.
    pub(crate) fn memory_hash(&self, hash: Digest) -> Digest {
        match self.memory.caps {
            caps if caps == MemoryCaps::default() => hash,
            caps => {
                let text = format!("{caps:?}");
                Digest::of_parts("judge with caps", &[hash.to_string().as_bytes(), text.as_bytes()])
            }
        }
    }

    /// What may be used now of device and host.
    pub(crate) fn free_memory(&self, cancel: &CancelFlag) -> Result<Memory, JudgeError> {
        let caps = &self.memory.caps;
        let host = less_spare(host_free(), HOST_SPARE_BYTES);
        let device = self.device_free(cancel)?;
        Ok(Memory { device: device.min(caps.device_bytes), host: host.min(caps.host_bytes) })
    }

    /// What the driver calls free on a card that is leased meanwhile, less a spare.
    fn device_free(&self, cancel: &CancelFlag) -> Result<u64, JudgeError> {
        if self.config.gpus.is_none() {
            return Ok(SIMULATED_BYTES_MAX);
        }
        let mut known = lock(&self.memory.device_free);
        if let Some(bytes) = *known {
            return Ok(bytes);
        }
        loop {
            let lease = self.lease(cancel)?;
            let lease = lease.ok_or_else(|| JudgeError::NotAvailable("no GPU".to_owned()))?;
            match self.probe(&ProbeRequest::FreeMemory, &[], &lease, cancel) {
                Ok(ProbeReport::FreeMemory(bytes)) => {
                    return Ok(*known.insert(less_spare(bytes, DEVICE_SPARE_BYTES)));
                }
                Ok(_) => {
                    let why = "it answered another question".to_owned();
                    return Err(JudgeError::Child { child: "probe", why });
                }
                // A card that does not work is parked, and there may be another.
                Err(JudgeError::NotAvailable(_)) if !self.check_health(&lease, cancel)? => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What every allocation of the device here is a multiple of.
    pub(crate) fn grain(&self) -> u64 {
        match self.config.gpus {
            Some(_) => DEVICE_GRAIN,
            None => SIMULATED_GRAIN,
        }
    }

    /// A case as it can be timed here: as it is, or smaller. The task alone decides, never what a
    /// candidate wants besides. The inner error says why it cannot be timed at all.
    pub(crate) fn fitted_case<'a>(
        &self,
        task: &Task,
        case: &'a Case,
        cancel: &CancelFlag,
    ) -> Result<Result<FittedCase<'a>, String>, JudgeError> {
        let key = format!("{} {:?}", task.hash, case.dims);
        let known = lock(&self.memory.fitted).get(&key).cloned();
        let found = match known {
            Some(found) => found,
            None => {
                let found = self.fit_case(task, case, self.free_memory(cancel)?);
                lock(&self.memory.fitted).entry(key).or_insert(found).clone()
            }
        };
        Ok(found.map(|fitted| FittedCase { case: shaped(case, &fitted), fitted }))
    }

    pub(crate) fn fit_case(
        &self,
        task: &Task,
        case: &Case,
        free: Memory,
    ) -> Result<Fitted, String> {
        let spec = &task.spec;
        let least = |dim: &str| spec.hidden.ranges.get(dim).map_or(1, |[low, _]| *low);
        if self.config.gpus.is_none() {
            // Only counted: nothing is expected, and the host holds no tensor of it.
            let wanted = Wanted { contents: 0, kept_outputs: 0, window: None, ..self.wanted(0) };
            let bytes_at = |dims: &Dims| {
                let bytes = CaseBytes::of(spec, dims, self.grain()).ok()?;
                Some(CaseBytes { expected: 0, ..bytes })
            };
            return fit(&case.dims, &wanted, free, &least, &bytes_at);
        }
        let bytes_at = |dims: &Dims| CaseBytes::of(spec, dims, self.grain()).ok();
        let set_bytes = bytes_at(&case.dims).map_or(0, |it| it.inputs.saturating_add(it.outputs));
        let sets = buffer_sets(set_bytes, self.l2_bytes());
        fit(&case.dims, &self.wanted(sets), free, &least, &bytes_at)
    }

    /// What timing the headline of a task takes here, rung by rung: for who wants each taken.
    #[must_use]
    pub fn headline_needs(&self, task: &Task) -> Vec<(Rung, Memory)> {
        let Some(case) = task.spec.headline() else { return Vec::new() };
        let Ok(bytes) = CaseBytes::of(&task.spec, &case.dims, self.grain()) else {
            return Vec::new();
        };
        let sets = buffer_sets(bytes.inputs.saturating_add(bytes.outputs), self.l2_bytes());
        let wanted = self.wanted(sets);
        Rung::ALL.map(|rung| (rung, wanted.need(&bytes, rung))).to_vec()
    }

    /// What a window with so many buffer sets wants.
    pub(crate) fn wanted(&self, sets: u32) -> Wanted {
        // The timer writes twice the cache, and reads as much of other memory.
        let flush_bytes = self.l2_bytes().saturating_mul(4).saturating_add(4 * DEVICE_GRAIN);
        Wanted {
            contents: CONTENTS as u64,
            kept_outputs: CONTENTS as u64,
            kept_bytes_max: SLOTS_BYTES_MAX,
            tile_bytes: self.memory.caps.tile_bytes,
            window: Some(WindowWanted { sets, flush_bytes }),
        }
    }

    /// The cache of the cards here, in bytes.
    pub(crate) fn l2_bytes(&self) -> u64 {
        let sheet = self.config.gpus.as_ref().and_then(|gpus| gpus.sheets.first());
        sheet.map_or(&self.config.device, |sheet| &sheet.facts).l2_bytes.unsigned_abs()
    }

    /// Refuses runs that do not fit into memory together, before anything is made for them. Each
    /// has its case and whether its content is new: one that several runs have is there once.
    ///
    /// # Errors
    /// [`JudgeError::NotAvailable`] where they do not fit.
    pub(crate) fn check_room<'c>(
        &self,
        task: &Task,
        runs: impl Iterator<Item = (&'c Case, bool)>,
        cancel: &CancelFlag,
    ) -> Result<(), JudgeError> {
        let free = self.free_memory(cancel)?;
        let mut need = Memory { device: 0, host: 0 };
        let wanted = Wanted { kept_outputs: 1, window: None, ..self.wanted(0) };
        for (case, is_new) in runs {
            let Ok(bytes) = CaseBytes::of(&task.spec, &case.dims, self.grain()) else {
                continue;
            };
            let wanted = Wanted { contents: u64::from(is_new), ..wanted };
            let own = wanted.need(&bytes, Rung::Everything);
            need.device = need.device.max(own.device);
            need.host = need.host.saturating_add(own.host);
            if !need.fits(free) {
                let case = &case.name;
                return Err(JudgeError::NotAvailable(format!(
                    "the case `{case}` takes {} bytes of device memory, of which {} are free, and \
                     with the runs before it {} of host memory, of which {} are free",
                    own.device, free.device, need.host, free.host
                )));
            }
        }
        Ok(())
    }
}

/// What is left when others get a spare; of little, not all is the others'.
fn less_spare(free: u64, spare: u64) -> u64 {
    free - spare.min(free / 4)
}

fn shaped<'a>(case: &'a Case, fitted: &Fitted) -> Cow<'a, Case> {
    if fitted.dims == case.dims {
        return Cow::Borrowed(case);
    }
    Cow::Owned(Case { dims: fitted.dims.clone(), ..case.clone() })
}

/// Host memory that this process and its children can still have, in bytes: what the kernel calls
/// available, or what a control group leaves. What cannot be read does not limit.
fn host_free() -> u64 {
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let machine = read("/proc/meminfo").and_then(|text| field(&text, "MemAvailable:"));
    let machine = machine.map_or(u64::MAX, |kib| kib.saturating_mul(1024));
    let group = |folder: &str, limit: &str, used: &str, idle: &str| {
        let number = |file: &str| read(&format!("{folder}/{file}"))?.trim().parse::<u64>().ok();
        let stat = read(&format!("{folder}/memory.stat"))?;
        let idle = field(&stat, idle).unwrap_or(0);
        Some(number(limit)?.saturating_sub(number(used)?.saturating_sub(idle)))
    };
    let unified = group("/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ");
    let (limit, used) = ("memory.limit_in_bytes", "memory.usage_in_bytes");
    let legacy = group("/sys/fs/cgroup/memory", limit, used, "total_inactive_file ");
    [Some(machine), unified, legacy].into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// The first number behind a name at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{field, host_free, less_spare};

    #[test]
    fn numbers_are_found_by_their_names() {
        let text = "MemTotal:       24688632 kB\nMemAvailable:   22010432 kB\n";
        assert_eq!(field(text, "MemAvailable:"), Some(22_010_432));
        assert_eq!(field(text, "Mem"), None);
        assert_eq!(field("inactive_file 4096\n", "inactive_file "), Some(4096));
        assert_eq!(field("", "MemAvailable:"), None);
        assert_eq!([0, 100, 1 << 33].map(|free| less_spare(free, 1 << 30)), [0, 75, 7 << 30]);
        // Every machine that runs this has some.
        assert!(host_free() > 1 << 20 && host_free() < u64::MAX);
    }
}
